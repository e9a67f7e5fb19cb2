//! The effective safety profile and guards.
//!
//! Each level (options, variables, the project's file, the user's file) is a [`SafetyLayer`]. A call
//! is allowed only when all layers allow it, so no level can override a restriction of another level.
//! The standard profile is one of the layers unless the user chose a profile. The file of a project
//! is part of the code in the sandbox and not a choice of the user, so it can only narrow the standard
//! profile.

use std::path::Path;

use cleveragents_domain::{Code, hint, nearest, suggest};
use cleveragents_tools::{Guards, STANDARD_PROFILE, Safety, SafetyProfile};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::operation::OperationError;
use crate::text_file::read_text_file;

/// The safety options of one request, before they are resolved.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SafetySelection {
    /// The name of a safety profile, or the path of its file.
    pub safety: Option<String>,
    /// Patterns of tools that are refused.
    pub deny_tool: Vec<String>,
    /// Patterns of allowed tools. If given, all other tools are refused.
    pub allow_tool: Vec<String>,
    /// Maximum number of tool calls per model response.
    pub max_calls: Option<u64>,
    /// Whether every change needs approval.
    pub approve_writes: bool,
}

/// The restrictions of one level.
#[derive(Debug, Clone, Serialize)]
pub struct SafetyLayer {
    /// The level, such as `flag` or `project`.
    pub level: String,
    /// The option, variable or line of a file that sets the restriction.
    pub source: String,
    /// A short description of the restrictions.
    #[serde(rename = "says")]
    pub description: String,
    /// Whether the layer is a profile that the user chose.
    #[serde(skip)]
    pub is_chosen_profile: bool,
    #[serde(skip)]
    pub profile: SafetyProfile,
    #[serde(skip)]
    pub guards: Guards,
}

/// The combined safety of all layers.
#[derive(Debug, Clone, Serialize)]
pub struct EffectiveSafety {
    /// Permissions that all layers grant.
    pub profile: SafetyProfile,
    /// The strictest guards of all layers.
    pub guards: Guards,
    /// The layers, the strongest level first.
    #[serde(rename = "said")]
    pub layers: Vec<SafetyLayer>,
}

impl EffectiveSafety {
    /// Combines the layers. Adds the standard profile unless the user chose a profile.
    pub fn combine(mut profiles: Vec<SafetyLayer>, guards: Vec<SafetyLayer>) -> Self {
        let is_chosen = profiles.iter().any(|layer| layer.is_chosen_profile);
        if !is_chosen && let Some(standard) = Safety::find(STANDARD_PROFILE) {
            profiles.push(SafetyLayer {
                level: "default".to_owned(),
                source: "built in".to_owned(),
                description: format!("profile {}", standard.name),
                is_chosen_profile: false,
                profile: standard.profile,
                guards: standard.guards,
            });
        }
        let mut effective = Self::unrestricted();
        effective.layers = profiles;
        effective.layers.extend(guards);
        for layer in &effective.layers {
            effective.profile.narrow(&layer.profile);
            effective.guards.narrow(&layer.guards);
        }
        effective
    }

    /// Restrictions that do not belong to a layer, such as the profile of a plan.
    pub fn new(profile: SafetyProfile, guards: Guards) -> Self {
        Self {
            profile,
            guards,
            layers: Vec::new(),
        }
    }

    fn unrestricted() -> Self {
        Self::new(SafetyProfile::unrestricted(), Guards::default())
    }

    /// Adds the restrictions of another value.
    pub fn narrow(&mut self, other: &Self) {
        self.profile.narrow(&other.profile);
        self.guards.narrow(&other.guards);
    }
}

/// Loads a safety profile by its name, or from a file. Relative paths are resolved against `folder`.
/// Error messages end with `place`, the location of the name.
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
    // Opening a pipe or a device would block.
    if !file.is_file() {
        let message = format!("`{}` is not a file", file.display());
        return Err(
            OperationError::new(Code::FileAccess, message).with_hint(hint!(
                "name the file of a safety profile, or one of {}",
                suggest::safety_list()
            )),
        );
    }
    let text = read_text_file(&file, "the file of a safety profile", Code::MalformedSafety)?;
    Safety::read(&text, &file).map_err(OperationError::from_service)
}

fn unknown_profile(name: &str, place: &str) -> OperationError {
    let built_in = Safety::built_in().map(|safety| safety.name);
    let known = built_in.iter().map(String::as_str);
    let hint = match nearest::best(name, known) {
        Some(similar) => hint!("did you mean `{}`?", similar),
        None => hint!(
            "{} lists all profiles; the path of a file ends in .yaml or contains /",
            suggest::safety_list()
        ),
    };
    OperationError::new(
        Code::SafetyNotFound,
        format!("there is no safety profile `{name}`{place}"),
    )
    .with_hint(hint)
    .with_details(json!({"profiles": built_in}))
}
