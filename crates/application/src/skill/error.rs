//! Errors of the skill service.

use cleveragents_domain::{Code, DefinitionFileError, Diagnose, Hint, hint};
use cleveragents_tools::TightenError;
use serde_json::Value;

use crate::definition::DefinitionError;
use crate::tool::ToolError;

/// Failure to load, add or remove a skill.
#[derive(Debug, thiserror::Error)]
pub enum SkillError {
    /// The skill cannot be found, read, registered or removed.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// The skill is not registered; it is a folder in the folder of skills.
    #[error("the skill `{name}` is not registered; it is the folder `{folder}`")]
    Found { name: String, folder: String },
    /// The tools cannot be loaded.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// Skills set conflicting restrictions on a tool.
    #[error(transparent)]
    Tighten(#[from] TightenError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] cleveragents_store::Error),
}

impl From<DefinitionFileError> for SkillError {
    fn from(error: DefinitionFileError) -> Self {
        Box::new(error).into()
    }
}

impl From<Box<DefinitionFileError>> for SkillError {
    fn from(error: Box<DefinitionFileError>) -> Self {
        Self::Definition(error.into())
    }
}

impl Diagnose for SkillError {
    fn code(&self) -> Code {
        match self {
            Self::Definition(error) => error.code(),
            Self::Found { .. } => Code::SkillInUse,
            Self::Tool(error) => error.code(),
            Self::Tighten(_) => Code::InvalidSkill,
            Self::Store(error) => error.code(),
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Definition(error) => error.hint(),
            Self::Found { folder, .. } => Some(hint!("delete the folder: `{}`", folder)),
            Self::Tool(error) => error.hint(),
            Self::Tighten(_) => {
                Some("use these skills separately, or remove one of the overrides".into())
            }
            Self::Store(error) => error.hint(),
        }
    }

    fn details(&self) -> Value {
        match self {
            Self::Definition(error) => error.details(),
            Self::Tool(error) => error.details(),
            Self::Store(error) => error.details(),
            Self::Found { .. } | Self::Tighten(_) => Value::Null,
        }
    }
}
