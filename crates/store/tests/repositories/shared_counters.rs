//! Units that share a commit allocate their message numbers from counters in memory. This must have no visible effect:
//! no number is missing or assigned twice, and every read of a session includes all earlier appends.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use cleveragents_domain::{
    EventKind, Metadata, NewMessage, Role, Sequence, Session, SessionId, Timestamp, TokenUsage,
    Tokens,
};
use cleveragents_store::messages::{AppendEvents, AppendedMessage};
use cleveragents_store::sessions::{NewSession, SessionFilter};
use cleveragents_store::{Engine, Error, Severity, UnitOfWork, messages, sessions};
use cleveragents_testkit::{TestDatabase, at_once, proof_size};

fn message(text: &str) -> AppendedMessage {
    NewMessage::new(Role::User, text.to_owned(), Metadata::new(), usize::MAX)
        .expect("a message")
        .into()
}

fn insert_session(unit: &mut UnitOfWork<'_>, id: SessionId) -> Result<(), Error> {
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
    sessions::insert(unit, id, &new, EventKind::SessionCreated)
}

fn add_session(engine: &Engine) -> SessionId {
    let id = SessionId::generate();
    engine
        .write(move |unit| insert_session(unit, id))
        .expect("stored");
    id
}

fn append(unit: &mut UnitOfWork<'_>, id: SessionId, text: &str) -> Result<Vec<u64>, Error> {
    let numbers = messages::append(unit, id, &[message(text)], AppendEvents::Each)?;
    Ok(numbers
        .unwrap_or_default()
        .iter()
        .map(|number| number.0)
        .collect())
}

fn get_session(unit: &mut UnitOfWork<'_>, id: SessionId) -> Result<Session, Error> {
    sessions::get(unit, id)?.ok_or_else(|| Error::Internal("no such session".to_owned()))
}

fn intended_error() -> Error {
    Error::Internal("on purpose".to_owned())
}

fn stored(engine: &Engine, id: SessionId) -> (Session, Vec<String>) {
    engine
        .read(|reader| {
            let session = sessions::get(reader, id)?.expect("it exists");
            let all = messages::page(reader, id, Sequence(0), 1_000)?;
            for (number, message) in all.iter().enumerate() {
                assert_eq!(message.sequence.0, number as u64, "no gap");
            }
            Ok::<_, Error>((
                session,
                all.into_iter().map(|message| message.content).collect(),
            ))
        })
        .expect("read")
}

fn assert_sound(engine: &Engine) {
    let checks = engine.check().expect("checked");
    assert!(
        checks.iter().all(|check| check.severity == Severity::Ok),
        "{checks:?}"
    );
}

type Work = Box<dyn FnMut(&mut UnitOfWork<'_>) -> Result<Vec<u64>, Error> + Send>;

/// Waits until a thread sleeps, according to the operating system, which means that its unit is queued.
fn wait_until_asleep(caller: &Path) {
    let place = Path::new("/proc").join(caller).join("stat");
    loop {
        let stat = std::fs::read_to_string(&place).expect("the thread runs");
        let (_, after_name) = stat.rsplit_once(')').expect("a name in brackets");
        if after_name.trim_start().starts_with('S') {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Runs units in this order and in one batch: they are queued one after another while the leader of the batch is
/// blocked.
fn in_one_batch(engine: &Arc<Engine>, units: Vec<Work>) -> Vec<Result<Vec<u64>, Error>> {
    let (release, released) = mpsc::channel::<()>();
    let (started, wait_for_start) = mpsc::channel();
    let leader = {
        let engine = Arc::clone(engine);
        thread::spawn(move || {
            engine.write(move |_| {
                let _fails_when_run_again = started.send(());
                let _when_released = released.recv();
                Ok::<_, Error>(())
            })
        })
    };
    wait_for_start.recv().expect("the leader runs");
    let running: Vec<_> = units
        .into_iter()
        .map(|unit| {
            let engine = Arc::clone(engine);
            let (sender, reported) = mpsc::channel();
            let caller = thread::spawn(move || {
                let thread = std::fs::read_link("/proc/thread-self").expect("a thread");
                sender.send(thread).expect("the receiver waits");
                engine.write(unit)
            });
            wait_until_asleep(&reported.recv().expect("the caller runs"));
            caller
        })
        .collect();
    drop(release);
    leader.join().expect("no panic").expect("it wrote nothing");
    running
        .into_iter()
        .map(|caller| caller.join().expect("no panic"))
        .collect()
}

#[test]
fn a_unit_that_fails_inside_a_batch_uses_up_no_number() {
    for fails_by_panic in [false, true] {
        let database = TestDatabase::sqlite();
        let engine = database.open();
        let id = add_session(&engine);
        let runs = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&runs);
        let outcomes = in_one_batch(
            &engine,
            vec![
                Box::new(move |unit| {
                    counted.fetch_add(1, Ordering::SeqCst);
                    append(unit, id, "first")
                }),
                Box::new(move |unit| {
                    append(unit, id, "lost")?;
                    append(unit, id, "lost too")?;
                    assert!(!fails_by_panic, "on purpose");
                    Err(intended_error())
                }),
                Box::new(move |unit| append(unit, id, "second")),
                Box::new(move |unit| append(unit, id, "third")),
            ],
        );
        assert_eq!(
            runs.load(Ordering::SeqCst),
            2,
            "the unit was in the failed batch and ran again"
        );
        assert_eq!(outcomes[0], Ok(vec![0]));
        assert!(outcomes[1].is_err());
        assert_eq!(outcomes[2], Ok(vec![1]));
        assert_eq!(outcomes[3], Ok(vec![2]));
        let (session, texts) = stored(&engine, id);
        assert_eq!(texts, ["first", "second", "third"]);
        assert_eq!((session.message_count, session.content_bytes), (3, 16));
        assert_sound(&engine);
    }
}

#[test]
fn a_unit_sees_the_counts_of_earlier_units_and_its_own() {
    let database = TestDatabase::sqlite();
    let engine = database.open();
    let id = add_session(&engine);
    let count = |session: &Session| vec![session.message_count, session.content_bytes];
    let outcomes = in_one_batch(
        &engine,
        vec![
            Box::new(move |unit| append(unit, id, "one")),
            Box::new(move |unit| get_session(unit, id).map(|session| count(&session))),
            Box::new(move |unit| {
                append(unit, id, "two")?;
                append(unit, id, "three")?;
                get_session(unit, id).map(|session| count(&session))
            }),
            Box::new(move |unit| append(unit, id, "four")),
            Box::new(move |unit| {
                let usage = TokenUsage {
                    input_tokens: Tokens(7),
                    ..TokenUsage::default()
                };
                sessions::add_usage(unit, id, usage)?;
                append(unit, id, "five")
            }),
            Box::new(move |unit| {
                let totals = sessions::totals(unit)?;
                let page = sessions::list(unit, &SessionFilter::default())?;
                let listed = page
                    .sessions
                    .first()
                    .map_or(0, |session| session.message_count);
                Ok(vec![totals.messages, totals.content_bytes, listed])
            }),
        ],
    );
    let expected = [
        vec![0],
        vec![1, 3],
        vec![3, 11],
        vec![3],
        vec![4],
        vec![5, 19, 5],
    ];
    assert_eq!(outcomes, expected.map(Ok));
    let (session, texts) = stored(&engine, id);
    assert_eq!(texts, ["one", "two", "three", "four", "five"]);
    assert_eq!(count(&session), [5, 19]);
    assert_eq!(session.usage.input_tokens, Tokens(7));
    assert_sound(&engine);
}

#[test]
fn writes_after_an_append_in_one_unit_are_kept() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let id = add_session(&engine);
        let moment = Timestamp::from_micros(1_000_000);
        engine
            .write(move |unit| {
                append(unit, id, "text")?;
                sessions::restore_updated_at(unit, id, moment)
            })
            .expect("stored");
        let (session, _) = stored(&engine, id);
        assert_eq!((session.message_count, session.updated_at), (1, moment));
    }
}

#[test]
fn a_unit_that_appends_nothing_and_fails_does_not_touch_the_session() {
    let database = TestDatabase::sqlite();
    let engine = database.open();
    let (id, other) = (add_session(&engine), add_session(&engine));
    let (before, _) = stored(&engine, id);
    let outcomes = in_one_batch(
        &engine,
        vec![
            Box::new(move |unit| append(unit, other, "text")),
            Box::new(move |unit| {
                messages::append(unit, id, &[], AppendEvents::Each)?;
                Err(intended_error())
            }),
        ],
    );
    assert_eq!(outcomes, [Ok(vec![0]), Err(intended_error())]);
    assert_eq!(stored(&engine, id).0.updated_at, before.updated_at);
}

#[test]
fn a_session_removed_between_two_appends_of_a_batch_is_missing_for_the_second() {
    let database = TestDatabase::sqlite();
    let engine = database.open();
    let (removed, kept) = (add_session(&engine), add_session(&engine));
    let outcomes = in_one_batch(
        &engine,
        vec![
            Box::new(move |unit| append(unit, removed, "lost")),
            Box::new(move |unit| append(unit, kept, "kept")),
            Box::new(move |unit| {
                let session = sessions::delete(unit, removed)?;
                Ok(vec![session.map_or(0, |session| session.message_count)])
            }),
            // No number, because the session does not exist.
            Box::new(move |unit| append(unit, removed, "too late")),
            Box::new(move |unit| append(unit, kept, "kept too")),
        ],
    );
    let expected = [vec![0], vec![0], vec![1], vec![], vec![1]];
    assert_eq!(outcomes, expected.map(Ok));
    assert_eq!(stored(&engine, kept).1, ["kept", "kept too"]);
    assert_eq!(database.count("SELECT COUNT(*) FROM messages"), 2);
    assert_sound(&engine);
}

/// A trigger refuses sessions with more than two messages. The failure occurs when the counters are written, after the
/// units ran.
#[test]
fn a_counter_that_cannot_be_written_fails_only_its_unit() {
    let database = TestDatabase::sqlite();
    let engine = database.open();
    let id = add_session(&engine);
    database.execute_sql(
        "CREATE TRIGGER refuse BEFORE UPDATE ON sessions WHEN new.next_sequence > 2 \
         BEGIN SELECT RAISE(ABORT, 'two are enough'); END",
    );
    let append_one = |text: &'static str| -> Work { Box::new(move |unit| append(unit, id, text)) };
    let outcomes = in_one_batch(
        &engine,
        vec![
            append_one("first"),
            append_one("second"),
            append_one("third"),
        ],
    );
    assert_eq!(outcomes[..2], [Ok(vec![0]), Ok(vec![1])]);
    assert!(matches!(&outcomes[2], Err(Error::Constraint(reason)) if reason.contains("enough")));
    let alone = engine.write(append_one("alone"));
    assert!(matches!(alone, Err(Error::Constraint(_))), "{alone:?}");
    let (session, texts) = stored(&engine, id);
    assert_eq!(texts, ["first", "second"]);
    assert_eq!((session.message_count, session.content_bytes), (2, 11));
    assert_sound(&engine);
}

#[test]
fn one_unit_may_append_to_more_sessions_than_have_cached_counters() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let ids: Vec<SessionId> = (0..150).map(|_| SessionId::generate()).collect();
        let all = ids.clone();
        engine
            .write(move |unit| {
                for id in &all {
                    insert_session(unit, *id)?;
                }
                for round in 0..2 {
                    for id in &all {
                        assert_eq!(append(unit, *id, "text")?, [round]);
                    }
                }
                Ok::<_, Error>(())
            })
            .expect("stored");
        for id in ids {
            let (session, texts) = stored(&engine, id);
            assert_eq!((session.message_count, texts.len()), (2, 2));
        }
        assert_sound(&engine);
    }
}

/// Appends run concurrently with all other operations on the row of a session.
#[test]
fn concurrent_appends_are_numbered_without_gaps_and_counted() {
    let each = proof_size(20, 400);
    for database in TestDatabase::each() {
        let engine = database.open();
        let ids = [add_session(&engine), add_session(&engine)];
        let accepted = at_once(16, |thread| {
            (0..each)
                .filter(|number| {
                    let id = ids[(thread + number) % 2];
                    let turn = thread + number;
                    let outcome = engine.write(move |unit| {
                        let numbers = append(unit, id, "text")?;
                        match turn % 8 {
                            1 => return Err(intended_error()),
                            3 => {
                                let seen = get_session(unit, id)?.message_count;
                                assert_eq!(
                                    vec![seen - 1],
                                    numbers,
                                    "the number of the last message"
                                );
                            }
                            5 => {
                                sessions::add_usage(unit, id, TokenUsage::default())?;
                            }
                            7 => {
                                append(unit, id, "text")?;
                                return Err(intended_error());
                            }
                            _ => {}
                        }
                        Ok(())
                    });
                    assert_eq!(outcome.is_err(), matches!(turn % 8, 1 | 7));
                    outcome.is_ok()
                })
                .count() as u64
        });
        let counts: Vec<u64> = ids
            .iter()
            .map(|id| {
                let session = engine
                    .read(|reader| sessions::get(reader, *id))
                    .expect("read")
                    .expect("it exists");
                assert_eq!(session.content_bytes, session.message_count * 4);
                session.message_count
            })
            .collect();
        assert_eq!(counts.iter().sum::<u64>(), accepted.iter().sum::<u64>());
        assert_eq!(
            database.count("SELECT COUNT(*) FROM messages"),
            counts.iter().sum::<u64>()
        );
        assert_sound(&engine);
    }
}
