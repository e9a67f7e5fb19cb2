//! Remote agents as actors: our own server, and a scripted agent.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use cleveragents_testkit::model_server::{ModelServer, Response, Step};
use cleveragents_testkit::{Agents, TestDatabase};
use serde_json::{Value, json};

use crate::{Server, agents};

/// A home with the actor `acme/remote` at a URL.
pub(crate) fn caller(url: &str) -> Agents {
    with_actor(agents(), url)
}

fn with_actor(agents: Agents, url: &str) -> Agents {
    let agents = agents.with("CLEVERAGENTS_A2A_ALLOW_PRIVATE_ADDRESSES", "true");
    write(&agents, "remote.yaml", &actor(url));
    agents.data(&["actor", "add", "--config", "remote.yaml"]);
    agents
}

fn actor(url: &str) -> String {
    format!("name: acme/remote\ntype: a2a\ndescription: Elsewhere\nurl: {url}\ntimeout: 60\n")
}

fn write(agents: &Agents, file: &str, text: &str) {
    std::fs::write(agents.cwd().join(file), text).expect("a file");
}

pub(crate) fn session(agents: &Agents) -> String {
    let created = agents.data(&["session", "create", "--actor", "acme/remote"]);
    created["session"]["id"].as_str().expect("an id").to_owned()
}

pub(crate) fn session_tell(agents: &Agents, session: &str, prompt: &str) -> Value {
    agents.data(&["session", "tell", "--session", session, prompt])
}

#[test]
fn our_own_server_is_an_actor_by_itself_and_in_a_graph() {
    let home = agents();
    let server = Server::start(&home, &["--insecure-local", "--actor", "builtin/echo"]);
    let caller = caller(&server.url);
    let shown = caller.data(&["actor", "show", "acme/remote"]);
    assert_eq!(shown["actor_details"]["type"], "a2a");
    assert_eq!(shown["actor_details"]["agent"]["url"], server.url.as_str());

    let result = caller.data(&["actor", "run", "acme/remote", "Hello there"]);
    assert_eq!(result["response"]["text"], "Hello there");
    assert_eq!(result["usage"]["model_calls"], 1);

    let session = session(&caller);
    assert_eq!(
        session_tell(&caller, &session, "first")["response"],
        "first"
    );
    assert_eq!(
        session_tell(&caller, &session, "second")["response"],
        "second"
    );
    // On the server, both messages belong to one conversation, and the run belongs to another.
    let sessions = home.data(&["session", "list"]);
    assert_eq!(sessions["sessions"].as_array().map(Vec::len), Some(2));

    let graph = "name: acme/twice\ntype: graph\nnodes:\n  first:\n    agent: acme/remote\n    prompt: 'one {{ input }}'\n    \
                 next: second\n  second:\n    agent: acme/remote\n    prompt: 'two {{ output }}'\n";
    write(&caller, "twice.yaml", graph);
    caller.data(&["actor", "add", "--config", "twice.yaml"]);
    let result = caller.data(&["actor", "run", "acme/twice", "x"]);
    assert_eq!(result["response"]["text"], "two one x");
}

#[test]
fn a_question_of_the_agent_is_answered_in_the_next_message() {
    let home = agents();
    let script = "answers:\n\
                  - calls:\n  - {id: one, name: builtin_S_ask-user, arguments: {question: 'Which colour?'}}\n\
                  - text: Blue it is.\n";
    write(&home, "ask.yaml", script);
    let server = Server::start(&home, &["--insecure-local", "--actor", "scripted/ask.yaml"]);
    let caller = caller(&server.url);
    let session = session(&caller);
    let question = caller.run(&[
        "--format",
        "json",
        "session",
        "tell",
        "--session",
        &session,
        "Paint it",
    ]);
    assert_eq!(question.code, Some(5), "{question:?}");
    assert!(question.out.contains("Which colour?"), "{question:?}");
    let reported = session_tell(&caller, &session, "blue");
    assert_eq!(reported["response"], "Blue it is.");
    // The same task was resumed.
    let sessions = home.data(&["session", "list"]);
    assert_eq!(sessions["sessions"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_question_goes_from_agent_to_agent_and_its_answer_back() {
    let (last, middle) = (agents(), agents());
    let script = "answers:\n\
                  - calls:\n  - {id: one, name: builtin_S_ask-user, arguments: {question: 'Which colour?'}}\n\
                  - text: Blue it is.\n";
    write(&last, "ask.yaml", script);
    let options = ["--insecure-local", "--actor", "scripted/ask.yaml"];
    let last_server = Server::start(&last, &options);
    let middle = middle.with("CLEVERAGENTS_A2A_ALLOW_PRIVATE_ADDRESSES", "true");
    write(&middle, "remote.yaml", &actor(&last_server.url));
    middle.data(&["actor", "add", "--config", "remote.yaml"]);
    let middle_server = Server::start(&middle, &["--insecure-local", "--actor", "acme/remote"]);
    let caller = caller(&middle_server.url);
    let session = session(&caller);
    let arguments = ["session", "tell", "--session", session.as_str(), "Paint it"];
    let question = caller.run(&arguments);
    assert_eq!(question.code, Some(5), "{question:?}");
    assert!(question.err.contains("Which colour?"), "{question:?}");
    assert_eq!(
        session_tell(&caller, &session, "blue")["response"],
        "Blue it is."
    );
    // The user's answer is an instruction, so it arrives unchanged and is not marked as data.
    let sessions = last.data(&["session", "list"]);
    let id = sessions["sessions"][0]["id"].as_str().expect("an id");
    let messages = last.contents(id);
    let answer = messages
        .iter()
        .find(|text| text.contains("blue"))
        .expect("an answer");
    assert_eq!(answer.matches("<data-").count(), 0, "{answer}");
    assert!(answer.lines().any(|line| line == "blue"), "{answer}");
}

#[test]
fn addresses_of_this_machine_are_called_only_when_allowed() {
    let strict = agents();
    write(&strict, "remote.yaml", &actor("http://127.0.0.1:9/"));
    strict.data(&["actor", "add", "--config", "remote.yaml"]);
    let session = session(&strict);
    let arguments = ["session", "tell", "--session", session.as_str(), "hi"];
    let answer = strict.run(&[&["--format", "json"], &arguments[..]].concat());
    let error = answer.json()["data"]["error"].clone();
    assert_eq!(error["code"], "CA-1221", "{answer:?}");
    let hint = error["hint"].as_str().expect("a hint");
    assert!(
        hint.contains("agents config set a2a.allow-private-addresses true"),
        "{hint}"
    );
}

/// An agent that accepts a task, sends a note to the channel, and answers when the task is queried.
fn slow_agent() -> (ModelServer, mpsc::Receiver<Instant>) {
    let (sender, notes) = mpsc::channel();
    let server = ModelServer::answering(move |request| {
        let url = format!("http://{}", request.header("host").expect("a host"));
        if request.path.starts_with("/.well-known/") {
            let card = json!({"capabilities": {"streaming": true}, "supportedInterfaces": [
                {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]});
            return Response::json(200, &card.to_string());
        }
        let call = request.json();
        let task = |state: &str| {
            json!({"id": "t", "contextId": "c", "status": {"state": state},
            "artifacts": [{"artifactId": "a", "parts": [{"text": "done meanwhile"}]}]})
        };
        let result = |value: Value| json!({"jsonrpc": "2.0", "id": 1, "result": value}).to_string();
        match call["method"].as_str().expect("a method") {
            "SendStreamingMessage" => {
                let task = json!({"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}});
                let update = json!({"statusUpdate": {"taskId": "t", "contextId": "c",
                    "status": {"state": "TASK_STATE_WORKING", "message": {"parts": [{"text": "reading"}]}}}});
                Response::events([result(task), result(update)])
                    .then(Step::Note(sender.clone()))
                    .then(Step::Hang)
            }
            "CancelTask" => Response::json(200, &result(task("TASK_STATE_CANCELED"))),
            _ => Response::json(200, &result(task("TASK_STATE_COMPLETED"))),
        }
    });
    (server, notes)
}

fn methods(server: &ModelServer) -> Vec<String> {
    let received = server.received();
    let calls = received.iter().filter(|request| !request.body.is_empty());
    calls
        .map(|request| {
            request.json()["method"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        })
        .collect()
}

/// Waits until the task of a running turn is stored, so that it can be resumed.
pub(crate) fn wait_for_note(rows: impl Fn(&str) -> Vec<Vec<String>>) {
    let deadline = Instant::now() + Duration::from_mins(1);
    let query = "SELECT count(*) FROM turn_steps JOIN turns ON turns.turn_id = turn_steps.turn_id \
                 WHERE turns.state = 'running' AND message LIKE '%\"noted\"%'";
    while rows(query) != [["1"]] {
        assert!(Instant::now() < deadline, "no task is stored");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn after_a_crash_the_task_is_queried_and_not_sent_twice() {
    for database in TestDatabase::each() {
        assert_resumed_after_crash(&database);
    }
}

/// Starts a process that sends a message to a session.
fn start_turn(caller: &Agents, session: &str) -> std::process::Child {
    caller
        .command(["session", "tell", "--session", session, "hi"])
        .spawn()
        .expect("the program starts")
}

fn assert_resumed_after_crash(database: &TestDatabase) {
    let (server, notes) = slow_agent();
    let caller = with_actor(agents().on(&database.url), &server.url());
    let session = session(&caller);
    let mut child = start_turn(&caller, &session);
    notes.recv().expect("the agent works");
    wait_for_note(|sql| database.ask(sql));
    child.kill().expect("the program runs");
    child.wait().expect("the program is reaped");
    let reported = caller.data(&["session", "tell", "--session", &session, "--resume"]);
    assert_eq!(reported["response"], "done meanwhile");
    assert_eq!(methods(&server), ["SendStreamingMessage", "GetTask"]);
    caller.assert_sound();

    // A run resumes its task in the same way.
    let mut child = caller
        .command(["actor", "run", "acme/remote", "hi"])
        .spawn()
        .expect("the program starts");
    notes.recv().expect("the agent works");
    wait_for_note(|sql| database.ask(sql));
    child.kill().expect("the program runs");
    child.wait().expect("the program is reaped");
    let runs = caller.data(&["run", "list"]);
    let run = runs["runs"][0]["id"].as_str().expect("an id").to_owned();
    let resumed = caller.data(&["run", "resume", &run]);
    assert_eq!(resumed["response"]["text"], "done meanwhile");
    assert_eq!(
        methods(&server),
        [
            "SendStreamingMessage",
            "GetTask",
            "SendStreamingMessage",
            "GetTask"
        ]
    );
}

#[test]
fn cancelling_a_turn_cancels_the_remote_task() {
    let (server, notes) = slow_agent();
    let caller = caller(&server.url());
    let session = session(&caller);
    let mut child = start_turn(&caller, &session);
    notes.recv().expect("the agent works");
    wait_for_note(|sql| TestDatabase::read_file(&caller.database(), sql));
    let id = i32::try_from(child.id()).ok();
    let id = id.and_then(rustix::process::Pid::from_raw).expect("an id");
    rustix::process::kill_process(id, rustix::process::Signal::INT).expect("the program runs");
    let status = child.wait().expect("the program is reaped");
    assert_eq!(status.code(), Some(130));
    assert_eq!(methods(&server), ["SendStreamingMessage", "CancelTask"]);
}

#[test]
fn a_caller_of_a_server_cannot_make_it_send_its_tokens() {
    let home = agents().with("A2A_TOKEN", "agent-token-0123456789");
    let secret = crate::token(&home, "amy", &["acme=admin"]);
    let server = Server::start(&home, &[]);
    let amy = agents().with("CLEVERAGENTS_SERVER_TOKEN", secret);
    amy.data(&["server", "connect", &server.url, "--namespace", "acme"]);
    let text = format!("{}token_env: A2A_TOKEN\n", actor("https://agents.example"));
    write(&amy, "remote.yaml", &text);
    let refused = amy.run(&[
        "--format",
        "json",
        "actor",
        "add",
        "--config",
        "remote.yaml",
    ]);
    assert_eq!(
        refused.json()["data"]["error"]["code"],
        "CA-1210",
        "{refused:?}"
    );
    write(&amy, "remote.yaml", &actor(&server.url));
    amy.data(&["actor", "add", "--config", "remote.yaml"]);
    // The server calls neither itself nor its private network on behalf of a caller.
    let refused = amy.run(&["--format", "json", "actor", "run", "acme/remote", "hi"]);
    assert!(
        refused.out.contains("address of a private network") || refused.out.contains("not https"),
        "{refused:?}"
    );
}
