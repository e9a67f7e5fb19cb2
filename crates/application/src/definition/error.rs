//! [`DefinitionError`]: errors of registered definitions.

use cleveragents_domain::{
    AutomationProfile, Code, DefinitionFileError, DefinitionKind, Diagnose, Hint, Placeholder,
    PlanId, Suggestion, hint, suggest,
};
use serde_json::{Value, json};

use super::DefinitionType;

/// Failure to find, register or remove a definition.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionError {
    /// No definition of this kind has the name.
    #[error("there is no {kind} named `{name}`")]
    NotFound {
        kind: DefinitionKind,
        /// The given name.
        name: String,
        /// Similar names, the most similar first.
        nearest: Vec<String>,
    },
    /// The name is taken.
    #[error("{} named `{name}` exists already; nothing was changed", .kind.with_article())]
    Exists {
        kind: DefinitionKind,
        /// The complete name.
        name: String,
    },
    /// The definition is built in.
    #[error("the {kind} `{name}` is built in and cannot be changed")]
    BuiltIn {
        kind: DefinitionKind,
        /// The complete name.
        name: String,
    },
    /// Other objects refer to the definition.
    #[error("the {kind} `{name}` is used by {}", .by.join(", "))]
    InUse {
        kind: DefinitionKind,
        /// The complete name.
        name: String,
        /// The referring objects, such as `the project local/shop`.
        by: Vec<String>,
    },
    /// Active plans use the definition.
    #[error("unfinished plans use the {kind} `{name}`: {}", crate::project::shown(.plans))]
    UsedByPlans {
        kind: DefinitionKind,
        /// The complete name.
        name: String,
        /// Active plans that use the definition.
        plans: Vec<PlanId>,
    },
    /// The action is archived, so no plans can be created from it.
    #[error("the action `{0}` is archived")]
    Archived(String),
    /// The file is invalid.
    #[error(transparent)]
    File(#[from] Box<DefinitionFileError>),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] cleveragents_store::Error),
}

impl DefinitionError {
    pub(crate) fn not_found<T: DefinitionType>(name: &str, nearest: Vec<String>) -> Self {
        Self::NotFound {
            kind: T::KIND,
            name: name.to_owned(),
            nearest,
        }
    }
}

const fn not_found_code(kind: DefinitionKind) -> Code {
    match kind {
        DefinitionKind::Action => Code::ActionNotFound,
        DefinitionKind::Actor => Code::ActorNotFound,
        DefinitionKind::AutomationProfile => Code::ProfileNotFound,
        DefinitionKind::McpServer => Code::McpServerNotFound,
        DefinitionKind::Pool => Code::PoolNotFound,
        DefinitionKind::SafetyProfile => Code::SafetyNotFound,
        DefinitionKind::Skill => Code::SkillNotFound,
        DefinitionKind::Tool => Code::ToolNotFound,
        DefinitionKind::Validation => Code::ValidationNotFound,
    }
}

const fn exists_code(kind: DefinitionKind) -> Code {
    match kind {
        DefinitionKind::Action => Code::ActionExists,
        DefinitionKind::Actor => Code::ActorExists,
        DefinitionKind::AutomationProfile => Code::ProfileExists,
        DefinitionKind::McpServer => Code::McpServerExists,
        DefinitionKind::Pool => Code::PoolExists,
        DefinitionKind::Skill => Code::SkillExists,
        DefinitionKind::Tool | DefinitionKind::Validation => Code::ToolExists,
        // Safety profiles cannot be registered.
        DefinitionKind::SafetyProfile => kind.invalid(),
    }
}

const fn built_in_code(kind: DefinitionKind) -> Code {
    match kind {
        DefinitionKind::Actor => Code::BuiltInActor,
        DefinitionKind::AutomationProfile => Code::BuiltInProfile,
        DefinitionKind::Tool => Code::BuiltInTool,
        // The other kinds have no built-in definitions.
        other => other.invalid(),
    }
}

const fn in_use_code(kind: DefinitionKind) -> Code {
    match kind {
        DefinitionKind::Actor => Code::ActorInUse,
        DefinitionKind::AutomationProfile => Code::ProfileInUse,
        DefinitionKind::McpServer => Code::McpServerInUse,
        DefinitionKind::Pool => Code::PoolInUse,
        DefinitionKind::Skill => Code::SkillInUse,
        DefinitionKind::Tool => Code::ToolInUse,
        DefinitionKind::Validation => Code::ValidationInUse,
        // Definitions of these kinds cannot be removed.
        DefinitionKind::Action | DefinitionKind::SafetyProfile => kind.invalid(),
    }
}

fn list_operation(kind: DefinitionKind) -> Suggestion {
    match kind {
        DefinitionKind::Action => suggest::action_list(),
        DefinitionKind::Actor => suggest::actor_list(),
        DefinitionKind::AutomationProfile => suggest::automation_profile_list(),
        DefinitionKind::McpServer => suggest::mcp_list(),
        DefinitionKind::Pool => suggest::pool_list(),
        DefinitionKind::SafetyProfile => suggest::safety_list(),
        DefinitionKind::Skill => suggest::skill_list(),
        DefinitionKind::Tool => suggest::tool_list(),
        DefinitionKind::Validation => suggest::validation_list(),
    }
}

fn not_found_hint(kind: DefinitionKind, nearest: &[String]) -> Hint {
    if kind == DefinitionKind::AutomationProfile {
        let suggestion = nearest
            .first()
            .map(|name| format!("did you mean `{name}`? "))
            .unwrap_or_default();
        let built_in: Vec<&str> = AutomationProfile::built_in_names().collect();
        return hint!(
            "{}built in are {}; register others with {}",
            suggestion,
            built_in.join(", "),
            suggest::automation_profile_add()
        );
    }
    match nearest.first() {
        Some(name) => hint!(
            "did you mean `{}`? {} lists all",
            name,
            list_operation(kind)
        ),
        None => hint!("run {} to list them", list_operation(kind)),
    }
}

fn exists_hint(kind: DefinitionKind) -> Hint {
    let file = Placeholder("FILE");
    let command = match kind {
        DefinitionKind::Action => {
            return hint!(
                "choose another name, or replace it: {}",
                suggest::action_create_update(file)
            );
        }
        DefinitionKind::Actor => {
            return hint!(
                "choose another name, or replace it: {}",
                suggest::actor_update(file)
            );
        }
        DefinitionKind::SafetyProfile => return "choose another name".into(),
        DefinitionKind::AutomationProfile => suggest::automation_profile_add_update(),
        DefinitionKind::McpServer => suggest::mcp_add_update(),
        DefinitionKind::Pool => suggest::pool_add_update(),
        DefinitionKind::Skill => suggest::skill_add_update(),
        DefinitionKind::Tool => suggest::tool_add_replacing(),
        DefinitionKind::Validation => suggest::validation_add_update(),
    };
    hint!(
        "choose another name, or repeat the command with {}",
        command.only_arguments()
    )
}

fn built_in_hint(kind: DefinitionKind, name: &str) -> Hint {
    match kind {
        DefinitionKind::Actor => {
            hint!("register your own actor with `model: {}` in its file", name)
        }
        DefinitionKind::Tool => hint!(
            "forbid it instead: {}",
            suggest::permission_add(format!("deny {name}"))
        ),
        _ => hint!(
            "write your own profile that extends it: `extends: {}`",
            name
        ),
    }
}

impl DefinitionError {
    /// Refuses the removal of a definition that unfinished plans use.
    pub(crate) fn require_no_plans(
        kind: DefinitionKind,
        name: &str,
        plans: Vec<PlanId>,
    ) -> Result<(), Self> {
        if plans.is_empty() {
            return Ok(());
        }
        Err(Self::UsedByPlans {
            kind,
            name: name.to_owned(),
            plans,
        })
    }
}

impl Diagnose for DefinitionError {
    fn code(&self) -> Code {
        match self {
            Self::NotFound { kind, .. } => not_found_code(*kind),
            Self::Exists { kind, .. } => exists_code(*kind),
            Self::BuiltIn { kind, .. } => built_in_code(*kind),
            Self::InUse { kind, .. } | Self::UsedByPlans { kind, .. } => in_use_code(*kind),
            Self::Archived(_) => Code::ActionArchived,
            Self::File(error) => error.code(),
            Self::Store(error) => error.code(),
        }
    }

    fn hint(&self) -> Option<Hint> {
        Some(match self {
            Self::NotFound { kind, nearest, .. } => not_found_hint(*kind, nearest),
            Self::Exists { kind, .. } => exists_hint(*kind),
            Self::BuiltIn { kind, name } => built_in_hint(*kind, name),
            Self::InUse { by, .. } => hint!("change or remove {} first", by.join(", ")),
            Self::UsedByPlans { plans, .. } => return crate::plan::finish_hint(plans),
            Self::Archived(_) => hint!(
                "restore it with {}",
                suggest::action_create_update(Placeholder("FILE"))
            ),
            Self::File(error) => return error.hint(),
            Self::Store(error) => return error.hint(),
        })
    }

    fn details(&self) -> Value {
        match self {
            Self::NotFound {
                kind,
                name,
                nearest,
            } => {
                let mut details = json!({"name": name, "nearest": nearest});
                if *kind == DefinitionKind::AutomationProfile {
                    let built_in: Vec<&str> = AutomationProfile::built_in_names().collect();
                    details["built_in"] = json!(built_in);
                }
                details
            }
            Self::Exists { name, .. } | Self::BuiltIn { name, .. } | Self::Archived(name) => {
                json!({"name": name})
            }
            Self::InUse { name, by, .. } => json!({"name": name, "used_by": by}),
            Self::UsedByPlans { name, plans, .. } => json!({"name": name, "plans": plans}),
            Self::File(error) => error.details(),
            Self::Store(error) => error.details(),
        }
    }
}
