//! `/api/v1/openapi.json`: the description of the API (OpenAPI 3.1), generated from the table of routes and from the
//! types of requests and responses.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use cleveragents_application::{OperationEntry, operations};
use cleveragents_domain::identity::{Permission, Scope};
use http::header::CONTENT_TYPE;
use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::app::App;
use crate::problem::{PROBLEM, Problem};
use crate::routes::{self, Route, RouteScope, Verb, open, schema_of};

pub(crate) static ROUTES: &[Route] = &[Route {
    verb: Verb::Get,
    path: "/api/v1/openapi.json",
    scope: Scope::Server,
    permission: Permission::Read,
    place: RouteScope::Open,
    summary: "The OpenAPI document of this API",
    parameters: &[],
    body: None,
    answer: (200, Some(schema_of::<Value>)),
    handler: open!(describe),
}];

async fn describe(_app: Arc<App>, _request: Request) -> Result<Response, Problem> {
    static TEXT: OnceLock<String> = OnceLock::new();
    let text = TEXT.get_or_init(|| document(crate::VERSION).to_string());
    let kind = [(CONTENT_TYPE, "application/json")];
    Ok((kind, text.as_str()).into_response())
}

/// The complete OpenAPI document.
fn document(version: &str) -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = "/components/schemas".into();
    let mut generator = settings.into_generator();
    let problem = reference(schema_of::<Problem>(&mut generator));
    let mut paths: Map<String, Value> = Map::new();
    for route in routes::all() {
        let described = operation(route, &problem, &mut generator);
        let path = paths
            .entry(openapi_path(route.path))
            .or_insert_with(|| json!({}));
        if let Some(path) = path.as_object_mut() {
            path.insert(route.verb.as_str().to_lowercase(), described);
        }
    }
    for entry in operations() {
        let path = format!("/api/v1/operations/{}", entry.name);
        let described = json!({"post": typed_operation(entry, &problem, &mut generator)});
        paths.insert(path, described);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "CleverAgents",
            "version": version,
            "description": "Conversations, plans, operations and events of a CleverAgents server.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": generator.take_definitions(true),
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token created on the machine of the server",
                },
            },
        },
    })
}

/// A path in OpenAPI syntax, which has no special form for parameters that contain slashes.
fn openapi_path(path: &str) -> String {
    path.replace("{*", "{")
}

fn reference(schema: Schema) -> Value {
    Value::from(schema)
}

fn operation(route: &Route, problem: &Value, generator: &mut SchemaGenerator) -> Value {
    let mut described = json!({
        "operationId": operation_id(route),
        "summary": route.summary,
        "tags": [route.scope.as_str()],
        "responses": responses(route, problem, generator),
    });
    let Some(fields) = described.as_object_mut() else {
        return described;
    };
    let parameters = parameters(route, generator);
    if !parameters.is_empty() {
        fields.insert("parameters".to_owned(), parameters.into());
    }
    if let Some(body) = route.body {
        let schema = reference(body(generator));
        fields.insert(
            "requestBody".to_owned(),
            json!({"required": true, "content": {"application/json": {"schema": schema}}}),
        );
    }
    if route.place != RouteScope::Open {
        fields.insert("security".to_owned(), json!([{"bearer": []}]));
        fields.insert(
            "x-needs-role".to_owned(),
            json!(route.permission.least_role().as_str()),
        );
        fields.insert("x-where".to_owned(), json!(where_needed(route.place)));
    }
    described
}

/// Describes a typed operation. Its path matches the route for all operations.
fn typed_operation(
    entry: &OperationEntry,
    problem: &Value,
    generator: &mut SchemaGenerator,
) -> Value {
    let id = entry.name.replace(['/', '-'], "_");
    let request = reference((entry.request_in)(generator));
    let response = reference((entry.response_in)(generator));
    let answer = json!({
        "type": "object",
        "properties": {"data": response},
        "required": ["data"],
    });
    json!({
        "operationId": format!("operation_{id}"),
        "summary": entry.summary,
        "tags": [entry.requirement.scope.as_str()],
        "requestBody": {"required": true, "content": {"application/json": {"schema": request}}},
        "responses": {
            "200": {"description": "Done", "content": {"application/json": {"schema": answer}}},
            "default": {
                "description": "Error",
                "content": {"application/problem+json": {"schema": problem}},
            },
        },
        "security": [{"bearer": []}],
        "x-needs-role": entry.requirement.permission.least_role().as_str(),
        "x-where": if entry.requirement.is_global {
            where_needed(RouteScope::Everywhere)
        } else {
            where_needed(RouteScope::Body)
        },
    })
}

/// Namespaces in which the caller needs its role.
const fn where_needed(place: RouteScope) -> &'static str {
    match place {
        RouteScope::Open => "nowhere",
        RouteScope::Session => "in the namespace of the session",
        RouteScope::Plan => "in the namespace of the plan",
        RouteScope::Any => "in any namespace; the response holds what the caller may see",
        RouteScope::Body => "in the namespaces that the request names",
        RouteScope::Everywhere => "in every namespace (`*`)",
    }
}

/// The operation id: the method and the words of the path.
fn operation_id(route: &Route) -> String {
    let mut id = route.verb.as_str().to_lowercase();
    let words = route.path.trim_start_matches("/api/v1");
    for word in words.split(|letter: char| !letter.is_ascii_alphanumeric()) {
        if !word.is_empty() {
            id.push('_');
            id.push_str(word);
        }
    }
    if route.path.ends_with('/') {
        id.push_str("_root");
    }
    id
}

fn parameters(route: &Route, generator: &mut SchemaGenerator) -> Vec<Value> {
    let in_path = route.path.split('/').filter_map(|part| {
        let name = part.strip_prefix('{')?.strip_suffix('}')?;
        let name = name.trim_start_matches('*');
        let schema = json!({"type": "string", "pattern": pattern(name)});
        Some(json!({"name": name, "in": "path", "required": true, "schema": schema}))
    });
    let mut all: Vec<Value> = in_path.collect();
    for parameter in route.parameters {
        all.push(json!({
            "name": parameter.name,
            "in": parameter.place,
            "required": false,
            "description": parameter.about,
            "schema": not_null(reference((parameter.schema)(generator))),
        }));
    }
    if is_a2a(route) && route.place != RouteScope::Open {
        all.push(json!({
            "name": "A2A-Version",
            "in": "header",
            "required": false,
            "description": "`1.0`, or any `1.x`; default: 0.3, which only JSON-RPC supports",
            "schema": {"type": "string"},
        }));
    }
    if route.verb == Verb::Post && route.place != RouteScope::Open {
        all.push(json!({
            "name": "Idempotency-Key",
            "in": "header",
            "required": false,
            "description": "A request that is repeated with its key gets the response of the first one",
            "schema": {"type": "string", "minLength": 1, "maxLength": 200},
        }));
    }
    all
}

/// True if a route belongs to A2A, which defines its own errors.
fn is_a2a(route: &Route) -> bool {
    route.path.starts_with("/a2a")
}

/// The regular expression of a path parameter.
fn pattern(name: &str) -> &'static str {
    match name {
        "session" | "plan" => "^[0-7][0-9A-HJKMNP-TV-Z]{25}$",
        "name" => "^[a-z][a-z0-9_/-]*$",
        _ => "^[^/]+$",
    }
}

/// Removes `null` from the type of an optional parameter, because clients omit the parameter instead.
fn not_null(mut schema: Value) -> Value {
    if let Some(Value::Array(kinds)) = schema.get("type") {
        let kind = kinds.iter().find(|kind| **kind != "null").cloned();
        if let (Some(fields), Some(kind)) = (schema.as_object_mut(), kind) {
            fields.insert("type".to_owned(), kind);
        }
    }
    schema
}

/// The media types of a successful response.
fn media(route: &Route) -> &'static [&'static str] {
    match route.path {
        "/metrics" => &["application/openmetrics-text"],
        "/api/v1/events" => &["text/event-stream"],
        path if path.ends_with("/turns") => &["application/json", "text/event-stream"],
        path if path.starts_with("/a2a/v1/") => &["application/a2a+json", "text/event-stream"],
        path if path.starts_with("/a2a") => &["application/json", "text/event-stream"],
        _ => &["application/json"],
    }
}

fn responses(route: &Route, problem: &Value, generator: &mut SchemaGenerator) -> Value {
    let (status, answer) = route.answer;
    let mut all = Map::new();
    let mut success = json!({"description": "Success"});
    if status != 204 {
        let schema = answer.map_or_else(|| json!({}), |schema| reference(schema(generator)));
        let content: Map<String, Value> = media(route)
            .iter()
            .map(|kind| {
                let schema = match *kind {
                    "application/openmetrics-text" => json!({"type": "string"}),
                    _ => schema.clone(),
                };
                ((*kind).to_owned(), json!({"schema": schema}))
            })
            .collect();
        success["content"] = content.into();
    }
    all.insert(status.to_string(), success);
    for status in error_statuses(route) {
        let description = http::StatusCode::from_u16(status)
            .ok()
            .and_then(|status| status.canonical_reason())
            .unwrap_or("A problem");
        let mut content = json!({PROBLEM: {"schema": problem}});
        if is_a2a(route) {
            content["application/json"] = json!({"schema": {"type": "object"}});
        }
        all.insert(
            status.to_string(),
            json!({"description": description, "content": content}),
        );
    }
    all.into()
}

/// The HTTP statuses of the errors of a route.
fn error_statuses(route: &Route) -> BTreeSet<u16> {
    if route.place == RouteScope::Open {
        // The JSON-RPC endpoint supports only POST.
        return if is_a2a(route) {
            BTreeSet::from([405, 503])
        } else {
            BTreeSet::from([503])
        };
    }
    let mut all = BTreeSet::from([400, 401, 403, 429, 503]);
    if route.path.contains('{') {
        all.insert(404);
    }
    match route.verb {
        Verb::Get => {}
        Verb::Delete => all.extend([409, 412]),
        Verb::Patch => all.extend([408, 409, 412, 413, 415, 422]),
        Verb::Post => all.extend([404, 408, 409, 413, 415, 422]),
    }
    all
}
