//! The caller and its roles.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use cleveragents_domain::identity::{Grant, Permission, Scope};
use schemars::JsonSchema;
use serde::Serialize;

use crate::app::App;
use crate::authorize::Permit;
use crate::problem::Problem;
use crate::routes::{Route, RouteScope, Verb, permitted, schema_of};

pub(crate) static ROUTES: &[Route] = &[Route {
    verb: Verb::Get,
    path: "/api/v1/caller",
    scope: Scope::Registry,
    permission: Permission::Read,
    place: RouteScope::Body,
    summary: "The caller and its roles",
    parameters: &[],
    body: None,
    answer: (200, Some(schema_of::<CallerDocument>)),
    handler: permitted!(show),
}];

/// The caller.
#[derive(Debug, Serialize, JsonSchema)]
struct CallerDocument {
    /// The name of the token, or of the local user.
    identity: String,
    /// True if the caller is the user of the server's machine, without a token.
    is_local: bool,
    /// The roles, each as `NAMESPACE=ROLE`.
    grants: Vec<String>,
    /// Areas that the token is limited to.
    scopes: Vec<String>,
    /// The version of the server.
    version: String,
}

async fn show(_app: Arc<App>, permit: Permit, _request: Request) -> Result<Response, Problem> {
    let caller = permit.caller();
    Ok(axum::Json(CallerDocument {
        identity: caller.identity().to_owned(),
        is_local: caller.is_local(),
        grants: caller.grants().iter().map(Grant::to_string).collect(),
        scopes: caller
            .scopes()
            .map(|scope| scope.as_str().to_owned())
            .collect(),
        version: crate::VERSION.to_owned(),
    })
    .into_response())
}
