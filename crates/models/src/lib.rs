//! Clients for language models.
//!
//! [`Model`] is the port: it takes a request and returns a stream of events. The last event contains
//! the complete answer with its usage and cost. [`Catalogue`] opens models by name: models of
//! providers over HTTP, `scripted/…` from a file of answers, `replay/…` from a recording.
//!
//! The layers behind the port, from the outside in: `fallback` calls the next model when one fails,
//! `retry` repeats failed attempts and enforces the limits, `remote` makes one attempt over HTTP,
//! `wire` formats requests and parses answers for each provider. No layer depends on an outer layer.
//!
//! The crate does not read the environment, print, or open a database. Streams need a tokio runtime
//! with I/O and time, and run only while they are polled: dropping a stream closes its connection.

mod agent;
mod assemble;
mod async_stream;
mod catalogue;
mod error;
mod event;
mod fallback;
mod file;
mod frames;
mod http;
#[cfg(feature = "keyring")]
mod keyring;
mod limits;
mod message;
mod model;
mod name;
mod price;
mod provider;
mod redact;
mod remote;
mod replay;
mod request;
mod retry;
mod scripted;
mod secret;
mod wire;
mod yaml;

pub use agent::PROVIDER as AGENT_PROVIDER;
pub use catalogue::{Catalogue, CatalogueOptions, KeyState, ModelEntry, Variables};
pub use error::{ErrorKind, ModelError};
pub use event::{Completion, Retry, StopReason, StreamEvent, Usage};
pub use file::file_schema;
#[cfg(feature = "keyring")]
pub use keyring::{KeyringError, remove_key, store_key, system_keyring};
pub use limits::{Limits, RetryPolicy};
pub use message::{
    AssistantMessage, ChatMessage, Picture, Reasoning, ToolCall, ToolDefinition, ToolResult,
    UserPart,
};
pub use model::{Capabilities, EventStream, Model, complete};
pub use name::{ModelName, ModelNameError};
pub use price::{Price, Rates};
pub use redact::{
    MASK, Redactor, StreamRedactor, environment_secrets, looks_secret, secrets_given_out,
};
pub use replay::Recorder;
pub use request::{ChatRequest, ReasoningEffort, ResponseSchema};
pub use secret::{KEY_VARIABLES, Secret};
pub use tokio_util::sync::CancellationToken;
pub use wire::{MAX_IMAGE_BYTES, Protocol, drop_optional_nulls};
