//! [`PlanControl`]: the user's actions on a plan: cancel, answer, guide, edit, revert, limit the cost, queue.

mod conflicts;
mod queue;
mod spawn;

use std::sync::Arc;

use cleveragents_domain::{
    AnswerVerdict, Decision, DecisionId, DecisionType, EventKind, MicroUsd, NewDecision, NewEvent,
    Plan, PlanId, PlanStage, PlanStrategy, REVERSION_LIMIT, StageTransition, Waiting, hint,
    suggest,
};
use cleveragents_store::plans::{self, TransitionDetails};
use cleveragents_store::{UnitOfWork, decisions, plan_steps};
use serde_json::json;

use super::apply::recover_apply;
use super::decision::new_decision;
use super::error::PlanError;
use super::gates::gate_subject;
use super::lineage::is_step_decision;
use super::plan_store::PlanStore;
use super::rollback::PlanRollback;
use super::service::already_finished;
use super::snapshot::DecisionSnapshots;
use super::strategize::step_decisions;
use super::workspace::PlanWorkspaces;
use crate::lease::HeldLease;

pub(super) use conflicts::asks_to_combine;
pub use conflicts::{ConflictChoice, ConflictSelection, ResolvedConflicts};
pub use queue::{PlanQueue, QueueEntry, SERVER_LEASE, ServerClaim};
pub use spawn::{AddedPart, PlanPartAdded};
pub(super) use spawn::{added_step, store_strategy, with_part};

/// Changes plans for the user. Cheap to clone.
#[derive(Clone)]
pub(super) struct PlanControl {
    pub(super) store: PlanStore,
    pub(super) rollback: PlanRollback,
    pub(super) workspaces: PlanWorkspaces,
    pub(super) snapshots: DecisionSnapshots,
}

impl PlanControl {
    /// Cancels a plan: at once if no process runs it, otherwise asks that process to stop. Returns true if the plan
    /// is already cancelled.
    pub(super) fn cancel(&self, id: PlanId, reason: &str) -> Result<bool, PlanError> {
        let plan = self.store.get(id)?;
        if plan.stage.is_terminal() {
            return Err(already_finished(&plan));
        }
        let reason = reason.to_owned();
        match self.store.acquire(id) {
            Ok(lease) => self.cancel_leased(&plan, reason, &lease).map(|()| true),
            Err(PlanError::Busy { .. }) => {
                let is_requested = self
                    .store
                    .write(move |unit| Ok(plans::request_cancel(unit, id, &reason)?))?;
                if is_requested {
                    Ok(false)
                } else {
                    Err(already_finished(&self.store.get(id)?))
                }
            }
            Err(error) => Err(error),
        }
    }

    fn cancel_leased(
        &self,
        plan: &Plan,
        reason: String,
        lease: &HeldLease,
    ) -> Result<(), PlanError> {
        let id = plan.id;
        self.rollback.finish_interrupted(id, lease)?;
        // An interrupted apply is completed first, because it may already have changed the user's files.
        if let Some(sandbox) = plan.sandbox.as_deref()
            && plan.stage == PlanStage::ApplyProcessing
        {
            recover_apply(
                &self.store,
                &self.workspaces.sandboxes,
                plan,
                sandbox,
                lease,
            )?;
        }
        let details = TransitionDetails {
            reason: Some(reason),
            ..TransitionDetails::default()
        };
        let cancelled = self.store.write_leased(lease, move |unit| {
            let transition = StageTransition::Cancel;
            Ok(plans::advance(unit, id, transition, &details)?)
        })?;
        match cancelled {
            Some(plan) => self.workspaces.clean_up(&plan),
            None => Err(already_finished(&self.store.get(id)?)),
        }
    }

    /// Approves, rejects or answers the request that a plan waits for.
    pub(super) fn answer(
        &self,
        id: PlanId,
        is_approved: bool,
        text: Option<&str>,
        person: &str,
    ) -> Result<Plan, PlanError> {
        let plan = self.store.get(id)?;
        let Some(waiting) = plan.waiting.clone() else {
            return Err(PlanError::NotReady {
                plan: id,
                stage: plan.stage,
                reason: "it is not waiting for input".to_owned(),
                hint: hint!("{} shows its state", suggest::plan_status(id)),
            });
        };
        let subject = match &waiting {
            Waiting::Gate { gate, .. } => gate_subject(*gate, &plan),
            Waiting::Call { subject, .. } | Waiting::Question { subject, .. } => subject.clone(),
            Waiting::UnknownOutcome { .. }
            | Waiting::ChildPlans { .. }
            | Waiting::Conflicts { .. }
            | Waiting::Guidance { .. } => {
                return Err(PlanError::Waits {
                    plan: id,
                    waiting: Box::new(waiting),
                });
            }
        };
        let verdict = match (&waiting, is_approved, text) {
            (Waiting::Question { .. }, true, None) => {
                return Err(PlanError::Usage(
                    "the plan asked a question: give the answer with --answer".to_owned(),
                ));
            }
            (Waiting::Question { .. }, true, Some(_)) => AnswerVerdict::Answered,
            (_, true, _) => AnswerVerdict::Approved,
            (_, false, _) => AnswerVerdict::Rejected,
        };
        let question = waiting.sentence();
        let decision = self.user_decision(&plan, &question, verdict.as_str(), text)?;
        let (text, person) = (text.map(str::to_owned), person.to_owned());
        self.store.write(move |unit| {
            // Of two concurrent answers, the second one finds that the request is already answered.
            let Some(current) = plans::locked(unit, id)? else {
                return Ok(());
            };
            if current.waiting.as_ref() != Some(&waiting) {
                return Err(PlanError::NotReady {
                    plan: id,
                    stage: current.stage,
                    reason: "another user has already answered".to_owned(),
                    hint: hint!("{} shows its state", suggest::plan_status(id)),
                });
            }
            plan_steps::answer(unit, id, &subject, verdict, text.as_deref(), &person)?;
            if let Some(decision) = &decision {
                decisions::insert(unit, id, decision)?;
            }
            plans::clear_waiting(unit, id)?;
            Ok(())
        })?;
        self.store.get(id)
    }

    /// The decision that records the user's choice; `None` if the plan has no root decision yet.
    fn user_decision(
        &self,
        plan: &Plan,
        question: &str,
        chosen: &str,
        reason: Option<&str>,
    ) -> Result<Option<NewDecision>, PlanError> {
        let Some(root) = plan.decision_root else {
            return Ok(None);
        };
        Ok(Some(NewDecision {
            snapshot: self.snapshots.take(plan, None)?,
            ..new_decision(
                root,
                DecisionType::UserIntervention,
                plan.stage.phase(),
                question,
                chosen,
                reason.unwrap_or_default(),
            )
        }))
    }

    /// Gives a plan guidance for its next step.
    pub(super) fn prompt(
        &self,
        id: PlanId,
        guidance: &str,
    ) -> Result<(Plan, NewDecision), PlanError> {
        let plan = self.store.get(id)?;
        if plan.stage.is_terminal() {
            return Err(already_finished(&plan));
        }
        let guidance = guidance.trim();
        if guidance.is_empty() {
            return Err(PlanError::Usage("the guidance is empty".to_owned()));
        }
        let question = "How should the plan continue?";
        let Some(decision) = self.user_decision(&plan, question, guidance, None)? else {
            return Err(PlanError::NotReady {
                plan: id,
                stage: plan.stage,
                reason: "it has not started, so there is nothing to guide".to_owned(),
                hint: hint!("start it with {}", suggest::plan_execute(id)),
            });
        };
        let (text, stored) = (guidance.to_owned(), decision.clone());
        self.store.write(move |unit| {
            require_active(unit, id)?;
            decisions::insert(unit, id, &stored)?;
            plan_steps::guide(unit, id, &text, stored.id)?;
            Ok(plans::clear_waiting(unit, id)?)
        })?;
        Ok((self.store.get(id)?, decision))
    }

    /// Replaces the strategy of a plan before it is executed.
    pub(super) fn edit(&self, id: PlanId, document: &str) -> Result<Plan, PlanError> {
        let strategy =
            PlanStrategy::from_markdown(document).map_err(|fault| PlanError::Strategy {
                message: fault.message,
                line: fault.line,
            })?;
        let lease = self.store.acquire(id)?;
        let plan = self.store.get(id)?;
        if plan.stage != PlanStage::StrategizeComplete {
            return Err(PlanError::NotReady {
                plan: id,
                stage: plan.stage,
                reason: "its strategy can be changed only between strategizing and executing"
                    .to_owned(),
                hint: hint!("return to the strategy with {}", suggest::plan_revert(id)),
            });
        }
        let chosen = "the strategy was edited";
        let Some(decision) = self.user_decision(&plan, "Which strategy?", chosen, None)? else {
            return Err(PlanError::NotFound(id));
        };
        let (replaced, steps) = self.edited_steps(&plan, &strategy, decision.id)?;
        self.store.write_leased(&lease, move |unit| {
            plans::set_strategy(unit, id, Some(&strategy))?;
            decisions::insert(unit, id, &decision)?;
            for step in &steps {
                decisions::insert(unit, id, step)?;
            }
            decisions::supersede(unit, id, &replaced, decision.id)?;
            plans::clear_waiting(unit, id)?;
            unit.emit(NewEvent {
                kind: EventKind::PlanEdited,
                subject: id.to_string(),
                payload: json!({"steps": strategy.steps.len()}),
            });
            Ok(())
        })?;
        self.store.get(id)
    }

    /// The decisions that put the steps of the old strategy into it, and those for an edited strategy.
    fn edited_steps(
        &self,
        plan: &Plan,
        strategy: &PlanStrategy,
        edit: DecisionId,
    ) -> Result<(Vec<DecisionId>, Vec<NewDecision>), PlanError> {
        let all = self
            .store
            .read(|reader| decisions::of_plan(reader, plan.id))?;
        let old: Vec<&Decision> = all
            .iter()
            .filter(|decision| is_step_decision(decision))
            .collect();
        let above = old.first().and_then(|decision| decision.content.parent);
        let Some(parent) = above.or(plan.decision_root) else {
            return Err(PlanError::NotFound(plan.id));
        };
        let snapshot = self.snapshots.take(plan, None)?;
        let new = step_decisions(parent, strategy, &[edit], &snapshot);
        Ok((
            old.iter().map(|decision| decision.content.id).collect(),
            new,
        ))
    }

    /// Returns a plan to the strategize phase for a new strategy.
    pub(super) fn revert(&self, id: PlanId, reason: &str) -> Result<Plan, PlanError> {
        let lease = self.store.acquire(id)?;
        self.rollback.finish_interrupted(id, &lease)?;
        let plan = self.store.get(id)?;
        self.revert_leased(&plan, reason, &lease)
    }

    /// Like [`Self::revert`], for a caller that holds the lease of the plan.
    pub(super) fn revert_leased(
        &self,
        plan: &Plan,
        reason: &str,
        lease: &HeldLease,
    ) -> Result<Plan, PlanError> {
        let id = plan.id;
        check_revertible(plan)?;
        let snapshot = self.snapshots.take(plan, None)?;
        let reversion = plan.decision_root.map(|root| NewDecision {
            snapshot,
            ..new_decision(
                root,
                DecisionType::Reversion,
                plan.stage.phase(),
                format!("How to continue from {}?", plan.stage),
                "back to the strategy",
                reason,
            )
        });
        let superseded = self.superseded_by_reversion(plan)?;
        let details = TransitionDetails {
            reason: Some(reason.to_owned()),
            starts_attempt: true,
            is_reversion: true,
            ..TransitionDetails::default()
        };
        let reverted = self.store.write_leased(lease, move |unit| {
            let reverted = plans::advance(unit, id, StageTransition::Revert, &details)?;
            if let (Some(_), Some(reversion)) = (&reverted, &reversion) {
                decisions::insert(unit, id, reversion)?;
                decisions::supersede(unit, id, &superseded, reversion.id)?;
            }
            Ok(reverted)
        })?;
        reverted.ok_or_else(|| already_finished(plan))
    }

    /// The valid decisions that a revert supersedes: all except the root, the invariants, the user's decisions and
    /// earlier reverts.
    fn superseded_by_reversion(&self, plan: &Plan) -> Result<Vec<DecisionId>, PlanError> {
        let all = self
            .store
            .read(|reader| decisions::of_plan(reader, plan.id))?;
        let is_retained = |kind| {
            matches!(
                kind,
                DecisionType::InvariantEnforced
                    | DecisionType::UserIntervention
                    | DecisionType::Reversion
            )
        };
        Ok(all
            .into_iter()
            .filter(|decision| decision.holds() && !is_retained(decision.content.kind))
            .map(|decision| decision.content.id)
            .filter(|id| Some(*id) != plan.decision_root)
            .collect())
    }

    /// Sets the cost limit of a plan. The limit applies from the next `execute` on.
    pub(super) fn limit_cost(&self, id: PlanId, limit: MicroUsd) -> Result<Plan, PlanError> {
        self.store.write(move |unit| {
            require_active(unit, id)?;
            Ok(plans::set_max_cost(unit, id, Some(limit))?)
        })?;
        self.store.get(id)
    }

    /// Queues a plan for a worker.
    pub(super) fn queue(&self, id: PlanId, entry: &QueueEntry) -> Result<Plan, PlanError> {
        PlanQueue::new(Arc::clone(self.store.engine())).enqueue(id, entry)?;
        self.store.get(id)
    }

    /// Removes a plan from the queue.
    pub(super) fn unqueue(&self, id: PlanId) -> Result<(), PlanError> {
        self.store
            .write(move |unit| Ok(plans::queue(unit, id, None)?))
    }
}

fn check_revertible(plan: &Plan) -> Result<(), PlanError> {
    let id = plan.id;
    if plan.reversions >= REVERSION_LIMIT {
        return Err(PlanError::ReversionLimit {
            plan: id,
            limit: REVERSION_LIMIT,
        });
    }
    if StageTransition::Revert.target(plan.stage).is_some() {
        return Ok(());
    }
    Err(if plan.stage.is_terminal() {
        already_finished(plan)
    } else {
        PlanError::NotReady {
            plan: id,
            stage: plan.stage,
            reason: "it has no strategy to return to".to_owned(),
            hint: hint!("{} continues it", suggest::plan_execute(id)),
        }
    })
}

/// Locks the row of a plan until the end of the transaction, and refuses a finished plan.
fn require_active(unit: &mut UnitOfWork<'_>, id: PlanId) -> Result<(), PlanError> {
    let plan = plans::locked(unit, id)?.ok_or(PlanError::NotFound(id))?;
    if plan.stage.is_terminal() {
        return Err(already_finished(&plan));
    }
    Ok(())
}
