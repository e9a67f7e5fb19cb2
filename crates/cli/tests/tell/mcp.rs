//! Calls of MCP tools that may write: the program asks the user and stores the answer.

use cleveragents_testkit::Agents;
use serde_json::{Value, json};

use super::world::{ConversationFixture, agents};

/// A server with one tool without annotations.
const SERVER: &str = r#"
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method, result = message["method"], None
    if method == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                  "serverInfo": {"name": "notes", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": name, "description": "Adds a note",
                             "inputSchema": {"type": "object"}} for name in ["add", "more"]]}
    elif method == "tools/call":
        result = {"content": [{"type": "text", "text": "added " + message["params"]["name"]}]}
    elif method == "ping":
        result = {}
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    if result is None:
        reply["error"] = {"code": -32601, "message": "no such method"}
    else:
        reply["result"] = result
    print(json.dumps(reply), flush=True)
"#;

/// A conversation with a model that calls this tool of the server in every turn.
fn fixture(tool: &str, overrides: &Value) -> ConversationFixture {
    let agents: Agents = agents();
    let server = agents.cwd().join("server.py");
    std::fs::write(&server, SERVER).expect("a file");
    let definition = json!({
        "name": "notes", "command": "python3", "args": [server], "overrides": overrides,
    });
    std::fs::write(agents.cwd().join("notes.json"), definition.to_string()).expect("a file");
    agents.data(&["mcp", "add", "--config", "notes.json"]);
    let script = json!({"at_end": "repeat_last", "answers": [
        {"calls": [{"name": format!("notes/{tool}"), "arguments": {}}]},
        {"text": "Done."},
    ]});
    ConversationFixture::scripted(agents, &script.to_string())
}

fn outcomes(reported: &Value) -> Vec<&str> {
    let calls = reported["tool_calls"].as_array().expect("calls");
    calls
        .iter()
        .map(|call| call["outcome"].as_str().expect("an outcome"))
        .collect()
}

fn rules(fixture: &ConversationFixture) -> String {
    fixture.agents.data(&["permission", "list"]).to_string()
}

#[test]
fn without_a_user_the_refusal_names_the_rule_to_add() {
    let mut fixture = fixture("add", &json!({}));
    let answer = fixture.send_prompt(&["--mcp", "notes", "add a note"]);
    assert_eq!(answer.code, Some(5), "{answer:?}");
    let printed = format!("{}{}", answer.out, answer.err);
    assert!(
        printed.contains("agents permission add 'allow notes/add'"),
        "{printed}"
    );
    fixture
        .agents
        .data(&["permission", "add", "allow notes/add"]);
    fixture.session = fixture.agents.create_session();
    let reported = fixture.send_prompt_json(&["--mcp", "notes", "add a note"]);
    assert_eq!(
        outcomes(&reported).last(),
        Some(&"succeeded"),
        "{reported:#}"
    );
}

#[test]
fn a_tool_that_needs_no_approval_runs_without_asking() {
    let fixture = fixture("add", &json!({"add": {"needs_approval": false}}));
    let reported = fixture.send_prompt_json(&["--mcp", "notes", "add a note"]);
    assert_eq!(outcomes(&reported), ["succeeded"], "{reported:#}");
}

#[test]
fn the_answer_for_a_whole_server_is_remembered() {
    let fixture = fixture("add", &json!({}));
    let mut arguments = fixture.arguments(&["--mcp", "notes", "add a note"]);
    arguments[1] = "plain";
    let (code, screen) = fixture
        .agents
        .play(&[("or type a reason to refuse: ", "s\r")], &arguments);
    assert_eq!(code, Some(0), "{screen}");
    assert!(
        screen.contains("[s] always for its server (allow notes/*)"),
        "{screen}"
    );
    assert!(screen.contains("[a] always (allow notes/add)"), "{screen}");
    assert!(
        rules(&fixture).contains("allow notes/*"),
        "{}",
        rules(&fixture)
    );
    assert_eq!(fixture.rows()[0].0, "succeeded");
}
