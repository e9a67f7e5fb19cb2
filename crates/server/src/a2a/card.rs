//! The agent card. The public card describes how to call this agent; the extended card adds the operations and actors
//! that the caller may use.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use cleveragents_a2a::{
    AgentCapabilities, AgentCard, AgentExtension, AgentInterface, AgentSkill, Binding,
    ProtocolVersion, SecurityRequirement, SecurityScheme, v0_3,
};
use cleveragents_application::actor_operations::ListActors;
use cleveragents_application::{Operation as _, Requirement};
use cleveragents_domain::ContentHash;
use cleveragents_domain::identity::Caller;
use http::{HeaderMap, StatusCode, header};
use serde_json::{Value, json};

use super::send::MEDIA_TYPES;
use super::{binding, extension};
use crate::app::App;
use crate::authorize::Permit;
use crate::failure::Failure;
use crate::options::Conformance;
use crate::problem::Problem;

/// Maximum age of a cached card, in seconds.
const MAX_AGE: u32 = 300;

/// Maximum number of actors on a card.
const MAX_ACTORS: usize = 500;

fn skill(id: &str, name: &str, tags: &[&str], description: &str) -> AgentSkill {
    AgentSkill {
        id: id.to_owned(),
        name: name.to_owned(),
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        description: description.to_owned(),
    }
}

fn skills() -> Vec<AgentSkill> {
    vec![
        skill(
            "conversation",
            "Conversation",
            &["chat"],
            "Answers messages in a conversation, with the tools that its actor may use",
        ),
        skill(
            "plan",
            "Plan",
            &["plan", "code"],
            "Runs an action on projects: send `cleveragents` metadata with `action`, \
             `projects` and `arguments`",
        ),
    ]
}

/// The card with all capabilities of this agent.
fn full(app: &App) -> AgentCard {
    let interface = |path: &str, protocol_binding| AgentInterface {
        url: format!("{}{path}", app.url),
        protocol_binding,
        protocol_version: ProtocolVersion::V1_0,
        tenant: None,
    };
    let media_types: Vec<String> = MEDIA_TYPES.map(str::to_owned).into();
    let mut card = AgentCard {
        name: "CleverAgents".to_owned(),
        description: "Runs plans and conversations with the actors of a CleverAgents server"
            .to_owned(),
        version: crate::VERSION.to_owned(),
        supported_interfaces: vec![
            interface("/a2a", Binding::JsonRpc),
            interface("/a2a/v1", Binding::HttpJson),
        ],
        capabilities: AgentCapabilities {
            streaming: true,
            push_notifications: true,
            extended_agent_card: true,
            extensions: vec![extension::advertised()],
        },
        default_input_modes: media_types.clone(),
        default_output_modes: media_types,
        skills: skills(),
        ..AgentCard::default()
    };
    // With `insecure_local`, callers on this machine need no token.
    if !app.options.insecure_local {
        let scheme = SecurityScheme::HttpAuth {
            scheme: "Bearer".to_owned(),
        };
        card.security_schemes = BTreeMap::from([("bearer".to_owned(), scheme)]);
        card.security_requirements = vec![SecurityRequirement {
            scheme: "bearer".to_owned(),
            scopes: Vec::new(),
        }];
    }
    card
}

/// The public card. A profile of the conformance kit may offer less, or require an extension.
fn public(app: &App) -> AgentCard {
    let mut card = full(app);
    match app.options.conformance {
        None | Some(Conformance::Full) => {}
        Some(Conformance::Minimal) => card.capabilities = AgentCapabilities::default(),
        Some(Conformance::Extension) => {
            card.capabilities.extensions = vec![AgentExtension {
                uri: binding::REQUIRED_EXTENSION.to_owned(),
                description: "Required".to_owned(),
                required: true,
                params: None,
            }];
        }
    }
    card
}

/// `/.well-known/agent-card.json`. Clients of 0.3 read their card here too, so it has the members of both versions.
/// The conformance kit of 1.0 rejects members that 1.0 does not define.
pub(super) async fn serve(app: Arc<App>, request: Request) -> Result<Response, Problem> {
    let mut card = json!(public(&app));
    if app.options.conformance.is_none() {
        add_missing(&mut card, v0_3::card(&full(&app)));
    }
    Ok(cacheable(&card, request.headers()))
}

/// Adds the members of `other` that `card` lacks, at every depth.
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

/// `/.well-known/agent.json`, for clients of 0.3.
pub(super) async fn serve_v0_3(app: Arc<App>, request: Request) -> Result<Response, Problem> {
    Ok(cacheable(&v0_3::card(&full(&app)), request.headers()))
}

/// A card that clients may cache; sends 304 to clients that have it.
fn cacheable(card: &Value, request_headers: &HeaderMap) -> Response {
    let text = card.to_string();
    let tag = format!("\"{}\"", ContentHash::of_bytes(text.as_bytes()).hex());
    let is_known = request_headers
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .any(|value| {
            let value = value.to_str().unwrap_or_default();
            value.split(',').any(|candidate| {
                let candidate = candidate.trim();
                candidate == "*" || candidate.trim_start_matches("W/") == tag
            })
        });
    let headers = [
        (header::ETAG, tag),
        (header::CACHE_CONTROL, format!("public, max-age={MAX_AGE}")),
        (header::CONTENT_TYPE, "application/json".to_owned()),
        (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*".to_owned()),
    ];
    if is_known {
        return (StatusCode::NOT_MODIFIED, headers).into_response();
    }
    (headers, text).into_response()
}

/// The extended card: the public card with the operations and actors that the caller may use.
pub(super) async fn extended(app: &Arc<App>, permit: &Permit) -> AgentCard {
    let mut card = public(app);
    card.capabilities.extensions = vec![extension::advertised_to(permit)];
    card.skills.extend(actors(app, permit).await);
    card
}

/// The registered actors that the caller may read, as skills.
async fn actors(app: &Arc<App>, permit: &Permit) -> Vec<AgentSkill> {
    let Requirement {
        scope, permission, ..
    } = ListActors::REQUIREMENT;
    if permit.caller().reach(scope, permission).is_empty() {
        return Vec::new();
    }
    let context = app.application.for_caller(Caller::clone(permit.caller()));
    let listed = app.run(permit.caller(), move |cancel| {
        let listed = context
            .cancelled_by(cancel)
            .call(ListActors { custom: true });
        listed.map_err(|error| Failure::from_error(&error).into())
    });
    // Without the database the card is sent without actors.
    let Ok(listed) = listed.await else {
        return Vec::new();
    };
    listed
        .actors
        .into_iter()
        .map(|actor| {
            let about = actor.description.filter(|text| !text.is_empty());
            let about = about
                .as_deref()
                .unwrap_or("An actor: name it as `actor` in `cleveragents` metadata");
            skill(&actor.name, &actor.name, &["actor"], about)
        })
        .take(MAX_ACTORS)
        .collect()
}
