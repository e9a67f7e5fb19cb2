//! Operations as methods.

use crate::harness::{Server, local_options};
use crate::provider::{Fault, MODEL};
use cleveragents_application::operations;
use cleveragents_domain::identity::Scope;
use cleveragents_testkit::TestDatabase;
use serde_json::json;

#[test]
fn every_method_that_is_advertised_can_be_called() {
    let database = TestDatabase::sqlite();
    let server = Server::start(&database, local_options());
    let client = server.client();
    let plan = cleveragents_domain::PlanId::generate();
    let card = client.rpc("GetExtendedAgentCard", &json!({}))["result"].clone();
    let methods = card["capabilities"]["extensions"][0]["params"]["methods"].clone();
    let methods = methods.as_array().expect("methods");
    assert_eq!(methods.len(), operations().count());
    for method in methods {
        let name = method["method"].as_str().expect("a name");
        let answer = client.rpc(name, &json!({"reference": plan}));
        // Not every operation accepts the parameters.
        assert_ne!(answer["error"]["code"], -32601, "{name}: {answer}");
        assert_ne!(answer["error"]["code"], -32603, "{name}: {answer}");
    }
    let unknown = client.rpc("_cleveragents/no/such", &json!({}));
    assert_eq!(unknown["error"]["code"], -32601);
    let bare = client.header("a2a-version", None);
    let answer = bare.rpc("_cleveragents/plan/list", &json!({}));
    assert_eq!(answer["result"]["data"]["summary"]["total"], 0);
}

#[test]
fn each_error_has_its_own_code() {
    let database = TestDatabase::sqlite();
    let server = Server::start(&database, local_options());
    let client = server.client();
    let created = client.rpc("_cleveragents/session/create", &json!({"actor": MODEL}));
    let session = created["result"]["data"]["session"]["id"].clone();
    let failing = json!({"session": session, "prompt": "hello"});
    let project = json!({"name": "acme/shop"});
    let created = client.rpc("_cleveragents/registry/project/create", &project);
    assert!(created.get("error").is_none(), "{created}");
    for (method, params, code) in [
        ("plan/show", json!({"reference": "nothing"}), -32010),
        ("session/create", json!({"name": ""}), -32602),
        ("plan/list", json!({"no_such": 1}), -32602),
        ("registry/project/create", project, -32014),
        ("session/tell", failing, -32603),
    ] {
        if code == -32603 {
            let mut faults = server.provider.faults.lock().expect("faults");
            faults.push(Fault::Internal);
        }
        let answer = client.rpc(&format!("_cleveragents/{method}"), &params);
        assert_eq!(answer["error"]["code"], code, "{method}: {answer}");
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
fn an_operation_is_recorded_for_its_caller() {
    let database = TestDatabase::sqlite();
    let server = Server::start(&database, local_options());
    let admin = server.with_grants("ada", &["acme=admin"], &[Scope::Sessions]);
    let created = admin.rpc("_cleveragents/session/create", &json!({"name": "weekly"}));
    let session = &created["result"]["data"]["session"];
    assert_eq!(session["namespace"], "acme", "{created}");
    let deletion = json!({"reference": session["id"], "yes": true});
    let deleted = admin.rpc("_cleveragents/session/delete", &deletion);
    assert!(deleted.get("error").is_none(), "{deleted}");
    let recorded = "SELECT kind, identity, namespace FROM audit_entries \
                    WHERE kind IN ('session_created', 'entity_deleted') ORDER BY number";
    assert_eq!(
        database.ask(recorded),
        [
            ["session_created", "ada", "acme"],
            ["entity_deleted", "ada", "acme"]
        ]
    );
}

#[test]
fn forbidden_callers_are_refused() {
    let database = TestDatabase::sqlite();
    let server = Server::start(&database, local_options());
    let scopes = [Scope::Plans, Scope::Server, Scope::Tasks];
    let viewer = server.with_grants("viewer", &["acme=viewer"], &scopes);
    let listed = viewer.rpc("_cleveragents/plan/list", &json!({}));
    assert_eq!(listed["result"]["data"]["summary"]["total"], 0);
    for (method, params) in [
        (
            "_cleveragents/plan/use",
            json!({"action": "acme/a", "projects": ["acme/shop"]}),
        ),
        ("_cleveragents/diagnostics/run", json!({})),
        ("_cleveragents/registry/actor/list", json!({})),
    ] {
        let answer = viewer.rpc_answer(method, &params);
        assert_eq!(answer.status, 403, "{method}");
        assert_eq!(answer.json()["error"]["code"], -32012);
    }
    let foreign = json!({"action": "other/a", "projects": ["other/shop"]});
    let foreign = viewer.rpc_answer("_cleveragents/plan/use", &foreign);
    assert_eq!(foreign.status, 403);
    assert_eq!(database.count("SELECT COUNT(*) FROM plans"), 0);
}
