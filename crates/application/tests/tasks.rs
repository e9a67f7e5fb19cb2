//! Tasks that other agents send to a server, on both databases: a task is created once, changed by only one server at a
//! time, and not changed after it has ended.

use std::sync::Arc;

use cleveragents_a2a::{
    Artifact, Message, Part, PushNotificationConfig, Role, StreamResponse, Task,
};
use cleveragents_application::{
    ArtifactChunk, CreatedTask, LeaseService, NewTask, PushFailure, SERVER_LEASE, Services,
    Snapshot, TaskError, TaskFilter, TaskReply, TaskService, TaskView, TurnStart, plan_of_task,
};
use cleveragents_domain::identity::Namespaces;
use cleveragents_domain::{
    LeaseSubject, NewMessage, PlanId, Role as MessageRole, SessionId, TaskId, TaskKind, TaskState,
    Timestamp, Ttl, TurnId,
};
use cleveragents_store::messages::{AppendEvents, AppendedMessage};
use cleveragents_store::{Engine, messages, turns};
use cleveragents_testkit::{TestDatabase, at_once};
use serde_json::{Map, json};

const RUNNER: &str = "server one";

fn message(text: &str) -> Message {
    Message::new(format!("m {text}"), Role::User, vec![Part::text(text)])
}

fn new_task(text: &str) -> NewTask {
    NewTask {
        id: TaskId::generate(),
        namespace: "acme".to_owned(),
        kind: TaskKind::Turn,
        options: Map::new(),
        runner: RUNNER.to_owned(),
        message: message(text),
        push: None,
        answer: None,
        history: None,
        snapshot: Snapshot::Created,
    }
}

fn answer(text: &str) -> ArtifactChunk {
    ArtifactChunk::whole(Artifact {
        artifact_id: "answer".to_owned(),
        name: None,
        parts: vec![Part::text(text)],
    })
}

fn tasks(engine: &Arc<Engine>) -> TaskService {
    Services::new(Arc::clone(engine)).acting_as("ada").tasks()
}

fn create(tasks: &TaskService, text: &str) -> CreatedTask {
    tasks.create(new_task(text)).expect("created")
}

fn view(tasks: &TaskService, id: TaskId) -> Task {
    let found = tasks.view(id, TaskView::WHOLE).expect("read");
    found.expect("there").1
}

fn states(tasks: &TaskService, id: TaskId) -> Vec<TaskState> {
    let updates = tasks.updates(id, 0, 100).expect("updates");
    updates.iter().filter_map(StreamResponse::state).collect()
}

#[test]
fn a_task_has_its_message_and_its_caller() {
    for database in TestDatabase::each() {
        let tasks = tasks(&database.open());
        let created = create(&tasks, "hello");
        let snapshot = created.snapshot.expect("requested");
        assert_eq!(snapshot.status.state, TaskState::Submitted);
        assert_eq!(created.record.identity, "ada");
        assert_eq!(created.record.runner, RUNNER);
        let id = created.record.id;
        let expected =
            message("hello").in_task(Some(&created.record.context), Some(&id.to_string()));
        assert_eq!(snapshot.history, [expected]);
        assert_eq!(view(&tasks, id), snapshot);
        let without = TaskView {
            history: Some(0),
            artifacts: false,
        };
        let (_, without) = tasks.view(id, without).expect("read").expect("there");
        assert!(without.history.is_empty());
    }
}

#[test]
fn concurrently_created_tasks_of_a_context_share_a_session() {
    for database in TestDatabase::each() {
        let tasks = tasks(&database.open());
        let subjects = at_once(8, |number| {
            let mut new = new_task(&number.to_string());
            new.message.context_id = Some("context".to_owned());
            tasks.create(new).expect("created").record.subject
        });
        assert!(subjects.windows(2).all(|pair| pair[0] == pair[1]));
        assert_eq!(database.count("SELECT COUNT(*) FROM sessions"), 1);
        // The same context id in another namespace is another context.
        let mut other = new_task("other");
        other.namespace = "other".to_owned();
        other.message.context_id = Some("context".to_owned());
        let other = tasks.create(other).expect("created").record;
        assert_ne!(other.subject, subjects[0]);
        // A session of the namespace can be continued by its id, one of another namespace cannot.
        let mut by_id = new_task("by id");
        by_id.message.context_id = Some(other.subject.clone());
        let by_id = tasks.create(by_id).expect("created").record;
        assert_ne!(by_id.subject, other.subject);
        let mut by_id = new_task("by id");
        by_id.namespace = "other".to_owned();
        by_id.message.context_id = Some(other.subject.clone());
        let by_id = tasks.create(by_id).expect("created").record;
        assert_eq!(by_id.subject, other.subject);
    }
}

#[test]
fn an_immediate_answer_completes_the_task_that_it_is_created_with() {
    for database in TestDatabase::each() {
        let tasks = tasks(&database.open());
        let mut new = new_task("hello");
        (new.answer, new.snapshot) = (Some(answer("hello")), Snapshot::Unanswered);
        let created = tasks.create(new).expect("created");
        assert!(created.snapshot.is_none());
        let completed = created.completed.expect("completed");
        assert_eq!(completed.status.state, TaskState::Completed);
        assert_eq!(completed.artifacts, Some(vec![answer("hello").artifact]));
        let id = created.record.id;
        assert_eq!(view(&tasks, id), completed);
        let updates = tasks.updates(id, 0, 10).expect("updates");
        assert!(matches!(
            updates.as_slice(),
            [
                StreamResponse::ArtifactUpdate(_),
                StreamResponse::StatusUpdate(_)
            ]
        ));
        assert_eq!(states(&tasks, id), [TaskState::Completed]);
    }
}

#[test]
fn chunks_of_an_artifact_become_one_text() {
    for database in TestDatabase::each() {
        let tasks = tasks(&database.open());
        let id = create(&tasks, "hello").record.id;
        for (text, is_appended, is_last) in [
            ("lost", false, false),
            ("a", false, false),
            ("b", true, true),
        ] {
            let chunk = ArtifactChunk {
                is_appended,
                is_last,
                ..answer(text)
            };
            let then = is_last.then_some(TaskState::Completed);
            let added = tasks.add_artifact(id, RUNNER, chunk, then).expect("stored");
            assert!(added.is_some());
        }
        let task = view(&tasks, id);
        assert_eq!(task.artifacts, Some(vec![answer("ab").artifact]));
        assert_eq!(task.status.state, TaskState::Completed);
        let updates = tasks.updates(id, 1, 2).expect("updates");
        let chunks: Vec<_> = updates.iter().map(|update| json!(update)).collect();
        assert_eq!(chunks[0]["artifactUpdate"]["append"], json!(null));
        assert_eq!(chunks[1]["artifactUpdate"]["append"], true);
        assert_eq!(chunks[1]["artifactUpdate"]["lastChunk"], true);
    }
}

#[test]
fn only_the_server_of_a_task_changes_it_until_it_is_finished() {
    for database in TestDatabase::each() {
        let tasks = tasks(&database.open());
        let id = create(&tasks, "hello").record.id;
        let working = TaskState::Working;
        let change = |runner| {
            tasks
                .change_state(id, runner, working, None)
                .expect("answered")
        };
        assert!(change("server two").is_none());
        assert!(change(RUNNER).is_some());
        let cancelled = tasks.cancel(id).expect("answered").expect("cancelled");
        assert_eq!(cancelled.status.state, TaskState::Canceled);
        assert!(tasks.cancel(id).expect("answered").is_none());
        assert!(change(RUNNER).is_none());
        let late = tasks.add_artifact(id, RUNNER, answer("late"), Some(TaskState::Completed));
        assert!(late.expect("answered").is_none());
        let task = view(&tasks, id);
        assert_eq!(task.status.state, TaskState::Canceled);
        assert_eq!(task.artifacts, None);
        assert_eq!(states(&tasks, id), [working, TaskState::Canceled]);
    }
}

#[test]
fn only_a_waiting_task_accepts_a_reply() {
    for database in TestDatabase::each() {
        let tasks = tasks(&database.open());
        let id = create(&tasks, "hello").record.id;
        let reply = |text: &str| TaskReply {
            runner: "server two".to_owned(),
            message: message(text),
            push: None,
            history: None,
        };
        let refused = tasks.reply(id, reply("early"));
        assert!(matches!(refused, Err(TaskError::Busy)), "{refused:?}");
        let question = Some("which?");
        tasks
            .change_state(id, RUNNER, TaskState::InputRequired, question)
            .expect("answered")
            .expect("waits");
        let asked = view(&tasks, id).status.message.expect("a question");
        assert_eq!(asked.parts, [Part::text("which?")]);
        let (record, task) = tasks.reply(id, reply("this")).expect("taken");
        assert_eq!(record.runner, "server two");
        assert_eq!(task.status.state, TaskState::Working);
        let texts: Vec<_> = task.history.iter().map(|message| &message.parts).collect();
        assert_eq!(
            texts,
            [
                &[Part::text("hello")],
                &[Part::text("which?")],
                &[Part::text("this")]
            ]
        );
        let last = tasks.last_request(id).expect("read").expect("there");
        assert_eq!(last.parts, [Part::text("this")]);
        tasks.cancel(id).expect("answered").expect("cancelled");
        let refused = tasks.reply(id, reply("late"));
        assert!(matches!(refused, Err(TaskError::Over)), "{refused:?}");
        let refused = tasks.reply(TaskId::generate(), reply("lost"));
        assert!(
            matches!(refused, Err(TaskError::NotFound(_))),
            "{refused:?}"
        );
    }
}

#[test]
fn a_task_that_waits_for_input_is_settled() {
    for database in TestDatabase::each() {
        let tasks = tasks(&database.open());
        let id = create(&tasks, "hello").record.id;
        let settled = |is_last_look| {
            let found = tasks.view_settled(id, TaskView::WHOLE, is_last_look);
            found.expect("there").is_some()
        };
        assert!(!settled(false));
        assert!(settled(true));
        tasks
            .change_state(id, RUNNER, TaskState::InputRequired, Some("?"))
            .expect("answered");
        assert!(settled(false));
    }
}

#[test]
fn pages_contain_each_visible_task_once() {
    for database in TestDatabase::each() {
        let tasks = tasks(&database.open());
        let mut created: Vec<String> = (0..7)
            .map(|number| create(&tasks, &number.to_string()).record.id.to_string())
            .collect();
        let mut hidden = new_task("hidden");
        hidden.namespace = "other".to_owned();
        tasks.create(hidden).expect("created");
        let mut filter = TaskFilter {
            visible: Namespaces::Only(["acme".to_owned()].into()),
            limit: 3,
            ..TaskFilter::default()
        };
        let (mut listed, mut sizes) = (Vec::new(), Vec::new());
        loop {
            let page = tasks.list(&filter, TaskView::WHOLE).expect("read");
            assert_eq!(page.total, 7);
            sizes.push(page.tasks.len());
            listed.extend(page.tasks.into_iter().map(|task| task.id));
            let Some((changed_at, last)) = page.next else {
                break;
            };
            filter.after = Some((changed_at, last.to_string()));
        }
        assert_eq!(sizes, [3, 3, 1]);
        listed.sort();
        created.sort();
        assert_eq!(listed, created);
    }
}

#[test]
fn one_server_takes_over_the_tasks_of_a_dead_server() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let tasks = tasks(&engine);
        let orphan = create(&tasks, "orphan").record.id;
        let waiting = create(&tasks, "waiting").record.id;
        tasks
            .change_state(waiting, RUNNER, TaskState::InputRequired, Some("?"))
            .expect("answered");
        let leases = LeaseService::new(Arc::clone(&engine));
        let alive = LeaseSubject::new(SERVER_LEASE, "server alive");
        let lease = leases.acquire(alive, Ttl::default()).expect("a lease");
        let mut new = new_task("served");
        new.runner = "server alive".to_owned();
        let served = tasks.create(new).expect("created").record.id;
        let running: Vec<_> = (0..4)
            .map(|number| LeaseSubject::new(SERVER_LEASE, format!("server {number}")))
            .map(|server| leases.acquire(server, Ttl::default()).expect("a lease"))
            .collect();
        let taken_over = at_once(4, |number| {
            let taken_over = tasks.take_over_orphans(&format!("server {number}"));
            let taken_over = taken_over.expect("answered").into_iter();
            taken_over.map(|task| task.id).collect::<Vec<_>>()
        });
        assert_eq!(taken_over.concat(), [orphan], "only the orphan, once");
        let runner = |id| tasks.get(id).expect("read").expect("there").runner;
        assert_eq!(runner(served), "server alive");
        assert_eq!(runner(waiting), RUNNER, "no server has to work on it");
        let index = taken_over
            .iter()
            .position(|taken_over| !taken_over.is_empty());
        assert_eq!(
            runner(orphan),
            format!("server {}", index.expect("a server"))
        );
        lease.release().expect("released");
        assert_eq!(
            tasks.take_over_orphans("server late").expect("answered")[0].id,
            served
        );
        drop(running);
    }
}

fn append_message(engine: &Engine, session: SessionId, role: MessageRole, text: &str) {
    let message = NewMessage::new(role, text.to_owned(), Map::new(), 1_000).expect("a message");
    let message = AppendedMessage::from(message);
    engine
        .write(move |unit| messages::append(unit, session, [&message], AppendEvents::Each))
        .expect("stored")
        .expect("a session");
}

#[test]
fn a_turn_starts_where_a_dead_server_stopped() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let tasks = tasks(&engine);
        let id = create(&tasks, "hello").record.id;
        let begin = |is_new| {
            let task = tasks.get(id).expect("read").expect("there");
            let session: SessionId = task.subject.parse().expect("a session");
            let start = tasks.begin_turn(&task, RUNNER, session, is_new);
            (start.expect("answered"), session)
        };
        let (start, session) = begin(true);
        assert_eq!(start, TurnStart::New);
        assert_eq!(begin(false).0, TurnStart::New, "no result is stored");
        append_message(&engine, session, MessageRole::User, "hello");
        assert_eq!(begin(false).0, TurnStart::Resume, "no second question");
        append_message(&engine, session, MessageRole::Assistant, "hi");
        assert_eq!(begin(false).0, TurnStart::Answered("hi".to_owned()));
        assert_eq!(begin(true).0, TurnStart::New, "this is another turn");
        let turn = TurnId::generate();
        engine
            .write(move |unit| turns::begin(unit, turn, session, "m/m", "{}"))
            .expect("begun");
        assert_eq!(begin(false).0, TurnStart::Resume, "it runs");
    }
}

#[test]
fn a_plan_is_assigned_to_its_task_by_its_own_server() {
    for database in TestDatabase::each() {
        let tasks = tasks(&database.open());
        let mut new = new_task("do it");
        new.kind = TaskKind::Plan;
        let record = tasks.create(new).expect("created").record;
        assert_eq!(plan_of_task(&record), None);
        let plan = PlanId::generate();
        let read = || tasks.get(record.id).expect("read").expect("there");
        tasks
            .assign_plan(&record, "server two", plan)
            .expect("answered");
        assert_eq!(plan_of_task(&read()), None);
        tasks.assign_plan(&record, RUNNER, plan).expect("answered");
        assert_eq!(plan_of_task(&read()), Some(plan.to_string().as_str()));
        let metadata = view(&tasks, record.id).metadata.expect("metadata");
        assert_eq!(metadata["planId"], plan.to_string());
    }
}

fn config(id: &str) -> PushNotificationConfig {
    PushNotificationConfig {
        id: id.to_owned(),
        url: format!("https://hook.example/{id}"),
        token: None,
        authentication: None,
        is_v0_3: false,
        task_id: None,
    }
}

#[test]
fn a_task_is_pushed_to_a_limited_number_of_addresses() {
    for database in TestDatabase::each() {
        let tasks = tasks(&database.open());
        let id = create(&tasks, "hello").record.id;
        for number in 0..16 {
            let added = tasks.add_push_config(id, config(&format!("{number:02}")));
            assert_eq!(added.expect("stored").task_id, Some(id.to_string()));
        }
        let refused = tasks.add_push_config(id, config("16"));
        assert!(matches!(refused, Err(TaskError::TooManyPushConfigs(16))));
        // An existing configuration is replaced.
        tasks.add_push_config(id, config("03")).expect("replaced");
        tasks.remove_push_config(id, "03").expect("removed");
        let ids: Vec<_> = tasks.push_configs(id).expect("read");
        assert_eq!(ids.len(), 15);
        tasks.add_push_config(id, config("16")).expect("room again");
        let mut new = new_task("pushed");
        new.push = Some(config("first"));
        let pushed = tasks.create(new).expect("created").record.id;
        assert_eq!(
            tasks.push_configs(pushed).expect("read"),
            [config("first").of_task(pushed.to_string())]
        );
    }
}

#[test]
fn updates_are_pushed_once_in_order_and_again_after_a_transient_failure() {
    for database in TestDatabase::each() {
        let tasks = tasks(&database.open());
        let id = create(&tasks, "hello").record.id;
        tasks.add_push_config(id, config("a")).expect("stored");
        let pending = || tasks.pending_pushes(10).expect("read");
        assert!(pending().is_empty(), "nothing happened yet");
        tasks
            .change_state(id, RUNNER, TaskState::Working, None)
            .expect("answered");
        tasks
            .add_artifact(id, RUNNER, answer("hi"), Some(TaskState::Completed))
            .expect("answered");
        let [push] = pending().try_into().expect("one address");
        let claims = at_once(4, |_| tasks.claim_push(&push).expect("answered"));
        let mut claimed: Vec<_> = claims.into_iter().flatten().collect();
        assert_eq!(claimed.len(), 1, "one server delivers it");
        let delivery = claimed.remove(0);
        let state = "/statusUpdate/status/state";
        assert_eq!(
            delivery.body.pointer(state),
            Some(&json!("TASK_STATE_WORKING"))
        );
        let again = pending().remove(0);
        let failure = PushFailure {
            reason: "it answered 503".to_owned(),
            is_transient: true,
        };
        tasks.finish_push(&again, Err(failure)).expect("stored");
        let again = pending().remove(0);
        assert!(again.due_at() > Timestamp::now(), "after a pause");
        tasks.finish_push(&again, Ok(())).expect("stored");
        let next = pending().remove(0);
        let delivery = tasks.claim_push(&next).expect("answered").expect("claimed");
        assert!(delivery.body.get("artifactUpdate").is_some());
        let failure = PushFailure {
            reason: "it answered 404".to_owned(),
            is_transient: false,
        };
        tasks.finish_push(&next, Err(failure)).expect("stored");
        let last = pending().remove(0);
        let delivery = tasks.claim_push(&last).expect("answered").expect("claimed");
        assert_eq!(
            delivery.body.pointer(state),
            Some(&json!("TASK_STATE_COMPLETED"))
        );
        tasks.finish_push(&last, Ok(())).expect("stored");
        assert!(pending().is_empty());
    }
}

#[test]
fn clients_of_0_3_receive_the_complete_task() {
    for database in TestDatabase::each() {
        let tasks = tasks(&database.open());
        let id = create(&tasks, "hello").record.id;
        let mut old = config("old");
        old.is_v0_3 = true;
        tasks.add_push_config(id, old).expect("stored");
        tasks
            .add_artifact(id, RUNNER, answer("hi"), Some(TaskState::Completed))
            .expect("answered");
        let push = tasks.pending_pushes(10).expect("read").remove(0);
        let delivery = tasks.claim_push(&push).expect("answered").expect("claimed");
        assert_eq!(delivery.body["kind"], "task");
        assert_eq!(delivery.body["status"]["state"], "completed");
        assert_eq!(delivery.body["artifacts"][0]["parts"][0]["kind"], "text");
    }
}

/// Reads rows that were written before messages and artifacts had types.
#[test]
fn tasks_of_an_earlier_version_are_read() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let tasks = tasks(&engine);
        let id = create(&tasks, "hello").record.id;
        database.execute_sql(&format!(
            r#"UPDATE task_messages SET message = '{{"messageId":"m","role":"ROLE_USER","parts":[{{"text":"old","mediaType":"text/plain"}},{{"data":null}}],"contextId":"c","taskId":"{id}","metadata":{{"cleveragents":{{}}}}}}';
               UPDATE tasks SET status_message = '{{"messageId":"s","role":"ROLE_AGENT","parts":[{{"text":"?"}}],"contextId":"c","taskId":"{id}"}}';
               INSERT INTO task_artifacts (task_id, artifact_id, number, artifact) VALUES ('{id}', 'answer', 0, '{{"artifactId":"answer","name":"answer","parts":[{{"text":"hi"}}]}}');
               INSERT INTO push_configs (task_id, config_id, config, next_number, next_at, created_at) VALUES ('{id}', 'p', '{{"id":"p","url":"https://x.example","_old":true}}', 0, 0, 0)"#
        ));
        let task = json!(view(&tasks, id));
        assert_eq!(
            task["history"][0]["parts"],
            json!([{"text": "old", "mediaType": "text/plain"}, {"data": null}])
        );
        assert_eq!(task["status"]["message"]["parts"][0]["text"], "?");
        assert_eq!(task["artifacts"][0]["name"], "answer");
        let config = &tasks.push_configs(id).expect("read")[0];
        assert_eq!(config.url, "https://x.example");
    }
}
