//! Recording of exchanges to a file, and `replay/FILE.jsonl`, a model that answers from such a
//! file.
//!
//! A line contains one exchange: the digest of the request, the request, the events and, if it failed,
//! the error. Secrets are removed before anything is written.

mod recorder;
mod request_digest;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub use self::recorder::Recorder;
use self::request_digest::{difference, digest, normalised, ordered, remove_ignored_fields};
use crate::async_stream::generate;
use crate::error::{ErrorKind, ModelError};
use crate::event::StreamEvent;
use crate::model::{Capabilities, EventStream, Model};
use crate::name::ModelName;
use crate::price::Price;
use crate::redact::Redactor;
use crate::request::ChatRequest;
use crate::yaml;

/// Format version of a line. It is incremented when old readers would misread new lines.
const VERSION: u32 = 1;

/// The name under which models see the tool for patches.
const APPLY_PATCH: &str = "apply_patch";

/// One exchange, as stored in a file.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Exchange {
    version: u32,
    digest: String,
    request: Value,
    events: Vec<StreamEvent>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<RecordedFailure>,
}

impl Exchange {
    /// Whether the recorded model was offered the tool for patches.
    fn declares_apply_patch(&self) -> bool {
        let tools = self.request["tools"].as_array();
        tools.is_some_and(|tools| tools.iter().any(|tool| tool["name"] == APPLY_PATCH))
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordedFailure {
    kind: ErrorKind,
    message: String,
}

/// A model that answers from a recording.
pub(crate) struct Replay(Arc<ReplayState>);

struct ReplayState {
    name: ModelName,
    exchanges: Vec<Exchange>,
    redactor: Redactor,
    /// Number of requests per digest: the same request may have several recorded answers.
    request_counts: Mutex<HashMap<String, usize>>,
}

impl Replay {
    /// Parses a recording; `file` is its name in errors.
    pub(crate) fn read(
        name: &ModelName,
        file: &str,
        text: &str,
        redactor: Redactor,
    ) -> Result<Self, ModelError> {
        let mut exchanges = Vec::new();
        // A line without a line end is incomplete: the program was killed while it wrote the line.
        let lines = text
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'));
        for (index, line) in lines.enumerate() {
            if line.trim().is_empty() {
                continue;
            }
            let number = index + 1;
            let mut exchange: Exchange = serde_json::from_str(line).map_err(|error| {
                yaml::broken(
                    &format!("{file}:{number}"),
                    format!("the line is not an exchange: {error}"),
                )
            })?;
            if exchange.version > VERSION {
                let message = format!(
                    "the line has version {}, which is newer than this program",
                    exchange.version
                );
                return Err(yaml::broken(&format!("{file}:{number}"), message));
            }
            if remove_ignored_fields(&mut exchange.request) {
                exchange.request = ordered(&exchange.request);
                exchange.digest = digest(&exchange.request);
            }
            exchanges.push(exchange);
        }
        if exchanges.is_empty() {
            return Err(yaml::broken(file, "the recording contains no exchange"));
        }
        Ok(Self(Arc::new(ReplayState {
            name: name.clone(),
            exchanges,
            redactor,
            request_counts: Mutex::default(),
        })))
    }
}

impl Model for Replay {
    fn name(&self) -> &ModelName {
        &self.0.name
    }

    /// Supports images and reasoning, because the recorded model may support them. Changes of files are offered as in
    /// the recording.
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            vision: true,
            reasoning: true,
            apply_patch: self.0.exchanges.iter().any(Exchange::declares_apply_patch),
            ..Capabilities::default()
        }
    }

    /// Recordings are free.
    fn price(&self) -> Option<Price> {
        None
    }

    fn stream(&self, request: ChatRequest, cancel: CancellationToken) -> EventStream {
        let inner = Arc::clone(&self.0);
        generate(move |outlet| async move {
            let exchange = match inner.find(&request) {
                Ok(exchange) => exchange,
                Err(error) => return outlet.give(Err(error)).await,
            };
            for event in &exchange.events {
                if cancel.is_cancelled() {
                    let error =
                        ModelError::new(ErrorKind::Cancelled, &inner.name, "the call was stopped");
                    return outlet.give(Err(error)).await;
                }
                outlet.give(Ok(event.clone())).await;
            }
            if let Some(failed) = &exchange.error {
                let error = ModelError::new(failed.kind.clone(), &inner.name, &failed.message);
                outlet.give(Err(error)).await;
            }
        })
    }
}

impl ReplayState {
    fn find(&self, request: &ChatRequest) -> Result<&Exchange, ModelError> {
        let request = normalised(request, &self.redactor);
        let digest = digest(&request);
        let matching: Vec<&Exchange> = self
            .exchanges
            .iter()
            .filter(|exchange| exchange.digest == digest)
            .collect();
        if let Some(last) = matching.last() {
            let mut request_counts = self
                .request_counts
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let count = request_counts.entry(digest).or_default();
            let exchange = matching.get(*count).unwrap_or(last);
            *count += 1;
            return Ok(exchange);
        }
        // The most similar request has the most agreeing parts before its first difference.
        let differences = self.exchanges.iter().enumerate();
        let nearest = differences
            .map(|(index, exchange)| (index, difference(&exchange.request, &request)))
            .max_by_key(|(_, difference)| difference.agreeing);
        let message = match nearest {
            Some((index, difference)) => format!(
                "the recording contains no such request; the most similar is exchange {}, which differs in {}",
                index + 1,
                difference.place
            ),
            None => "the recording is empty".to_owned(),
        };
        Err(ModelError::new(ErrorKind::NotRecorded, &self.name, message))
    }
}

#[cfg(test)]
mod tests;
