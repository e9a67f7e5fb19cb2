//! Plans. Except for the list and `execute`, each path calls an operation.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use cleveragents_domain::PlanId;
use cleveragents_domain::identity::{Permission, Scope};
use http::StatusCode;
use http::header::LOCATION;
use serde_json::{Map, Value, json};

use super::operations::{OperationCall, parameters};
use super::paging::{CURSOR, LIMIT, PageRequest};
use super::request;
use super::types::{AcceptedDocument, DoneDocument, Page, PlanDocument};
use crate::app::App;
use crate::authorize::Permit;
use crate::plan_driver;
use crate::problem::Problem;
use crate::routes::{Handler, Route, RouteScope, Verb, permitted, schema_of};

/// A route that reads a plan.
const fn read_route(path: &'static str, summary: &'static str, handler: Handler) -> Route {
    Route {
        verb: Verb::Get,
        path,
        scope: Scope::Plans,
        permission: Permission::Read,
        place: RouteScope::Plan,
        summary,
        parameters: &[],
        body: None,
        answer: (200, Some(schema_of::<DoneDocument>)),
        handler,
    }
}

/// A route that changes a plan.
const fn write_route(path: &'static str, summary: &'static str, handler: Handler) -> Route {
    Route {
        verb: Verb::Post,
        permission: Permission::Write,
        body: Some(schema_of::<Map<String, Value>>),
        ..read_route(path, summary, handler)
    }
}

/// A handler that calls an operation with the plan of the path.
macro_rules! call_operation {
    ($operation:literal) => {
        Handler::Permitted(|app, permit, request| {
            Box::pin(as_operation(app, permit, request, $operation))
        })
    };
}

pub(crate) static ROUTES: &[Route] = &[
    Route {
        verb: Verb::Get,
        path: "/api/v1/plans",
        scope: Scope::Plans,
        permission: Permission::Read,
        place: RouteScope::Any,
        summary: "List the plans that the caller may see, newest first",
        parameters: &[LIMIT, CURSOR],
        body: None,
        answer: (200, Some(schema_of::<Page<PlanDocument>>)),
        handler: permitted!(list),
    },
    Route {
        verb: Verb::Post,
        path: "/api/v1/plans",
        scope: Scope::Plans,
        permission: Permission::Write,
        place: RouteScope::Body,
        summary: "Create a plan from an action (operation `plan/use`)",
        parameters: &[],
        body: Some(schema_of::<Map<String, Value>>),
        answer: (201, Some(schema_of::<DoneDocument>)),
        handler: permitted!(create),
    },
    read_route(
        "/api/v1/plans/{plan}",
        "Status of a plan (operation `plan/status`)",
        call_operation!("plan/status"),
    ),
    read_route(
        "/api/v1/plans/{plan}/strategy",
        "The strategy of a plan (operation `plan/show`)",
        call_operation!("plan/show"),
    ),
    read_route(
        "/api/v1/plans/{plan}/tree",
        "The decisions of a plan (operation `plan/tree`)",
        call_operation!("plan/tree"),
    ),
    read_route(
        "/api/v1/plans/{plan}/diff",
        "Diff of the changes of a plan in its sandbox (operation `plan/diff`)",
        call_operation!("plan/diff"),
    ),
    read_route(
        "/api/v1/plans/{plan}/log",
        "Log of a plan (operation `plan/log`)",
        call_operation!("plan/log"),
    ),
    read_route(
        "/api/v1/plans/{plan}/checkpoints",
        "The checkpoints of a plan (operation `plan/checkpoint/list`)",
        call_operation!("plan/checkpoint/list"),
    ),
    Route {
        answer: (202, Some(schema_of::<AcceptedDocument>)),
        ..write_route(
            "/api/v1/plans/{plan}/execute",
            "Run a plan on the server; follow it by its events and its status",
            permitted!(execute),
        )
    },
    write_route(
        "/api/v1/plans/{plan}/apply",
        "Apply the changes of a plan to the real resources (operation `plan/apply`)",
        call_operation!("plan/apply"),
    ),
    write_route(
        "/api/v1/plans/{plan}/cancel",
        "Cancel a plan (operation `plan/cancel`)",
        call_operation!("plan/cancel"),
    ),
    write_route(
        "/api/v1/plans/{plan}/approve",
        "Approve the pending request of a plan (operation `plan/approve`)",
        call_operation!("plan/approve"),
    ),
    write_route(
        "/api/v1/plans/{plan}/reject",
        "Reject the pending request of a plan (operation `plan/reject`)",
        call_operation!("plan/reject"),
    ),
    write_route(
        "/api/v1/plans/{plan}/prompt",
        "Send guidance to a plan (operation `plan/prompt`)",
        call_operation!("plan/prompt"),
    ),
];

async fn list(app: Arc<App>, permit: Permit, request: Request) -> Result<Response, Problem> {
    let paging = PageRequest::<PlanId>::read(&request)?;
    let (plans, visible) = (app.services.plans(), permit.visible());
    let (before, count) = (paging.after, paging.query_limit());
    let rows = crate::blocking(move || plans.page(&visible, before, count)).await?;
    let page: Page<PlanDocument> = paging.page(rows, |last| last.id);
    Ok(axum::Json(page).into_response())
}

async fn create(app: Arc<App>, permit: Permit, request: Request) -> Result<Response, Problem> {
    let parameters = parameters(&app, request).await?;
    let outcome = OperationCall::named("plan/use")
        .run(&app, &permit, parameters)
        .await?;
    let id = outcome.data.get("plan_id").and_then(Value::as_str);
    let location = id.map(|id| [(LOCATION, format!("/api/v1/plans/{id}"))]);
    Ok((StatusCode::CREATED, location, axum::Json(outcome)).into_response())
}

/// Calls an operation with the plan of the path; the parameters come from the body or the query string.
async fn as_operation(
    app: Arc<App>,
    permit: Permit,
    request: Request,
    operation: &'static str,
) -> Result<Response, Problem> {
    let plan = permit.plan()?;
    let mut arguments = if request.method() == http::Method::POST {
        parameters(&app, request).await?
    } else {
        let pairs: Vec<(String, String)> = request::query(request.uri())?;
        pairs
            .into_iter()
            .map(|(name, value)| (name, query_value(value)))
            .collect()
    };
    // Overrides a reference in the parameters, because the permission was checked for the plan of the path.
    arguments.insert("reference".to_owned(), json!(plan));
    let outcome = OperationCall::named(operation)
        .run(&app, &permit, arguments)
        .await?;
    Ok(axum::Json(outcome).into_response())
}

/// The value of a query parameter: numbers and booleans are converted from text.
fn query_value(value: String) -> Value {
    match value.as_str() {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        text => match text.parse::<u64>() {
            Ok(number) => number.into(),
            Err(_) => Value::String(value),
        },
    }
}

/// Queues a plan for this server. Responds as soon as the request is stored.
async fn execute(app: Arc<App>, permit: Permit, _request: Request) -> Result<Response, Problem> {
    let plan = permit.plan()?;
    plan_driver::enqueue(&app, permit.caller(), plan).await?;
    let status = format!("/api/v1/plans/{plan}");
    let body = axum::Json(AcceptedDocument {
        id: plan.to_string(),
        status: status.clone(),
    });
    Ok((StatusCode::ACCEPTED, [(LOCATION, status)], body).into_response())
}
