//! Child plans of a plan, and the conflicts of their merge.

use cleveragents_domain::{ChildPlan, FileState, Plan, PlanId, StoredConflict};
use cleveragents_sandbox::apply::Side;
use cleveragents_store::child_plans;

use super::{PlanQueries, PlanQueryError};
use crate::sandbox::SandboxView;

impl PlanQueries {
    /// The places of the child plans of a plan, in the order of their numbers.
    pub fn child_places(&self, parent: PlanId) -> Result<Vec<ChildPlan>, PlanQueryError> {
        Ok(self
            .engine
            .read(|reader| child_plans::of_plan(reader, parent))?)
    }

    /// The place of a plan in its parent; `None` if it is not a child plan.
    pub fn place_in_parent(&self, plan: PlanId) -> Result<Option<ChildPlan>, PlanQueryError> {
        Ok(self.engine.read(|reader| child_plans::get(reader, plan))?)
    }

    /// The position of every child plan in its parent.
    pub(in crate::plan) fn child_numbers(&self) -> Result<Vec<(PlanId, u64)>, PlanQueryError> {
        Ok(self.engine.read(child_plans::numbers)?)
    }

    /// The conflicts between the child plans of a plan, in the order in which the child plans are merged.
    pub fn conflicts(&self, parent: PlanId) -> Result<Vec<StoredConflict>, PlanQueryError> {
        Ok(self
            .engine
            .read(|reader| child_plans::conflicts(reader, parent))?)
    }

    /// The content of the states of conflicts of a plan.
    pub(in crate::plan) fn conflict_content(
        &self,
        plan: &Plan,
    ) -> Result<ConflictContent, PlanQueryError> {
        Ok(ConflictContent(self.sandbox(plan)?))
    }
}

/// Reads the content of conflicts from the sandbox of the parent.
pub(in crate::plan) struct ConflictContent(Option<SandboxView>);

impl ConflictContent {
    /// A state with the beginning of its content; `None` if the content was deleted with the sandbox.
    pub(in crate::plan) fn side(&self, alias: &str, state: &FileState) -> Option<Side> {
        let mut members = self.0.as_ref()?.members.iter();
        let member = members.find(|member| member.alias == alias)?;
        member.side(state).ok()
    }

    /// Whether the sandbox has several parts.
    pub(in crate::plan) fn has_several_parts(&self) -> bool {
        self.0.as_ref().is_some_and(|view| view.members.len() > 1)
    }
}
