//! The value of a configuration key.

use std::fmt;

use serde::Serialize;

/// Value of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// Text, a name or one of a list of words.
    Text(String),
    Integer(u64),
    /// A boolean.
    Flag(bool),
}

impl Value {
    /// The text; `None` for other types.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Integer(_) | Self::Flag(_) => None,
        }
    }

    /// The number; `None` for other types.
    pub const fn as_integer(&self) -> Option<u64> {
        match self {
            Self::Integer(number) => Some(*number),
            Self::Text(_) | Self::Flag(_) => None,
        }
    }

    /// The boolean; `None` for other types.
    pub const fn as_flag(&self) -> Option<bool> {
        match self {
            Self::Flag(flag) => Some(*flag),
            Self::Text(_) | Self::Integer(_) => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => formatter.write_str(text),
            Self::Integer(number) => fmt::Display::fmt(number, formatter),
            Self::Flag(flag) => fmt::Display::fmt(flag, formatter),
        }
    }
}
