//! Errors of the configuration.

use std::io;
use std::path::PathBuf;

use cleveragents_domain::{Code, Diagnose, Hint};
use serde_json::{Value, json};

use super::resolve::Source;

/// Failure to read or change the configuration.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A key that is not in the registry.
    #[error("`{key}` is not a configuration key{}", found_at(origin.as_ref()))]
    UnknownKey {
        /// The given key.
        key: String,
        /// The most similar known key.
        nearest: Option<&'static str>,
        /// Location of the key, unless it is on the command line.
        origin: Option<Source>,
    },
    /// A value that the key does not accept.
    #[error("`{key}` cannot be `{value}`: expected {allowed}{}", found_at(origin.as_ref()))]
    InvalidValue {
        key: &'static str,
        /// The given value.
        value: String,
        allowed: String,
        /// Location of the value, unless it is on the command line.
        origin: Option<Source>,
    },
    /// A file that is not TOML.
    #[error("{}:{line}:{column} is not valid TOML: {reason}", path.display())]
    Malformed {
        path: PathBuf,
        /// Line, starting at 1.
        line: usize,
        /// Column in characters, starting at 1.
        column: usize,
        /// Message of the parser.
        reason: String,
    },
    /// A key in a project's file that only the user may set.
    #[error("`{key}` cannot be set by a project{}", found_at(origin.as_ref()))]
    NotProjectScoped {
        key: &'static str,
        /// Location of the key, unless it is on the command line.
        origin: Option<Source>,
    },
    /// A file that cannot be read or written.
    #[error("cannot {action} {}", path.display())]
    Access {
        /// Verb of the attempted operation, such as `read`.
        action: &'static str,
        /// Path of the file or folder.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A home folder that cannot be used.
    #[error("the home folder {} cannot be used: {reason}", path.display())]
    Home {
        path: PathBuf,
        reason: &'static str,
        /// Error of the operating system.
        source: Option<io::Error>,
    },
    /// Neither `CLEVERAGENTS_HOME` nor `HOME` is set.
    #[error("there is no home folder: neither CLEVERAGENTS_HOME nor HOME is set")]
    NoHome,
}

impl Error {
    /// Creates an `Access` error, for use with `map_err`.
    pub(crate) fn access(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Access {
            action,
            path,
            source,
        }
    }
}

fn found_at(origin: Option<&Source>) -> String {
    origin.map_or_else(String::new, |origin| format!(" (set by {origin})"))
}

impl Diagnose for Error {
    fn code(&self) -> Code {
        match self {
            Self::UnknownKey { .. } => Code::UnknownConfigKey,
            Self::InvalidValue { .. } => Code::InvalidConfigValue,
            Self::Malformed { .. } => Code::MalformedConfig,
            Self::NotProjectScoped { .. } => Code::NotProjectScoped,
            Self::Access { .. } => Code::FileAccess,
            Self::Home { .. } | Self::NoHome => Code::HomeUnusable,
        }
    }

    fn hint(&self) -> Option<Hint> {
        let text = match self {
            Self::UnknownKey {
                nearest, origin, ..
            } => {
                let suggestion =
                    nearest.map_or_else(String::new, |name| format!("did you mean `{name}`? "));
                match origin {
                    Some(Source::File { path, line }) => format!(
                        "{suggestion}correct or remove line {line} of {}; `agents config list` shows every key",
                        path.display()
                    ),
                    _ => format!("{suggestion}run `agents config list` to see every key"),
                }
            }
            Self::InvalidValue {
                key,
                allowed,
                origin,
                ..
            } => match origin {
                Some(Source::Variable(name)) => format!("set {name} to {allowed}, or unset it"),
                Some(Source::File { path, line }) => {
                    format!("correct or remove line {line} of {}", path.display())
                }
                _ => format!("run `agents config set {key}` with {allowed}"),
            },
            Self::Malformed { path, line, .. } => {
                format!("correct line {line} of {}", path.display())
            }
            Self::NotProjectScoped { key, origin } => match origin {
                Some(Source::File { path, line }) => format!(
                    "remove line {line} of {}; to set it for yourself run `agents config set {key}`",
                    path.display()
                ),
                _ => format!("run `agents config set {key}` without a project"),
            },
            Self::Access { path, .. } => format!(
                "check the permissions of {}; `agents diagnostics` shows the paths in use",
                path.display()
            ),
            Self::Home { .. } | Self::NoHome => {
                "set CLEVERAGENTS_HOME to a folder you can write to".to_owned()
            }
        };
        Some(text.into())
    }

    fn details(&self) -> Value {
        match self {
            Self::UnknownKey {
                key,
                nearest,
                origin,
            } => {
                json!({"key": key, "nearest": nearest, "source": origin_text(origin.as_ref())})
            }
            Self::InvalidValue {
                key,
                value,
                allowed,
                origin,
            } => json!({
                "key": key, "value": value, "allowed": allowed, "source": origin_text(origin.as_ref()),
            }),
            Self::Malformed {
                path, line, column, ..
            } => {
                json!({"path": path.display().to_string(), "line": line, "column": column})
            }
            Self::NotProjectScoped { key, origin } => {
                json!({"key": key, "source": origin_text(origin.as_ref())})
            }
            Self::Access { path, .. } | Self::Home { path, .. } => {
                json!({"path": path.display().to_string()})
            }
            Self::NoHome => Value::Null,
        }
    }
}

fn origin_text(origin: Option<&Source>) -> Option<String> {
    origin.map(ToString::to_string)
}
