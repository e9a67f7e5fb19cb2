//! The corrections of a plan.

use cleveragents_domain::PlanId;

use super::{PlanQueries, PlanQueryError};
use crate::plan::correction::{CorrectionAttempt, correction_attempts};

impl PlanQueries {
    /// The corrections of a plan, oldest first.
    pub fn corrections(&self, plan: PlanId) -> Result<Vec<CorrectionAttempt>, PlanQueryError> {
        Ok(self
            .engine
            .read(|reader| correction_attempts(reader, plan))?)
    }
}
