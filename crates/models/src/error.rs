//! Why a model did not answer: one error type, whose kind says what can be done about it.

use std::time::Duration;

use cleveragents_domain::{Code, Diagnose};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::name::{ModelName, ModelNameError};

/// What went wrong, as far as it matters to the caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The provider refused the key.
    Auth,
    /// The provider does not know the model.
    NotFound,
    /// Too many requests.
    RateLimited {
        /// How long the provider asks to wait.
        retry_after: Option<Duration>,
    },
    /// The account has nothing left to spend.
    QuotaExceeded,
    /// The provider is overloaded or has a fault of its own.
    Overloaded,
    /// The provider cannot be reached.
    Unreachable,
    /// The provider refused the request as it is.
    BadRequest,
    /// The conversation is longer than the model can read.
    ContextTooLong,
    /// The provider does not want to answer this.
    ContentFiltered,
    /// A time limit was reached.
    Timeout,
    /// The connection was cut before the answer was whole.
    Interrupted,
    /// The answer has neither text nor tool calls.
    EmptyAnswer,
    /// The limit of output tokens was used up before the answer began, as by reasoning.
    NoRoomForAnswer,
    /// The caller stopped it.
    Cancelled,
    /// The provider sent something that is no answer.
    Protocol,
    /// There is no key for the provider.
    NoKey,
    /// There is no such provider.
    UnknownProvider,
    /// The text is no name of a model.
    InvalidName,
    /// The URL of a provider cannot be used.
    InvalidBaseUrl,
    /// A file of models, prices or scripted answers is wrong.
    MalformedFile,
    /// A file cannot be read or written.
    FileAccess,
    /// The script has no answer for this request.
    NoAnswer,
    /// The recording holds no such request.
    NotRecorded,
    /// No model of the chain can do what the request needs.
    NotCapable,
    /// A remote agent failed, or answered something that cannot be used.
    Agent,
    /// A remote agent is at an address that may not be called.
    AddressRefused,
}

impl ErrorKind {
    /// Whether the same request may succeed a little later.
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

    /// Whether another model may succeed where this one failed.
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

    /// What a person can do about it, unless the error brings a better hint.
    const fn hint(&self) -> &'static str {
        match self {
            Self::Auth => {
                "check the key; `agents model show NAME` names the variable it comes from"
            }
            Self::NotFound => {
                "check the name with the provider, or run `agents model list` for well-known ones"
            }
            Self::RateLimited { .. } => {
                "wait, or name another model in the configuration key `model.fallback`"
            }
            Self::QuotaExceeded => {
                "look at the billing of your account, or name another model in `model.fallback`"
            }
            Self::Overloaded => "try again later, or name another model in `model.fallback`",
            Self::Unreachable => {
                "check the network and the base URL; `agents model show NAME` shows it"
            }
            Self::BadRequest => "the message of the provider says what it does not accept",
            Self::ContextTooLong => "shorten the conversation, or use a model that reads more",
            Self::ContentFiltered => "say it in another way, or use another model",
            Self::Timeout => {
                "try again, or raise `model.first-byte-timeout-seconds`, `model.idle-timeout-seconds` or `model.total-timeout-seconds`"
            }
            Self::Interrupted => "try again; what came before the cut is not an answer",
            Self::EmptyAnswer => {
                "try again, or name another model in the configuration key `model.fallback`"
            }
            Self::NoRoomForAnswer => {
                "raise `max_output_tokens` of the actor, or lower its `reasoning_effort`"
            }
            Self::Cancelled => "repeat the command to ask again",
            Self::Protocol => {
                "check that the base URL belongs to this kind of provider; `agents model show NAME` shows it"
            }
            Self::NoKey => "set the variable that the message names",
            Self::UnknownProvider => {
                "run `agents model list`, or describe the provider in models.yaml"
            }
            Self::InvalidName => "give PROVIDER/MODEL, such as openai/gpt-5.1",
            Self::InvalidBaseUrl => "give a URL that begins with https:// or http://",
            Self::MalformedFile => "correct the file at the place that the message names",
            Self::FileAccess => "check the path and who may use it",
            Self::NoAnswer => "add an answer to the script",
            Self::NotRecorded => "record the conversation again with `--record FILE`",
            Self::NotCapable => {
                "use a model that can do this; `agents model list` shows what each can"
            }
            Self::Agent => "the message of the agent says what it does not accept",
            Self::AddressRefused => "correct `url` in the file of the actor",
        }
    }
}

/// A model did not answer. Never holds a key: what providers say is redacted first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelError(Box<Failure>);

/// What an error says; boxed so that results stay small.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Failure {
    kind: ErrorKind,
    model: String,
    message: String,
    hint: Option<String>,
    status: Option<u16>,
    retry_after: Option<Duration>,
    attempts: u32,
}

impl ModelError {
    /// An error about a model.
    pub fn new(kind: ErrorKind, model: &ModelName, message: impl Into<String>) -> Self {
        Self::about(kind, model.to_string(), message)
    }

    /// An error about something that is not a model yet: a file, a text given as a name.
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
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Adds to the message.
    #[must_use]
    pub(crate) fn with_note(mut self, note: &str) -> Self {
        self.0.message.push_str(note);
        self
    }

    /// What went wrong, without the name of the model.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The model that failed; nothing when the error is about a file or a malformed name.
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

    /// What can be done about it.
    pub const fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// The HTTP status, when the provider answered with one.
    pub const fn status(&self) -> Option<u16> {
        self.0.status
    }

    /// How long the provider asks to wait before the next attempt.
    pub const fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// How many attempts were made.
    pub const fn attempts(&self) -> u32 {
        self.0.attempts
    }

    /// Whether the same request may succeed a little later.
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

    fn hint(&self) -> Option<String> {
        let hint = self.0.hint.clone();
        Some(hint.unwrap_or_else(|| self.0.kind.hint().replace("NAME", &self.0.model)))
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

    fn hint(&self) -> Option<String> {
        Some("run `agents model list` for well-known models".to_owned())
    }
}
