//! `plan/undo`: undoes the last change of a plan, or its apply.

use std::path::{Path, PathBuf};

use cleveragents_domain::identity::Permission;
use cleveragents_domain::{
    Code, EventKind, LeaseSubject, NewEvent, Plan, PlanId, PlanStage, Suggestion, Ttl, hint,
    suggest,
};
use cleveragents_process::WhenMissing;
use cleveragents_store::plans;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{find_chosen, next_steps, requires};
use crate::lease::LeaseService;
use crate::operation::{
    Operation, OperationContext, OperationError, Requirement, Resolver, require_confirmation,
};
use crate::plan::query::UNDONE;
use crate::plan::{UndoneApply, checkpoint_name};
use crate::sandbox::{
    ApplyRequest, ExecRequest, OpenSandbox, SandboxError, SandboxService, Target,
};

/// Maximum number of events that are searched for an earlier undo of the apply.
const MAX_EVENTS: u64 = 200;

/// Undoes the last change of a plan with a rollback to the checkpoint before the change; `plan/redo` undoes the
/// rollback. For an applied plan, commits the reverse of its changes.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UndoPlan {
    /// Id, prefix of at least 6 characters, or name. Only local callers may leave it out; it then defaults to the current plan of
    /// their folder.
    #[serde(default)]
    pub reference: Option<String>,
    /// Only report what would be undone.
    #[serde(default)]
    pub dry_run: bool,
    /// Confirms the undo.
    #[serde(default)]
    pub yes: bool,
}

/// The response of `plan/undo`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct UndonePlan {
    pub plan_id: PlanId,
    pub undone: UndoneChange,
    /// True if nothing was changed.
    pub dry_run: bool,
    /// Restored paths, as `part/path`.
    pub files: Vec<String>,
    /// Operations to run next.
    pub next_steps: Vec<Suggestion>,
}

/// The change that was undone.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum UndoneChange {
    /// The plan is rolled back to a checkpoint.
    Step {
        checkpoint: String,
        label: Option<String>,
    },
    /// A commit reverts the apply.
    Apply { commits: Vec<RevertedCommit> },
}

/// A commit of an apply, and the commit that reverts it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RevertedCommit {
    /// The repository.
    pub location: String,
    pub branch: Option<String>,
    /// The commit of the apply.
    pub commit: String,
    /// The commit that reverts it; `null` in a dry run.
    pub reverted_by: Option<String>,
}

impl Operation for UndoPlan {
    const NAME: &'static str = "plan/undo";
    const SUMMARY: &'static str = "Undo the last change of a plan, or its apply";
    const REQUIREMENT: Requirement = requires(Permission::Write);
    type Response = UndonePlan;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.given_or_only_plan(&mut self.reference)
    }

    fn run(self, context: &OperationContext) -> Result<UndonePlan, OperationError> {
        let plan = find_chosen(context, self.reference.as_deref())?;
        if !self.dry_run {
            require_confirmation(self.yes)?;
        }
        if plan.stage == PlanStage::ApplyApplied {
            self.undo_apply(context, &plan)
        } else {
            self.undo_step(context, &plan)
        }
    }
}

impl UndoPlan {
    /// Rolls back to the newest checkpoint whose files differ from the current files. If there is none, rolls back to
    /// the newest checkpoint after which a step, a call or a decision was recorded.
    fn undo_step(
        &self,
        context: &OperationContext,
        plan: &Plan,
    ) -> Result<UndonePlan, OperationError> {
        let control = context.plan_control();
        let mut target = None;
        for checkpoint in context.plans().checkpoints(plan)?.iter().rev() {
            let name = checkpoint_name(checkpoint.number);
            let preview = control.preview_rollback(plan.id, &name)?;
            if !preview.paths.is_empty() {
                target = Some((name, preview));
                break;
            }
            let undone = preview.undone;
            if target.is_none() && undone.steps + undone.calls + undone.decisions > 0 {
                target = Some((name, preview));
            }
        }
        let Some((name, preview)) = target else {
            let reason = "it has not changed anything since it started";
            return Err(nothing_to_undo(plan, reason));
        };
        let (plan, files) = if self.dry_run {
            (plan.clone(), preview.paths)
        } else {
            let done = control.rollback(plan.id, &name)?;
            (done.plan, done.paths)
        };
        let mut next = vec![suggest::plan_redo(plan.id)];
        next.extend(next_steps(&plan));
        Ok(UndonePlan {
            plan_id: plan.id,
            undone: UndoneChange::Step {
                checkpoint: name,
                label: preview.checkpoint.label,
            },
            dry_run: self.dry_run,
            files,
            next_steps: next,
        })
    }

    /// Commits the reverse of the changes that the plan applied, and keeps later changes. Fails without changing
    /// anything if later changes overlap the reverted ones.
    fn undo_apply(
        &self,
        context: &OperationContext,
        plan: &Plan,
    ) -> Result<UndonePlan, OperationError> {
        let leases = LeaseService::new(context.engine());
        let _lease = leases
            .acquire(LeaseSubject::new("plan", plan.id), Ttl::default())
            .map_err(OperationError::from_service)?;
        refuse_new_branch(plan)?;
        let applied = applied_commits(plan)?;
        let sandboxes = context.sandboxes().interrupted_by(context.cancel());
        let name = format!("undo-{}", plan.id).to_ascii_lowercase();
        let mut open = revert_sandbox(context, &sandboxes, &name, &applied)?;
        let outcome = revert_in(context, &sandboxes, &mut open, &applied)
            .and_then(|()| self.finish(context, plan, &sandboxes, open, applied));
        if self.dry_run || outcome.is_err() {
            // An error of this cleanup is ignored; the outcome of the undo is returned.
            let _discarded = sandboxes.discard(&name);
        }
        match outcome {
            // An apply that was undone can be undone again if the user has restored its changes. If not, the attempt
            // fails, and nothing is left to undo.
            Err(_) if was_undone(context, plan)? => {
                Err(nothing_to_undo(plan, "its apply was already undone"))
            }
            outcome => outcome,
        }
    }

    /// Applies the reverted state, or only previews it.
    fn finish(
        &self,
        context: &OperationContext,
        plan: &Plan,
        sandboxes: &SandboxService,
        mut open: OpenSandbox,
        applied: Vec<AppliedCommit>,
    ) -> Result<UndonePlan, OperationError> {
        if sandboxes.diff(&mut open)?.path_count() == 0 {
            return Err(nothing_to_undo(
                plan,
                "its changes are no longer in the files",
            ));
        }
        let request = ApplyRequest {
            message: Some(revert_message(plan, &applied)),
            ..ApplyRequest::default()
        };
        let parts = if self.dry_run {
            sandboxes.preview(&mut open, &request)?.parts
        } else {
            sandboxes.apply(open, &request)?.parts
        };
        let mut files = Vec::new();
        let mut commits = Vec::new();
        for commit in applied {
            let part = parts
                .iter()
                .find(|part| Path::new(&part.location) == commit.location);
            let revert = part.and_then(|part| part.commit.as_ref());
            commits.push(RevertedCommit {
                location: commit.location.display().to_string(),
                branch: revert.and_then(|commit| commit.branch.clone()),
                commit: commit.id,
                reverted_by: revert.and_then(|commit| commit.new.clone()),
            });
            let changes = part.map(|part| part.files.as_slice()).unwrap_or_default();
            let alias = part.map(|part| part.alias.as_str()).unwrap_or_default();
            files.extend(changes.iter().map(|file| format!("{alias}/{}", file.path)));
        }
        if !self.dry_run {
            let (id, payload) = (plan.id, json!({"commits": commits}));
            let reverts: Vec<String> = commits
                .iter()
                .filter_map(|commit| commit.reverted_by.clone())
                .collect();
            let recorded =
                context
                    .engine()
                    .write(move |unit| -> Result<(), cleveragents_store::Error> {
                        let undone = json!(UndoneApply {
                            at: unit.now(),
                            commits: reverts.clone(),
                        });
                        plans::extend_report(unit, id, UNDONE, undone)?;
                        unit.emit(NewEvent {
                            kind: EventKind::PlanApplyReverted,
                            subject: id.to_string(),
                            payload: payload.clone(),
                        });
                        Ok(())
                    });
            recorded.map_err(OperationError::from_service)?;
        }
        Ok(UndonePlan {
            plan_id: plan.id,
            undone: UndoneChange::Apply { commits },
            dry_run: self.dry_run,
            files,
            next_steps: vec![suggest::plan_log(plan.id)],
        })
    }
}

/// A commit that the apply of a plan created.
struct AppliedCommit {
    location: PathBuf,
    id: String,
    is_merge: bool,
}

/// Refuses a plan that was applied to a new branch: neither the user's files nor their branch changed.
fn refuse_new_branch(plan: &Plan) -> Result<(), OperationError> {
    let report = plan.report.as_ref();
    let Some(branch) = report.and_then(|report| report["branch"].as_str()) else {
        return Ok(());
    };
    let message = format!(
        "plan {} has nothing to undo in your files: it was applied on branch `{branch}`",
        plan.id
    );
    Err(OperationError::new(Code::PlanNotReady, message)
        .with_details(json!({"branch": branch}))
        .with_hint(format!(
            "you can delete the branch: `git branch -D {branch}`"
        )))
}

/// The commits of the apply of a plan. Refuses plans that changed anything other than git repositories.
fn applied_commits(plan: &Plan) -> Result<Vec<AppliedCommit>, OperationError> {
    let parts = plan.report.as_ref().map(|report| report["parts"].clone());
    let mut commits = Vec::new();
    for part in parts.iter().filter_map(Value::as_array).flatten() {
        let location = part["location"].as_str().unwrap_or_default();
        let commit = &part["commit"];
        if let Some(id) = commit["new"].as_str() {
            commits.push(AppliedCommit {
                location: PathBuf::from(location),
                id: id.to_owned(),
                is_merge: commit["is_merge"] == true,
            });
            continue;
        }
        let is_empty = |field: &str| part[field].as_array().is_none_or(Vec::is_empty);
        if part["database"] == true || !is_empty("files") || !is_empty("statements") {
            let message = format!(
                "the apply of plan {} changed `{location}`, which is not a git repository; only commits can be undone",
                plan.id
            );
            return Err(
                OperationError::new(Code::PlanNotReady, message).with_hint(hint!(
                    "{} shows what to change back by hand",
                    suggest::plan_diff(plan.id)
                )),
            );
        }
    }
    if commits.is_empty() {
        return Err(nothing_to_undo(plan, "its apply changed nothing"));
    }
    Ok(commits)
}

fn was_undone(context: &OperationContext, plan: &Plan) -> Result<bool, OperationError> {
    let events = context.plans().newest_log(plan.id, MAX_EVENTS)?;
    let mut kinds = events.iter().map(|event| event.kind);
    Ok(kinds.any(|kind| kind == EventKind::PlanApplyReverted))
}

fn nothing_to_undo(plan: &Plan, reason: &str) -> OperationError {
    let message = format!("plan {} has nothing to undo: {reason}", plan.id);
    OperationError::new(Code::PlanNotReady, message)
        .with_hint(hint!("{} shows what it did", suggest::plan_log(plan.id)))
}

/// Creates a sandbox of the repositories in their current state.
fn revert_sandbox(
    context: &OperationContext,
    sandboxes: &SandboxService,
    name: &str,
    applied: &[AppliedCommit],
) -> Result<OpenSandbox, OperationError> {
    // An interrupted undo leaves its sandbox behind. The lease of the plan excludes a running undo.
    match sandboxes.find(name) {
        Ok(leftover) if !leftover.sandbox.state.is_over() => drop(sandboxes.discard(name)?),
        Ok(_) | Err(SandboxError::NotFound(_)) => {}
        Err(error) => return Err(error.into()),
    }
    let resources = context.resources();
    let mut targets = Vec::new();
    for commit in applied {
        targets.push(Target::at(&resources, &commit.location)?);
    }
    Target::make_distinct(&mut targets);
    sandboxes.create(name, "undo of an apply", &targets)?;
    Ok(sandboxes.open(name)?)
}

/// Reverts the commits in the sandbox.
fn revert_in(
    context: &OperationContext,
    sandboxes: &SandboxService,
    open: &mut OpenSandbox,
    applied: &[AppliedCommit],
) -> Result<(), OperationError> {
    for commit in applied {
        let members = open.view.members.iter();
        let part = members
            .filter(|member| member.location == commit.location)
            .map(|member| member.alias.clone())
            .next();
        let mut arguments = vec!["revert", "--no-commit"];
        if commit.is_merge {
            arguments.extend(["-m", "1"]);
        }
        arguments.push(&commit.id);
        let request = ExecRequest {
            part,
            ..ExecRequest::captured("git", arguments, WhenMissing::Warn)
        };
        let report = sandboxes.exec(open, &request, context.cancel(), |_| {})?;
        if !report.finished.ending.is_success() {
            let location = commit.location.display();
            let message = format!(
                "commit {} of `{location}` cannot be reverted: later changes overlap it; nothing was changed",
                commit.id
            );
            let printed = String::from_utf8_lossy(&report.finished.stderr.bytes).into_owned();
            return Err(OperationError::new(Code::ApplyConflict, message)
                .with_details(
                    json!({"location": commit.location, "commit": commit.id, "output": printed}),
                )
                .with_hint(format!("resolve it by hand: `git revert {}`", commit.id)));
        }
    }
    Ok(())
}

fn revert_message(plan: &Plan, applied: &[AppliedCommit]) -> String {
    let first = plan.description.lines().map(str::trim);
    let first = first.into_iter().find(|line| !line.is_empty());
    let subject =
        crate::plan::commit_subject(&format!("Revert \"{}\"", first.unwrap_or(&plan.action)));
    let ids: Vec<&str> = applied.iter().map(|commit| commit.id.as_str()).collect();
    format!(
        "{subject}\n\nThis reverts commit {}.\n\nPlan: {}\n",
        ids.join(", "),
        plan.id
    )
}
