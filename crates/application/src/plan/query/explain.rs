//! [`Explanation`]: one decision with its alternatives and its consequences.

use std::collections::{BTreeSet, HashMap};

use cleveragents_domain::{Decision, DecisionId, DecisionType, Plan};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PlanQueries, PlanQueryError};
use crate::plan::validate::FailedCheck;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Alternative {
    /// Its number, from 1.
    pub index: usize,
    /// Its text.
    pub description: String,
    /// Whether it was chosen.
    pub chosen: bool,
}

/// The amount of work to repeat if a decision were changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CorrectionImpact {
    /// No or few consequences.
    Low,
    /// Some decisions, paths or a child plan follow from it.
    Medium,
    /// Many consequences.
    High,
}

impl CorrectionImpact {
    /// The impact as shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }

    /// Up to two consequences are low, up to ten are medium; a child plan is never low.
    const fn classify(things: usize, child_plans: usize) -> Self {
        match (things, child_plans) {
            (0..=2, 0) => Self::Low,
            (0..=10, 0..=1) => Self::Medium,
            _ => Self::High,
        }
    }
}

/// The consequences of a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Impact {
    /// Decisions below it or influenced by it, recursively.
    pub downstream_decisions: usize,
    /// Child plans among them.
    pub downstream_child_plans: usize,
    /// Paths that changed because of these decisions.
    pub artifacts_produced: usize,
    /// The size of the consequences.
    pub correction_impact: CorrectionImpact,
}

/// One decision, explained.
#[derive(Debug)]
pub struct Explanation {
    pub plan: Plan,
    /// The decision, with those that influenced it.
    pub decision: Decision,
    /// The number of decisions of the plan.
    pub count: usize,
    /// The alternatives, the chosen one first.
    pub alternatives: Vec<Alternative>,
    /// Its consequences.
    pub impact: Impact,
    /// Paths changed because of the decision.
    pub artifacts: Vec<String>,
    /// The validations of the plan whose last result did not pass.
    pub failed_checks: Vec<FailedCheck>,
}

impl PlanQueries {
    /// Explains a decision, or the root decision of a plan.
    pub fn explain(&self, reference: &str) -> Result<Explanation, PlanQueryError> {
        let missing = match self.resolve_decision(reference) {
            Ok(found) => return self.explained(self.get(found.plan)?, found.said.id),
            Err(error @ PlanQueryError::DecisionNotFound { .. }) => error,
            Err(error) => return Err(error),
        };
        match self.resolve(reference) {
            Ok(plan) => match plan.decision_root {
                Some(root) => self.explained(plan, root),
                None => Err(PlanQueryError::NotReady {
                    id: plan.id,
                    stage: plan.stage,
                    why: "it has no decisions yet".to_owned(),
                }),
            },
            Err(PlanQueryError::NotFound { .. }) => Err(missing),
            Err(error) => Err(error),
        }
    }

    fn explained(&self, plan: Plan, id: DecisionId) -> Result<Explanation, PlanQueryError> {
        let decisions = self.decisions(plan.id)?;
        let Some(at) = decisions.iter().position(|one| one.said.id == id) else {
            return Err(PlanQueryError::DecisionNotFound {
                reference: id.to_string(),
                candidates: Vec::new(),
            });
        };
        let downstream = downstream(&decisions, at);
        let mut artifacts: BTreeSet<&str> = BTreeSet::new();
        let mut child_plans = 0;
        for one in downstream.iter().copied().chain([at]) {
            let said = &decisions[one].said;
            artifacts.extend(said.artifacts.iter().map(String::as_str));
            child_plans += usize::from(said.kind == DecisionType::SubplanSpawn);
        }
        let things = downstream.len() + artifacts.len();
        let impact = Impact {
            downstream_decisions: downstream.len(),
            downstream_child_plans: child_plans,
            artifacts_produced: artifacts.len(),
            correction_impact: CorrectionImpact::classify(things, child_plans),
        };
        let artifacts = artifacts.into_iter().map(str::to_owned).collect();
        let decision = decisions[at].clone();
        Ok(Explanation {
            alternatives: alternatives(&decision),
            failed_checks: self.failed_checks(plan.id)?,
            count: decisions.len(),
            plan,
            decision,
            impact,
            artifacts,
        })
    }
}

/// All valid decisions that follow from a decision: below it, or influenced by it.
fn downstream(decisions: &[Decision], start: usize) -> Vec<usize> {
    let places: HashMap<DecisionId, usize> = decisions
        .iter()
        .enumerate()
        .map(|(at, decision)| (decision.said.id, at))
        .collect();
    let mut follows: Vec<Vec<usize>> = vec![Vec::new(); decisions.len()];
    for (at, decision) in decisions.iter().enumerate() {
        for from in decision
            .said
            .parent
            .iter()
            .chain(&decision.said.influenced_by)
        {
            if let Some(from) = places.get(from) {
                follows[*from].push(at);
            }
        }
    }
    let mut is_seen = vec![false; decisions.len()];
    is_seen[start] = true;
    let mut ahead = vec![start];
    let mut found = Vec::new();
    while let Some(at) = ahead.pop() {
        for next in &follows[at] {
            if !std::mem::replace(&mut is_seen[*next], true) {
                ahead.push(*next);
                if decisions[*next].holds() {
                    found.push(*next);
                }
            }
        }
    }
    found
}

fn alternatives(decision: &Decision) -> Vec<Alternative> {
    let said = &decision.said;
    let others = said
        .alternatives
        .iter()
        .filter(|other| **other != said.chosen);
    std::iter::once(&said.chosen)
        .chain(others)
        .enumerate()
        .map(|(number, description)| Alternative {
            index: number + 1,
            description: description.clone(),
            chosen: number == 0,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{CorrectionImpact, downstream};
    use crate::plan::query::tree::tests::decisions;

    #[test]
    fn decisions_with_several_causes_are_downstream_of_each() {
        let mut all = decisions(&[None, Some(0), Some(0), Some(2), Some(3)]);
        let first = all[1].said.id;
        all[3].said.influenced_by.push(first);
        let found = |all: &[_], at: usize| {
            let mut found = downstream(all, at);
            found.sort_unstable();
            found
        };
        assert_eq!(found(&all, 1), [3, 4]);
        assert_eq!(found(&all, 0), [1, 2, 3, 4]);
        assert!(found(&all, 4).is_empty());
        all[4].undone_by = Some(1);
        assert_eq!(found(&all, 1), [3], "rolled back decisions do not count");
    }

    #[test]
    fn a_child_plan_is_never_little() {
        assert_eq!(CorrectionImpact::classify(2, 0), CorrectionImpact::Low);
        assert_eq!(CorrectionImpact::classify(3, 0), CorrectionImpact::Medium);
        assert_eq!(CorrectionImpact::classify(0, 1), CorrectionImpact::Medium);
        assert_eq!(CorrectionImpact::classify(11, 0), CorrectionImpact::High);
        assert_eq!(CorrectionImpact::classify(0, 2), CorrectionImpact::High);
    }
}
