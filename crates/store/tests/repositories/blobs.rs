//! Tests of blobs: content stored under its hash.

use cleveragents_domain::{
    ChangesetId, ContentHash, FileMode, FileState, InvocationOutcome, NewChange, Operation, PlanId,
    Timestamp, ToolInvocation, ToolInvocationId,
};
use cleveragents_store::{Engine, Error, blobs, changesets, invocations, plans};
use cleveragents_testkit::{TestDatabase, at_once, proof_size};
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::test_runner::{Config, TestRunner};

fn put(engine: &Engine, content: &[u8]) -> ContentHash {
    let content = content.to_vec();
    engine
        .write(move |unit| blobs::put(unit, &content))
        .expect("stored")
}

fn get(engine: &Engine, hash: ContentHash) -> Result<Option<Vec<u8>>, Error> {
    engine.read(|reader| blobs::get(reader, hash))
}

fn collect(engine: &Engine) -> u64 {
    engine.write(blobs::collect).expect("collected")
}

/// Random bytes, and repeated bytes, which compress well.
fn contents() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        vec(any::<u8>(), 0..3000),
        (vec(any::<u8>(), 1..20), 1..500_usize).prop_map(|(piece, times)| piece.repeat(times)),
        Just(Vec::new()),
    ]
}

#[test]
fn any_content_is_read_back_unchanged() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let cases = u32::try_from(proof_size(60, 3000)).expect("a small number");
        let config = Config {
            cases,
            failure_persistence: None,
            ..Config::default()
        };
        TestRunner::new(config)
            .run(&contents(), |content| {
                let hash = put(&engine, &content);
                assert_eq!(hash, ContentHash::of_bytes(&content));
                assert_eq!(get(&engine, hash), Ok(Some(content)));
                Ok(())
            })
            .expect("holds on both databases");
        assert_eq!(
            get(&engine, ContentHash::of_bytes(b"never stored")),
            Ok(None)
        );
    }
}

#[test]
fn equal_content_is_stored_once() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let content = b"the same ".repeat(1000);
        let hashes = at_once(16, |_| put(&engine, &content));
        assert!(hashes.iter().all(|hash| *hash == hashes[0]));
        assert_eq!(database.count("SELECT COUNT(*) FROM blobs"), 1);
    }
}

#[test]
fn only_compressible_content_is_stored_compressed() {
    let noise: Vec<u8> = (0..1000_u32)
        .flat_map(|number| {
            ContentHash::of_bytes(&number.to_le_bytes())
                .to_string()
                .into_bytes()
        })
        .filter(u8::is_ascii_digit)
        .collect();
    let random: Vec<u8> = noise
        .chunks(3)
        .map(|part| {
            part.iter()
                .fold(0, |sum, digit| sum * 10_u8.wrapping_add(*digit))
        })
        .collect();
    for database in TestDatabase::each() {
        let engine = database.open();
        put(&engine, &b"again and ".repeat(5000));
        put(&engine, b"short");
        put(&engine, &random);
        let mut stored =
            database.ask("SELECT encoding, size, LENGTH(content) FROM blobs ORDER BY size");
        let repeated = stored.pop().expect("three rows");
        assert_eq!(stored[0], ["raw", "5", "5"]);
        assert_eq!(repeated[..2], ["zstd", "50000"]);
        assert!(
            repeated[2].parse::<u64>().expect("a size") < 500,
            "{repeated:?}"
        );
        let (size, length) = (&stored[1][1], &stored[1][2]);
        assert!(length.parse::<u64>().expect("a size") <= size.parse().expect("a size"));
    }
}

#[test]
fn altered_content_is_detected() {
    for database in TestDatabase::each() {
        let engine = database.open();
        for content in [b"raw".to_vec(), b"compressed ".repeat(200)] {
            let hash = put(&engine, &content);
            let literal = if database.kind == "sqlite" {
                "x'00ff'"
            } else {
                "'\\x00ff'"
            };
            database.execute_sql(&format!(
                "UPDATE blobs SET content = {literal} WHERE hash = '{hash}'"
            ));
            let altered = Err(Error::Blob {
                hash: hash.to_string(),
                problem: "altered",
            });
            assert_eq!(get(&engine, hash), altered, "on {}", database.kind);
        }
        // An altered stored length affects the decompressor.
        let hash = put(&engine, &b"another ".repeat(200));
        database.execute_sql(&format!("UPDATE blobs SET size = 10 WHERE hash = '{hash}'"));
        assert!(matches!(get(&engine, hash), Err(Error::Blob { .. })));
    }
}

#[test]
fn unreferenced_content_is_collected_after_its_grace_period() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let (plan, changeset) = (PlanId::generate(), ChangesetId::generate());
        let unused = put(&engine, b"unused");
        let output = put(&engine, b"output of a tool");
        let log = put(&engine, b"the log of a call");
        let before = put(&engine, b"before a change");
        let after = put(&engine, b"after a change");
        assert_eq!(collect(&engine), 0, "all of it is new");
        let state = |hash| FileState {
            hash,
            size: 1,
            mode: FileMode::REGULAR,
        };
        let operation = Operation::Modify {
            before: state(before),
            after: state(after),
        };
        let change = NewChange::new("code", "a.txt", operation).expect("a change");
        let invocation = ToolInvocation {
            id: ToolInvocationId::generate(),
            plan: None,
            session: None,

            turn: None,
            call_id: None,
            tool: "builtin/shell".to_owned(),
            arguments: serde_json::json!({}),
            outcome: InvocationOutcome::Succeeded,
            output: Some(output),
            log: Some(log),
            media_type: None,
            error: None,

            reason: None,
            is_repeatable: false,
            started_at: Timestamp::now(),
            finished_at: Some(Timestamp::now()),
        };
        engine
            .write(move |unit| {
                plans::insert(unit, &plans::NewPlan::empty(plan))?;
                changesets::open(unit, changeset, Some(plan))?;
                changesets::record(unit, changeset, &change)?;
                invocations::insert(unit, &invocation)
            })
            .expect("stored");

        database.execute_sql("UPDATE blobs SET created_at = 0");
        let unreferenced = engine.read(|reader| blobs::unreferenced(reader, Timestamp::now()));
        assert_eq!(unreferenced, Ok((1, 6)));
        // Storing it again starts a new grace period.
        put(&engine, b"unused");
        assert_eq!(collect(&engine), 0);
        database.execute_sql("UPDATE blobs SET created_at = 0");
        assert_eq!(collect(&engine), 1, "on {}", database.kind);
        assert_eq!(get(&engine, unused), Ok(None));
        for kept in [output, log, before, after] {
            assert!(
                get(&engine, kept).expect("read").is_some(),
                "still referenced"
            );
        }
        let checks = engine.check().expect("checked");
        assert!(
            checks
                .iter()
                .all(|check| check.severity == cleveragents_store::Severity::Ok)
        );

        database.execute_sql(&format!("DELETE FROM plans WHERE plan_id = '{plan}'"));
        assert_eq!(collect(&engine), 2, "the plan was deleted");
    }
}
