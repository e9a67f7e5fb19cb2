//! Removal of expired data, release of unused space, and the reported numbers.

use cleveragents_domain::{
    ContentHash, EventKind, Metadata, NewMessage, PlanId, Position, Role, SessionId, TokenUsage,
};
use cleveragents_store::messages::{AppendEvents, AppendedMessage};
use cleveragents_store::sessions::NewSession;
use cleveragents_store::{
    Cleanup, Engine, Error, Migration, Retention, Severity, blobs, events, messages, plans,
    sessions,
};
use cleveragents_testkit::{TestDatabase, at_once};

const RETENTION: Retention = Retention { events_days: 30 };

fn add_session(engine: &Engine, messages: usize, size: usize) -> SessionId {
    let id = SessionId::generate();
    let new = NewSession {
        owner: None,
        name: None,
        actor: None,
        namespace: "local".to_owned(),
        automation: "supervised".to_owned(),
        usage: TokenUsage::default(),
        forked_from: None,
        created_at: None,
    };
    let batch: Vec<AppendedMessage> = (0..messages)
        .map(|number| {
            // Incompressible text, so that compression does not hide the size.
            let text: String = (0..)
                .flat_map(|part| {
                    ContentHash::of_bytes(format!("{id} {number} {part}").as_bytes())
                        .hex()
                        .into_bytes()
                })
                .map(char::from)
                .take(size)
                .collect();
            NewMessage::new(Role::User, text, Metadata::new(), usize::MAX)
                .expect("ok")
                .into()
        })
        .collect();
    engine
        .write(move |unit| {
            sessions::insert(unit, id, &new, EventKind::SessionCreated)?;
            messages::append(unit, id, &batch, AppendEvents::Each)?;
            Ok::<_, Error>(id)
        })
        .expect("stored")
}

/// The bytes that a database actually uses on disk.
fn bytes_on_disk(database: &TestDatabase) -> u64 {
    if database.kind == "postgres" {
        return database.count("SELECT pg_database_size(current_database())");
    }
    ["db", "db-wal"]
        .map(|extension| database.file().with_extension(extension))
        .iter()
        .filter_map(|path| std::fs::metadata(path).ok())
        .map(|file| file.len())
        .sum()
}

#[test]
fn a_cleanup_removes_exactly_what_its_preview_lists() {
    for database in TestDatabase::each() {
        let engine = database.open();
        add_session(&engine, 9, 10);
        for content in [&b"one"[..], b"two", b"three"] {
            let content = content.to_vec();
            engine
                .write(move |unit| blobs::put(unit, &content))
                .expect("stored");
        }
        let nothing = Cleanup {
            events: 0,
            blobs: 0,
        };
        assert_eq!(engine.cleanup_preview(RETENTION), Ok(nothing));
        assert_eq!(engine.cleanup(RETENTION), Ok(nothing), "all of it is new");
        assert_eq!(
            database.count("SELECT COUNT(*) FROM events"),
            10,
            "a cleanup of nothing emits no event"
        );

        database.execute_sql("UPDATE events SET occurred_at = 0 WHERE position <= 4");
        database.execute_sql("UPDATE blobs SET created_at = 0 WHERE size = 3");
        let old = Cleanup {
            events: 4,
            blobs: 2,
        };
        assert_eq!(engine.cleanup_preview(RETENTION), Ok(old));
        assert_eq!(
            engine.cleanup_preview(RETENTION),
            Ok(old),
            "a preview changes nothing"
        );
        assert_eq!(engine.cleanup(RETENTION), Ok(old), "on {}", database.kind);
        assert_eq!(database.count("SELECT COUNT(*) FROM blobs"), 1);
        let log = engine
            .read(|reader| events::after(reader, Position(0), 100))
            .expect("read");
        assert_eq!(log.len(), 7, "six kept events and the event of the cleanup");
        assert_eq!(log[0].position, Position(5), "positions are never reused");
        let last = log.last().expect("an event");
        assert_eq!(last.kind, EventKind::CleanupRan);
        assert_eq!(last.payload, serde_json::json!({"events": 4, "blobs": 2}));
        assert_eq!(
            engine.cleanup(RETENTION),
            Ok(nothing),
            "no more expired data"
        );
        assert_eq!(
            database.count("SELECT COUNT(*) FROM messages"),
            9,
            "messages are kept"
        );
    }
}

/// All events expire. A reader that resumes at its last position must still get the new events.
#[test]
fn positions_of_events_are_never_reused() {
    for database in TestDatabase::each() {
        let engine = database.open();
        add_session(&engine, 5, 10);
        let last = database.count("SELECT MAX(position) FROM events");
        for _ in 0..3 {
            database.execute_sql("UPDATE events SET occurred_at = 0");
            let preview = engine.cleanup_preview(RETENTION).expect("read");
            assert_eq!(
                engine.cleanup(RETENTION),
                Ok(preview),
                "on {}",
                database.kind
            );
        }
        drop(engine);
        let engine = database.open();
        engine.vacuum().expect("vacuumed");
        add_session(&engine, 1, 10);
        let after = engine
            .read(|reader| events::after(reader, Position(last), 100))
            .expect("read");
        let kinds: Vec<_> = after.iter().map(|event| event.kind).collect();
        assert!(
            kinds.ends_with(&[EventKind::SessionCreated, EventKind::MessageAppended]),
            "{kinds:?} on {}",
            database.kind
        );
    }
}

#[test]
fn a_vacuum_frees_bytes_and_reports_them() {
    for database in TestDatabase::each() {
        let engine = database.open();
        if database.kind == "postgres" {
            // Otherwise the server may vacuum automatically before the measurement.
            for table in ["messages", "events"] {
                database.execute_sql(&format!(
                    "ALTER TABLE {table} SET (autovacuum_enabled = off, toast.autovacuum_enabled = off)"
                ));
            }
        }
        let kept_session = add_session(&engine, 10, 100);
        let large = add_session(&engine, 1_000, 2_000);
        engine
            .write(move |unit| sessions::delete(unit, large))
            .expect("deleted");
        let before = bytes_on_disk(&database);
        assert!(before > 1_000_000, "{before}");
        if database.kind == "sqlite" {
            assert!(engine.status().expect("status").free_bytes > 1_000_000);
        }
        let mut freed = engine.vacuum().expect("vacuumed");
        let mut after = bytes_on_disk(&database);
        // The server keeps rows that a background process still sees, so the vacuum is repeated.
        for _ in 0..200 {
            if database.kind == "sqlite" || after + 1_000_000 < before {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
            freed = engine.vacuum().expect("vacuumed");
            after = bytes_on_disk(&database);
        }
        assert!(
            after + 1_000_000 < before,
            "{before} → {after} on {}",
            database.kind
        );
        assert!(freed.before_bytes > freed.after_bytes);
        if database.kind == "sqlite" {
            assert_eq!(
                freed.after_bytes, after,
                "the report contains the actual size"
            );
        }
        assert_eq!(engine.status().expect("status").free_bytes, 0);
        let session = engine
            .read(|reader| sessions::get(reader, kept_session))
            .expect("read");
        assert_eq!(
            session.map(|session| session.message_count),
            Some(10),
            "the other session is kept"
        );
        assert!(
            engine
                .check()
                .expect("checked")
                .iter()
                .all(|check| check.severity == Severity::Ok)
        );
    }
}

#[test]
fn a_vacuum_may_run_while_others_read_and_write() {
    for database in TestDatabase::each() {
        let engines = [database.open(), database.open()];
        let id = add_session(&engines[0], 1, 10);
        at_once(6, |thread| {
            let engine = &engines[thread % 2];
            for round in 0..10 {
                if thread == 0 && round % 5 == 0 {
                    engine.vacuum().expect("vacuumed");
                }
                let text = format!("{thread}/{round}");
                let message: AppendedMessage =
                    NewMessage::new(Role::User, text, Metadata::new(), usize::MAX)
                        .expect("ok")
                        .into();
                let message = [message];
                engine
                    .write(move |unit| messages::append(unit, id, &message, AppendEvents::Each))
                    .expect("stored");
                engine
                    .read(|reader| sessions::totals(reader))
                    .expect("read");
            }
        });
        assert_eq!(
            database.count("SELECT COUNT(*) FROM messages"),
            61,
            "on {}",
            database.kind
        );
    }
}

#[test]
fn the_status_reports_stored_rows() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let plan = PlanId::generate();
        engine
            .write(move |unit| plans::insert(unit, &plans::NewPlan::empty(plan)))
            .expect("stored");
        let status = engine.status().expect("status");
        assert_eq!(status.engine, database.kind);
        assert_eq!(status.url, database.url);
        assert_eq!(
            (status.schema_version, status.newest_version),
            (Migration::newest(), Migration::newest())
        );
        assert!(status.pending.is_empty());
        let applied: Vec<_> = status
            .applied
            .iter()
            .map(|migration| (migration.version, migration.name.as_str()))
            .collect();
        let known: Vec<_> = Migration::ALL
            .iter()
            .map(|migration| (migration.version, migration.name))
            .collect();
        assert_eq!(applied, known);
        if database.kind == "sqlite" {
            assert_eq!(status.engine_version, cleveragents_store::sqlite_version());
            let log = database.file().with_extension("db-wal");
            assert_eq!(
                status.log_bytes,
                std::fs::metadata(log).expect("a log").len()
            );
            assert!(status.log_bytes > 0 && status.size_bytes > 4096);
        } else {
            assert_eq!(
                status.engine_version,
                database.ask("SHOW server_version")[0][0]
            );
            assert!(status.size_bytes > 1_000_000);
            assert_eq!(status.log_bytes, 0);
        }
    }
}

/// Violates each checked rule, bypassing the store.
#[test]
fn a_check_reports_each_violated_rule() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let id = add_session(&engine, 5, 10);
        let problems = || -> Vec<(&'static str, String)> {
            let checks = engine.check().expect("checked");
            checks
                .into_iter()
                .filter(|check| check.severity != Severity::Ok)
                .map(|check| (check.name, check.detail))
                .collect()
        };
        assert!(problems().is_empty());
        database.execute_sql(&format!(
            "DELETE FROM messages WHERE session_id = '{id}' AND sequence = 2"
        ));
        let found = problems();
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].0 == "message numbers" && found[0].1.contains(&id.to_string()),
            "{found:?}"
        );
        database.execute_sql(&format!(
            "UPDATE sessions SET next_sequence = 4 WHERE session_id = '{id}'"
        ));
        assert_eq!(
            problems().len(),
            1,
            "the count is correct, the last number is not"
        );
        database.execute_sql("DELETE FROM messages");
        database.execute_sql("UPDATE sessions SET next_sequence = 0");
        assert!(problems().is_empty());

        database.execute_sql(
            "INSERT INTO plans (plan_id, phase, state, created_at, updated_at) VALUES ('p', 'strategize', 'queued', 0, 0)",
        );
        database.execute_sql(
            "INSERT INTO changesets (changeset_id, plan_id, next_entry, opened_at) VALUES ('c', 'p', 1, 0)",
        );
        assert_eq!(problems()[0].0, "changeset entries");
        database.execute_sql("DELETE FROM changesets");

        database.execute_sql(
            "INSERT INTO tool_invocations (invocation_id, tool, arguments, outcome, output_hash, started_at, finished_at) \
             VALUES ('i', 't', '{}', 'succeeded', 'sha256:nowhere', 0, 0)",
        );
        assert_eq!(problems()[0].0, "tool outputs");
        database.execute_sql("DELETE FROM tool_invocations");

        if database.kind == "sqlite" {
            database.execute_sql(
                "PRAGMA foreign_keys = OFF; INSERT INTO changesets (changeset_id, plan_id, opened_at) VALUES ('c', 'nowhere', 0)",
            );
            assert_eq!(problems()[0].0, "foreign keys");
        }
    }
}
