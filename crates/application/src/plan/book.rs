//! [`PlanBook`]: what can be looked up about plans. It changes nothing but checkpoints, and no answer
//! needs more statements when there are more plans.

mod changes;
mod checkpoints;
mod error;
mod explain;
mod guard;
mod log;
mod status;
mod tree;
mod trouble;

use std::sync::Arc;

use cleveragents_domain::{
    Checkpoint, ContentHash, Decision, Event, Lease, LeaseSubject, Plan, PlanId, PlanStage,
    Position, StepRecord, ToolInvocation, check_prefix, nearest,
};
use cleveragents_store::plan_steps::{Guidance, PlanAnswer, Rollback};
use cleveragents_store::plans::PlanFilter;
use cleveragents_store::validations::StoredResult;
use cleveragents_store::{
    Engine, blobs, decisions, events, invocations, plan_steps, plans, validations,
};

use super::failed_check::FailedCheck;
use crate::lease::LeaseService;
use crate::sandbox::{SandboxError, SandboxService, SandboxView};

pub(super) use changes::counted;
pub use changes::{ChangeStatus, FileChange, Hunk, PlanChanges};
pub use checkpoints::written as checkpoint_name;
pub use error::{BookError, PlanCandidate};
pub use explain::{Alternative, CorrectionImpact, Explanation, Impact};
pub use guard::{PlanGuard, Spent};
pub use log::told;
pub use status::{PhaseProgress, PlanStatus, ProgressState, waiting_commands};
#[cfg(test)]
pub(super) use tree::tests::decisions as test_decisions;
pub use tree::{DecisionTree, TreeNode as DecisionNode, TreeOptions, TreeSummary};
pub use trouble::{PlanTrouble, Trouble, TroubleKind};

/// So many are named when several are meant.
const CANDIDATES: u64 = 8;

/// So many names are searched for one that is like a wrong one.
const KNOWN_NAMES: u64 = 500;

/// Which plans to list.
#[derive(Debug, Clone, Default)]
pub struct PlanQuery {
    /// Only those in this phase: `strategize`, `execute`, `apply`.
    pub phase: Option<cleveragents_domain::PlanPhase>,
    /// Only those that are shown in this state, `awaiting_input` among them.
    pub state: Option<String>,
    /// Only those that work on this project.
    pub project: Option<String>,
    /// Only those made from this action.
    pub action: Option<String>,
    /// Only those whose name, action or description it matches.
    pub pattern: Option<String>,
    /// Only those in namespaces that may be seen.
    pub visible: cleveragents_domain::identity::Namespaces,
}

impl PlanQuery {
    /// The states that a plan may be shown in.
    pub fn states() -> Vec<&'static str> {
        let mut states: Vec<&str> = Vec::new();
        for stage in PlanStage::ALL {
            if !states.contains(&stage.state()) {
                states.push(stage.state());
            }
        }
        states.push(AWAITING);
        states
    }

    /// The part that the store decides; nothing when no plan can match.
    fn filter(&self) -> Option<PlanFilter> {
        let waits = self.state.as_deref().map(|state| state == AWAITING);
        let fits = |stage: &PlanStage| {
            let of_phase = self.phase.is_none_or(|phase| stage.phase() == phase);
            let state = self.state.as_deref();
            of_phase && state.is_none_or(|state| state == AWAITING || stage.state() == state)
        };
        let stages: Vec<PlanStage> = PlanStage::ALL.iter().copied().filter(fits).collect();
        if stages.is_empty() {
            return None;
        }
        Some(PlanFilter {
            // All of them need not be named.
            stages: if stages.len() == PlanStage::ALL.len() {
                Vec::new()
            } else {
                stages
            },
            project: self.project.clone(),
            action: self.action.clone(),
            waits,
            ..PlanFilter::default()
        })
    }
}

/// The state in which a plan is shown that waits for a person.
const AWAITING: &str = "awaiting_input";

/// Looks up plans and what belongs to them.
#[derive(Clone)]
pub struct PlanBook {
    engine: Arc<Engine>,
    sandboxes: SandboxService,
    leases: LeaseService,
}

impl PlanBook {
    /// A book over a store, and the sandboxes in which its plans work.
    pub fn new(engine: Arc<Engine>, sandboxes: SandboxService) -> Self {
        Self {
            leases: LeaseService::new(Arc::clone(&engine)),
            engine,
            sandboxes,
        }
    }

    /// The plan that is meant: by its id, the beginning of it, or its name.
    pub fn resolve(&self, reference: &str) -> Result<Plan, BookError> {
        let mut found = match check_prefix(reference) {
            Ok(prefix) => self
                .engine
                .read(|reader| plans::with_prefix(reader, &prefix, CANDIDATES))?,
            Err(_) => Vec::new(),
        };
        // Such a plan only owns changesets.
        found.retain(|plan| !plan.action.is_empty());
        let mut meant = format!("have an id that begins with `{reference}`");
        if found.is_empty() {
            found = self
                .engine
                .read(|reader| plans::named(reader, reference, CANDIDATES))?;
            meant = format!("are called `{reference}`");
        }
        match found.len() {
            0 => Err(BookError::NotFound {
                nearest: self.names_like(reference)?,
                reference: reference.to_owned(),
            }),
            1 => Ok(found.remove(0)),
            _ => Err(ambiguous(meant, &found)),
        }
    }

    fn names_like(&self, reference: &str) -> Result<Vec<String>, BookError> {
        let newest = self.engine.read(|reader| {
            let filter = PlanFilter {
                limit: Some(KNOWN_NAMES),
                ..PlanFilter::default()
            };
            plans::list(reader, &filter)
        })?;
        let names = newest.iter().filter_map(|plan| plan.name.as_deref());
        Ok(nearest::all(reference, names, 3))
    }

    /// The one plan in these stages, in any when none is named. `purpose` completes "there is no
    /// plan …" and "several plans are …", such as `to be executed`.
    pub fn only(&self, stages: &[PlanStage], purpose: &str) -> Result<Plan, BookError> {
        let filter = PlanFilter {
            stages: stages.to_vec(),
            limit: Some(CANDIDATES),
            ..PlanFilter::default()
        };
        let mut found = self.engine.read(|reader| plans::list(reader, &filter))?;
        match found.len() {
            0 => Err(BookError::NoPlan {
                purpose: purpose.to_owned(),
            }),
            1 => Ok(found.remove(0)),
            _ => Err(ambiguous(format!("are {purpose}"), &found)),
        }
    }

    /// The one plan that waits for a person.
    pub fn only_waiting(&self) -> Result<Plan, BookError> {
        let filter = PlanFilter {
            waits: Some(true),
            limit: Some(CANDIDATES),
            ..PlanFilter::default()
        };
        let mut found = self.engine.read(|reader| plans::list(reader, &filter))?;
        match found.len() {
            0 => Err(BookError::NoPlan {
                purpose: "that waits for a person".to_owned(),
            }),
            1 => Ok(found.remove(0)),
            _ => Err(ambiguous("wait for a person".to_owned(), &found)),
        }
    }

    /// The plan to look at: the one that is named, else the only one that is not over, else the only
    /// one there is.
    pub fn find(&self, reference: Option<&str>) -> Result<Plan, BookError> {
        if let Some(reference) = reference {
            return self.resolve(reference);
        }
        let is_going_on = |stage: &PlanStage| !stage.is_terminal();
        let going_on: Vec<PlanStage> = PlanStage::ALL.iter().copied().filter(is_going_on).collect();
        match self.only(&going_on, "going on") {
            Err(BookError::NoPlan { .. }) => self.only(&[], "there"),
            other => other,
        }
    }

    /// A plan by its id.
    pub fn get(&self, id: PlanId) -> Result<Plan, BookError> {
        self.engine
            .read(|reader| plans::get(reader, id))?
            .ok_or_else(|| BookError::NotFound {
                reference: id.to_string(),
                nearest: Vec::new(),
            })
    }

    /// Plans, newest first.
    pub fn list(&self, query: &PlanQuery) -> Result<Vec<Plan>, BookError> {
        let pattern = query
            .pattern
            .as_deref()
            .map(|pattern| {
                regex::Regex::new(pattern).map_err(|error| BookError::Pattern {
                    pattern: pattern.to_owned(),
                    why: error.to_string(),
                })
            })
            .transpose()?;
        let Some(filter) = query.filter() else {
            return Ok(Vec::new());
        };
        let mut found = self.engine.read(|reader| plans::list(reader, &filter))?;
        found.retain(|plan| query.visible.contains(plans::belongs_to(plan)));
        if let Some(pattern) = pattern {
            found.retain(|plan| {
                let name = plan.name.as_deref().unwrap_or_default();
                [name, &plan.action, &plan.description]
                    .iter()
                    .any(|text| pattern.is_match(text))
            });
        }
        Ok(found)
    }

    /// The plans that are parts of this one, newest first.
    pub fn children(&self, plan: PlanId) -> Result<Vec<Plan>, BookError> {
        let filter = PlanFilter {
            parent: Some(plan),
            ..PlanFilter::default()
        };
        Ok(self.engine.read(|reader| plans::list(reader, &filter))?)
    }

    /// Every decision of a plan in the order in which they were made.
    pub fn decisions(&self, plan: PlanId) -> Result<Vec<Decision>, BookError> {
        Ok(self
            .engine
            .read(|reader| decisions::of_plan(reader, plan))?)
    }

    /// The decision that is meant: by its id, or the beginning of it.
    pub fn resolve_decision(&self, reference: &str) -> Result<Decision, BookError> {
        let mut found = match check_prefix(reference) {
            Ok(prefix) => self
                .engine
                .read(|reader| decisions::with_prefix(reader, &prefix, CANDIDATES))?,
            Err(_) => Vec::new(),
        };
        match found.len() {
            1 => Ok(found.remove(0)),
            _ => Err(BookError::DecisionNotFound {
                reference: reference.to_owned(),
                candidates: found
                    .iter()
                    .map(|decision| decision.said.id.to_string())
                    .collect(),
            }),
        }
    }

    /// What a plan did piece by piece, what was taken back included.
    pub fn steps(&self, plan: PlanId) -> Result<Vec<StepRecord>, BookError> {
        Ok(self
            .engine
            .read(|reader| plan_steps::of_plan(reader, plan))?)
    }

    /// Every call of a tool for a plan, oldest first.
    pub fn calls(&self, plan: PlanId) -> Result<Vec<ToolInvocation>, BookError> {
        Ok(self
            .engine
            .read(|reader| invocations::of_plan(reader, plan))?)
    }

    /// What validations found about a plan, oldest first.
    pub fn validations(&self, plan: PlanId) -> Result<Vec<StoredResult>, BookError> {
        Ok(self
            .engine
            .read(|reader| validations::results(reader, plan))?)
    }

    /// How much work is recorded of a plan: its steps and its validation results, those included that a
    /// rollback undid. The number grows with everything that an actor, a tool or a check does for it.
    pub fn recorded_work(&self, plan: PlanId) -> Result<usize, BookError> {
        Ok(self.steps(plan)?.len() + self.validations(plan)?.len())
    }

    /// How many times guidance was given to a plan that nothing has read yet.
    pub fn pending_guidance(&self, plan: PlanId) -> Result<usize, BookError> {
        let given = self.guidance(plan)?;
        Ok(given.iter().filter(|one| one.applied_at.is_none()).count())
    }

    /// A stored result that did not pass, with all that was printed; nothing for one that passed.
    pub fn failed_check(&self, stored: &StoredResult) -> Result<Option<FailedCheck>, BookError> {
        if stored.result.passed {
            return Ok(None);
        }
        let output = self.stored_text(stored.result.output)?;
        Ok(Some(FailedCheck::new(&stored.result, output)))
    }

    /// The validations whose last result did not pass, with what they printed, each output bounded.
    pub fn failed_checks(&self, plan: PlanId) -> Result<Vec<FailedCheck>, BookError> {
        let mut last: Vec<StoredResult> = Vec::new();
        for stored in self.validations(plan)? {
            let (attachment, name) = (stored.result.attachment_id, &stored.result.validation);
            last.retain(|known| {
                known.result.attachment_id != attachment || known.result.validation != *name
            });
            last.push(stored);
        }
        let mut failed = Vec::new();
        for stored in &last {
            failed.extend(self.failed_check(stored)?.map(FailedCheck::bounded));
        }
        Ok(failed)
    }

    /// Stored content as text; empty when there is none.
    fn stored_text(&self, hash: Option<ContentHash>) -> Result<String, BookError> {
        let Some(hash) = hash else {
            return Ok(String::new());
        };
        let content = self.engine.read(|reader| blobs::get(reader, hash))?;
        Ok(String::from_utf8_lossy(&content.unwrap_or_default()).into_owned())
    }

    /// Who works on a plan right now.
    pub fn owner(&self, plan: PlanId) -> Result<Option<Lease>, BookError> {
        Ok(self.leases.worker(&subject(plan))?)
    }

    /// What happened to a plan after a position of the log, in order, at most `limit`.
    pub fn log(&self, plan: PlanId, after: Position, limit: u64) -> Result<Vec<Event>, BookError> {
        let subject = plan.to_string();
        Ok(self
            .engine
            .read(|reader| events::about(reader, &subject, after, limit))?)
    }

    /// What happened to a plan last, in order, at most `limit`.
    pub fn newest_log(&self, plan: PlanId, limit: u64) -> Result<Vec<Event>, BookError> {
        let subject = plan.to_string();
        Ok(self
            .engine
            .read(|reader| events::newest_about(reader, &subject, limit))?)
    }

    /// What people said to a plan, oldest first.
    pub fn guidance(&self, plan: PlanId) -> Result<Vec<Guidance>, BookError> {
        Ok(self
            .engine
            .read(|reader| plan_steps::guidance(reader, plan))?)
    }

    /// What people answered a plan, oldest first.
    pub fn answers(&self, plan: PlanId) -> Result<Vec<PlanAnswer>, BookError> {
        Ok(self
            .engine
            .read(|reader| plan_steps::answers(reader, plan))?)
    }

    /// The rollbacks of a plan, oldest first.
    pub fn rollbacks(&self, plan: PlanId) -> Result<Vec<Rollback>, BookError> {
        Ok(self
            .engine
            .read(|reader| plan_steps::rollbacks(reader, plan))?)
    }

    /// The sandbox of a plan, once it has one.
    pub fn sandbox(&self, plan: &Plan) -> Result<Option<SandboxView>, BookError> {
        let Some(name) = &plan.sandbox else {
            return Ok(None);
        };
        match self.sandboxes.find(name) {
            // The name is known before the sandbox is made.
            Err(SandboxError::NotFound(_)) => Ok(None),
            found => Ok(Some(found?)),
        }
    }

    /// The checkpoints of a plan, oldest first.
    pub fn checkpoints(&self, plan: &Plan) -> Result<Vec<Checkpoint>, BookError> {
        let sandbox = self.sandbox(plan)?;
        Ok(sandbox.map_or_else(Vec::new, |view| view.checkpoints))
    }
}

/// What the lease is for under which a plan is worked on.
fn subject(plan: PlanId) -> LeaseSubject {
    LeaseSubject::new("plan", plan)
}

fn ambiguous(meant: String, found: &[Plan]) -> BookError {
    BookError::Ambiguous {
        meant,
        candidates: found.iter().map(PlanCandidate::from).collect(),
    }
}
