//! The agent card: what other agents read before they call. The public one tells how to call, the extended one what
//! this caller finds here.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use cleveragents_domain::ContentHash;
use cleveragents_domain::identity::Permission;
use http::{HeaderMap, StatusCode, header};
use serde_json::{Value, json};

use super::wire::INPUT_MODES;
use super::{binding, extension};
use crate::app::App;
use crate::gate::Permit;
use crate::operations;
use crate::options::Conformance;
use crate::problem::Problem;

/// How long a card may be kept, in seconds.
const KEPT: u32 = 300;

/// The most actors that a card names.
const MOST_SKILLS: usize = 500;

fn skills() -> Value {
    json!([
        {
            "id": "conversation", "name": "Conversation", "tags": ["chat"],
            "description": "Answers messages in a conversation, with the tools that its actor may use",
        },
        {
            "id": "plan", "name": "Plan", "tags": ["plan", "code"],
            "description": "Carries an action out on projects: send `cleveragents` metadata with `action`, \
                            `projects` and `arguments`",
        },
    ])
}

/// The card of 1.0. It holds what the protocol knows and nothing else.
fn public(app: &App) -> Value {
    let url = &app.url;
    let mut card = json!({
        "name": "CleverAgents",
        "description": "Carries out plans and holds conversations with the actors of a CleverAgents server",
        "version": app.program.version(),
        "supportedInterfaces": [
            {"url": format!("{url}/a2a"), "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
            {"url": format!("{url}/a2a/v1"), "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"},
        ],
        "capabilities": {
            "streaming": true, "pushNotifications": true, "extendedAgentCard": true,
            "extensions": [{
                "uri": extension::URI,
                "description": "The operations of CleverAgents as methods of JSON-RPC",
            }],
        },
        "defaultInputModes": INPUT_MODES,
        "defaultOutputModes": INPUT_MODES,
        "skills": skills(),
    });
    match app.options.conformance {
        None | Some(Conformance::Full) => {}
        Some(Conformance::Minimal) => card["capabilities"] = json!({}),
        Some(Conformance::Extension) => {
            card["capabilities"]["extensions"] = json!([{
                "uri": binding::REQUIRED_EXTENSION,
                "description": "Callers must know it",
                "required": true,
            }]);
        }
    }
    // Callers on this machine need no token there.
    if !app.options.insecure_local {
        card["securitySchemes"] =
            json!({"bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}});
        card["securityRequirements"] = json!([{"schemes": {"bearer": {"list": []}}}]);
    }
    card
}

/// The card of 0.3.
fn old(app: &App) -> Value {
    let url = &app.url;
    let mut card = json!({
        "name": "CleverAgents",
        "description": "Carries out plans and holds conversations with the actors of a CleverAgents server",
        "version": app.program.version(),
        "protocolVersion": "0.3.0",
        "url": format!("{url}/a2a"),
        "preferredTransport": "JSONRPC",
        "additionalInterfaces": [{"url": format!("{url}/a2a"), "transport": "JSONRPC"}],
        "capabilities": {
            "streaming": true, "pushNotifications": true, "stateTransitionHistory": false,
        },
        "supportsAuthenticatedExtendedCard": true,
        "defaultInputModes": INPUT_MODES,
        "defaultOutputModes": INPUT_MODES,
        "skills": skills(),
    });
    if !app.options.insecure_local {
        card["securitySchemes"] = json!({"bearer": {"type": "http", "scheme": "bearer"}});
        card["security"] = json!([{"bearer": []}]);
    }
    card
}

/// `/.well-known/agent-card.json`. Clients of 0.3 look for their card here too, so it holds the members of both
/// versions. The conformance kit of 1.0 takes no member that 1.0 does not know.
pub(super) async fn serve(app: Arc<App>, request: Request) -> Result<Response, Problem> {
    let mut card = public(&app);
    if app.options.conformance.is_none() {
        add_missing(&mut card, old(&app));
    }
    Ok(kept(&card, request.headers()))
}

/// Adds the members of one object that another one lacks, at every depth.
fn add_missing(card: &mut Value, other: Value) {
    let (Value::Object(card), Value::Object(other)) = (card, other) else {
        return;
    };
    for (name, value) in other {
        match card.get_mut(&name) {
            Some(known) => add_missing(known, value),
            None => {
                card.insert(name, value);
            }
        }
    }
}

/// `/.well-known/agent.json`, for callers that speak 0.3 or less.
pub(super) async fn serve_old(app: Arc<App>, request: Request) -> Result<Response, Problem> {
    Ok(kept(&old(&app), request.headers()))
}

/// A card that callers may keep, and need not be sent again.
fn kept(card: &Value, asked: &HeaderMap) -> Response {
    let text = card.to_string();
    let tag = format!("\"{}\"", ContentHash::of(text.as_bytes()).hex());
    let is_known = asked.get_all(header::IF_NONE_MATCH).iter().any(|value| {
        let value = value.to_str().unwrap_or_default();
        value.split(',').any(|one| {
            let one = one.trim();
            one == "*" || one.trim_start_matches("W/") == tag
        })
    });
    let headers = [
        (header::ETAG, tag),
        (header::CACHE_CONTROL, format!("public, max-age={KEPT}")),
        (header::CONTENT_TYPE, "application/json".to_owned()),
        (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*".to_owned()),
    ];
    if is_known {
        return (StatusCode::NOT_MODIFIED, headers).into_response();
    }
    (headers, text).into_response()
}

/// The extended card: the public one with the operations and the actors that the caller may use.
pub(super) async fn extended(app: &Arc<App>, permit: &Permit) -> Value {
    let mut card = public(app);
    card["capabilities"]["extensions"] = json!([extension::advertised(app, permit)]);
    let actors = actors(app, permit).await;
    if let Some(skills) = card["skills"].as_array_mut() {
        skills.extend(actors);
    }
    card
}

/// The actors that the caller may see, as skills. Without such an operation there are none.
async fn actors(app: &Arc<App>, permit: &Permit) -> Vec<Value> {
    let found = ["registry/actor/list", "actor/list"]
        .iter()
        .find_map(|name| operations::named(app, name));
    let Some(operation) = found.cloned() else {
        return Vec::new();
    };
    let caller = Arc::clone(permit.caller());
    if caller.reach(operation.scope, Permission::Read).is_empty() {
        return Vec::new();
    }
    let inner = Arc::clone(app);
    let listed = app.run(permit.caller(), move |cancel| {
        operations::call(&inner, &caller, &operation.name, &json!({}), cancel).map_err(Into::into)
    });
    // A card without them is of use too.
    let Ok(listed) = listed.await else {
        return Vec::new();
    };
    let actors = match &listed {
        Value::Array(actors) => Some(actors),
        data => data.get("actors").and_then(Value::as_array),
    };
    actors
        .into_iter()
        .flatten()
        // Those that come with the program are no skill of this server.
        .filter(|actor| actor.get("built_in") != Some(&Value::Bool(true)))
        .filter_map(|actor| {
            let text = |name: &str| actor.get(name).and_then(Value::as_str);
            let name = text("name")?;
            let about = text("description").filter(|text| !text.is_empty());
            Some(json!({
                "id": name, "name": name, "tags": ["actor"],
                "description": about.unwrap_or("An actor: name it as `actor` in `cleveragents` metadata"),
            }))
        })
        .take(MOST_SKILLS)
        .collect()
}
