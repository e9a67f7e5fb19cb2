//! [`PlanStage`]: where a plan is, and [`Move`]: the only ways from one place to another.

use std::fmt;

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What a plan is about at a time.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum PlanPhase {
    /// It is thought out; nothing may change.
    Strategize,
    /// It is carried out in a sandbox.
    Execute,
    /// What it did is carried to the real resources.
    Apply,
}

impl PlanPhase {
    /// Every phase, in order.
    pub const ALL: [Self; 3] = [Self::Strategize, Self::Execute, Self::Apply];

    /// The phase as stored and printed.
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

/// The state of a plan as it is shown: that of its stage, or that it waits for input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlanState {
    /// Its phase has not started.
    Queued,
    /// Its phase runs, or was interrupted.
    Processing,
    /// Its phase is complete.
    Complete,
    /// Its phase failed.
    Errored,
    /// It was cancelled.
    Cancelled,
    /// Its changes are applied.
    Applied,
    /// Its changes cannot be applied as they are.
    Constrained,
    /// It waits for an approval, an answer or guidance.
    AwaitingInput,
}

impl PlanState {
    /// Every state.
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

    /// The state as printed.
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
        /// Phase and state of a plan in one: a pair that cannot be has no value.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum PlanStage { $($(#[$doc])* $variant,)+ }

        impl PlanStage {
            /// Every stage.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The phase.
            pub const fn phase(self) -> PlanPhase {
                match self { $(Self::$variant => PlanPhase::$phase,)+ }
            }

            /// The state within the phase, as stored and printed.
            pub const fn state(self) -> &'static str {
                self.shown_state().as_str()
            }

            /// The state within the phase.
            pub const fn shown_state(self) -> PlanState {
                match self { $(Self::$variant => PlanState::$state,)+ }
            }
        }
    };
}

stages! {
    /// To be thought out.
    StrategizeQueued = Strategize, Queued;
    /// Being thought out.
    StrategizeProcessing = Strategize, Processing;
    /// Thought out.
    StrategizeComplete = Strategize, Complete;
    /// Thinking it out failed.
    StrategizeErrored = Strategize, Errored;
    /// Given up while it was thought out.
    StrategizeCancelled = Strategize, Cancelled;
    /// To be carried out.
    ExecuteQueued = Execute, Queued;
    /// Being carried out.
    ExecuteProcessing = Execute, Processing;
    /// Carried out.
    ExecuteComplete = Execute, Complete;
    /// Carrying it out failed.
    ExecuteErrored = Execute, Errored;
    /// Given up while it was carried out.
    ExecuteCancelled = Execute, Cancelled;
    /// To be applied.
    ApplyQueued = Apply, Queued;
    /// Being applied.
    ApplyProcessing = Apply, Processing;
    /// Applied, the good end.
    ApplyApplied = Apply, Applied;
    /// Something stands in the way of applying it.
    ApplyConstrained = Apply, Constrained;
    /// Applying it failed; nothing was applied.
    ApplyErrored = Apply, Errored;
    /// Given up before it was applied.
    ApplyCancelled = Apply, Cancelled;
}

impl PlanStage {
    /// Reads the stored form, `phase/state`.
    pub fn from_stored(text: &str) -> Option<Self> {
        let (phase, state) = text.split_once('/')?;
        Self::ALL
            .iter()
            .copied()
            .find(|stage| stage.phase().as_str() == phase && stage.state() == state)
    }

    /// Whether nothing happens to it any more.
    pub const fn is_terminal(self) -> bool {
        matches!(
            self,
            Self::ApplyApplied
                | Self::StrategizeCancelled
                | Self::ExecuteCancelled
                | Self::ApplyCancelled
        )
    }

    /// Whether somebody works on it, or died doing so.
    pub const fn is_processing(self) -> bool {
        matches!(
            self,
            Self::StrategizeProcessing | Self::ExecuteProcessing | Self::ApplyProcessing
        )
    }

    /// Whether its phase failed.
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
            .ok_or_else(|| serde::de::Error::custom(format!("`{text}` is no stage of a plan")))
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

/// A way from one stage to another. There are no others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Move {
    /// Thinking begins.
    StartStrategize,
    /// There is a strategy.
    CompleteStrategize,
    /// Thinking failed.
    FailStrategize,
    /// A phase that failed is tried again.
    Retry,
    /// The strategy is to be carried out.
    QueueExecute,
    /// Carrying out begins.
    StartExecute,
    /// It is carried out.
    CompleteExecute,
    /// Carrying out failed.
    FailExecute,
    /// What was done is to be applied.
    QueueApply,
    /// Applying begins.
    StartApply,
    /// Everything is applied.
    CompleteApply,
    /// Something stands in the way of applying.
    Constrain,
    /// Applying failed, and nothing was applied.
    FailApply,
    /// Back to the strategy.
    Revert,
    /// Back into execution: there is something to mend, or what was done was taken back.
    Rework,
    /// It is given up.
    Cancel,
}

impl Move {
    /// Every move.
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

    /// Where the move leads from a stage; nothing when it cannot be made there.
    #[expect(
        clippy::match_same_arms,
        reason = "a row of the table of moves each; that two lead to the same place says nothing"
    )]
    pub const fn from(self, stage: PlanStage) -> Option<PlanStage> {
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
    use super::{Move, PlanStage};

    #[test]
    fn stages_survive_storing() {
        for stage in PlanStage::ALL {
            assert_eq!(PlanStage::from_stored(&stage.to_string()), Some(*stage));
        }
        assert_eq!(PlanStage::from_stored("strategize/applied"), None);
        assert_eq!(PlanStage::from_stored("execute"), None);
    }

    #[test]
    fn nothing_leads_out_of_an_end_and_everything_leads_to_one() {
        for stage in PlanStage::ALL.iter().copied() {
            let ways: Vec<PlanStage> = Move::ALL
                .into_iter()
                .filter_map(|way| way.from(stage))
                .collect();
            assert_eq!(ways.is_empty(), stage.is_terminal(), "{stage}");
            // Applied is reached through its own way only.
            let applying = Move::ALL
                .into_iter()
                .filter(|way| way.from(stage) == Some(PlanStage::ApplyApplied));
            for way in applying {
                assert_eq!(
                    (way, stage),
                    (Move::CompleteApply, PlanStage::ApplyProcessing)
                );
            }
        }
    }

    #[test]
    fn applied_cannot_be_reached_past_execution() {
        // Breadth first from the beginning without completing execution: apply is never entered.
        let mut seen = vec![PlanStage::StrategizeQueued];
        let mut at = 0;
        while at < seen.len() {
            for way in Move::ALL {
                if way == Move::CompleteExecute {
                    continue;
                }
                if let Some(next) = way.from(seen[at])
                    && !seen.contains(&next)
                {
                    seen.push(next);
                }
            }
            at += 1;
        }
        assert!(!seen.contains(&PlanStage::ApplyQueued));
        assert!(!seen.contains(&PlanStage::ApplyApplied));
    }
}
