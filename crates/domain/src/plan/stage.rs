//! [`PlanStage`]: phase and state of a plan, and [`StageTransition`]: the only transitions between stages.

use std::fmt;

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A phase of a plan.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum PlanPhase {
    /// The strategy is created; nothing may change.
    Strategize,
    /// The steps run in a sandbox.
    Execute,
    /// The result is applied to the real resources.
    Apply,
}

impl PlanPhase {
    /// All phases, in order.
    pub const ALL: [Self; 3] = [Self::Strategize, Self::Execute, Self::Apply];

    /// Stored and printed name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Strategize => "strategize",
            Self::Execute => "execute",
            Self::Apply => "apply",
        }
    }
}

impl fmt::Display for PlanPhase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// The state of a plan as users see it: the state of its stage, or `awaiting_input`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlanState {
    /// The phase has not started.
    Queued,
    /// The phase runs, or was interrupted.
    Processing,
    /// The phase is complete.
    Complete,
    /// The phase failed.
    Errored,
    /// The plan was cancelled.
    Cancelled,
    /// The changes are applied.
    Applied,
    /// A precondition of applying is not met.
    Constrained,
    /// The plan waits for an approval, an answer or guidance.
    AwaitingInput,
}

impl PlanState {
    /// All states.
    pub const ALL: [Self; 8] = [
        Self::Queued,
        Self::Processing,
        Self::Complete,
        Self::Errored,
        Self::Cancelled,
        Self::Applied,
        Self::Constrained,
        Self::AwaitingInput,
    ];

    /// Printed name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Processing => "processing",
            Self::Complete => "complete",
            Self::Errored => "errored",
            Self::Cancelled => "cancelled",
            Self::Applied => "applied",
            Self::Constrained => "constrained",
            Self::AwaitingInput => "awaiting_input",
        }
    }
}

impl fmt::Display for PlanState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

macro_rules! stages {
    ($($(#[$doc:meta])* $variant:ident = $phase:ident, $state:ident;)+) => {
        /// Phase and state of a plan. Impossible combinations have no value.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum PlanStage { $($(#[$doc])* $variant,)+ }

        impl PlanStage {
            /// All stages.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Phase of the stage.
            pub const fn phase(self) -> PlanPhase {
                match self { $(Self::$variant => PlanPhase::$phase,)+ }
            }

            /// Stored and printed name of the state within the phase.
            pub const fn state(self) -> &'static str {
                self.shown_state().as_str()
            }

            /// State within the phase.
            pub const fn shown_state(self) -> PlanState {
                match self { $(Self::$variant => PlanState::$state,)+ }
            }
        }
    };
}

stages! {
    /// The plan waits for its strategy.
    StrategizeQueued = Strategize, Queued;
    /// The strategist runs, or was interrupted.
    StrategizeProcessing = Strategize, Processing;
    /// The strategy is ready.
    StrategizeComplete = Strategize, Complete;
    /// Strategizing failed.
    StrategizeErrored = Strategize, Errored;
    /// The plan was cancelled before it was executed.
    StrategizeCancelled = Strategize, Cancelled;
    /// The plan waits for its execution.
    ExecuteQueued = Execute, Queued;
    /// Steps run, or were interrupted.
    ExecuteProcessing = Execute, Processing;
    /// All steps are done and validated.
    ExecuteComplete = Execute, Complete;
    /// A step or a validation failed.
    ExecuteErrored = Execute, Errored;
    /// The plan was cancelled during or after its execution.
    ExecuteCancelled = Execute, Cancelled;
    /// The plan waits to be applied.
    ApplyQueued = Apply, Queued;
    /// The plan is being applied, or the apply was interrupted.
    ApplyProcessing = Apply, Processing;
    /// The plan is applied.
    ApplyApplied = Apply, Applied;
    /// A precondition of applying is not met.
    ApplyConstrained = Apply, Constrained;
    /// The apply failed; nothing was applied.
    ApplyErrored = Apply, Errored;
    /// The plan was cancelled before it was applied.
    ApplyCancelled = Apply, Cancelled;
}

impl PlanStage {
    /// Parses the stored form, `phase/state`.
    pub fn from_stored(text: &str) -> Option<Self> {
        let (phase, state) = text.split_once('/')?;
        Self::ALL
            .iter()
            .copied()
            .find(|stage| stage.phase().as_str() == phase && stage.state() == state)
    }

    /// Whether the plan is finished: applied or cancelled.
    pub const fn is_terminal(self) -> bool {
        matches!(
            self,
            Self::ApplyApplied
                | Self::StrategizeCancelled
                | Self::ExecuteCancelled
                | Self::ApplyCancelled
        )
    }

    /// The phase whose gate a plan passes when it leaves this stage; `None` for stages without a gate.
    pub const fn gated_phase(self) -> Option<PlanPhase> {
        match self {
            Self::StrategizeQueued => Some(PlanPhase::Strategize),
            Self::StrategizeComplete => Some(PlanPhase::Execute),
            Self::ExecuteComplete => Some(PlanPhase::Apply),
            _ => None,
        }
    }

    /// Whether the phase runs, or was interrupted.
    pub const fn is_processing(self) -> bool {
        matches!(
            self,
            Self::StrategizeProcessing | Self::ExecuteProcessing | Self::ApplyProcessing
        )
    }

    /// Whether the phase failed.
    pub const fn is_errored(self) -> bool {
        matches!(
            self,
            Self::StrategizeErrored | Self::ExecuteErrored | Self::ApplyErrored
        )
    }
}

impl fmt::Display for PlanStage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.phase(), self.state())
    }
}

impl Serialize for PlanStage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PlanStage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        Self::from_stored(&text)
            .ok_or_else(|| serde::de::Error::custom(format!("`{text}` is not a stage of a plan")))
    }
}

impl JsonSchema for PlanStage {
    fn schema_name() -> Cow<'static, str> {
        "PlanStage".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let stages: Vec<String> = Self::ALL.iter().map(ToString::to_string).collect();
        json_schema!({"type": "string", "enum": stages})
    }
}

/// A transition between stages. No other changes are possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StageTransition {
    /// The strategist starts.
    StartStrategize,
    /// The strategy is stored.
    CompleteStrategize,
    FailStrategize,
    /// A failed phase is retried.
    Retry,
    /// The strategy is approved for execution.
    QueueExecute,
    /// The first step starts.
    StartExecute,
    /// All steps are done and validated.
    CompleteExecute,
    /// A step or a validation failed.
    FailExecute,
    /// The result is approved for applying.
    QueueApply,
    StartApply,
    /// Everything is applied.
    CompleteApply,
    /// A precondition of applying is not met.
    Constrain,
    /// Applying failed, and nothing was applied.
    FailApply,
    /// The plan returns to its strategy.
    Revert,
    /// The plan returns to execution: something needs fixing, or the plan was rolled back.
    Rework,
    /// The plan is cancelled.
    Cancel,
}

impl StageTransition {
    /// All transitions.
    pub const ALL: [Self; 16] = [
        Self::StartStrategize,
        Self::CompleteStrategize,
        Self::FailStrategize,
        Self::Retry,
        Self::QueueExecute,
        Self::StartExecute,
        Self::CompleteExecute,
        Self::FailExecute,
        Self::QueueApply,
        Self::StartApply,
        Self::CompleteApply,
        Self::Constrain,
        Self::FailApply,
        Self::Revert,
        Self::Rework,
        Self::Cancel,
    ];

    /// The stage after the transition; `None` when it is not allowed from `stage`.
    #[expect(
        clippy::match_same_arms,
        reason = "each arm is a row of the transition table, and two rows may share a target"
    )]
    pub const fn target(self, stage: PlanStage) -> Option<PlanStage> {
        use PlanStage as S;
        Some(match (self, stage) {
            (Self::StartStrategize, S::StrategizeQueued) => S::StrategizeProcessing,
            (Self::CompleteStrategize, S::StrategizeProcessing) => S::StrategizeComplete,
            (Self::FailStrategize, S::StrategizeProcessing) => S::StrategizeErrored,
            (Self::Retry, S::StrategizeErrored) => S::StrategizeQueued,
            (Self::Retry, S::ExecuteErrored) => S::ExecuteQueued,
            (Self::Retry, S::ApplyErrored | S::ApplyConstrained) => S::ApplyQueued,
            (Self::QueueExecute, S::StrategizeComplete) => S::ExecuteQueued,
            (Self::StartExecute, S::ExecuteQueued) => S::ExecuteProcessing,
            (Self::CompleteExecute, S::ExecuteProcessing) => S::ExecuteComplete,
            (Self::FailExecute, S::ExecuteProcessing) => S::ExecuteErrored,
            (Self::QueueApply, S::ExecuteComplete) => S::ApplyQueued,
            (Self::StartApply, S::ApplyQueued) => S::ApplyProcessing,
            (Self::CompleteApply, S::ApplyProcessing) => S::ApplyApplied,
            (Self::Constrain, S::ApplyQueued | S::ApplyProcessing) => S::ApplyConstrained,
            (Self::FailApply, S::ApplyProcessing) => S::ApplyErrored,
            (
                Self::Revert,
                S::StrategizeComplete
                | S::StrategizeErrored
                | S::ExecuteQueued
                | S::ExecuteProcessing
                | S::ExecuteComplete
                | S::ExecuteErrored
                | S::ApplyQueued
                | S::ApplyConstrained
                | S::ApplyErrored,
            ) => S::StrategizeQueued,
            (
                Self::Rework,
                S::ExecuteQueued
                | S::ExecuteProcessing
                | S::ExecuteComplete
                | S::ExecuteErrored
                | S::ApplyQueued
                | S::ApplyConstrained
                | S::ApplyErrored,
            ) => S::ExecuteQueued,
            (Self::Cancel, stage) if !stage.is_terminal() => match stage.phase() {
                PlanPhase::Strategize => S::StrategizeCancelled,
                PlanPhase::Execute => S::ExecuteCancelled,
                PlanPhase::Apply => S::ApplyCancelled,
            },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{PlanStage, StageTransition};

    #[test]
    fn stages_round_trip_through_storage() {
        for stage in PlanStage::ALL {
            assert_eq!(PlanStage::from_stored(&stage.to_string()), Some(*stage));
        }
        assert_eq!(PlanStage::from_stored("strategize/applied"), None);
        assert_eq!(PlanStage::from_stored("execute"), None);
    }

    #[test]
    fn exactly_the_terminal_stages_have_no_transition() {
        for stage in PlanStage::ALL.iter().copied() {
            let targets: Vec<PlanStage> = StageTransition::ALL
                .into_iter()
                .filter_map(|transition| transition.target(stage))
                .collect();
            assert_eq!(targets.is_empty(), stage.is_terminal(), "{stage}");
            // Only `CompleteApply` leads to the applied stage.
            let applying = StageTransition::ALL
                .into_iter()
                .filter(|transition| transition.target(stage) == Some(PlanStage::ApplyApplied));
            for transition in applying {
                assert_eq!(
                    (transition, stage),
                    (StageTransition::CompleteApply, PlanStage::ApplyProcessing)
                );
            }
        }
    }

    #[test]
    fn apply_is_unreachable_without_a_completed_execution() {
        // Breadth-first search from the initial stage without completing execution: apply is never reached.
        let mut seen = vec![PlanStage::StrategizeQueued];
        let mut index = 0;
        while index < seen.len() {
            for transition in StageTransition::ALL {
                if transition == StageTransition::CompleteExecute {
                    continue;
                }
                if let Some(next) = transition.target(seen[index])
                    && !seen.contains(&next)
                {
                    seen.push(next);
                }
            }
            index += 1;
        }
        assert!(!seen.contains(&PlanStage::ApplyQueued));
        assert!(!seen.contains(&PlanStage::ApplyApplied));
    }
}
