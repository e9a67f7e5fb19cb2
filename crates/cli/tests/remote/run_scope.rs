//! Runs of one namespace are invisible to callers of another, through every interface.

use std::time::Duration;

use cleveragents_domain::RunId;
use cleveragents_store::runs::NewRun;
use cleveragents_store::{DatabaseUrl, EngineCache, Options, runs};
use cleveragents_testkit::{Agents, plans};
use serde_json::{Value, json};

use crate::http::{Answer, Caller};
use crate::{Server, agents, token};

/// A marker that only the inputs of runs contain.
const SECRET: &str = "the-merger-is-on-friday";

/// Stores runs of shared and custom actors in three namespaces, and a plan with a run.
fn seed(agents: &Agents) -> Vec<RunId> {
    let url = DatabaseUrl::file(&agents.database(), agents.home());
    let engine = EngineCache::new(Options::default())
        .open(&url)
        .expect("a database");
    let mut plan = plans::new_plan("quarterly");
    for project in &mut plan.inputs.projects {
        "acme/shop".clone_into(&mut project.name);
    }
    let plan = plans::store(&engine, &plan);
    [
        ("acme", "builtin/deterministic", json!({"plan": plan})),
        ("acme", "openai/gpt-5", json!({})),
        ("acme", "acme/reviewer", json!({})),
        ("local", "builtin/deterministic", json!({})),
        ("local", "anthropic/claude-opus-4-6", json!({})),
        ("builtin", "builtin/strategist", json!({})),
    ]
    .into_iter()
    .map(|(namespace, actor, options)| {
        let new = NewRun {
            id: RunId::generate(),
            namespace: namespace.to_owned(),
            actor: actor.to_owned(),
            actor_hash: "0".repeat(64),
            definitions: json!({}),
            input: json!({"state": {"task": SECRET}, "context": {}}),
            options,
        };
        let id = new.id;
        plans::write(&engine, move |unit| runs::insert(unit, &new));
        id
    })
    .collect()
}

struct Reader {
    address: String,
    token: String,
}

impl Reader {
    fn ask(&self, line: &str, body: &Value) -> Answer {
        let mut caller = Caller::connect(&self.address).expect("a server listens");
        let authorization = format!("authorization: Bearer {}", self.token);
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let version = "a2a-version: 1.0";
        let answer = caller
            .ask(line, &[&authorization, version], &body)
            .expect("a complete response");
        assert!(answer.status < 500, "{line} {body}: {answer:?}");
        answer
    }

    fn operation(&self, name: &str, parameters: &Value) -> Answer {
        self.ask(&format!("POST /api/v1/operations/{name}"), parameters)
    }

    /// Calls an operation as a JSON-RPC method.
    fn method(&self, name: &str, parameters: &Value) -> Value {
        let body = json!({
            "jsonrpc": "2.0", "id": 1, "method": format!("_cleveragents/{name}"), "params": parameters,
        });
        self.ask("POST /a2a", &body).json()
    }

    /// Calls an operation as a connected command line does.
    fn line(&self, name: &str, parameters: &Value) -> Value {
        let path = format!("POST /api/v1/operations/{name}?namespace=other");
        self.ask(&path, parameters).json()
    }
}

/// Masks the reference to a run, so that responses about different runs can be compared.
fn mask_reference(text: &str, reference: &str) -> String {
    text.replace(reference, "REFERENCE")
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of requests")]
fn a_viewer_reads_no_run_of_another_namespace() {
    let agents = agents();
    let secret = token(&agents, "viewer", &["other=viewer"]);
    let acme_token = token(&agents, "acme", &["acme=viewer"]);
    let runs = seed(&agents);
    let server = Server::start(&agents, &[]);
    let reader = |token: &str| Reader {
        address: server.address().to_owned(),
        token: token.to_owned(),
    };
    let viewer = reader(&secret);
    let missing = RunId::generate().to_string();
    let mut variants = 0;
    let mut reported = Vec::new();

    // By id and by prefix, over HTTP, JSON-RPC and the command line: the response equals the
    // response for a missing run.
    for id in &runs {
        let id = id.to_string();
        for reference in [id.as_str(), &id[..12], &id[..24], &id.to_lowercase()] {
            for name in ["run/show", "run/replay"] {
                let parameters = json!({"run": reference});
                let missing_parameters = json!({"run": missing});
                let answer = viewer.operation(name, &parameters);
                assert_eq!(answer.status, 404, "{name} {reference}: {answer:?}");
                let expected = viewer.operation(name, &missing_parameters);
                let text = String::from_utf8_lossy(&answer.body).into_owned();
                let expected_text = String::from_utf8_lossy(&expected.body).into_owned();
                assert_eq!(
                    mask_reference(&text, reference),
                    mask_reference(&expected_text, &missing),
                    "{name}"
                );
                for send in [Reader::method, Reader::line] {
                    let answer = send(&viewer, name, &parameters).to_string();
                    let expected = send(&viewer, name, &missing_parameters).to_string();
                    assert_eq!(
                        mask_reference(&answer, reference),
                        mask_reference(&expected, &missing),
                        "{name}"
                    );
                }
                variants += 3;
                reported.push(text);
            }
        }
        // A request to change an invisible run gets 404, not the 403 that a viewer gets for a
        // visible run.
        for name in ["run/resume", "run/cancel"] {
            let answer = viewer.operation(name, &json!({"run": id}));
            assert_eq!(answer.status, 404, "{name}: {answer:?}");
            variants += 1;
        }
    }

    // Lists, with and without a filter.
    for filter in [
        json!({}),
        json!({"actor": "builtin/deterministic"}),
        json!({"actor": "builtin/strategist"}),
        json!({"actor": "openai/gpt-5"}),
        json!({"actor": "anthropic/claude-opus-4-6"}),
        json!({"state": "running"}),
        json!({"limit": 1000, "offset": 0}),
    ] {
        let answer = viewer.operation("run/list", &filter);
        assert_eq!(answer.status, 200, "{filter}: {answer:?}");
        let data = &answer.json()["data"];
        assert_eq!(data["runs"], json!([]), "{filter}");
        assert_eq!(data["summary"]["matching"], 0, "{filter}");
        let listed = viewer.line("run/list", &filter).to_string();
        assert!(!runs.iter().any(|id| listed.contains(&id.to_string())));
        variants += 2;
    }
    for name in ["acme/reviewer", "local/reviewer"] {
        let answer = viewer.operation("run/list", &json!({"actor": name}));
        assert_eq!(
            answer.status, 403,
            "the viewer has no role in the namespace of {name}"
        );
        variants += 1;
    }
    let shown = viewer.operation(
        "registry/actor/show",
        &json!({"name": "builtin/deterministic"}),
    );
    reported.push(String::from_utf8_lossy(&shown.body).into_owned());
    if shown.status == 200 {
        let shown = shown.json().to_string();
        assert!(shown.contains(r#""total_runs":0"#), "{shown}");
    }

    // Tool calls, sessions of runs, tasks and events.
    for (line, body) in [
        ("POST /api/v1/operations/tool/calls".to_owned(), json!({})),
        ("POST /api/v1/operations/session/list".to_owned(), json!({})),
        ("POST /api/v1/operations/plan/list".to_owned(), json!({})),
        ("GET /a2a/v1/tasks".to_owned(), Value::Null),
        (format!("GET /a2a/v1/tasks/{}", runs[0]), Value::Null),
        (format!("GET /api/v1/plans/{}", runs[0]), Value::Null),
        (format!("GET /api/v1/sessions/{}", runs[0]), Value::Null),
    ] {
        let answer = viewer.ask(&line, &body);
        reported.push(String::from_utf8_lossy(&answer.body).into_owned());
        variants += 1;
    }
    reported.push(events(&viewer));
    variants += 1;
    for text in &reported {
        assert!(!text.contains(SECRET), "{text}");
        assert!(!text.contains("acme"), "{text}");
    }
    assert!(variants >= 20, "{variants}");

    // A viewer of the namespace can read its runs and no others.
    let acme = reader(&acme_token);
    let listed = acme.operation("run/list", &json!({})).json();
    assert_eq!(listed["data"]["summary"]["matching"], 3, "{listed}");
    for id in &runs[..3] {
        let shown = acme.operation("run/show", &json!({"run": id.to_string()}));
        let text = String::from_utf8_lossy(&shown.body).into_owned();
        assert!(shown.status == 200 && text.contains(SECRET), "{text}");
    }
    for id in &runs[3..] {
        let shown = acme.operation("run/show", &json!({"run": id.to_string()}));
        assert_eq!(shown.status, 404);
    }
    assert!(events(&acme).contains(&runs[0].to_string()));
}

/// All events that a caller receives, from the first event until no event arrives for two seconds.
fn events(reader: &Reader) -> String {
    let stream = std::net::TcpStream::connect(&reader.address).expect("a server listens");
    let _timeout = stream.set_read_timeout(Some(Duration::from_secs(2)));
    let mut text = Vec::new();
    let head = format!(
        "GET /api/v1/events?after=0 HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\
         accept: text/event-stream\r\n\r\n",
        reader.token
    );
    let mut stream = stream;
    std::io::Write::write_all(&mut stream, head.as_bytes()).expect("written");
    let mut piece = [0; 4_096];
    // The read fails when no event arrives within the timeout.
    while let Ok(count @ 1..) = std::io::Read::read(&mut stream, &mut piece) {
        text.extend_from_slice(&piece[..count]);
    }
    String::from_utf8_lossy(&text).into_owned()
}
