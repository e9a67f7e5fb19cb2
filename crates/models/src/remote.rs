//! A model at a provider: one attempt over HTTP.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Response;
use reqwest::header::CONTENT_TYPE;
use serde_json::Value;

use crate::assemble::Assembler;
use crate::async_stream::{Outlet, generate};
use crate::error::{ErrorKind, ModelError};
use crate::event::{Completion, StreamEvent};
use crate::frames::Frames;
use crate::http::{Http, next_chunk};
use crate::limits::Limits;
use crate::model::{Capabilities, EventStream};
use crate::name::ModelName;
use crate::price::Price;
use crate::redact::Redactor;
use crate::request::ChatRequest;
use crate::retry::Backend;
use crate::wire::{self, DecodeError, ErrorReply, Target, ToolNames};

/// Maximum number of bytes read from a failed response.
const MAX_FAILURE_BYTES: usize = 64 * 1024;

/// Maximum wait for the end of a body after a complete answer.
const END_TIMEOUT: Duration = Duration::from_millis(20);

/// A model at a provider.
pub(crate) struct Remote(Arc<ProviderModel>);

struct ProviderModel {
    target: Target,
    price: Option<Price>,
    limits: Limits,
    http: Arc<Http>,
    redactor: Redactor,
}

impl Remote {
    pub(crate) fn new(
        target: Target,
        price: Option<Price>,
        limits: Limits,
        http: Arc<Http>,
        redactor: Redactor,
    ) -> Self {
        Self(Arc::new(ProviderModel {
            target,
            price,
            limits,
            http,
            redactor,
        }))
    }
}

impl Backend for Remote {
    fn name(&self) -> &ModelName {
        &self.0.target.name
    }

    fn capabilities(&self) -> Capabilities {
        self.0.target.capabilities
    }

    fn price(&self) -> Option<&Price> {
        self.0.price.as_ref()
    }

    fn attempt(&self, request: Arc<ChatRequest>) -> EventStream {
        let inner = Arc::clone(&self.0);
        generate(move |outlet| async move {
            if let Err(error) = inner.run(&request, &outlet).await {
                outlet.give(Err(error)).await;
            }
        })
    }
}

type EventOutlet = Outlet<Result<StreamEvent, ModelError>>;

impl ProviderModel {
    async fn run(&self, request: &ChatRequest, outlet: &EventOutlet) -> Result<(), ModelError> {
        let (limits, name) = (&self.limits, &self.target.name);
        let names = ToolNames::new(&request.tools);
        let call = wire::write(&self.target, request, &names)?;
        // Without streaming the headers arrive with the complete answer, so only the total limit
        // applies.
        let wait = if request.stream {
            limits.first_byte
        } else {
            limits.total
        };
        let mut response = self.http.send(name, call, limits, wait).await?;
        if !response.status().is_success() {
            return Err(self.refused(response).await);
        }
        if content_type(&response).starts_with("text/html") {
            let message =
                "the response is a web page, for example of a login or a proxy, not an answer";
            return Err(self.target.error(ErrorKind::Protocol, message));
        }
        let mut answer = Assembler::new(name.provider(), request.calls()).with_names(names);
        if self.is_document(request, &response) {
            self.read_document(&mut response, &mut answer).await?;
            while let Some(event) = answer.next_event() {
                outlet.give(Ok(event)).await;
            }
        } else {
            self.read_events(&mut response, &mut answer, outlet).await?;
        }
        // A connection is reused only if the body was read to its end. The end usually follows
        // immediately; slow servers are not worth the wait.
        let _end = next_chunk(name, &mut response, END_TIMEOUT).await;
        let (message, usage, stop, cost) = answer.finish();
        let completion = Completion {
            message,
            usage,
            cost_micro_usd: cost,
            stop,
            model: name.clone(),
            attempts: 1,
        };
        outlet
            .give(Ok(StreamEvent::Finished(Box::new(completion))))
            .await;
        Ok(())
    }

    /// Whether the answer is a single document. Some servers send one even if a stream was requested.
    #[expect(clippy::unused_self, reason = "consistent with the other methods")]
    fn is_document(&self, request: &ChatRequest, response: &Response) -> bool {
        let kind = content_type(response);
        if request.stream {
            kind.starts_with("application/json")
        } else {
            !kind.starts_with("text/event-stream") && !kind.starts_with("application/x-ndjson")
        }
    }

    async fn read_document(
        &self,
        response: &mut Response,
        answer: &mut Assembler,
    ) -> Result<(), ModelError> {
        let mut body = Vec::new();
        let name = &self.target.name;
        while let Some(chunk) = next_chunk(name, response, self.limits.idle).await? {
            body.extend_from_slice(chunk.as_ref());
            self.check_size(body.len())?;
        }
        let (_, mut decoder) = wire::decoder(&self.target);
        let body: Value = serde_json::from_slice(&body).map_err(|error| {
            self.target.error(
                ErrorKind::Protocol,
                format!("the response is not JSON: {error}"),
            )
        })?;
        decoder
            .whole(&body, answer)
            .map_err(|fault| self.fault(fault))?;
        if answer.is_stopped() {
            return Ok(());
        }
        let message = "the response has no end marker";
        Err(self.target.error(ErrorKind::Protocol, message))
    }

    async fn read_events(
        &self,
        response: &mut Response,
        answer: &mut Assembler,
        outlet: &EventOutlet,
    ) -> Result<(), ModelError> {
        let (framing, mut decoder) = wire::decoder(&self.target);
        let mut frames = Frames::new(framing);
        let mut size = 0;
        let mut wait = self.limits.first_byte;
        while let Some(chunk) = next_chunk(&self.target.name, response, wait).await? {
            wait = self.limits.idle;
            size += chunk.len();
            self.check_size(size)?;
            frames.add(chunk);
            while let Some(frame) = frames.next() {
                let outcome = decoder.event(&frame, answer);
                while let Some(event) = answer.next_event() {
                    outlet.give(Ok(event)).await;
                }
                outcome.map_err(|fault| self.fault(fault))?;
                if answer.is_stopped() && !decoder.reads_to_the_end() {
                    return Ok(());
                }
            }
        }
        if let Some(frame) = frames.end() {
            // An interrupted stream often ends with an incomplete event, which is not a separate error.
            if let Err(fault @ DecodeError::Reported(_)) = decoder.event(&frame, answer) {
                return Err(self.fault(fault));
            }
            while let Some(event) = answer.next_event() {
                outlet.give(Ok(event)).await;
            }
        }
        decoder.end(answer);
        if answer.is_stopped() {
            return Ok(());
        }
        let message = "the connection was closed before the answer was complete";
        Err(self.target.error(ErrorKind::Interrupted, message))
    }

    fn check_size(&self, size: usize) -> Result<(), ModelError> {
        let limit = self.limits.response_bytes;
        if size <= limit {
            return Ok(());
        }
        let message = format!("the answer is larger than {limit} bytes");
        Err(self.target.error(ErrorKind::Protocol, message))
    }

    /// Creates the error for a response with a failure status.
    async fn refused(&self, mut response: Response) -> ModelError {
        let mut body = Vec::new();
        let name = &self.target.name;
        // An unreadable body is ignored: the status is sufficient for an error.
        while body.len() < MAX_FAILURE_BYTES
            && let Ok(Some(chunk)) = next_chunk(name, &mut response, self.limits.connect).await
        {
            body.extend_from_slice(chunk.as_ref());
        }
        let body = serde_json::from_slice(&body)
            .unwrap_or_else(|_| String::from_utf8_lossy(&body).into_owned().into());
        let reply = ErrorReply {
            status: Some(response.status().as_u16()),
            headers: Some(response.headers()),
            body,
        };
        wire::failure(&self.target, &reply, &self.redactor)
    }

    fn fault(&self, fault: DecodeError) -> ModelError {
        match fault {
            DecodeError::Reported(body) => {
                let reply = ErrorReply {
                    status: None,
                    headers: None,
                    body,
                };
                wire::failure(&self.target, &reply, &self.redactor)
            }
            DecodeError::Malformed(message) => {
                let message = self.redactor.text(&message).into_owned();
                self.target.error(ErrorKind::Protocol, message)
            }
        }
    }
}

fn content_type(response: &Response) -> &str {
    let kind = response.headers().get(CONTENT_TYPE);
    kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default()
}
