//! [`AutomationProfile`]: how much a plan does by itself, gate by gate, and the eight that are part
//! of the program.
//!
//! A plan passes a gate by itself when its [`Confidence`](crate::Confidence) is at least the
//! threshold there; 0 means always, 1 means never. In files gates have the names of the original system
//! (`create_tool`), in code those of what they open.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{MicroUsd, PlanPhase};

/// A point at which a plan either goes on by itself or asks a person.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum AutomationGate {
    /// Before the strategy is made.
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
    /// Before going back from applying to execution.
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

/// What a plan may do once a gate opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GateAction {
    /// Make the strategy.
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
    /// The phase that the action starts; nothing for actions within a phase.
    pub const fn phase(self) -> Option<PlanPhase> {
        match self {
            Self::Strategize => Some(PlanPhase::Strategize),
            Self::Execute => Some(PlanPhase::Execute),
            Self::Apply => Some(PlanPhase::Apply),
            Self::Fix | Self::Retry | Self::Revise => None,
        }
    }
}

/// Which gates are shown together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateGroup {
    /// Going from one phase to the next.
    PhaseTransitions,
    /// Deciding.
    DecisionAutomation,
    /// Mending what went wrong.
    SelfRepair,
    /// What an execution may do beside its steps.
    ExecutionControls,
}

impl GateGroup {
    /// All groups, in the order in which they are shown.
    pub const ALL: [Self; 4] = [
        Self::PhaseTransitions,
        Self::DecisionAutomation,
        Self::SelfRepair,
        Self::ExecutionControls,
    ];

    /// The group in words for programs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PhaseTransitions => "phase_transitions",
            Self::DecisionAutomation => "decision_automation",
            Self::SelfRepair => "self_repair",
            Self::ExecutionControls => "execution_controls",
        }
    }

    /// Its gates, in their order.
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

    /// What it stands before, in words.
    pub const fn gates(self) -> &'static str {
        match self {
            Self::Strategize => "beginning the strategy",
            Self::StartExecution => "going from the strategy to its execution",
            Self::Apply => "going from the execution to applying",
            Self::StrategyDecision => "decisions while the strategy is made",
            Self::ExecutionDecision => "decisions while it is executed",
            Self::FixValidations => "mending what failed validations found",
            Self::ReviseStrategy => "going back from the execution to a new strategy",
            Self::ReturnToExecution => "going back from applying",
            Self::StartChildPlans => "beginning child plans (no effect yet)",
            Self::RetryStep => "trying again what failed for a passing reason",
            Self::RestoreCheckpoint => "restoring a checkpoint (no effect yet)",
        }
    }

    /// Why the gate has no effect, for those that stand before something that no plan does by itself.
    pub const fn idle_because(self) -> Option<&'static str> {
        match self {
            Self::StartChildPlans => Some("plans begin no child plans"),
            Self::RestoreCheckpoint => {
                Some("a plan restores a checkpoint only when a person asks for it")
            }
            _ => None,
        }
    }

    /// The group it is shown in.
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
    /// Thresholds in the order of [`AutomationGate::ALL`]. `None` when one is not from 0 to 1.
    pub fn new(values: [f64; AutomationGate::ALL.len()]) -> Option<Self> {
        values
            .iter()
            .all(|value| is_threshold(*value))
            .then_some(Self(values))
    }

    /// The threshold of a gate.
    pub const fn threshold(&self, gate: AutomationGate) -> f64 {
        // A gate is its own place in the list.
        self.0[gate as usize]
    }
}

/// Whether a number can be a threshold.
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
        for (gate, place) in AutomationGate::ALL.into_iter().zip(&mut values) {
            *place = *given
                .get(&gate)
                .ok_or_else(|| D::Error::custom(format!("`{}` is missing", gate.as_str())))?;
        }
        Self::new(values).ok_or_else(|| D::Error::custom("a threshold is not from 0 to 1"))
    }
}

/// Limits of what a plan does by itself, beside the thresholds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AutomationGuard {
    /// Tools that it may not call, by names or patterns.
    pub tool_denylist: Vec<String>,
    /// The only tools that it may call; any when there is no list.
    pub tool_allowlist: Option<Vec<String>>,
    /// How many tools it may call in one step of the plan.
    pub max_tool_calls_per_step: Option<u64>,
    /// What it may cost altogether.
    #[serde(rename = "max_total_cost_micro_usd")]
    pub max_total_cost: Option<MicroUsd>,
    /// Whether a person agrees to every call that changes something.
    pub require_approval_for_writes: bool,
    /// Whether a person agrees to applying, whatever the thresholds say.
    pub require_approval_for_apply: bool,
}

/// How much a plan does by itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AutomationProfile {
    /// Its name: one word for those of the program, `namespace/name` for others.
    pub name: String,
    /// What it is for, in a line.
    pub description: String,
    /// How sure a plan must be, gate by gate.
    pub thresholds: Thresholds,
    /// Whether changes are made in a sandbox only.
    pub require_sandbox: bool,
    /// Whether a checkpoint comes before each change.
    pub require_checkpoints: bool,
    /// Whether tools may run that call themselves unsafe.
    pub allow_unsafe_tools: bool,
    /// Further limits.
    pub guards: Option<AutomationGuard>,
    /// How often a step is tried again.
    pub max_retries: u32,
    /// How often what failed validations found is mended.
    pub validation_retries: u32,
}

/// How often a step is tried again when nothing else is said.
pub const DEFAULT_RETRIES: u32 = 3;

/// The profile of plans for which nobody named one.
pub const DEFAULT_PROFILE: &str = "supervised";

/// A profile of the program.
struct BuiltIn {
    name: &'static str,
    description: &'static str,
    /// In the order of the gates.
    thresholds: [f64; AutomationGate::ALL.len()],
    /// Whether sandbox and checkpoints are demanded.
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
    /// The names of the profiles of the program, the most careful first.
    pub fn built_in_names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|profile| profile.name)
    }

    /// The profiles of the program, the most careful first.
    pub fn built_in() -> Vec<Self> {
        BUILT_IN.iter().map(Self::from).collect()
    }

    /// A profile of the program.
    pub fn find_built_in(name: &str) -> Option<Self> {
        BUILT_IN
            .iter()
            .find(|profile| profile.name == name)
            .map(Self::from)
    }

    /// The profile of plans for which nobody named one.
    pub fn standard() -> Self {
        let standard = BUILT_IN
            .iter()
            .find(|profile| profile.name == DEFAULT_PROFILE);
        Self::from(standard.unwrap_or(&BUILT_IN[0]))
    }

    /// Whether it is part of the program.
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
