//! Values exchanged with a database: [`Param`] for statements, [`Row`] for results.
//!
//! Both databases use the same four storage types, so that a statement is written once.

use std::borrow::Cow;

use cleveragents_domain::{
    AttachmentId, AttemptId, AuditEntryId, ChangesetId, ContentHash, DecisionId, Fingerprint,
    InvariantId, MessageId, PlanId, ProcessId, ProjectId, ResourceId, RunId, SandboxId, SessionId,
    TaskId, Timestamp, TokenId, ToolInvocationId, TrackerWriteId, TurnId, WorkItemId,
};

use crate::Error;

/// A value bound to a statement.
#[derive(Debug, Clone, PartialEq)]
pub enum Param<'a> {
    /// SQL NULL.
    Null,
    /// A 64-bit integer.
    Integer(i64),
    Text(Cow<'a, str>),
    /// Bytes.
    Blob(Cow<'a, [u8]>),
}

impl From<i64> for Param<'_> {
    fn from(value: i64) -> Self {
        Self::Integer(value)
    }
}

impl From<u64> for Param<'_> {
    fn from(value: u64) -> Self {
        // Counters and sizes never come near 2^63; larger numbers saturate.
        Self::Integer(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<u32> for Param<'_> {
    fn from(value: u32) -> Self {
        Self::Integer(i64::from(value))
    }
}

impl From<bool> for Param<'_> {
    fn from(value: bool) -> Self {
        Self::Integer(i64::from(value))
    }
}

impl<'a> From<&'a str> for Param<'a> {
    fn from(value: &'a str) -> Self {
        Self::Text(Cow::Borrowed(value))
    }
}

impl<'a> From<&'a String> for Param<'a> {
    fn from(value: &'a String) -> Self {
        Self::Text(Cow::Borrowed(value))
    }
}

impl From<String> for Param<'_> {
    fn from(value: String) -> Self {
        Self::Text(Cow::Owned(value))
    }
}

impl<'a> From<&'a [u8]> for Param<'a> {
    fn from(value: &'a [u8]) -> Self {
        Self::Blob(Cow::Borrowed(value))
    }
}

impl From<Vec<u8>> for Param<'_> {
    fn from(value: Vec<u8>) -> Self {
        Self::Blob(Cow::Owned(value))
    }
}

impl From<Timestamp> for Param<'_> {
    fn from(value: Timestamp) -> Self {
        Self::Integer(value.as_micros())
    }
}

impl<T: Into<Self>> From<Option<T>> for Param<'_> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

macro_rules! printed {
    ($($name:ty),+) => {$(
        impl From<$name> for Param<'_> {
            fn from(value: $name) -> Self {
                Self::Text(Cow::Owned(value.to_string()))
            }
        }
    )+};
}

printed!(
    SessionId,
    MessageId,
    InvariantId,
    AuditEntryId,
    TaskId,
    TokenId,
    PlanId,
    ChangesetId,
    ToolInvocationId,
    ProcessId,
    ResourceId,
    ProjectId,
    SandboxId,
    TurnId,
    RunId,
    DecisionId,
    AttachmentId,
    WorkItemId,
    AttemptId,
    TrackerWriteId,
    Fingerprint,
    ContentHash
);

/// Builds the parameters of a statement.
macro_rules! params {
    ($($value:expr),* $(,)?) => { &[$($crate::value::Param::from($value)),*] };
}
pub(crate) use params;

/// A value read from a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// SQL NULL.
    Null,
    /// A 64-bit integer.
    Integer(i64),
    /// A floating-point number; only search ranks use it.
    Real(f64),
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
}

/// One row of a result, with columns in the order of the statement.
#[derive(Debug, Clone)]
pub struct Row(std::vec::IntoIter<Value>);

impl Row {
    pub(crate) fn new(values: Vec<Value>) -> Self {
        Self(values.into_iter())
    }

    /// Takes the next column and converts it. Columns are taken from left to right.
    pub fn take<T: FromColumn>(&mut self) -> Result<T, Error> {
        let value = self
            .0
            .next()
            .ok_or_else(|| Error::stored("a column", "is missing"))?;
        T::from_column(value)
    }
}

/// A type that a column can be converted to.
pub trait FromColumn: Sized {
    /// Converts a column.
    fn from_column(value: Value) -> Result<Self, Error>;
}

fn unexpected(expected: &str, actual: &Value) -> Error {
    Error::stored(
        "a column",
        format!("should hold {expected} but holds {actual:?}"),
    )
}

impl FromColumn for i64 {
    fn from_column(value: Value) -> Result<Self, Error> {
        match value {
            Value::Integer(number) => Ok(number),
            other => Err(unexpected("an integer", &other)),
        }
    }
}

impl FromColumn for u64 {
    fn from_column(value: Value) -> Result<Self, Error> {
        let number = i64::from_column(value)?;
        Self::try_from(number).map_err(|_| unexpected("a count", &Value::Integer(number)))
    }
}

impl FromColumn for u32 {
    fn from_column(value: Value) -> Result<Self, Error> {
        let number = i64::from_column(value)?;
        Self::try_from(number).map_err(|_| unexpected("a small count", &Value::Integer(number)))
    }
}

impl FromColumn for bool {
    fn from_column(value: Value) -> Result<Self, Error> {
        match i64::from_column(value)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(unexpected("0 or 1", &Value::Integer(other))),
        }
    }
}

impl FromColumn for f64 {
    #[expect(
        clippy::cast_precision_loss,
        reason = "only search ranks are read as floating-point numbers"
    )]
    fn from_column(value: Value) -> Result<Self, Error> {
        match value {
            Value::Real(number) => Ok(number),
            Value::Integer(number) => Ok(number as Self),
            other => Err(unexpected("a number", &other)),
        }
    }
}

impl FromColumn for String {
    fn from_column(value: Value) -> Result<Self, Error> {
        match value {
            Value::Text(text) => Ok(text),
            other => Err(unexpected("text", &other)),
        }
    }
}

impl FromColumn for Vec<u8> {
    fn from_column(value: Value) -> Result<Self, Error> {
        match value {
            Value::Blob(bytes) => Ok(bytes),
            other => Err(unexpected("bytes", &other)),
        }
    }
}

impl FromColumn for Timestamp {
    fn from_column(value: Value) -> Result<Self, Error> {
        i64::from_column(value).map(Self::from_micros)
    }
}

impl<T: FromColumn> FromColumn for Option<T> {
    fn from_column(value: Value) -> Result<Self, Error> {
        match value {
            Value::Null => Ok(None),
            other => T::from_column(other).map(Some),
        }
    }
}

macro_rules! parsed {
    ($($name:ty),+) => {$(
        impl FromColumn for $name {
            fn from_column(value: Value) -> Result<Self, Error> {
                let text = String::from_column(value)?;
                text.parse().map_err(|error| Error::stored(stringify!($name), format!("{error}")))
            }
        }
    )+};
}

parsed!(
    SessionId,
    MessageId,
    InvariantId,
    AuditEntryId,
    TaskId,
    TokenId,
    PlanId,
    ChangesetId,
    ToolInvocationId,
    ProcessId,
    ResourceId,
    ProjectId,
    SandboxId,
    TurnId,
    RunId,
    DecisionId,
    AttachmentId,
    WorkItemId,
    AttemptId,
    TrackerWriteId,
    Fingerprint,
    ContentHash
);
parsed!(
    cleveragents_domain::Role,
    cleveragents_domain::Name,
    cleveragents_domain::SessionName,
    cleveragents_domain::ResourceName,
    cleveragents_domain::TypeName,
    cleveragents_domain::Alias
);
