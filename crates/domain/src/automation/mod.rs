//! [`AutomationProfile`]: sets for each gate whether a plan asks the user; and the eight built-in profiles.
//!
//! A plan passes a gate without asking when its [`Confidence`](crate::Confidence) reaches the threshold of the gate:
//! always at 0, never at 1. Files use the gate names of the original system (`create_tool`); the code names a gate by
//! the action that it guards.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{MicroUsd, PlanPhase};

/// A point at which a plan either continues on its own or asks the user.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum AutomationGate {
    /// Before strategizing.
    #[serde(rename = "decompose_task")]
    Strategize,
    /// Between the strategy and its execution.
    #[serde(rename = "create_tool")]
    StartExecution,
    /// Between the execution and applying.
    #[serde(rename = "select_tool")]
    Apply,
    /// Before each decision of the strategy.
    #[serde(rename = "edit_code")]
    StrategyDecision,
    /// Before each decision of the execution.
    #[serde(rename = "execute_command")]
    ExecutionDecision,
    /// Before failed validations are fixed.
    #[serde(rename = "create_file")]
    FixValidations,
    /// Before the strategy is revised.
    #[serde(rename = "delete_content")]
    ReviseStrategy,
    /// Before returning from apply to execution.
    #[serde(rename = "access_network")]
    ReturnToExecution,
    /// Before child plans are started.
    #[serde(rename = "install_dependency")]
    StartChildPlans,
    /// Before a failed step is retried.
    #[serde(rename = "modify_config")]
    RetryStep,
    /// Before a checkpoint is restored.
    #[serde(rename = "approve_plan")]
    RestoreCheckpoint,
}

/// Action of a plan that a gate guards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GateAction {
    /// Create the strategy.
    Strategize,
    /// Execute the strategy.
    Execute,
    /// Apply the result.
    Apply,
    /// Fix failed validations.
    Fix,
    /// Retry a failed step.
    Retry,
    /// Revise the strategy.
    Revise,
}

impl GateAction {
    /// The phase that the action starts; `None` for actions within a phase.
    pub const fn phase(self) -> Option<PlanPhase> {
        match self {
            Self::Strategize => Some(PlanPhase::Strategize),
            Self::Execute => Some(PlanPhase::Execute),
            Self::Apply => Some(PlanPhase::Apply),
            Self::Fix | Self::Retry | Self::Revise => None,
        }
    }
}

/// Group of gates that are shown together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateGroup {
    /// Transitions from one phase to the next.
    PhaseTransitions,
    DecisionAutomation,
    /// Recovery from failures.
    SelfRepair,
    /// Actions during the execution other than running steps.
    ExecutionControls,
}

impl GateGroup {
    /// All groups, in display order.
    pub const ALL: [Self; 4] = [
        Self::PhaseTransitions,
        Self::DecisionAutomation,
        Self::SelfRepair,
        Self::ExecutionControls,
    ];

    /// Machine-readable name of the group.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PhaseTransitions => "phase_transitions",
            Self::DecisionAutomation => "decision_automation",
            Self::SelfRepair => "self_repair",
            Self::ExecutionControls => "execution_controls",
        }
    }

    /// Gates of the group, in order.
    pub fn gates(self) -> impl Iterator<Item = AutomationGate> {
        let all = AutomationGate::ALL.into_iter();
        all.filter(move |gate| gate.group() == self)
    }
}

impl AutomationGate {
    /// All gates, in the order in which they are written and shown.
    pub const ALL: [Self; 11] = [
        Self::Strategize,
        Self::StartExecution,
        Self::Apply,
        Self::StrategyDecision,
        Self::ExecutionDecision,
        Self::FixValidations,
        Self::ReviseStrategy,
        Self::ReturnToExecution,
        Self::StartChildPlans,
        Self::RetryStep,
        Self::RestoreCheckpoint,
    ];

    /// The name in files and output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Strategize => "decompose_task",
            Self::StartExecution => "create_tool",
            Self::Apply => "select_tool",
            Self::StrategyDecision => "edit_code",
            Self::ExecutionDecision => "execute_command",
            Self::FixValidations => "create_file",
            Self::ReviseStrategy => "delete_content",
            Self::ReturnToExecution => "access_network",
            Self::StartChildPlans => "install_dependency",
            Self::RetryStep => "modify_config",
            Self::RestoreCheckpoint => "approve_plan",
        }
    }

    /// Description of the action that the gate guards, for output.
    pub const fn description(self) -> &'static str {
        match self {
            Self::Strategize => "creating the strategy",
            Self::StartExecution => "starting the execution",
            Self::Apply => "applying the result",
            Self::StrategyDecision => "decisions of the strategy",
            Self::ExecutionDecision => "decisions of the execution",
            Self::FixValidations => "fixing failed validations",
            Self::ReviseStrategy => "revising the strategy",
            Self::ReturnToExecution => "returning from apply to execution",
            Self::StartChildPlans => "starting child plans (no effect yet)",
            Self::RetryStep => "retrying a failed step",
            Self::RestoreCheckpoint => "restoring a checkpoint (no effect yet)",
        }
    }

    /// Reason for which the gate has no effect: no plan checks it. `None` for gates that have an effect.
    pub const fn reason_without_effect(self) -> Option<&'static str> {
        match self {
            Self::StartChildPlans => Some("child plans start without asking"),
            Self::RestoreCheckpoint => {
                Some("a plan restores a checkpoint only when the user requests it")
            }
            _ => None,
        }
    }

    /// Group in which the gate is shown.
    pub const fn group(self) -> GateGroup {
        match self {
            Self::Strategize | Self::StartExecution | Self::Apply => GateGroup::PhaseTransitions,
            Self::StrategyDecision | Self::ExecutionDecision => GateGroup::DecisionAutomation,
            Self::FixValidations
            | Self::ReviseStrategy
            | Self::ReturnToExecution
            | Self::RetryStep
            | Self::RestoreCheckpoint => GateGroup::SelfRepair,
            Self::StartChildPlans => GateGroup::ExecutionControls,
        }
    }
}

/// One threshold per gate, each from 0 to 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Thresholds([f64; AutomationGate::ALL.len()]);

impl Thresholds {
    /// Creates thresholds in the order of [`AutomationGate::ALL`]. `None` when a value is not from 0 to 1.
    pub fn new(values: [f64; AutomationGate::ALL.len()]) -> Option<Self> {
        values
            .iter()
            .all(|value| is_threshold(*value))
            .then_some(Self(values))
    }

    pub const fn threshold(&self, gate: AutomationGate) -> f64 {
        // The discriminant of a gate is its index in the list.
        self.0[gate as usize]
    }
}

/// Whether a number is a valid threshold.
pub fn is_threshold(value: f64) -> bool {
    (0.0..=1.0).contains(&value)
}

impl Serialize for Thresholds {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(
            AutomationGate::ALL
                .into_iter()
                .map(|gate| (gate, self.threshold(gate))),
        )
    }
}

impl<'de> Deserialize<'de> for Thresholds {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error as _;
        let given = BTreeMap::<AutomationGate, f64>::deserialize(deserializer)?;
        let mut values = [0.0; AutomationGate::ALL.len()];
        for (gate, threshold) in AutomationGate::ALL.into_iter().zip(&mut values) {
            *threshold = *given
                .get(&gate)
                .ok_or_else(|| D::Error::custom(format!("`{}` is missing", gate.as_str())))?;
        }
        Self::new(values).ok_or_else(|| D::Error::custom("a threshold is not from 0 to 1"))
    }
}

/// Limits on the actions that a plan takes without asking, in addition to the thresholds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AutomationGuard {
    /// Names or patterns of tools that the plan must not call.
    pub tool_denylist: Vec<String>,
    /// Names or patterns of the only tools that the plan may call; any tool when `None`.
    pub tool_allowlist: Option<Vec<String>>,
    /// Maximum number of tool calls per step of the plan.
    pub max_tool_calls_per_step: Option<u64>,
    /// Maximum total cost.
    #[serde(rename = "max_total_cost_micro_usd")]
    pub max_total_cost: Option<MicroUsd>,
    /// Whether the user must approve every call that changes something.
    pub require_approval_for_writes: bool,
    /// Whether the user must approve applying, regardless of the thresholds.
    pub require_approval_for_apply: bool,
}

/// Degree of automation of a plan: thresholds per gate, limits and retries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AutomationProfile {
    /// Name: one word for built-in profiles, `namespace/name` for others.
    pub name: String,
    /// Purpose, in one line.
    pub description: String,
    /// Required confidence per gate.
    pub thresholds: Thresholds,
    /// Whether changes are made only in a sandbox.
    pub require_sandbox: bool,
    /// Whether a checkpoint precedes each change.
    pub require_checkpoints: bool,
    /// Whether tools that declare themselves unsafe may run.
    pub allow_unsafe_tools: bool,
    /// Further limits.
    pub guards: Option<AutomationGuard>,
    /// Maximum number of retries of a step.
    pub max_retries: u32,
    /// Maximum number of attempts to fix failed validations.
    pub validation_retries: u32,
}

/// Default for [`AutomationProfile::max_retries`].
pub const DEFAULT_RETRIES: u32 = 3;

/// Name of the default profile.
pub const DEFAULT_PROFILE: &str = "supervised";

struct BuiltIn {
    name: &'static str,
    description: &'static str,
    /// In the order of the gates.
    thresholds: [f64; AutomationGate::ALL.len()],
    /// Whether sandbox and checkpoints are required.
    is_guarded: bool,
}

/// One row per profile; the columns are the gates in their order.
#[rustfmt::skip]
const BUILT_IN: [BuiltIn; 8] = [
    BuiltIn { name: "manual", description: "Human-driven", is_guarded: true,
        thresholds: [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0] },
    BuiltIn { name: "review", description: "Auto-phase, manual decisions", is_guarded: true,
        thresholds: [0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 1.0] },
    BuiltIn { name: "supervised", description: "Auto-plan, manual exec (default)", is_guarded: true,
        thresholds: [0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 1.0] },
    BuiltIn { name: "cautious", description: "Confidence-gated automation", is_guarded: true,
        thresholds: [0.7, 0.7, 1.0, 0.7, 0.7, 0.7, 0.9, 1.0, 0.7, 0.5, 0.9] },
    BuiltIn { name: "trusted", description: "Auto-exec, manual apply", is_guarded: true,
        thresholds: [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0] },
    BuiltIn { name: "auto", description: "Full auto except apply", is_guarded: true,
        thresholds: [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0] },
    BuiltIn { name: "ci", description: "Full auto, safe CI/CD", is_guarded: true,
        thresholds: [0.0; 11] },
    BuiltIn { name: "full-auto", description: "Complete automation", is_guarded: false,
        thresholds: [0.0; 11] },
];

impl AutomationProfile {
    /// Names of the built-in profiles, most cautious first.
    pub fn built_in_names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|profile| profile.name)
    }

    /// The built-in profiles, most cautious first.
    pub fn built_in() -> Vec<Self> {
        BUILT_IN.iter().map(Self::from).collect()
    }

    /// Returns the built-in profile with this name.
    pub fn find_built_in(name: &str) -> Option<Self> {
        BUILT_IN
            .iter()
            .find(|profile| profile.name == name)
            .map(Self::from)
    }

    /// The default profile.
    pub fn standard() -> Self {
        let standard = BUILT_IN
            .iter()
            .find(|profile| profile.name == DEFAULT_PROFILE);
        Self::from(standard.unwrap_or(&BUILT_IN[0]))
    }

    /// Whether the profile is built in.
    pub fn is_built_in(&self) -> bool {
        BUILT_IN.iter().any(|profile| profile.name == self.name)
    }
}

impl From<&BuiltIn> for AutomationProfile {
    fn from(built_in: &BuiltIn) -> Self {
        Self {
            name: built_in.name.to_owned(),
            description: built_in.description.to_owned(),
            thresholds: Thresholds(built_in.thresholds),
            require_sandbox: built_in.is_guarded,
            require_checkpoints: built_in.is_guarded,
            allow_unsafe_tools: false,
            guards: None,
            max_retries: DEFAULT_RETRIES,
            validation_retries: DEFAULT_RETRIES,
        }
    }
}

#[cfg(test)]
mod tests;
