//! Appends exchanges to a recording.

use std::fs::OpenOptions;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::StreamExt;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::request_digest::{digest, normalised};
use super::{Exchange, RecordedFailure, VERSION};
use crate::async_stream::generate;
use crate::error::{ErrorKind, ModelError};
use crate::event::StreamEvent;
use crate::model::{Capabilities, EventStream, Model};
use crate::name::ModelName;
use crate::price::Price;
use crate::redact::Redactor;
use crate::request::ChatRequest;

/// A model whose exchanges are appended to a file. An exchange is written before its last event is
/// forwarded; a cancelled exchange is not recorded.
pub struct Recorder {
    model: Arc<dyn Model>,
    path: Arc<Path>,
    redactor: Redactor,
}

impl Recorder {
    /// Records the requests and answers of `model`.
    pub fn new(model: Arc<dyn Model>, path: impl Into<PathBuf>, redactor: Redactor) -> Self {
        Self {
            model,
            path: path.into().into(),
            redactor,
        }
    }
}

impl Model for Recorder {
    fn name(&self) -> &ModelName {
        self.model.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.model.capabilities()
    }

    fn price(&self) -> Option<Price> {
        self.model.price()
    }

    fn stream(&self, request: ChatRequest, cancel: CancellationToken) -> EventStream {
        let path = Arc::clone(&self.path);
        let redactor = self.redactor.clone();
        let recorded = normalised(&request, &redactor);
        let mut events = self.model.stream(request, cancel);
        generate(move |outlet| async move {
            let mut exchange = Exchange {
                version: VERSION,
                digest: digest(&recorded),
                request: recorded,
                events: Vec::new(),
                error: None,
            };
            while let Some(event) = events.next().await {
                match &event {
                    Ok(event) => exchange.events.push(event.clone()),
                    Err(error) if error.kind() == &ErrorKind::Cancelled => {}
                    Err(error) => {
                        exchange.error = Some(RecordedFailure {
                            kind: error.kind().clone(),
                            message: error.message().to_owned(),
                        });
                    }
                }
                let is_complete =
                    exchange.error.is_some() || matches!(event, Ok(StreamEvent::Finished(_)));
                if is_complete {
                    hide_split_secrets(&mut exchange.events, &redactor);
                }
                if is_complete && let Err(error) = append(&path, &exchange, &redactor) {
                    let message = format!("the recording cannot be written: {error}");
                    let shown = path.display().to_string();
                    let error = ModelError::about(ErrorKind::FileAccess, shown, message);
                    return outlet.give(Err(error)).await;
                }
                outlet.give(event).await;
            }
        })
    }
}

/// The part of an answer that a piece belongs to: text, reasoning or a call.
#[derive(PartialEq)]
enum AnswerPart {
    Text,
    Reasoning,
    Arguments(usize),
}

/// The text of a piece, and the part of the answer that it belongs to.
fn part_text(event: &mut StreamEvent) -> Option<(AnswerPart, &mut String)> {
    match event {
        StreamEvent::Text(text) => Some((AnswerPart::Text, text)),
        StreamEvent::Reasoning(text) => Some((AnswerPart::Reasoning, text)),
        StreamEvent::ToolCallArguments { index, fragment } => {
            Some((AnswerPart::Arguments(*index), fragment))
        }
        StreamEvent::ToolCallStarted { .. }
        | StreamEvent::Noted(_)
        | StreamEvent::Retrying(_)
        | StreamEvent::Finished(_) => None,
    }
}

/// Redacts secrets that are split over several pieces: a part that contains a secret is merged into
/// its first piece.
fn hide_split_secrets(events: &mut Vec<StreamEvent>, redactor: &Redactor) {
    let mut parts: Vec<(AnswerPart, String)> = Vec::new();
    for (part, piece) in events.iter_mut().filter_map(part_text) {
        match parts.iter_mut().find(|(known, _)| *known == part) {
            Some((_, text)) => text.push_str(piece),
            None => parts.push((part, piece.clone())),
        }
    }
    for (secret_part, text) in parts {
        let clean = redactor.text(&text);
        if clean == text {
            continue;
        }
        let mut clean = Some(clean.into_owned());
        events.retain_mut(|event| match part_text(event) {
            Some((part, piece)) if part == secret_part => match clean.take() {
                Some(clean) => {
                    *piece = clean;
                    true
                }
                None => false,
            },
            _ => true,
        });
    }
}

/// Appends a complete line, under a lock. First ends an incomplete line, which a killed program may
/// have left.
fn append(path: &Path, exchange: &Exchange, redactor: &Redactor) -> io::Result<()> {
    let value: Value = serde_json::to_value(exchange).map_err(io::Error::other)?;
    let mut line = redactor.value(&value).to_string();
    line.push('\n');
    let mut file = OpenOptions::new()
        .create(true)
        .read(true)
        .append(true)
        .open(path)?;
    file.lock()?;
    if file.seek(SeekFrom::End(0))? > 0 {
        file.seek(SeekFrom::End(-1))?;
        let mut last = [0];
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            line.insert(0, '\n');
        }
    }
    file.write_all(line.as_bytes())
}
