//! Documents, files and plans with a server: users get the same output and files as locally.

use cleveragents_testkit::Agents;
use regex::Regex;

use crate::parity::masked;
use crate::{Server, agents, token};

const ACTION: &str = "name: acme/steps
description: steps
reusable: true
strategy_actor: builtin/deterministic
execution_actor: builtin/deterministic
definition_of_done: |
  - write `one` to `one.txt`
  - replace `v0` with `v1` in `v.txt`
";

const ACTOR: &str =
    "name: acme/helper\ntype: llm\ndescription: Helps\nprovider: openai\nmodel: gpt-5\n";

const STRATEGY: &str = "# Strategy\n\nAnother way\n\n## 1. Only this\n\nof it\n";

/// Setup on the server machine, whose folders only local commands can register.
fn prepare(agents: &Agents) {
    let folder = agents.cwd().join("ground");
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::write(folder.join("v.txt"), "v0\n").expect("a file");
    let path = folder.to_str().expect("a path");
    agents.data(&[
        "resource",
        "add",
        "fs-directory",
        "acme/ground",
        "--path",
        path,
    ]);
    agents.data(&[
        "resource",
        "add",
        "fs-directory",
        "acme/below",
        "--path",
        path,
    ]);
    agents.data(&["project", "create", "acme/p", "--resource", "acme/ground"]);
}

/// A home with a running server, and a client that is connected to it.
fn connected_client() -> (Agents, Server, Agents) {
    let (host, client) = (agents(), agents());
    prepare(&host);
    let secret = token(&host, "ada", &["acme=owner"]);
    let server = Server::start(&host, &[]);
    let connect = ["server", "connect", &server.url, "--token", &secret];
    client.data(&[&connect[..], &["--namespace", "acme"]].concat());
    (host, server, client)
}

/// Creates a plan with a strategy. Returns its id.
fn plan(agents: &Agents) -> String {
    std::fs::write(agents.cwd().join("action.yaml"), ACTION).expect("written");
    agents.data(&["action", "create", "--config", "action.yaml"]);
    let created = agents.data(&["plan", "use", "acme/steps", "acme/p"]);
    created["plan_id"].as_str().expect("an id").to_owned()
}

/// Commands in execution order. `{plan}` and `{session}` stand for the ids of a plan and a session.
const COMMANDS: &[&str] = &[
    "plan wait {plan} --timeout 0",
    "plan show {plan} --as markdown",
    "plan execute {plan}",
    "plan show {plan} --as markdown",
    "plan show {plan} --as json",
    "plan edit {plan} --file missing.md",
    "plan edit {plan} --file strategy.md",
    "plan diff {plan}",
    "plan diff {plan} --stat",
    "plan tree {plan}",
    "plan tree {plan} --as mermaid",
    "plan tree {plan} --as svg --output tree.svg",
    "plan tree {plan} --output nowhere/tree.txt",
    "plan wait {plan} --timeout 1",
    "plan apply {plan} --yes",
    "plan wait {plan}",
    "plan wait nothing",
    "actor add --config actor.yaml",
    "actor graph acme/helper",
    "actor graph acme/helper --as mermaid --output graph.md",
    "actor graph acme/missing",
    "session export {session}",
    "session export {session} --as markdown",
    "session export {session} --as markdown --output weekly.md",
    "session export {session} --as markdown --output weekly.md",
    "session export {session} --output weekly.json",
    "session export {session} --output weekly.json --force",
    "session export {session} --output nowhere/weekly.json",
    "session export nothing",
    "session import --input weekly.json --namespace acme",
    "session import --input strategy.md --namespace acme",
    "session import --input missing.json --namespace acme",
    "tool calls --session {session}",
    "resource inspect acme/ground",
    "resource tree acme/ground",
    "resource link-child acme/ground acme/below",
    "resource unlink-child acme/ground acme/below",
    "resource unlink-child acme/ground acme/below",
    "validation attachments --resource acme/ground",
    "validation attach acme/ground acme/nothing",
    "validation detach 01JX3QABCD",
    "invariant remove 01JX3QABCD --yes",
    "run replay 01JX3QABCD",
    "run resume 01JX3QABCD",
];

/// Masks differences between two machines, in addition to ids and times.
fn comparable(text: &str) -> String {
    let mut text = masked(text);
    for (pattern, replacement) in [
        (r#"("input": |Input: )(".*?"|[^\n]*)"#, "${1}[source]"),
        (r"[0-9a-f]{64}", "[hash]"),
        (r#"/[^\s"]*?/\.tmp\w{6}\b"#, "[place]"),
        (r"\.tmp\w{6}\b", "[temporary]"),
        (r"\bprocess \d+", "process [pid]"),
        (r"\b01[0-9a-hjkmnp-tv-z]{6,24}\b", "[id]"),
        (r"\d+(\.\d+)? (ms|s)\b", "[duration]"),
        (
            r#""(elapsed_ms|elapsed_s|size|duration|total_duration|seconds)": [0-9.]+"#,
            "\"$1\": [n]",
        ),
        (r"\b\d\d:\d\d:\d\d\b", "[clock]"),
    ] {
        let pattern = Regex::new(pattern).expect("a pattern");
        text = pattern.replace_all(&text, replacement).into_owned();
    }
    text
}

type Outcome = (String, String, Option<i32>, Vec<Option<String>>);

fn outcomes(agents: &Agents, format: &str) -> Vec<Outcome> {
    for (name, text) in [("actor.yaml", ACTOR), ("strategy.md", STRATEGY)] {
        std::fs::write(agents.cwd().join(name), text).expect("written");
    }
    let plan = plan(agents);
    let created = agents.data(&[
        "session",
        "create",
        "--namespace",
        "acme",
        "--name",
        "weekly",
    ]);
    let session = created["session"]["id"].as_str().expect("an id").to_owned();
    agents.data(&["session", "append", &session, "Where do we stand?"]);
    let outcome = |command: &&str| {
        let command = command
            .replace("{plan}", &plan)
            .replace("{session}", &session);
        let arguments: Vec<&str> = command.split(' ').collect();
        let answer = agents.run(&[&["--format", format], &*arguments].concat());
        let work = agents.cwd();
        let files = ["tree.svg", "graph.md", "weekly.md", "weekly.json"].map(|name| {
            let text = std::fs::read_to_string(work.join(name)).ok()?;
            Some(comparable(&text))
        });
        let (out, err) = (comparable(&answer.out), comparable(&answer.err));
        (out, err, answer.code, files.to_vec())
    };
    COMMANDS.iter().map(outcome).collect()
}

fn assert_alike(format: &str) {
    let local_home = agents();
    prepare(&local_home);
    let (host, _server, client) = connected_client();
    let (local, remote) = (outcomes(&local_home, format), outcomes(&client, format));
    let mut successes = 0;
    for ((command, local), remote) in COMMANDS.iter().zip(local).zip(remote) {
        assert_eq!(local, remote, "{command}");
        successes += usize::from(local.2 == Some(0));
    }
    assert!(
        successes > COMMANDS.len() / 2,
        "{successes} commands succeeded"
    );
    // The command ran on the server.
    let content = std::fs::read_to_string(host.cwd().join("ground/v.txt"));
    assert_eq!(content.expect("a file"), "v1\n");
}

#[test]
fn machine_documents_are_the_same_locally_and_remotely() {
    assert_alike("json");
}

#[test]
fn human_documents_are_the_same_locally_and_remotely() {
    assert_alike("plain");
}

/// A strategy is edited in the user's editor, not on the server.
#[test]
fn a_strategy_is_edited_on_the_client() {
    let (_host, _server, client) = connected_client();
    let plan = &plan(&client);
    let editor = client.cwd().join("editor");
    let client = client.with("EDITOR", format!("sh {}", editor.display()));
    std::fs::write(&editor, "sed -i 's/one.txt/uno.txt/' \"$1\"\n").expect("written");
    let edited = client.data(&["plan", "edit", plan]);
    assert!(
        edited["strategy"].to_string().contains("uno.txt"),
        "{edited}"
    );
}

/// A plan that is queued on the server runs there, and the client waits for it.
#[test]
fn a_plan_is_queued_on_the_server() {
    let (_host, _server, client) = connected_client();
    let plan = &plan(&client);
    let queued = client.data(&["plan", "execute", plan, "--background"]);
    assert_eq!(queued["plan_id"], *plan);
    assert_eq!(queued["queued"], true);
    // The wait ends when the plan asks for approval of the apply.
    let waited = client.run(&["--format", "json", "plan", "wait", plan, "--timeout", "60"]);
    let waited: serde_json::Value = waited.json();
    assert_eq!(waited["exit_code"], 5, "{waited}");
    assert_eq!(waited["data"]["phase"], "execute", "{waited}");
    let refused = client.run(&["plan", "execute", plan, "--background", "--redo"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    let unknown = client.run(&["plan", "execute", "nothing", "--background"]);
    assert_eq!(unknown.code, Some(3), "{unknown:?}");
}
