//! Migrations run once, even with concurrent processes. A newer or damaged database is refused and stays unchanged. The
//! schema enforces its constraints. Readable rows of a damaged file are salvaged.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use cleveragents_domain::{
    ChangesetId, ContentHash, EntryNumber, EventKind, FileMode, FileState, InvocationOutcome,
    LinkedPlan, Metadata, NewChange, NewMessage, Operation, PlanId, Position, Role, Sequence,
    SessionId, SessionName, Timestamp, TokenUsage, ToolInvocation, ToolInvocationId,
};
use cleveragents_store::messages::{AppendEvents, AppendedMessage};
use cleveragents_store::sessions::{NewSession, SessionFilter};
use cleveragents_store::{
    DatabaseUrl, Engine, EngineCache, Error, Migration, Options, Reader, SalvageReport, Severity,
    changesets, events, invocations, messages, plans, salvage, sessions,
};
use cleveragents_testkit::{Child, TestDatabase, child_input, send_line, wait_for_release};

fn new_session(name: &str) -> NewSession {
    NewSession {
        owner: None,
        name: Some(name.parse::<SessionName>().expect("a name")),
        actor: None,
        namespace: "local".to_owned(),
        automation: "supervised".to_owned(),
        usage: TokenUsage::default(),
        forked_from: None,
        created_at: None,
    }
}

fn message(text: impl Into<String>) -> AppendedMessage {
    NewMessage::new(Role::User, text.into(), Metadata::new(), usize::MAX)
        .expect("a message")
        .into()
}

fn add_session(engine: &Engine, name: &str, texts: Vec<String>) -> SessionId {
    let id = SessionId::generate();
    let new = new_session(name);
    engine
        .write(move |unit| {
            sessions::insert(unit, id, &new, EventKind::SessionCreated)?;
            let batch: Vec<AppendedMessage> = texts.iter().cloned().map(message).collect();
            messages::append(unit, id, &batch, AppendEvents::Each)?;
            Ok::<_, Error>(id)
        })
        .expect("stored")
}

fn open(url: &DatabaseUrl) -> Result<Arc<Engine>, Error> {
    EngineCache::new(Options::default()).open(url)
}

#[test]
fn sixteen_processes_opening_one_new_database_migrate_it_once() {
    if let Some(url) = child_input() {
        wait_for_release();
        let url = DatabaseUrl::parse(&url, Path::new("/")).expect("a URL");
        let engine = open(&url).expect("opens");
        return send_line(add_session(
            &engine,
            "from a child",
            vec!["hello".to_owned()],
        ));
    }
    for database in TestDatabase::each() {
        let printed = Child::race(
            16,
            "sixteen_processes_opening_one_new_database_migrate_it_once",
            |_| database.url.clone(),
        );
        let versions = database.ask("SELECT version FROM schema_migrations ORDER BY version");
        let expected: Vec<_> = (1..=Migration::newest())
            .map(|version| vec![version.to_string()])
            .collect();
        assert_eq!(versions, expected, "each version once on {}", database.kind);
        let engine = database.open();
        for session in printed.concat() {
            let id = session.parse().expect("a session id from the child");
            let stored = engine
                .read(|reader| sessions::get(reader, id))
                .expect("read");
            assert_eq!(stored.map(|session| session.message_count), Some(1));
        }
    }
}

/// Hash of the bytes on disk.
fn fingerprint(path: &Path) -> Option<ContentHash> {
    std::fs::read(path)
        .ok()
        .map(|bytes| ContentHash::of_bytes(&bytes))
}

#[test]
fn a_newer_database_is_refused_unchanged() {
    let newer = Migration::newest() + 1;
    let mark_newer = format!(
        "INSERT INTO schema_migrations (version, name, applied_at) VALUES ({newer}, 'x', 0)"
    );
    let expected = Error::Newer {
        found: newer,
        known: Migration::newest(),
    };
    for database in TestDatabase::each() {
        drop(database.open());
        database.execute_sql(&mark_newer);
        let before = database.folder().map(|_| fingerprint(&database.file()));
        for _ in 0..3 {
            assert_eq!(open(&database.parsed_url()).expect_err("refused"), expected);
        }
        assert_eq!(
            before,
            database.folder().map(|_| fingerprint(&database.file()))
        );
        assert_eq!(
            database.count("SELECT COUNT(*) FROM schema_migrations"),
            newer
        );
    }
}

/// Simulates a crash of a newer program: part of the data is only in the write-ahead log.
#[test]
fn a_newer_database_with_a_log_is_refused_unchanged() {
    let original = TestDatabase::sqlite();
    let engine = original.open();
    add_session(&engine, "kept", vec!["in the log".to_owned()]);
    let newer = Migration::newest() + 1;
    original.execute_sql(&format!(
        "INSERT INTO schema_migrations (version, name, applied_at) VALUES ({newer}, 'x', 0)"
    ));
    // A copy of the open files is the state after a crash.
    let crashed = TestDatabase::sqlite();
    let log = crashed.file().with_extension("db-wal");
    std::fs::copy(original.file(), crashed.file()).expect("copied");
    std::fs::copy(original.file().with_extension("db-wal"), &log).expect("copied");
    let (file_before, log_before) = (fingerprint(&crashed.file()), fingerprint(&log));
    assert!(std::fs::metadata(&log).expect("a log").len() > 0);
    for _ in 0..3 {
        let error = open(&crashed.parsed_url()).expect_err("refused");
        assert_eq!(
            error,
            Error::Newer {
                found: newer,
                known: Migration::newest()
            }
        );
        assert_eq!(
            fingerprint(&crashed.file()),
            file_before,
            "the file is unchanged"
        );
        assert_eq!(fingerprint(&log), log_before, "the log is unchanged");
    }
}

#[test]
fn a_database_after_a_crash_contains_the_data_of_its_log() {
    let original = TestDatabase::sqlite();
    let engine = original.open();
    let id = add_session(&engine, "kept", vec!["in the log".to_owned()]);
    let crashed = TestDatabase::sqlite();
    for suffix in ["db", "db-wal"] {
        let name = format!("test.{suffix}");
        let folder = |database: &TestDatabase| database.folder().expect("a folder").join(&name);
        std::fs::copy(folder(&original), folder(&crashed)).expect("copied");
    }
    let after = crashed.open();
    let page = after
        .read(|reader| messages::page(reader, id, Sequence(0), 10))
        .expect("read");
    assert_eq!(page.len(), 1);
}

/// A populated, closed database, whose data is completely in the file.
fn populated(sessions: usize, messages_each: usize) -> TestDatabase {
    let database = TestDatabase::sqlite();
    let engine = database.open();
    for session in 0..sessions {
        let texts =
            (0..messages_each).map(|number| format!("{session}/{number} {}", "x".repeat(200)));
        add_session(&engine, &format!("session {session}"), texts.collect());
    }
    drop(engine);
    database
}

/// Asserts that opening or checking a damaged database reports the damage, without a panic or another error.
fn assert_damage_is_reported(database: &TestDatabase, what: &str) {
    let before = fingerprint(&database.file());
    let outcome = open(&database.parsed_url()).and_then(|engine| {
        // Reading a damaged file may return anything, but must not panic.
        let _page = engine.read(|reader| sessions::list(reader, &SessionFilter::default()));
        engine.check()
    });
    match outcome {
        Err(Error::Damaged { database: file, .. }) => {
            assert_eq!(Path::new(&file), database.file(), "{what}");
            assert_eq!(
                fingerprint(&database.file()),
                before,
                "{what}: the file was changed"
            );
        }
        Err(other) => panic!("{what}: {other:?}"),
        Ok(checks) => {
            let damage = checks
                .iter()
                .find(|check| check.severity == Severity::Error);
            assert!(damage.is_some(), "{what}: {checks:?}");
        }
    }
}

#[test]
fn a_file_that_is_not_a_database_is_reported_damaged() {
    let noise: Vec<u8> = (0..40_000_u32)
        .flat_map(|x| x.wrapping_mul(2_654_435_761).to_le_bytes())
        .collect();
    for (what, bytes) in [
        ("random bytes", noise.as_slice()),
        ("one byte", b"x"),
        ("a short note", b"Buy milk."),
        (
            "text",
            b"This is a letter, and certainly no database.\n"
                .repeat(100)
                .as_slice(),
        ),
    ] {
        let database = TestDatabase::sqlite();
        std::fs::write(database.file(), bytes).expect("written");
        assert_damage_is_reported(&database, what);
    }
}

#[test]
fn a_truncated_file_is_reported_damaged() {
    let complete = std::fs::read(populated(20, 20).file()).expect("read");
    for keep in [
        1,
        100,
        511,
        512,
        1000,
        4096,
        5000,
        complete.len() / 2,
        complete.len() - 4096,
    ] {
        let database = TestDatabase::sqlite();
        std::fs::write(database.file(), &complete[..keep]).expect("written");
        assert_damage_is_reported(&database, &format!("{keep} of {} bytes", complete.len()));
    }
}

#[test]
fn an_overwritten_page_is_reported_damaged() {
    const PAGE: usize = 4096;
    let complete = std::fs::read(populated(20, 20).file()).expect("read");
    let pages = complete.len() / PAGE;
    let step = (pages / cleveragents_testkit::proof_size(12, 1000)).max(1);
    for page in (1..pages).step_by(step) {
        let database = TestDatabase::sqlite();
        let mut bytes = complete.clone();
        bytes[page * PAGE..(page + 1) * PAGE].fill(0xA5);
        std::fs::write(database.file(), bytes).expect("written");
        assert_damage_is_reported(&database, &format!("page {page} of {pages}"));
    }
}

#[test]
fn an_empty_file_becomes_a_database() {
    let database = TestDatabase::sqlite();
    std::fs::write(database.file(), b"").expect("written");
    let engine = database.open();
    add_session(&engine, "first", vec!["hello".to_owned()]);
    assert!(
        engine
            .check()
            .expect("checked")
            .iter()
            .all(|check| check.severity == Severity::Ok)
    );
}

#[test]
fn a_database_file_is_accessible_only_to_its_owner() {
    let database = TestDatabase::sqlite();
    let engine = database.open();
    add_session(&engine, "secret", vec!["hello".to_owned()]);
    for name in ["test.db", "test.db-wal", "test.db-shm", "test.db.lock"] {
        let path = database.folder().expect("a folder").join(name);
        let mode = std::fs::metadata(&path).expect(name).permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

/// Reads a number from a connection.
fn pragma(reader: &mut dyn Reader, sql: &str) -> Result<u64, Error> {
    reader.query_first(sql, &[])?.expect("an answer").take()
}

#[test]
fn defect_5417_every_connection_enforces_foreign_keys() {
    const QUERY: &str = "SELECT foreign_keys FROM pragma_foreign_keys";
    let file = TestDatabase::sqlite();
    for url in [file.parsed_url(), DatabaseUrl::memory("foreign keys")] {
        let engine = open(&url).expect("opens");
        assert_eq!(
            engine.write(|unit| pragma(unit, QUERY)),
            Ok(1),
            "the writer of {url}"
        );
        // Readers that wait for each other inside their transactions use different connections. An in-memory database
        // has a single connection.
        let readers = if url.path().is_some() {
            Options::default().connections
        } else {
            1
        };
        let together = std::sync::Barrier::new(readers);
        let answers = cleveragents_testkit::at_once(readers, |_| {
            engine.read(|reader| {
                let answer = pragma(reader, QUERY);
                together.wait();
                answer
            })
        });
        assert_eq!(answers, vec![Ok(1); readers], "the readers of {url}");
    }
}

#[test]
fn defect_5417_rows_without_a_parent_are_refused_and_children_are_deleted_with_it() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let orphan = engine.write(|unit| {
            changesets::open(unit, ChangesetId::generate(), Some(PlanId::generate()))
        });
        assert!(matches!(orphan, Err(Error::Constraint(_))), "{orphan:?}");

        let session = add_session(&engine, "parent", vec!["child".to_owned(); 3]);
        let (plan, changeset) = (PlanId::generate(), ChangesetId::generate());
        let invocation = ToolInvocation {
            id: ToolInvocationId::generate(),
            plan: None,
            session: Some(session),

            turn: None,
            call_id: None,
            tool: "builtin/write".to_owned(),
            arguments: serde_json::json!({}),
            outcome: InvocationOutcome::Running,
            output: None,
            log: None,
            media_type: None,
            error: None,

            reason: None,
            is_repeatable: false,
            started_at: Timestamp::now(),
            finished_at: None,
        };
        let change = NewChange::new(
            "code",
            "a.txt",
            Operation::Delete {
                before: FileState {
                    hash: ContentHash::of_bytes(b""),
                    size: 0,
                    mode: FileMode::REGULAR,
                },
            },
        )
        .expect("a change")
        .by_tool("builtin/write", Some(invocation.id));
        engine
            .write(move |unit| {
                plans::insert(unit, &plans::NewPlan::empty(plan))?;
                let linked = LinkedPlan {
                    plan_id: plan,
                    phase: "x".into(),
                    state: "y".into(),
                };
                sessions::link_plan(unit, session, &linked)?;
                invocations::insert(unit, &invocation)?;
                changesets::open(unit, changeset, Some(plan))?;
                changesets::record(unit, changeset, &change)
            })
            .expect("stored");

        engine
            .write(move |unit| sessions::delete(unit, session))
            .expect("deleted");
        for table in ["sessions", "messages", "session_plans", "tool_invocations"] {
            assert_eq!(
                database.count(&format!("SELECT COUNT(*) FROM {table}")),
                0,
                "{table}"
            );
        }
        let entries = engine
            .read(|reader| changesets::entries(reader, changeset, EntryNumber(0), 10))
            .expect("read");
        assert_eq!(entries.len(), 1, "the entry of the plan is kept");
        assert_eq!(
            entries[0].change.invocation(),
            None,
            "without the deleted call"
        );
        assert_eq!(entries[0].change.tool(), Some("builtin/write"));

        database.execute_sql(&format!("DELETE FROM plans WHERE plan_id = '{plan}'"));
        for table in ["changesets", "change_entries"] {
            assert_eq!(
                database.count(&format!("SELECT COUNT(*) FROM {table}")),
                0,
                "{table}"
            );
        }
    }
}

/// The constraints of the schema refuse invalid rows.
#[test]
fn the_schema_refuses_invalid_rows() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let id = add_session(
            &engine,
            "guarded",
            vec!["zero".to_owned(), "one".to_owned()],
        );
        let insert = |message: &str, sequence: i64, role: &str, state: &str, content: &str| {
            database.try_execute_sql(&format!(
                "INSERT INTO messages (message_id, session_id, sequence, role, state, content, metadata, created_at) \
                 VALUES ('{message}', '{id}', {sequence}, '{role}', '{state}', '{content}', '{{}}', 0)"
            ))
        };
        // Report 7326: the store itself refuses a duplicate.
        assert!(
            insert("new", 1, "user", "complete", "again").is_err(),
            "a duplicate number"
        );
        assert!(
            insert("new", -1, "user", "complete", "x").is_err(),
            "a negative number"
        );
        assert!(
            insert("new", 2, "robot", "complete", "x").is_err(),
            "an unknown role"
        );
        assert!(
            insert("new", 2, "user", "half", "x").is_err(),
            "an unknown state"
        );
        assert!(
            insert("new", 2, "user", "complete", "").is_err(),
            "no content"
        );
        assert!(
            insert("new", 2, "user", "complete", "x").is_ok(),
            "a valid row"
        );
        let checks = engine.check().expect("checked");
        let errors: Vec<_> = checks
            .iter()
            .filter(|check| check.severity == Severity::Error)
            .collect();
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].name == "message numbers" && errors[0].detail.contains(&id.to_string()));
    }
}

#[test]
fn defect_7283_every_foreign_key_declares_its_delete_rule() {
    for database in TestDatabase::each() {
        drop(database.open());
        let rules = if database.kind == "sqlite" {
            database.ask(
                "SELECT t.name || '.' || k.\"from\", k.on_delete FROM sqlite_schema t \
                 JOIN pragma_foreign_key_list(t.name) k WHERE t.type = 'table' ORDER BY 1",
            )
        } else {
            database.ask(
                "SELECT t.relname || '.' || a.attname, CASE c.confdeltype WHEN 'c' THEN 'CASCADE' \
                 WHEN 'n' THEN 'SET NULL' WHEN 'r' THEN 'RESTRICT' ELSE 'NO ACTION' END \
                 FROM pg_constraint c JOIN pg_class t ON t.oid = c.conrelid \
                 JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = c.conkey[1] \
                 WHERE c.contype = 'f' ORDER BY 1",
            )
        };
        let expected = [
            ["actor_contexts.session_id", "CASCADE"],
            ["attempts.item_id", "CASCADE"],
            ["change_entries.changeset_id", "CASCADE"],
            ["change_entries.invocation_id", "SET NULL"],
            ["changesets.plan_id", "CASCADE"],
            ["child_plans.parent_plan_id", "CASCADE"],
            ["child_plans.plan_id", "CASCADE"],
            ["context_summaries.session_id", "CASCADE"],
            ["decision_influences.decision_id", "CASCADE"],
            ["decision_influences.influenced_by", "CASCADE"],
            ["merge_conflicts.child_plan_id", "CASCADE"],
            ["merge_conflicts.parent_plan_id", "CASCADE"],
            ["messages.session_id", "CASCADE"],
            ["plan_answers.plan_id", "CASCADE"],
            ["plan_decisions.parent_decision_id", "CASCADE"],
            ["plan_decisions.plan_id", "CASCADE"],
            ["plan_guidance.plan_id", "CASCADE"],
            ["plan_projects.plan_id", "CASCADE"],
            ["plan_rollbacks.plan_id", "CASCADE"],
            ["plan_steps.plan_id", "CASCADE"],
            ["project_links.project_id", "CASCADE"],
            ["project_links.resource_id", "RESTRICT"],
            ["push_configs.task_id", "CASCADE"],
            ["reservations.scope", "CASCADE"],
            ["resource_links.child_id", "RESTRICT"],
            ["resource_links.parent_id", "RESTRICT"],
            ["resource_types.inherits_custom", "RESTRICT"],
            ["resources.custom_type", "RESTRICT"],
            ["run_steps.run_id", "CASCADE"],
            ["sandbox_checkpoints.sandbox_id", "CASCADE"],
            ["sandbox_members.sandbox_id", "CASCADE"],
            ["sandboxes.changeset_id", "RESTRICT"],
            ["session_plans.session_id", "CASCADE"],
            ["task_artifacts.task_id", "CASCADE"],
            ["task_contexts.session_id", "CASCADE"],
            ["task_messages.task_id", "CASCADE"],
            ["task_updates.task_id", "CASCADE"],
            ["token_grants.token_id", "CASCADE"],
            ["tool_invocations.plan_id", "CASCADE"],
            ["tool_invocations.session_id", "CASCADE"],
            ["tool_invocations.turn_id", "SET NULL"],
            ["tracker_outbox.item_id", "CASCADE"],
            ["tracker_outbox.source", "CASCADE"],
            ["tracker_status_records.source", "CASCADE"],
            ["turn_steps.turn_id", "CASCADE"],
            ["turns.session_id", "CASCADE"],
            ["validation_attachments.plan_id", "CASCADE"],
            ["validation_attachments.project_id", "CASCADE"],
            ["validation_attachments.resource_id", "CASCADE"],
            ["validation_attachments.validation", "RESTRICT"],
            ["validation_results.plan_id", "CASCADE"],
            ["work_item_dependencies.depends_on", "CASCADE"],
            ["work_item_dependencies.item_id", "CASCADE"],
            ["work_item_reviews.item_id", "CASCADE"],
            ["work_item_sightings.item_id", "CASCADE"],
            ["work_item_transitions.item_id", "CASCADE"],
            ["work_items.duplicate_of", "SET NULL"],
            ["work_items.parent_id", "SET NULL"],
        ];
        assert_eq!(rules, expected, "on {}", database.kind);
    }
}

/// Both databases have the same tables with the same columns, and an index for each foreign key.
#[test]
fn both_databases_have_the_same_tables_and_columns() {
    let columns = |database: &TestDatabase| {
        drop(database.open());
        if database.kind == "sqlite" {
            database.ask(
                "SELECT t.name, c.name FROM sqlite_schema t JOIN pragma_table_info(t.name) c \
                 WHERE t.type = 'table' AND t.name NOT LIKE 'message_search%' \
                 AND t.name NOT LIKE 'work_item_search%' \
                 AND t.name NOT LIKE 'sqlite_%' AND t.name <> 'search_mark' ORDER BY 1, 2",
            )
        } else {
            database.ask(
                "SELECT table_name, column_name FROM information_schema.columns \
                 WHERE table_schema = current_schema() ORDER BY table_name COLLATE \"C\", column_name COLLATE \"C\"",
            )
        }
    };
    if let [sqlite, postgres] = TestDatabase::each().as_slice() {
        assert_eq!(columns(sqlite), columns(postgres));
    }
}

/// Overwrites pages of a database file with zeros and returns the new content.
fn wipe_pages(database: &TestDatabase, pages: &[usize]) -> Vec<u8> {
    const PAGE: usize = 4096;
    let mut bytes = std::fs::read(database.file()).expect("read");
    for page in pages {
        bytes[(page - 1) * PAGE..page * PAGE].fill(0);
    }
    std::fs::write(database.file(), &bytes).expect("written");
    bytes
}

/// Numbers of the leaf pages with the rows of a table, in key order.
fn leaves_of(database: &TestDatabase, table: &str) -> Vec<usize> {
    let sql = format!(
        "SELECT pageno FROM dbstat WHERE name = '{table}' AND pagetype = 'leaf' ORDER BY path"
    );
    database
        .ask(&sql)
        .concat()
        .iter()
        .map(|page| page.parse().expect("a number"))
        .collect()
}

fn saved(report: &SalvageReport, table: &str) -> u64 {
    let row = report.saved.iter().find(|(name, _)| name == table);
    row.map(|(_, rows)| *rows).expect(table)
}

/// Asserts that all checks pass: lost messages have placeholders, and no row refers to a missing row.
fn assert_sound(engine: &Engine) {
    let checks = engine.check().expect("checked");
    assert!(
        checks.iter().all(|check| check.severity == Severity::Ok),
        "{checks:?}"
    );
}

#[test]
fn repair_saves_readable_rows_and_keeps_the_damaged_file() {
    let database = populated(100, 50);
    let leaves = leaves_of(&database, "messages");
    let middle = leaves.len() / 2;
    let bytes = wipe_pages(&database, &leaves[middle..middle + 3]);
    assert_damage_is_reported(&database, "three pages of messages");
    let report = salvage(&database.file(), &Options::default()).expect("saved");

    let damaged_file = std::fs::read(&report.set_aside).expect("the damaged file still exists");
    assert!(damaged_file == bytes, "byte for byte");
    assert_ne!(report.set_aside, database.file());

    let engine = database.open();
    let readable = database.count("SELECT COUNT(*) FROM messages WHERE state = 'complete'");
    assert!(
        (4_900..5_000).contains(&readable),
        "{readable} of 5000: {report:?}"
    );
    assert_eq!(
        saved(&report, "messages"),
        readable,
        "the report counts all rows"
    );
    assert_eq!(
        report.lost_messages,
        5_000 - readable,
        "the report counts all lost messages"
    );
    assert_eq!(report.incomplete, ["messages"]);
    assert_eq!(
        database.count("SELECT COUNT(*) FROM messages WHERE state = 'failed'"),
        report.lost_messages
    );
    assert_eq!(database.count("SELECT COUNT(*) FROM sessions"), 100);
    assert_sound(&engine);
    // Salvaged messages keep their numbers.
    for row in database.ask(
        "SELECT message.sequence, message.content FROM messages message WHERE state = 'complete'",
    ) {
        let number = row[1]
            .split_once('/')
            .and_then(|(_, rest)| rest.split_once(' '));
        assert_eq!(number.map(|(number, _)| number), Some(row[0].as_str()));
    }

    // New events get positions after the salvaged ones, so a reader that resumes misses none.
    let newest = database.count("SELECT MAX(position) FROM events");
    assert_eq!(newest, 5_100, "events are saved too");
    let id = add_session(&engine, "afterwards", vec!["hello".to_owned()]);
    let after = engine
        .read(|reader| events::after(reader, Position(newest), 10))
        .expect("read");
    assert!(
        after.iter().any(|event| event.subject == id.to_string()),
        "{after:?}"
    );
}

/// With any page damaged, a salvage creates a consistent database and reports the lost rows.
#[test]
fn a_salvage_creates_a_consistent_database_from_any_damage() {
    let sessions = 30;
    let original = populated(sessions, 20);
    let pages = std::fs::read(original.file()).expect("read").len() / 4096;
    let step = (pages / cleveragents_testkit::proof_size(15, 1000)).max(1);
    for page in (2..=pages).step_by(step) {
        let database = TestDatabase::sqlite();
        std::fs::copy(original.file(), database.file()).expect("copied");
        let bytes = wipe_pages(&database, &[page]);
        let report = salvage(&database.file(), &Options::default()).expect("saved");
        assert!(
            std::fs::read(&report.set_aside).expect("kept") == bytes,
            "page {page}"
        );
        if report.saved.is_empty() {
            // Only damage to the schema makes all tables unreadable; the report lists them.
            let sql = format!("SELECT name FROM dbstat WHERE pageno = {page}");
            assert_eq!(original.ask(&sql).concat(), ["sqlite_schema"]);
            assert!(report.incomplete.contains(&"messages".to_owned()));
            continue;
        }
        let engine = database.open();
        assert_sound(&engine);
        let lost = database.count("SELECT COUNT(*) FROM messages WHERE state = 'failed'");
        let readable = database.count("SELECT COUNT(*) FROM messages WHERE state = 'complete'");
        assert_eq!(
            (saved(&report, "messages"), report.lost_messages),
            (readable, lost)
        );
        if report.incomplete.is_empty() {
            assert_eq!(
                (lost, readable),
                (0, sessions as u64 * 20),
                "page {page}: {report:?}"
            );
        }
        add_session(&engine, "afterwards", vec!["hello".to_owned()]);
        assert_sound(&engine);
    }
}

#[test]
fn an_unreadable_file_is_set_aside_and_replaced() {
    let database = TestDatabase::sqlite();
    let noise = b"no database at all".repeat(1000);
    std::fs::write(database.file(), &noise).expect("written");
    let report = salvage(&database.file(), &Options::default()).expect("replaced");
    assert!(std::fs::read(&report.set_aside).expect("kept") == noise);
    assert!(report.saved.iter().all(|(_, rows)| *rows == 0));
    assert!(!report.incomplete.is_empty());
    let engine = database.open();
    add_session(&engine, "first", vec!["hello".to_owned()]);
    assert!(
        engine
            .check()
            .expect("checked")
            .iter()
            .all(|check| check.severity == Severity::Ok)
    );
}

#[test]
fn two_salvages_keep_two_files() {
    let database = TestDatabase::sqlite();
    std::fs::write(database.file(), b"damaged once".repeat(100)).expect("written");
    let first = salvage(&database.file(), &Options::default())
        .expect("replaced")
        .set_aside;
    std::fs::write(database.file(), b"damaged twice".repeat(100)).expect("written");
    let second = salvage(&database.file(), &Options::default())
        .expect("replaced")
        .set_aside;
    assert_ne!(first, second);
    assert!(first.exists() && second.exists());
}

/// Data in the write-ahead log of a damaged file is salvaged as well.
#[test]
fn a_salvage_reads_the_log_of_the_damaged_file() {
    let original = populated(20, 20);
    let engine = original.open();
    let id = add_session(&engine, "only in the log", vec!["last words".to_owned()]);
    let crashed = TestDatabase::sqlite();
    std::fs::copy(original.file(), crashed.file()).expect("copied");
    let log = crashed.file().with_extension("db-wal");
    std::fs::copy(original.file().with_extension("db-wal"), &log).expect("copied");
    salvage(&crashed.file(), &Options::default()).expect("saved");
    assert!(!log.exists() || std::fs::metadata(&log).expect("a log").len() < 1_000_000);
    let after = crashed.open();
    let page = after
        .read(|reader| messages::page(reader, id, Sequence(0), 10))
        .expect("read");
    assert_eq!(page.len(), 1, "the log belongs to the damaged file");
}
