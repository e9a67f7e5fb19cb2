//! Plans. But for their list and their being driven, each path is an operation of the front end under another name.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use cleveragents_domain::PlanId;
use cleveragents_domain::identity::{Permission, Scope};
use http::StatusCode;
use http::header::LOCATION;
use serde_json::{Map, Value, json};

use super::operations::{parameters, perform};
use super::paging::{CURSOR, LIMIT, Paging};
use super::request;
use super::types::{AcceptedDocument, DoneDocument, Page, PlanDocument};
use crate::app::App;
use crate::driving;
use crate::gate::Permit;
use crate::problem::Problem;
use crate::routes::{Handler, Place, Route, Verb, permitted, schema_of};

/// A path of a plan that is read.
const fn look(path: &'static str, summary: &'static str, handler: Handler) -> Route {
    Route {
        verb: Verb::Get,
        path,
        scope: Scope::Plans,
        permission: Permission::Read,
        place: Place::Plan,
        summary,
        parameters: &[],
        body: None,
        answer: (200, Some(schema_of::<DoneDocument>)),
        handler,
    }
}

/// A path of a plan to which something is done.
const fn act(path: &'static str, summary: &'static str, handler: Handler) -> Route {
    Route {
        verb: Verb::Post,
        permission: Permission::Write,
        body: Some(schema_of::<Map<String, Value>>),
        ..look(path, summary, handler)
    }
}

/// A handler that does the operation of this name with the plan of the path.
macro_rules! same_as {
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
        place: Place::Any,
        summary: "The plans that the caller may see, the newest first",
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
        place: Place::Body,
        summary: "Makes a plan from an action (operation `plan/use`)",
        parameters: &[],
        body: Some(schema_of::<Map<String, Value>>),
        answer: (201, Some(schema_of::<DoneDocument>)),
        handler: permitted!(make),
    },
    look(
        "/api/v1/plans/{plan}",
        "How a plan stands (operation `plan/status`)",
        same_as!("plan/status"),
    ),
    look(
        "/api/v1/plans/{plan}/strategy",
        "The strategy of a plan (operation `plan/show`)",
        same_as!("plan/show"),
    ),
    look(
        "/api/v1/plans/{plan}/tree",
        "The decisions of a plan (operation `plan/tree`)",
        same_as!("plan/tree"),
    ),
    look(
        "/api/v1/plans/{plan}/diff",
        "What a plan has changed in its sandbox (operation `plan/diff`)",
        same_as!("plan/diff"),
    ),
    look(
        "/api/v1/plans/{plan}/log",
        "What happened to a plan (operation `plan/log`)",
        same_as!("plan/log"),
    ),
    look(
        "/api/v1/plans/{plan}/checkpoints",
        "The checkpoints of a plan (operation `plan/checkpoint/list`)",
        same_as!("plan/checkpoint/list"),
    ),
    Route {
        answer: (202, Some(schema_of::<AcceptedDocument>)),
        ..act(
            "/api/v1/plans/{plan}/execute",
            "Has the server drive a plan on; its events and its status tell how it goes",
            permitted!(execute),
        )
    },
    act(
        "/api/v1/plans/{plan}/apply",
        "Carries what a plan changed to the real resources (operation `plan/apply`)",
        same_as!("plan/apply"),
    ),
    act(
        "/api/v1/plans/{plan}/cancel",
        "Gives a plan up (operation `plan/cancel`)",
        same_as!("plan/cancel"),
    ),
    act(
        "/api/v1/plans/{plan}/approve",
        "Says yes to what a plan waits for (operation `plan/approve`)",
        same_as!("plan/approve"),
    ),
    act(
        "/api/v1/plans/{plan}/reject",
        "Says no to what a plan waits for (operation `plan/reject`)",
        same_as!("plan/reject"),
    ),
    act(
        "/api/v1/plans/{plan}/prompt",
        "Tells a plan something (operation `plan/prompt`)",
        same_as!("plan/prompt"),
    ),
];

async fn list(app: Arc<App>, permit: Permit, request: Request) -> Result<Response, Problem> {
    let paging = Paging::<PlanId>::read(&request)?;
    let (plans, visible) = (app.services.plans(), permit.visible());
    let (before, wanted) = (paging.after, paging.wanted());
    let found = crate::blocking(move || plans.page(&visible, before, wanted)).await?;
    let page: Page<PlanDocument> = paging.page(found, |last| last.id);
    Ok(axum::Json(page).into_response())
}

async fn make(app: Arc<App>, permit: Permit, request: Request) -> Result<Response, Problem> {
    let parameters = parameters(&app, request).await?;
    let done = perform(&app, &permit, "plan/use", parameters, None).await?;
    let id = done.data.get("plan_id").and_then(Value::as_str);
    let place = id.map(|id| [(LOCATION, format!("/api/v1/plans/{id}"))]);
    let body = axum::Json(DoneDocument::from(done));
    Ok((StatusCode::CREATED, place, body).into_response())
}

/// Does an operation with the plan of the path: what is in the body, or after the question mark, goes along.
async fn as_operation(
    app: Arc<App>,
    permit: Permit,
    request: Request,
    operation: &'static str,
) -> Result<Response, Problem> {
    let plan = permit.plan()?;
    let mut given = if request.method() == http::Method::POST {
        parameters(&app, request).await?
    } else {
        let pairs: Vec<(String, String)> = request::query(request.uri())?;
        pairs
            .into_iter()
            .map(|(name, value)| (name, given_as_text(value)))
            .collect()
    };
    // Whatever else names a plan does not count: the one of the path was checked.
    given.insert("reference".to_owned(), json!(plan));
    let done = perform(&app, &permit, operation, given, None).await?;
    Ok(axum::Json(DoneDocument::from(done)).into_response())
}

/// The value of a parameter in the query string, where numbers and `true` are texts.
fn given_as_text(value: String) -> Value {
    match value.as_str() {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        text => match text.parse::<u64>() {
            Ok(number) => number.into(),
            Err(_) => Value::String(value),
        },
    }
}

/// Has a plan driven on. The answer comes as soon as it is stored that it will be.
async fn execute(app: Arc<App>, permit: Permit, _request: Request) -> Result<Response, Problem> {
    let plan = permit.plan()?;
    driving::take_on(&app, permit.caller(), plan).await?;
    let status = format!("/api/v1/plans/{plan}");
    let body = axum::Json(AcceptedDocument {
        id: plan.to_string(),
        status: status.clone(),
    });
    Ok((StatusCode::ACCEPTED, [(LOCATION, status)], body).into_response())
}
