//! Why a token cannot be made or revoked, and why the account does not hold.

use cleveragents_domain::identity::GrantError;
use cleveragents_domain::{Code, Diagnose, audit_kinds};
use serde_json::{Value, json};

/// Why something about a token cannot be done.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The name cannot be one.
    #[error("`{0}` is no name of a token: it needs 1 to 64 letters, digits, `.`, `_`, `@` or `-`")]
    Name(String),
    /// Nothing would be permitted.
    #[error("a token without a role may do nothing")]
    NoGrant,
    /// A grant cannot be one.
    #[error(transparent)]
    Grant(#[from] GrantError),
    /// It would be over before it is used.
    #[error("the token would expire at {0}, which is over")]
    Expired(cleveragents_domain::Timestamp),
    /// The name is taken.
    #[error("a token named `{0}` exists already")]
    Exists(String),
    /// There is none.
    #[error("there is no valid token `{0}`")]
    NotFound(String),
    /// No randomness could be had.
    #[error("the system gave no randomness")]
    Randomness,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] cleveragents_store::Error),
}

impl Diagnose for TokenError {
    fn code(&self) -> Code {
        match self {
            Self::Name(_) => Code::InvalidName,
            Self::NoGrant | Self::Grant(_) | Self::Expired(_) => Code::InvalidGrant,
            Self::Exists(_) => Code::TokenExists,
            Self::NotFound(_) => Code::TokenNotFound,
            Self::Randomness => Code::Internal,
            Self::Store(error) => error.code(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Name(_) => Some("name it after who uses it, such as ci or ada@laptop".to_owned()),
            Self::NoGrant | Self::Grant(_) => Some(
                "give one such as --grant acme=editor; roles are viewer, editor, admin, owner"
                    .to_owned(),
            ),
            Self::Expired(_) => {
                Some("give a time that is to come, such as --expires 30d".to_owned())
            }
            Self::Exists(name) => Some(format!(
                "take another name, or revoke it first: `agents token revoke {name}`"
            )),
            Self::NotFound(_) => Some("`agents token list` shows those that there are".to_owned()),
            Self::Randomness => None,
            Self::Store(error) => error.hint(),
        }
    }

    fn details(&self) -> Value {
        match self {
            Self::Store(error) => error.details(),
            _ => Value::Null,
        }
    }
}

/// Why the account of who did what cannot be relied on.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The chain does not hold.
    #[error("the audit was changed: entry {number} {reason}")]
    Broken {
        /// The first entry that is not as it was written.
        number: u64,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// No entry can be of this kind.
    #[error("there is no kind of audit entry `{kind}`")]
    UnknownKind {
        /// The kind as it was given.
        kind: String,
        /// One that is much like it.
        nearest: Option<String>,
    },
    /// The chain holds, but it is another one.
    #[error("the audit was changed: its last entry is {head}, and not {expected}")]
    OtherHead {
        /// The hash of the last entry.
        head: String,
        /// The hash that was expected.
        expected: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] cleveragents_store::Error),
}

impl Diagnose for AuditError {
    fn code(&self) -> Code {
        match self {
            Self::Broken { .. } | Self::OtherHead { .. } => Code::AuditBroken,
            Self::UnknownKind { .. } => Code::Usage,
            Self::Store(error) => error.code(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Broken { .. } => Some(
                "entries before it are as they were written; compare with a copy of the database from before".to_owned(),
            ),
            Self::UnknownKind { nearest, .. } => Some(match nearest {
                Some(kind) => format!("did you mean `{kind}`?"),
                None => format!("use one of {}", audit_kinds().join(", ")),
            }),
            Self::OtherHead { .. } => {
                Some("entries at the end were taken away, or all were written anew".to_owned())
            }
            Self::Store(error) => error.hint(),
        }
    }

    fn details(&self) -> Value {
        match self {
            Self::Broken { number, reason } => json!({"number": number, "reason": reason}),
            Self::UnknownKind { kind, .. } => json!({"kind": kind, "kinds": audit_kinds()}),
            Self::OtherHead { head, expected } => json!({"head": head, "expected": expected}),
            Self::Store(error) => error.details(),
        }
    }
}
