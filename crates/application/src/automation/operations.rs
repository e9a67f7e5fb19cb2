//! The operations on automation profiles.

#![expect(missing_docs, reason = "comments say what names of fields do not")]

use std::collections::BTreeMap;

use cleveragents_domain::identity::{Permission, Scope};
use cleveragents_domain::{
    AutomationGate, AutomationGuard, AutomationProfile, GateGroup, MicroUsd, Thresholds, Timestamp,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::AutomationError;
use super::service::AutomationService;
use crate::operation::{
    NamedKind, Operation, OperationContext, OperationEntry, OperationError, RemovedDefinition,
    Requirement, Resolver, confirm_removal, name_filter, namespace_of, register_mode,
};
use crate::resource::Outcome;

/// The operations on automation profiles.
pub(crate) static ENTRIES: &[OperationEntry] = &[
    OperationEntry::of::<AddProfile>(),
    OperationEntry::of::<ListProfiles>(),
    OperationEntry::of::<ShowProfile>(),
    OperationEntry::of::<RemoveProfile>(),
];

/// The key of the configuration that names the profile of new plans.
const CONFIGURATION_KEY: &str = "core.automation-profile";

const fn requires(permission: Permission) -> Requirement {
    Requirement::new(Scope::Registry, permission)
}

fn service(context: &OperationContext) -> AutomationService {
    AutomationService::new(context.engine())
}

/// A profile whose description holds no secret of the process.
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

/// How confident a plan must be to pass each gate by itself: 0 always passes, 1 always asks.
pub type GateThresholds = BTreeMap<AutomationGate, f64>;

fn thresholds(
    thresholds: &Thresholds,
    gates: impl Iterator<Item = AutomationGate>,
) -> GateThresholds {
    gates
        .map(|gate| (gate, thresholds.threshold(gate)))
        .collect()
}

/// The switches of a profile.
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

/// Limits of a profile, besides its thresholds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProfileGuards {
    /// Tools that plans may not call, by name or pattern.
    pub tool_denylist: Vec<String>,
    /// The only tools that plans may call; `null` allows all.
    pub tool_allowlist: Option<Vec<String>>,
    pub max_tool_calls_per_step: Option<u64>,
    /// In US dollars, for a whole plan.
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

/// Whether a profile comes with the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProfileSource {
    Builtin,
    Custom,
}

impl ProfileSource {
    /// The word in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Builtin => "builtin",
            Self::Custom => "custom",
        }
    }
}

/// Registers an automation profile.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddProfile {
    /// The YAML text of its definition.
    pub text: String,
    /// The file that holds the text. Ignored for callers on other machines.
    #[serde(default)]
    pub source: Option<String>,
    /// Replace a profile of the same name.
    #[serde(default)]
    pub update: bool,
}

/// The response of `registry/automation-profile/add`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AddedProfileInfo {
    pub name: String,
    pub description: String,
    pub thresholds: GateThresholds,
    pub flags: ProfileFlags,
    pub guards: Option<ProfileGuards>,
    /// How often a failed step is retried.
    pub max_retries: u32,
    /// How often failed validations are fixed.
    pub validation_retries: u32,
    /// The file that it was read from.
    pub config: String,
    pub created: Timestamp,
    pub updated: Timestamp,
    /// Grows with every update of the definition.
    pub version: u64,
    pub outcome: Outcome,
}

impl Operation for AddProfile {
    const NAME: &'static str = "registry/automation-profile/add";
    const SUMMARY: &'static str = "Register an automation profile";
    const REQUIREMENT: Requirement = requires(Permission::Manage);
    type Response = AddedProfileInfo;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.definition(&mut self.text)
    }

    fn run(self, context: &OperationContext) -> Result<AddedProfileInfo, OperationError> {
        let source = context.source_of(self.source.as_deref());
        let source = source.display().to_string();
        let register = register_mode(self.update);
        let added = service(context).add(&self.text, &source, register, context.variables())?;
        let profile = redacted(context, added.profile)?;
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
}

/// Lists automation profiles, the built-in ones first.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListProfiles {
    /// Only profiles whose name this regular expression matches somewhere.
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
    /// Missing when its file cannot be read any more.
    #[serde(flatten)]
    pub definition: Option<ListedProfileDefinition>,
    /// Why its file cannot be read any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// What lists tell about a profile.
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
    const REQUIREMENT: Requirement = requires(Permission::Read);
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
        for registered in service(context).list(context.variables())? {
            let name = registered.stored.name;
            if !matches(&name) || !visible.contains(namespace_of(&name)) {
                continue;
            }
            listed.push(match registered.profile {
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

/// Shows an automation profile.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShowProfile {
    /// Such as `trusted` or `acme/careful`.
    pub name: String,
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
    /// The file that it was read from; `null` for built-in profiles.
    pub config: Option<String>,
    /// Grows with every update of the definition; `null` for built-in profiles.
    pub version: Option<u64>,
}

/// The part of a profile about execution.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ExecutionControls {
    #[serde(flatten)]
    pub flags: ProfileFlags,
    /// How often a failed step is retried.
    pub max_retries: u32,
    /// How often failed validations are fixed.
    pub validation_retries: u32,
    // Takes the fields that are left, so it stands last.
    #[serde(flatten)]
    pub thresholds: GateThresholds,
}

impl ShownProfile {
    /// The thresholds of all gates.
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

impl Operation for ShowProfile {
    const NAME: &'static str = "registry/automation-profile/show";
    const SUMMARY: &'static str = "Show an automation profile";
    const REQUIREMENT: Requirement = requires(Permission::Read);
    type Response = ShownProfile;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.read_name(&mut self.name, NamedKind::Definition)
    }

    fn run(self, context: &OperationContext) -> Result<ShownProfile, OperationError> {
        let profiles = service(context);
        let stored = profiles.file(&self.name)?;
        let profile = redacted(context, profiles.get(&self.name, context.variables())?)?;
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
}

/// Removes an automation profile that nothing uses.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoveProfile {
    pub name: String,
    /// Confirms the removal; without it nothing is removed.
    #[serde(default)]
    pub yes: bool,
}

impl Operation for RemoveProfile {
    const NAME: &'static str = "registry/automation-profile/remove";
    const SUMMARY: &'static str = "Remove an automation profile that nothing uses";
    const REQUIREMENT: Requirement = requires(Permission::Manage);
    type Response = RemovedDefinition;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.name(&mut self.name, NamedKind::Definition)
    }

    fn run(self, context: &OperationContext) -> Result<RemovedDefinition, OperationError> {
        let profiles = service(context);
        if let Some(stored) = profiles.file(&self.name)? {
            let configured = context.settings().automation_profile.to_lowercase();
            if configured == stored.name || format!("local/{configured}") == stored.name {
                let error = AutomationError::InUse {
                    name: stored.name,
                    by: format!("the configuration, as `{CONFIGURATION_KEY}`"),
                };
                return Err(OperationError::from(error).with_hint(format!(
                    "choose another with `agents config set {CONFIGURATION_KEY} NAME`"
                )));
            }
            confirm_removal(&stored.name, self.yes)?;
        }
        let removed = profiles.remove(&self.name)?;
        Ok(RemovedDefinition {
            removed: removed.name,
            config: removed.source,
        })
    }
}
