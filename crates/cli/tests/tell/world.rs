//! A session, a folder in a sandbox, and a model.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use cleveragents_testkit::model_server::{ModelServer, Response};
use cleveragents_testkit::{Agents, Answer, TestDatabase};
use serde_json::Value;

use super::form::WireFormat;

/// Initial content of a text file in the sandbox.
pub(crate) const NOTES: &str = "first\n";

/// Wire names of the tools that these tests call.
pub(crate) const SHELL: &str = "builtin_S_shell";
pub(crate) const READ: &str = "builtin_S_file-read";
pub(crate) const WRITE: &str = "builtin_S_file-write";

/// A conversation with one model, with tools in a sandbox.
pub(crate) struct ConversationFixture {
    pub(crate) agents: Agents,
    pub(crate) session: String,
    model: String,
    /// The sandbox copy of the folder.
    pub(crate) sandbox_folder: PathBuf,
    pub(crate) server: Option<ModelServer>,
}

pub(crate) fn agents() -> Agents {
    Agents::new(env!("CARGO_BIN_EXE_agents"))
}

impl ConversationFixture {
    /// A conversation with a model, in the home of `agents`.
    pub(crate) fn new(agents: Agents, model: &str) -> Self {
        let real = agents.cwd().join("code");
        std::fs::create_dir_all(&real).expect("a folder");
        std::fs::write(real.join("notes.txt"), NOTES).expect("a file");
        let path = real.to_str().expect("a path");
        let created = agents.data(&["sandbox", "create", "box", "--path", path]);
        let copy = created["sandbox"]["parts"][0]["folder"].as_str();
        Self {
            session: agents.create_session(),
            model: model.to_owned(),
            sandbox_folder: PathBuf::from(copy.expect("a folder")),
            agents,
            server: None,
        }
    }

    /// A conversation with an endpoint that sends these responses.
    pub(crate) fn with_endpoint(form: WireFormat, responses: Vec<Response>) -> Self {
        Self::at(agents(), form, ModelServer::start(responses))
    }

    /// A conversation with an endpoint, in the home of `agents`.
    pub(crate) fn at(agents: Agents, form: WireFormat, server: ModelServer) -> Self {
        let [address, name, key] = form.variables();
        let agents = agents.with(address, server.url()).with(name, key);
        let mut fixture = Self::new(agents, form.model());
        fixture.server = Some(server);
        fixture
    }

    /// A conversation with a scripted model.
    pub(crate) fn scripted(agents: Agents, script: &str) -> Self {
        std::fs::write(agents.cwd().join("script.yaml"), script).expect("a file");
        Self::new(agents, "scripted/script.yaml")
    }

    pub(crate) fn server(&self) -> &ModelServer {
        self.server.as_ref().expect("an endpoint")
    }

    /// Arguments of `session tell` in the sandbox. A resumed turn already has model and sandbox.
    pub(crate) fn arguments<'a>(&'a self, options: &[&'a str]) -> Vec<&'a str> {
        let mut arguments = vec!["--format", "json", "session", "tell"];
        arguments.extend(["--session", &self.session]);
        if !options.contains(&"--resume") {
            arguments.extend(["--sandbox", "box"]);
            if !options.contains(&"--actor") {
                arguments.extend(["--actor", &self.model]);
            }
        }
        arguments.extend(options);
        arguments
    }

    /// Sends a message, with any result.
    pub(crate) fn send_prompt(&self, options: &[&str]) -> Answer {
        self.agents.run(&self.arguments(options))
    }

    /// Sends a message, asserts that it is answered, and returns the data of the command.
    pub(crate) fn send_prompt_json(&self, options: &[&str]) -> Value {
        let answer = self.send_prompt(options);
        assert_eq!(answer.code, Some(0), "{options:?} fails: {answer:?}");
        answer.json()["data"].clone()
    }

    /// Starts `session tell` without waiting for it.
    pub(crate) fn start(&self, options: &[&str]) -> Child {
        self.agents
            .command(self.arguments(options))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts")
    }

    /// Content of a file in the sandbox. `None` if it does not exist.
    pub(crate) fn file(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.sandbox_folder.join(name)).ok()
    }

    /// The messages of the session. Asserts that they are numbered 0, 1, 2…
    pub(crate) fn messages(&self) -> Vec<Value> {
        let _numbered = self.agents.contents(&self.session);
        self.agents.messages(&self.session)
    }

    pub(crate) fn roles(&self) -> Vec<String> {
        let messages = self.messages();
        let role = |message: &Value| message["role"].as_str().expect("a role").to_owned();
        messages.iter().map(role).collect()
    }

    /// Result of a query of the database file.
    pub(crate) fn ask(&self, sql: &str) -> Vec<Vec<String>> {
        TestDatabase::read_file(&self.agents.database(), sql)
    }

    /// Outcome and reason of every call, in order.
    pub(crate) fn rows(&self) -> Vec<(String, String)> {
        let rows = self.ask("SELECT outcome, reason FROM tool_invocations ORDER BY invocation_id");
        rows.into_iter()
            .map(|row| (row[0].clone(), row[1].clone()))
            .collect()
    }
}

/// The error of a failed command, as JSON.
pub(crate) fn error_of(answer: &Answer) -> Value {
    assert_ne!(answer.code, Some(0), "the command must fail: {answer:?}");
    answer.json()["data"]["error"].clone()
}

/// Every file below a folder with its bytes.
pub(crate) fn every_file(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_symlink() {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if path.is_file() {
                let bytes = std::fs::read(&path).expect("a file");
                files.push((path, bytes));
            }
        }
    }
    files
}
