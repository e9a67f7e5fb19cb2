//! Commands of other machines' command lines, which print what they are given; and who calls.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use cleveragents_domain::Code;
use cleveragents_domain::identity::{Grant, Permission, Scope};
use cleveragents_process::Cancel;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::pieces::{self, Pieces};
use super::request;
use crate::app::App;
use crate::gate::Permit;
use crate::log::{self, FailureCode};
use crate::problem::{self, Problem};
use crate::program::{Line, Screen};
use crate::routes::{Parameter, Place, Route, Verb, permitted, schema_of};

pub(crate) static ROUTES: &[Route] = &[
    Route {
        verb: Verb::Post,
        path: "/api/v1/cli",
        scope: Scope::Registry,
        permission: Permission::Read,
        // What it needs depends on the command, which checks all that it touches.
        place: Place::Body,
        summary: "Run a command of the command line",
        parameters: &[Parameter {
            name: "Accept",
            place: "header",
            about: "`text/event-stream` for what the command tells while it runs: events `out` and `err`, at last `end` or `problem`",
            schema: schema_of::<Option<String>>,
        }],
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
    /// The format in which what comes of it is printed.
    #[serde(default = "json_format")]
    format: String,
}

fn json_format() -> String {
    "json".to_owned()
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
    let wants_pieces = pieces::are_wanted(&request);
    let line: CommandLine = request::json(&app, request).await?;
    let program = Arc::clone(&app.program);
    let caller = Arc::clone(permit.caller());
    let run = move |screen: Option<Arc<dyn Screen>>, cancel: &Cancel| {
        let mut all = program.operations().iter();
        let operation = all
            .find(|operation| operation.name == line.operation)
            .ok_or_else(|| {
                Problem::new(
                    Code::UnknownOperation,
                    format!("there is no operation `{}`", line.operation),
                )
            })?;
        Ok::<Value, Problem>(program.run_line(&Line {
            caller: &caller,
            operation,
            parameters: &line.parameters,
            namespace: line.namespace.as_deref(),
            format: &line.format,
            screen,
            visible: caller.reach(operation.scope, Permission::Read),
            cancel,
        })?)
    };
    // Who is refused is told so before anything else.
    let place = app.place(permit.caller()).await?;
    if !wants_pieces {
        let answer = app.run_in(place, move |cancel| run(None, cancel)).await?;
        let failed = failure(&answer);
        let mut response = axum::Json(answer).into_response();
        response.extensions_mut().extend(failed);
        return Ok(response);
    }
    // It is begun before the head of the answer says so.
    let work = app.begin(place)?;
    let (pieces, response) = pieces::answer();
    crate::beside(async move {
        let screen = Arc::new(Shown(pieces.clone()));
        let outcome = work.run(move |cancel| run(Some(screen), cancel));
        pieces.end(outcome.await.as_ref());
    });
    Ok(response)
}

/// The code of a command that failed, for the log; internal errors are logged with their cause.
fn failure(answer: &Value) -> http::Extensions {
    let mut extensions = http::Extensions::new();
    let error = &answer["error"];
    if let Some(code) = error["code"].as_str() {
        let mut known = Code::ALL.iter().copied();
        let known = known.find(|known| known.as_str() == code);
        if known.is_some_and(|code| problem::status(code).is_server_error()) {
            log::internal_error(code, error["message"].as_str().unwrap_or_default());
        }
        extensions.insert(FailureCode(code.to_owned()));
    }
    extensions
}

/// The terminal of the other command line.
struct Shown(Pieces);

impl Screen for Shown {
    fn out(&self, text: &str) {
        self.0.send("out", &json!({"text": text}));
    }

    fn err(&self, text: &str) {
        self.0.send("err", &json!({"text": text}));
    }
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
