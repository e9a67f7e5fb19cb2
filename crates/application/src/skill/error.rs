//! Why a skill cannot be had, added or removed.

use std::fmt;

use cleveragents_domain::{Code, Diagnose};
use cleveragents_tools::{FileError, TightenError};
use serde_json::{Value, json};

use crate::tool::ToolError;

/// Who uses a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SkillUser {
    /// Another skill includes it.
    Skill(String),
    /// An actor has it.
    Actor(String),
}

impl fmt::Display for SkillUser {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Skill(name) => write!(formatter, "skill {name}"),
            Self::Actor(name) => write!(formatter, "actor {name}"),
        }
    }
}

/// Why a skill cannot be had, added or removed.
#[derive(Debug, thiserror::Error)]
pub enum SkillError {
    /// There is none of this name.
    #[error("there is no skill named `{name}`")]
    NotFound {
        /// The name as it was given.
        name: String,
        /// Names that are much like it.
        nearest: Vec<String>,
    },
    /// There is one of this name.
    #[error("a skill named `{0}` exists already")]
    Exists(String),
    /// It is used.
    #[error("the skill `{name}` is used by {}", listed(.by))]
    InUse {
        /// The skill.
        name: String,
        /// By whom.
        by: Vec<SkillUser>,
    },
    /// It is not registered but found in the folder of skills.
    #[error("the skill `{name}` is a folder of its own in `{folder}`")]
    Found {
        /// The skill.
        name: String,
        /// Where it is.
        folder: String,
    },
    /// Its file or folder is wrong.
    #[error(transparent)]
    File(#[from] Box<FileError>),
    /// The tools cannot be had.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// Skills disagree on a tool.
    #[error(transparent)]
    Tighten(#[from] TightenError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] cleveragents_store::Error),
}

fn listed(users: &[SkillUser]) -> String {
    let users: Vec<String> = users.iter().map(ToString::to_string).collect();
    users.join(", ")
}

impl From<FileError> for SkillError {
    fn from(error: FileError) -> Self {
        Self::File(Box::new(error))
    }
}

impl Diagnose for SkillError {
    fn code(&self) -> Code {
        match self {
            Self::NotFound { .. } => Code::SkillNotFound,
            Self::Exists(_) => Code::SkillExists,
            Self::InUse { .. } | Self::Found { .. } => Code::SkillInUse,
            Self::File(error) => error.code(),
            Self::Tool(error) => error.code(),
            Self::Tighten(_) => Code::InvalidSkill,
            Self::Store(error) => error.code(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::NotFound { nearest, .. } => Some(match nearest.first() {
                Some(name) => format!("did you mean `{name}`? `agents skill list` shows all"),
                None => "run `agents skill list` to see what there is".to_owned(),
            }),
            Self::Exists(_) => {
                Some("choose another name, or repeat the command with --update".to_owned())
            }
            Self::InUse { .. } => Some("remove or change what uses it first".to_owned()),
            Self::Found { folder, .. } => Some(format!("remove the folder itself: `{folder}`")),
            Self::File(error) => error.hint(),
            Self::Tool(error) => error.hint(),
            Self::Tighten(_) => {
                Some("use these skills apart, or take one of the overrides out".to_owned())
            }
            Self::Store(error) => error.hint(),
        }
    }

    fn details(&self) -> Value {
        match self {
            Self::NotFound { name, nearest } => json!({"name": name, "nearest": nearest}),
            Self::InUse { by, .. } => {
                let by: Vec<String> = by.iter().map(ToString::to_string).collect();
                json!({"used_by": by})
            }
            Self::File(error) => error.details(),
            Self::Tool(error) => error.details(),
            Self::Store(error) => error.details(),
            _ => Value::Null,
        }
    }
}
