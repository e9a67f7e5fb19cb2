//! Answers that come in pieces: server-sent events of something that runs, until its end.

use std::convert::Infallible;

use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::stream;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE};
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
pub(super) struct Pieces(mpsc::UnboundedSender<Bytes>);

impl Pieces {
    /// Sends a piece. The caller may be gone, and what runs goes on all the same.
    pub(super) fn send(&self, event: &str, data: &impl Serialize) {
        let data = serde_json::to_string(data).unwrap_or_default();
        let _heard = self
            .0
            .send(Bytes::from(format!("event: {event}\ndata: {data}\n\n")));
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
    let body = stream::unfold(pieces, |mut pieces| async move {
        let piece: Bytes = pieces.recv().await?;
        Some((Ok::<_, Infallible>(piece), pieces))
    });
    let headers = [
        (CONTENT_TYPE, "text/event-stream"),
        (CACHE_CONTROL, "no-store"),
    ];
    let response = (headers, Body::from_stream(body)).into_response();
    (Pieces(sender), response)
}
