//! Decisions of the user about conflicts between child plans.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use cleveragents_domain::{
    ChildPlan, ConflictResolution, Decision, FileKind, FileMode, FileState, Plan, PlanId,
    StoredConflict, Waiting, hint, nearest, suggest,
};
use cleveragents_store::{child_plans, decisions, plan_steps, plans};

use super::PlanControl;
use crate::plan::built_in::DETERMINISTIC;
use crate::plan::error::PlanError;
use crate::plan::prompt::shortened;
use crate::plan::service::already_finished;

/// The beginning of the question of a decision to combine versions.
const COMBINE_QUESTION: &str = "How are both versions combined?";

/// Maximum size of the task of a child plan in a request to combine versions, in bytes.
const SHOWN_TASK: usize = 2_000;

/// Whether a decision asks the execution actor to combine versions of files.
pub(in crate::plan) fn asks_to_combine(decision: &Decision) -> bool {
    decision.holds() && decision.content.question.starts_with(COMBINE_QUESTION)
}

/// The conflicts that a decision is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConflictSelection {
    /// All conflicts that are not resolved yet.
    Unresolved,
    /// The conflict at a path.
    Path {
        /// The part of the sandbox and the path in it, or only the path if it has conflicts in one part.
        path: String,
        /// Number, or id, or prefix of the id, of the child plan. Required if several child plans conflict at the path.
        child: Option<String>,
    },
}

/// The content that a path in conflict gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConflictChoice {
    /// The version in the sandbox of the parent.
    Ours,
    /// The version of the child plan.
    Theirs,
    /// An edited file.
    Content(Vec<u8>),
    /// The version in the sandbox of the parent, into which the execution actor then works what the child plan changed.
    /// The checks of the plan run afterwards.
    Combined,
}

/// The result of a decision about conflicts.
#[derive(Debug)]
pub struct ResolvedConflicts {
    /// The plan after the decision.
    pub plan: Plan,
    /// The conflicts that were resolved.
    pub resolved: Vec<StoredConflict>,
    /// All conflicts of the plan after the decision.
    pub conflicts: Vec<StoredConflict>,
}

impl PlanControl {
    /// Decides conflicts between the child plans of a plan. When all are decided, the plan no longer waits.
    pub(in crate::plan) fn resolve_conflict(
        &self,
        id: PlanId,
        selection: &ConflictSelection,
        choice: &ConflictChoice,
        user: &str,
    ) -> Result<ResolvedConflicts, PlanError> {
        let lease = self.store.acquire(id)?;
        let plan = self.store.get(id)?;
        if plan.stage.is_terminal() {
            return Err(already_finished(&plan));
        }
        let (mut conflicts, children) = self.store.read(|reader| {
            let conflicts = child_plans::conflicts(reader, id)?;
            Ok((conflicts, child_plans::of_plan(reader, id)?))
        })?;
        if conflicts.is_empty() {
            return Err(PlanError::NotReady {
                plan: id,
                stage: plan.stage,
                reason: "it has no conflicts between child plans".to_owned(),
                hint: hint!("{} shows its state", suggest::plan_status(id)),
            });
        }
        let selected = select(&plan, &conflicts, &children, selection)?;
        for index in &selected {
            let resolution = self.resolution(&plan, &conflicts[*index], choice)?;
            conflicts[*index].resolution = Some(resolution);
        }
        let changed_ours = update_ours(&mut conflicts);
        let resolved: Vec<StoredConflict> = selected
            .iter()
            .map(|index| conflicts[*index].clone())
            .collect();
        let labels: Vec<String> = resolved.iter().map(label).collect();
        let chosen = match choice {
            ConflictChoice::Ours => "ours: the version of the plan",
            ConflictChoice::Theirs => "theirs: the version of the child plan",
            ConflictChoice::Content(_) => "an edited file",
            ConflictChoice::Combined => "both: the execution actor combines them",
        };
        let question = match choice {
            ConflictChoice::Combined => format!("{COMBINE_QUESTION} {}", labels.join(", ")),
            _ => format!("Which version of {}?", labels.join(", ")),
        };
        let reason = format!("decision of {user}");
        let mut decision = self.user_decision(&plan, &question, chosen, Some(&reason))?;
        let request = match choice {
            ConflictChoice::Combined => Some(self.combine_request(&plan, &resolved, &children)?),
            _ => None,
        };
        if let Some(decision) = &mut decision {
            decision.artifacts = labels;
        }
        let open: Vec<String> = conflicts
            .iter()
            .filter(|conflict| conflict.resolution.is_none())
            .map(label)
            .collect();
        let stored = resolved.clone();
        self.store.write_leased(&lease, move |unit| {
            for conflict in &stored {
                let path = conflict.path.to_string();
                if let Some(resolution) = &conflict.resolution {
                    child_plans::resolve(unit, conflict.child, &conflict.alias, &path, resolution)?;
                }
            }
            for conflict in &changed_ours {
                let path = conflict.path.to_string();
                let ours = conflict.ours.as_ref();
                child_plans::set_ours(unit, conflict.child, &conflict.alias, &path, ours)?;
            }
            if let Some(decision) = &decision {
                decisions::insert(unit, id, decision)?;
                if let Some(request) = &request {
                    plan_steps::guide(unit, id, request, decision.id)?;
                }
            }
            let waits = plans::locked(unit, id)?.and_then(|plan| plan.waiting);
            if matches!(waits, Some(Waiting::Conflicts { .. })) {
                if open.is_empty() {
                    plans::clear_waiting(unit, id)?;
                } else {
                    let paths = open.clone();
                    plans::wait_for(unit, id, &Waiting::Conflicts { paths })?;
                }
            }
            Ok(())
        })?;
        Ok(ResolvedConflicts {
            plan: self.store.get(id)?,
            resolved,
            conflicts,
        })
    }

    /// The guidance by which the execution actor combines the versions of conflicts.
    fn combine_request(
        &self,
        plan: &Plan,
        conflicts: &[StoredConflict],
        children: &[ChildPlan],
    ) -> Result<String, PlanError> {
        if plan.inputs.actors.execution == DETERMINISTIC {
            return Err(PlanError::Usage(
                "the plan has no model that could combine the versions: choose one of them"
                    .to_owned(),
            ));
        }
        let name = plan
            .sandbox
            .as_deref()
            .ok_or(PlanError::NotFound(plan.id))?;
        let view = self.workspaces.sandboxes.find(name)?;
        let several = view.members.len() > 1;
        let mut text = "Child plans changed the same files, and only one version of each is in the sandbox now. \
                        Work the other version into it, so that the intentions of both are kept. Change nothing else.\n"
            .to_owned();
        for conflict in conflicts {
            let path = if several {
                label(conflict)
            } else {
                conflict.path.to_string()
            };
            let content = |state: Option<FileState>| -> Result<String, PlanError> {
                let Some(state) = state else {
                    return Ok("(the file does not exist)".to_owned());
                };
                let mut members = view.members.iter();
                let member = members.find(|member| member.alias == conflict.alias);
                let side = member.and_then(|member| member.side(&state).ok());
                let shown = side.and_then(|side| side.text);
                shown
                    .filter(|text| text.len() as u64 == state.size)
                    .ok_or_else(|| {
                        PlanError::Usage(format!(
                            "`{path}` is not a short text, so a model cannot combine its versions: choose one of them"
                        ))
                    })
            };
            let child = children.iter().find(|child| child.plan == conflict.child);
            let title = child.map_or("another child plan", |child| child.title.as_str());
            let task = self.store.get(conflict.child)?.description;
            let _written = write!(
                text,
                "\n{path}\n\nThe other version is of the child plan \"{title}\". Its task:\n{}\n\n\
                 Before both:\n{}\n\nThe other version:\n{}\n",
                shortened(&task, SHOWN_TASK),
                content(conflict.base)?,
                content(conflict.theirs)?,
            );
        }
        Ok(text)
    }

    fn resolution(
        &self,
        plan: &Plan,
        conflict: &StoredConflict,
        choice: &ConflictChoice,
    ) -> Result<ConflictResolution, PlanError> {
        let content = match choice {
            ConflictChoice::Ours | ConflictChoice::Combined => return Ok(ConflictResolution::Ours),
            ConflictChoice::Theirs => return Ok(ConflictResolution::Theirs),
            ConflictChoice::Content(content) => content,
        };
        let name = plan
            .sandbox
            .as_deref()
            .ok_or(PlanError::NotFound(plan.id))?;
        let sandbox = self.workspaces.sandboxes.open(name)?;
        let mut members = sandbox.view.members.iter();
        let Some(member) = members.find(|member| member.alias == conflict.alias) else {
            return Err(PlanError::NoSuchConflict {
                plan: plan.id,
                path: label(conflict),
                nearest: Vec::new(),
            });
        };
        let (hash, size) = member
            .keep_content(content)
            .map_err(crate::sandbox::SandboxError::from)?;
        let mut sides = [conflict.ours, conflict.theirs].into_iter().flatten();
        let mode = sides
            .find(|state| state.kind() == FileKind::File)
            .map_or(FileMode::REGULAR, |state| state.mode);
        let state = FileState { hash, size, mode };
        Ok(ConflictResolution::Edited { state })
    }
}

/// The part and the path of a conflict.
fn label(conflict: &StoredConflict) -> String {
    format!("{}/{}", conflict.alias, conflict.path)
}

/// Indices of the selected conflicts.
fn select(
    plan: &Plan,
    conflicts: &[StoredConflict],
    children: &[ChildPlan],
    selection: &ConflictSelection,
) -> Result<Vec<usize>, PlanError> {
    let indices = |matches: &dyn Fn(&StoredConflict) -> bool| -> Vec<usize> {
        let all = conflicts.iter().enumerate();
        all.filter(|(_, conflict)| matches(conflict))
            .map(|(index, _)| index)
            .collect()
    };
    let (path, child) = match selection {
        ConflictSelection::Unresolved => {
            let open = indices(&|conflict| conflict.resolution.is_none());
            if open.is_empty() {
                return Err(PlanError::NotReady {
                    plan: plan.id,
                    stage: plan.stage,
                    reason: "all its conflicts are resolved".to_owned(),
                    hint: hint!("continue with {}", suggest::plan_execute(plan.id)),
                });
            }
            return Ok(open);
        }
        ConflictSelection::Path { path, child } => (path, child),
    };
    let mut found = indices(&|conflict| label(conflict) == *path);
    if found.is_empty() {
        found = indices(&|conflict| conflict.path.to_string() == *path);
    }
    let number = |conflict: &StoredConflict| {
        let mut children = children.iter();
        children
            .find(|known| known.plan == conflict.child)
            .map_or(0, |known| known.number)
    };
    if let Some(child) = child {
        let upper = child.to_ascii_uppercase();
        found.retain(|index| {
            let conflict = &conflicts[*index];
            let has_id = upper.len() >= 6 && conflict.child.to_string().starts_with(&upper);
            has_id || number(conflict).to_string() == *child
        });
    }
    match found.as_slice() {
        [] => {
            let known: Vec<String> = conflicts.iter().map(label).collect();
            let known = known.iter().map(String::as_str);
            Err(PlanError::NoSuchConflict {
                plan: plan.id,
                path: path.clone(),
                nearest: nearest::all(path, known, 3),
            })
        }
        [index] => Ok(vec![*index]),
        several => {
            let candidates: Vec<String> = several
                .iter()
                .map(|index| {
                    let conflict = &conflicts[*index];
                    format!("{} of child plan {}", label(conflict), number(conflict))
                })
                .collect();
            Err(PlanError::Usage(format!(
                "several conflicts match `{path}`: {}; choose one by its part or its child plan",
                candidates.join(", ")
            )))
        }
    }
}

/// Adapts the side of the parent in each conflict to the resolutions of earlier child plans at the same path. Returns
/// the changed conflicts. `conflicts` are in the order in which child plans are merged.
fn update_ours(conflicts: &mut [StoredConflict]) -> Vec<StoredConflict> {
    let mut current: BTreeMap<(String, String), Option<FileState>> = BTreeMap::new();
    let mut changed = Vec::new();
    for conflict in conflicts {
        let place = (conflict.alias.clone(), conflict.path.to_string());
        let ours = *current.entry(place.clone()).or_insert(conflict.ours);
        if ours != conflict.ours {
            conflict.ours = ours;
            changed.push(conflict.clone());
        }
        let after = match &conflict.resolution {
            None | Some(ConflictResolution::Ours) => ours,
            Some(ConflictResolution::Theirs) => conflict.theirs,
            Some(ConflictResolution::Edited { state }) => Some(*state),
        };
        current.insert(place, after);
    }
    changed
}
