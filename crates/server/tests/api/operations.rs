//! Operations over HTTP: permissions, and the events of operations that run agents.

use serde_json::{Value, json};

use crate::harness::{Client, Server, plan_request};

fn run(client: &Client, name: &str, parameters: &Value) -> crate::harness::Answer {
    client.post(&format!("/api/v1/operations/{name}"), parameters)
}

#[test]
fn permitted_operations_are_listed_and_run() {
    let server = Server::start();
    let names = |client: &Client| {
        let listed = client.get("/api/v1/operations").expect(200).json();
        let items = listed["items"].as_array().expect("items").clone();
        let name = |item: &Value| item["name"].as_str().expect("a name").to_owned();
        items.iter().map(name).collect::<Vec<_>>()
    };
    let viewer = server.caller(&["acme=viewer"]);
    let admin = server.caller(&["acme=admin"]);
    assert!(names(&viewer).contains(&"plan/list".to_owned()));
    assert!(!names(&viewer).contains(&"plan/use".to_owned()));
    assert!(names(&admin).contains(&"session/tell".to_owned()));
    let created = run(&admin, "session/create", &json!({"name": "weekly"})).expect(200);
    assert_eq!(created.json()["data"]["session"]["name"], "weekly");
    run(&viewer, "plan/list", &json!({})).expect(200);
    // An empty body counts as an empty object.
    viewer
        .raw("POST", "/api/v1/operations/plan/list", None, b"")
        .expect(200);
}

#[test]
fn forbidden_operations_have_no_effect() {
    let server = Server::start();
    let editor = server.caller(&["acme=editor"]);
    let session = server.session("acme");
    let session = session.rsplit('/').next().expect("an id");
    let delete = json!({"reference": session, "yes": true});
    run(&server.caller(&["acme=viewer"]), "session/delete", &delete).problem(403, "CA-1202");
    run(&editor, "plan/use", &plan_request("other")).problem(403, "CA-1202");
    run(&editor, "plan/use", &plan_request("local")).problem(403, "CA-1202");
    run(&editor, "db/status", &json!({})).problem(403, "CA-1202");
    let foreign = server.plan("other/shop");
    run(&editor, "plan/apply", &json!({"reference": foreign})).problem(404, "CA-0404");
    run(&editor, "plan/fly", &json!({})).problem(404, "CA-1224");
    run(&editor, "plan/use", &json!({})).problem(400, "CA-1213");
    run(&editor, "plan/use", &json!(["a list"])).problem(400, "CA-1213");
    run(&server.caller(&[]), "plan/list", &json!({})).problem(403, "CA-1202");
    assert_eq!(server.database.count("SELECT COUNT(*) FROM sessions"), 1);
    run(&server.caller(&["*=viewer"]), "db/status", &json!({})).expect(200);
}

#[test]
fn the_events_of_a_turn_are_streamed_and_its_response_is_last() {
    let server = Server::start();
    let editor = server.caller(&["acme=editor"]);
    let session = server.session("acme");
    let session = session.rsplit('/').next().expect("an id");
    let path = "/api/v1/operations/session/tell";
    let tell = |prompt: &str| {
        let body = json!({"session": session, "prompt": prompt}).to_string();
        let streaming = editor.with("accept", "text/event-stream");
        let mut stream = streaming.send("POST", path, Some("application/json"), body.as_bytes());
        assert_eq!(stream.head().expect("an answer").0, 200);
        let sent = std::iter::from_fn(|| stream.block());
        sent.map(|sent| (sent.event.expect("a name"), sent.data.expect("data")))
            .collect::<Vec<_>>()
    };
    let mut sent = tell("one two three");
    let (name, result) = sent.pop().expect("a result");
    assert_eq!(name, "result");
    assert_eq!(result["data"]["response"], "one two three");
    assert_eq!(result["data"]["session"]["mode"], "stream");
    assert!(sent.iter().all(|(name, _)| name == "agent"), "{sent:?}");
    let kinds: Vec<&str> = sent
        .iter()
        .filter_map(|(_, event)| event["type"].as_str())
        .collect();
    assert_eq!(
        kinds,
        ["model_call", "text", "text", "text", "answer_usage"]
    );
    let texts = sent.iter().filter_map(|(_, event)| event["text"].as_str());
    assert_eq!(texts.collect::<String>(), "one two three");

    // The same operation without streaming.
    let complete = run(
        &editor,
        "session/tell",
        &json!({"session": session, "prompt": "four"}),
    );
    let complete = complete.expect(200).json();
    assert_eq!(complete["data"]["response"], "four");
    assert_eq!(complete["data"]["session"]["mode"], "whole");

    let (name, problem) = tell("fail now").pop().expect("a problem");
    assert_eq!(
        (name.as_str(), &problem["code"]),
        ("problem", &json!("CA-0805"))
    );
    // No user is present to answer: the turn reports that.
    let (name, problem) = tell("ask which?").pop().expect("a problem");
    assert_eq!(
        (name.as_str(), &problem["code"]),
        ("problem", &json!("CA-0908"))
    );
}

#[test]
fn a_viewer_cannot_send_prompts_and_local_options_are_not_parameters() {
    let server = Server::start();
    let session = server.session("acme");
    let session = session.rsplit('/').next().expect("an id");
    let tell = json!({"session": session, "prompt": "hello"});
    let viewer = server.caller(&["acme=viewer"]);
    for client in [viewer.clone(), viewer.with("accept", "text/event-stream")] {
        run(&client, "session/tell", &tell).problem(403, "CA-1202");
    }
    run(&server.caller(&["other=owner"]), "session/tell", &tell).problem(404, "CA-0301");
    let editor = server.caller(&["acme=editor"]);
    for option in ["sandbox", "rule", "safety", "record", "stream"] {
        let mut tell = tell.clone();
        tell[option] = json!("x");
        run(&editor, "session/tell", &tell).problem(400, "CA-1213");
    }
    assert!(server.double.provider.prompts().is_empty());
    assert_eq!(server.database.count("SELECT COUNT(*) FROM messages"), 0);
}
