//! [`PlanQueries`]: reads plans and their records, and deletes checkpoints. The number of
//! statements of a query does not depend on the number of plans.

mod changes;
mod checkpoints;
pub(super) mod draw;
mod error;
mod explain;
mod failures;
mod guard;
mod log;
mod lookup;
mod plans_using;
mod status;
mod tree;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cleveragents_domain::{
    Checkpoint, ContentHash, Decision, Event, Lease, LeaseSubject, Plan, PlanId, PlanStage,
    PlanState, Position, StepRecord, ToolInvocation, nearest,
};
use cleveragents_store::Reader;
use cleveragents_store::plan_steps::{Guidance, PlanAnswer, Rollback};
use cleveragents_store::plans::PlanFilter;
use cleveragents_store::validations::StoredResult;
use cleveragents_store::{
    Engine, blobs, decisions, events, invocations, plan_steps, plans, validations,
};

use super::validate::FailedCheck;
use crate::lease::LeaseService;
use crate::reference::{CANDIDATES, find_referenced, unnamed};
use crate::sandbox::{SandboxError, SandboxService, SandboxView};

pub use changes::{ChangeStatus, FileChange, Hunk, PlanChanges};
pub(super) use changes::{counted, is_folder};
pub use checkpoints::written as checkpoint_name;
pub use error::{PlanCandidate, PlanQueryError};
pub use explain::{Alternative, CorrectionImpact, Explanation, Impact};
pub use failures::{PlanFailure, PlanFailureKind, PlanFailures};
pub use guard::{LimitUsage, PlanGuard};
pub use log::describe_event;
pub use lookup::PlanLookup;
pub(crate) use plans_using::{PlanDependency, active_plans_using, finish_hint};
pub use status::{PhaseProgress, PlanStatus, ProgressState};
#[cfg(test)]
pub(super) use tree::tests::decisions as test_decisions;
pub use tree::{DecisionTree, DecisionTreeNode as DecisionNode, TreeOptions, TreeSummary};

/// Maximum number of names that are compared with a wrong one.
const KNOWN_NAMES: u64 = 500;

/// Filters for a list of plans.
#[derive(Debug, Clone, Default)]
pub struct PlanListQuery {
    /// Only those in this phase: `strategize`, `execute`, `apply`.
    pub phase: Option<cleveragents_domain::PlanPhase>,
    /// Only those in this state.
    pub state: Option<PlanState>,
    /// Only those that work on this project.
    pub project: Option<String>,
    /// Only those made from this action.
    pub action: Option<String>,
    /// Only those whose name, action or description matches this regular expression.
    pub pattern: Option<String>,
    /// Only those in visible namespaces.
    pub visible: cleveragents_domain::identity::Namespaces,
}

impl PlanListQuery {
    /// The part of the filter that the store evaluates; `None` when no plan can match.
    fn filter(&self) -> Option<PlanFilter> {
        let waits = self.state.map(|state| state == PlanState::AwaitingInput);
        let fits = |stage: &PlanStage| {
            let of_phase = self.phase.is_none_or(|phase| stage.phase() == phase);
            of_phase
                && self.state.is_none_or(|state| {
                    state == PlanState::AwaitingInput || stage.shown_state() == state
                })
        };
        let stages: Vec<PlanStage> = PlanStage::ALL.iter().copied().filter(fits).collect();
        if stages.is_empty() {
            return None;
        }
        Some(PlanFilter {
            // A filter for all namespaces is left out.
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

/// Looks up plans and their records.
#[derive(Clone)]
pub struct PlanQueries {
    engine: Arc<Engine>,
    sandboxes: SandboxService,
    leases: LeaseService,
    /// The folder of the caller.
    folder: Option<PathBuf>,
}

impl PlanQueries {
    /// Queries on a database, and the sandboxes of its plans.
    pub fn new(engine: Arc<Engine>, sandboxes: SandboxService) -> Self {
        Self {
            leases: LeaseService::new(Arc::clone(&engine)),
            engine,
            sandboxes,
            folder: None,
        }
    }

    /// Finds a plan by its id, a prefix of the id, or its name.
    pub fn resolve(&self, reference: &str) -> Result<Plan, PlanQueryError> {
        match self.engine.read(|reader| find_plan(reader, reference)) {
            Err(PlanQueryError::NotFound { reference, .. }) => Err(PlanQueryError::NotFound {
                nearest: self.names_like(&reference)?,
                reference,
            }),
            found => found,
        }
    }

    fn names_like(&self, reference: &str) -> Result<Vec<String>, PlanQueryError> {
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

    /// The same, for a caller in a folder: a plan that is not named is one of this folder.
    #[must_use]
    pub fn in_folder(self, folder: &Path) -> Self {
        let folder = folder.canonicalize().ok();
        Self { folder, ..self }
    }

    /// The plan in these stages. `purpose` completes "there is no plan …" and "several plans are …", such as
    /// `to be executed`.
    pub fn only(&self, stages: &[PlanStage], purpose: &str) -> Result<Plan, PlanQueryError> {
        self.unnamed_plan(
            &PlanFilter {
                stages: stages.to_vec(),
                ..PlanFilter::default()
            },
            purpose,
            &format!("are {purpose}"),
        )
    }

    /// The plan that waits for the user.
    pub fn only_waiting(&self) -> Result<Plan, PlanQueryError> {
        self.unnamed_plan(
            &PlanFilter {
                waits: Some(true),
                ..PlanFilter::default()
            },
            "that waits for the user",
            "wait for the user",
        )
    }

    /// The plan with a reference; without one the current plan of the folder, the only unfinished plan, or the
    /// only plan.
    pub fn find(&self, reference: Option<&str>) -> Result<Plan, PlanQueryError> {
        if let Some(reference) = reference {
            return self.resolve(reference);
        }
        if let Some(current) = self.current()? {
            return Ok(current);
        }
        match self.only(&unfinished_stages(), "in progress") {
            Err(PlanQueryError::NoPlan { .. }) => {
                self.unnamed_plan(&PlanFilter::default(), "yet", "exist")
            }
            other => other,
        }
    }

    /// The current plan of the folder: its newest unfinished plan, or its newest plan. The folder is the nearest one
    /// upwards that has plans.
    pub fn current(&self) -> Result<Option<Plan>, PlanQueryError> {
        match self.plan_location()? {
            Some(location) => self.current_at(&location),
            None => Ok(None),
        }
    }

    fn current_at(&self, location: &str) -> Result<Option<Plan>, PlanQueryError> {
        let newest = |stages: Vec<PlanStage>| {
            let filter = PlanFilter {
                stages,
                location: Some(location.to_owned()),
                limit: Some(1),
                ..PlanFilter::default()
            };
            let found = self.engine.read(|reader| plans::list(reader, &filter))?;
            Ok::<_, PlanQueryError>(found.into_iter().next())
        };
        match newest(unfinished_stages())? {
            Some(current) => Ok(Some(current)),
            None => newest(Vec::new()),
        }
    }

    /// The location of the nearest folder, upwards from that of the caller, that has plans.
    fn plan_location(&self) -> Result<Option<String>, PlanQueryError> {
        let folders = self.folder.iter().flat_map(|folder| folder.ancestors());
        for folder in folders {
            let filter = PlanFilter {
                location: Some(folder.display().to_string()),
                limit: Some(1),
                ..PlanFilter::default()
            };
            let found = self.engine.read(|reader| plans::list(reader, &filter))?;
            if !found.is_empty() {
                return Ok(filter.location);
            }
        }
        Ok(None)
    }

    /// The plan that a caller means who names none: the current plan of the folder if it matches the filter, else the
    /// only one of the folder that does. Plans of other folders count only where the folder has none.
    fn unnamed_plan(
        &self,
        filter: &PlanFilter,
        purpose: &str,
        property: &str,
    ) -> Result<Plan, PlanQueryError> {
        let location = self.plan_location()?;
        let filter = PlanFilter {
            limit: Some(CANDIDATES),
            location: location.clone(),
            ..filter.clone()
        };
        let mut found = self.engine.read(|reader| plans::list(reader, &filter))?;
        if let Some(location) = location
            && let Some(current) = self.current_at(&location)?
            && let Some(at) = found.iter().position(|plan| plan.id == current.id)
        {
            return Ok(found.swap_remove(at));
        }
        match found.len() {
            0 => Err(PlanQueryError::NoPlan {
                purpose: purpose.to_owned(),
            }),
            1 => Ok(found.remove(0)),
            _ => Err(ambiguous(property.to_owned(), &found)),
        }
    }

    /// A plan by its id.
    pub fn get(&self, id: PlanId) -> Result<Plan, PlanQueryError> {
        self.engine
            .read(|reader| plans::get(reader, id))?
            .ok_or_else(|| PlanQueryError::NotFound {
                reference: id.to_string(),
                nearest: Vec::new(),
            })
    }

    /// Plans, newest first.
    pub fn list(&self, query: &PlanListQuery) -> Result<Vec<Plan>, PlanQueryError> {
        let pattern = query
            .pattern
            .as_deref()
            .map(|pattern| {
                regex::Regex::new(pattern).map_err(|error| PlanQueryError::Pattern {
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

    /// The child plans of a plan, newest first.
    pub fn children(&self, plan: PlanId) -> Result<Vec<Plan>, PlanQueryError> {
        let filter = PlanFilter {
            parent: Some(plan),
            ..PlanFilter::default()
        };
        Ok(self.engine.read(|reader| plans::list(reader, &filter))?)
    }

    /// Every decision of a plan in the order in which they were made.
    pub fn decisions(&self, plan: PlanId) -> Result<Vec<Decision>, PlanQueryError> {
        Ok(self
            .engine
            .read(|reader| decisions::of_plan(reader, plan))?)
    }

    /// Finds a decision by its id or a prefix of it.
    pub fn resolve_decision(&self, reference: &str) -> Result<Decision, PlanQueryError> {
        self.engine.read(|reader| {
            find_referenced(
                reader,
                reference,
                unnamed,
                |reader, prefix, limit| Ok(decisions::with_prefix(reader, prefix, limit)?),
                |found| PlanQueryError::DecisionNotFound {
                    reference: reference.to_owned(),
                    candidates: found
                        .iter()
                        .map(|decision| decision.said.id.to_string())
                        .collect(),
                },
            )
        })
    }

    /// The steps of a plan, rolled-back ones included.
    pub fn steps(&self, plan: PlanId) -> Result<Vec<StepRecord>, PlanQueryError> {
        Ok(self
            .engine
            .read(|reader| plan_steps::of_plan(reader, plan))?)
    }

    /// The tool calls of a plan, oldest first.
    pub fn calls(&self, plan: PlanId) -> Result<Vec<ToolInvocation>, PlanQueryError> {
        Ok(self
            .engine
            .read(|reader| invocations::of_plan(reader, plan))?)
    }

    /// The validation results of a plan, oldest first.
    pub fn validations(&self, plan: PlanId) -> Result<Vec<StoredResult>, PlanQueryError> {
        Ok(self
            .engine
            .read(|reader| validations::results(reader, plan))?)
    }

    /// The amount of recorded work of a plan: its steps and its validation results, also rolled
    /// back ones. The number grows with every step and every check.
    pub fn recorded_work(&self, plan: PlanId) -> Result<usize, PlanQueryError> {
        Ok(self.steps(plan)?.len() + self.validations(plan)?.len())
    }

    /// The number of guidance entries of a plan that no actor has read yet.
    pub fn pending_guidance(&self, plan: PlanId) -> Result<usize, PlanQueryError> {
        let given = self.guidance(plan)?;
        Ok(given.iter().filter(|one| one.applied_at.is_none()).count())
    }

    /// A stored result that did not pass, with its complete output; `None` for one that passed.
    pub fn failed_check(
        &self,
        stored: &StoredResult,
    ) -> Result<Option<FailedCheck>, PlanQueryError> {
        if stored.result.passed {
            return Ok(None);
        }
        let output = self.stored_text(stored.result.output)?;
        Ok(Some(FailedCheck::new(&stored.result, output)))
    }

    /// The validations whose last result did not pass, each with a bounded output.
    pub fn failed_checks(&self, plan: PlanId) -> Result<Vec<FailedCheck>, PlanQueryError> {
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
    fn stored_text(&self, hash: Option<ContentHash>) -> Result<String, PlanQueryError> {
        let Some(hash) = hash else {
            return Ok(String::new());
        };
        let content = self.engine.read(|reader| blobs::get(reader, hash))?;
        Ok(String::from_utf8_lossy(&content.unwrap_or_default()).into_owned())
    }

    /// The lease of the process that runs a plan now.
    pub fn owner(&self, plan: PlanId) -> Result<Option<Lease>, PlanQueryError> {
        Ok(self.leases.worker(&subject(plan))?)
    }

    /// The events of a plan after a position of the log, oldest first, at most `limit`.
    pub fn log(
        &self,
        plan: PlanId,
        after: Position,
        limit: u64,
    ) -> Result<Vec<Event>, PlanQueryError> {
        let subject = plan.to_string();
        Ok(self
            .engine
            .read(|reader| events::about(reader, &subject, after, limit))?)
    }

    /// The last events of a plan, oldest first, at most `limit`.
    pub fn newest_log(&self, plan: PlanId, limit: u64) -> Result<Vec<Event>, PlanQueryError> {
        let subject = plan.to_string();
        Ok(self
            .engine
            .read(|reader| events::newest_about(reader, &subject, limit))?)
    }

    /// The guidance of a plan, oldest first.
    pub fn guidance(&self, plan: PlanId) -> Result<Vec<Guidance>, PlanQueryError> {
        Ok(self
            .engine
            .read(|reader| plan_steps::guidance(reader, plan))?)
    }

    /// The answers of users to a plan, oldest first.
    pub fn answers(&self, plan: PlanId) -> Result<Vec<PlanAnswer>, PlanQueryError> {
        Ok(self
            .engine
            .read(|reader| plan_steps::answers(reader, plan))?)
    }

    /// The rollbacks of a plan, oldest first.
    pub fn rollbacks(&self, plan: PlanId) -> Result<Vec<Rollback>, PlanQueryError> {
        Ok(self
            .engine
            .read(|reader| plan_steps::rollbacks(reader, plan))?)
    }

    /// The sandbox of a plan, once it has one.
    pub fn sandbox(&self, plan: &Plan) -> Result<Option<SandboxView>, PlanQueryError> {
        let Some(name) = &plan.sandbox else {
            return Ok(None);
        };
        match self.sandboxes.find(name) {
            // The name is stored before the sandbox is created.
            Err(SandboxError::NotFound(_)) => Ok(None),
            found => Ok(Some(found?)),
        }
    }

    /// The checkpoints of a plan, oldest first.
    pub fn checkpoints(&self, plan: &Plan) -> Result<Vec<Checkpoint>, PlanQueryError> {
        let sandbox = self.sandbox(plan)?;
        Ok(sandbox.map_or_else(Vec::new, |view| view.checkpoints))
    }
}

fn unfinished_stages() -> Vec<PlanStage> {
    let stages = PlanStage::ALL.iter().copied();
    stages.filter(|stage| !stage.is_terminal()).collect()
}

/// The subject of the lease of a plan.
fn subject(plan: PlanId) -> LeaseSubject {
    LeaseSubject::new("plan", plan)
}

/// The plan that a reference names. Rows without an action only own changesets and are not shown to
/// users.
pub(crate) fn find_plan(reader: &mut dyn Reader, reference: &str) -> Result<Plan, PlanQueryError> {
    find_referenced(
        reader,
        reference,
        |reader| Ok(plans::named(reader, reference, CANDIDATES)?),
        |reader, prefix, limit| {
            let mut found = plans::with_prefix(reader, prefix, limit)?;
            found.retain(|plan| !plan.action.is_empty());
            Ok(found)
        },
        |found| match found.first() {
            None => PlanQueryError::NotFound {
                reference: reference.to_owned(),
                nearest: Vec::new(),
            },
            Some(first) if first.name.as_deref() == Some(reference) => {
                ambiguous(format!("are named `{reference}`"), &found)
            }
            Some(_) => ambiguous(format!("have an id that begins with `{reference}`"), &found),
        },
    )
}

fn ambiguous(meant: String, found: &[Plan]) -> PlanQueryError {
    PlanQueryError::Ambiguous {
        meant,
        candidates: found.iter().map(PlanCandidate::from).collect(),
    }
}
