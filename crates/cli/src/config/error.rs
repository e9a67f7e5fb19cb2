//! What can be wrong with the configuration.

use std::io;
use std::path::PathBuf;

use cleveragents_domain::{Code, Diagnose};
use serde_json::{Value, json};

use super::resolve::Source;

/// Why a configuration cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A key that is not in the registry.
    #[error("`{key}` is not a configuration key{}", found_at(origin.as_ref()))]
    UnknownKey {
        /// The key as given.
        key: String,
        /// The known key most like it.
        nearest: Option<&'static str>,
        /// Where it stands, when not on the command line.
        origin: Option<Source>,
    },
    /// A value the key does not take.
    #[error("`{key}` cannot be `{value}`: give {allowed}{}", found_at(origin.as_ref()))]
    InvalidValue {
        /// The key.
        key: &'static str,
        /// The value as given.
        value: String,
        /// What is allowed.
        allowed: String,
        /// Where the value stands, when not on the command line.
        origin: Option<Source>,
    },
    /// A file that is not TOML.
    #[error("{}:{line}:{column} is not valid TOML: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The column in characters, from 1.
        column: usize,
        /// What the parser says.
        reason: String,
    },
    /// A key that only the person may set, in the file of a project.
    #[error("`{key}` cannot be set by a project{}", found_at(origin.as_ref()))]
    NotProjectScoped {
        /// The key.
        key: &'static str,
        /// Where it stands, when not on the command line.
        origin: Option<Source>,
    },
    /// A file that cannot be read or written.
    #[error("cannot {action} {}", path.display())]
    Access {
        /// What was tried, such as `read`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A home folder that cannot be used.
    #[error("the home folder {} cannot be used: {reason}", path.display())]
    Home {
        /// The folder.
        path: PathBuf,
        /// Why.
        reason: &'static str,
        /// What the system says.
        source: Option<io::Error>,
    },
    /// Neither `CLEVERAGENTS_HOME` nor `HOME` says where the home folder is.
    #[error("there is no home folder: neither CLEVERAGENTS_HOME nor HOME is set")]
    NoHome,
}

impl Error {
    /// A failed access, as a function for `map_err`.
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

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::UnknownKey {
                nearest, origin, ..
            } => {
                let meant =
                    nearest.map_or_else(String::new, |name| format!("did you mean `{name}`? "));
                match origin {
                    Some(Source::File { path, line }) => format!(
                        "{meant}correct or remove line {line} of {}; `agents config list` shows every key",
                        path.display()
                    ),
                    _ => format!("{meant}run `agents config list` to see every key"),
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
                "check that you may read and write {}; `agents diagnostics` shows the paths in use",
                path.display()
            ),
            Self::Home { .. } | Self::NoHome => {
                "set CLEVERAGENTS_HOME to a folder you can write to".to_owned()
            }
        })
    }

    fn details(&self) -> Value {
        match self {
            Self::UnknownKey {
                key,
                nearest,
                origin,
            } => {
                json!({"key": key, "nearest": nearest, "source": shown(origin.as_ref())})
            }
            Self::InvalidValue {
                key,
                value,
                allowed,
                origin,
            } => json!({
                "key": key, "value": value, "allowed": allowed, "source": shown(origin.as_ref()),
            }),
            Self::Malformed {
                path, line, column, ..
            } => {
                json!({"path": path.display().to_string(), "line": line, "column": column})
            }
            Self::NotProjectScoped { key, origin } => {
                json!({"key": key, "source": shown(origin.as_ref())})
            }
            Self::Access { path, .. } | Self::Home { path, .. } => {
                json!({"path": path.display().to_string()})
            }
            Self::NoHome => Value::Null,
        }
    }
}

fn shown(origin: Option<&Source>) -> Option<String> {
    origin.map(ToString::to_string)
}
