//! Stopping a server under load: no response is truncated, and no started work is lost.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cleveragents_testkit::{Agents, TestDatabase, proof_size};
use serde_json::{Value, json};

use crate::http::{Answer, Caller, MissingResponse};
use crate::{Server, agents};

/// Deadline for all callers.
const PATIENCE: Duration = Duration::from_mins(2);

/// Request that one kind of caller repeats until the server refuses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Appends messages.
    Append,
    /// Takes turns, with whole or streamed answers.
    Turn,
    TurnInPieces,
    /// Turns with an endless model.
    Endless,
    EndlessInPieces,
    /// A2A tasks, whole and streamed, with the echo actor and with models.
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
    /// Messages sent with any result, and those that were answered.
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
    printed: CallerResults,
}

impl Client<'_> {
    fn actor(&self) -> &'static str {
        match self.kind {
            Kind::Echo | Kind::EchoInPieces => "builtin/echo",
            Kind::Endless | Kind::EndlessInPieces | Kind::EndlessTask => "scripted/endless.yaml",
            _ => "scripted/quick.yaml",
        }
    }

    /// Repeats until it is refused or the server is gone.
    fn run(mut self) -> (Kind, CallerResults) {
        let begun = Instant::now();
        let mut caller = None;
        for round in 0.. {
            assert!(begun.elapsed() < PATIENCE, "the server does not end");
            if caller.is_none() {
                caller = Caller::connect(self.address);
            }
            let Some(connected) = caller.take() else {
                break;
            };
            match self.once(connected, round) {
                // The connection is reused.
                Ok(again) => caller = again,
                Err(MissingResponse::Unanswered) => break,
                Err(MissingResponse::Torn) => panic!("a torn answer for {:?}", self.kind),
            }
        }
        (self.kind, self.printed)
    }

    /// Sends one request; returns whether the connection can be reused.
    fn once(
        &mut self,
        mut caller: Caller,
        round: usize,
    ) -> Result<Option<Caller>, MissingResponse> {
        let text = format!("{:?} {} {round}", self.kind, self.number);
        let (line, headers, body): (String, &[&str], String) = match self.kind {
            Kind::Append => (
                format!("POST /api/v1/sessions/{}/messages", self.printed.session),
                &[],
                json!({"role": "user", "content": text}).to_string(),
            ),
            Kind::Turn | Kind::TurnInPieces | Kind::Endless | Kind::EndlessInPieces => {
                let is_whole = matches!(self.kind, Kind::Turn | Kind::Endless);
                self.printed.asked.push(text.clone());
                (
                    format!("POST /api/v1/sessions/{}/turns", self.printed.session),
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
            return Ok(self.take_in(&answer, &text).then_some(caller));
        }
        match caller.listen(&line, headers, &body)? {
            Err(answer) => {
                self.take_in(&answer, &text);
            }
            Ok(mut events) => {
                let mut last = None;
                while let Some(received_events) = events.next()? {
                    self.rounds.fetch_add(1, Ordering::SeqCst);
                    if let Some(data) = received_events.data {
                        self.note_task(&data);
                        last = Some((received_events.kind.unwrap_or_default(), data));
                    }
                }
                self.end_of(last);
            }
        }
        Ok(None)
    }

    fn note_task(&mut self, answer: &Value) {
        if let Some(id) = answer["result"]["task"]["id"].as_str() {
            self.printed.tasks.push(id.to_owned());
        }
    }

    /// Checks a complete response; returns whether it was accepted.
    fn take_in(&mut self, answer: &Answer, text: &str) -> bool {
        let answered_text = answer.json();
        if answer.status == 503 {
            let code = answered_text.pointer("/error/data/0/metadata/code");
            let code = code.or_else(|| answered_text.get("code"));
            assert_eq!(code, Some(&json!("CA-1220")), "{answered_text}");
            if self.printed.asked.last().is_some_and(|asked| asked == text) {
                // Refused before any work started.
                self.printed.asked.pop();
            }
            return false;
        }
        match self.kind {
            Kind::Append => {
                assert_eq!(answer.status, 201, "{answered_text}");
                self.printed.appended.push(text.to_owned());
            }
            Kind::Turn | Kind::Endless => {
                assert_eq!(answer.status, 200, "{answered_text}");
                self.ended(&answered_text);
            }
            _ => {
                assert_eq!(answer.status, 200, "{answered_text}");
                assert!(
                    answered_text["result"]["task"]["id"].is_string(),
                    "{answered_text}"
                );
                self.note_task(&answered_text);
            }
        }
        self.rounds.fetch_add(1, Ordering::SeqCst);
        true
    }

    /// State of a turn.
    fn ended(&mut self, turn: &Value) {
        if turn["state"] == "answered" {
            assert_eq!(turn["text"], "one two three four");
            self.printed.answered += 1;
        } else {
            assert_eq!(turn["state"], "stopped", "{turn}");
        }
    }

    /// Checks the last event of a stream before its end.
    fn end_of(&mut self, last: Option<(String, Value)>) {
        match self.kind {
            Kind::TurnInPieces | Kind::EndlessInPieces => {
                let (kind, data) = last.expect("something is said");
                assert_eq!(kind, "end", "{data}");
                self.ended(&data);
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

/// Whether a turn of a session is running, or was when it was interrupted.
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
                let made = ask(&address, "POST /api/v1/sessions", &json!({}));
                let session = made["id"].as_str().expect("an id").to_owned();
                if matches!(kind, Kind::Endless | Kind::EndlessInPieces) {
                    endless.push(session.clone());
                }
                let client = Client {
                    kind,
                    address: &address,
                    number,
                    rounds,
                    printed: CallerResults {
                        session,
                        ..CallerResults::default()
                    },
                };
                scope.spawn(move || client.run())
            })
            .collect();
        let begun = Instant::now();
        // A caller of an endless model receives nothing before the end; the message is stored when
        // its turn starts.
        let is_at_work = |(kind, rounds): (&Kind, &AtomicUsize)| match kind {
            Kind::Endless | Kind::EndlessInPieces => true,
            _ => rounds.load(Ordering::SeqCst) >= 2 * each,
        };
        let is_asked = |session: &String| is_running(agents, session);
        while !KINDS.iter().zip(&rounds).all(is_at_work) || !endless.iter().all(is_asked) {
            assert!(
                begun.elapsed() < PATIENCE,
                "not everybody is answered: {rounds:?}"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(server.end(), Some(0));
        clients
            .into_iter()
            .map(|client| client.join().expect("no answer is torn"))
            .collect()
    })
}

/// Asserts that acknowledged data is stored, and that started work is finished or resumed.
fn assert_nothing_lost(agents: &Agents, address: &str, (kind, printed): &(Kind, CallerResults)) {
    let messages = || {
        let line = format!(
            "GET /api/v1/sessions/{}/messages?limit=500",
            printed.session
        );
        let page = ask(address, &line, &Value::Null);
        let items = page["items"].as_array().expect("messages").clone();
        if page["next_cursor"].is_null() {
            items
        } else {
            agents.messages(&printed.session)
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
                stored.starts_with(&printed.appended),
                "an acknowledged message"
            );
            assert!(stored.len() <= printed.appended.len() + 1);
        }
        Kind::Turn | Kind::TurnInPieces | Kind::Endless | Kind::EndlessInPieces => {
            let is_cut_off = is_running(agents, &printed.session);
            let is_endless = matches!(kind, Kind::Endless | Kind::EndlessInPieces);
            assert!(is_cut_off || !is_endless, "{kind:?} was begun");
            if is_cut_off {
                let line = format!("POST /api/v1/sessions/{}/turns", printed.session);
                let went_on = ask(address, &line, &json!({}));
                assert_eq!(went_on["state"], "answered", "{kind:?}: {went_on}");
            }
            // Each is stored once, except for the last, which may have reached a closed socket.
            let questions = contents("user");
            assert!(
                printed.asked.starts_with(&questions) && questions.len() + 1 >= printed.asked.len(),
                "{kind:?}: {questions:?} of {:?}",
                printed.asked
            );
            let answers = contents("assistant").len();
            assert!(answers >= printed.answered, "an answer that was given");
            assert_eq!(answers, questions.len(), "{kind:?}");
        }
        Kind::Events => {}
        _ => {
            for task in &printed.tasks {
                let begun = Instant::now();
                loop {
                    let line = format!("GET /a2a/v1/tasks/{task}");
                    let shown = ask(address, &line, &Value::Null);
                    let state = shown["status"]["state"].as_str().expect("a state");
                    if state == "TASK_STATE_COMPLETED" {
                        break;
                    }
                    let is_open = ["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"].contains(&state);
                    assert!(is_open, "{kind:?}: {shown}");
                    assert!(begun.elapsed() < PATIENCE, "{kind:?}: {shown}");
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
        let printed = end_under_load(&agents, proof_size(2, 6));
        // Interrupted turns get another model.
        std::fs::write(agents.cwd().join("endless.yaml"), QUICK).expect("a file");
        let server = Server::start(&agents, &["--insecure-local"]);
        for one in &printed {
            assert_nothing_lost(&agents, server.address(), one);
        }
        assert_eq!(server.end(), Some(0));
        agents.assert_sound();
        let sum = |count: fn(&CallerResults) -> usize| {
            printed.iter().map(|one| count(&one.1)).sum::<usize>()
        };
        println!(
            "end {round}: {} messages appended, {} turns answered of {}, {} tasks",
            sum(|one| one.appended.len()),
            sum(|one| one.answered),
            sum(|one| one.asked.len()),
            sum(|one| one.tasks.len()),
        );
    }
}
