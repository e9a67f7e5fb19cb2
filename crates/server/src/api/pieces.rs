//! Answers that come in pieces: server-sent events of something that runs, until its end.

use std::convert::Infallible;

use axum::extract::Request;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use http::header::{ACCEPT, CACHE_CONTROL};
use serde::Serialize;
use tokio::sync::mpsc;

use crate::problem::Problem;

/// Whether a caller wants an answer in pieces.
pub(super) fn are_wanted(request: &Request) -> bool {
    request.headers().get(ACCEPT).is_some_and(|accepted| {
        let accepted = accepted.to_str().unwrap_or_default();
        accepted.contains("text/event-stream")
    })
}

/// Where pieces go. No more is kept for the caller than the answer is long.
#[derive(Clone)]
pub(super) struct Pieces(mpsc::UnboundedSender<Event>);

impl Pieces {
    /// Sends a piece. The caller may be gone, and what runs goes on all the same.
    pub(super) fn send(&self, event: &str, data: &impl Serialize) {
        if let Ok(event) = Event::default().event(event).json_data(data) {
            let _heard = self.0.send(event);
        }
    }

    /// Sends the last piece.
    pub(super) fn end(&self, outcome: Result<&impl Serialize, &Problem>) {
        match outcome {
            Ok(ended) => self.send("end", ended),
            Err(problem) => self.send("problem", problem),
        }
    }
}

/// A place to send pieces to, and the answer that they make.
pub(super) fn answer() -> (Pieces, Response) {
    let (sender, pieces) = mpsc::unbounded_channel();
    let events = stream::unfold(pieces, |mut pieces| async move {
        let event: Event = pieces.recv().await?;
        Some((Ok::<_, Infallible>(event), pieces))
    });
    let headers = [(CACHE_CONTROL, "no-store")];
    let response = (headers, Sse::new(events)).into_response();
    (Pieces(sender), response)
}
