//! [`PlanReport`]: the typed result that a plan reports to the program.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The typed result that an actor of a plan reports with a tool. The program acts only on this result, never on prose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlanReport {
    /// Defects of a module.
    Findings,
    /// Decisions about a work item.
    Triage,
    /// A verdict on the change of another plan.
    Verdict,
    /// A failing test, in addition to the files that the plan changes.
    Test,
}

impl PlanReport {
    /// Whether the report is the whole result: the plan changes no file, and its strategy has no steps.
    pub const fn is_whole_result(self) -> bool {
        !matches!(self, Self::Test)
    }
}
