//! [`ModelError`]: the error type of all model calls. Its kind decides how callers react.

use std::time::Duration;

use cleveragents_domain::{Code, Diagnose, Hint, hint, suggest};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::name::{ModelName, ModelNameError};

/// Kind of a failure, by which callers decide how to react.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The provider rejected the key.
    Auth,
    /// The model is unknown to the provider.
    NotFound,
    /// Too many requests.
    RateLimited {
        /// Wait requested by the provider.
        retry_after: Option<Duration>,
    },
    /// The account's quota or credit is used up.
    QuotaExceeded,
    /// The provider is overloaded or has an internal error.
    Overloaded,
    /// The provider cannot be reached.
    Unreachable,
    /// The provider rejected the request as malformed.
    BadRequest,
    /// The conversation exceeds the context window of the model.
    ContextTooLong,
    /// The provider refuses to answer this content.
    ContentFiltered,
    /// A time limit expired.
    Timeout,
    /// The connection was interrupted before the answer was complete.
    Interrupted,
    /// The answer has neither text nor tool calls.
    EmptyAnswer,
    /// The output token limit was used up before the answer began, for example by reasoning.
    NoRoomForAnswer,
    /// The caller cancelled the request.
    Cancelled,
    /// The provider sent a response that cannot be parsed.
    Protocol,
    /// No key is configured for the provider.
    NoKey,
    /// The provider does not exist.
    UnknownProvider,
    /// The text is not a valid model name.
    InvalidName,
    /// The base URL of a provider is invalid.
    InvalidBaseUrl,
    /// A file of models, prices or scripted answers is malformed.
    MalformedFile,
    /// A file cannot be read or written.
    FileAccess,
    /// The script has no answer for this request.
    NoAnswer,
    /// The recording does not contain this request.
    NotRecorded,
    /// No model of the chain supports what the request needs.
    NotCapable,
    /// A remote agent failed, or sent an unusable answer.
    Agent,
    /// A remote agent is at an address that is not allowed.
    AddressRefused,
}

impl ErrorKind {
    /// Whether the same request may succeed later.
    pub const fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::RateLimited { .. }
                | Self::Overloaded
                | Self::Unreachable
                | Self::Timeout
                | Self::Interrupted
                | Self::EmptyAnswer
        )
    }

    /// Whether another model may succeed after this failure.
    pub const fn calls_for_fallback(&self) -> bool {
        self.is_retryable()
            || matches!(
                self,
                Self::Auth
                    | Self::NoKey
                    | Self::QuotaExceeded
                    | Self::NotFound
                    | Self::Protocol
                    | Self::NoRoomForAnswer
            )
    }

    const fn code(&self) -> Code {
        match self {
            Self::Auth => Code::ModelKeyRefused,
            Self::NotFound => Code::ModelNotFound,
            Self::RateLimited { .. } => Code::ModelRateLimited,
            Self::QuotaExceeded => Code::ModelQuotaExceeded,
            Self::Overloaded => Code::ModelOverloaded,
            Self::Unreachable => Code::ModelUnreachable,
            Self::BadRequest => Code::ModelRequestRefused,
            Self::ContextTooLong => Code::ContextTooLong,
            Self::ContentFiltered => Code::ContentFiltered,
            Self::Timeout => Code::ModelTimeout,
            Self::Interrupted => Code::ModelInterrupted,
            Self::EmptyAnswer => Code::ModelAnswerEmpty,
            Self::NoRoomForAnswer => Code::ModelNoRoomForAnswer,
            Self::Cancelled => Code::ModelCancelled,
            Self::Protocol => Code::ModelProtocol,
            Self::NoKey => Code::ModelKeyMissing,
            Self::UnknownProvider => Code::UnknownProvider,
            Self::InvalidName => Code::InvalidModelName,
            Self::InvalidBaseUrl => Code::InvalidBaseUrl,
            Self::MalformedFile => Code::MalformedModelFile,
            Self::FileAccess => Code::FileAccess,
            Self::NoAnswer => Code::NoScriptedAnswer,
            Self::NotRecorded => Code::NotRecorded,
            Self::NotCapable => Code::ModelNotCapable,
            Self::Agent => Code::RemoteAgent,
            Self::AddressRefused => Code::AddressRefused,
        }
    }

    /// Default hint for the user, for errors without a more specific hint.
    fn hint(&self, model: &str) -> Hint {
        let text = match self {
            Self::Auth => {
                return hint!(
                    "check the key; {} names the variable it comes from",
                    suggest::model_show(model)
                );
            }
            Self::NotFound => {
                return hint!(
                    "check the name with the provider, or run {} for well-known ones",
                    suggest::model_list()
                );
            }
            Self::RateLimited { .. } => {
                "wait, or name another model in the configuration key `model.fallback`"
            }
            Self::QuotaExceeded => {
                "check the billing of your account, or name another model in `model.fallback`"
            }
            Self::Overloaded => "try again later, or name another model in `model.fallback`",
            Self::Unreachable => {
                return hint!(
                    "check the network and the base URL; {} shows it",
                    suggest::model_show(model)
                );
            }
            Self::BadRequest => "change the request as the message of the provider requires",
            Self::ContextTooLong => {
                "shorten the conversation, or use a model with a larger context window"
            }
            Self::ContentFiltered => "rephrase the request, or use another model",
            Self::Timeout => {
                "try again, or raise `model.first-byte-timeout-seconds`, `model.idle-timeout-seconds` or `model.total-timeout-seconds`"
            }
            Self::Interrupted => "retry; the partial answer is incomplete",
            Self::EmptyAnswer => {
                "try again, or name another model in the configuration key `model.fallback`"
            }
            Self::NoRoomForAnswer => {
                "raise `max_output_tokens` of the actor, or lower its `reasoning_effort`"
            }
            Self::Cancelled => "run the command again",
            Self::Protocol => {
                return hint!(
                    "check that the base URL belongs to this kind of provider; {} shows it",
                    suggest::model_show(model)
                );
            }
            Self::NoKey => "set the variable that the message names",
            Self::UnknownProvider => {
                return hint!(
                    "run {}, or describe the provider in models.yaml",
                    suggest::model_list()
                );
            }
            Self::InvalidName => "give PROVIDER/MODEL, such as openai/gpt-5.1",
            Self::InvalidBaseUrl => "use a URL that starts with https:// or http://",
            Self::MalformedFile => "correct the file at the place that the message names",
            Self::FileAccess => "check the path and its permissions",
            Self::NoAnswer => "add an answer to the script",
            Self::NotRecorded => "record the conversation again with `--record FILE`",
            Self::NotCapable => {
                return hint!(
                    "use a model that supports this; {} shows the capabilities of each model",
                    suggest::model_list()
                );
            }
            Self::Agent => "the agent's message has the reason",
            Self::AddressRefused => "correct `url` in the file of the actor",
        };
        text.into()
    }
}

/// A model call failed. Never contains a key: provider messages are redacted first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelError(Box<Failure>);

/// Content of an error; boxed so that results stay small.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Failure {
    kind: ErrorKind,
    model: String,
    message: String,
    hint: Option<Hint>,
    status: Option<u16>,
    retry_after: Option<Duration>,
    attempts: u32,
}

impl ModelError {
    /// Creates an error about a model.
    pub fn new(kind: ErrorKind, model: &ModelName, message: impl Into<String>) -> Self {
        Self::about(kind, model.to_string(), message)
    }

    /// Creates an error about something other than a model: a file, or an invalid model name.
    pub(crate) fn about(
        kind: ErrorKind,
        subject: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self(Box::new(Failure {
            kind,
            model: subject.into(),
            message: message.into(),
            hint: None,
            status: None,
            retry_after: None,
            attempts: 1,
        }))
    }

    #[must_use]
    pub(crate) fn with_hint(mut self, hint: impl Into<Hint>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Appends a note to the message.
    #[must_use]
    pub(crate) fn with_note(mut self, note: &str) -> Self {
        self.0.message.push_str(note);
        self
    }

    /// The message without the name of the model.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The model that failed; `None` when the error is about a file or a malformed name.
    pub(crate) fn model_name(&self) -> Option<ModelName> {
        self.0.model.parse().ok()
    }

    #[must_use]
    pub(crate) fn with_status(mut self, status: u16) -> Self {
        self.0.status = Some(status);
        self
    }

    #[must_use]
    pub(crate) fn with_retry_after(mut self, wait: Option<Duration>) -> Self {
        self.0.retry_after = wait;
        self
    }

    #[must_use]
    pub(crate) fn with_attempts(mut self, attempts: u32) -> Self {
        self.0.attempts = attempts;
        self
    }

    /// Kind of the failure.
    pub const fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// HTTP status of the provider's response, if any.
    pub const fn status(&self) -> Option<u16> {
        self.0.status
    }

    /// Wait requested by the provider before the next attempt.
    pub const fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// Number of attempts made.
    pub const fn attempts(&self) -> u32 {
        self.0.attempts
    }

    /// Whether the same request may succeed later.
    pub const fn is_retryable(&self) -> bool {
        self.0.kind.is_retryable()
    }
}

impl std::fmt::Display for ModelError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}: {}", self.0.model, self.0.message)?;
        if self.0.attempts > 1 {
            write!(formatter, " (after {} attempts)", self.0.attempts)?;
        }
        Ok(())
    }
}

impl std::error::Error for ModelError {}

impl Diagnose for ModelError {
    fn code(&self) -> Code {
        self.0.kind.code()
    }

    fn hint(&self) -> Option<Hint> {
        let hint = self.0.hint.clone();
        Some(hint.unwrap_or_else(|| self.0.kind.hint(&self.0.model)))
    }

    fn details(&self) -> Value {
        let mut details = json!({
            "model": self.0.model,
            "retryable": self.is_retryable(),
            "attempts": self.0.attempts,
        });
        if let Some(status) = self.0.status {
            details["status"] = status.into();
        }
        if let Some(wait) = self.0.retry_after {
            details["retry_after_seconds"] = wait.as_secs_f64().into();
        }
        details
    }
}

impl Diagnose for ModelNameError {
    fn code(&self) -> Code {
        Code::InvalidModelName
    }

    fn hint(&self) -> Option<Hint> {
        Some(hint!("run {} for well-known models", suggest::model_list()))
    }
}
