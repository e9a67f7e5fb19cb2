//! Why something with an automation profile did not work.

use cleveragents_domain::{AutomationProfile, Code, Diagnose};
use cleveragents_tools::FileError;
use serde_json::{Value, json};

/// A failure of the service of automation profiles.
#[derive(Debug, thiserror::Error)]
pub enum AutomationError {
    /// The file of a profile is wrong.
    #[error(transparent)]
    File(#[from] Box<FileError>),
    /// There is none of this name.
    #[error("there is no automation profile named `{name}`")]
    NotFound {
        /// The name as it was given.
        name: String,
        /// One that is much like it.
        nearest: Option<String>,
    },
    /// There is one of this name.
    #[error("the automation profile `{0}` exists already; nothing was changed")]
    Exists(String),
    /// It is part of the program.
    #[error("the automation profile `{0}` is part of the program and cannot be changed")]
    BuiltIn(String),
    /// Something needs it.
    #[error("the automation profile `{name}` is used by {by}")]
    InUse {
        /// The profile.
        name: String,
        /// What needs it.
        by: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] cleveragents_store::Error),
}

/// The profiles of the program, for a sentence.
fn built_in() -> String {
    let names: Vec<&str> = AutomationProfile::built_in_names().collect();
    names.join(", ")
}

impl Diagnose for AutomationError {
    fn code(&self) -> Code {
        match self {
            Self::File(error) => error.code(),
            Self::NotFound { .. } => Code::ProfileNotFound,
            Self::Exists(_) => Code::ProfileExists,
            Self::BuiltIn(_) => Code::BuiltInProfile,
            Self::InUse { .. } => Code::ProfileInUse,
            Self::Store(error) => error.code(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::File(error) => error.hint(),
            Self::NotFound { nearest, .. } => {
                let meant = nearest
                    .as_ref()
                    .map(|name| format!("did you mean `{name}`? "))
                    .unwrap_or_default();
                Some(format!(
                    "{meant}part of the program are {}; others are registered with `agents automation-profile add`",
                    built_in()
                ))
            }
            Self::Exists(_) => {
                Some("choose another name, or repeat the command with --update".to_owned())
            }
            Self::BuiltIn(name) => Some(format!(
                "write one of your own that builds on it: `extends: {name}`"
            )),
            Self::InUse { .. } => Some("let that use another one first".to_owned()),
            Self::Store(error) => error.hint(),
        }
    }

    fn details(&self) -> Value {
        match self {
            Self::File(error) => error.details(),
            Self::NotFound { name, .. } => json!({
                "name": name,
                "built_in": AutomationProfile::built_in_names().collect::<Vec<_>>(),
            }),
            Self::InUse { name, by } => json!({"name": name, "used_by": by}),
            Self::Store(error) => error.details(),
            Self::Exists(_) | Self::BuiltIn(_) => Value::Null,
        }
    }
}
