//! The operations on automation profiles.

#![expect(
    missing_docs,
    reason = "fields without a comment are clear from their names"
)]

use std::collections::BTreeMap;

use cleveragents_domain::identity::{Permission, Scope};
use cleveragents_domain::yaml::Variables;
use cleveragents_domain::{
    AutomationGate, AutomationGuard, AutomationProfile, GateGroup, MicroUsd, Placeholder,
    Thresholds, Timestamp, hint, suggest,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::service::AutomationService;
use crate::definition::{
    DefinitionText, DefinitionType as _, add_request, named_by_configuration, remove_confirmed,
    remove_request, show_request,
};
use crate::operation::{
    Operation, OperationContext, OperationEntry, OperationError, RemovedDefinition, Requirement,
    Resolver, name_filter, namespace_of,
};
use crate::resource::{Outcome, Register};

/// The operations on automation profiles.
pub(crate) static ENTRIES: &[OperationEntry] = &[
    OperationEntry::new::<AddProfile>(),
    OperationEntry::new::<ListProfiles>(),
    OperationEntry::new::<ShowProfile>(),
    OperationEntry::new::<RemoveProfile>(),
];

/// The configuration key that names the profile of new plans.
const CONFIGURATION_KEY: &str = "core.automation-profile";

fn service(context: &OperationContext) -> AutomationService {
    AutomationService::new(context.engine())
}

/// A profile with the secrets of the process redacted in its description.
fn redacted(
    context: &OperationContext,
    profile: AutomationProfile,
) -> Result<AutomationProfile, OperationError> {
    let secrets = context.redactor()?;
    Ok(AutomationProfile {
        description: secrets.text(&profile.description).into_owned(),
        ..profile
    })
}

/// The confidence that a plan needs to pass each gate without approval: 0 always passes, 1 always
/// asks.
pub type GateThresholds = BTreeMap<AutomationGate, f64>;

fn thresholds(
    thresholds: &Thresholds,
    gates: impl Iterator<Item = AutomationGate>,
) -> GateThresholds {
    gates
        .map(|gate| (gate, thresholds.threshold(gate)))
        .collect()
}

/// The flags of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProfileFlags {
    /// Changes are made in sandboxes only.
    pub require_sandbox: bool,
    /// A checkpoint precedes each change.
    pub require_checkpoints: bool,
    /// Tools that declare themselves unsafe may run.
    pub allow_unsafe_tools: bool,
}

impl From<&AutomationProfile> for ProfileFlags {
    fn from(profile: &AutomationProfile) -> Self {
        Self {
            require_sandbox: profile.require_sandbox,
            require_checkpoints: profile.require_checkpoints,
            allow_unsafe_tools: profile.allow_unsafe_tools,
        }
    }
}

/// Limits of a profile in addition to its thresholds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProfileGuards {
    /// Tools that plans may not call, by name or pattern.
    pub tool_denylist: Vec<String>,
    /// The only tools that plans may call; `null` allows all.
    pub tool_allowlist: Option<Vec<String>>,
    pub max_tool_calls_per_step: Option<u64>,
    /// Maximum cost of a plan, in US dollars.
    pub max_total_cost: Option<f64>,
    /// The user approves every call that changes something.
    pub require_approval_for_writes: bool,
    /// The user approves applying, whatever the thresholds are.
    pub require_approval_for_apply: bool,
}

impl From<AutomationGuard> for ProfileGuards {
    fn from(guards: AutomationGuard) -> Self {
        Self {
            tool_denylist: guards.tool_denylist,
            tool_allowlist: guards.tool_allowlist,
            max_tool_calls_per_step: guards.max_tool_calls_per_step,
            max_total_cost: guards.max_total_cost.map(MicroUsd::as_usd),
            require_approval_for_writes: guards.require_approval_for_writes,
            require_approval_for_apply: guards.require_approval_for_apply,
        }
    }
}

/// Origin of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProfileSource {
    Builtin,
    Custom,
}

impl ProfileSource {
    /// The value in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Builtin => "builtin",
            Self::Custom => "custom",
        }
    }
}

/// The response of `registry/automation-profile/add`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AddedProfileInfo {
    pub name: String,
    pub description: String,
    pub thresholds: GateThresholds,
    pub flags: ProfileFlags,
    pub guards: Option<ProfileGuards>,
    /// Maximum number of retries of a failed step.
    pub max_retries: u32,
    /// Maximum number of attempts to fix failed validations.
    pub validation_retries: u32,
    /// File that the definition was read from.
    pub config: String,
    pub created: Timestamp,
    pub updated: Timestamp,
    /// Grows with every update of the definition.
    pub version: u64,
    pub outcome: Outcome,
}

add_request! {
    /// Registers an automation profile.
    AddProfile("registry/automation-profile/add", "Register an automation profile") -> AddedProfileInfo;
    update: "Replace a profile of the same name.";
    run: add;
}

fn add(
    context: &OperationContext,
    new: DefinitionText<'_>,
    register: Register,
) -> Result<AddedProfileInfo, OperationError> {
    let added = service(context).add(new.text, new.source, register, context.variables())?;
    let profile = redacted(context, added.definition)?;
    Ok(AddedProfileInfo {
        thresholds: thresholds(&profile.thresholds, AutomationGate::ALL.into_iter()),
        flags: ProfileFlags::from(&profile),
        name: profile.name,
        description: profile.description,
        guards: profile.guards.map(ProfileGuards::from),
        max_retries: profile.max_retries,
        validation_retries: profile.validation_retries,
        config: added.stored.source,
        created: added.stored.created_at,
        updated: added.stored.updated_at,
        version: added.stored.version,
        outcome: added.outcome,
    })
}

/// Lists automation profiles, the built-in ones first.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListProfiles {
    /// Only profiles whose name matches this regular expression.
    #[serde(default)]
    pub pattern: Option<String>,
}

/// The response of `registry/automation-profile/list`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ProfileList {
    pub automation_profiles: Vec<ListedProfile>,
    pub summary: ProfileListSummary,
}

/// The number of listed profiles.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ProfileListSummary {
    pub total: u64,
}

/// A listed profile.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ListedProfile {
    pub name: String,
    pub source: ProfileSource,
    /// Content of the file; missing if the file is no longer valid.
    #[serde(flatten)]
    pub definition: Option<ListedProfileDefinition>,
    /// Error in the file, if the file is no longer valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Content of a profile that lists show.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ListedProfileDefinition {
    pub description: String,
    pub thresholds: GateThresholds,
    pub flags: ProfileFlags,
}

impl ListedProfile {
    fn new(profile: AutomationProfile, source: ProfileSource) -> Self {
        Self {
            source,
            definition: Some(ListedProfileDefinition {
                thresholds: thresholds(&profile.thresholds, AutomationGate::ALL.into_iter()),
                flags: ProfileFlags::from(&profile),
                description: profile.description,
            }),
            name: profile.name,
            problem: None,
        }
    }
}

impl Operation for ListProfiles {
    const NAME: &'static str = "registry/automation-profile/list";
    const SUMMARY: &'static str = "List automation profiles";
    const REQUIREMENT: Requirement = Requirement::registry(Permission::Read);
    type Response = ProfileList;

    fn resolve(&mut self, _: &mut Resolver<'_>) -> Result<(), OperationError> {
        Ok(())
    }

    fn run(self, context: &OperationContext) -> Result<ProfileList, OperationError> {
        let matches = name_filter(self.pattern.as_deref())?;
        let built_in = AutomationProfile::built_in().into_iter();
        let mut listed: Vec<ListedProfile> = built_in
            .filter(|profile| matches(&profile.name))
            .map(|profile| ListedProfile::new(profile, ProfileSource::Builtin))
            .collect();
        let visible = context.visible(Scope::Registry);
        for registered in service(context).list_registered(context.variables())? {
            let name = registered.stored.name;
            if !matches(&name) || !visible.contains(namespace_of(&name)) {
                continue;
            }
            listed.push(match registered.definition {
                Ok(profile) => {
                    ListedProfile::new(redacted(context, profile)?, ProfileSource::Custom)
                }
                Err(error) => ListedProfile {
                    name,
                    source: ProfileSource::Custom,
                    definition: None,
                    problem: Some(error.to_string()),
                },
            });
        }
        Ok(ProfileList {
            summary: ProfileListSummary {
                total: listed.len() as u64,
            },
            automation_profiles: listed,
        })
    }
}

/// The response of `registry/automation-profile/show`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ShownProfile {
    pub name: String,
    pub description: String,
    pub source: ProfileSource,
    pub phase_transitions: GateThresholds,
    pub decision_automation: GateThresholds,
    pub self_repair: GateThresholds,
    pub execution_controls: ExecutionControls,
    pub guards: Option<ProfileGuards>,
    /// File that the definition was read from; `null` for built-in profiles.
    pub config: Option<String>,
    /// Grows with every update of the definition; `null` for built-in profiles.
    pub version: Option<u64>,
}

/// The part of a profile about execution.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ExecutionControls {
    #[serde(flatten)]
    pub flags: ProfileFlags,
    /// Maximum number of retries of a failed step.
    pub max_retries: u32,
    /// Maximum number of attempts to fix failed validations.
    pub validation_retries: u32,
    // Flattened fields have to be last.
    #[serde(flatten)]
    pub thresholds: GateThresholds,
}

impl ShownProfile {
    pub fn thresholds(&self) -> GateThresholds {
        let groups = [
            &self.phase_transitions,
            &self.decision_automation,
            &self.self_repair,
            &self.execution_controls.thresholds,
        ];
        let all = groups.into_iter().flatten();
        all.map(|(gate, threshold)| (*gate, *threshold)).collect()
    }
}

show_request! {
    /// Shows an automation profile.
    ShowProfile("registry/automation-profile/show", "Show an automation profile") -> ShownProfile;
    name: "Such as `trusted` or `acme/careful`.";
    run: show;
}

fn show(context: &OperationContext, name: &str) -> Result<ShownProfile, OperationError> {
    let profiles = service(context);
    let stored = profiles.file(name)?;
    let profile = redacted(context, profiles.get(name, context.variables())?)?;
    let group = |group: GateGroup| thresholds(&profile.thresholds, group.gates());
    Ok(ShownProfile {
        phase_transitions: group(GateGroup::PhaseTransitions),
        decision_automation: group(GateGroup::DecisionAutomation),
        self_repair: group(GateGroup::SelfRepair),
        execution_controls: ExecutionControls {
            flags: ProfileFlags::from(&profile),
            max_retries: profile.max_retries,
            validation_retries: profile.validation_retries,
            thresholds: group(GateGroup::ExecutionControls),
        },
        source: match stored {
            Some(_) => ProfileSource::Custom,
            None => ProfileSource::Builtin,
        },
        version: stored.as_ref().map(|stored| stored.version),
        config: stored.map(|stored| stored.source),
        name: profile.name,
        description: profile.description,
        guards: profile.guards.map(ProfileGuards::from),
    })
}

remove_request! {
    /// Removes an automation profile that nothing uses.
    RemoveProfile(
        "registry/automation-profile/remove",
        "Remove an automation profile that nothing uses"
    );
    run: remove;
}

fn remove(
    context: &OperationContext,
    name: &str,
    yes: bool,
) -> Result<RemovedDefinition, OperationError> {
    let variables: Variables<'_> = context.variables();
    remove_confirmed(&service(context), variables, name, yes, |found| {
        let configured = &context.settings().automation_profile;
        if AutomationProfile::complete_name(configured) != found.name {
            return Ok(());
        }
        let error = named_by_configuration::<AutomationProfile>(&found.name, CONFIGURATION_KEY);
        Err(OperationError::from(error).with_hint(hint!(
            "choose another with {}",
            suggest::config_set(CONFIGURATION_KEY, Placeholder("NAME"))
        )))
    })
}
