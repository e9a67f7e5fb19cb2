//! Turns: a question that the actor of a conversation answers, in one answer or in pieces while it comes.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use cleveragents_domain::identity::{Permission, Scope};
use cleveragents_process::Cancel;
use serde_json::json;

use super::pieces::{self, Pieces};
use super::request;
use super::types::{NewTurnDocument, TurnDocument};
use crate::app::App;
use crate::gate::Permit;
use crate::problem::Problem;
use crate::program::{Listener, Tell, Told};
use crate::routes::{Parameter, Place, Route, Verb, permitted, schema_of};

pub(crate) static ROUTES: &[Route] = &[Route {
    verb: Verb::Post,
    path: "/api/v1/sessions/{session}/turns",
    scope: Scope::Sessions,
    permission: Permission::Write,
    place: Place::Session,
    summary: "Asks the actor of a conversation; what was begun is finished and stored even when the caller goes away",
    parameters: &[Parameter {
        name: "Accept",
        place: "header",
        about: "`text/event-stream` for the answer in pieces: events `text`, `tool`, `reset`, at last `end` or `problem`",
        schema: schema_of::<Option<String>>,
    }],
    body: Some(schema_of::<NewTurnDocument>),
    answer: (200, Some(schema_of::<TurnDocument>)),
    handler: permitted!(turn),
}];

async fn turn(app: Arc<App>, permit: Permit, request: Request) -> Result<Response, Problem> {
    let wants_pieces = pieces::are_wanted(&request);
    let asked: NewTurnDocument = request::json(&app, request).await?;
    let session = permit.session()?;
    let (caller, program) = (Arc::clone(permit.caller()), Arc::clone(&app.program));
    let tell = move |listener: &dyn Listener, cancel: &Cancel| {
        let told = program.tell(&Tell {
            caller: &caller,
            session,
            prompt: asked.prompt,
            actor: asked.actor,
            is_actor_given: false,
            listener,
            cancel,
        })?;
        Ok::<_, Problem>(TurnDocument::from(told))
    };
    // Who is refused is told so before anything else.
    let place = app.place(permit.caller()).await?;
    if !wants_pieces {
        let ended = app.run_in(place, move |cancel| tell(&Deaf, cancel)).await?;
        return Ok(axum::Json(ended).into_response());
    }
    // It is begun before the head of the answer says so.
    let work = app.begin(place)?;
    let (pieces, response) = pieces::answer();
    crate::beside(async move {
        let heard = Heard(pieces.clone());
        let outcome = work.run(move |cancel| tell(&heard, cancel)).await;
        pieces.end(outcome.as_ref());
    });
    Ok(response)
}

impl From<Told> for TurnDocument {
    fn from(told: Told) -> Self {
        let (state, text) = match told {
            Told::Answered { text } => ("answered", Some(text)),
            Told::Waiting { question } => ("waiting", Some(question)),
            Told::Stopped => ("stopped", None),
        };
        Self { state, text }
    }
}

/// Who waits for the whole answer.
struct Deaf;

impl Listener for Deaf {}

/// Who hears each piece.
struct Heard(Pieces);

impl Listener for Heard {
    fn text(&self, piece: &str) {
        self.0.send("text", &json!({"text": piece}));
    }

    fn tool(&self, name: &str) {
        self.0.send("tool", &json!({"name": name}));
    }

    fn reset(&self) {
        self.0.send("reset", &json!({}));
    }
}
