//! [`PlanStage`]: where a plan is, and [`Move`]: the only ways from one place to another.

use std::fmt;

use serde::{Serialize, Serializer};

/// What a plan is about at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
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

macro_rules! stages {
    ($($(#[$doc:meta])* $variant:ident = $phase:ident, $state:literal;)+) => {
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
                match self { $(Self::$variant => $state,)+ }
            }
        }
    };
}

stages! {
    /// To be thought out.
    StrategizeQueued = Strategize, "queued";
    /// Being thought out.
    StrategizeProcessing = Strategize, "processing";
    /// Thought out.
    StrategizeComplete = Strategize, "complete";
    /// Thinking it out failed.
    StrategizeErrored = Strategize, "errored";
    /// Given up while it was thought out.
    StrategizeCancelled = Strategize, "cancelled";
    /// To be carried out.
    ExecuteQueued = Execute, "queued";
    /// Being carried out.
    ExecuteProcessing = Execute, "processing";
    /// Carried out.
    ExecuteComplete = Execute, "complete";
    /// Carrying it out failed.
    ExecuteErrored = Execute, "errored";
    /// Given up while it was carried out.
    ExecuteCancelled = Execute, "cancelled";
    /// To be applied.
    ApplyQueued = Apply, "queued";
    /// Being applied.
    ApplyProcessing = Apply, "processing";
    /// Applied, the good end.
    ApplyApplied = Apply, "applied";
    /// Something stands in the way of applying it.
    ApplyConstrained = Apply, "constrained";
    /// Applying it failed; nothing was applied.
    ApplyErrored = Apply, "errored";
    /// Given up before it was applied.
    ApplyCancelled = Apply, "cancelled";
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
