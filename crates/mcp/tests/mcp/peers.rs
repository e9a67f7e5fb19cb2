//! Tests of third-party servers. `scripts/mcp-peers` installs the servers and runs the tests. Without the directory in
//! `CLEVERAGENTS_MCP_PEERS`, the tests do nothing.

#![expect(clippy::print_stdout, reason = "the script prints these figures")]

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::support::{GateFixture, ServerFixture, TestFolder, is_alive};
use crate::tests;
use cleveragents_mcp::ServerDefinition;
use cleveragents_tools::Source;
use serde_json::json;

tests![
    peers_are_listed_filtered_and_called,
    peers_that_crash_in_a_call_restart,
    peers_connect_in_the_time_of_the_slowest,
];

fn folder() -> Option<PathBuf> {
    std::env::var_os("CLEVERAGENTS_MCP_PEERS").map(PathBuf::from)
}

fn node(peers: &Path, name: &str, package: &str, more: &[&str]) -> ServerDefinition {
    let script = peers.join(format!(
        "node_modules/@modelcontextprotocol/{package}/dist/index.js"
    ));
    let script = script.display().to_string();
    let arguments = [&[script.as_str()], more].concat();
    ServerDefinition::stdio(name, "node", &arguments)
}

fn python(peers: &Path, name: &str, program: &str) -> ServerDefinition {
    let program = peers.join("venv/bin").join(program).display().to_string();
    ServerDefinition::stdio(name, program, &[])
}

/// Server processes that this test started, recognised by this mark in their environments.
fn processes(mark: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").expect("processes").flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
        .filter(|pid| {
            std::fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|text| String::from_utf8_lossy(&text).contains(mark))
        })
        .collect()
}

/// A fixture, and a mark for the environment of its servers.
fn marked(name: &str) -> (ServerFixture, String) {
    let mark = format!("PEERS_{name}_{}", std::process::id());
    (ServerFixture::new(), mark)
}

fn add(fixture: &ServerFixture, mark: &str, mut definition: ServerDefinition) {
    let value = cleveragents_mcp::HiddenText::new("1");
    definition.env.insert(mark.to_owned(), value);
    fixture.servers.add(definition, None).expect("added");
}

fn peers_are_listed_filtered_and_called() {
    let Some(peers) = folder() else { return };
    let (fixture, mark) = marked("LISTED");
    let sandbox = fixture
        .folder
        .path()
        .canonicalize()
        .expect("a folder")
        .join("work");
    std::fs::create_dir(&sandbox).expect("made");
    std::fs::write(sandbox.join("a.txt"), "hello").expect("written");
    run_git(&sandbox);
    let allowed = sandbox.display().to_string();
    add(
        &fixture,
        &mark,
        node(&peers, "everything", "server-everything", &[]),
    );
    let mut files = node(&peers, "files", "server-filesystem", &[&allowed]);
    files.tool_filter.exclude = vec!["move_*".to_owned()];
    add(&fixture, &mark, files);
    add(&fixture, &mark, python(&peers, "git", "mcp-server-git"));
    add(&fixture, &mark, python(&peers, "time", "mcp-server-time"));
    let offer = fixture.servers.offer();
    assert!(offer.failed.is_empty(), "{:?}", offer.failed);
    println!("left out: {:?}", offer.left_out);
    for (name, listing) in fixture.servers.connect_all() {
        let listing = listing.expect("connected");
        let (tools, protocol) = (listing.tools.len(), &listing.protocol);
        println!("{name}: {tools} tools, protocol {protocol}");
    }
    let gate = GateFixture::new(&offer, Some(TestFolder::new(&sandbox))).answering(&[]);
    let names: Vec<String> = gate
        .gate
        .registry()
        .list()
        .filter(|tool| tool.source == Source::Mcp)
        .map(|tool| tool.name.to_string())
        .collect();
    assert!(
        names.contains(&"files/read_text_file".to_owned()),
        "{names:?}"
    );
    assert!(!names.contains(&"files/move_file".to_owned()));
    let echoed = gate.ok("everything/echo", &json!({"message": "hi"}));
    assert!(echoed.contains("hi"), "{echoed}");
    let text = gate.ok("files/read_text_file", &json!({"path": "a.txt"}));
    assert!(text.contains("hello"), "{text}");
    let (kind, _) = gate.refused("files/read_text_file", &json!({"path": "/etc/passwd"}));
    assert_eq!(kind, "outside_sandbox");
    gate.ok(
        "files/write_file",
        &json!({"path": "b.txt", "content": "new"}),
    );
    assert_eq!(
        std::fs::read_to_string(sandbox.join("b.txt")).expect("written"),
        "new"
    );
    let status = gate.ok("git/git_status", &json!({"repo_path": "."}));
    assert!(status.contains("b.txt"), "{status}");
    let now = gate.ok("time/get_current_time", &json!({"timezone": "UTC"}));
    assert!(now.contains("UTC"), "{now}");
    // The processes that were started without a sandbox, to list the tools, end.
    crate::support::eventually("one process of each server is left", || {
        processes(&mark).len() == 4
    });
    fixture.servers.shutdown();
    assert!(processes(&mark).is_empty());
}

fn run_git(folder: &Path) {
    let mut invocation = cleveragents_process::Invocation::new("git", folder);
    invocation.arguments = ["init", "-q"].map(Into::into).to_vec();
    let result = cleveragents_process::run(&invocation, &cleveragents_process::Cancel::new());
    assert!(result.expect("git runs").ending.is_success());
}

fn peers_that_crash_in_a_call_restart() {
    let Some(peers) = folder() else { return };
    let (fixture, mark) = marked("CRASH");
    add(
        &fixture,
        &mark,
        node(&peers, "everything", "server-everything", &[]),
    );
    let gate = fixture.gate();
    let first = processes(&mark);
    std::thread::scope(|scope| {
        let long = json!({"duration": 60, "steps": 60});
        let tool = "everything/trigger-long-running-operation";
        let pending_call = scope.spawn(move || gate.fails(tool, &long));
        // The test cannot observe when the call is in flight, so it kills processes until the call ends.
        while !pending_call.is_finished() {
            std::thread::sleep(std::time::Duration::from_millis(500));
            for pid in processes(&mark) {
                kill(&pid);
            }
        }
        let why = pending_call.join().expect("no panic");
        assert!(why.contains("cannot be reached"), "{why}");
    });
    assert!(!first.iter().any(|pid| is_alive(pid)));
    let echoed = fixture
        .gate()
        .ok("everything/echo", &json!({"message": "again"}));
    assert!(echoed.contains("again"), "{echoed}");
    fixture.servers.shutdown();
    assert!(processes(&mark).is_empty());
}

fn kill(pid: &str) {
    let number: i32 = pid.parse().expect("a number");
    let pid = rustix::process::Pid::from_raw(number).expect("a process");
    // The process may already be gone.
    let _unless_gone = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
}

fn peers_connect_in_the_time_of_the_slowest() {
    let Some(peers) = folder() else { return };
    let definition = |number: usize| {
        let name = format!("peer-{number}");
        match number % 3 {
            0 => node(&peers, &name, "server-everything", &[]),
            1 => python(&peers, &name, "mcp-server-time"),
            _ => python(&peers, &name, "mcp-server-git"),
        }
    };
    let mut alone = Vec::new();
    for number in 0..3 {
        let fixture = ServerFixture::new();
        fixture
            .servers
            .add(definition(number), None)
            .expect("added");
        let started = Instant::now();
        fixture
            .servers
            .connect(&format!("peer-{number}"))
            .expect("connected");
        alone.push(started.elapsed());
    }
    let fixture = ServerFixture::new();
    for number in 0..10 {
        fixture
            .servers
            .add(definition(number), None)
            .expect("added");
    }
    let started = Instant::now();
    let outcomes = fixture.servers.connect_all();
    let together = started.elapsed();
    assert!(
        outcomes.iter().all(|(_, outcome)| outcome.is_ok()),
        "{outcomes:?}"
    );
    let slowest = alone.iter().max().expect("three");
    println!("one at a time: {alone:?}; ten at a time: {together:?}; slowest alone: {slowest:?}");
}
