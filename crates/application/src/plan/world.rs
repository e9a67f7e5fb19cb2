//! [`PlanWorld`]: what plans are driven with, as the front end has it.

use std::sync::Arc;

use cleveragents_actors::Actor;
use cleveragents_domain::{MicroUsd, Plan, PlanStrategy};
use cleveragents_models::Redactor;
use cleveragents_process::Cancel;
use cleveragents_tools::ports::Approver;
use cleveragents_tools::{Guards, PlanMode, SafetyProfile};

use super::error::PlanError;
use super::failed_check::FailedCheck;
use crate::actor::{Bundle, FoundActor};
use crate::run::{Doubt, RunMeans};
use crate::tool::SandboxWorkspace;

/// One actor that is to do something for a plan.
pub struct PlanJob<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The actor.
    pub actor: &'a Actor,
    /// Where it works.
    pub workspace: Option<&'a SandboxWorkspace>,
    /// What it may do.
    pub mode: PlanMode,
    /// What the plan's profile demands, beside what the person and the project demand.
    pub profile: SafetyProfile,
    /// Its guards.
    pub guards: Guards,
    /// What it may cost.
    pub max_cost: Option<MicroUsd>,
    /// What every model it asks is told, whatever is left out of a long conversation.
    pub instructions: Vec<String>,
    /// Who is asked.
    pub approver: &'a dyn Approver,
    /// What stops it.
    pub cancel: &'a Cancel,
    /// What to do about a call of which nobody knows whether it was done.
    pub doubt: Doubt,
    /// Who watches.
    pub watcher: &'a dyn PlanWatcher,
}

/// Who watches a plan: its stages and steps, and the runs in them.
pub trait PlanWatcher: crate::run::RunWatcher {
    /// The plan came to another stage.
    fn stage(&self, _plan: &Plan) {}
    /// The plan was thought out.
    fn strategy(&self, _strategy: &PlanStrategy) {}
    /// A step begins: its number from 1, of how many, and what it is called.
    fn step(&self, _number: usize, _count: usize, _title: &str) {}
    /// A step ended.
    fn step_ended(&self, _title: &str, _summary: &str, _is_done: bool) {}
    /// A validation begins.
    fn validating(&self, _name: &str) {}
    /// A validation ended.
    fn validated(&self, _name: &str, _passed: bool, _message: &str) {}
    /// A validation that ran a command or a tool did not pass; called after [`Self::validated`].
    fn check_failed(&self, _plan: &Plan, _check: &FailedCheck) {}
    /// Something a person should know at once.
    fn note(&self, _text: &str) {}
    /// What it took so far.
    fn taken(&self, _plan: &Plan) {}
}

impl PlanWatcher for crate::run::Unheard {}

/// What plans are driven with.
pub trait PlanWorld {
    /// An actor by its name, ready to run.
    fn actor(&self, name: &str) -> Result<FoundActor, PlanError>;

    /// The actor of a run that was begun, from the files that it began with.
    fn bundled(&self, bundle: &Bundle) -> Result<Arc<Actor>, PlanError>;

    /// Calls `go` with all that a job needs.
    fn equip(
        &self,
        job: &PlanJob<'_>,
        go: &mut dyn FnMut(&RunMeans<'_>) -> Result<(), PlanError>,
    ) -> Result<(), PlanError>;

    /// The person, if one is there.
    fn person(&self) -> &dyn Approver;

    /// Takes secrets out of what is stored.
    fn redactor(&self) -> Redactor;
}
