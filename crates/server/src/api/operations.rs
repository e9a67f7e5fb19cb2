//! Operations over HTTP: the response as JSON, or the events of the agents that an operation runs as they happen.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use cleveragents_application::{
    AgentEvent, FrontEnd, NoApprover, Observer, PreparedCall, find_operation, operations,
};
use cleveragents_domain::Code;
use cleveragents_domain::identity::{Caller, Permission, Scope};
use cleveragents_process::Cancel;
use serde_json::{Map, Value};

use super::event_sender::{self, EventSender};
use super::request;
use super::types::{DoneDocument, OperationDocument, Page};
use crate::app::App;
use crate::authorize::Permit;
use crate::failure::Failure;
use crate::problem::Problem;
use crate::routes::{Parameter, Route, RouteScope, Verb, permitted, schema_of};

pub(crate) static ROUTES: &[Route] = &[
    Route {
        verb: Verb::Get,
        path: "/api/v1/operations",
        scope: Scope::Registry,
        permission: Permission::Read,
        place: RouteScope::Body,
        summary: "List the operations that the caller may run in some namespace",
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
        place: RouteScope::Body,
        summary: "Run an operation; the list of operations has the schemas",
        parameters: &[
            Parameter {
                name: "namespace",
                place: "query",
                about: "The namespace to assume for names without one; by default the caller's only writable namespace",
                schema: schema_of::<Option<String>>,
            },
            Parameter {
                name: "Accept",
                place: "header",
                about: "`text/event-stream` streams operations that run agents: events `agent` (AgentEvent), at last `result` or `problem`",
                schema: schema_of::<Option<String>>,
            },
        ],
        body: Some(schema_of::<Map<String, Value>>),
        answer: (200, Some(schema_of::<DoneDocument>)),
        handler: permitted!(run),
    },
];

async fn list(_app: Arc<App>, permit: Permit, _request: Request) -> Result<Response, Problem> {
    Ok(axum::Json(Page {
        items: documents(permit.caller()).collect(),
        next_cursor: None,
    })
    .into_response())
}

/// The operations that a caller may run in at least one namespace.
pub(crate) fn documents(caller: &Caller) -> impl Iterator<Item = OperationDocument> + '_ {
    operations()
        .filter(|entry| {
            let requirement = entry.requirement;
            let reach = caller.reach(requirement.scope, requirement.permission);
            !reach.is_empty()
        })
        .map(OperationDocument::from)
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
    let call = OperationCall {
        name: permit.parameter("name").to_owned(),
        namespace: query(&request, "namespace"),
    };
    let is_streamed = event_sender::is_requested(&request)
        && find_operation(&call.name).is_ok_and(|entry| entry.runs_agents);
    let parameters = parameters(&app, request).await?;
    if !is_streamed {
        let outcome = call.run(&app, &permit, parameters).await?;
        return Ok(axum::Json(outcome).into_response());
    }
    let (sender, response) = event_sender::streamed_response();
    let observer = Arc::new(AgentEventSender(sender.clone()));
    // Invalid and unauthorized requests are rejected before the stream starts.
    let prepared = call.prepare(&app, &permit, parameters, observer).await?;
    let slot = app.acquire_slot(permit.caller()).await?;
    // The work is registered before the response starts, so that a stopping server waits for it.
    let work = app.begin(slot)?;
    crate::spawn_task(async move {
        match work.run(move |cancel| respond(prepared, cancel)).await {
            Ok(outcome) => sender.send("result", &outcome),
            Err(problem) => sender.send("problem", &problem),
        }
    });
    Ok(response)
}

/// Sends the events of agents to the caller.
struct AgentEventSender(EventSender);

impl Observer for AgentEventSender {
    fn event(&self, event: &AgentEvent) {
        self.0.send("agent", event);
    }
}

/// The parameters in a body; empty if there is no body.
pub(crate) async fn parameters(app: &App, request: Request) -> Result<Map<String, Value>, Problem> {
    let (parts, body) = request.into_parts();
    let bytes = request::whole(app, &parts.headers, body).await?;
    if bytes.trim_ascii().is_empty() {
        return Ok(Map::new());
    }
    request::parse(&bytes)
}

/// A call of an operation by its name. Names without a namespace in its parameters belong to `namespace`.
pub(crate) struct OperationCall {
    pub(crate) name: String,
    pub(crate) namespace: Option<String>,
}

impl OperationCall {
    /// A call in the default namespace: the only namespace that the caller may write to.
    pub(crate) fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            namespace: None,
        }
    }

    /// Resolves and authorizes the call.
    async fn prepare(
        &self,
        app: &App,
        permit: &Permit,
        parameters: Map<String, Value>,
        observer: Arc<dyn Observer>,
    ) -> Result<PreparedCall, Problem> {
        let entry = find_operation(&self.name).map_err(|error| {
            Problem::new(Code::UnknownOperation, error.to_string())
                .with_hint("GET /api/v1/operations lists all operations")
        })?;
        let context = app
            .application
            .for_caller(Caller::clone(permit.caller()))
            .in_namespace(self.namespace.clone())
            .with_front_end(FrontEnd {
                approver: Arc::new(NoApprover),
                observer,
            });
        let prepared = move || entry.prepare(context, Value::Object(parameters));
        let prepared = crate::blocking(prepared).await;
        Ok(prepared.map_err(|error| Failure::from_error(&error))?)
    }

    /// Runs the call for its caller.
    pub(crate) async fn run(
        &self,
        app: &Arc<App>,
        permit: &Permit,
        parameters: Map<String, Value>,
    ) -> Result<DoneDocument, Problem> {
        let observer = Arc::new(cleveragents_application::NoObserver);
        let prepared = self.prepare(app, permit, parameters, observer).await?;
        app.run(permit.caller(), move |cancel| respond(prepared, cancel))
            .await
    }
}

fn respond(prepared: PreparedCall, cancel: &Cancel) -> Result<DoneDocument, Problem> {
    let data = prepared(cancel).map_err(|error| Failure::from_error(&error))?;
    Ok(DoneDocument { data })
}
