//! Each change is recorded in the changeset that its caller opened, across threads and processes.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use cleveragents_application::{ContextError, PlanExecutionContext};
use cleveragents_domain::{
    ChangeEntry, ChangesetId, ChangesetState, ContentHash, Diagnose, EntryNumber, FileMode,
    FileState, NewChange, Operation, PlanId,
};
use cleveragents_store::{DatabaseUrl, Engine, EngineCache, Options};
use cleveragents_testkit::{Child, TestDatabase, at_once, child_input, proof_size, send_line};

fn context(engine: &Arc<Engine>) -> PlanExecutionContext {
    let plan = PlanExecutionContext::create_plan(engine).expect("stored");
    PlanExecutionContext::new(Arc::clone(engine), plan).expect("the plan exists")
}

fn change(path: impl Into<String>) -> NewChange {
    let path = path.into();
    let after = FileState {
        hash: ContentHash::of_bytes(path.as_bytes()),
        size: path.len() as u64,
        mode: FileMode::REGULAR,
    };
    NewChange::new("code", path, Operation::Create { after }).expect("a change")
}

fn all_entries(context: &PlanExecutionContext, id: ChangesetId) -> Vec<ChangeEntry> {
    context
        .entries(id, EntryNumber(0), u64::from(u32::MAX))
        .expect("read")
}

#[test]
fn defect_7120_sixteen_threads_on_one_context_record_in_their_own_changesets() {
    const THREADS: usize = 16;
    let each = proof_size(200, 1000);
    for database in TestDatabase::each() {
        let context = context(&database.open());
        let opened = at_once(THREADS, |thread| {
            let changeset = context.start_changeset().expect("opened");
            for number in 0..each {
                let recorded = changeset.record(&change(format!("{thread}/{number}")));
                assert_eq!(recorded, Ok(EntryNumber(number as u64)), "no gap");
            }
            changeset
        });
        for (thread, changeset) in opened.iter().enumerate() {
            let entries = all_entries(&context, changeset.id());
            assert_eq!(entries.len(), each);
            for (number, entry) in entries.iter().enumerate() {
                assert_eq!(entry.number, EntryNumber(number as u64));
                assert_eq!(entry.change, change(format!("{thread}/{number}")));
                assert_eq!(entry.changeset, changeset.id());
            }
        }
        let rows = database.count("SELECT COUNT(*) FROM change_entries");
        assert_eq!(
            rows,
            (THREADS * each) as u64,
            "each entry once on {}",
            database.kind
        );
        let counts: Vec<u64> = context
            .changesets()
            .expect("read")
            .iter()
            .map(|changeset| changeset.entry_count)
            .collect();
        assert_eq!(counts, vec![each as u64; THREADS]);
    }
}

#[test]
fn record_change_without_an_open_changeset_returns_the_specified_message() {
    for database in TestDatabase::each() {
        let context = context(&database.open());
        let error = context
            .record_change(&change("a"))
            .expect_err("nothing is open");
        assert_eq!(error, ContextError::NoActiveChangeset);
        assert_eq!(
            error.to_string(),
            "No active changeset. Call start_changeset() first."
        );
        assert_eq!(error.code().as_str(), "CA-0401");
        assert_eq!(database.count("SELECT COUNT(*) FROM change_entries"), 0);
        let changeset = context.start_changeset().expect("opened");
        let recorded = context.record_change(&change("a"));
        assert_eq!(recorded, Ok((changeset.id(), EntryNumber(0))));
        changeset.close().expect("closed");
        let error = context
            .record_change(&change("b"))
            .expect_err("it is closed again");
        assert_eq!(error, ContextError::NoActiveChangeset);
    }
}

#[test]
fn defect_7163_a_closed_changeset_is_no_longer_active() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let context = context(&engine);
        for _ in 0..20 {
            let changeset = context.start_changeset().expect("opened");
            assert_eq!(context.active_changesets(), [changeset.id()]);
            changeset.record(&change("a")).expect("recorded");
            let closed = changeset.close().expect("closed");
            assert_eq!(
                (closed.state(), closed.entry_count),
                (ChangesetState::Closed, 1)
            );
            assert!(context.active_changesets().is_empty());
        }
        let (outer, inner) = (
            context.start_changeset().expect("opened"),
            context.start_changeset().expect("opened"),
        );
        assert_eq!(
            context.active_changesets(),
            [outer.id(), inner.id()],
            "the most recent is last"
        );
        let recorded = context.record_change(&change("a")).expect("recorded");
        assert_eq!(recorded.0, inner.id());
        let inner_id = inner.id();
        inner.close().expect("closed");
        assert_eq!(context.active_changesets(), [outer.id()]);
        let recorded = context.record_change(&change("b")).expect("recorded");
        assert_eq!(recorded.0, outer.id());

        // Another process closes the changeset.
        database.execute_sql(&format!(
            "UPDATE changesets SET closed_at = 1 WHERE changeset_id = '{}'",
            outer.id()
        ));
        assert_eq!(
            outer.record(&change("c")),
            Err(ContextError::Closed(outer.id()))
        );
        assert_eq!(
            context.record_change(&change("c")),
            Err(ContextError::NoActiveChangeset)
        );
        assert!(context.active_changesets().is_empty());
        let outer_id = outer.id();
        assert_eq!(
            outer.close().expect_err("closed by another process"),
            ContextError::Closed(outer_id)
        );
        assert_eq!(all_entries(&context, inner_id).len(), 1);
        assert_eq!(
            all_entries(&context, outer_id).len(),
            1,
            "the refused calls added nothing"
        );
    }
}

/// A child process: opens the database, reads a changeset and prints it.
fn print_changeset(input: &str) {
    let mut parts = input.split(' ');
    let mut next = || parts.next().expect("three parts");
    let url = DatabaseUrl::parse(next(), Path::new("/")).expect("a URL");
    let plan: PlanId = next().parse().expect("a plan");
    let id: ChangesetId = next().parse().expect("a changeset");
    let engine = EngineCache::new(Options::default())
        .open(&url)
        .expect("opens");
    let context = PlanExecutionContext::new(engine, plan).expect("the plan exists");
    let changesets = context.changesets().expect("read");
    let found = changesets
        .iter()
        .find(|changeset| changeset.id == id)
        .expect("the changeset exists");
    send_line(format!("{:?} {}", found.state(), found.entry_count));
    for entry in all_entries(&context, id) {
        send_line(format!("{} {}", entry.number, entry.change.path()));
    }
}

#[test]
fn defect_7731_another_process_finds_empty_and_filled_changesets() {
    if let Some(input) = child_input() {
        return print_changeset(&input);
    }
    for database in TestDatabase::each() {
        let context = context(&database.open());
        let changeset = context.start_changeset().expect("opened");
        let input = format!("{} {} {}", database.url, context.plan(), changeset.id());
        let read_in_child = || {
            Child::start(
                "defect_7731_another_process_finds_empty_and_filled_changesets",
                &input,
            )
            .finish()
        };
        assert_eq!(
            read_in_child(),
            ["Open 0"],
            "an empty changeset on {}",
            database.kind
        );
        changeset.record(&change("a")).expect("recorded");
        changeset.record(&change("b")).expect("recorded");
        assert_eq!(read_in_child(), ["Open 2", "0 a", "1 b"]);
        changeset.close().expect("closed");
        assert_eq!(read_in_child(), ["Closed 2", "0 a", "1 b"]);
    }
}

/// Callers record changes without a handle while others open and close changesets. Every change is in the reported
/// changeset, and no closed changeset receives a change.
#[test]
fn a_change_without_a_handle_is_recorded_in_an_open_changeset() {
    let each = proof_size(50, 1000);
    for database in TestDatabase::each() {
        let context = context(&database.open());
        let long_lived = context.start_changeset().expect("opened");
        let outcomes = at_once(12, |thread| {
            if thread % 3 == 0 {
                for _ in 0..each {
                    let short_lived = context.start_changeset().expect("opened");
                    let id = short_lived.id();
                    let count = short_lived.close().expect("closed").entry_count;
                    let entries = all_entries(&context, id).len() as u64;
                    assert_eq!(entries, count, "a closed changeset does not grow");
                }
                return Vec::new();
            }
            (0..each)
                .map(|number| {
                    let path = format!("{thread}/{number}");
                    let (id, entry) = context
                        .record_change(&change(&path))
                        .expect("one is open all the time");
                    (id, entry, path)
                })
                .collect()
        });
        let outcomes = outcomes.concat();
        let mut positions = BTreeSet::new();
        for (id, number, path) in &outcomes {
            let found = context.entries(*id, *number, 1).expect("read");
            assert_eq!(found[0].change.path(), path, "the reported position");
            assert!(positions.insert((*id, *number)), "a unique position");
        }
        let rows = database.count("SELECT COUNT(*) FROM change_entries");
        assert_eq!(
            rows,
            outcomes.len() as u64,
            "none lost, none duplicated on {}",
            database.kind
        );
        assert_eq!(context.active_changesets(), [long_lived.id()]);
        for changeset in context.changesets().expect("read") {
            let numbers: Vec<u64> = all_entries(&context, changeset.id)
                .iter()
                .map(|entry| entry.number.0)
                .collect();
            assert_eq!(numbers, (0..changeset.entry_count).collect::<Vec<_>>());
        }
    }
}

#[test]
fn clones_of_a_context_share_open_changesets_and_other_contexts_do_not() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let context = context(&engine);
        let changeset = context.start_changeset().expect("opened");
        let clone = context.clone();
        assert_eq!(
            clone.record_change(&change("a")),
            Ok((changeset.id(), EntryNumber(0)))
        );
        let another_run = PlanExecutionContext::new(Arc::clone(&engine), context.plan());
        let another_run = another_run.expect("the plan exists");
        assert_eq!(
            another_run.record_change(&change("b")),
            Err(ContextError::NoActiveChangeset),
            "another run did not open the changeset"
        );
        assert_eq!(
            another_run.changesets(),
            context.changesets(),
            "but another run can read it"
        );
    }
}

#[test]
fn missing_changesets_are_reported() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let plan = PlanId::generate();
        let missing = PlanExecutionContext::new(Arc::clone(&engine), plan).err();
        assert_eq!(missing, Some(ContextError::PlanNotFound(plan)));
        let id = ChangesetId::generate();
        let missing = context(&engine).entries(id, EntryNumber(0), 1);
        assert_eq!(missing, Err(ContextError::ChangesetNotFound(id)));
    }
}
