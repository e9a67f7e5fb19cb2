//! Sessions: no message is lost, duplicated, misnumbered or half stored under concurrency.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cleveragents_application::{
    Answer, EXPORT_SCHEMA, Failure, ImportCheck, Question, SessionError, SessionService,
};
use cleveragents_domain::{
    Code, ContentError, DEFAULT_MAX_CONTENT_BYTES, Diagnose, LinkedPlan, Message, MessageId,
    MessageState, Metadata, MicroUsd, PlanId, Role, Sequence, Session, SessionId, SessionName,
    Timestamp, TokenUsage, Tokens, Version,
};
use cleveragents_store::search::Scope;
use cleveragents_store::sessions::{ExpectedVersion, SessionFilter};
use cleveragents_store::{DatabaseUrl, EngineCache, Options, ProgressCallback};
use cleveragents_testkit::{
    Child, TestDatabase, at_once, child_input, proof_size, send_line, wait_for_release,
};
use proptest::collection::{btree_map, vec};
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

fn service(database: &TestDatabase) -> SessionService {
    SessionService::new(database.open(), DEFAULT_MAX_CONTENT_BYTES)
}

fn create(service: &SessionService) -> SessionId {
    service.create(None, None, "supervised").expect("stored").id
}

fn append(
    service: &SessionService,
    id: SessionId,
    text: impl Into<String>,
) -> Result<u64, SessionError> {
    service
        .append_message(id, Role::User, text.into(), Metadata::new())
        .map(|stored| stored.sequence.0)
}

fn all_messages(service: &SessionService, id: SessionId) -> Vec<Message> {
    service
        .messages(id, Sequence(0), u64::from(u32::MAX))
        .expect("read")
}

/// Asserts that all numbers from 0 occur once, and that the messages of each writer are in order.
fn assert_complete_and_in_order(messages: &[Message], writers: usize, each: usize) {
    let numbers: Vec<u64> = messages.iter().map(|message| message.sequence.0).collect();
    assert_eq!(
        numbers,
        (0..(writers * each) as u64).collect::<Vec<_>>(),
        "no gap, no duplicate"
    );
    let mut next: BTreeMap<&str, usize> = BTreeMap::new();
    for message in messages {
        let (writer, number) = message.content.split_once('/').expect("writer/number");
        let expected = next.entry(writer).or_default();
        assert_eq!(
            number.parse(),
            Ok(*expected),
            "in the order of writer {writer}"
        );
        *expected += 1;
    }
    assert_eq!(next.len(), writers);
}

#[test]
fn defect_7326_many_threads_appending_get_consecutive_numbers() {
    const THREADS: usize = 64;
    let each = proof_size(50, 500);
    for database in TestDatabase::each() {
        // Two engines, as two processes would have.
        let services = [service(&database), service(&database)];
        let id = create(&services[0]);
        let received = at_once(THREADS, |thread| {
            (0..each)
                .map(|number| {
                    let text = format!("{thread}/{number}");
                    append(&services[thread % 2], id, &text).map(|sequence| (sequence, text))
                })
                .collect::<Result<Vec<_>, _>>()
                .expect("no append fails")
        });
        let stored = all_messages(&services[0], id);
        assert_complete_and_in_order(&stored, THREADS, each);
        for (sequence, text) in received.concat() {
            let index = usize::try_from(sequence).expect("small");
            assert_eq!(
                stored[index].content, text,
                "each got the number of its own message"
            );
        }
        let session = services[1].get(id).expect("there");
        assert_eq!(session.message_count, (THREADS * each) as u64);
        let bytes: usize = stored.iter().map(|message| message.content.len()).sum();
        assert_eq!(session.content_bytes, bytes as u64);
    }
}

/// A child process that appends a number of messages and prints the number of each once it is
/// durable.
fn append_from_child(input: &str) {
    let mut parts = input.split(' ');
    let mut next = || parts.next().expect("four parts");
    let url = DatabaseUrl::parse(next(), Path::new("/")).expect("a URL");
    let id: SessionId = next().parse().expect("a session");
    let (writer, count) = (next().to_owned(), next().parse::<usize>().expect("a count"));
    let engine = EngineCache::new(Options::default())
        .open(&url)
        .expect("opens");
    let service = SessionService::new(engine, DEFAULT_MAX_CONTENT_BYTES);
    wait_for_release();
    for number in 0..count {
        send_line(append(&service, id, format!("{writer}/{number}")).expect("stored"));
    }
}

#[test]
fn defect_7326_many_processes_appending_get_consecutive_numbers() {
    if let Some(input) = child_input() {
        return append_from_child(&input);
    }
    let (processes, each) = (8, proof_size(25, 400));
    for database in TestDatabase::each() {
        let service = service(&database);
        let id = create(&service);
        let printed = Child::race(
            processes,
            "defect_7326_many_processes_appending_get_consecutive_numbers",
            |writer| format!("{} {id} {writer} {each}", database.url),
        );
        assert_complete_and_in_order(&all_messages(&service, id), processes, each);
        let mut numbers: Vec<u64> = printed
            .concat()
            .iter()
            .map(|line| line.parse().expect("a number"))
            .collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..(processes * each) as u64).collect::<Vec<_>>());
    }
}

#[test]
fn acknowledged_messages_survive_a_kill_and_numbering_continues() {
    if let Some(input) = child_input() {
        return append_from_child(&input);
    }
    for database in TestDatabase::each() {
        let service = service(&database);
        let id = create(&service);
        let mut acknowledged: Vec<(u64, String)> = Vec::new();
        for round in 0..proof_size(4, 100) {
            let mut child = Child::start(
                "acknowledged_messages_survive_a_kill_and_numbering_continues",
                &format!("{} {id} {round} 1000000", database.url),
            );
            assert_eq!(child.read_line().as_deref(), Some("ready"));
            child.release();
            for number in 0..3 + round * 7 % 23 {
                let sequence = child.read_line().expect("it runs until it is killed");
                let sequence: u64 = sequence.parse().expect("a number");
                acknowledged.push((sequence, format!("{round}/{number}")));
            }
            child.kill();
            let stored = all_messages(&service, id);
            for (sequence, text) in &acknowledged {
                let index = usize::try_from(*sequence).expect("small");
                assert_eq!(&stored[index].content, text, "acknowledged and stored");
            }
            let numbers: Vec<u64> = stored.iter().map(|message| message.sequence.0).collect();
            assert_eq!(
                numbers,
                (0..stored.len() as u64).collect::<Vec<_>>(),
                "no gap"
            );
            let next = append(&service, id, "afterwards").expect("the next append succeeds");
            // PostgreSQL may still complete the last transaction of the killed client.
            assert!(next >= stored.len() as u64 && next <= stored.len() as u64 + 1);
        }
        let checks = database.open().check().expect("checked");
        assert!(
            checks
                .iter()
                .all(|check| check.severity == cleveragents_store::Severity::Ok),
            "{checks:?}"
        );
    }
}

fn usage(input: u64, output: u64, cost: u64) -> TokenUsage {
    TokenUsage {
        input_tokens: Tokens(input),
        output_tokens: Tokens(output),
        cost_micro_usd: MicroUsd(cost),
    }
}

fn question(text: &str) -> Question {
    Question {
        content: text.to_owned(),
        metadata: Metadata::new(),
    }
}

fn answer(text: &str) -> Answer {
    Answer {
        content: text.to_owned(),
        metadata: Metadata::new(),
        usage: usage(3, 5, 7),
    }
}

#[test]
fn defect_6701_a_turn_is_stored_whole_or_marked_failed() {
    for database in TestDatabase::each() {
        let service = service(&database);
        let id = create(&service);
        let stored = service
            .append_turn(id, question("why?"), Ok(answer("because")))
            .expect("stored");
        assert_eq!(
            stored
                .iter()
                .map(|stored| stored.sequence.0)
                .collect::<Vec<_>>(),
            [0, 1]
        );
        let failed = service
            .append_turn(
                id,
                question("and now?"),
                Err(Failure("the model\0 is gone".to_owned())),
            )
            .expect("stored");
        assert_eq!(failed.len(), 1);

        // If the answer cannot be stored, neither question nor answer is stored.
        let bad = service.append_turn(id, question("hello?"), Ok(answer(" ")));
        assert!(
            matches!(bad, Err(SessionError::Content(ContentError::Empty))),
            "{bad:?}"
        );
        let large = "x".repeat(DEFAULT_MAX_CONTENT_BYTES + 1);
        let bad = service.append_turn(id, question("hello?"), Ok(answer(&large)));
        assert!(
            matches!(
                bad,
                Err(SessionError::Content(ContentError::TooLarge { .. }))
            ),
            "{bad:?}"
        );
        let bad = service.append_turn(SessionId::generate(), question("hello?"), Ok(answer("x")));
        assert!(matches!(bad, Err(SessionError::NotFound(_))), "{bad:?}");

        let messages = all_messages(&service, id);
        let shape: Vec<_> = messages
            .iter()
            .map(|message| (message.role, message.state, message.content.as_str()))
            .collect();
        assert_eq!(
            shape,
            [
                (Role::User, MessageState::Complete, "why?"),
                (Role::Assistant, MessageState::Complete, "because"),
                (Role::User, MessageState::Failed, "and now?"),
            ]
        );
        assert!(
            messages[2].metadata["turn_error"]
                .as_str()
                .expect("a reason")
                .contains("is gone")
        );
        assert_eq!(
            service.get(id).expect("there").usage,
            usage(3, 5, 7),
            "only of stored answers"
        );
    }
}

/// Turns and single messages from many threads: question and answer of a turn stay together.
#[test]
fn defect_6701_nothing_comes_between_the_halves_of_a_turn() {
    for database in TestDatabase::each() {
        let service = service(&database);
        let id = create(&service);
        let each = proof_size(20, 500);
        at_once(8, |thread| {
            for number in 0..each {
                let text = format!("{thread}/{number}");
                if thread % 2 == 0 {
                    service
                        .append_turn(id, question(&text), Ok(answer(&text)))
                        .expect("stored");
                } else {
                    append(&service, id, text).expect("stored");
                }
            }
        });
        let messages = all_messages(&service, id);
        assert_eq!(messages.len(), 4 * each * 2 + 4 * each);
        for (index, message) in messages.iter().enumerate() {
            if message.role == Role::Assistant {
                assert_eq!(
                    messages[index - 1].content,
                    message.content,
                    "on {}",
                    database.kind
                );
                assert_eq!(messages[index - 1].role, Role::User);
            }
        }
        let turns = 4 * each as u64;
        assert_eq!(
            service.get(id).expect("there").usage,
            usage(3 * turns, 5 * turns, 7 * turns)
        );
    }
}

#[test]
fn a_batch_is_stored_atomically() {
    for database in TestDatabase::each() {
        let service = service(&database);
        let id = create(&service);
        let message = |text: &str| service.message(Role::Tool, text.to_owned(), Metadata::new());
        let batch = ["a", "b", "c"]
            .map(|text| message(text).expect("a message"))
            .to_vec();
        let stored = service.append_messages(id, batch).expect("stored");
        assert_eq!(
            stored
                .iter()
                .map(|stored| stored.sequence.0)
                .collect::<Vec<_>>(),
            [0, 1, 2]
        );
        assert!(
            service
                .append_messages(id, Vec::new())
                .expect("nothing to do")
                .is_empty()
        );
        assert_eq!(service.get(id).expect("there").message_count, 3);
        let nowhere =
            service.append_messages(SessionId::generate(), vec![message("d").expect("ok")]);
        assert!(matches!(nowhere, Err(SessionError::NotFound(_))));
        assert_eq!(database.count("SELECT COUNT(*) FROM messages"), 3);
    }
}

#[test]
fn invalid_messages_are_refused_and_change_nothing() {
    let database = TestDatabase::sqlite();
    let service = SessionService::new(database.open(), 100);
    let id = create(&service);
    let before = service.get(id).expect("there");
    for (text, code) in [
        ("", Code::EmptyContent),
        (" \n\t\u{a0}", Code::EmptyContent),
        (&"x".repeat(101), Code::ContentTooLarge),
        (&"ü".repeat(51), Code::ContentTooLarge),
        ("a\0b", Code::UnstorableContent),
    ] {
        let error = append(&service, id, text).expect_err("refused");
        assert_eq!(error.code(), code, "{text:?}");
        assert!(error.hint().is_some());
    }
    append(&service, id, "x".repeat(100)).expect("as large as allowed");
    let heavy = Metadata::from_iter([("key".to_owned(), json!("x".repeat(200)))]);
    let error = service
        .append_message(id, Role::User, "x".into(), heavy)
        .expect_err("refused");
    assert_eq!(error.code(), Code::ContentTooLarge);
    assert_eq!(
        service.get(id).expect("there").message_count,
        before.message_count + 1
    );
}

/// Accepted metadata can be read back; other metadata is refused.
#[test]
fn deeply_nested_metadata_never_makes_a_session_unreadable() {
    for database in TestDatabase::each() {
        let service = service(&database);
        for depth in [1, 10, 60, 100, 120, 124, 126, 128, 130, 300] {
            let id = create(&service);
            let nested = (0..depth).fold(json!(1), |inner, _| json!([inner]));
            let metadata = Metadata::from_iter([("nested".to_owned(), nested)]);
            match service.append_message(id, Role::User, "deep".into(), metadata.clone()) {
                Ok(_) => {
                    assert_eq!(
                        all_messages(&service, id)[0].metadata,
                        metadata,
                        "depth {depth}"
                    );
                    let file = export(&service, id);
                    service
                        .import(&file, ImportCheck::Verified, None, None)
                        .expect("importable");
                }
                Err(error) => {
                    assert!(depth > 50, "depth {depth}: {error}");
                    assert_eq!(error.code(), Code::InvalidMetadata, "{error}");
                }
            }
            append(&service, id, "afterwards").expect("stored");
            service
                .messages(id, Sequence(0), 10)
                .expect("the session can be read");
        }
    }
}

fn export(service: &SessionService, id: SessionId) -> Vec<u8> {
    let mut file = Vec::new();
    let summary = service.export_json(id, &mut file, None).expect("exported");
    assert_eq!(summary.size_bytes, file.len() as u64);
    let checksum = summary.checksum.expect("a checksum").to_string();
    assert!(String::from_utf8_lossy(&file).contains(&checksum));
    file
}

/// Asserts that two sessions are equal except for their ids.
fn assert_same_session(service: &SessionService, left: SessionId, right: SessionId) {
    let [first, second] = [left, right].map(|id| service.get(id).expect("there"));
    assert_eq!(Session { id: left, ..second }, first);
}

/// Messages without their ids.
fn contents(service: &SessionService, id: SessionId) -> Vec<Value> {
    all_messages(service, id)
        .into_iter()
        .map(|message| {
            json!([
                message.sequence,
                message.role,
                message.state,
                message.content,
                message.metadata,
                message.created_at,
            ])
        })
        .collect()
}

/// JSON of any shape, with texts and numbers of any kind.
fn documents() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>()
            .prop_filter("JSON has no such number", |number| number.is_finite())
            .prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(any::<String>(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

type GeneratedMessage = (Role, String, BTreeMap<String, Value>);

fn conversations() -> impl Strategy<Value = Vec<GeneratedMessage>> {
    let role = prop_oneof![
        Just(Role::User),
        Just(Role::Assistant),
        Just(Role::System),
        Just(Role::Tool)
    ];
    let text = prop_oneof![
        any::<String>(),
        "[\\x01-\\x7f]{1,40}",
        Just("```\n# \"}]},\n  \"checksum\": \"sha256:".to_owned()),
        Just("\u{2028}\u{feff}\u{202e}\r\n\u{1b}[31m🦀e\u{301}".to_owned()),
    ]
    .prop_filter("a message has content", |text| {
        !text.trim().is_empty() && !text.contains('\0')
    });
    vec(
        (role, text, btree_map(any::<String>(), documents(), 0..3)),
        0..6,
    )
}

#[test]
fn defect_6418_an_import_equals_what_was_exported_in_every_field() {
    for database in TestDatabase::each() {
        let service = service(&database);
        let cases = u32::try_from(proof_size(30, 1000)).expect("a small number");
        let config = Config {
            cases,
            failure_persistence: None,
            ..Config::default()
        };
        TestRunner::new(config)
            .run(
                &(conversations(), any::<[u32; 3]>()),
                |(conversation, numbers)| {
                    let [input, output, cost] = numbers.map(u64::from);
                    let name: SessionName = "odd \"name\"; 'quoted' 🦀".parse().expect("a name");
                    let actor = "openai/gpt-5".parse().expect("an actor");
                    let id = service
                        .create(Some(name), Some(actor), "manual")
                        .expect("stored")
                        .id;
                    let has_messages = !conversation.is_empty();
                    for (role, text, metadata) in conversation {
                        let metadata = metadata.into_iter().collect();
                        service
                            .append_message(id, role, text, metadata)
                            .expect("stored");
                    }
                    if has_messages {
                        service
                            .append_turn(id, question("?"), Err(Failure("no answer".to_owned())))
                            .expect("stored");
                    }
                    service
                        .record_usage(id, usage(input, output, cost))
                        .expect("recorded");
                    for state in ["queued", "it's; \"done\""] {
                        let plan = LinkedPlan {
                            plan_id: PlanId::generate(),
                            phase: "execute".to_owned(),
                            state: state.to_owned(),
                        };
                        service.link_plan(id, plan).expect("linked");
                    }
                    let file = export(&service, id);
                    let imported = service
                        .import(&file, ImportCheck::Verified, None, None)
                        .expect("imported");
                    assert_eq!(
                        (imported.original, imported.schema.as_str()),
                        (id, EXPORT_SCHEMA)
                    );
                    let copy = imported.session.id;
                    assert_ne!(copy, id);
                    assert_eq!(contents(&service, copy), contents(&service, id));
                    let [one, other] = [id, copy].map(|id| service.view(id, 3).expect("there"));
                    assert_eq!(one.plans, other.plans);
                    let same = Session {
                        id,
                        ..other.session
                    };
                    assert_eq!(same, one.session, "on {}", database.kind);
                    // An export of the import differs only in ids.
                    let again = export(&service, copy);
                    assert_eq!(again.len(), file.len());
                    Ok(())
                },
            )
            .expect("holds on both databases");
    }
}

#[test]
fn a_fork_exports_and_imports_with_its_origin() {
    for database in TestDatabase::each() {
        let service = service(&database);
        let id = create(&service);
        append(&service, id, "one").expect("stored");
        let fork = service.fork(id, None, None, None).expect("forked");
        let file = export(&service, fork.id);
        let copy = service
            .import(&file, ImportCheck::Verified, None, None)
            .expect("imported")
            .session;
        assert_eq!(copy.forked_from, Some((id, Sequence(0))));
        assert_same_session(&service, fork.id, copy.id);
    }
}

fn small_export(service: &SessionService) -> Vec<u8> {
    let name: SessionName = "small".parse().expect("a name");
    let id = service
        .create(Some(name), None, "supervised")
        .expect("stored")
        .id;
    let metadata = Metadata::from_iter([("key".to_owned(), json!({"x": 1.5}))]);
    service
        .append_message(id, Role::User, "hello \"you\"".into(), metadata)
        .expect("stored");
    service.record_usage(id, usage(1, 2, 3)).expect("recorded");
    export(service, id)
}

#[test]
fn defect_7345_every_single_changed_byte_of_an_export_is_refused() {
    for database in TestDatabase::each() {
        let service = service(&database);
        let file = small_export(&service);
        let sessions = || database.count("SELECT COUNT(*) FROM sessions");
        let before = sessions();
        let refuse = |altered: &[u8], description: &str| match service.import(
            altered,
            ImportCheck::Verified,
            None,
            None,
        ) {
            Err(
                SessionError::ImportAltered { .. }
                | SessionError::ImportMalformed(_)
                | SessionError::ImportNewer { .. },
            ) => {}
            other => panic!("{description}: {other:?}"),
        };
        let mut altered = file.clone();
        for position in 0..file.len() {
            let byte = file[position];
            for other in [
                byte ^ 1,
                byte ^ 0x20,
                byte ^ 0x80,
                0,
                b' ',
                b'0',
                b'"',
                b'\n',
                0xff,
            ] {
                if other != byte {
                    altered[position] = other;
                    refuse(&altered, &format!("byte {position} {byte} → {other}"));
                }
            }
            altered[position] = byte;
            refuse(&file[..position], &format!("cut at {position}"));
            let without = [&file[..position], &file[position + 1..]].concat();
            refuse(&without, &format!("without byte {position}"));
            let with = [&file[..position], b" ", &file[position..]].concat();
            refuse(&with, &format!("a space at {position}"));
        }
        refuse(&[&file[..], b"\n"].concat(), "a line more");
        refuse(&[&file[..], &file[..]].concat(), "twice");
        assert_eq!(sessions(), before, "nothing was stored");
        service
            .import(&file, ImportCheck::Verified, None, None)
            .expect("the unchanged file is valid");
        assert_eq!(sessions(), before + 1);
    }
}

#[test]
fn a_changed_export_can_be_imported_without_verification_but_not_an_invalid_one() {
    let database = TestDatabase::sqlite();
    let service = service(&database);
    let text = String::from_utf8(small_export(&service)).expect("text");
    let changed = text.replace("hello", "goodbye");
    let imported = service
        .import(changed.as_bytes(), ImportCheck::Unverified, None, None)
        .expect("not verified");
    assert_eq!(
        all_messages(&service, imported.session.id)[0].content,
        "goodbye \"you\""
    );
    let before = database.count("SELECT COUNT(*) FROM sessions");
    for (from, to) in [
        ("\"role\":\"user\"", "\"role\":\"robot\""),
        ("\"sequence\":0", "\"sequence\":1"),
        ("\"message_count\": 1", "\"message_count\": 2"),
        ("\"namespace\"", "\"surprise\""),
        ("hello \\\"you\\\"", " "),
        ("\"name\": \"small\"", "\"name\": \"\""),
        ("\"messages\"", "\"massages\""),
    ] {
        assert!(text.contains(from), "{from} in {text}");
        let wrong = text.replace(from, to);
        let outcome = service.import(wrong.as_bytes(), ImportCheck::Unverified, None, None);
        assert!(outcome.is_err(), "{from} → {to}: {outcome:?}");
    }
    assert_eq!(
        database.count("SELECT COUNT(*) FROM sessions"),
        before,
        "nothing was stored"
    );
}

#[test]
fn an_export_of_a_newer_program_is_refused_as_such() {
    let database = TestDatabase::sqlite();
    let service = service(&database);
    let text = String::from_utf8(small_export(&service)).expect("text");
    let field = format!("\"schema_version\": \"{EXPORT_SCHEMA}\"");
    assert!(text.contains(&field));
    for newer in ["1.1", "2.0", "10.0", "1.10"] {
        let file = text.replace(&field, &format!("\"schema_version\": \"{newer}\""));
        for check in [ImportCheck::Verified, ImportCheck::Unverified] {
            match service.import(file.as_bytes(), check, None, None) {
                Err(error @ SessionError::ImportNewer { .. }) => {
                    assert_eq!(error.code(), Code::ImportNewer);
                    assert_eq!(error.details()["found"], newer);
                }
                other => panic!("{newer}: {other:?}"),
            }
        }
    }
    for odd in ["\"0.9\"", "\"x\"", "7", "null", "\"\""] {
        let file = text.replace(&field, &format!("\"schema_version\": {odd}"));
        assert!(
            service
                .import(file.as_bytes(), ImportCheck::Unverified, None, None)
                .is_err(),
            "{odd}"
        );
    }
    for junk in [&b""[..], b"{}", b"[]", b"null", b"not json", &[0xff, 0xfe]] {
        let outcome = service.import(junk, ImportCheck::Unverified, None, None);
        assert!(
            matches!(outcome, Err(SessionError::ImportMalformed(_))),
            "{outcome:?}"
        );
    }
}

/// A long session is exported and imported in parts; the reported progress grows.
#[test]
fn a_long_session_is_exported_as_a_snapshot_and_imported_completely() {
    let count = proof_size(2_500, 50_000);
    for database in TestDatabase::each() {
        let service = service(&database);
        let id = create(&service);
        let batch = (0..count)
            .map(|number| {
                service
                    .message(Role::User, format!("w/{number}"), Metadata::new())
                    .expect("ok")
            })
            .collect();
        service.append_messages(id, batch).expect("stored");
        let is_over = AtomicBool::new(false);
        let file = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::SeqCst) {
                    append(&service, id, "meanwhile").expect("stored");
                }
            });
            let file = export(&service, id);
            is_over.store(true, Ordering::SeqCst);
            file
        });
        let steps = Arc::new(std::sync::Mutex::new(Vec::new()));
        let progress: ProgressCallback = {
            let steps = Arc::clone(&steps);
            Arc::new(move |done, total| steps.lock().expect("ok").push((done, total)))
        };
        let copy = service
            .import(&file, ImportCheck::Verified, None, Some(progress))
            .expect("imported");
        let imported = all_messages(&service, copy.session.id);
        assert_eq!(imported.len() as u64, copy.session.message_count);
        assert!(imported.len() >= count);
        let original = contents(&service, id);
        assert_eq!(
            contents(&service, copy.session.id),
            original[..imported.len()]
        );
        let steps = steps.lock().expect("ok").clone();
        assert!(steps.is_sorted() && steps.len() > 1, "{steps:?}");
        assert_eq!(
            steps.last(),
            Some(&(imported.len() as u64, imported.len() as u64))
        );
    }
}

#[test]
fn a_markdown_export_contains_all_messages() {
    for database in TestDatabase::each() {
        let service = service(&database);
        let name: SessionName = "pipes | in names".parse().expect("a name");
        let id = service
            .create(Some(name), None, "supervised")
            .expect("stored")
            .id;
        service
            .append_turn(id, question("why?"), Ok(answer("because\nof that")))
            .expect("stored");
        service
            .append_turn(id, question("and?"), Err(Failure("gone".into())))
            .expect("stored");
        let mut file = Vec::new();
        let summary = service
            .export_markdown(id, &mut file, None)
            .expect("exported");
        let text = String::from_utf8(file).expect("text");
        assert_eq!(summary.size_bytes, text.len() as u64);
        assert_eq!((summary.messages, summary.checksum), (3, None));
        for part in [
            "# pipes \\| in names",
            "## 0 user",
            "## 1 assistant",
            "because\nof that",
            "## 2 user (failed)",
            "| Input tokens | 3 |",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(matches!(
            service.export_markdown(SessionId::generate(), &mut Vec::new(), None),
            Err(SessionError::NotFound(_))
        ));
        assert!(matches!(
            service.export_json(SessionId::generate(), &mut Vec::new(), None),
            Err(SessionError::NotFound(_))
        ));
    }
}

/// Writing an export can fail, for example because the disk is full or the pipe is closed.
#[test]
fn an_unwritable_export_is_an_error() {
    struct FullDisk(usize);
    impl std::io::Write for FullDisk {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            if self.0 == 0 {
                return Err(std::io::ErrorKind::StorageFull.into());
            }
            let written = bytes.len().min(self.0);
            self.0 -= written;
            Ok(written)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let database = TestDatabase::sqlite();
    let service = service(&database);
    let id = create(&service);
    append(&service, id, "hello").expect("stored");
    let size = export(&service, id).len();
    for room in 0..size {
        let outcome = service.export_json(id, &mut FullDisk(room), None);
        assert!(
            matches!(outcome, Err(SessionError::Write(_))),
            "room for {room}: {outcome:?}"
        );
    }
    service
        .export_json(id, &mut FullDisk(size), None)
        .expect("just enough room");
}

#[test]
fn a_fork_has_the_messages_up_to_a_number_with_new_ids() {
    for database in TestDatabase::each() {
        let service = service(&database);
        let name: SessionName = "original".parse().expect("a name");
        let id = service
            .create(Some(name.clone()), None, "manual")
            .expect("stored")
            .id;
        let count = 1_200;
        let batch = (0..count)
            .map(|number| {
                service
                    .message(Role::User, format!("w/{number}"), Metadata::new())
                    .expect("ok")
            })
            .collect();
        service.append_messages(id, batch).expect("stored");
        service
            .append_turn(id, question("?"), Err(Failure("gone".into())))
            .expect("stored");
        let before = contents(&service, id);
        for at in [Some(0), Some(499), Some(500), Some(1199), None] {
            let fork = service
                .fork(id, at.map(Sequence), None, None)
                .expect("forked");
            let expected = at.map_or(before.len(), |at| usize::try_from(at).expect("small") + 1);
            assert_eq!(contents(&service, fork.id), before[..expected], "at {at:?}");
            assert_eq!(fork.message_count, expected as u64);
            assert_eq!(fork.forked_from, Some((id, Sequence(expected as u64 - 1))));
            assert_eq!(
                (fork.name.as_ref(), fork.automation.as_str()),
                (Some(&name), "manual")
            );
            assert_eq!(
                fork.usage,
                TokenUsage::default(),
                "the usage belongs to the original"
            );
            let ids = |id| -> BTreeSet<MessageId> {
                all_messages(&service, id)
                    .into_iter()
                    .map(|message| message.id)
                    .collect()
            };
            assert!(ids(fork.id).is_disjoint(&ids(id)), "new ids");
        }
        assert_eq!(contents(&service, id), before, "the original is unchanged");
        let renamed = service.fork(
            id,
            Some(Sequence(3)),
            Some("other".parse().expect("ok")),
            None,
        );
        let renamed = renamed.expect("forked");
        assert_eq!(
            renamed.name.map(|name| name.to_string()).as_deref(),
            Some("other")
        );
        assert_eq!(
            append(&service, renamed.id, "on its own").expect("stored"),
            4
        );

        match service.fork(id, Some(Sequence(count + 1)), None, None) {
            Err(SessionError::MessageNotFound {
                sequence,
                count: held,
                ..
            }) => {
                assert_eq!((sequence, held), (count + 1, count + 1));
            }
            other => panic!("{other:?}"),
        }
        let empty = create(&service);
        let fork = service.fork(empty, None, None, None).expect("forked");
        assert_eq!((fork.message_count, fork.forked_from), (0, None));
        let missing = service.fork(SessionId::generate(), None, None, None);
        assert!(
            matches!(missing, Err(SessionError::NotFound(_))),
            "{missing:?}"
        );
    }
}

/// After damage a session may lack messages in its middle.
#[test]
fn a_fork_of_a_session_with_a_gap_has_each_message_once() {
    for database in TestDatabase::each() {
        let service = service(&database);
        let id = create(&service);
        for number in 0..10 {
            append(&service, id, format!("w/{number}")).expect("stored");
        }
        database.execute_sql(&format!(
            "DELETE FROM messages WHERE session_id = '{id}' AND sequence IN (2, 3, 4)"
        ));
        let texts = |id| -> Vec<String> {
            all_messages(&service, id)
                .into_iter()
                .map(|message| message.content)
                .collect()
        };
        let fork = service.fork(id, None, None, None).expect("forked");
        assert_eq!(texts(fork.id), texts(id), "on {}", database.kind);
        let fork = service
            .fork(id, Some(Sequence(5)), None, None)
            .expect("forked");
        assert_eq!(
            texts(fork.id),
            ["w/0", "w/1", "w/5"],
            "on {}",
            database.kind
        );
    }
}

/// A fork and the deletion of its source race: the fork is complete or does not exist.
#[test]
fn a_fork_of_a_session_that_is_being_deleted_is_complete_or_refused() {
    for database in TestDatabase::each() {
        let services = [service(&database), service(&database)];
        let count = 1_500;
        for _ in 0..proof_size(6, 100) {
            let id = create(&services[0]);
            let batch = (0..count)
                .map(|number| {
                    services[0]
                        .message(Role::User, format!("w/{number}"), Metadata::new())
                        .expect("ok")
                })
                .collect();
            services[0].append_messages(id, batch).expect("stored");
            let forks = at_once(2, |thread| {
                if thread == 0 {
                    services[0].delete(id).expect("deleted");
                    return None;
                }
                Some(services[1].fork(id, None, None, None))
            });
            match forks.into_iter().flatten().next().expect("one forked") {
                Ok(fork) => {
                    assert_eq!(fork.message_count, count, "on {}", database.kind);
                    assert_eq!(all_messages(&services[0], fork.id).len() as u64, count);
                }
                Err(error) => assert!(matches!(error, SessionError::NotFound(_)), "{error}"),
            }
        }
    }
}

#[test]
fn a_session_can_be_renamed_and_is_not_found_after_its_deletion() {
    for database in TestDatabase::each() {
        let service = service(&database);
        let id = create(&service);
        append(&service, id, "hello").expect("stored");
        let name = |text: &str| text.parse::<SessionName>().expect("a name");
        let renamed = service
            .rename(id, name("first"), ExpectedVersion::Any)
            .expect("renamed");
        assert_eq!(
            (renamed.name, renamed.version),
            (Some(name("first")), Version(2))
        );
        let renamed = service
            .rename(id, name("second"), ExpectedVersion::Exactly(Version(2)))
            .expect("renamed");
        assert_eq!(
            (renamed.name, renamed.version),
            (Some(name("second")), Version(3))
        );
        let stale = service
            .rename(id, name("third"), ExpectedVersion::Exactly(Version(2)))
            .expect_err("stale");
        assert_eq!(stale.code(), Code::VersionConflict);
        assert_eq!(service.get(id).expect("there").name, Some(name("second")));

        let deleted = service.delete(id).expect("deleted");
        assert_eq!((deleted.id, deleted.message_count), (id, 1));
        let outcomes = [
            service.get(id).map(drop),
            service.delete(id).map(drop),
            service
                .rename(id, name("x"), ExpectedVersion::Any)
                .map(drop),
            service
                .rename(id, name("x"), ExpectedVersion::Exactly(Version(3)))
                .map(drop),
            append(&service, id, "x").map(drop),
            service.messages(id, Sequence(0), 1).map(drop),
            service.view(id, 1).map(drop),
            service.record_usage(id, usage(1, 1, 1)),
            service.resolve(&id.to_string()).map(drop),
            service.link_plan(
                id,
                LinkedPlan {
                    plan_id: PlanId::generate(),
                    phase: "x".into(),
                    state: "y".into(),
                },
            ),
        ];
        for outcome in outcomes {
            assert_eq!(
                outcome.expect_err("it is deleted").code(),
                Code::SessionNotFound
            );
        }
        assert_eq!(database.count("SELECT COUNT(*) FROM messages"), 0);
    }
}

#[test]
fn a_reference_is_an_id_a_prefix_or_a_name() {
    for database in TestDatabase::each() {
        let service = service(&database);
        let name = |text: &str| Some(text.parse::<SessionName>().expect("a name"));
        let alone = create(&service);
        for length in [6, 8, 25] {
            let prefix = &alone.to_string()[..length];
            assert_eq!(service.resolve(prefix).expect("the only one"), alone);
        }
        service.delete(alone).expect("deleted");
        let twins = [0, 1].map(|_| {
            service
                .create(name("twin"), None, "manual")
                .expect("stored")
                .id
        });
        let single = service
            .create(name("single"), None, "manual")
            .expect("stored")
            .id;
        for id in [twins[0], twins[1], single] {
            let text = id.to_string();
            assert_eq!(service.resolve(&text).expect("complete"), id);
            assert_eq!(
                service.resolve(&text.to_lowercase()).expect("in any case"),
                id
            );
        }
        assert_eq!(service.resolve("single").expect("by name"), single);
        match service.resolve("twin") {
            Err(error @ SessionError::Ambiguous { .. }) => {
                assert_eq!(error.code(), Code::AmbiguousSession);
                assert_eq!(error.code().kind().exit_code(), 2);
                let details = error.details();
                let candidates = details["candidates"].as_array().expect("a list");
                let ids: Vec<&str> = candidates
                    .iter()
                    .map(|candidate| candidate["id"].as_str().expect("an id"))
                    .collect();
                assert_eq!(ids, twins.map(|id| id.to_string()));
            }
            other => panic!("{other:?}"),
        }
        // The sessions were created at the same time, so their ids share a prefix.
        let shared = &single.to_string()[..6];
        match service.resolve(shared) {
            Err(SessionError::Ambiguous { candidates, .. }) => assert_eq!(candidates.len(), 3),
            other => panic!("{other:?}"),
        }
        for unknown in [
            "nobody",
            "01",
            "",
            "7ZZZZZZZ",
            "01J9ZC5V7Q8W9E0R1T2Y3V4X5Z",
            "'; --",
        ] {
            let error = service.resolve(unknown).expect_err("unknown");
            assert_eq!(error.code(), Code::SessionNotFound, "{unknown}");
        }
    }
}

#[test]
fn defect_1919_the_usage_recorded_by_many_threads_is_the_sum() {
    for database in TestDatabase::each() {
        let services = [service(&database), service(&database)];
        let id = create(&services[0]);
        let each = proof_size(30, 1000) as u64;
        at_once(16, |thread| {
            for number in 0..each {
                let thread_number = thread as u64;
                services[thread % 2]
                    .record_usage(id, usage(thread_number, number, thread_number * number))
                    .expect("recorded");
            }
        });
        let (threads, numbers): (u64, u64) = ((0..16).sum(), (0..each).sum());
        let expected = usage(threads * each, numbers * 16, threads * numbers);
        assert_eq!(
            services[0].get(id).expect("there").usage,
            expected,
            "on {}",
            database.kind
        );
    }
}

#[test]
fn deleting_a_session_while_others_append_leaves_no_orphan() {
    for database in TestDatabase::each() {
        let services = [service(&database), service(&database)];
        for _ in 0..proof_size(5, 100) {
            let id = create(&services[0]);
            let outcomes = at_once(9, |thread| {
                let service = &services[thread % 2];
                if thread == 8 {
                    // The deletion starts after another thread has appended a message.
                    while service.get(id).expect("there").message_count == 0 {
                        std::thread::yield_now();
                    }
                    let deleted = service.delete(id).expect("deleted");
                    return vec![Ok(deleted.message_count)];
                }
                let mut outcomes = Vec::new();
                for number in 0.. {
                    outcomes.push(append(service, id, format!("{thread}/{number}")));
                    if outcomes.last().is_some_and(Result::is_err) {
                        break;
                    }
                }
                outcomes
            });
            let deleted = outcomes[8][0].as_ref().expect("counted");
            let appended = outcomes[..8]
                .iter()
                .flatten()
                .filter(|outcome| outcome.is_ok())
                .count();
            assert_eq!(
                *deleted, appended as u64,
                "the deleted session contained all appended messages"
            );
            for outcome in outcomes[..8].iter().flatten() {
                if let Err(error) = outcome {
                    assert!(matches!(error, SessionError::NotFound(_)), "{error}");
                }
            }
            assert_eq!(
                database.count("SELECT COUNT(*) FROM messages"),
                0,
                "{}",
                database.kind
            );
            assert_eq!(database.count("SELECT COUNT(*) FROM sessions"), 0);
        }
    }
}

#[test]
fn messages_are_paged_by_their_number() {
    for database in TestDatabase::each() {
        let service = service(&database);
        let id = create(&service);
        for number in 0..25 {
            append(&service, id, format!("w/{number}")).expect("stored");
        }
        let page = |from, limit| -> Vec<u64> {
            let page = service.messages(id, Sequence(from), limit).expect("read");
            page.iter().map(|message| message.sequence.0).collect()
        };
        assert_eq!(page(0, 10), (0..10).collect::<Vec<_>>());
        assert_eq!(page(20, 10), (20..25).collect::<Vec<_>>());
        assert!(page(25, 10).is_empty() && page(0, 0).is_empty());
        let recent: Vec<u64> = service
            .view(id, 3)
            .expect("there")
            .recent
            .iter()
            .map(|message| message.sequence.0)
            .collect();
        assert_eq!(recent, [22, 23, 24]);
    }
}

#[test]
fn the_list_counts_everything_and_filters_in_the_store() {
    for database in TestDatabase::each() {
        let service = service(&database);
        let actor = |text: &str| Some(text.parse().expect("an actor"));
        for number in 0..6 {
            let actor_name = actor(if number % 2 == 0 {
                "openai/gpt-5"
            } else {
                "local/helper"
            });
            let id = service
                .create(None, actor_name, "manual")
                .expect("stored")
                .id;
            append(&service, id, "12345").expect("stored");
        }
        let (page, totals) = service
            .list(&SessionFilter {
                limit: Some(2),
                ..SessionFilter::default()
            })
            .expect("listed");
        assert_eq!((page.sessions.len(), page.matching), (2, 6));
        assert_eq!(
            (totals.sessions, totals.messages, totals.content_bytes),
            (6, 6, 30)
        );
        let filter = SessionFilter {
            actor: actor("openai/gpt-5"),
            ..SessionFilter::default()
        };
        assert_eq!(service.list(&filter).expect("listed").0.matching, 3);
        let filter = SessionFilter {
            updated_since: Some(Timestamp::now().plus_seconds(60)),
            ..SessionFilter::default()
        };
        assert_eq!(service.list(&filter).expect("listed").0.matching, 0);
        let filter = SessionFilter {
            namespace: Some("elsewhere".into()),
            ..SessionFilter::default()
        };
        assert_eq!(service.list(&filter).expect("listed").0.matching, 0);
    }
}

/// Invisible sessions are not counted, and no character of a name is a wildcard.
#[test]
fn a_list_contains_and_counts_only_visible_sessions() {
    use cleveragents_domain::identity::Namespaces;
    for database in TestDatabase::each() {
        let service = service(&database);
        for namespace in ["local", "a_b", "axb", "ab", "a_b"] {
            let made = service.create_in(namespace, None, None, "manual");
            append(&service, made.expect("stored").id, "12345").expect("stored");
        }
        let only =
            |names: &[&str]| Namespaces::Only(names.iter().map(ToString::to_string).collect());
        for (visible, count) in [
            (Namespaces::All, 5),
            (Namespaces::AllButLocal, 4),
            (only(&["a_b"]), 2),
            (only(&["ab", "axb"]), 2),
            (only(&[]), 0),
        ] {
            for limit in [None, Some(1)] {
                let filter = SessionFilter {
                    visible: visible.clone(),
                    limit,
                    ..SessionFilter::default()
                };
                let (page, totals) = service.list(&filter).expect("listed");
                let counted = (page.matching, totals.sessions, totals.messages);
                assert_eq!(counted, (count, count, count), "{visible:?}");
            }
        }
    }
}

/// A search first updates the index, even if several searches start at once.
#[test]
fn a_search_finds_recent_messages() {
    for database in TestDatabase::each() {
        let services = [service(&database), service(&database)];
        let id = create(&services[0]);
        at_once(6, |thread| {
            let service = &services[thread % 2];
            for number in 0..proof_size(10, 300) {
                let word = format!("needle{thread}x{number}");
                append(service, id, format!("hay {word} hay")).expect("stored");
                let hits = service
                    .search(&word, &Scope::default(), 10, None)
                    .expect("searched");
                assert_eq!(hits.len(), 1, "{word} on {}", database.kind);
            }
        });
        let error = services[0]
            .search(" ,;\" ", &Scope::default(), 10, None)
            .expect_err("no word");
        assert_eq!(error.code(), Code::InvalidSearchQuery);
        services[0].delete(id).expect("deleted");
        assert!(
            services[0]
                .search("hay", &Scope::default(), 10, None)
                .expect("searched")
                .is_empty()
        );
    }
}

/// Each id prefix in a list can be used as a reference, whether the list has a few sessions or
/// many.
#[test]
fn a_listed_prefix_identifies_only_its_session() {
    for database in TestDatabase::each() {
        let service = service(&database);
        let ids: Vec<SessionId> = (0..80).map(|_| create(&service)).collect();
        for shown in [&ids[..], &ids[3..5]] {
            let prefixes = service.shown_ids(shown).expect("read");
            for (id, prefix) in shown.iter().zip(prefixes) {
                assert_eq!(
                    service.resolve(&prefix).expect("unambiguous"),
                    *id,
                    "{}",
                    database.kind
                );
            }
        }
    }
}
