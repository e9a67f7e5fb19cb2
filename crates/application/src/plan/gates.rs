//! [`AutomationGates`]: decides if a plan may continue without the user's approval.

use cleveragents_domain::{
    AnswerVerdict, AutomationGate, Confidence, ConfidenceInputs, GateAction, Plan, PlanId,
    ValidationMode, Waiting,
};
use cleveragents_store::{Error, Reader, decisions, leases, plan_steps, plans};

use super::error::PlanError;
use super::plan_store::{PlanStore, subject};
use super::requirements::PlanRequirements;
use crate::process::current_owner;

/// The subject under which the answer to a gate is stored.
pub(super) fn gate_subject(gate: AutomationGate, plan: &Plan) -> String {
    format!("gate/{}/{}", gate.as_str(), plan.attempt)
}

/// Result of checking a gate.
pub(super) enum GateOutcome {
    /// The plan continues.
    Open,
    /// The user rejected that the plan continues, with an optional reason.
    Rejected(Option<String>),
    /// The plan has to wait for the approval of the user.
    NeedsApproval(Waiting),
}

impl GateOutcome {
    pub(super) const fn is_open(&self) -> bool {
        matches!(self, Self::Open)
    }
}

/// The gates of automation profiles. Cheap to clone.
#[derive(Clone)]
pub(super) struct AutomationGates {
    pub(super) store: PlanStore,
    pub(super) requirements: PlanRequirements,
}

impl AutomationGates {
    /// Computes the confidence in a plan from stored records.
    pub(super) fn confidence(&self, plan: &Plan) -> Result<Confidence, PlanError> {
        let validations = self.requirements.validations_in_effect(plan)?;
        let required = validations
            .iter()
            .filter(|attached| attached.validation.mode == ValidationMode::Required)
            .count();
        let reconciled = self.requirements.reconciled(plan)?;
        let mut inputs = self.store.read(|reader| stored_inputs(reader, plan))?;
        inputs.validations = required as u64;
        inputs.invariants = reconciled.effective.len() as u64;
        inputs.unresolved = reconciled.unresolved.len() as u64;
        Ok(Confidence::compute(&inputs))
    }

    /// Checks a gate. A plan passes if the user approved it, or if its confidence reaches the threshold of its
    /// automation profile.
    pub(super) fn check(
        &self,
        plan: &Plan,
        gate: AutomationGate,
        opens: GateAction,
    ) -> Result<GateOutcome, PlanError> {
        let threshold = plan.inputs.profile.snapshot.thresholds.threshold(gate);
        self.check_at(plan, gate, opens, threshold)
    }

    /// Like [`Self::check`], with the given threshold instead of the profile's threshold.
    pub(super) fn check_at(
        &self,
        plan: &Plan,
        gate: AutomationGate,
        opens: GateAction,
        threshold: f64,
    ) -> Result<GateOutcome, PlanError> {
        if let Some(answer) = self.take_answer(plan.id, gate_subject(gate, plan))? {
            return Ok(match answer.verdict {
                AnswerVerdict::Approved => GateOutcome::Open,
                AnswerVerdict::Rejected | AnswerVerdict::Answered => {
                    GateOutcome::Rejected(answer.answer)
                }
            });
        }
        if threshold <= 0.0 {
            return Ok(GateOutcome::Open);
        }
        let confidence = self.confidence(plan)?;
        if confidence.passes(threshold) {
            return Ok(GateOutcome::Open);
        }
        Ok(GateOutcome::NeedsApproval(Waiting::Gate {
            gate,
            opens,
            confidence,
            threshold,
        }))
    }

    fn take_answer(
        &self,
        plan: PlanId,
        answer_subject: String,
    ) -> Result<Option<plan_steps::PlanAnswer>, PlanError> {
        self.store.write(move |unit| {
            // The answer is consumed under the lease: a process that lost the lease cannot use it.
            leases::require_owner(unit, &subject(plan), &current_owner())?;
            Ok(plan_steps::take_answer(unit, plan, &answer_subject)?)
        })
    }
}

/// Reads the stored inputs of the confidence.
fn stored_inputs(reader: &mut dyn Reader, plan: &Plan) -> Result<ConfidenceInputs, Error> {
    let (succeeded, ended) = plans::record_of_action(reader, &plan.action)?;
    let mut familiarity = None;
    for project in &plan.inputs.projects {
        let (applied, _) = plans::record_of_project(reader, &project.name)?;
        familiarity = Some(familiarity.map_or(applied, |least: u64| least.min(applied)));
    }
    let plan_decisions = decisions::of_plan(reader, plan.id)?;
    let lowest = plan_decisions
        .iter()
        .filter(|decision| decision.holds())
        .filter_map(|decision| decision.content.confidence)
        .min_by(f64::total_cmp);
    let strategy = plan.strategy.as_ref();
    Ok(ConfidenceInputs {
        succeeded,
        ended,
        familiarity: familiarity.unwrap_or_default(),
        files: strategy
            .map(|strategy| strategy.files().len() as u64)
            .filter(|count| *count > 0),
        risk: strategy.and_then(|strategy| strategy.risk),
        decision_confidence: lowest,
        ..ConfidenceInputs::default()
    })
}
