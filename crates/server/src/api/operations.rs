//! Operations over HTTP: the typed ones of the application, and commands of the front end that are none yet.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use cleveragents_application::{find_operation, operations};
use cleveragents_domain::Code;
use cleveragents_domain::identity::{Caller, Permission, Scope};
use cleveragents_process::Cancel;
use serde_json::{Map, Value};

use super::request;
use super::types::{DoneDocument, OperationDocument, Page};
use crate::app::App;
use crate::gate::Permit;
use crate::problem::Problem;
use crate::program::{Call, Done, Failure};
use crate::routes::{Parameter, Place, Route, Verb, permitted, schema_of};

pub(crate) static ROUTES: &[Route] = &[
    Route {
        verb: Verb::Get,
        path: "/api/v1/operations",
        scope: Scope::Registry,
        permission: Permission::Read,
        place: Place::Body,
        summary: "What can be asked for, as far as the caller may ask for it anywhere",
        parameters: &[],
        body: None,
        answer: (200, Some(schema_of::<Page<OperationDocument>>)),
        handler: permitted!(list),
    },
    Route {
        verb: Verb::Post,
        path: "/api/v1/operations/{*name}",
        scope: Scope::Registry,
        permission: Permission::Read,
        place: Place::Body,
        summary: "Run an operation; the list of operations has its schemas",
        parameters: &[Parameter {
            name: "namespace",
            place: "query",
            about: "The namespace of names without one; the caller's only writable namespace by default",
            schema: schema_of::<Option<String>>,
        }],
        body: Some(schema_of::<Map<String, Value>>),
        answer: (200, Some(schema_of::<DoneDocument>)),
        handler: permitted!(run),
    },
];

async fn list(app: Arc<App>, permit: Permit, _request: Request) -> Result<Response, Problem> {
    let caller = permit.caller();
    Ok(axum::Json(Page {
        items: documents(&app, caller).collect(),
        next_cursor: None,
    })
    .into_response())
}

/// The operations that a caller may run in some namespace.
pub(crate) fn documents<'a>(
    app: &'a App,
    caller: &'a Caller,
) -> impl Iterator<Item = OperationDocument> + 'a {
    let may = |scope, permission| !caller.reach(scope, permission).is_empty();
    let typed = operations()
        .filter(move |entry| may(entry.requirement.scope, entry.requirement.permission))
        .map(OperationDocument::from);
    let others = app.program.operations().iter();
    let others = others.filter(move |operation| may(operation.scope, operation.permission));
    typed.chain(others.map(OperationDocument::from))
}

/// A parameter of the query string.
fn query(request: &Request, name: &str) -> Option<String> {
    let query = request.uri().query()?;
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.find(|(known, _)| *known == name)?;
    let decoded = percent_encoding::percent_decode_str(value).decode_utf8();
    Some(decoded.ok()?.into_owned())
}

async fn run(app: Arc<App>, permit: Permit, request: Request) -> Result<Response, Problem> {
    let name = permit.parameter("name").to_owned();
    let namespace = query(&request, "namespace");
    let parameters = parameters(&app, request).await?;
    let done = perform(&app, &permit, &name, parameters, namespace).await?;
    Ok(axum::Json(DoneDocument::from(done)).into_response())
}

/// The parameters that a body holds; no body holds none.
pub(crate) async fn parameters(app: &App, request: Request) -> Result<Map<String, Value>, Problem> {
    let (parts, body) = request.into_parts();
    let bytes = request::whole(app, &parts.headers, body).await?;
    if bytes.trim_ascii().is_empty() {
        return Ok(Map::new());
    }
    request::parse(&bytes)
}

impl From<Done> for DoneDocument {
    fn from(done: Done) -> Self {
        Self {
            data: done.data,
            exit_code: done.exit_code,
        }
    }
}

/// Checks that a caller may run a command of the front end, and gives its place among them.
pub(crate) async fn permitted(
    app: &Arc<App>,
    permit: &Permit,
    name: &str,
    parameters: &Arc<Value>,
) -> Result<usize, Problem> {
    let place = app
        .program
        .operations()
        .iter()
        .position(|operation| operation.name == name)
        .ok_or_else(|| {
            Problem::new(
                Code::UnknownOperation,
                format!("there is no operation `{name}`"),
            )
            .with_hint("GET /api/v1/operations lists those that there are")
        })?;
    let (program, given) = (Arc::clone(&app.program), Arc::clone(parameters));
    let caller = Arc::clone(permit.caller());
    crate::blocking(move || match program.operations().get(place) {
        Some(operation) => program.authorize(&caller, operation, &given),
        None => Err(Failure::new(Code::Internal, "the operations changed")),
    })
    .await?;
    Ok(place)
}

/// Runs an operation for a caller. Names without a namespace are in `namespace`.
pub(crate) async fn perform(
    app: &Arc<App>,
    permit: &Permit,
    name: &str,
    parameters: Map<String, Value>,
    namespace: Option<String>,
) -> Result<Done, Problem> {
    if let Ok(entry) = find_operation(name) {
        let caller = Caller::clone(permit.caller());
        let context = app.application.for_caller(caller).in_namespace(namespace);
        let prepared =
            crate::blocking(move || entry.prepare(context, Value::Object(parameters))).await;
        let prepared = prepared.map_err(|error| Failure::of(&error))?;
        let run = move |cancel: &Cancel| {
            let data = prepared(cancel).map_err(|error| Failure::of(&error))?;
            Ok(Done {
                data,
                report: Value::Null,
                exit_code: 0,
            })
        };
        return app.run(permit.caller(), run).await;
    }
    let parameters = Arc::new(Value::Object(parameters));
    let place = permitted(app, permit, name, &parameters).await?;
    let (program, caller) = (Arc::clone(&app.program), Arc::clone(permit.caller()));
    app.run(permit.caller(), move |cancel| {
        let operation = program
            .operations()
            .get(place)
            .ok_or_else(|| Problem::new(Code::Internal, "the operations changed"))?;
        Ok(program.run(&Call {
            caller: &caller,
            operation,
            parameters: &parameters,
            visible: caller.reach(operation.scope, Permission::Read),
            cancel,
        })?)
    })
    .await
}
