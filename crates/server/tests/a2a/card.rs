//! The agent cards.

use crate::harness::{A2aBinding, BINDINGS, Server, local_options, provider_options};
use cleveragents_domain::identity::Scope;
use cleveragents_server::{Conformance, Options};
use cleveragents_store::definitions::{self, DefinitionKind};
use cleveragents_testkit::TestDatabase;
use serde_json::{Value, json};

/// The members of a card that only 0.3 defines.
const V0_3_MEMBERS: [&str; 6] = [
    "url",
    "protocolVersion",
    "preferredTransport",
    "additionalInterfaces",
    "supportsAuthenticatedExtendedCard",
    "security",
];

/// The public card without the members that only 0.3 defines, which must exist.
fn without_v0_3_members(mut card: Value) -> Value {
    for name in V0_3_MEMBERS {
        let removed = card.as_object_mut().expect("an object").remove(name);
        let is_optional = name == "security" && card.get("securitySchemes").is_none();
        assert!(removed.is_some() || is_optional, "{name}");
    }
    let removed = card["capabilities"]
        .as_object_mut()
        .expect("an object")
        .remove("stateTransitionHistory");
    assert!(removed.is_some());
    card
}

/// Checks that a card has only members that 1.0 defines.
fn check_card(card: &Value) {
    let only = |value: &Value, known: &[&str]| {
        for name in value.as_object().expect("an object").keys() {
            assert!(
                known.contains(&name.as_str()),
                "`{name}` is not known: {value}"
            );
        }
    };
    only(
        card,
        &[
            "name",
            "description",
            "supportedInterfaces",
            "provider",
            "version",
            "documentationUrl",
            "capabilities",
            "securitySchemes",
            "securityRequirements",
            "defaultInputModes",
            "defaultOutputModes",
            "skills",
            "signatures",
            "iconUrl",
        ],
    );
    only(
        &card["capabilities"],
        &[
            "streaming",
            "pushNotifications",
            "extensions",
            "extendedAgentCard",
        ],
    );
    for extension in card["capabilities"]["extensions"]
        .as_array()
        .expect("a list")
    {
        only(extension, &["uri", "description", "required", "params"]);
    }
    let interfaces = card["supportedInterfaces"].as_array().expect("a list");
    assert_eq!(interfaces.len(), 2);
    for interface in interfaces {
        only(
            interface,
            &["url", "protocolBinding", "tenant", "protocolVersion"],
        );
        assert_eq!(interface["protocolVersion"], "1.0");
        assert!(!interface["url"].as_str().expect("a url").ends_with('/'));
    }
    for skill in card["skills"].as_array().expect("a list") {
        only(skill, &["id", "name", "description", "tags"]);
        assert!(!skill["tags"].as_array().expect("tags").is_empty());
    }
    for name in ["name", "description", "version"] {
        assert!(!card[name].as_str().expect("a text").is_empty());
    }
    // Omits the schemas of operations, which declare that a parameter may be `null`.
    let mut plain = card.clone();
    if let Some(params) = plain.pointer_mut("/capabilities/extensions/0/params") {
        params["methods"] = json!([]);
    }
    assert!(!plain.to_string().contains("null"));
}

#[test]
fn the_public_card_is_strict_and_cacheable() {
    let database = TestDatabase::sqlite();
    let server = Server::start(&database, local_options());
    // Neither a token nor a version is needed.
    let client = server.client().header("a2a-version", None);
    let answer = client.http("GET", "/.well-known/agent-card.json", None);
    assert_eq!(answer.status, 200);
    assert_eq!(answer.kind(), "application/json");
    let card = answer.json();
    check_card(&card);
    assert!(card.get("securitySchemes").is_none(), "no token is needed");
    let caching = answer.headers["cache-control"].to_str().expect("a text");
    assert!(caching.contains("max-age="));
    let tag = answer.headers["etag"].to_str().expect("a tag").to_owned();
    for if_none_match in [tag.clone(), format!("\"x\", W/{tag}"), "*".to_owned()] {
        let client = server
            .client()
            .header("if-none-match", Some(&if_none_match));
        let cached = client.http("GET", "/.well-known/agent-card.json", None);
        assert_eq!(
            (cached.status, cached.text.as_str()),
            (304, ""),
            "{if_none_match}"
        );
        assert_eq!(cached.headers["etag"].to_str().expect("a tag"), tag);
    }
    let other = server.client().header("if-none-match", Some("\"x\""));
    let changed = other.http("GET", "/.well-known/agent-card.json", None);
    assert_eq!(changed.status, 200);
    let url = card["supportedInterfaces"][0]["url"]
        .as_str()
        .expect("a url");
    assert_eq!(url, format!("{}/a2a", server.url));
}

#[test]
fn the_card_declares_token_authentication() {
    let database = TestDatabase::sqlite();
    let mut options = provider_options();
    options.insecure_local = false;
    options.public_url = Some("https://agents.example/base/".to_owned());
    let server = Server::start(&database, options);
    let card = server
        .client()
        .http("GET", "/.well-known/agent-card.json", None);
    let card = without_v0_3_members(card.json());
    check_card(&card);
    assert_eq!(
        card["securityRequirements"],
        json!([{"schemes": {"bearer": {"list": []}}}])
    );
    let url = &card["supportedInterfaces"][1]["url"];
    assert_eq!(url, "https://agents.example/base/a2a/v1");
    for binding in BINDINGS {
        let path = ["/a2a", "/a2a/v1/extendedAgentCard"][usize::from(binding == A2aBinding::Rest)];
        let verb = ["POST", "GET"][usize::from(binding == A2aBinding::Rest)];
        let answer = server
            .client()
            .http(verb, path, (binding == A2aBinding::Rpc).then_some("{}"));
        assert_eq!(answer.status, 401);
        assert!(answer.headers.contains_key("www-authenticate"));
        assert!(answer.json().is_object());
    }
}

#[test]
fn the_card_of_0_3_has_its_own_path() {
    let database = TestDatabase::sqlite();
    let server = Server::start(&database, local_options());
    let card = server
        .client()
        .http("GET", "/.well-known/agent.json", None)
        .json();
    assert_eq!(card["protocolVersion"], "0.3.0");
    assert_eq!(card["url"], format!("{}/a2a", server.url));
    assert_eq!(card["preferredTransport"], "JSONRPC");
}

/// Clients of 0.3 read `/.well-known/agent-card.json` and need `url` there.
#[test]
fn clients_of_0_3_find_the_url_in_the_card() {
    let database = TestDatabase::sqlite();
    let mut options = provider_options();
    options.insecure_local = false;
    let server = Server::start(&database, options);
    let card = server
        .client()
        .header("a2a-version", None)
        .http("GET", "/.well-known/agent-card.json", None)
        .json();
    assert_eq!(card["url"], format!("{}/a2a", server.url));
    assert_eq!(card["preferredTransport"], "JSONRPC");
    assert_eq!(card["protocolVersion"], "0.3.0");
    assert_eq!(card["security"], json!([{"bearer": []}]));
    let scheme = &card["securitySchemes"]["bearer"];
    assert_eq!(
        (&scheme["type"], &scheme["scheme"]),
        (&json!("http"), &json!("bearer"))
    );
    assert_eq!(scheme["httpAuthSecurityScheme"]["scheme"], "Bearer");
}

#[test]
fn the_extended_card_lists_the_agents_of_the_caller() {
    let database = TestDatabase::sqlite();
    let server = Server::start(&database, local_options());
    let reviewer = "name: acme/reviewer\ntype: llm\nmodel: openai/gpt-5\ndescription: Reviews\n";
    let stored = server.engine.write(move |unit| {
        let kind = DefinitionKind::Actor;
        definitions::insert(unit, kind, "acme/reviewer", reviewer, "reviewer.yaml")
    });
    assert!(stored.expect("stored"));
    for binding in BINDINGS {
        let card = server
            .client()
            .call(binding, "GetExtendedAgentCard", &json!({}));
        let card = card.expect("a card");
        check_card(&card);
        let extension = &card["capabilities"]["extensions"][0];
        assert_eq!(extension["uri"], "urn:cleveragents:extensions:v1");
        let methods = extension["params"]["methods"].as_array().expect("methods");
        assert!(
            methods
                .iter()
                .any(|method| method["method"] == "_cleveragents/plan/list")
        );
        let skills = card["skills"].as_array().expect("skills");
        assert!(skills.iter().any(|skill| skill["id"] == "acme/reviewer"));
        let models = skills.iter().filter(|skill| {
            let id = skill["id"].as_str().unwrap_or_default();
            id.starts_with("openai/")
        });
        assert_eq!(models.count(), 0, "models are not skills of the server");
    }
    let viewer = server.with_grants("viewer", &["acme=viewer"], &[Scope::Tasks, Scope::Plans]);
    let card = viewer.call(A2aBinding::Rpc, "GetExtendedAgentCard", &json!({}));
    let methods =
        card.expect("a card")["capabilities"]["extensions"][0]["params"]["methods"].clone();
    let names: Vec<_> = methods
        .as_array()
        .expect("methods")
        .iter()
        .map(|method| &method["method"])
        .collect();
    for (method, is_listed) in [
        ("_cleveragents/plan/list", true),
        ("_cleveragents/plan/use", false),
        ("_cleveragents/plan/cancel", false),
        ("_cleveragents/session/list", false),
    ] {
        assert_eq!(names.contains(&&json!(method)), is_listed, "{method}");
    }
    let stranger = server.with_grants("stranger", &["acme=owner"], &[Scope::Sessions]);
    let answer = stranger.rpc_answer("GetExtendedAgentCard", &json!({}));
    assert_eq!(answer.status, 403);
}

/// A message that the conformance actor completes.
fn message() -> Value {
    json!({"message": {"messageId": "tck-complete-task-1", "role": "ROLE_USER", "parts": [{"text": "hi"}]}})
}

#[test]
fn undeclared_capabilities_are_refused() {
    let database = TestDatabase::sqlite();
    let options = Options {
        conformance: Some(Conformance::Minimal),
        ..local_options()
    };
    let server = Server::start(&database, options);
    let client = server.client();
    let card = client
        .http("GET", "/.well-known/agent-card.json", None)
        .json();
    assert_eq!(card["capabilities"], json!({}));
    for binding in BINDINGS {
        assert!(client.call(binding, "SendMessage", &message()).is_ok());
        let code = |method: &str, params: &Value| {
            client
                .call(binding, method, params)
                .expect_err("refused")
                .code
        };
        // The task `t` does not exist: the capability is checked before the task is looked up.
        let push = json!({"taskId": "t", "url": "https://example.com/hook"});
        let expected = [
            ("CreateTaskPushNotificationConfig", push, -32003),
            ("SendStreamingMessage", message(), -32004),
            ("GetExtendedAgentCard", json!({}), -32004),
        ];
        for (method, params, rpc_code) in expected {
            let expected = if binding == A2aBinding::Rpc {
                rpc_code
            } else {
                400
            };
            assert_eq!(code(method, &params), expected, "{binding:?} {method}");
        }
    }
}

#[test]
fn an_agent_that_requires_an_extension_accepts_only_clients_with_it() {
    let database = TestDatabase::sqlite();
    let options = Options {
        conformance: Some(Conformance::Extension),
        ..local_options()
    };
    let server = Server::start(&database, options);
    let card = server
        .client()
        .http("GET", "/.well-known/agent-card.json", None)
        .json();
    check_card(&card);
    let extension = &card["capabilities"]["extensions"][0];
    assert_eq!(extension["uri"], "urn:a2a:tck:required-extension");
    assert_eq!(extension["required"], true);
    for binding in BINDINGS {
        let refused = server.client().call(binding, "SendMessage", &message());
        let refused = refused.expect_err("refused");
        assert_eq!(
            refused.code,
            if binding == A2aBinding::Rpc {
                -32008
            } else {
                400
            }
        );
        assert_eq!(refused.reason, "EXTENSION_SUPPORT_REQUIRED");
        let known = server.client().header(
            "a2a-extensions",
            Some("urn:x, urn:a2a:tck:required-extension"),
        );
        assert!(known.call(binding, "SendMessage", &message()).is_ok());
    }
}
