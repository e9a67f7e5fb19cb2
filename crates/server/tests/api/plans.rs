//! Plans.

use std::sync::atomic::Ordering;

use cleveragents_domain::PlanId;
use serde_json::json;

use crate::harness::{Server, plan_request, wait_until};

#[test]
fn callers_list_the_plans_they_may_see_in_pages() {
    let server = Server::start();
    let mut acme: Vec<_> = (0..5)
        .map(|_| server.plan("acme/shop").to_string())
        .collect();
    server.plan("other/shop");
    server.plan("local/shop");
    acme.reverse();
    let viewer = server.caller(&["acme=viewer"]);
    let mut listed = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = viewer
            .get(&format!("/api/v1/plans?limit=2{cursor}"))
            .expect(200)
            .json();
        for plan in page["items"].as_array().expect("items") {
            listed.push(plan["id"].as_str().expect("an id").to_owned());
            assert_eq!(plan["namespace"], "acme");
            assert_eq!(plan["stage"], "strategize/queued");
        }
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
        server.plan("acme/shop");
    }
    assert_eq!(listed, acme);
}

/// A plan in the namespace `acme` with a strategy, which waits for an answer.
fn plan_with_question(server: &Server) -> PlanId {
    let id = server.plan("acme/shop");
    server.ask_question(id);
    id
}

#[test]
fn each_path_of_a_plan_is_an_operation_of_the_same_plan() {
    let server = Server::start();
    let other = server.plan("other/shop");
    let editor = server.caller(&["acme=editor"]);
    let viewer = server.caller(&["acme=viewer"]);
    for (verb, path, id_at, extra) in [
        ("GET", "", "/plan_id", json!({})),
        ("GET", "/strategy?document=markdown", "/plan_id", json!({})),
        ("GET", "/tree?depth=2", "/plan_id", json!({})),
        ("GET", "/diff?stat=true", "/diff_summary/plan", json!({})),
        ("GET", "/log?limit=2", "/plan_id", json!({})),
        ("GET", "/checkpoints", "/plan_id", json!({})),
        ("POST", "/cancel", "/plan_id", json!({"reason": "enough"})),
        (
            "POST",
            "/approve",
            "/plan_id",
            json!({"answer": "the first"}),
        ),
        ("POST", "/reject", "/plan_id", json!({})),
        (
            "POST",
            "/prompt",
            "/guidance_added/plan",
            json!({"guidance": "go on"}),
        ),
    ] {
        let id = plan_with_question(&server);
        // A reference in the body is ignored.
        let mut body = extra;
        body["reference"] = json!(other);
        let body = (verb == "POST").then_some(body);
        let at = |plan| format!("/api/v1/plans/{plan}{path}");
        if verb == "POST" {
            viewer
                .ask(verb, &at(id), body.as_ref())
                .problem(403, "CA-1202");
        }
        let response = editor.ask(verb, &at(id), body.as_ref()).expect(200).json();
        assert_eq!(response["data"].pointer(id_at), Some(&json!(id)), "{path}");
        editor
            .ask(verb, &at(other), body.as_ref())
            .problem(404, "CA-0404");
    }
    let log = editor
        .get(&format!(
            "/api/v1/plans/{}/log?limit=2",
            plan_with_question(&server)
        ))
        .expect(200);
    assert_eq!(log.json()["data"]["summary"]["shown"], 2);
}

#[test]
fn a_plan_is_created_from_an_action_and_not_applied_before_it_is_executed() {
    let server = Server::start();
    let editor = server.caller(&["acme=editor"]);
    let request = server.offer_plans("acme");
    server.offer_plans("other");
    let created = editor.post("/api/v1/plans", &request).expect(201);
    let plan = created.json()["data"]["plan_id"].clone();
    let plan = plan.as_str().expect("an id");
    assert_eq!(
        created.header("location"),
        Some(&*format!("/api/v1/plans/{plan}"))
    );
    assert_eq!(created.json()["data"]["stage"], "strategize/queued");
    editor
        .post("/api/v1/plans", &plan_request("other"))
        .problem(403, "CA-1202");
    let other = server.plan("other/shop");
    // A reference in the body is ignored.
    let body = json!({"reference": other, "yes": true});
    let apply = |plan: &str| editor.post(&format!("/api/v1/plans/{plan}/apply"), &body);
    apply(plan).problem(409, "CA-1142");
    apply(&other.to_string()).problem(404, "CA-0404");
    assert!(
        server
            .double
            .runtimes
            .lock()
            .expect("not poisoned")
            .is_empty()
    );
}

#[test]
fn the_server_runs_a_plan_while_its_caller_continues() {
    let server = Server::with(|options| {
        options.max_running = 1;
        options.max_waiting = 1;
    });
    server.double.holds_runtimes.store(true, Ordering::SeqCst);
    let (first, second) = (server.plan("acme/shop"), server.plan("acme/shop"));
    let editor = server.caller(&["acme=editor"]);
    let execute = |plan| editor.post(&format!("/api/v1/plans/{plan}/execute"), &json!({}));
    let accepted = execute(first).expect(202);
    assert_eq!(
        accepted.header("location"),
        Some(&*format!("/api/v1/plans/{first}"))
    );
    let runtimes = || server.double.runtimes.lock().expect("not poisoned").clone();
    wait_until("it runs", || runtimes().len() == 1);
    execute(second).expect(202);
    wait_until("the second waits", || server.gauge("waiting") == 1);
    execute(second).problem(503, "CA-1219");
    assert_eq!(runtimes().len(), 1, "one at a time");
    server.double.release();
    wait_until("both were run", || runtimes().len() == 2);
    wait_until("nothing runs", || server.gauge("running") == 0);
    assert!(
        runtimes()
            .iter()
            .all(|caller| caller.starts_with("caller "))
    );
    server
        .caller(&["acme=viewer"])
        .post(&format!("/api/v1/plans/{first}/execute"), &json!({}))
        .problem(403, "CA-1202");
}
