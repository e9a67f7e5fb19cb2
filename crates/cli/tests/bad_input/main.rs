//! Invalid input: the program reports an error with code, hint and exit code, and changes nothing.
//! Every refusal is checked in a human format and in machine formats.

mod actions;
mod actors;
mod command_line;
mod configuration;
mod databases;
mod disk;
mod documents;
mod models;
mod resources;
mod safety;
mod sessions;
mod skills;
mod streams;
mod tools;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use cleveragents_testkit::{Agents, Answer};
use serde_json::{Value, json};

fn agents() -> Agents {
    Agents::new(env!("CARGO_BIN_EXE_agents"))
}

/// A home with two sessions; the first, `one`, has three messages.
fn agents_with_data() -> Agents {
    let agents = agents();
    for name in ["one", "two"] {
        agents.data(&["session", "create", "--name", name]);
    }
    for text in ["first", "second", "third"] {
        agents.data(&["session", "append", "one", text]);
    }
    agents
}

/// Every session with every message.
fn contents(agents: &Agents) -> Value {
    let sessions = agents.data(&["session", "list", "--sort", "created"])["sessions"].clone();
    let messages: Vec<Value> = sessions
        .as_array()
        .expect("a list")
        .iter()
        .map(|session| agents.data(&["session", "messages", session["id"].as_str().expect("id")]))
        .collect();
    json!({"sessions": sessions, "messages": messages})
}

/// Every file below a folder with its bytes.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut contents = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let bytes = std::fs::read(&path).expect("a file can be read");
                contents.insert(path.display().to_string(), bytes);
            }
        }
    }
    contents
}

/// A command that must be refused.
struct Refusal<'a> {
    agents: &'a Agents,
    arguments: Vec<&'a OsStr>,
    input: &'a [u8],
}

fn refuse<'a, S: AsRef<OsStr> + ?Sized>(agents: &'a Agents, arguments: &[&'a S]) -> Refusal<'a> {
    Refusal {
        agents,
        arguments: arguments.iter().copied().map(AsRef::as_ref).collect(),
        input: b"",
    }
}

impl<'a> Refusal<'a> {
    fn reading(mut self, input: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        self.input = input.as_ref();
        self
    }

    fn run(&self, format: &str) -> Answer {
        let mut child = self
            .agents
            .command(["--format", format])
            .args(&self.arguments)
            .stdin(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        std::thread::scope(|scope| {
            // A program that refuses early does not read all input, so a write error is expected.
            scope.spawn(move || drop(stdin.write_all(self.input)));
            Answer::from_output(&child.wait_with_output().expect("the program ends"))
        })
    }

    /// Asserts that the command fails with this exit code and error code in all formats. Returns the
    /// error object with `code`, `message`, `details` and `hint`.
    fn with(&self, exit: i32, code: &str) -> Value {
        let human = self.run("plain");
        assert_eq!(human.code, Some(exit), "{:?}: {human:?}", self.arguments);
        assert_eq!(human.out, "", "an error prints nothing to standard output");
        assert!(
            human.err.starts_with(&format!("error[{code}]: ")),
            "{:?} fails with {code}: {human:?}",
            self.arguments
        );
        assert!(
            human.err.contains("\nhint: "),
            "the error has a hint: {human:?}"
        );

        let yaml = self.run("yaml");
        assert_eq!(yaml.code, Some(exit), "{yaml:?}");
        assert!(yaml.out.contains(code), "{yaml:?}");

        let machine = self.run("json");
        assert_eq!(machine.code, Some(exit), "{machine:?}");
        assert_eq!(machine.err, "", "the error is only in the document");
        let document = machine.json();
        assert_error_document(&document, exit, code);
        document["data"]["error"].clone()
    }
}

/// Asserts the envelope of an error.
fn assert_error_document(document: &Value, exit: i32, code: &str) {
    assert_eq!(document["status"], "error", "{document:#}");
    assert_eq!(document["exit_code"], exit, "{document:#}");
    assert!(document["command"].is_string(), "{document:#}");
    assert!(document["timing"]["started"].is_string(), "{document:#}");
    assert_eq!(document["messages"][0]["level"], "error", "{document:#}");
    let error = &document["data"]["error"];
    assert_eq!(error["code"], code, "{document:#}");
    assert!(error["details"].is_object(), "{document:#}");
    for part in ["message", "hint"] {
        let text = error[part].as_str().unwrap_or_default();
        assert!(!text.trim().is_empty(), "{part} is missing: {document:#}");
    }
}
