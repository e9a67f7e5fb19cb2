//! `plan/conflicts` and `plan/resolve`.

use std::collections::BTreeMap;

use cleveragents_domain::identity::Permission;
use cleveragents_domain::{
    ChildPlan, ConflictResolution, FileState, MergeReason, Plan, PlanId, PlanPhase, PlanState,
    StoredConflict, Suggestion, suggest,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{find_chosen, requires};
use crate::operation::{Operation, OperationContext, OperationError, Requirement, Resolver};
use crate::plan::query::ConflictContent;
use crate::plan::{ConflictChoice, ConflictSelection, QueueEntry};

/// Maximum number of conflicts for which commands are suggested.
const SUGGESTED_CONFLICTS: usize = 3;

/// Shows the conflicts between the child plans of a plan.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShowConflicts {
    /// Id, prefix of at least 6 characters, or name. Only local callers may leave it out; it
    /// then defaults to the current plan of their folder.
    #[serde(default)]
    pub reference: Option<String>,
}

/// The response of `plan/conflicts`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanConflicts {
    pub plan_id: PlanId,
    pub phase: PlanPhase,
    pub state: PlanState,
    /// The conflicts, in the order in which the child plans are merged.
    pub conflicts: Vec<PlanConflict>,
    /// Number of conflicts without a resolution.
    pub unresolved: usize,
    /// Operations to run next.
    pub next_steps: Vec<Suggestion>,
}

/// A path that several child plans changed.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanConflict {
    pub child: ConflictingChild,
    /// The part of the sandbox.
    pub part: String,
    /// The path in the part.
    pub path: String,
    /// The path for `plan/resolve`: with the part if the sandbox has several.
    pub label: String,
    pub reason: MergeReason,
    /// The reason as the end of a sentence about the path.
    pub explanation: String,
    /// State when the child plan was created; `null` if the path did not exist.
    pub base: Option<ConflictSide>,
    /// State in the sandbox of the plan, with the changes of earlier child plans; `null` if the path does not exist.
    pub ours: Option<ConflictSide>,
    /// State in the sandbox of the child plan; `null` if the path does not exist.
    pub theirs: Option<ConflictSide>,
    /// The decision; `null` while the conflict is unresolved.
    pub resolution: Option<ResolvedSide>,
    /// The edited file, if the resolution is `edited`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited: Option<ConflictSide>,
    /// True if `plan/resolve` needs `child`, because several child plans conflict at the path.
    pub needs_child: bool,
}

/// The child plan of a conflict.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ConflictingChild {
    pub plan_id: PlanId,
    /// Position among the child plans, from 1.
    pub number: u64,
    pub title: String,
}

/// One version of a path.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ConflictSide {
    /// Size in bytes.
    pub size: u64,
    /// Kind and permissions in git's format, such as `100644`.
    pub mode: String,
    /// Beginning of the content; `null` if it is not text, or was deleted with the sandbox.
    pub text: Option<String>,
    /// True if `text` is only the beginning of the content.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_shortened: bool,
}

/// A decision about a conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ResolvedSide {
    Ours,
    Theirs,
    /// A file that the user wrote.
    Edited,
}

impl ResolvedSide {
    /// The value in responses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Theirs => "theirs",
            Self::Edited => "edited",
        }
    }
}

impl From<&ConflictResolution> for ResolvedSide {
    fn from(resolution: &ConflictResolution) -> Self {
        match resolution {
            ConflictResolution::Ours => Self::Ours,
            ConflictResolution::Theirs => Self::Theirs,
            ConflictResolution::Edited { .. } => Self::Edited,
        }
    }
}

impl Operation for ShowConflicts {
    const NAME: &'static str = "plan/conflicts";
    const SUMMARY: &'static str = "Show the conflicts between the child plans of a plan";
    const REQUIREMENT: Requirement = requires(Permission::Read);
    type Response = PlanConflicts;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.given_or_only_plan(&mut self.reference)
    }

    fn run(self, context: &OperationContext) -> Result<PlanConflicts, OperationError> {
        let plan = find_chosen(context, self.reference.as_deref())?;
        let stored = context.plans().conflicts(plan.id)?;
        let conflicts = described(context, &plan, &stored)?;
        let unresolved = unresolved(&conflicts);
        Ok(PlanConflicts {
            plan_id: plan.id,
            phase: plan.stage.phase(),
            state: plan.shown_state(),
            next_steps: next_steps(&plan, &conflicts),
            conflicts,
            unresolved,
        })
    }
}

/// Resolves conflicts between the child plans of a plan. The plan continues with `plan/execute`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResolveConflict {
    /// Id, prefix of at least 6 characters, or name. Only local callers may leave it out; it
    /// then defaults to the plan of their folder that waits for input.
    #[serde(default)]
    pub reference: Option<String>,
    /// The path in conflict, as `part/path`, or `path` if only one part has conflicts there.
    #[serde(default)]
    pub path: Option<String>,
    /// The version that the path gets.
    #[serde(default)]
    pub side: Option<ConflictVersion>,
    /// The content that the path gets, instead of `side`.
    #[serde(default)]
    pub content: Option<String>,
    /// Number or id of the child plan, if several child plans conflict at the path.
    #[serde(default)]
    pub child: Option<String>,
    /// True to resolve all unresolved conflicts, instead of `path`.
    #[serde(default)]
    pub all: bool,
}

/// A version of a path in conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ConflictVersion {
    /// The version in the sandbox of the plan, with the changes of earlier child plans.
    Ours,
    /// The version of the child plan.
    Theirs,
    /// The version in the sandbox of the plan, into which the execution actor works the changes of the child plan when
    /// the plan continues.
    Model,
}

/// The response of `plan/resolve`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ResolvedConflictReport {
    pub plan_id: PlanId,
    pub phase: PlanPhase,
    pub state: PlanState,
    /// The conflicts that were resolved.
    pub resolved: Vec<PlanConflict>,
    /// Number of conflicts without a resolution.
    pub unresolved: usize,
    /// The user or token that resolved them.
    pub person: String,
    /// True if a worker continues the plan.
    pub queued: bool,
    /// Operations to run next.
    pub next_steps: Vec<Suggestion>,
}

impl ResolveConflict {
    /// The conflicts and the decision about them.
    fn decision(self) -> Result<(ConflictSelection, ConflictChoice), OperationError> {
        let choice = match (self.side, self.content, self.all) {
            (Some(ConflictVersion::Ours), None, _) => ConflictChoice::Ours,
            (Some(ConflictVersion::Theirs), None, _) => ConflictChoice::Theirs,
            (Some(ConflictVersion::Model), None, _) => ConflictChoice::Combined,
            (None, Some(content), false) => ConflictChoice::Content(content.into_bytes()),
            (None, Some(_), true) => {
                return Err(OperationError::usage(
                    "edited content resolves one conflict: name its path",
                ));
            }
            _ => {
                return Err(OperationError::usage(
                    "choose a side (`ours` or `theirs`), or give the content",
                ));
            }
        };
        let selection = match (self.path, self.all) {
            (None, true) => ConflictSelection::Unresolved,
            (Some(path), false) => ConflictSelection::Path {
                path,
                child: self.child,
            },
            _ => {
                return Err(OperationError::usage(
                    "name the path of one conflict, or choose all conflicts",
                ));
            }
        };
        Ok((selection, choice))
    }
}

impl Operation for ResolveConflict {
    const NAME: &'static str = "plan/resolve";
    const SUMMARY: &'static str = "Resolve conflicts between the child plans of a plan";
    const REQUIREMENT: Requirement = requires(Permission::Write);
    type Response = ResolvedConflictReport;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.given_or_only_waiting_plan(&mut self.reference)
    }

    fn run(self, context: &OperationContext) -> Result<ResolvedConflictReport, OperationError> {
        let id = find_chosen(context, self.reference.as_deref())?.id;
        let person = context.caller().identity().to_owned();
        let (selection, choice) = self.decision()?;
        let control = context.plan_control();
        let outcome = control.resolve_conflict(id, &selection, &choice, &person)?;
        let plan = outcome.plan;
        let conflicts = described(context, &plan, &outcome.conflicts)?;
        let unresolved = unresolved(&conflicts);
        // A worker does not continue a plan that a server ran: the caller resumes it with `plan/execute`.
        let entry = QueueEntry::from_plan(&plan).filter(|_| plan.waiting.is_none());
        let queued = entry.is_some_and(|entry| entry.served.is_none());
        if queued {
            context.start_worker()?;
        }
        Ok(ResolvedConflictReport {
            plan_id: id,
            phase: plan.stage.phase(),
            state: plan.shown_state(),
            next_steps: next_steps(&plan, &conflicts),
            resolved: described(context, &plan, &outcome.resolved)?,
            unresolved,
            person,
            queued,
        })
    }
}

fn unresolved(conflicts: &[PlanConflict]) -> usize {
    let open = conflicts.iter();
    open.filter(|conflict| conflict.resolution.is_none())
        .count()
}

fn described(
    context: &OperationContext,
    plan: &Plan,
    conflicts: &[StoredConflict],
) -> Result<Vec<PlanConflict>, OperationError> {
    let plans = context.plans();
    let sides = plans.conflict_content(plan)?;
    let children: BTreeMap<PlanId, ChildPlan> = plans
        .child_places(plan.id)?
        .into_iter()
        .map(|child| (child.plan, child))
        .collect();
    let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
    for conflict in plans.conflicts(plan.id)? {
        let place = (conflict.alias, conflict.path.to_string());
        *counts.entry(place).or_default() += 1;
    }
    let description = |conflict: &StoredConflict| {
        let (part, path) = (conflict.alias.clone(), conflict.path.to_string());
        let count = counts.get(&(part.clone(), path.clone()));
        let side = |state: Option<FileState>| state.map(|state| read(&sides, &part, &state));
        let child = children.get(&conflict.child);
        PlanConflict {
            child: ConflictingChild {
                plan_id: conflict.child,
                number: child.map_or(0, |child| child.number),
                title: child.map_or_else(String::new, |child| child.title.clone()),
            },
            label: if sides.has_several_parts() {
                format!("{part}/{path}")
            } else {
                path.clone()
            },
            reason: conflict.reason,
            explanation: conflict.reason.sentence().to_owned(),
            base: side(conflict.base),
            ours: side(conflict.ours),
            theirs: side(conflict.theirs),
            resolution: conflict.resolution.as_ref().map(ResolvedSide::from),
            edited: match conflict.resolution {
                Some(ConflictResolution::Edited { state }) => side(Some(state)),
                _ => None,
            },
            needs_child: count.is_some_and(|count| *count > 1),
            part,
            path,
        }
    };
    Ok(conflicts.iter().map(description).collect())
}

fn read(content: &ConflictContent, part: &str, state: &FileState) -> ConflictSide {
    let text = content.side(part, state).and_then(|side| side.text);
    ConflictSide {
        size: state.size,
        mode: state.mode.to_string(),
        is_shortened: text
            .as_ref()
            .is_some_and(|text| (text.len() as u64) < state.size),
        text,
    }
}

impl PlanConflict {
    /// The operations that resolve the conflict with one of its versions.
    pub fn resolve_operations(&self, plan: PlanId) -> [Suggestion; 2] {
        ["ours", "theirs"].map(|side| {
            if self.needs_child {
                let child = self.child.number.to_string();
                suggest::plan_resolve_of_child(plan, self.label.as_str(), side, child)
            } else {
                suggest::plan_resolve(plan, self.label.as_str(), side)
            }
        })
    }
}

fn next_steps(plan: &Plan, conflicts: &[PlanConflict]) -> Vec<Suggestion> {
    if plan.stage.is_terminal() {
        return Vec::new();
    }
    let open = conflicts
        .iter()
        .filter(|conflict| conflict.resolution.is_none());
    let mut next: Vec<Suggestion> = open
        .take(SUGGESTED_CONFLICTS)
        .flat_map(|conflict| conflict.resolve_operations(plan.id))
        .collect();
    if next.is_empty() {
        next.push(suggest::plan_execute(plan.id));
    }
    next
}
