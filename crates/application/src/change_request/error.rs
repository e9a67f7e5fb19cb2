//! [`ChangeRequestError`].

use std::path::PathBuf;

use cleveragents_domain::{Code, Diagnose, Hint, PlanId, hint, suggest};
use cleveragents_process::ProcessError;
use serde_json::{Value, json};

use crate::plan::PlanQueryError;

/// Failure to publish the branch of a plan.
#[derive(Debug, thiserror::Error)]
pub enum ChangeRequestError {
    /// The plan cannot be found or read.
    #[error(transparent)]
    Plan(#[from] PlanQueryError),
    /// The plan was not applied on a branch.
    #[error("plan {0} was not applied on a branch, so there is nothing to push")]
    NotOnBranch(PlanId),
    /// The plan was applied on another branch.
    #[error("plan {plan} was applied on branch `{branch}`")]
    OtherBranch {
        plan: PlanId,
        /// The branch of the plan.
        branch: String,
    },
    /// The repository has no remote of the expected name.
    #[error("the repository `{}` has no remote `origin`", .0.display())]
    NoRemote(PathBuf),
    /// The branch was deleted.
    #[error("the branch `{branch}` of `{}` does not exist any more", .repository.display())]
    BranchGone { repository: PathBuf, branch: String },
    /// The branch could not be pushed.
    #[error("branch `{branch}` of `{}` could not be pushed to `origin`: {reason}", .repository.display())]
    Push {
        repository: PathBuf,
        branch: String,
        /// The message of git.
        reason: String,
    },
    /// A program could not be run.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] cleveragents_store::Error),
}

impl Diagnose for ChangeRequestError {
    fn code(&self) -> Code {
        match self {
            Self::Plan(error) => error.code(),
            Self::NotOnBranch(_) | Self::OtherBranch { .. } => Code::PlanNotReady,
            Self::NoRemote(_) | Self::BranchGone { .. } | Self::Push { .. } => Code::GitFailed,
            Self::Process(error) => error.code(),
            Self::Store(error) => error.code(),
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Plan(error) => error.hint(),
            Self::NotOnBranch(plan) => Some(hint!(
                "{} shows where its changes are",
                suggest::plan_status(plan)
            )),
            Self::OtherBranch { branch, .. } => {
                Some(hint!("leave the branch out, or name `{}`", branch))
            }
            Self::NoRemote(_) => Some("add it: `git remote add origin URL`".into()),
            Self::BranchGone { branch, .. } => Some(hint!(
                "find its commit with `git reflog`, then restore it: `git branch {} COMMIT`",
                branch
            )),
            Self::Push { branch, .. } => Some(hint!(
                "the branch exists here; push it by hand: `git push origin {}`",
                branch
            )),
            Self::Process(error) => error.hint(),
            Self::Store(error) => error.hint(),
        }
    }

    fn details(&self) -> Value {
        match self {
            Self::Plan(error) => error.details(),
            Self::NotOnBranch(plan) => json!({"plan_id": plan}),
            Self::OtherBranch { plan, branch } => json!({"plan_id": plan, "branch": branch}),
            Self::NoRemote(repository) => json!({"repository": repository}),
            Self::BranchGone { repository, branch }
            | Self::Push {
                repository, branch, ..
            } => {
                json!({"repository": repository, "branch": branch})
            }
            Self::Process(error) => error.details(),
            Self::Store(error) => error.details(),
        }
    }
}
