//! [`PlanQueries`]: reads plans and their records, and deletes checkpoints. The number of SQL statements of a query
//! does not depend on the number of plans.

mod applied;
mod changes;
mod checkpoints;
mod children;
mod corrections;
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

pub(super) use applied::UNDONE;
pub use applied::{AppliedCommit, UndoneApply};
pub use changes::{ChangeStatus, FileChange, Hunk, PlanChanges};
pub(super) use changes::{counted, is_folder};
pub use checkpoints::checkpoint_name;
pub(super) use children::ConflictContent;
pub use error::{PlanCandidate, PlanQueryError};
pub(crate) use explain::downstream;
pub use explain::{Alternative, CorrectionImpact, Explanation, Impact};
pub use failures::{PlanFailure, PlanFailureKind, PlanFailures};
pub use guard::{LimitUsage, PlanGuard};
pub(super) use log::describe_call;
pub use log::describe_event;
pub use lookup::PlanLookup;
pub(crate) use plans_using::{PlanDependency, active_plans_using, finish_hint};
pub use status::{PhaseProgress, PlanStatus, ProgressState};
#[cfg(test)]
pub(super) use tree::tests::decisions as test_decisions;
pub use tree::{DecisionTree, DecisionTreeNode as DecisionNode, TreeOptions, TreeSummary};

/// Maximum number of plan names that are compared with an unknown name.
const KNOWN_NAMES: u64 = 500;

/// Filters for a list of plans.
#[derive(Debug, Clone, Default)]
pub struct PlanListQuery {
    /// Only plans in this phase: `strategize`, `execute` or `apply`.
    pub phase: Option<cleveragents_domain::PlanPhase>,
    /// Only plans in this state.
    pub state: Option<PlanState>,
    /// Only plans that work on this project.
    pub project: Option<String>,
    /// Only plans made from this action.
    pub action: Option<String>,
    /// Only plans whose name, action or description matches this regular expression.
    pub pattern: Option<String>,
    /// Whether child plans are listed too.
    pub with_children: bool,
    /// Only plans in these namespaces.
    pub visible: cleveragents_domain::identity::Namespaces,
}

impl PlanListQuery {
    /// The part of the filter that the store evaluates; `None` if no plan can match.
    fn filter(&self) -> Option<PlanFilter> {
        let waits = self.state.map(|state| state == PlanState::AwaitingInput);
        let matches_query = |stage: &PlanStage| {
            let is_in_phase = self.phase.is_none_or(|phase| stage.phase() == phase);
            is_in_phase
                && self.state.is_none_or(|state| {
                    state == PlanState::AwaitingInput || stage.shown_state() == state
                })
        };
        let stages: Vec<PlanStage> = PlanStage::ALL
            .iter()
            .copied()
            .filter(matches_query)
            .collect();
        if stages.is_empty() {
            return None;
        }
        Some(PlanFilter {
            // A filter that allows all stages is omitted.
            stages: if stages.len() == PlanStage::ALL.len() {
                Vec::new()
            } else {
                stages
            },
            project: self.project.clone(),
            action: self.action.clone(),
            waits,
            with_children: self.with_children,
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
    /// The working folder of the caller.
    folder: Option<PathBuf>,
}

impl PlanQueries {
    /// Creates queries on a database and the sandboxes of its plans.
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
            other => other,
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

    /// Sets the working folder of the caller. A request without a reference then means a plan of this folder.
    #[must_use]
    pub fn in_folder(self, folder: &Path) -> Self {
        let folder = folder.canonicalize().ok();
        Self { folder, ..self }
    }

    /// The only plan in these stages, or the current plan of the folder if it is in one of them. `purpose` completes
    /// the errors "there is no plan …" and "several plans are …", such as `to be executed`.
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

    /// The only plan that waits for the user, or the current plan of the folder if it does.
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

    /// Finds a plan by its reference. Without a reference, finds the current plan of the folder, else the only
    /// unfinished plan, else the only plan.
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

    /// The newest unfinished plan of the folder, else its newest plan that is not cancelled, else its newest plan. If
    /// the folder has no plans, its nearest ancestor that has plans is used instead.
    pub fn current(&self) -> Result<Option<Plan>, PlanQueryError> {
        match self.plan_location()? {
            Some(location) => self.current_at(&location),
            None => Ok(None),
        }
    }

    /// The newest unfinished plan of a folder that neither is a child of another plan nor waits for a worker.
    pub fn newest_unfinished(&self, folder: &Path) -> Result<Option<Plan>, PlanQueryError> {
        let filter = PlanFilter {
            stages: unfinished_stages(),
            location: Some(folder.display().to_string()),
            ..PlanFilter::default()
        };
        let plans = self.engine.read(|reader| plans::list(reader, &filter))?;
        let is_own = |plan: &Plan| plan.parent.is_none() && plan.queued_for.is_none();
        Ok(plans.into_iter().find(is_own))
    }

    fn current_at(&self, location: &str) -> Result<Option<Plan>, PlanQueryError> {
        let newest = |stages: Vec<PlanStage>| {
            let filter = PlanFilter {
                stages,
                location: Some(location.to_owned()),
                limit: Some(1),
                ..PlanFilter::default()
            };
            let matching = self.engine.read(|reader| plans::list(reader, &filter))?;
            Ok::<_, PlanQueryError>(matching.into_iter().next())
        };
        let all_but_cancelled = PlanStage::ALL
            .iter()
            .copied()
            .filter(|stage| stage.shown_state() != PlanState::Cancelled)
            .collect();
        for stages in [unfinished_stages(), all_but_cancelled, Vec::new()] {
            if let Some(current) = newest(stages)? {
                return Ok(Some(current));
            }
        }
        Ok(None)
    }

    /// The caller's folder if it has plans, else its nearest ancestor that has plans.
    fn plan_location(&self) -> Result<Option<String>, PlanQueryError> {
        let folders = self.folder.iter().flat_map(|folder| folder.ancestors());
        for folder in folders {
            let filter = PlanFilter {
                location: Some(folder.display().to_string()),
                limit: Some(1),
                ..PlanFilter::default()
            };
            let matching = self.engine.read(|reader| plans::list(reader, &filter))?;
            if !matching.is_empty() {
                return Ok(filter.location);
            }
        }
        Ok(None)
    }

    /// Resolves a request without a reference: the current plan of the folder if it matches the filter, else the only
    /// matching plan of the folder. Plans of other folders count only if the folder has no plans.
    fn unnamed_plan(
        &self,
        filter: &PlanFilter,
        purpose: &str,
        property: &str,
    ) -> Result<Plan, PlanQueryError> {
        let location = self.plan_location()?;
        let is_elsewhere = self.folder.is_some() && location.is_none();
        let filter = PlanFilter {
            limit: Some(CANDIDATES),
            location: location.clone(),
            ..filter.clone()
        };
        let mut matching = self.engine.read(|reader| plans::list(reader, &filter))?;
        let current = match location {
            Some(location) => self.current_at(&location)?,
            None => None,
        };
        if let Some(current) = &current
            && let Some(at) = matching.iter().position(|plan| plan.id == current.id)
        {
            return Ok(matching.swap_remove(at));
        }
        match matching.len() {
            0 => Err(PlanQueryError::NoPlan {
                purpose: purpose.to_owned(),
                current: current.map(|plan| (plan.id, plan.stage)),
            }),
            1 => Ok(matching.remove(0)),
            _ if is_elsewhere => {
                let property = format!("{property} in other folders, and none in this one");
                Err(ambiguous(property, &matching))
            }
            _ => Err(ambiguous(property.to_owned(), &matching)),
        }
    }

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
        let mut matching = self.engine.read(|reader| plans::list(reader, &filter))?;
        matching.retain(|plan| query.visible.contains(plans::plan_namespace(plan)));
        if let Some(pattern) = pattern {
            matching.retain(|plan| {
                let name = plan.name.as_deref().unwrap_or_default();
                [name, &plan.action, &plan.description]
                    .iter()
                    .any(|text| pattern.is_match(text))
            });
        }
        Ok(matching)
    }

    /// The child plans of a plan, newest first.
    pub fn children(&self, plan: PlanId) -> Result<Vec<Plan>, PlanQueryError> {
        let filter = PlanFilter {
            parent: Some(plan),
            ..PlanFilter::default()
        };
        Ok(self.engine.read(|reader| plans::list(reader, &filter))?)
    }

    /// All decisions of a plan, oldest first.
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
                |matching| PlanQueryError::DecisionNotFound {
                    reference: reference.to_owned(),
                    candidates: matching
                        .iter()
                        .map(|decision| decision.content.id.to_string())
                        .collect(),
                },
            )
        })
    }

    /// The steps of a plan, including rolled-back ones.
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

    /// Number of recorded steps and validation results of a plan, including rolled-back ones. The number grows with
    /// every step and every check.
    pub fn recorded_work(&self, plan: PlanId) -> Result<usize, PlanQueryError> {
        Ok(self.steps(plan)?.len() + self.validations(plan)?.len())
    }

    /// The number of guidance entries of a plan that no actor has read yet.
    pub fn pending_guidance(&self, plan: PlanId) -> Result<usize, PlanQueryError> {
        let guidance = self.guidance(plan)?;
        let pending = guidance.iter().filter(|entry| entry.applied_at.is_none());
        Ok(pending.count())
    }

    /// A failed validation with its complete output; `None` if it passed.
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

    /// The validations that failed in their last run. Long outputs are shortened.
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

    /// Stored content as text; empty without a hash or content.
    fn stored_text(&self, hash: Option<ContentHash>) -> Result<String, PlanQueryError> {
        let Some(hash) = hash else {
            return Ok(String::new());
        };
        let content = self.engine.read(|reader| blobs::get(reader, hash))?;
        Ok(String::from_utf8_lossy(&content.unwrap_or_default()).into_owned())
    }

    /// The lease of the process that currently runs a plan.
    pub fn owner(&self, plan: PlanId) -> Result<Option<Lease>, PlanQueryError> {
        Ok(self.leases.worker(&subject(plan))?)
    }

    /// At most `limit` events of a plan after a position of the log, oldest first.
    pub fn log(
        &self,
        plan: PlanId,
        after: Position,
        limit: u64,
    ) -> Result<Vec<Event>, PlanQueryError> {
        Ok(self
            .engine
            .read(|reader| events::of_plan(reader, plan, after, limit))?)
    }

    /// The last `limit` events of a plan, oldest first.
    pub fn newest_log(&self, plan: PlanId, limit: u64) -> Result<Vec<Event>, PlanQueryError> {
        Ok(self
            .engine
            .read(|reader| events::newest_of_plan(reader, plan, limit))?)
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

    /// The sandbox of a plan; `None` before it is created.
    pub fn sandbox(&self, plan: &Plan) -> Result<Option<SandboxView>, PlanQueryError> {
        let Some(name) = &plan.sandbox else {
            return Ok(None);
        };
        match self.sandboxes.find(name) {
            // The name is stored before the sandbox is created.
            Err(SandboxError::NotFound(_)) => Ok(None),
            view => Ok(Some(view?)),
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

/// Finds a plan by its reference. Rows without an action only own changesets, and are not shown to users.
pub(crate) fn find_plan(reader: &mut dyn Reader, reference: &str) -> Result<Plan, PlanQueryError> {
    find_referenced(
        reader,
        reference,
        |reader| Ok(plans::named(reader, reference, CANDIDATES)?),
        |reader, prefix, limit| {
            let mut matching = plans::with_prefix(reader, prefix, limit)?;
            matching.retain(|plan| !plan.action.is_empty());
            Ok(matching)
        },
        |matching| match matching.first() {
            None => PlanQueryError::NotFound {
                reference: reference.to_owned(),
                nearest: Vec::new(),
            },
            Some(first) if first.name.as_deref() == Some(reference) => {
                ambiguous(format!("are named `{reference}`"), &matching)
            }
            Some(_) => ambiguous(
                format!("have an id that begins with `{reference}`"),
                &matching,
            ),
        },
    )
}

fn ambiguous(property: String, matching: &[Plan]) -> PlanQueryError {
    PlanQueryError::Ambiguous {
        property,
        candidates: matching.iter().map(PlanCandidate::from).collect(),
    }
}
