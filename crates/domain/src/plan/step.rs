//! [`StepRecord`]: a step that a plan ran, and [`StepKind`]: the kind of its work.

use serde::Serialize;

use crate::{DecisionId, RunId, Timestamp};

macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident = $text:literal;)+) => {
        /// Kind of work of a step: the first segment of its path.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum StepKind { $($(#[$doc])* $variant,)+ }

        impl StepKind {
            /// All kinds.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// First segment of the paths of such steps.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }
        }
    };
}

kinds! {
    /// The strategist creates a strategy: `strategize/ATTEMPT`.
    Strategize = "strategize";
    /// The invariant actor checks a strategy: `invariants/ATTEMPT`.
    CheckInvariants = "invariants";
    /// The estimation actor estimates effort and cost: `estimate/ATTEMPT`.
    Estimate = "estimate";
    /// A step of the strategy: `step/ATTEMPT/NUMBER`.
    Step = "step";
    /// Guidance that came after the last step: `guidance/NUMBER`.
    Guidance = "guidance";
    /// Failed validations are fixed: `fix/ATTEMPT/NUMBER`.
    Fix = "fix";
    /// The reviewer checks criteria: `review/ATTEMPT/VALIDATION[/ROUND]`.
    Review = "review";
}

impl StepKind {
    /// Path of a step of this kind, which identifies it within its plan.
    pub fn path(self, numbers: &[u64]) -> String {
        let mut path = self.as_str().to_owned();
        for number in numbers {
            path.push('/');
            path.push_str(&number.to_string());
        }
        path
    }

    /// Kind of the step at a path.
    pub fn of_path(path: &str) -> Option<Self> {
        let first = path.split('/').next()?;
        Self::ALL
            .iter()
            .copied()
            .find(|kind| kind.as_str() == first)
    }
}

/// A step that a plan ran or runs.
#[derive(Debug, Clone, PartialEq)]
pub struct StepRecord {
    /// Number among all steps that the plan ever ran, including rolled-back ones.
    pub number: u64,
    /// Path, see [`StepKind`]. A step that is run again after a rollback has the same path.
    pub path: String,
    /// Title shown to users.
    pub title: String,
    /// Progress of the step.
    pub state: StepState,
    /// Run of the actor that works on the step.
    pub run: Option<RunId>,
    /// Sandbox checkpoint created before the step.
    pub checkpoint: Option<u64>,
    /// Length of the sandbox history before the step.
    pub position_before: u64,
    /// Length of the sandbox history after the step.
    pub position_after: Option<u64>,
    /// Answer of the actor, or the error text.
    pub summary: Option<String>,
    /// Decision recorded for the step.
    pub decision: Option<DecisionId>,
    /// Time of the latest start.
    pub started_at: Timestamp,
    /// Time of the end.
    pub finished_at: Option<Timestamp>,
    /// Number of the rollback that undid the step.
    pub undone_by: Option<u64>,
}

impl StepRecord {
    /// Kind of the step; `None` for paths of older versions.
    pub fn kind(&self) -> Option<StepKind> {
        StepKind::of_path(&self.path)
    }

    /// Whether the step is done and was not rolled back.
    pub fn is_done(&self) -> bool {
        self.state == StepState::Done && self.undone_by.is_none()
    }
}

/// Progress of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StepState {
    /// The step runs, or was interrupted.
    Running,
    Done,
    Failed,
}

impl StepState {
    /// Stored and printed name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }

    /// Parses the stored name.
    pub fn from_stored(text: &str) -> Option<Self> {
        [Self::Running, Self::Done, Self::Failed]
            .into_iter()
            .find(|state| state.as_str() == text)
    }
}

#[cfg(test)]
mod tests {
    use super::StepKind;

    #[test]
    fn a_path_names_its_kind() {
        for kind in StepKind::ALL.iter().copied() {
            assert_eq!(StepKind::of_path(&kind.path(&[1, 2])), Some(kind));
        }
        assert_eq!(StepKind::Step.path(&[1, 2]), "step/1/2");
        assert_eq!(StepKind::of_path("steps/1"), None);
        assert_eq!(StepKind::of_path(""), None);
    }
}
