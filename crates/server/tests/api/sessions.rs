//! Conversations and their messages.

use std::collections::BTreeSet;

use cleveragents_testkit::TestDatabase;
use serde_json::{Value, json};

use crate::harness::{Client, Server};

/// All items of a list, page by page; `between` runs after each page.
fn read_pages(client: &Client, path: &str, limit: u64, mut between: impl FnMut()) -> Vec<Value> {
    let mut all = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = client
            .get(&format!("{path}?limit={limit}{cursor}"))
            .expect(200)
            .json();
        let items = page["items"].as_array().expect("items").clone();
        assert!(items.len() as u64 <= limit);
        all.extend(items);
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return all,
        }
        between();
    }
}

fn ids(items: &[Value]) -> Vec<String> {
    let id = |item: &Value| item["id"].as_str().expect("an id").to_owned();
    items.iter().map(id).collect()
}

#[test]
fn pages_hold_each_session_once_despite_concurrent_changes() {
    for database in TestDatabase::each() {
        let server = Server::on(database, |_| {});
        let local = server.local();
        let viewer = server.caller(&["acme=viewer"]);
        let mut before: Vec<String> = (0..7)
            .map(|_| {
                server
                    .session("acme")
                    .rsplit('/')
                    .next()
                    .expect("an id")
                    .to_owned()
            })
            .collect();
        server.session("other");
        server.session("local");
        before.reverse();
        let listed = read_pages(&viewer, "/api/v1/sessions", 2, || {
            // A new conversation and a changed one: neither moves items between pages.
            server.session("acme");
            let oldest = before.last().expect("one");
            local
                .post(
                    &format!("/api/v1/sessions/{oldest}/messages"),
                    &json!({"role": "user", "content": "x"}),
                )
                .expect(201);
        });
        assert_eq!(ids(&listed), before, "{}", server.database.kind);
        assert!(listed.iter().all(|session| session["namespace"] == "acme"));
        viewer
            .get("/api/v1/sessions?cursor=zz")
            .problem(400, "CA-1213");
        for limit in ["many", "0", "-1"] {
            viewer
                .get(&format!("/api/v1/sessions?limit={limit}"))
                .problem(400, "CA-1213");
        }
        let other = read_pages(&local, "/api/v1/sessions", 500, || {});
        assert!(
            other.len() > before.len() + 2,
            "the local user sees all sessions"
        );
    }
}

#[test]
fn messages_are_read_in_pages_and_stored_in_lists() {
    let server = Server::start();
    let local = server.local();
    let path = format!("{}/messages", server.session("acme"));
    let first = local
        .post(&path, &json!({"role": "user", "content": "first"}))
        .expect(201)
        .json();
    assert_eq!(first["sequence"], 0);
    let list: Vec<_> = (1..6)
        .map(|number| json!({"role": "user", "content": number.to_string()}))
        .collect();
    let stored = local.post(&path, &json!(list)).expect(201).json();
    let numbers: Vec<_> = stored
        .as_array()
        .expect("a list")
        .iter()
        .map(|stored| stored["sequence"].as_u64().expect("a number"))
        .collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
    let read = read_pages(&local, &path, 2, || {});
    let contents: Vec<_> = read
        .iter()
        .map(|message| message["content"].clone())
        .collect();
    assert_eq!(contents, ["first", "1", "2", "3", "4", "5"]);
    // A list is stored completely or not at all.
    let broken = json!([{"role": "user", "content": "good"}, {"role": "nobody", "content": "bad"}]);
    local.post(&path, &broken).problem(400, "CA-0303");
    local.post(&path, &json!([])).problem(400, "CA-1213");
    local
        .post(&path, &json!({"role": "user", "content": ""}))
        .problem(400, "CA-0304");
    local
        .post(&path, &json!({"role": "user", "content": "nul \u{0}"}))
        .problem(400, "CA-0307");
    assert_eq!(read_pages(&local, &path, 500, || {}).len(), 6);
}

#[test]
fn a_change_that_expects_another_version_changes_nothing() {
    for database in TestDatabase::each() {
        let server = Server::on(database, |_| {});
        let local = server.local();
        let path = server.session("acme");
        let read = local.get(&path).expect(200);
        let version = read.header("etag").expect("a version").to_owned();
        let renamed = local
            .with("if-match", &*version)
            .ask("PATCH", &path, Some(&json!({"name": "mine"})))
            .expect(200);
        assert_eq!(renamed.json()["name"], "mine");
        assert_ne!(renamed.header("etag"), Some(version.as_str()));
        let outdated = local.with("if-match", &*version);
        outdated
            .ask("PATCH", &path, Some(&json!({"name": "yours"})))
            .problem(412, "CA-0210");
        outdated.ask("DELETE", &path, None).problem(412, "CA-0210");
        assert_eq!(local.get(&path).json()["name"], "mine");
        local
            .with("if-match", "nonsense")
            .ask("DELETE", &path, None)
            .problem(400, "CA-1213");
        local
            .ask("PATCH", &path, Some(&json!({"actor": "x"})))
            .problem(400, "CA-1213");
        let current = renamed.header("etag").expect("a version");
        local
            .with("if-match", current)
            .ask("DELETE", &path, None)
            .expect(204);
        local.get(&path).problem(404, "CA-0301");
        local
            .post(
                &format!("{path}/messages"),
                &json!({"role": "user", "content": "late"}),
            )
            .problem(404, "CA-0301");
    }
}

#[test]
fn concurrent_updates_of_one_version_have_one_winner() {
    let server = Server::start();
    let path = server.session("acme");
    let version = server
        .local()
        .get(&path)
        .header("etag")
        .expect("one")
        .to_owned();
    let statuses = cleveragents_testkit::at_once(8, |number| {
        let client = server.local().with("if-match", &*version);
        let name = json!({"name": format!("name {number}")});
        client.ask("PATCH", &path, Some(&name)).status
    });
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1);
    assert_eq!(statuses.iter().filter(|status| **status == 412).count(), 7);
}

#[test]
fn a_fork_holds_the_first_messages() {
    let server = Server::start();
    let editor = server.caller(&["acme=editor"]);
    let path = server.session("acme");
    let list: Vec<_> = (0..5)
        .map(|number| json!({"role": "user", "content": number.to_string()}))
        .collect();
    editor
        .post(&format!("{path}/messages"), &json!(list))
        .expect(201);
    let fork = editor
        .post(&format!("{path}/forks"), &json!({"at": 2, "name": "half"}))
        .expect(201);
    assert_eq!(fork.json()["message_count"], 3);
    assert_eq!(fork.json()["namespace"], "acme");
    editor
        .post(&format!("{path}/forks"), &json!({"at": 5}))
        .problem(404, "CA-0312");
}

#[test]
fn a_search_finds_only_visible_messages() {
    for database in TestDatabase::each() {
        let server = Server::on(database, |_| {});
        let local = server.local();
        for namespace in ["acme", "other", "local"] {
            let path = format!("{}/messages", server.session(namespace));
            let content = format!("the needle of {namespace}");
            local
                .post(&path, &json!({"role": "user", "content": content}))
                .expect(201);
        }
        let excerpts = |client: &Client| {
            let page = client
                .get("/api/v1/sessions/search?q=needle")
                .expect(200)
                .json();
            let hits = page["items"].as_array().expect("items").clone();
            hits.into_iter()
                .map(|hit| {
                    hit["excerpt"]
                        .as_str()
                        .expect("text")
                        .replace(['\u{2}', '\u{3}'], "")
                })
                .collect::<BTreeSet<_>>()
        };
        let expected = |names: &[&str]| {
            names
                .iter()
                .map(|name| format!("the needle of {name}"))
                .collect()
        };
        assert_eq!(
            excerpts(&server.caller(&["acme=viewer"])),
            expected(&["acme"])
        );
        assert_eq!(
            excerpts(&server.caller(&["*=viewer"])),
            expected(&["acme", "other"])
        );
        assert_eq!(excerpts(&local), expected(&["acme", "other", "local"]));
        local
            .get("/api/v1/sessions/search?q=")
            .problem(400, "CA-0314");
        local.get("/api/v1/sessions/search").problem(400, "CA-1213");
    }
}
