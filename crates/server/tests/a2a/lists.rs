//! Lists of tasks.

use std::collections::BTreeSet;

use crate::harness::{A2aBinding, BINDINGS, Server, local_options, message};
use cleveragents_testkit::TestDatabase;
use serde_json::{Value, json};

#[test]
fn tasks_are_listed_in_pages_with_filters() {
    let database = TestDatabase::sqlite();
    let server = Server::start(&database, local_options());
    let client = server.client();
    let empty = client.call(
        A2aBinding::Rest,
        "ListTasks",
        &json!({"contextId": "nobody"}),
    );
    assert_eq!(
        empty.expect("a list"),
        json!({"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0})
    );
    let mut created = BTreeSet::new();
    for number in 0..5 {
        let mut sent = message(&format!("tck-artifact-text-{number}"), "x");
        sent["contextId"] = "mine".into();
        let task = client.call(A2aBinding::Rpc, "SendMessage", &json!({"message": sent}));
        created.insert(task.expect("a task")["task"]["id"].to_string());
    }
    client.send(A2aBinding::Rpc, "tck-input-required-1");
    for binding in BINDINGS {
        let list = |params: Value| client.call(binding, "ListTasks", &params).expect("a list");
        let mut listed = Vec::new();
        let mut token = String::new();
        loop {
            let page = list(json!({"contextId": "mine", "pageSize": 2, "pageToken": token}));
            assert_eq!(
                (&page["pageSize"], &page["totalSize"]),
                (&json!(2), &json!(5))
            );
            let tasks = page["tasks"].as_array().expect("a list");
            assert!(tasks.iter().all(|task| task.get("artifacts").is_none()));
            let times: Vec<_> = tasks
                .iter()
                .map(|task| task["status"]["timestamp"].to_string())
                .collect();
            assert!(times.is_sorted_by(|previous, next| previous >= next));
            listed.extend(tasks.iter().map(|task| task["id"].to_string()));
            token = page["nextPageToken"].as_str().expect("a token").to_owned();
            if token.is_empty() {
                break;
            }
        }
        assert_eq!(listed.len(), 5);
        assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), created);
        let detailed =
            list(json!({"contextId": "mine", "includeArtifacts": true, "historyLength": 0}));
        for task in detailed["tasks"].as_array().expect("a list") {
            assert_eq!(
                task["artifacts"][0]["parts"][0]["text"],
                "Generated text content"
            );
            assert!(task.get("history").is_none());
        }
        assert_eq!(list(json!({}))["totalSize"], 6);
        assert_eq!(
            list(json!({"status": "TASK_STATE_INPUT_REQUIRED"}))["totalSize"],
            1
        );
        let newest = list(json!({"pageSize": 1}))["tasks"][0]["status"]["timestamp"].clone();
        let recent = list(json!({"statusTimestampAfter": newest}));
        assert_eq!(recent["totalSize"], 1, "the bound is inclusive");
        let offset = newest.as_str().expect("a time").replace('Z', "+00:00");
        assert_eq!(
            list(json!({"statusTimestampAfter": offset}))["totalSize"],
            1
        );
        for params in [
            json!({"pageSize": 0}),
            json!({"pageSize": 101}),
            json!({"pageSize": -1}),
            json!({"pageToken": "nonsense"}),
            json!({"pageToken": "6162"}),
            json!({"historyLength": -1}),
        ] {
            let error = client
                .call(binding, "ListTasks", &params)
                .expect_err("refused");
            error.assert(binding, -32602, 400, "INVALID_PARAMS");
        }
    }
    let snake = json!({"context_id": "mine", "page_size": 2, "include_artifacts": true});
    let page = client
        .call(A2aBinding::Rpc, "ListTasks", &snake)
        .expect("a list");
    assert_eq!(page["pageSize"], 2);
    assert!(page["tasks"][0].get("artifacts").is_some());
}
