//! Commands of other machines' command lines, which print what they are given; and who calls.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use cleveragents_domain::Code;
use cleveragents_domain::identity::{Grant, Permission, Scope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::request;
use crate::app::App;
use crate::gate::Permit;
use crate::problem::Problem;
use crate::program::Line;
use crate::routes::{Place, Route, Verb, permitted, schema_of};

pub(crate) static ROUTES: &[Route] = &[
    Route {
        verb: Verb::Post,
        path: "/api/v1/cli",
        scope: Scope::Registry,
        permission: Permission::Read,
        // What it needs depends on the command, which checks all that it touches.
        place: Place::Body,
        summary: "Run a command of the command line",
        parameters: &[],
        body: Some(schema_of::<CommandLine>),
        answer: (200, None),
        handler: permitted!(run),
    },
    Route {
        verb: Verb::Get,
        path: "/api/v1/caller",
        scope: Scope::Registry,
        permission: Permission::Read,
        place: Place::Body,
        summary: "Who calls, and with which roles",
        parameters: &[],
        body: None,
        answer: (200, Some(schema_of::<Known>)),
        handler: permitted!(known),
    },
];

/// A command to be run.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CommandLine {
    /// The operation, such as `session/list`.
    operation: String,
    /// Its parameters.
    #[serde(default)]
    parameters: Value,
    /// The namespace of names without one.
    #[serde(default)]
    namespace: Option<String>,
    /// Whether people read what comes of it.
    #[serde(default)]
    is_for_people: bool,
}

/// Who calls.
#[derive(Debug, Serialize, JsonSchema)]
struct Known {
    /// The name of the token, or of the person.
    identity: String,
    /// Whether it is the person at the machine of the server.
    is_local: bool,
    /// The roles, each as `NAMESPACE=ROLE`.
    grants: Vec<String>,
    /// What they may be used for.
    scopes: Vec<String>,
    /// The version of the server.
    version: String,
}

async fn run(app: Arc<App>, permit: Permit, request: Request) -> Result<Response, Problem> {
    let line: CommandLine = request::json(&app, request).await?;
    let program = Arc::clone(&app.program);
    let caller = Arc::clone(permit.caller());
    let answer = app
        .run(permit.caller(), move |cancel| {
            let mut all = program.operations().iter();
            let operation = all
                .find(|operation| operation.name == line.operation)
                .ok_or_else(|| {
                    Problem::new(
                        Code::UnknownOperation,
                        format!("there is no operation `{}`", line.operation),
                    )
                })?;
            Ok(program.run_line(&Line {
                caller: &caller,
                operation,
                parameters: &line.parameters,
                namespace: line.namespace.as_deref(),
                is_for_people: line.is_for_people,
                visible: caller.reach(operation.scope, Permission::Read),
                cancel,
            })?)
        })
        .await?;
    Ok(axum::Json(answer).into_response())
}

async fn known(app: Arc<App>, permit: Permit, _request: Request) -> Result<Response, Problem> {
    let caller = permit.caller();
    Ok(axum::Json(Known {
        identity: caller.identity().to_owned(),
        is_local: caller.is_local(),
        grants: caller.grants().iter().map(Grant::to_string).collect(),
        scopes: caller
            .scopes()
            .map(|scope| scope.as_str().to_owned())
            .collect(),
        version: app.program.version().to_owned(),
    })
    .into_response())
}
