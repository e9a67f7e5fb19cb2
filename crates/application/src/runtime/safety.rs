//! Which safety profile and guards are in force.
//!
//! Each level (options, variables, the project's file, the user's file) is a [`SafetyLayer`]. What holds is what all
//! of them allow, so no level can allow again what another one denies. Without a profile that the user chose, the
//! standard one holds. The file of a project comes with the code that is worked on, so it is no choice of the user:
//! it narrows the standard profile.

use std::path::Path;

use cleveragents_domain::{Code, nearest};
use cleveragents_tools::{Guards, STANDARD, Safety, SafetyProfile};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::operation::OperationError;
use crate::text_file::read_text_file;

/// What one request demands, as the user wrote it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SafetySelection {
    /// A safety profile, or the file of one.
    pub safety: Option<String>,
    /// Patterns of tools that are refused.
    pub deny_tool: Vec<String>,
    /// Patterns of the only tools that are not refused.
    pub allow_tool: Vec<String>,
    /// Maximum number of tool calls after one answer of the model.
    pub max_calls: Option<u64>,
    /// Whether every change needs approval.
    pub approve_writes: bool,
}

/// What one level demands.
#[derive(Debug, Clone, Serialize)]
pub struct SafetyLayer {
    /// The level, such as `flag` or `project`.
    pub level: String,
    /// The option, variable or line of a file.
    pub source: String,
    /// What it demands, in a few words.
    pub says: String,
    /// Whether it is a profile that the user chose.
    #[serde(skip)]
    pub is_chosen_profile: bool,
    /// Its profile.
    #[serde(skip)]
    pub profile: SafetyProfile,
    /// Its guards.
    #[serde(skip)]
    pub guards: Guards,
}

/// What is in force.
#[derive(Debug, Clone, Serialize)]
pub struct EffectiveSafety {
    /// What all layers allow.
    pub profile: SafetyProfile,
    /// What all layers guard.
    pub guards: Guards,
    /// The layers, the strongest level first.
    #[serde(rename = "said")]
    pub layers: Vec<SafetyLayer>,
}

impl EffectiveSafety {
    /// What all layers allow; the standard profile is among them unless the user chose one.
    pub fn combine(mut profiles: Vec<SafetyLayer>, guards: Vec<SafetyLayer>) -> Self {
        let is_chosen = profiles.iter().any(|layer| layer.is_chosen_profile);
        if !is_chosen && let Some(standard) = Safety::find(STANDARD) {
            profiles.push(SafetyLayer {
                level: "default".to_owned(),
                source: "built in".to_owned(),
                says: format!("profile {}", standard.name),
                is_chosen_profile: false,
                profile: standard.profile,
                guards: standard.guards,
            });
        }
        let mut effective = Self::demanding_nothing();
        effective.layers = profiles;
        effective.layers.extend(guards);
        for layer in &effective.layers {
            effective.profile.narrow(&layer.profile);
            effective.guards.narrow(&layer.guards);
        }
        effective
    }

    /// Demands that come from elsewhere than the layers, such as the profile of a plan.
    pub fn of(profile: SafetyProfile, guards: Guards) -> Self {
        Self {
            profile,
            guards,
            layers: Vec::new(),
        }
    }

    fn demanding_nothing() -> Self {
        Self::of(SafetyProfile::demanding_nothing(), Guards::default())
    }

    /// Adds the demands of another one.
    pub fn narrow(&mut self, other: &Self) {
        self.profile.narrow(&other.profile);
        self.guards.narrow(&other.guards);
    }
}

/// A safety profile by its name, or from a file. `folder` is the folder of relative paths; `place` says where the name
/// was found, for the message.
pub fn find_safety_profile(
    text: &str,
    folder: &Path,
    place: &str,
) -> Result<Safety, OperationError> {
    if let Some(safety) = Safety::find(text) {
        return Ok(safety);
    }
    let path = Path::new(text);
    let is_file = text.contains('/')
        || path
            .extension()
            .is_some_and(|ending| ending == "yaml" || ending == "yml");
    if !is_file {
        return Err(unknown_profile(text, place));
    }
    let file = folder.join(path);
    // A pipe or a device would be waited for.
    if !file.is_file() {
        let message = format!("`{}` is not a file", file.display());
        return Err(OperationError::new(Code::FileAccess, message)
            .with_hint("name the file of a safety profile, or one of `agents safety list`"));
    }
    let text = read_text_file(&file, "the file of a safety profile", Code::MalformedSafety)?;
    Safety::read(&text, &file).map_err(OperationError::of)
}

fn unknown_profile(name: &str, place: &str) -> OperationError {
    let built_in = Safety::built_in().map(|safety| safety.name);
    let known = built_in.iter().map(String::as_str);
    let hint = match nearest::best(name, known) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "`agents safety list` shows all; a file ends in .yaml or has a / in it".to_owned(),
    };
    OperationError::new(
        Code::SafetyNotFound,
        format!("there is no safety profile `{name}`{place}"),
    )
    .with_hint(hint)
    .with_details(json!({"profiles": built_in}))
}
