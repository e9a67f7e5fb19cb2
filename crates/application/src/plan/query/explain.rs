//! [`Explanation`]: one decision with its alternatives and its consequences.

use std::collections::{BTreeSet, HashMap};

use cleveragents_domain::{Decision, DecisionId, DecisionType, Plan};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PlanQueries, PlanQueryError};
use crate::plan::validate::FailedCheck;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Alternative {
    /// Number of the alternative, from 1.
    pub index: usize,
    pub description: String,
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

    /// Up to two consequences are low, up to ten are medium. A child plan is at least medium, several are high.
    const fn classify(consequences: usize, child_plans: usize) -> Self {
        match (consequences, child_plans) {
            (0..=2, 0) => Self::Low,
            (0..=10, 0..=1) => Self::Medium,
            _ => Self::High,
        }
    }
}

/// The consequences of a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Impact {
    /// Number of decisions below the decision or influenced by it, recursively.
    pub downstream_decisions: usize,
    /// Number of child plans that the decision or these decisions start.
    pub downstream_child_plans: usize,
    /// Number of paths that changed because of the decision or these decisions.
    pub artifacts_produced: usize,
    /// Rating of the number of consequences.
    pub correction_impact: CorrectionImpact,
}

/// One decision with its alternatives, impact and changed paths.
#[derive(Debug)]
pub struct Explanation {
    pub plan: Plan,
    /// The decision, with the ids of the decisions that influenced it.
    pub decision: Decision,
    /// The number of decisions of the plan.
    pub count: usize,
    /// The alternatives, the chosen one first.
    pub alternatives: Vec<Alternative>,
    pub impact: Impact,
    /// Paths changed because of the decision.
    pub artifacts: Vec<String>,
    /// The validations of the plan that failed in their last run.
    pub failed_checks: Vec<FailedCheck>,
}

impl PlanQueries {
    /// Explains a decision, or the root decision of a plan.
    pub fn explain(&self, reference: &str) -> Result<Explanation, PlanQueryError> {
        let missing = match self.resolve_decision(reference) {
            Ok(decision) => {
                return self.explain_decision(self.get(decision.plan)?, decision.content.id);
            }
            Err(error @ PlanQueryError::DecisionNotFound { .. }) => error,
            Err(error) => return Err(error),
        };
        match self.resolve(reference) {
            Ok(plan) => match plan.decision_root {
                Some(root) => self.explain_decision(plan, root),
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

    fn explain_decision(&self, plan: Plan, id: DecisionId) -> Result<Explanation, PlanQueryError> {
        let decisions = self.decisions(plan.id)?;
        let Some(at) = decisions.iter().position(|known| known.content.id == id) else {
            return Err(PlanQueryError::DecisionNotFound {
                reference: id.to_string(),
                candidates: Vec::new(),
            });
        };
        let downstream = downstream(&decisions, at);
        let mut artifacts: BTreeSet<&str> = BTreeSet::new();
        let mut child_plans = 0;
        for index in downstream.iter().copied().chain([at]) {
            let content = &decisions[index].content;
            artifacts.extend(content.artifacts.iter().map(String::as_str));
            child_plans += usize::from(content.kind == DecisionType::SubplanSpawn);
        }
        let consequences = downstream.len() + artifacts.len();
        let impact = Impact {
            downstream_decisions: downstream.len(),
            downstream_child_plans: child_plans,
            artifacts_produced: artifacts.len(),
            correction_impact: CorrectionImpact::classify(consequences, child_plans),
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

/// Indices of all valid decisions that follow from a decision: below it or influenced by it, recursively.
pub(crate) fn downstream(decisions: &[Decision], start: usize) -> Vec<usize> {
    let indices: HashMap<DecisionId, usize> = decisions
        .iter()
        .enumerate()
        .map(|(at, decision)| (decision.content.id, at))
        .collect();
    let mut follows: Vec<Vec<usize>> = vec![Vec::new(); decisions.len()];
    for (at, decision) in decisions.iter().enumerate() {
        for from in decision
            .content
            .parent
            .iter()
            .chain(&decision.content.influenced_by)
        {
            if let Some(from) = indices.get(from) {
                follows[*from].push(at);
            }
        }
    }
    let mut is_seen = vec![false; decisions.len()];
    is_seen[start] = true;
    let mut pending = vec![start];
    let mut following = Vec::new();
    while let Some(at) = pending.pop() {
        for next in &follows[at] {
            if !std::mem::replace(&mut is_seen[*next], true) {
                pending.push(*next);
                if decisions[*next].holds() {
                    following.push(*next);
                }
            }
        }
    }
    following
}

fn alternatives(decision: &Decision) -> Vec<Alternative> {
    let content = &decision.content;
    let others = content
        .alternatives
        .iter()
        .filter(|other| **other != content.chosen);
    std::iter::once(&content.chosen)
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
        let first = all[1].content.id;
        all[3].content.influenced_by.push(first);
        let downstream_of = |all: &[_], at: usize| {
            let mut indices = downstream(all, at);
            indices.sort_unstable();
            indices
        };
        assert_eq!(downstream_of(&all, 1), [3, 4]);
        assert_eq!(downstream_of(&all, 0), [1, 2, 3, 4]);
        assert!(downstream_of(&all, 4).is_empty());
        all[4].undone_by = Some(1);
        assert_eq!(
            downstream_of(&all, 1),
            [3],
            "rolled-back decisions do not count"
        );
    }

    #[test]
    fn a_child_plan_never_has_low_impact() {
        assert_eq!(CorrectionImpact::classify(2, 0), CorrectionImpact::Low);
        assert_eq!(CorrectionImpact::classify(3, 0), CorrectionImpact::Medium);
        assert_eq!(CorrectionImpact::classify(0, 1), CorrectionImpact::Medium);
        assert_eq!(CorrectionImpact::classify(11, 0), CorrectionImpact::High);
        assert_eq!(CorrectionImpact::classify(0, 2), CorrectionImpact::High);
    }
}
