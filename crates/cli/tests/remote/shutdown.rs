//! Stopping a server under load: no response is truncated, and no started work is lost.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cleveragents_testkit::{Agents, TestDatabase, proof_size};
use serde_json::{Value, json};

use crate::http::{Answer, Caller, MissingResponse};
use crate::{Server, agents};

/// Limit for every wait.
const WAIT_LIMIT: Duration = Duration::from_mins(2);

/// Request that one kind of caller repeats until the server refuses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Appends messages.
    Append,
    /// Takes turns, with complete or streamed answers.
    Turn,
    TurnInPieces,
    /// Turns with an endless model.
    Endless,
    EndlessInPieces,
    /// A2A tasks, with complete or streamed answers, from the echo actor and from models.
    Echo,
    EchoInPieces,
    Task,
    TaskInPieces,
    EndlessTask,
    /// Receives events.
    Events,
}

const KINDS: [Kind; 11] = [
    Kind::Append,
    Kind::Turn,
    Kind::TurnInPieces,
    Kind::Endless,
    Kind::EndlessInPieces,
    Kind::Echo,
    Kind::EchoInPieces,
    Kind::Task,
    Kind::TaskInPieces,
    Kind::EndlessTask,
    Kind::Events,
];

/// A model with a delay before each piece.
const QUICK: &str =
    "at_end: repeat_last\nanswers: [{text: 'one two three four', chunk: 4, delay_ms: 2}]\n";
/// A model that starts to answer and never finishes.
const ENDLESS: &str =
    "at_end: repeat_last\nanswers: [{text: 'one two three four', chunk: 4, delay_ms: 600000}]\n";

/// Results that a caller received, for later checks.
#[derive(Debug, Default)]
struct CallerResults {
    session: String,
    /// Acknowledged messages.
    appended: Vec<String>,
    /// Messages that were sent to models and not refused, with any result.
    asked: Vec<String>,
    answered: usize,
    /// Started tasks.
    tasks: Vec<String>,
}

/// One caller.
struct Client<'a> {
    kind: Kind,
    address: &'a str,
    number: usize,
    /// Number of responses, or confirmed starts, per kind of caller.
    rounds: &'a AtomicUsize,
    results: CallerResults,
}

impl Client<'_> {
    fn actor(&self) -> &'static str {
        match self.kind {
            Kind::Echo | Kind::EchoInPieces => "builtin/echo",
            Kind::Endless | Kind::EndlessInPieces | Kind::EndlessTask => "scripted/endless.yaml",
            _ => "scripted/quick.yaml",
        }
    }

    /// Repeats the request until the server refuses it or is gone.
    fn run(mut self) -> (Kind, CallerResults) {
        let started = Instant::now();
        let mut caller = None;
        for round in 0.. {
            assert!(started.elapsed() < WAIT_LIMIT, "the server does not stop");
            if caller.is_none() {
                caller = Caller::connect(self.address);
            }
            let Some(connected) = caller.take() else {
                break;
            };
            match self.send(connected, round) {
                // Reuse the connection if the server keeps it open.
                Ok(reusable) => caller = reusable,
                Err(MissingResponse::Unanswered) => break,
                Err(MissingResponse::Truncated) => {
                    panic!("a truncated response for {:?}", self.kind)
                }
            }
        }
        (self.kind, self.results)
    }

    /// Sends one request. Returns the connection if it can be reused.
    fn send(
        &mut self,
        mut caller: Caller,
        round: usize,
    ) -> Result<Option<Caller>, MissingResponse> {
        let text = format!("{:?} {} {round}", self.kind, self.number);
        let (line, headers, body): (String, &[&str], String) = match self.kind {
            Kind::Append => (
                format!("POST /api/v1/sessions/{}/messages", self.results.session),
                &[],
                json!({"role": "user", "content": text}).to_string(),
            ),
            Kind::Turn | Kind::TurnInPieces | Kind::Endless | Kind::EndlessInPieces => {
                let is_whole = matches!(self.kind, Kind::Turn | Kind::Endless);
                self.results.asked.push(text.clone());
                (
                    format!("POST /api/v1/sessions/{}/turns", self.results.session),
                    if is_whole {
                        &[]
                    } else {
                        &["accept: text/event-stream"]
                    },
                    json!({"prompt": text, "actor": self.actor()}).to_string(),
                )
            }
            Kind::Events => ("GET /api/v1/events".to_owned(), &[], String::new()),
            _ => {
                let is_whole = matches!(self.kind, Kind::Echo | Kind::Task);
                let method = if is_whole {
                    "SendMessage"
                } else {
                    "SendStreamingMessage"
                };
                let message = json!({
                    "messageId": text, "role": "ROLE_USER", "parts": [{"text": text}],
                    "metadata": {"cleveragents": {"actor": self.actor()}},
                });
                let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": message}});
                (
                    "POST /a2a".to_owned(),
                    &["a2a-version: 1.0"],
                    body.to_string(),
                )
            }
        };
        let is_stream = matches!(
            self.kind,
            Kind::TurnInPieces
                | Kind::EndlessInPieces
                | Kind::EchoInPieces
                | Kind::TaskInPieces
                | Kind::EndlessTask
                | Kind::Events
        );
        if !is_stream {
            let answer = caller.ask(&line, headers, &body)?;
            return Ok(self.check_response(&answer, &text).then_some(caller));
        }
        match caller.listen(&line, headers, &body)? {
            Err(answer) => {
                self.check_response(&answer, &text);
            }
            Ok(mut events) => {
                let mut last = None;
                while let Some(event) = events.next()? {
                    self.rounds.fetch_add(1, Ordering::SeqCst);
                    if let Some(data) = event.data {
                        self.note_task(&data);
                        last = Some((event.kind.unwrap_or_default(), data));
                    }
                }
                self.check_last_event(last);
            }
        }
        Ok(None)
    }

    fn note_task(&mut self, answer: &Value) {
        if let Some(id) = answer["result"]["task"]["id"].as_str() {
            self.results.tasks.push(id.to_owned());
        }
    }

    /// Checks a complete response. Returns false if the server refused the request.
    fn check_response(&mut self, answer: &Answer, text: &str) -> bool {
        let body = answer.json();
        if answer.status == 503 {
            let code = body.pointer("/error/data/0/metadata/code");
            let code = code.or_else(|| body.get("code"));
            assert_eq!(code, Some(&json!("CA-1220")), "{body}");
            if self.results.asked.last().is_some_and(|asked| asked == text) {
                // The server refused the request before any work started.
                self.results.asked.pop();
            }
            return false;
        }
        match self.kind {
            Kind::Append => {
                assert_eq!(answer.status, 201, "{body}");
                self.results.appended.push(text.to_owned());
            }
            Kind::Turn | Kind::Endless => {
                assert_eq!(answer.status, 200, "{body}");
                self.check_turn(&body);
            }
            _ => {
                assert_eq!(answer.status, 200, "{body}");
                assert!(body["result"]["task"]["id"].is_string(), "{body}");
                self.note_task(&body);
            }
        }
        self.rounds.fetch_add(1, Ordering::SeqCst);
        true
    }

    /// Checks the state of a finished turn.
    fn check_turn(&mut self, turn: &Value) {
        if turn["state"] == "answered" {
            assert_eq!(turn["text"], "one two three four");
            self.results.answered += 1;
        } else {
            assert_eq!(turn["state"], "stopped", "{turn}");
        }
    }

    /// Checks the last event of a stream before its end.
    fn check_last_event(&mut self, last: Option<(String, Value)>) {
        match self.kind {
            Kind::TurnInPieces | Kind::EndlessInPieces => {
                let (kind, data) = last.expect("an event");
                assert_eq!(kind, "end", "{data}");
                self.check_turn(&data);
            }
            Kind::Events => {}
            _ => assert!(last.is_some(), "a task is reported"),
        }
    }
}

/// Sends a request to a running server.
fn ask(address: &str, line: &str, body: &Value) -> Value {
    let mut caller = Caller::connect(address).expect("a server listens");
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let headers: &[&str] = if line.contains("/a2a") {
        &["a2a-version: 1.0"]
    } else {
        &[]
    };
    let answer = caller.ask(line, headers, &body).expect("an answer");
    assert!(answer.status < 300, "{line}: {answer:?}");
    answer.json()
}

/// Returns true if a turn of the session is running, or was interrupted while it ran.
fn is_running(agents: &Agents, session: &str) -> bool {
    let sql = format!("SELECT 1 FROM turns WHERE session_id = '{session}' AND state = 'running'");
    !TestDatabase::read_file(&agents.database(), &sql).is_empty()
}

/// Starts all kinds of callers, stops the server, and returns the results of the callers.
fn end_under_load(agents: &Agents, each: usize) -> Vec<(Kind, CallerResults)> {
    for (name, script) in [("quick.yaml", QUICK), ("endless.yaml", ENDLESS)] {
        std::fs::write(agents.cwd().join(name), script).expect("a file");
    }
    let server = Server::start(agents, &["--insecure-local"]);
    let address = server.address().to_owned();
    let rounds: Vec<AtomicUsize> = KINDS.iter().map(|_| AtomicUsize::new(0)).collect();
    let mut endless = Vec::new();
    std::thread::scope(|scope| {
        let clients: Vec<_> = KINDS
            .iter()
            .zip(&rounds)
            .flat_map(|(kind, rounds)| (0..each).map(move |number| (*kind, rounds, number)))
            .map(|(kind, rounds, number)| {
                let created = ask(&address, "POST /api/v1/sessions", &json!({}));
                let session = created["id"].as_str().expect("an id").to_owned();
                if matches!(kind, Kind::Endless | Kind::EndlessInPieces) {
                    endless.push(session.clone());
                }
                let client = Client {
                    kind,
                    address: &address,
                    number,
                    rounds,
                    results: CallerResults {
                        session,
                        ..CallerResults::default()
                    },
                };
                scope.spawn(move || client.run())
            })
            .collect();
        let started = Instant::now();
        // Callers of an endless model receive nothing before the end. Their turns are stored when
        // they start.
        let has_progress = |(kind, rounds): (&Kind, &AtomicUsize)| match kind {
            Kind::Endless | Kind::EndlessInPieces => true,
            _ => rounds.load(Ordering::SeqCst) >= 2 * each,
        };
        let is_turn_running = |session: &String| is_running(agents, session);
        while !KINDS.iter().zip(&rounds).all(has_progress) || !endless.iter().all(is_turn_running) {
            assert!(
                started.elapsed() < WAIT_LIMIT,
                "some callers received no response: {rounds:?}"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(server.end(), Some(0));
        clients
            .into_iter()
            .map(|client| client.join().expect("no response is truncated"))
            .collect()
    })
}

/// Asserts that acknowledged data is stored, and that started work is finished or resumed.
fn assert_nothing_lost(agents: &Agents, address: &str, (kind, results): &(Kind, CallerResults)) {
    let messages = || {
        let line = format!(
            "GET /api/v1/sessions/{}/messages?limit=500",
            results.session
        );
        let page = ask(address, &line, &Value::Null);
        let items = page["items"].as_array().expect("messages").clone();
        if page["next_cursor"].is_null() {
            items
        } else {
            agents.messages(&results.session)
        }
    };
    let contents = |role: &str| -> Vec<String> {
        messages()
            .iter()
            .filter(|message| message["role"] == role)
            .map(|message| message["content"].as_str().expect("a text").to_owned())
            .collect()
    };
    match kind {
        Kind::Append => {
            let stored = contents("user");
            assert!(
                stored.starts_with(&results.appended),
                "an acknowledged message"
            );
            assert!(stored.len() <= results.appended.len() + 1);
        }
        Kind::Turn | Kind::TurnInPieces | Kind::Endless | Kind::EndlessInPieces => {
            let is_interrupted = is_running(agents, &results.session);
            let is_endless = matches!(kind, Kind::Endless | Kind::EndlessInPieces);
            assert!(is_interrupted || !is_endless, "{kind:?} was interrupted");
            if is_interrupted {
                let line = format!("POST /api/v1/sessions/{}/turns", results.session);
                let resumed = ask(address, &line, &json!({}));
                assert_eq!(resumed["state"], "answered", "{kind:?}: {resumed}");
            }
            // Each message is stored once. Only the last may be missing, if its socket was closed.
            let questions = contents("user");
            assert!(
                results.asked.starts_with(&questions) && questions.len() + 1 >= results.asked.len(),
                "{kind:?}: {questions:?} of {:?}",
                results.asked
            );
            let answers = contents("assistant").len();
            assert!(
                answers >= results.answered,
                "every received answer is stored"
            );
            assert_eq!(answers, questions.len(), "{kind:?}");
        }
        Kind::Events => {}
        _ => {
            for task in &results.tasks {
                let started = Instant::now();
                loop {
                    let line = format!("GET /a2a/v1/tasks/{task}");
                    let shown = ask(address, &line, &Value::Null);
                    let state = shown["status"]["state"].as_str().expect("a state");
                    if state == "TASK_STATE_COMPLETED" {
                        break;
                    }
                    let is_open = ["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"].contains(&state);
                    assert!(is_open, "{kind:?}: {shown}");
                    assert!(started.elapsed() < WAIT_LIMIT, "{kind:?}: {shown}");
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        }
    }
}

/// Appends, turns, tasks and event streams run when SIGTERM arrives: every started response is
/// completed, other requests are refused or fail to connect, and the next server has all work,
/// finished or resumed.
#[test]
fn a_server_stopped_under_load_truncates_no_response_and_loses_nothing() {
    let agents = agents();
    agents.data(&["config", "set", "serve.drain-seconds", "1"]);
    for round in 0..proof_size(1, 10) {
        let results = end_under_load(&agents, proof_size(2, 6));
        // Interrupted turns are resumed with a script that finishes.
        std::fs::write(agents.cwd().join("endless.yaml"), QUICK).expect("a file");
        let server = Server::start(&agents, &["--insecure-local"]);
        for result in &results {
            assert_nothing_lost(&agents, server.address(), result);
        }
        assert_eq!(server.end(), Some(0));
        agents.assert_sound();
        let sum = |count: fn(&CallerResults) -> usize| {
            results.iter().map(|result| count(&result.1)).sum::<usize>()
        };
        println!(
            "end {round}: {} messages appended, {} turns answered of {}, {} tasks",
            sum(|result| result.appended.len()),
            sum(|result| result.answered),
            sum(|result| result.asked.len()),
            sum(|result| result.tasks.len()),
        );
    }
}
