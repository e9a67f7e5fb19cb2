//! Errors of tokens and of the audit log.

use cleveragents_domain::identity::GrantError;
use cleveragents_domain::{Code, Diagnose, Hint, audit_kinds, hint, suggest};
use serde_json::{Value, json};

/// Failure to create, find or revoke a token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The name is not allowed.
    #[error("`{0}` is not a valid token name: use 1 to 64 letters, digits, `.`, `_`, `@` or `-`")]
    Name(String),
    /// The token would have no permission.
    #[error("a token without a role has no permissions")]
    NoGrant,
    /// A grant is invalid.
    #[error(transparent)]
    Grant(#[from] GrantError),
    /// The expiry time is in the past.
    #[error("the expiry time {0} is in the past")]
    Expired(cleveragents_domain::Timestamp),
    /// The name is taken.
    #[error("a token named `{0}` exists already")]
    Exists(String),
    /// No token has this name or id.
    #[error("there is no valid token `{0}`")]
    NotFound(String),
    /// The system provided no random bytes.
    #[error("the system provided no random bytes")]
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

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Name(_) => Some("name it after its user, such as ci or ada@laptop".into()),
            Self::NoGrant | Self::Grant(_) => Some(hint!(
                "give one such as {}; roles are viewer, editor, admin, owner",
                suggest::token_create_for("acme=editor").only_arguments()
            )),
            Self::Expired(_) => Some(hint!(
                "give a time in the future, such as {}",
                suggest::token_create_until("30d").only_arguments()
            )),
            Self::Exists(name) => Some(hint!(
                "choose another name, or revoke it first: {}",
                suggest::token_revoke(name)
            )),
            Self::NotFound(_) => Some(hint!("{} lists the tokens", suggest::token_list())),
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

/// Failure to read or verify the audit log.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The hash chain is broken.
    #[error("the audit log was changed: entry {number} {reason}")]
    Broken {
        /// The first changed entry.
        number: u64,
        /// Description of the problem.
        reason: &'static str,
    },
    /// The kind is unknown, and no entry has it.
    #[error("there is no kind of audit entry `{kind}`")]
    UnknownKind {
        /// The given kind.
        kind: String,
        /// The most similar kind.
        nearest: Option<String>,
    },
    /// The chain is intact, but its last entry is not the expected one.
    #[error("the audit log was changed: its last entry is {head}, not {expected}")]
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

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Broken { .. } => Some(
                "earlier entries are intact; compare with an older copy of the database".into(),
            ),
            Self::UnknownKind { nearest, .. } => Some(match nearest {
                Some(kind) => hint!("did you mean `{}`?", kind),
                None => hint!("use one of {}", audit_kinds().join(", ")),
            }),
            Self::OtherHead { .. } => {
                Some("entries at the end were removed, or the whole log was rewritten".into())
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
