//! A server and command lines that use it, all through the program.

mod agent;
mod alike;
mod connect;
mod live;
mod serve;
mod traces;

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use cleveragents_testkit::Agents;
use serde_json::Value;

fn agents() -> Agents {
    Agents::new(env!("CARGO_BIN_EXE_agents"))
}

/// A server that runs until it is dropped.
struct Server {
    process: Child,
    url: String,
}

impl Server {
    fn start(agents: &Agents, options: &[&str]) -> Self {
        let mut arguments = [&["--format", "json", "serve"], options].concat();
        if !options.contains(&"--port") {
            arguments.extend(["--port", "0"]);
        }
        let mut process = agents
            .command(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("a pipe"))
            .read_line(&mut line)
            .expect("it says where it listens");
        let said: Value = serde_json::from_str(&line).expect("one line of JSON");
        assert_eq!(said["pid"], process.id());
        Self {
            url: said["url"].as_str().expect("a URL").to_owned(),
            process,
        }
    }

    /// Ends it as an operator does, and gives its exit code.
    fn end(mut self) -> Option<i32> {
        self.signal();
        self.process.wait().expect("it ends").code()
    }

    fn signal(&self) {
        let id = i32::try_from(self.process.id()).ok();
        let id = id.and_then(rustix::process::Pid::from_raw).expect("an id");
        // It may be over already.
        let _over = rustix::process::kill_process(id, rustix::process::Signal::TERM);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.signal();
        let _ended = self.process.wait();
    }
}

/// Makes a token and gives its secret.
fn token(agents: &Agents, name: &str, grants: &[&str]) -> String {
    let mut arguments = vec!["token", "create", name];
    for grant in grants {
        arguments.extend(["--grant", grant]);
    }
    let made = agents.data(&arguments);
    made["token"].as_str().expect("a secret").to_owned()
}
