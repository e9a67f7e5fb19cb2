//! A third-party agent as an actor, built with the official Python SDK, which `scripts/a2a-clients`
//! installs in the folder that `CLEVERAGENTS_A2A_CLIENTS` names. Without the variable the test is skipped.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use cleveragents_testkit::TestDatabase;

use crate::agent::{caller, session, session_tell, wait_for_note};

/// An agent that runs until dropped.
struct Peer {
    process: Child,
    out: BufReader<ChildStdout>,
    url: String,
}

impl Peer {
    fn start(folder: &Path, binding: &str, streams: &str) -> Self {
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/remote/peer.py");
        let mut process = Command::new(folder.join("venv/bin/python"))
            .arg(script)
            .args([binding, streams])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the agent starts");
        let mut out = BufReader::new(process.stdout.take().expect("a pipe"));
        let mut port = String::new();
        out.read_line(&mut port).expect("a line with the port");
        let url = format!("http://127.0.0.1:{}", port.trim());
        Self { process, out, url }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The agent may already have ended.
        let _killed = self.process.kill();
        let _reaped = self.process.wait();
    }
}

#[test]
fn an_agent_of_the_official_sdk_is_an_actor() {
    let Some(folder) = std::env::var_os("CLEVERAGENTS_A2A_CLIENTS").map(PathBuf::from) else {
        eprintln!("NOT RUN: an agent of the official SDK: run scripts/a2a-clients");
        return;
    };
    for binding in ["JSONRPC", "HTTP+JSON"] {
        for streams in ["yes", "no"] {
            try_agent(&folder, binding, streams);
        }
    }
}

fn try_agent(folder: &Path, binding: &str, streams: &str) {
    let context = format!("{binding}, streams: {streams}");
    let mut peer = Peer::start(folder, binding, streams);
    let caller = caller(&peer.url);
    let session = session(&caller);
    let first = session_tell(&caller, &session, "one")["response"].clone();
    let first = first.as_str().expect("text");
    let conversation = first.strip_suffix(" one done").expect("an answer");
    // Later prompts continue the same A2A context, even after the agent asked a question.
    let second = session_tell(&caller, &session, "two");
    assert_eq!(
        second["response"],
        format!("{conversation} two done"),
        "{context}"
    );
    let ask = |prompt: &str| {
        let arguments = ["session", "tell", "--session", session.as_str(), prompt];
        caller.run(&[&["--format", "json"], &arguments[..]].concat())
    };
    let question = ask("ask");
    assert_eq!(question.code, Some(5), "{context}: {question:?}");
    assert!(
        question.out.contains("Which colour?"),
        "{context}: {question:?}"
    );
    let answered = session_tell(&caller, &session, "blue");
    assert_eq!(
        answered["response"],
        format!("{conversation} blue done"),
        "{context}"
    );
    let error = ask("fail").json()["data"]["error"].clone();
    assert_eq!(error["code"], "CA-1223", "{context}");
    assert!(
        error["message"]
            .as_str()
            .is_some_and(|message| message.contains("broken"))
    );
    let result = caller.data(&["actor", "run", "acme/remote", "three"]);
    let text = result["response"]["text"].as_str().expect("text");
    assert!(text.ends_with(" three done"), "{context}: {text}");
    // Cancelling the turn cancels the task of the agent.
    let waiting = ["session", "tell", "--session", session.as_str(), "wait"];
    let mut child = caller.command(waiting).spawn().expect("the program starts");
    wait_for_note(|sql| TestDatabase::read_file(&caller.database(), sql));
    let id = i32::try_from(child.id()).ok();
    let id = id.and_then(rustix::process::Pid::from_raw).expect("an id");
    rustix::process::kill_process(id, rustix::process::Signal::INT).expect("the program runs");
    assert_eq!(
        child.wait().expect("the program ends").code(),
        Some(130),
        "{context}"
    );
    let mut reported = String::new();
    peer.out.read_line(&mut reported).expect("a line");
    assert_eq!(reported, "cancelled\n", "{context}");
}
