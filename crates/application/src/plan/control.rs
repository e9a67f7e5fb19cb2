//! What people say to plans: go on, stop, otherwise, back to the strategy, leave it to a worker.

use std::sync::Arc;

use cleveragents_domain::{
    DecisionId, DecisionType, MicroUsd, Move, NewDecision, Plan, PlanId, PlanStage, PlanStrategy,
    REVERSION_LIMIT, Waiting,
};
use cleveragents_store::plans::Along;
use cleveragents_store::{UnitOfWork, decisions, leases, plan_steps, plans};
use serde_json::json;

use super::error::PlanError;
use super::gates::subject;
use super::queue::{PlanQueue, Queued};
use super::service::{PlanService, over};
use crate::lease::HeldLease;

impl PlanService {
    /// Ends a plan: at once when nobody works on it, otherwise whoever does is asked to.
    /// Says whether it is over already.
    pub fn cancel(&self, id: PlanId, reason: &str) -> Result<bool, PlanError> {
        let plan = self.get(id)?;
        if plan.stage.is_terminal() {
            return Err(over(&plan));
        }
        let why = reason.to_owned();
        match self.take(id) {
            Ok(lease) => {
                self.finish_rollback(id, &lease)?;
                // An apply that was cut off is brought to its end first: it may be past its turning point.
                if let Some(sandbox) = plan.sandbox.as_deref()
                    && plan.stage == PlanStage::ApplyProcessing
                {
                    self.settle_apply(&plan, sandbox, &lease)?;
                }
                let fence = (lease.subject().clone(), lease.token());
                let moved = self.engine.write(move |unit| {
                    leases::require(unit, &fence.0, fence.1)?;
                    let along = Along {
                        reason: Some(why.clone()),
                        ..Along::default()
                    };
                    plans::advance(unit, id, Move::Cancel, &along)
                })?;
                match moved {
                    Some(plan) => {
                        self.clean_up(&plan)?;
                        Ok(true)
                    }
                    None => Err(over(&self.get(id)?)),
                }
            }
            Err(PlanError::Busy { .. }) => {
                if self
                    .engine
                    .write(move |unit| plans::request_cancel(unit, id, &why))?
                {
                    Ok(false)
                } else {
                    Err(over(&self.get(id)?))
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Answers what a plan waits for.
    pub fn answer(
        &self,
        id: PlanId,
        is_yes: bool,
        text: Option<&str>,
        person: &str,
    ) -> Result<Plan, PlanError> {
        let plan = self.get(id)?;
        let Some(waiting) = plan.waiting.clone() else {
            return Err(PlanError::NotReady {
                plan: id,
                stage: plan.stage,
                reason: "it waits for nobody's word".to_owned(),
                hint: format!("`agents plan status {id}` shows where it is"),
            });
        };
        let what = match &waiting {
            Waiting::Gate { gate, .. } => Some(subject(*gate, &plan)),
            Waiting::Call { subject, .. } | Waiting::Question { subject, .. } => {
                Some(subject.clone())
            }
            Waiting::Doubt { .. } | Waiting::Guidance { .. } => None,
        };
        let Some(what) = what else {
            return Err(PlanError::Waits {
                plan: id,
                waiting: Box::new(waiting),
            });
        };
        let verdict = match (&waiting, is_yes, text) {
            (Waiting::Question { .. }, true, None) => {
                return Err(PlanError::Usage(
                    "the plan asked a question: give the answer with --answer".to_owned(),
                ));
            }
            (Waiting::Question { .. }, true, Some(_)) => "answered",
            (_, true, _) => "approved",
            (_, false, _) => "rejected",
        };
        let decision = self.said(&plan, &waiting.sentence(), verdict, text)?;
        let (text, person) = (text.map(str::to_owned), person.to_owned());
        self.engine.write(move |unit| {
            // Of two answers the second finds nothing to answer.
            let Some(now) = plans::locked(unit, id)? else {
                return Ok(());
            };
            if now.waiting.as_ref() != Some(&waiting) {
                return Err(PlanError::NotReady {
                    plan: id,
                    stage: now.stage,
                    reason: "somebody else answered already".to_owned(),
                    hint: format!("`agents plan status {id}` shows where it is"),
                });
            }
            plan_steps::answer(unit, id, &what, verdict, text.as_deref(), &person)?;
            if let Some(decision) = &decision {
                decisions::insert(unit, id, decision)?;
            }
            plans::wait_no_more(unit, id)?;
            Ok(())
        })?;
        self.get(id)
    }

    /// A decision that tells what a person said; nothing before there is a root for it.
    pub(super) fn said(
        &self,
        plan: &Plan,
        question: &str,
        chosen: &str,
        why: Option<&str>,
    ) -> Result<Option<NewDecision>, PlanError> {
        let Some(root) = plan.decision_root else {
            return Ok(None);
        };
        Ok(Some(NewDecision {
            id: DecisionId::generate(),
            parent: Some(root),
            kind: DecisionType::UserIntervention,
            phase: plan.stage.phase(),
            question: question.to_owned(),
            chosen: chosen.to_owned(),
            alternatives: Vec::new(),
            confidence: None,
            rationale: why.unwrap_or_default().to_owned(),
            reasoning: None,
            snapshot: self.snapshot(plan, None)?,
            artifacts: Vec::new(),
            influenced_by: Vec::new(),
        }))
    }

    /// Tells a plan something, for its next step.
    pub fn prompt(&self, id: PlanId, guidance: &str) -> Result<(Plan, NewDecision), PlanError> {
        let plan = self.get(id)?;
        if plan.stage.is_terminal() {
            return Err(over(&plan));
        }
        let guidance = guidance.trim();
        if guidance.is_empty() {
            return Err(PlanError::Usage("the guidance is empty".to_owned()));
        }
        let Some(decision) = self.said(&plan, "How shall the plan go on?", guidance, None)? else {
            return Err(PlanError::NotReady {
                plan: id,
                stage: plan.stage,
                reason: "it has not begun, so there is nothing to guide".to_owned(),
                hint: format!("begin with `agents plan execute {id}`"),
            });
        };
        let (text, stored) = (guidance.to_owned(), decision.clone());
        self.engine.write(move |unit| {
            going_on(unit, id)?;
            decisions::insert(unit, id, &stored)?;
            plan_steps::guide(unit, id, &text, stored.id)?;
            Ok::<_, PlanError>(plans::wait_no_more(unit, id)?)
        })?;
        Ok((self.get(id)?, decision))
    }

    /// Puts another strategy in the place of the present one, before it is carried out.
    pub fn edit(&self, id: PlanId, document: &str) -> Result<Plan, PlanError> {
        let strategy =
            PlanStrategy::from_markdown(document).map_err(|fault| PlanError::Strategy {
                message: fault.message,
                line: fault.line,
            })?;
        let lease = self.take(id)?;
        let plan = self.get(id)?;
        if plan.stage != PlanStage::StrategizeComplete {
            return Err(PlanError::NotReady {
                plan: id,
                stage: plan.stage,
                reason: "its strategy can be changed between strategizing and executing only"
                    .to_owned(),
                hint: format!("go back to it with `agents plan revert {id}`"),
            });
        }
        let Some(decision) =
            self.said(&plan, "Which strategy?", "the strategy was edited", None)?
        else {
            return Err(PlanError::NotFound(id));
        };
        let fence = (lease.subject().clone(), lease.token());
        self.engine.write(move |unit| {
            leases::require(unit, &fence.0, fence.1)?;
            plans::set_strategy(unit, id, Some(&strategy))?;
            decisions::insert(unit, id, &decision)?;
            plans::wait_no_more(unit, id)?;
            edited(unit, id, strategy.steps.len());
            Ok::<_, cleveragents_store::Error>(())
        })?;
        self.get(id)
    }

    /// Takes a plan back to its strategy, which is made anew with what was learned.
    pub fn revert(&self, id: PlanId, reason: &str) -> Result<Plan, PlanError> {
        let lease = self.take(id)?;
        self.finish_rollback(id, &lease)?;
        let plan = self.get(id)?;
        self.revert_held(&plan, reason, &lease)
    }

    pub(super) fn revert_held(
        &self,
        plan: &Plan,
        reason: &str,
        lease: &HeldLease,
    ) -> Result<Plan, PlanError> {
        let id = plan.id;
        if plan.reversions >= REVERSION_LIMIT {
            return Err(PlanError::ReversionLimit {
                plan: id,
                limit: REVERSION_LIMIT,
            });
        }
        if Move::Revert.from(plan.stage).is_none() {
            return Err(if plan.stage.is_terminal() {
                over(plan)
            } else {
                PlanError::NotReady {
                    plan: id,
                    stage: plan.stage,
                    reason: "there is nothing to go back from".to_owned(),
                    hint: format!("`agents plan execute {id}` goes on"),
                }
            });
        }
        let root = plan.decision_root;
        let snapshot = self.snapshot(plan, None)?;
        let reversion = root.map(|root| NewDecision {
            id: DecisionId::generate(),
            parent: Some(root),
            kind: DecisionType::Reversion,
            phase: plan.stage.phase(),
            question: format!("How to go on from {}?", plan.stage),
            chosen: "back to the strategy".to_owned(),
            alternatives: Vec::new(),
            confidence: None,
            rationale: reason.to_owned(),
            reasoning: None,
            snapshot,
            artifacts: Vec::new(),
            influenced_by: Vec::new(),
        });
        let old: Vec<DecisionId> = self
            .engine
            .read(|reader| decisions::of_plan(reader, id))?
            .into_iter()
            .filter(|decision| decision.holds() && Some(decision.said.id) != root)
            .filter(|decision| {
                !matches!(
                    decision.said.kind,
                    DecisionType::InvariantEnforced
                        | DecisionType::UserIntervention
                        | DecisionType::Reversion
                )
            })
            .map(|decision| decision.said.id)
            .collect();
        let fence = (lease.subject().clone(), lease.token());
        let along = Along {
            reason: Some(reason.to_owned()),
            begins_attempt: true,
            is_reversion: true,
            ..Along::default()
        };
        let moved = self.engine.write(move |unit| {
            leases::require(unit, &fence.0, fence.1)?;
            let moved = plans::advance(unit, id, Move::Revert, &along)?;
            if let (Some(_), Some(reversion)) = (&moved, &reversion) {
                decisions::insert(unit, id, reversion)?;
                decisions::supersede(unit, id, &old, reversion.id)?;
            }
            Ok::<_, cleveragents_store::Error>(moved)
        })?;
        moved.ok_or_else(|| over(plan))
    }

    /// Sets the most that a plan may cost, for whatever it does from its next `execute` on.
    pub fn limit_cost(&self, id: PlanId, most: MicroUsd) -> Result<Plan, PlanError> {
        self.engine.write(move |unit| {
            going_on(unit, id)?;
            Ok::<_, PlanError>(plans::set_max_cost(unit, id, Some(most))?)
        })?;
        self.get(id)
    }

    /// Leaves a plan to a worker.
    pub fn queue(&self, id: PlanId, how: &Queued) -> Result<Plan, PlanError> {
        PlanQueue::new(Arc::clone(&self.engine)).leave(id, how)?;
        self.get(id)
    }

    /// The plan is no longer left to a worker.
    pub fn unqueue(&self, id: PlanId) -> Result<(), PlanError> {
        Ok(self
            .engine
            .write(move |unit| plans::queue(unit, id, None))?)
    }
}

fn edited(unit: &mut UnitOfWork<'_>, id: PlanId, steps: usize) {
    unit.emit(cleveragents_domain::NewEvent {
        kind: cleveragents_domain::EventKind::PlanEdited,
        subject: id.to_string(),
        payload: json!({"steps": steps}),
    });
}

/// Refuses a plan that is over; nobody can end it before the unit does.
fn going_on(unit: &mut UnitOfWork<'_>, id: PlanId) -> Result<(), PlanError> {
    let plan = plans::locked(unit, id)?.ok_or(PlanError::NotFound(id))?;
    if plan.stage.is_terminal() {
        return Err(over(&plan));
    }
    Ok(())
}
