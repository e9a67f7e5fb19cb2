//! [`PlanWatcher`]: the observer of a plan, which a front end implements; and [`PlanFrontEnd`].

use cleveragents_domain::{Plan, PlanStrategy};
use cleveragents_process::Cancel;
use cleveragents_tools::ports::Approver;

use super::failed_check::FailedCheck;

/// The front end of a plan that is driven.
#[derive(Clone, Copy)]
pub struct PlanFrontEnd<'a> {
    /// Asked for approvals and answers.
    pub approver: &'a dyn Approver,
    /// Shown what happens.
    pub observer: &'a dyn PlanWatcher,
    /// Stops the plan.
    pub cancel: &'a Cancel,
}

/// Shown the stages and steps of a plan, and the runs in them.
pub trait PlanWatcher: crate::run::RunWatcher {
    /// The plan changed its stage.
    fn stage(&self, _plan: &Plan) {}
    /// The strategy is complete.
    fn strategy(&self, _strategy: &PlanStrategy) {}
    /// A step starts: its number from 1, the number of steps, and its title.
    fn step(&self, _number: usize, _count: usize, _title: &str) {}
    /// A step ended.
    fn step_ended(&self, _title: &str, _summary: &str, _is_done: bool) {}
    /// A validation starts.
    fn validating(&self, _name: &str) {}
    /// A validation ended.
    fn validated(&self, _name: &str, _passed: bool, _message: &str) {}
    /// A validation that ran a command or a tool did not pass; called after [`Self::validated`].
    fn check_failed(&self, _plan: &Plan, _check: &FailedCheck) {}
    /// Something that the user should know at once.
    fn note(&self, _text: &str) {}
    /// The usage of the plan so far.
    fn taken(&self, _plan: &Plan) {}
}

impl PlanWatcher for crate::run::Unheard {}
