//! Streamed responses: server-sent events of running work, until the work ends.

use std::convert::Infallible;

use axum::extract::Request;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use http::header::{ACCEPT, CACHE_CONTROL};
use serde::Serialize;
use tokio::sync::mpsc;

use crate::problem::Problem;

/// True if the client requests a streamed response.
pub(super) fn is_requested(request: &Request) -> bool {
    request.headers().get(ACCEPT).is_some_and(|accepted| {
        let accepted = accepted.to_str().unwrap_or_default();
        accepted.contains("text/event-stream")
    })
}

/// The sending half of a streamed response. The buffer is unlimited, because it never holds more than the response.
#[derive(Clone)]
pub(super) struct EventSender(mpsc::UnboundedSender<Event>);

impl EventSender {
    /// Sends an event. The client may have disconnected; the work continues anyway.
    pub(super) fn send(&self, event: &str, data: &impl Serialize) {
        if let Ok(event) = Event::default().event(event).json_data(data) {
            let _received = self.0.send(event);
        }
    }

    /// Sends the last event: `end` with the result, or `problem`.
    pub(super) fn end(&self, outcome: Result<&impl Serialize, &Problem>) {
        match outcome {
            Ok(result) => self.send("end", result),
            Err(problem) => self.send("problem", problem),
        }
    }
}

/// A streamed response and its sending half.
pub(super) fn streamed_response() -> (EventSender, Response) {
    let (sender, events) = mpsc::unbounded_channel();
    let events = stream::unfold(events, |mut events| async move {
        let event: Event = events.recv().await?;
        Some((Ok::<_, Infallible>(event), events))
    });
    let headers = [(CACHE_CONTROL, "no-store")];
    let response = (headers, Sse::new(events)).into_response();
    (EventSender(sender), response)
}
