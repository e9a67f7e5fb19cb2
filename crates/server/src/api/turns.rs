//! Turns: a message that the actor of a conversation answers, in one response or as a stream.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use cleveragents_application::{
    AgentEvent, FrontEnd, MessageActor, MessageOutcome, MessageTurn, NoObserver, Observer,
};
use cleveragents_domain::identity::{Caller, Permission, Scope};
use cleveragents_process::Cancel;
use serde_json::json;

use super::event_sender::{self, EventSender};
use super::request;
use super::types::{NewTurnDocument, TurnDocument};
use crate::app::App;
use crate::authorize::Permit;
use crate::problem::Problem;
use crate::routes::{Parameter, Route, RouteScope, Verb, permitted, schema_of};

pub(crate) static ROUTES: &[Route] = &[Route {
    verb: Verb::Post,
    path: "/api/v1/sessions/{session}/turns",
    scope: Scope::Sessions,
    permission: Permission::Write,
    place: RouteScope::Session,
    summary: "Send a message to the actor of a conversation; the answer is stored even if the client disconnects",
    parameters: &[Parameter {
        name: "Accept",
        place: "header",
        about: "`text/event-stream` to stream the answer: events `text`, `tool`, `reset`, finally `end` or `problem`",
        schema: schema_of::<Option<String>>,
    }],
    body: Some(schema_of::<NewTurnDocument>),
    answer: (200, Some(schema_of::<TurnDocument>)),
    handler: permitted!(turn),
}];

async fn turn(app: Arc<App>, permit: Permit, request: Request) -> Result<Response, Problem> {
    let is_streamed = event_sender::is_requested(&request);
    let new_turn: NewTurnDocument = request::json(&app, request).await?;
    let message = MessageTurn {
        session: permit.session()?,
        prompt: new_turn.prompt,
        actor: new_turn.actor.map(MessageActor::Requested),
    };
    let context = app.application.for_caller(Caller::clone(permit.caller()));
    let answer = move |observer: Arc<dyn Observer>, cancel: &Cancel| {
        let front_end = FrontEnd {
            observer,
            ..FrontEnd::default()
        };
        let context = context.with_front_end(front_end).cancelled_by(cancel);
        let outcome = message.run(&context);
        let outcome = outcome.map_err(|error| Problem::from_error(&error))?;
        Ok::<_, Problem>(TurnDocument::from(outcome))
    };
    // Requests are rejected before the stream starts.
    let slot = app.acquire_slot(permit.caller()).await?;
    if !is_streamed {
        let work = move |cancel: &Cancel| answer(Arc::new(NoObserver), cancel);
        let document = app.run_in(slot, work).await?;
        return Ok(axum::Json(document).into_response());
    }
    // The work is registered before the response starts, so that a stopping server waits for it.
    let work = app.begin(slot)?;
    let (sender, response) = event_sender::streamed_response();
    crate::spawn_task(async move {
        let observer = Arc::new(AnswerPieces(sender.clone()));
        let outcome = work.run(move |cancel| answer(observer, cancel)).await;
        sender.end(outcome.as_ref());
    });
    Ok(response)
}

impl From<MessageOutcome> for TurnDocument {
    fn from(outcome: MessageOutcome) -> Self {
        let (state, text) = match outcome {
            MessageOutcome::Answered(text) => ("answered", Some(text)),
            MessageOutcome::Waiting(question) => ("waiting", Some(question)),
            MessageOutcome::Cancelled => ("stopped", None),
        };
        Self { state, text }
    }
}

/// Streams the answer to the client.
struct AnswerPieces(EventSender);

impl Observer for AnswerPieces {
    fn event(&self, event: &AgentEvent) {
        match event {
            AgentEvent::Text { text, .. } => self.0.send("text", &json!({"text": text})),
            AgentEvent::ToolCallStarted { tool, .. } => {
                self.0.send("tool", &json!({"name": tool}));
            }
            event if event.restarts_answer() => self.0.send("reset", &json!({})),
            _ => {}
        }
    }
}
