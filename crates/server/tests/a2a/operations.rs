//! The operations of the program as methods.

use crate::harness::{Server, local};
use cleveragents_application::{find_operation, operations};
use cleveragents_domain::identity::Scope;
use cleveragents_server::Program as _;
use cleveragents_testkit::TestDatabase;
use serde_json::json;

#[test]
fn every_method_that_is_advertised_can_be_called() {
    let database = TestDatabase::sqlite();
    let server = Server::start(&database, local());
    let client = server.client();
    let plan = cleveragents_domain::PlanId::generate();
    *server.double.plan.lock().expect("not poisoned") = Some(plan);
    let card = client.rpc("GetExtendedAgentCard", &json!({}))["result"].clone();
    let methods = card["capabilities"]["extensions"][0]["params"]["methods"].clone();
    let methods = methods.as_array().expect("methods");
    let typed = operations().map(|entry| entry.name.to_owned());
    let offered = server.double.operations().iter();
    let commands: Vec<String> = offered.map(|operation| operation.name.clone()).collect();
    for name in typed.chain(commands.clone()) {
        let method = format!("_cleveragents/{name}");
        let is_advertised = methods.iter().any(|known| known["method"] == method);
        assert!(is_advertised, "{name}");
    }
    for name in commands.iter().filter(|name| find_operation(name).is_err()) {
        let method = format!("_cleveragents/{name}");
        let answer = client.rpc(&method, &json!({"reference": plan}));
        assert_eq!(answer["result"]["exitCode"], 0, "{name}: {answer}");
    }
    let answer = client.rpc(
        "_cleveragents/registry/actor/list",
        &json!({"custom": true}),
    );
    assert_eq!(answer["result"]["data"]["actors"], json!([]));
    let unknown = client.rpc("_cleveragents/no/such", &json!({}));
    assert_eq!(unknown["error"]["code"], -32601);
    let bare = client.header("a2a-version", None);
    let answer = bare.rpc("_cleveragents/plan/list", &json!({}));
    assert_eq!(answer["result"]["data"], json!([{"plan": 1}]));
}

#[test]
fn what_goes_wrong_has_a_code_of_its_own() {
    let database = TestDatabase::sqlite();
    let server = Server::start(&database, local());
    let client = server.client();
    for (what, code) in [
        ("missing", -32010),
        ("usage", -32602),
        ("exists", -32014),
        ("budget", -32015),
        ("plan", -32017),
        ("inside", -32603),
    ] {
        let answer = client.rpc("_cleveragents/plan/list", &json!({"fail": what}));
        assert_eq!(answer["error"]["code"], code, "{what}");
        assert!(!answer.to_string().contains("secret"));
        let info = &answer["error"]["data"][0];
        assert!(
            info["metadata"]["code"]
                .as_str()
                .expect("a code")
                .starts_with("CA-")
        );
    }
}

#[test]
fn who_may_not_call_does_not() {
    let database = TestDatabase::sqlite();
    let server = Server::start(&database, local());
    let scopes = [Scope::Plans, Scope::Server, Scope::Tasks];
    let viewer = server.with_grants("viewer", &["acme=viewer"], &scopes);
    let done = viewer.rpc("_cleveragents/plan/list", &json!({}));
    assert_eq!(done["result"]["exitCode"], 0);
    let before = server.double.calls.lock().expect("calls").len();
    for (method, params) in [
        ("_cleveragents/plan/use", json!({"action": "acme/a"})),
        ("_cleveragents/diagnostics/run", json!({})),
        ("_cleveragents/registry/actor/list", json!({})),
    ] {
        let answer = viewer.rpc_answer(method, &params);
        assert_eq!(answer.status, 403, "{method}");
        assert_eq!(answer.json()["error"]["code"], -32012);
    }
    let foreign = viewer.rpc_answer("_cleveragents/plan/use", &json!({"action": "other/a"}));
    assert_eq!(foreign.status, 403);
    assert_eq!(server.double.calls.lock().expect("calls").len(), before);
    let name = server
        .double
        .calls
        .lock()
        .expect("calls")
        .last()
        .expect("one")
        .2
        .clone();
    assert_eq!(name, "viewer", "it is done as the caller");
}
