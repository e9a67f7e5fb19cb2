//! Gates: whether a plan goes on by itself.

use cleveragents_domain::{
    AutomationGate, Confidence, ConfidenceInputs, GateAction, LeaseSubject, Plan, PlanId, Waiting,
};
use cleveragents_store::{Error, Reader, decisions, leases, plan_steps, plans};

use super::error::PlanError;
use super::service::PlanService;
use crate::process::current_owner;

/// By what the answer to a gate is found again.
pub(super) fn subject(gate: AutomationGate, plan: &Plan) -> String {
    format!("gate/{}/{}", gate.as_str(), plan.attempt)
}

/// What a gate says.
pub(super) enum Passage {
    /// The plan goes on.
    Open,
    /// A person said no.
    Closed(Option<String>),
    /// A person has to say something.
    Asks(Waiting),
}

impl PlanService {
    /// How sure the program can be of a plan, from what is stored.
    pub fn confidence(&self, plan: &Plan) -> Result<Confidence, PlanError> {
        let validations = self.validations_in_effect(plan)?;
        let required = validations
            .iter()
            .filter(|one| one.validation.mode == cleveragents_domain::ValidationMode::Required)
            .count();
        let reconciled = self.reconciled(plan)?;
        let mut inputs = self.engine.read(|reader| self.known_of(reader, plan))?;
        inputs.validations = required as u64;
        inputs.invariants = reconciled.effective.len() as u64;
        inputs.unresolved = reconciled.unresolved.len() as u64;
        Ok(Confidence::of(&inputs))
    }

    #[expect(clippy::unused_self, reason = "a part of the method above")]
    fn known_of(&self, reader: &mut dyn Reader, plan: &Plan) -> Result<ConfidenceInputs, Error> {
        let (succeeded, ended) = plans::record_of_action(reader, &plan.action)?;
        let mut familiarity = u64::MAX;
        for project in &plan.made_with.projects {
            familiarity = familiarity.min(plans::record_of_project(reader, &project.name)?.0);
        }
        let decided = decisions::of_plan(reader, plan.id)?;
        let lowest = decided
            .iter()
            .filter(|decision| decision.holds())
            .filter_map(|decision| decision.said.confidence)
            .min_by(f64::total_cmp);
        let strategy = plan.strategy.as_ref();
        Ok(ConfidenceInputs {
            succeeded,
            ended,
            familiarity: if familiarity == u64::MAX {
                0
            } else {
                familiarity
            },
            files: strategy
                .map(|strategy| strategy.files().len() as u64)
                .filter(|count| *count > 0),
            risk: strategy.and_then(|strategy| strategy.risk),
            decision_confidence: lowest,
            ..ConfidenceInputs::default()
        })
    }

    /// Whether a plan passes a gate: because a person said so, or because it is sure enough.
    pub(super) fn pass(
        &self,
        plan: &Plan,
        gate: AutomationGate,
        opens: GateAction,
    ) -> Result<Passage, PlanError> {
        let threshold = plan.made_with.profile.snapshot.thresholds.threshold(gate);
        self.pass_at(plan, gate, opens, threshold)
    }

    /// Whether a plan passes a gate with this threshold, whatever that of its profile is.
    pub(super) fn pass_at(
        &self,
        plan: &Plan,
        gate: AutomationGate,
        opens: GateAction,
        threshold: f64,
    ) -> Result<Passage, PlanError> {
        if let Some(answer) = self.taken_answer(plan.id, subject(gate, plan))? {
            return Ok(match answer.verdict.as_str() {
                "approved" => Passage::Open,
                _ => Passage::Closed(answer.answer),
            });
        }
        if threshold <= 0.0 {
            return Ok(Passage::Open);
        }
        let confidence = self.confidence(plan)?;
        if confidence.passes(threshold) {
            return Ok(Passage::Open);
        }
        Ok(Passage::Asks(Waiting::Gate {
            gate,
            opens,
            confidence,
            threshold,
        }))
    }

    fn taken_answer(
        &self,
        plan: PlanId,
        subject: String,
    ) -> Result<Option<plan_steps::PlanAnswer>, PlanError> {
        Ok(self.engine.write(move |unit| {
            // Whoever drives the plan now is to find the answer, not an owner that was displaced.
            leases::require_owner(unit, &LeaseSubject::new("plan", plan), &current_owner())?;
            plan_steps::take_answer(unit, plan, &subject)
        })?)
    }
}
