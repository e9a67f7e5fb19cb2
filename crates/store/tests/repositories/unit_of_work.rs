//! Units of work: atomic, isolated from each other, and no reader of the event log misses an event.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use cleveragents_domain::{
    ChangesetId, EventKind, Metadata, NewEvent, NewMessage, PlanId, Position, Role, Sequence,
    SessionId, SessionName, TokenUsage, Version,
};
use cleveragents_store::messages::{AppendEvents, AppendedMessage};
use cleveragents_store::sessions::{ExpectedVersion, NewSession, SessionFilter};
use cleveragents_store::{
    Engine, Error, Reader, UnitOfWork, blobs, changesets, events, messages, plans, sessions,
};
use cleveragents_testkit::{TestDatabase, at_once, proof_size};
use serde_json::json;

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

fn insert_session(unit: &mut UnitOfWork<'_>, id: SessionId, name: &str) -> Result<(), Error> {
    sessions::insert(unit, id, &new_session(name), EventKind::SessionCreated)
}

fn add_session(engine: &Engine, name: &str) -> SessionId {
    let (id, name) = (SessionId::generate(), name.to_owned());
    engine
        .write(move |unit| insert_session(unit, id, &name))
        .expect("stored");
    id
}

fn message(text: impl Into<String>) -> AppendedMessage {
    NewMessage::new(Role::User, text.into(), Metadata::new(), usize::MAX)
        .expect("a message")
        .into()
}

/// Number of rows of each table that the tests write.
fn rows(database: &TestDatabase) -> Vec<u64> {
    [
        "sessions",
        "messages",
        "plans",
        "changesets",
        "blobs",
        "events",
    ]
    .map(|table| database.count(&format!("SELECT COUNT(*) FROM {table}")))
    .to_vec()
}

/// Writes through every repository.
fn write_to_all_repositories(unit: &mut UnitOfWork<'_>) -> Result<(), Error> {
    let (session, plan) = (SessionId::generate(), PlanId::generate());
    insert_session(unit, session, "lost")?;
    messages::append(unit, session, &[message("lost")], AppendEvents::Each)?;
    plans::insert(unit, &plans::NewPlan::empty(plan))?;
    changesets::open(unit, ChangesetId::generate(), Some(plan))?;
    blobs::put(unit, b"lost")?;
    unit.emit(NewEvent {
        kind: EventKind::CleanupRan,
        subject: "lost".into(),
        payload: json!({}),
    });
    Ok(())
}

#[test]
fn defect_8376_a_unit_that_fails_midway_leaves_the_database_as_before() {
    for database in TestDatabase::each() {
        let engine = database.open();
        add_session(&engine, "before");
        let before = rows(&database);
        let outcome = engine.write(|unit| {
            write_to_all_repositories(unit)?;
            Err::<(), _>(Error::Internal("on purpose".to_owned()))
        });
        assert_eq!(
            outcome,
            Err(Error::Internal("on purpose".to_owned())),
            "the error of the unit"
        );
        assert_eq!(rows(&database), before, "on {}", database.kind);
        engine
            .write(write_to_all_repositories)
            .expect("the same unit without the failure");
        let after: Vec<u64> = before.iter().map(|count| count + 1).collect();
        assert_eq!(rows(&database)[..5], after[..5]);
    }
}

#[test]
fn a_rehearsed_unit_has_the_outcome_of_a_real_one_and_leaves_the_database_as_before() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let known = add_session(&engine, "before");
        let before = rows(&database);
        let rehearsing = engine.rehearsing().acting_as("ada");
        rehearsing
            .write(write_to_all_repositories)
            .expect("succeeds");
        let deleted = rehearsing.write(move |unit| sessions::delete(unit, known));
        let deleted = deleted.expect("a deletion").map(|session| session.id);
        assert_eq!(deleted, Some(known), "on {}", database.kind);
        // Constraints are checked.
        let duplicate = rehearsing.write(move |unit| insert_session(unit, known, "twice"));
        assert!(duplicate.is_err(), "{duplicate:?}");
        assert_eq!(rows(&database), before, "on {}", database.kind);
        // Real units that share a transaction with rehearsed ones are kept.
        let written = at_once(8, |number| {
            let engine = if number % 2 == 0 {
                &engine
            } else {
                &rehearsing
            };
            engine.write(move |unit| {
                let text = message(format!("message {number}"));
                messages::append(unit, known, &[text], AppendEvents::Each)
            })
        });
        assert!(written.iter().all(Result::is_ok), "{written:?}");
        let stored = database.count("SELECT COUNT(*) FROM messages");
        assert_eq!(stored, 4, "on {}", database.kind);
        let last = database.count("SELECT MAX(sequence) FROM messages");
        assert_eq!(last, 3, "no number is skipped on {}", database.kind);
    }
}

#[test]
fn defect_7505_no_event_of_a_failed_unit_is_left_behind() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let emit = |unit: &mut UnitOfWork<'_>, subject: &str| {
            let subject = subject.to_owned();
            unit.emit(NewEvent {
                kind: EventKind::PlanCreated,
                subject,
                payload: json!({}),
            });
        };
        engine
            .write(move |unit| {
                emit(unit, "failed");
                Err::<(), _>(Error::Internal("on purpose".to_owned()))
            })
            .expect_err("it fails");
        engine
            .write(move |unit| {
                emit(unit, "stored");
                Ok::<_, Error>(())
            })
            .expect("stored");
        let log = engine
            .read(|reader| events::after(reader, Position(0), 10))
            .expect("read");
        let subjects: Vec<&str> = log.iter().map(|event| event.subject.as_str()).collect();
        assert_eq!(subjects, ["stored"]);
    }
}

#[test]
fn a_panic_in_a_unit_rolls_back_only_that_unit() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let before = rows(&database);
        let outcome = engine.write(|unit| -> Result<(), Error> {
            write_to_all_repositories(unit)?;
            panic!("on purpose")
        });
        assert!(matches!(outcome, Err(Error::Internal(_))), "{outcome:?}");
        assert_eq!(rows(&database), before, "on {}", database.kind);
        engine
            .write(write_to_all_repositories)
            .expect("the engine still works");
    }
}

/// Many concurrent units share commits. Some fail after they wrote, in every way in which a unit can fail.
#[test]
fn defect_7489_a_failing_unit_does_not_affect_others() {
    let threads = 32;
    let each = proof_size(20, 400);
    for database in TestDatabase::each() {
        let engine = database.open();
        let outcomes = at_once(threads, |thread| {
            (0..each)
                .map(|number| {
                    let id = SessionId::generate();
                    let turn = thread * each + number;
                    let outcome = engine.write(move |unit| {
                        insert_session(unit, id, &format!("session {turn}"))?;
                        messages::append(unit, id, &[message("hello")], AppendEvents::Each)?;
                        match turn % 20 {
                            3 => Err(Error::Internal("on purpose".to_owned())),
                            8 => panic!("on purpose"),
                            // The database refuses this, because the plan does not exist.
                            13 => changesets::open(
                                unit,
                                ChangesetId::generate(),
                                Some(PlanId::generate()),
                            ),
                            // The database refuses this, and the closure ignores the error.
                            18 => {
                                let _ignored = insert_session(unit, id, "twice");
                                Ok(())
                            }
                            _ => Ok(()),
                        }
                    });
                    (id, turn, outcome)
                })
                .collect::<Vec<_>>()
        });
        let mut stored = BTreeSet::new();
        for (id, turn, outcome) in outcomes.concat() {
            let fails = matches!(turn % 20, 3 | 8 | 13 | 18);
            assert_eq!(outcome.is_err(), fails, "unit {turn}: {outcome:?}");
            match (turn % 20, &outcome) {
                (3, Err(Error::Internal(reason))) => assert_eq!(reason, "on purpose"),
                (13 | 18, Err(error)) => assert!(matches!(error, Error::Constraint(_)), "{error}"),
                _ => {}
            }
            if !fails {
                stored.insert(id.to_string());
            }
        }
        let present: BTreeSet<String> = database
            .ask("SELECT session_id FROM sessions")
            .concat()
            .into_iter()
            .collect();
        assert_eq!(present, stored, "on {}", database.kind);
        let expected = stored.len() as u64;
        assert_eq!(database.count("SELECT COUNT(*) FROM messages"), expected);
        assert_eq!(database.count("SELECT COUNT(*) FROM events"), expected * 2);
    }
}

#[test]
fn a_failed_statement_prevents_the_commit() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let id = add_session(&engine, "once");
        let before = rows(&database);
        let outcome = engine.write(move |unit| {
            insert_session(unit, SessionId::generate(), "other")?;
            let _ignored = insert_session(unit, id, "twice");
            Ok::<_, Error>("success")
        });
        assert!(matches!(outcome, Err(Error::Constraint(_))), "{outcome:?}");
        let outcome = engine.write(move |unit| {
            insert_session(unit, SessionId::generate(), "other")?;
            let _ignored = unit.query("SELECT * FROM nowhere", &[]);
            Ok::<_, Error>("success")
        });
        assert!(matches!(outcome, Err(Error::Statement(_))), "{outcome:?}");
        assert_eq!(rows(&database), before, "on {}", database.kind);
    }
}

#[test]
fn an_engine_cannot_be_used_inside_its_own_unit() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let inner = Arc::clone(&engine);
        let outcome = engine.write(move |unit| {
            insert_session(unit, SessionId::generate(), "outer")?;
            inner.write(|unit| insert_session(unit, SessionId::generate(), "inner"))
        });
        assert!(matches!(outcome, Err(Error::Internal(_))), "{outcome:?}");
        let inner = Arc::clone(&engine);
        let outcome = engine.write(move |_| inner.read(|reader| sessions::totals(reader)));
        assert!(matches!(outcome, Err(Error::Internal(_))), "{outcome:?}");
        let outcome = engine.read(|_| engine.read(|reader| sessions::totals(reader)));
        assert!(matches!(outcome, Err(Error::Internal(_))), "{outcome:?}");
        add_session(&engine, "the engine still works");
        assert_eq!(database.count("SELECT COUNT(*) FROM sessions"), 1);
    }
}

#[test]
fn concurrent_updates_of_one_version_report_the_loser() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let id = add_session(&engine, "before");
        for round in 1..=proof_size(20, 500) as u64 {
            let outcomes = at_once(4, |thread| {
                let name: SessionName = format!("round {round} thread {thread}")
                    .parse()
                    .expect("ok");
                let expect = ExpectedVersion::Exactly(Version(round));
                let outcome = {
                    let name = name.clone();
                    engine.write(move |unit| sessions::rename(unit, id, &name, expect))
                };
                (name, outcome)
            });
            let winners: Vec<_> = outcomes
                .iter()
                .filter(|(_, outcome)| outcome.is_ok())
                .collect();
            assert_eq!(winners.len(), 1, "{outcomes:?}");
            for (_, outcome) in &outcomes {
                if let Err(error) = outcome {
                    let expected = Error::Conflict {
                        what: format!("session {id}"),
                        expected: Version(round),
                        actual: Version(round + 1),
                    };
                    assert_eq!(*error, expected);
                }
            }
            let stored = engine
                .read(|reader| sessions::get(reader, id))
                .expect("read");
            let stored = stored.expect("there");
            assert_eq!(stored.name.as_ref(), Some(&winners[0].0));
            assert_eq!(stored.version, Version(round + 1));
        }
        let not_found = engine.write(|unit| {
            let name: SessionName = "x".parse().expect("a name");
            sessions::rename(unit, SessionId::generate(), &name, ExpectedVersion::Any)
        });
        assert_eq!(not_found, Ok(None), "a missing session is not a conflict");
    }
}

/// The outbox guarantee: a reader that resumes at its last position neither misses nor repeats an event, while writers
/// of different speeds run concurrently and some fail.
#[test]
fn a_resuming_reader_gets_each_event_exactly_once() {
    let threads = 16;
    let each = proof_size(40, 1000);
    for database in TestDatabase::each() {
        // Two engines simulate two processes.
        let engines = [database.open(), database.open()];
        let reader_engine = database.open();
        let writing = AtomicUsize::new(threads);
        let received = std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let (mut received, mut last) = (Vec::new(), Position(0));
                loop {
                    let is_over = writing.load(Ordering::SeqCst) == 0;
                    let more = reader_engine
                        .read(|reader| events::after(reader, last, 7))
                        .expect("read");
                    for event in more.iter().filter(|event| event.subject != "setup") {
                        assert!(event.position > last, "positions increase");
                        last = event.position;
                        received.push(event.payload["name"].as_str().expect("a name").to_owned());
                    }
                    if more.is_empty() && is_over {
                        return received;
                    }
                }
            });
            at_once(threads, |thread| {
                let engine = &engines[thread % 2];
                for number in 0..each {
                    let outcome = engine.write(move |unit| {
                        for part in 0..=thread % 3 {
                            unit.emit(NewEvent {
                                kind: EventKind::PlanCreated,
                                subject: "writer".to_owned(),
                                payload: json!({"name": format!("{thread}/{number}/{part}")}),
                            });
                        }
                        // Some units take long after their first statement.
                        if number % 7 == 0 {
                            blobs::put(unit, &vec![b'x'; 20_000])?;
                        }
                        if number % 5 == 4 {
                            return Err(Error::Internal("on purpose".to_owned()));
                        }
                        Ok(())
                    });
                    assert_eq!(outcome.is_err(), number % 5 == 4);
                }
                writing.fetch_sub(1, Ordering::SeqCst);
            });
            reader.join().expect("the reader ends")
        });
        let expected: BTreeSet<String> = (0..threads)
            .flat_map(|thread| {
                (0..each)
                    .filter(|number| number % 5 != 4)
                    .flat_map(move |number| {
                        (0..=thread % 3).map(move |part| format!("{thread}/{number}/{part}"))
                    })
            })
            .collect();
        assert_eq!(
            received.len(),
            expected.len(),
            "no duplicates on {}",
            database.kind
        );
        assert_eq!(
            received.iter().cloned().collect::<BTreeSet<_>>(),
            expected,
            "no missing events"
        );
        for thread in 0..threads {
            let prefix = format!("{thread}/");
            let events_of_writer = |names: Vec<&String>| -> Vec<(usize, usize)> {
                names
                    .into_iter()
                    .filter_map(|name| name.strip_prefix(&prefix))
                    .map(|rest| {
                        let (number, part) = rest.split_once('/').expect("two numbers");
                        (
                            number.parse().expect("a number"),
                            part.parse().expect("a number"),
                        )
                    })
                    .collect()
            };
            let order = events_of_writer(received.iter().collect());
            assert!(
                order.is_sorted(),
                "the events of one writer are in its order"
            );
        }
    }
}

/// In every read, the counter of a session and its messages belong to the same snapshot.
#[test]
fn a_read_sees_one_snapshot_while_writers_run() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let id = add_session(&engine, "growing");
        let is_over = AtomicBool::new(false);
        let reads = std::thread::scope(|scope| {
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        let mut reads = 0;
                        while !is_over.load(Ordering::SeqCst) || reads == 0 {
                            let (before, page, after) = engine
                                .read(|reader| {
                                    let before = sessions::get(reader, id)?.expect("there");
                                    std::thread::yield_now();
                                    let page = messages::page(
                                        reader,
                                        id,
                                        Sequence(0),
                                        u64::from(u32::MAX),
                                    )?;
                                    Ok::<_, Error>((
                                        before,
                                        page,
                                        sessions::get(reader, id)?.expect("there"),
                                    ))
                                })
                                .expect("read");
                            assert_eq!(before, after, "repeatable on {}", database.kind);
                            assert_eq!(before.message_count, page.len() as u64);
                            let bytes: usize =
                                page.iter().map(|message| message.content.len()).sum();
                            assert_eq!(before.content_bytes, bytes as u64);
                            reads += 1;
                        }
                        reads
                    })
                })
                .collect();
            at_once(4, |thread| {
                for number in 0..proof_size(50, 1000) {
                    let batch = vec![message(format!("{thread}/{number}")); 1 + number % 3];
                    let batch: Vec<AppendedMessage> = batch
                        .iter()
                        .map(|appended| message(appended.message.content()))
                        .collect();
                    engine
                        .write(move |unit| messages::append(unit, id, &batch, AppendEvents::Each))
                        .expect("stored");
                }
            });
            is_over.store(true, Ordering::SeqCst);
            readers
                .into_iter()
                .map(|reader| reader.join().expect("consistent"))
                .sum::<usize>()
        });
        assert!(reads >= 2);
    }
}

#[test]
fn defect_3628_names_with_quotes_and_semicolons_round_trip() {
    let names = [
        "Robert'); DROP TABLE sessions;--",
        "\"quoted\" 'twice' `thrice`",
        "?1 $1 :name @name %s %_ \\ \\' !",
        "a; b -- c /* d */",
        "日本語 🦀 e\u{301} \u{202e}reversed",
    ];
    for database in TestDatabase::each() {
        let engine = database.open();
        for name in names {
            let id = add_session(&engine, name);
            let text = name.to_owned();
            engine
                .write(move |unit| {
                    messages::append(unit, id, &[message(text.clone())], AppendEvents::Each)
                })
                .expect("stored");
            let (session, page, found, listed) = engine
                .read(|reader| {
                    let filter = SessionFilter {
                        name_contains: Some(name.to_owned()),
                        ..SessionFilter::default()
                    };
                    Ok::<_, Error>((
                        sessions::get(reader, id)?.expect("there"),
                        messages::page(reader, id, Sequence(0), 10)?,
                        sessions::with_name(reader, name, 10)?,
                        sessions::list(reader, &filter)?,
                    ))
                })
                .expect("read");
            assert_eq!(
                session.name.map(|name| name.to_string()).as_deref(),
                Some(name)
            );
            assert_eq!(page[0].content, name);
            assert_eq!(
                found.iter().map(|session| session.id).collect::<Vec<_>>(),
                [id]
            );
            let listed: Vec<_> = listed.sessions.iter().map(|session| session.id).collect();
            assert_eq!(listed, [id], "{name} on {}", database.kind);
        }
        assert_eq!(
            database.count("SELECT COUNT(*) FROM sessions"),
            names.len() as u64
        );
    }
}

/// `%` and `_` are ordinary characters of a name, and case does not matter.
#[test]
fn a_filter_by_name_matches() {
    for database in TestDatabase::each() {
        let engine = database.open();
        for name in [
            "100% sure",
            "100 times",
            "snake_case",
            "snakeXcase",
            "ÄPFEL und Birnen",
        ] {
            add_session(&engine, name);
        }
        let find = |text: &str| -> Vec<String> {
            let filter = SessionFilter {
                name_contains: Some(text.to_owned()),
                ..SessionFilter::default()
            };
            let page = engine
                .read(|reader| sessions::list(reader, &filter))
                .expect("read");
            assert_eq!(page.matching, page.sessions.len() as u64);
            page.sessions
                .into_iter()
                .filter_map(|session| session.name)
                .map(|name| name.to_string())
                .collect()
        };
        assert_eq!(find("100%"), ["100% sure"], "on {}", database.kind);
        assert_eq!(find("snake_"), ["snake_case"]);
        assert_eq!(find("SNAKE_CASE"), ["snake_case"]);
        assert_eq!(find("BIRNEN"), ["ÄPFEL und Birnen"]);
        assert_eq!(find("ÄPFEL"), ["ÄPFEL und Birnen"], "on {}", database.kind);
        assert!(find("nowhere").is_empty());
    }
}

/// Reads a list page by page and in one query.
#[test]
fn a_list_is_sorted_and_paged_by_the_database() {
    use cleveragents_store::sessions::{Direction, SortKey};
    for database in TestDatabase::each() {
        let engine = database.open();
        for number in 0..23_usize {
            let id = add_session(&engine, &format!("name {:02}", (number * 7) % 23));
            let batch: Vec<AppendedMessage> = (0..number % 5).map(|_| message("x")).collect();
            engine
                .write(move |unit| messages::append(unit, id, &batch, AppendEvents::Nothing))
                .expect("stored");
        }
        for sort in [
            SortKey::Updated,
            SortKey::Created,
            SortKey::Name,
            SortKey::Messages,
        ] {
            let list = |direction, offset, limit| {
                let filter = SessionFilter {
                    sort,
                    direction,
                    offset,
                    limit,
                    ..SessionFilter::default()
                };
                let page = engine
                    .read(|reader| sessions::list(reader, &filter))
                    .expect("read");
                assert_eq!(page.matching, 23);
                page.sessions
            };
            let complete = list(Direction::Natural, 0, None);
            let paged: Vec<_> = (0..23)
                .step_by(5)
                .flat_map(|offset| list(Direction::Natural, offset, Some(5)))
                .collect();
            assert_eq!(complete, paged, "{sort:?} on {}", database.kind);
            let mut reversed = list(Direction::Reversed, 0, None);
            reversed.reverse();
            assert_eq!(complete, reversed, "{sort:?} on {}", database.kind);
            let sorted = complete.windows(2).all(|pair| match sort {
                SortKey::Updated => pair[0].updated_at >= pair[1].updated_at,
                SortKey::Created => pair[0].created_at >= pair[1].created_at,
                SortKey::Name => pair[0].name <= pair[1].name,
                SortKey::Messages => pair[0].message_count >= pair[1].message_count,
            });
            assert!(sorted, "{sort:?} on {}", database.kind);
        }
    }
}
