//! [`CallError`]: the reason why a request to a remote agent failed, and whether to retry it.

use std::time::Duration;

use cleveragents_a2a::ErrorReason;
use cleveragents_domain::{hint, suggest};
use cleveragents_outbound::{self as outbound, AddressError};
use reqwest::StatusCode;
use serde_json::Value;

use super::Caller;
use crate::error::{ErrorKind, ModelError};
use crate::http::seconds;

const TASK_NOT_FOUND: i64 = ErrorReason::TaskNotFound.code();

/// Maximum number of characters shown of an agent's error message.
const MAX_SHOWN: usize = 500;

/// Reason why a request failed.
#[derive(Debug)]
pub(super) enum CallError {
    /// The address is not allowed.
    Address(AddressError),
    /// The token cannot be sent.
    Token(String),
    /// No server answers at the address.
    Unreachable(String),
    /// The connection was interrupted.
    Cut(String),
    /// The request timed out after this time.
    Late(Duration),
    /// The response exceeds this limit, in bytes.
    Large(usize),
    /// The response cannot be parsed.
    Malformed(String),
    /// The agent returned an error.
    Refused {
        status: u16,
        code: Option<i64>,
        message: String,
        retry_after: Option<Duration>,
    },
}

impl CallError {
    pub(super) fn from_transport(error: &reqwest::Error) -> Self {
        let why = outbound::root_cause(error);
        if error.is_connect() {
            Self::Unreachable(why)
        } else {
            Self::Cut(why)
        }
    }

    pub(super) fn status(status: StatusCode, retry_after: Option<Duration>) -> Self {
        Self::Refused {
            status: status.as_u16(),
            code: None,
            message: String::new(),
            retry_after,
        }
    }

    pub(super) fn refused(
        status: StatusCode,
        error: &Value,
        retry_after: Option<Duration>,
    ) -> Self {
        let message = error["message"].as_str().unwrap_or_default();
        Self::Refused {
            status: status.as_u16(),
            code: error["code"].as_i64().filter(|code| *code < 0),
            message: message.chars().take(MAX_SHOWN).collect(),
            retry_after,
        }
    }

    /// Whether the task is unknown to the agent.
    pub(super) const fn is_unknown_task(&self) -> bool {
        matches!(
            self,
            Self::Refused {
                code: Some(TASK_NOT_FOUND),
                ..
            } | Self::Refused { status: 404, .. }
        )
    }

    /// Whether the request certainly had no effect and may succeed later.
    pub(super) const fn had_no_effect(&self) -> bool {
        matches!(
            self,
            Self::Unreachable(_)
                | Self::Refused {
                    status: 429 | 503,
                    ..
                }
        )
    }

    /// Whether another attempt may succeed.
    pub(super) const fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Unreachable(_)
                | Self::Cut(_)
                | Self::Late(_)
                | Self::Refused {
                    status: 429 | 500..=599,
                    ..
                }
        )
    }

    pub(super) const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Converts into a [`ModelError`].
    pub(super) fn into_model_error(self, caller: &Caller) -> ModelError {
        let error = |kind, message: String| {
            let message = caller.redactor.text(&message).into_owned();
            ModelError::new(kind, &caller.name, message)
        };
        let address = "check `url` in the file of the actor, and that the agent runs";
        match self {
            Self::Address(refused) => {
                let hint = match refused {
                    AddressError::Private | AddressError::Insecure => hint!(
                        "agents on this machine or in a private network have to be allowed first: {}",
                        suggest::config_set("a2a.allow-private-addresses", true)
                    ),
                    _ => "correct `url` in the file of the actor".into(),
                };
                let message = format!("the address of the agent is refused: {refused}");
                error(ErrorKind::AddressRefused, message).with_hint(hint)
            }
            Self::Token(why) => error(ErrorKind::Auth, why)
                .with_hint("check `url` and `token_env` in the file of the actor"),
            Self::Unreachable(why) => error(
                ErrorKind::Unreachable,
                format!("the agent cannot be reached: {why}"),
            )
            .with_hint(address),
            Self::Cut(why) => error(
                ErrorKind::Interrupted,
                format!("the connection to the agent was interrupted: {why}"),
            )
            .with_hint("retry; the agent may still be working on the first request"),
            Self::Late(wait) => error(
                ErrorKind::Timeout,
                format!("no data from the agent for {}", seconds(wait)),
            )
            .with_hint(address),
            Self::Large(limit) => error(
                ErrorKind::Agent,
                format!("the agent sent more than {limit} bytes"),
            )
            .with_hint("request a smaller answer"),
            Self::Malformed(why) => error(ErrorKind::Agent, why)
                .with_hint("check that `url` is the address of an A2A agent, or of its card"),
            Self::Refused {
                status,
                code,
                message,
                retry_after,
            } => {
                let reported = match (message.is_empty(), code) {
                    (true, _) => format!("the agent answered with the status {status}"),
                    (false, Some(code)) => format!("the agent refused: {message} (code {code})"),
                    (false, None) => format!("the agent refused: {message} (status {status})"),
                };
                let error_of_status = match status {
                    401 | 403 => error(ErrorKind::Auth, reported).with_hint(
                        "check the token: `token_env` in the file of the actor names the variable that holds it",
                    ),
                    429 => error(ErrorKind::RateLimited { retry_after }, reported)
                        .with_hint("wait a little"),
                    500..=599 => error(ErrorKind::Overloaded, reported)
                        .with_hint("retry later, or ask the operator of the agent"),
                    300..=399 => error(ErrorKind::Agent, reported).with_hint(
                        "redirects are not followed: write the final address as `url` in the file of the actor",
                    ),
                    _ => error(ErrorKind::Agent, reported)
                        .with_hint("the agent's message has the reason"),
                };
                error_of_status.with_status(status)
            }
        }
    }
}
