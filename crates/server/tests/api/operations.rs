//! Operations of the front end.

use serde_json::{Value, json};

use crate::harness::{Client, Server};

fn run(client: &Client, name: &str, parameters: &Value) -> crate::harness::Answer {
    client.post(&format!("/api/v1/operations/{name}"), parameters)
}

#[test]
fn who_may_do_an_operation_sees_it_and_does_it() {
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
    assert!(names(&admin).contains(&"actor/remove".to_owned()));
    let done = run(&admin, "actor/remove", &json!({"name": "acme/old"})).expect(200);
    assert_eq!(done.json()["data"]["ran"], "actor/remove");
    assert_eq!(done.json()["exit_code"], 0);
    run(&viewer, "plan/list", &json!({})).expect(200);
    // Nothing in the body is as good as an empty object.
    viewer
        .raw("POST", "/api/v1/operations/plan/list", None, b"")
        .expect(200);
}

#[test]
fn what_a_caller_may_not_do_is_not_done() {
    let server = Server::start();
    let editor = server.caller(&["acme=editor"]);
    run(&editor, "actor/remove", &json!({"name": "acme/old"})).problem(403, "CA-1202");
    run(&editor, "plan/use", &json!({"name": "other/x"})).problem(403, "CA-1202");
    run(&editor, "plan/use", &json!({"name": "local/x"})).problem(403, "CA-1202");
    run(&editor, "server/state", &json!({})).problem(403, "CA-1202");
    let foreign = server.plan("other/shop");
    run(&editor, "plan/apply", &json!({"reference": foreign})).problem(404, "CA-0404");
    run(&editor, "plan/fly", &json!({})).problem(404, "CA-1224");
    run(&editor, "plan/use", &json!({})).problem(400, "CA-0101");
    run(&editor, "plan/use", &json!(["a list"])).problem(400, "CA-1213");
    run(&server.caller(&[]), "plan/list", &json!({})).problem(403, "CA-1202");
    assert!(server.double.ran.lock().expect("not poisoned").is_empty());
    run(&server.caller(&["*=viewer"]), "server/state", &json!({})).expect(200);
}
