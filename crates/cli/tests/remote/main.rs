//! Tests of a server and of CLI processes connected to it.

mod agent;
mod audit;
mod chat;
mod connect;
mod documents;
mod faults;
mod http;
mod live;
mod load;
mod parity;
mod peer;
mod plans;
mod run_scope;
mod serve;
mod shutdown;
mod tls;
mod traces;
#[path = "../plans/world.rs"]
#[expect(
    dead_code,
    reason = "the tests of plans use more of this module than these tests"
)]
mod world;

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use cleveragents_testkit::Agents;
use serde_json::Value;

fn agents() -> Agents {
    Agents::new(env!("CARGO_BIN_EXE_agents"))
}

/// A server that runs until dropped.
struct Server {
    process: Child,
    url: String,
}

impl Server {
    fn start(agents: &Agents, options: &[&str]) -> Self {
        Self::start_at(agents, "0", options).expect("the server starts")
    }

    /// Restarts a server at the same address. If another process uses the port, the server gets
    /// another port.
    fn start_again(agents: &Agents, url: &str, options: &[&str]) -> Self {
        let port = url.rsplit(':').next().expect("a port");
        Self::start_at(agents, port, options).unwrap_or_else(|_| Self::start(agents, options))
    }

    fn start_at(agents: &Agents, port: &str, options: &[&str]) -> Result<Self, String> {
        let arguments = [&["--format", "json", "serve", "--port", port], options].concat();
        let mut process = agents
            .command(arguments)
            .stdout(Stdio::piped())
            // The log is discarded: an unread pipe would fill up.
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("a pipe"))
            .read_line(&mut line)
            .expect("a line with the address");
        let message: Value = serde_json::from_str(&line).unwrap_or_default();
        let Some(url) = message["url"].as_str() else {
            process.wait().expect("the server ends");
            return Err(line);
        };
        assert_eq!(message["pid"], process.id());
        Ok(Self {
            url: url.to_owned(),
            process,
        })
    }

    fn address(&self) -> &str {
        self.url.trim_start_matches("http://")
    }

    /// Kills the server with SIGKILL.
    fn kill(&mut self) {
        self.process.kill().expect("a process that is not reaped");
        self.process.wait().expect("a killed process is reaped");
    }

    /// Stops the server with SIGTERM and returns its exit code.
    fn end(mut self) -> Option<i32> {
        self.terminate();
        self.process.wait().expect("the server ends").code()
    }

    fn terminate(&self) {
        let id = i32::try_from(self.process.id()).ok();
        let id = id.and_then(rustix::process::Pid::from_raw).expect("an id");
        // The server may already have ended.
        let _may_have_ended = rustix::process::kill_process(id, rustix::process::Signal::TERM);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process id of a reaped child may belong to another process.
        if matches!(self.process.try_wait(), Ok(None)) {
            self.terminate();
            let _ended = self.process.wait();
        }
    }
}

/// Creates a token and returns its secret.
fn token(agents: &Agents, name: &str, grants: &[&str]) -> String {
    let mut arguments = vec!["token", "create", name];
    for grant in grants {
        arguments.extend(["--grant", grant]);
    }
    let created = agents.data(&arguments);
    created["token"].as_str().expect("a secret").to_owned()
}
