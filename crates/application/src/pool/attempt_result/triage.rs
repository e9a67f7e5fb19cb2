//! Stores the decision of a triage.

use cleveragents_domain::{MicroUsd, PlanId, TriageDecision, TriageVerdict, WorkItemState};
use cleveragents_store::attempts::AttemptResult;
use cleveragents_store::{UnitOfWork, work_items};

use super::{ResultStorage, refused, succeeded};
use crate::operation::OperationError;

impl ResultStorage<'_> {
    pub(super) fn triage(
        &self,
        unit: &mut UnitOfWork<'_>,
        decision: &TriageDecision,
        cost: MicroUsd,
        plan: Option<PlanId>,
    ) -> Result<AttemptResult, OperationError> {
        let reason = decision.verdict.reason.clone();
        let to = match &decision.verdict.value {
            TriageVerdict::Accept => WorkItemState::Verified,
            TriageVerdict::Reject => WorkItemState::WontDo,
            TriageVerdict::AskPerson { question } => {
                self.move_item(unit, WorkItemState::NeedsPerson, Some(question.clone()))?;
                return Ok(succeeded(cost, plan));
            }
            TriageVerdict::Duplicate { of } => {
                let original = work_items::get(unit, *of)?;
                let is_valid = *of != self.item.id
                    && original.is_some_and(|original| {
                        original.project == self.item.project
                            && original.state != WorkItemState::Duplicate
                    });
                if !is_valid {
                    return Ok(refused(
                        format!(
                            "`{of}` cannot be the original: it is the item itself, a duplicate, or in another project"
                        ),
                        cost,
                    ));
                }
                work_items::set_duplicate_of(unit, self.item.id, *of)?;
                WorkItemState::Duplicate
            }
        };
        if self.item.state != self.dispatch.item.state {
            // The user has decided meanwhile.
            return Ok(succeeded(cost, plan));
        }
        if to == WorkItemState::Verified
            && let Err(refusal) = self.set_fields(unit, decision)?
        {
            return Ok(refused(refusal, cost));
        }
        self.move_item(unit, to, Some(reason))?;
        Ok(AttemptResult {
            summary: triage_reasons(decision),
            ..succeeded(cost, plan)
        })
    }

    /// Writes the fields of a triage. Refuses invalid fields without writing any; the inner error is the reason.
    fn set_fields(
        &self,
        unit: &mut UnitOfWork<'_>,
        decision: &TriageDecision,
    ) -> Result<Result<(), String>, OperationError> {
        let mut item = self.item.clone();
        if let Some(kind) = &decision.kind {
            item.kind = kind.value;
        }
        if let Some(priority) = &decision.priority {
            item.priority = priority.value;
        }
        if let Some(milestone) = &decision.milestone {
            item.milestone = Some(milestone.value.trim().to_owned());
        }
        if let Some(points) = &decision.points {
            item.points = Some(points.value);
        }
        if let Some(moscow) = &decision.moscow {
            item.moscow = Some(moscow.value);
        }
        if let Some(labels) = &decision.labels {
            let known = &self.dispatch.pool.outcomes.labels;
            let unknown: Vec<&str> = labels
                .value
                .iter()
                .filter(|label| !known.contains(label))
                .map(String::as_str)
                .collect();
            if !unknown.is_empty() {
                return Ok(Err(format!("unknown labels: {}", unknown.join(", "))));
            }
            item.labels.extend(labels.value.iter().cloned());
        }
        if work_items::update(unit, &item, &self.dispatch.pool.name)? {
            return Ok(Ok(()));
        }
        Ok(Err("the item was changed meanwhile".to_owned()))
    }
}

/// The reasons of a triage, one line per field.
fn triage_reasons(decision: &TriageDecision) -> String {
    let mut lines = vec![format!("verdict: {}", decision.verdict.reason)];
    let mut add = |field: &str, reason: Option<&String>| {
        if let Some(reason) = reason {
            lines.push(format!("{field}: {reason}"));
        }
    };
    add("kind", decision.kind.as_ref().map(|field| &field.reason));
    add(
        "priority",
        decision.priority.as_ref().map(|field| &field.reason),
    );
    add(
        "milestone",
        decision.milestone.as_ref().map(|field| &field.reason),
    );
    add(
        "points",
        decision.points.as_ref().map(|field| &field.reason),
    );
    add(
        "moscow",
        decision.moscow.as_ref().map(|field| &field.reason),
    );
    add(
        "labels",
        decision.labels.as_ref().map(|field| &field.reason),
    );
    lines.join("\n")
}
