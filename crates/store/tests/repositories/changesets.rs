//! Changesets and their entries are read back as they were recorded.

use cleveragents_domain::{
    ChangesetId, ChangesetState, ContentHash, EntryNumber, FileMode, FileState, NewChange,
    Operation, PlanId,
};
use cleveragents_store::{Engine, Error, changesets, plans};
use cleveragents_testkit::{TestDatabase, at_once, proof_size};
use proptest::option;
use proptest::prelude::{Strategy, any, prop_oneof};
use proptest::test_runner::{Config, TestRunner};

fn add_changeset(engine: &Engine) -> (PlanId, ChangesetId) {
    let (plan, id) = (PlanId::generate(), ChangesetId::generate());
    engine
        .write(move |unit| {
            plans::insert(unit, &plans::NewPlan::empty(plan))?;
            changesets::open(unit, id, Some(plan))
        })
        .expect("stored");
    (plan, id)
}

fn record(engine: &Engine, id: ChangesetId, change: NewChange) -> Option<EntryNumber> {
    engine
        .write(move |unit| changesets::record(unit, id, &change))
        .expect("answered")
}

fn text() -> impl Strategy<Value = String> {
    // Any text that can be a path: everything except NUL.
    "[^\\x00]{1,40}"
}

fn states() -> impl Strategy<Value = FileState> {
    (any::<[u8; 8]>(), 0..=i64::MAX as u64).prop_map(|(bytes, size)| FileState {
        hash: ContentHash::of_bytes(&bytes),
        size,
        mode: FileMode::REGULAR,
    })
}

fn operations() -> impl Strategy<Value = Operation> {
    prop_oneof![
        states().prop_map(|after| Operation::Create { after }),
        (states(), states()).prop_map(|(before, after)| Operation::Modify { before, after }),
        states().prop_map(|before| Operation::Delete { before }),
        (text(), states(), states()).prop_map(|(new_path, before, after)| Operation::Rename {
            new_path,
            before,
            after
        }),
        (states(), states()).prop_map(|(before, after)| Operation::Mode { before, after }),
    ]
}

fn changes() -> impl Strategy<Value = NewChange> {
    (
        text(),
        text(),
        operations(),
        option::of(text()),
        option::of(text()),
    )
        .prop_map(|(resource, path, operation, tool, node)| {
            let mut change = NewChange::new(resource, path, operation).expect("a change");
            if let Some(tool) = tool {
                change = change.by_tool(tool, None);
            }
            if let Some(node) = node {
                change = change.by_node(node);
            }
            change
        })
}

#[test]
fn every_kind_of_change_is_read_back_unchanged() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let (_, id) = add_changeset(&engine);
        let cases = u32::try_from(proof_size(100, 5000)).expect("a small number");
        let config = Config {
            cases,
            failure_persistence: None,
            ..Config::default()
        };
        TestRunner::new(config)
            .run(&changes(), |change| {
                let number = record(&engine, id, change.clone()).expect("open");
                let stored = engine.read(|reader| changesets::entries(reader, id, number, 1));
                let stored = stored.expect("read").remove(0);
                assert_eq!((stored.number, stored.changeset), (number, id));
                assert_eq!(stored.change, change, "on {}", database.kind);
                Ok(())
            })
            .expect("holds on both databases");
    }
}

fn a_change(path: &str) -> NewChange {
    let after = FileState {
        hash: ContentHash::of_bytes(path.as_bytes()),
        size: 1,
        mode: FileMode::REGULAR,
    };
    NewChange::new("code", path, Operation::Create { after }).expect("a change")
}

#[test]
fn a_closed_changeset_accepts_no_entries() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let (plan, id) = add_changeset(&engine);
        let get = || {
            engine
                .read(|reader| changesets::get(reader, id))
                .expect("read")
                .expect("there")
        };
        assert_eq!(
            (get().state(), get().entry_count),
            (ChangesetState::Open, 0)
        );
        assert_eq!(record(&engine, id, a_change("a")), Some(EntryNumber(0)));
        assert_eq!(record(&engine, id, a_change("b")), Some(EntryNumber(1)));
        let closed = engine
            .write(move |unit| changesets::close(unit, id))
            .expect("answered");
        let closed = closed.expect("it was open");
        assert_eq!(
            (closed.state(), closed.entry_count),
            (ChangesetState::Closed, 2)
        );
        assert_eq!(closed, get());
        assert_eq!(
            record(&engine, id, a_change("c")),
            None,
            "a closed changeset accepts no entry"
        );
        let second_close = engine
            .write(move |unit| changesets::close(unit, id))
            .expect("answered");
        assert_eq!(second_close, None, "a changeset is closed only once");
        assert_eq!(get().entry_count, 2);
        assert_eq!(
            record(&engine, ChangesetId::generate(), a_change("d")),
            None,
            "a missing changeset"
        );
        let of_plan = engine
            .read(|reader| changesets::of_plan(reader, plan))
            .expect("read");
        assert_eq!(of_plan, [closed]);
    }
}

#[test]
fn entries_are_paged_in_order() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let (_, id) = add_changeset(&engine);
        for number in 0..25 {
            record(&engine, id, a_change(&format!("file {number}")));
        }
        let page = |from, limit| {
            let entries =
                engine.read(|reader| changesets::entries(reader, id, EntryNumber(from), limit));
            entries
                .expect("read")
                .iter()
                .map(|entry| entry.number.0)
                .collect::<Vec<_>>()
        };
        assert_eq!(page(0, 10), (0..10).collect::<Vec<_>>());
        assert_eq!(page(20, 10), (20..25).collect::<Vec<_>>());
        assert!(page(25, 10).is_empty());
    }
}

/// The SQL statement itself ensures this: records and a close run concurrently.
#[test]
fn a_close_that_races_with_records_counts_exactly_the_recorded_entries() {
    for database in TestDatabase::each() {
        let engines = [database.open(), database.open()];
        for round in 0..proof_size(10, 200) {
            let (_, id) = add_changeset(&engines[0]);
            let outcomes = at_once(8, |thread| {
                let engine = &engines[thread % 2];
                if thread == 7 {
                    let closed = engine.write(move |unit| changesets::close(unit, id));
                    return (
                        0,
                        Some(closed.expect("answered").expect("closed once").entry_count),
                    );
                }
                let recorded = (0..5)
                    .filter(|_| record(engine, id, a_change("x")).is_some())
                    .count() as u64;
                (recorded, None)
            });
            let recorded: u64 = outcomes.iter().map(|(recorded, _)| recorded).sum();
            let counted = outcomes
                .iter()
                .find_map(|(_, counted)| *counted)
                .expect("one closed");
            assert_eq!(counted, recorded, "round {round} on {}", database.kind);
            let rows = format!("SELECT COUNT(*) FROM change_entries WHERE changeset_id = '{id}'");
            assert_eq!(database.count(&rows), recorded);
        }
    }
}

#[test]
fn the_same_changeset_cannot_be_opened_twice() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let (plan, id) = add_changeset(&engine);
        let again = engine.write(move |unit| changesets::open(unit, id, Some(plan)));
        assert!(matches!(again, Err(Error::Constraint(_))), "{again:?}");
    }
}
