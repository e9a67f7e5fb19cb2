//! Tasks, their updates for subscribers, and push configurations, on both databases.

use std::sync::Arc;

use cleveragents_domain::identity::Namespaces;
use cleveragents_domain::{
    EventKind, Position, SessionId, TaskId, TaskKind, TaskState, Timestamp, TokenUsage,
};
use cleveragents_store::sessions::NewSession;
use cleveragents_store::tasks::{ArtifactChange, NewTask, StateChange, Task, TaskFilter};
use cleveragents_store::{Engine, Error, events, pushes, sessions, tasks};
use cleveragents_testkit::{TestDatabase, at_once};
use serde_json::{Value, json};

use TaskState::{Canceled, Completed, InputRequired, Submitted, Working};

const ALL: &[TaskState] = &TaskState::ALL;

#[expect(clippy::unnecessary_wraps, reason = "the form of the callback")]
fn update(task: &Task) -> Result<String, Error> {
    Ok(json!({"state": task.state.as_str()}).to_string())
}

fn begin(engine: &Engine, namespace: &str, context: &str) -> TaskId {
    let new = NewTask {
        id: TaskId::generate(),
        namespace: namespace.to_owned(),
        context: context.to_owned(),
        kind: TaskKind::Turn,
        subject: "session".to_owned(),
        metadata: json!({}),
        runner: "one".to_owned(),
    };
    let id = new.id;
    engine
        .write(move |unit| tasks::insert(unit, &new, "m", &json!({"messageId": "m"})))
        .map(|task| assert_eq!((task.state, task.update_count), (Submitted, 0)))
        .expect("stored");
    id
}

fn change_task_state(
    engine: &Engine,
    id: TaskId,
    from: &'static [TaskState],
    to: TaskState,
    runner: Option<&'static str>,
) -> Option<Task> {
    let message = json!({"messageId": format!("said when {}", to.as_str())});
    engine
        .write(move |unit| {
            let change = StateChange {
                from,
                runner,
                to,
                message: Some(&message),
                update: &update,
            };
            tasks::change_state(unit, id, &change)
        })
        .expect("no error")
}

#[test]
fn final_states_are_final_and_concurrent_changes_have_one_winner() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let id = begin(&engine, "acme", "c");
        let final_states = [Completed, Canceled];
        let done = at_once(8, |index| {
            change_task_state(&engine, id, ALL, final_states[index % 2], None).is_some()
        });
        assert_eq!(done.iter().filter(|done| **done).count(), 1);
        for to in TaskState::ALL {
            assert!(
                change_task_state(&engine, id, ALL, to, None).is_none(),
                "{to:?}"
            );
        }
        let updates = engine
            .read(|reader| tasks::updates::<Value>(reader, id, 0, 10))
            .expect("updates");
        assert_eq!(updates.len(), 1);
        let log = engine
            .read(|reader| events::after(reader, Position(0), 100))
            .expect("events");
        let count_of = |kind| log.iter().filter(|event| event.kind == kind).count();
        assert_eq!(count_of(EventKind::TaskCreated), 1);
        assert_eq!(count_of(EventKind::TaskStateChanged), 1);
    }
}

#[test]
fn updates_of_all_writers_are_numbered_without_gaps() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let id = begin(&engine, "acme", "c");
        assert!(change_task_state(&engine, id, &[Submitted], Working, Some("one")).is_some());
        at_once(8, |index| {
            let name = format!("a{index}");
            engine
                .write(move |unit| {
                    let change = ArtifactChange {
                        runner: "one",
                        artifact_id: &name,
                        artifact: &|before| {
                            Ok(json!({"artifactId": name, "again": before.is_some()}).to_string())
                        },
                        update: &|_| Ok(json!({"piece": index}).to_string()),
                    };
                    tasks::write_artifact(unit, id, &change)
                })
                .expect("stored")
                .expect("taken")
        });
        let numbers = database.ask("SELECT number FROM task_updates ORDER BY number");
        let expected: Vec<_> = (0..9).map(|number| vec![number.to_string()]).collect();
        assert_eq!(numbers, expected);
        let task = engine
            .read(|reader| tasks::get(reader, id))
            .expect("read")
            .expect("there");
        assert_eq!(task.update_count, 9);
        let found = engine
            .read(|reader| tasks::artifacts::<Value>(reader, id))
            .expect("artifacts");
        assert_eq!(found.len(), 8);
    }
}

#[test]
fn a_server_changes_only_its_own_tasks() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let id = begin(&engine, "acme", "c");
        let taken_over = at_once(8, |index| {
            let server_name = format!("server {index}");
            engine
                .write(move |unit| tasks::take_over(unit, id, "one", &server_name))
                .expect("no error")
        });
        assert_eq!(
            taken_over.iter().filter(|taken_over| **taken_over).count(),
            1
        );
        assert!(change_task_state(&engine, id, ALL, Completed, Some("one")).is_none());
        let written = engine
            .write(move |unit| {
                let change = ArtifactChange {
                    runner: "one",
                    artifact_id: "a",
                    artifact: &|_| Ok("{}".to_owned()),
                    update: &|_| Ok("{}".to_owned()),
                };
                tasks::write_artifact(unit, id, &change)
            })
            .expect("no error");
        assert!(written.is_none());
        assert!(change_task_state(&engine, id, ALL, Canceled, None).is_some());
        let late_takeover = engine.write(move |unit| tasks::take_over(unit, id, "server 0", "x"));
        assert!(!late_takeover.expect("no error"), "the task is final");
    }
}

#[test]
fn the_message_of_a_state_is_kept_after_the_next_state() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let id = begin(&engine, "acme", "c");
        change_task_state(&engine, id, &[Submitted], InputRequired, None).expect("waits");
        change_task_state(&engine, id, &[InputRequired], Working, None).expect("continues");
        let reported = |limit| {
            let found = engine.read(|reader| tasks::messages::<Value>(reader, id, limit));
            let found: Result<_, Error> = found;
            found
                .expect("messages")
                .iter()
                .map(|message| message["messageId"].as_str().expect("an id").to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(reported(None), ["m", "said when input_required"]);
        assert_eq!(reported(Some(1)), ["said when input_required"]);
        assert!(reported(Some(0)).is_empty());
    }
}

#[test]
fn pages_contain_every_task_once_while_tasks_are_created() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let mut created_tasks: Vec<_> = (0..7).map(|_| begin(&engine, "acme", "c")).collect();
        begin(&engine, "local", "c");
        begin(&engine, "other", "c");
        begin(&engine, "acme", "another");
        change_task_state(&engine, created_tasks[0], ALL, Working, None).expect("changed");
        let mut filter = TaskFilter {
            visible: Namespaces::Only(["acme".to_owned()].into()),
            context: Some("c".to_owned()),
            limit: 3,
            ..TaskFilter::default()
        };
        let mut found = Vec::new();
        loop {
            let (page, total) = engine
                .read(|reader| tasks::list(reader, &filter))
                .expect("a page");
            assert_eq!(total, 7 + found.len().div_ceil(3) as u64);
            let Some(last) = page.last() else { break };
            filter.after = Some((last.status_at, last.id.to_string()));
            found.extend(page.iter().map(|task| task.id));
            // This task is newer than all tasks of the pages already read, so it is not on the
            // remaining pages.
            begin(&engine, "acme", "c");
        }
        found.sort();
        created_tasks.sort();
        assert_eq!(found, created_tasks);

        let count = |filter: &TaskFilter| {
            let found = engine.read(|reader| tasks::list(reader, filter));
            let found: Result<_, Error> = found;
            found.expect("a page").1
        };
        let mut filter = TaskFilter {
            limit: 1,
            ..TaskFilter::default()
        };
        let all = count(&filter);
        filter.visible = Namespaces::AllButLocal;
        assert_eq!(count(&filter), all - 1);
        filter.state = Some(Working);
        assert_eq!(count(&filter), 1);
        filter.since = Some(Timestamp::now().plus_seconds(60));
        assert_eq!(count(&filter), 0);
    }
}

#[test]
fn a_context_has_one_session_and_a_session_one_context() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let session = || {
            let id = SessionId::generate();
            let new = NewSession {
                owner: None,
                name: None,
                actor: None,
                namespace: "acme".to_owned(),
                automation: "supervised".to_owned(),
                usage: TokenUsage::default(),
                forked_from: None,
                created_at: None,
            };
            engine
                .write(move |unit| sessions::insert(unit, id, &new, EventKind::SessionCreated))
                .expect("a session");
            id
        };
        let session_ids: Arc<Vec<_>> = Arc::new((0..4).map(|_| session()).collect());
        let done = at_once(4, |index| {
            let session_ids = Arc::clone(&session_ids);
            engine
                .write(move |unit| tasks::add_context(unit, "acme", "c", session_ids[index]))
                .expect("no error")
        });
        assert_eq!(done.iter().filter(|done| **done).count(), 1);
        let winner = engine
            .read(|reader| tasks::context(reader, "acme", "c"))
            .expect("read")
            .expect("there");
        let again = engine.write(move |unit| tasks::add_context(unit, "acme", "d", winner));
        assert!(!again.expect("no error"));
    }
}

#[test]
fn deliveries_are_claimed_once_and_counted_in_order() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let id = begin(&engine, "acme", "c");
        let set = |name: &'static str, most| {
            engine
                .write(move |unit| {
                    let task = tasks::get(unit, id)?.expect("there");
                    pushes::set(unit, &task, name, &json!({"url": name}), most)
                })
                .expect("no error")
        };
        assert!(set("a", 2) && set("b", 2) && set("a", 2));
        assert!(!set("c", 2), "the limit is two");
        let pending_pushes = || {
            let found = engine.read(|reader| pushes::undelivered(reader, 10));
            let found: Result<_, Error> = found;
            found.expect("read")
        };
        assert!(pending_pushes().is_empty(), "no update yet");
        change_task_state(&engine, id, &[Submitted], Working, None).expect("changed");
        let push = pending_pushes().into_iter().find(|push| push.id == "a");
        let push = push.expect("the configuration `a`");
        let until = Timestamp::now().plus_seconds(60);
        let claimed = at_once(8, |_| {
            let push = push.clone();
            engine
                .write(move |unit| pushes::claim(unit, &push, until))
                .expect("no error")
        });
        assert_eq!(claimed.iter().filter(|claimed| **claimed).count(), 1);
        let delivered = at_once(2, |_| {
            let push = push.clone();
            engine
                .write(move |unit| pushes::advance(unit, &push, push.next_number + 1, None))
                .expect("no error")
        });
        assert_eq!(delivered.iter().filter(|done| **done).count(), 1);
        assert_eq!(
            pending_pushes().len(),
            1,
            "only the delivery of `b` remains"
        );
        let removed = || {
            engine
                .write(move |unit| pushes::remove(unit, id, "b"))
                .expect("no error")
        };
        assert!(removed() && !removed());
        assert!(pending_pushes().is_empty());
    }
}
