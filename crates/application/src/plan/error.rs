//! [`PlanError`]: errors of operations on plans.

use cleveragents_domain::{
    Code, Diagnose, Hint, Placeholder, PlanId, PlanStage, Waiting, hint, suggest,
};
use cleveragents_tools::ports::PortError;
use serde_json::{Value, json};

use crate::lease::LeaseError;
use crate::sandbox::SandboxError;

/// Errors of operations on plans.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The operation is not possible in the stage of the plan.
    #[error("the plan {plan} is {stage}: {reason}")]
    NotReady {
        plan: PlanId,
        stage: PlanStage,
        /// Reason why the stage does not allow the operation.
        reason: String,
        /// The operation that is possible instead.
        hint: Hint,
    },
    /// Another process works on the plan.
    #[error("the plan {plan} is in use by {owner}")]
    Busy { plan: PlanId, owner: String },
    /// The plan waits for the user.
    #[error("the plan {plan} waits for {}", .waiting.sentence())]
    Waits {
        plan: PlanId,
        /// The input that the plan waits for.
        waiting: Box<Waiting>,
    },
    /// A preflight check failed.
    #[error("the plan {plan} cannot start: {}", .failed.join("; "))]
    Preflight {
        plan: PlanId,
        /// The failed checks.
        failed: Vec<String>,
    },
    /// The plan violates an invariant.
    #[error("the plan {plan} violates an invariant: {reason}")]
    Invariant {
        plan: PlanId,
        /// The violated invariant and the violation.
        reason: String,
    },
    /// A phase failed.
    #[error("the plan {plan} failed in {}: {message}", .stage.phase())]
    Failed {
        plan: PlanId,
        /// The stage after the failure.
        stage: PlanStage,
        /// The reason.
        message: String,
        /// Actions that the user can take to recover.
        hint: Hint,
    },
    /// Required validations have not passed.
    #[error("the plan {plan} cannot be applied: {}", .reasons.join("; "))]
    Constrained {
        plan: PlanId,
        /// The validations that block the apply, each with its reason.
        reasons: Vec<String>,
    },
    /// The plan changed nothing.
    #[error("the plan {0} changed nothing, so there is nothing to apply")]
    NothingToApply(PlanId),
    /// The user or a signal stopped the plan.
    #[error("the plan {plan} was {}", if *.is_over { "cancelled" } else { "interrupted; completed \
    work is kept" })]
    Stopped {
        plan: PlanId,
        /// True if the plan was cancelled, false if it was only interrupted.
        is_over: bool,
    },
    /// The plan reached the limit of strategy revisions.
    #[error("the plan {plan} reached the limit of {limit} strategy revisions")]
    ReversionLimit {
        plan: PlanId,
        /// The maximum number of revisions.
        limit: u64,
    },
    /// The edited strategy cannot be parsed.
    #[error("the strategy cannot be read{}: {message}", .line.map(|line| format!(" (line {line})")).unwrap_or_default())]
    Strategy {
        /// The reason.
        message: String,
        /// The line that cannot be parsed.
        line: Option<usize>,
    },
    /// The plan cannot be rolled back, or the rollback cannot be undone.
    #[error("the plan {plan} cannot be {participle}: {reason}")]
    Rollback {
        plan: PlanId,
        /// `rolled back` or `redone`.
        participle: &'static str,
        reason: String,
    },
    /// The plan has no conflict at the path.
    #[error("the plan {plan} has no conflict at `{path}`{}", nearest_sentence(.nearest))]
    NoSuchConflict {
        plan: PlanId,
        path: String,
        /// Similar paths with conflicts.
        nearest: Vec<String>,
    },
    /// The project links no resource.
    #[error("the project `{0}` links no resource")]
    EmptyProject(String),
    /// The plan does not exist.
    #[error("the plan {0} does not exist")]
    NotFound(PlanId),
    /// A text is empty or too long, or an option is invalid.
    #[error("{0}")]
    Usage(String),
    /// A dependency of the plan runner failed.
    #[error(transparent)]
    Service(PortError),
    /// The sandbox failed.
    #[error(transparent)]
    Sandbox(Box<SandboxError>),
    /// The lease failed.
    #[error(transparent)]
    Lease(Box<LeaseError>),
    /// The store failed.
    #[error(transparent)]
    Store(Box<cleveragents_store::Error>),
}

impl PlanError {
    /// Wraps the error of another service.
    pub fn from_service(error: impl Diagnose + Send + Sync + 'static) -> Self {
        Self::Service(PortError::new(error))
    }
}

impl From<SandboxError> for PlanError {
    fn from(error: SandboxError) -> Self {
        Self::Sandbox(Box::new(error))
    }
}

impl From<LeaseError> for PlanError {
    fn from(error: LeaseError) -> Self {
        Self::Lease(Box::new(error))
    }
}

impl From<cleveragents_store::Error> for PlanError {
    fn from(error: cleveragents_store::Error) -> Self {
        Self::Store(Box::new(error))
    }
}

impl Diagnose for PlanError {
    fn code(&self) -> Code {
        match self {
            Self::NotReady { .. } => Code::PlanNotReady,
            Self::Busy { .. } => Code::PlanBusy,
            Self::Waits { waiting, .. } => match **waiting {
                Waiting::UnknownOutcome { .. } => Code::StepOutcomeUnknown,
                _ => Code::PlanWaiting,
            },
            Self::Preflight { .. } => Code::PreflightFailed,
            Self::Invariant { .. } => Code::InvariantViolated,
            Self::Failed { .. } => Code::PlanFailed,
            Self::Constrained { .. } => Code::PlanConstrained,
            Self::NothingToApply(_) => Code::NothingToApply,
            Self::Stopped { .. } => Code::PlanCancelled,
            Self::ReversionLimit { .. } => Code::ReversionLimit,
            Self::Strategy { .. } => Code::InvalidStrategy,
            Self::Rollback { .. } => Code::PlanRollback,
            Self::NoSuchConflict { .. } => Code::ConflictNotFound,
            Self::EmptyProject(_) => Code::ProjectEmpty,
            Self::NotFound(_) => Code::PlanNotFound,
            Self::Usage(_) => Code::Usage,
            Self::Service(error) => error.code(),
            Self::Sandbox(error) => error.code(),
            Self::Lease(error) => error.code(),
            Self::Store(error) => error.code(),
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::NotReady { hint, .. } | Self::Failed { hint, .. } => Some(hint.clone()),
            Self::Busy { plan, .. } => Some(hint!(
                "watch it with {} or {}, or stop it with {}",
                suggest::plan_status(plan),
                suggest::plan_wait(plan),
                suggest::plan_cancel(plan)
            )),
            Self::Waits { plan, waiting } => Some(input_hint(*plan, waiting)),
            Self::Preflight { plan, .. } => Some(hint!(
                "fix these problems, then run {}",
                suggest::plan_execute(plan)
            )),
            Self::Invariant { plan, .. } => Some(hint!(
                "remove one of them with {}: {} shows the ids; then {}",
                suggest::invariant_remove(Placeholder("ID")),
                suggest::invariant_list(),
                suggest::plan_execute(plan)
            )),
            Self::Constrained { plan, .. } => Some(hint!(
                "{} shows the failed validations; let the plan fix them with {} and {}, or return to the strategy with {}",
                suggest::plan_status(plan),
                suggest::plan_prompt(plan, Placeholder("TEXT")),
                suggest::plan_execute(plan),
                suggest::plan_revert(plan)
            )),
            Self::NothingToApply(plan) => Some(hint!(
                "{} completes the plan without changes",
                suggest::plan_apply_empty(plan)
            )),
            Self::Stopped {
                plan,
                is_over: false,
            } => Some(hint!("resume it with {}", suggest::plan_execute(plan))),
            Self::Stopped { is_over: true, .. } => Some(hint!(
                "create a new one with {}",
                suggest::plan_use(Placeholder("ACTION"), Placeholder("PROJECT"))
            )),
            Self::ReversionLimit { .. } => Some(hint!(
                "create a new plan with {}",
                suggest::plan_use(Placeholder("ACTION"), Placeholder("PROJECT"))
            )),
            Self::Strategy { .. } => Some(hint!(
                "{} prints the current strategy in the expected form",
                suggest::plan_show_as(Placeholder("PLAN"), "markdown")
            )),
            Self::Rollback { plan, .. } => Some(hint!(
                "{} lists the checkpoints",
                suggest::plan_checkpoint_list(plan)
            )),
            Self::NoSuchConflict { plan, .. } => Some(hint!(
                "{} lists the conflicts",
                suggest::plan_conflicts(plan)
            )),
            Self::EmptyProject(project) => Some(hint!(
                "link a resource: {}",
                suggest::project_link_resource(project, Placeholder("RESOURCE"))
            )),
            Self::NotFound(_) => Some(hint!("{} lists the plans", suggest::plan_list())),
            Self::Usage(_) => Some(hint!(
                "{} lists the commands for plans",
                suggest::plan_help()
            )),
            Self::Service(error) => error.hint(),
            Self::Sandbox(error) => error.hint(),
            Self::Lease(error) => error.hint(),
            Self::Store(error) => error.hint(),
        }
    }

    fn details(&self) -> Value {
        match self {
            Self::NotReady { plan, stage, .. } | Self::Failed { plan, stage, .. } => {
                json!({"plan_id": plan, "phase": stage.phase(), "state": stage.state()})
            }
            Self::Busy { plan, owner } => json!({"plan_id": plan, "owner": owner}),
            Self::Waits { plan, waiting } => json!({"plan_id": plan, "waiting": waiting}),
            Self::Preflight { plan, failed } => json!({"plan_id": plan, "failed": failed}),
            Self::Constrained { plan, reasons } => json!({
                "plan_id": plan, "reasons": reasons,
                "recovery_options": [
                    suggest::plan_prompt(plan, Placeholder("TEXT")),
                    suggest::plan_execute(plan),
                    suggest::plan_revert(plan),
                ],
            }),
            Self::Invariant { plan, .. }
            | Self::Stopped { plan, .. }
            | Self::ReversionLimit { plan, .. }
            | Self::Rollback { plan, .. }
            | Self::NothingToApply(plan)
            | Self::NotFound(plan) => json!({"plan_id": plan}),
            Self::NoSuchConflict {
                plan,
                path,
                nearest,
            } => json!({"plan_id": plan, "path": path, "nearest": nearest}),
            Self::EmptyProject(project) => json!({"project": project}),
            Self::Strategy { line, .. } => json!({"line": line}),
            Self::Usage(_) => Value::Null,
            Self::Service(error) => error.details(),
            Self::Sandbox(error) => error.details(),
            Self::Lease(error) => error.details(),
            Self::Store(error) => error.details(),
        }
    }
}

fn nearest_sentence(nearest: &[String]) -> String {
    match nearest {
        [] => String::new(),
        paths => format!(
            "; did you mean {}?",
            paths
                .iter()
                .map(|path| format!("`{path}`"))
                .collect::<Vec<_>>()
                .join(" or ")
        ),
    }
}

/// The commands that give a plan the input that it waits for.
fn input_hint(plan: PlanId, waiting: &Waiting) -> Hint {
    match waiting {
        Waiting::Gate { .. } | Waiting::Call { .. } => hint!(
            "{} or {}, then {}",
            suggest::plan_approve(plan),
            suggest::plan_reject(plan),
            suggest::plan_execute(plan)
        ),
        Waiting::Question { .. } => hint!(
            "{}, then {}",
            suggest::plan_approve_with_answer(plan, Placeholder("TEXT")),
            suggest::plan_execute(plan)
        ),
        Waiting::UnknownOutcome { .. } => hint!(
            "{} retries the call, `{}` assumes that it succeeded",
            suggest::plan_execute_redo(plan),
            suggest::plan_skip().only_arguments()
        ),
        Waiting::ChildPlans { plans, .. } => match plans.first() {
            Some(child) => hint!(
                "{} shows what the child plan needs; then {}",
                suggest::plan_status(child),
                suggest::plan_execute(plan)
            ),
            None => hint!("continue with {}", suggest::plan_execute(plan)),
        },
        Waiting::Conflicts { .. } => hint!(
            "{} shows both sides; decide with {}, then {}",
            suggest::plan_conflicts(plan),
            suggest::plan_resolve(plan, Placeholder("PATH"), Placeholder("SIDE")),
            suggest::plan_execute(plan)
        ),
        Waiting::Guidance { .. } => hint!(
            "{}, then {}",
            suggest::plan_prompt(plan, Placeholder("TEXT")),
            suggest::plan_execute(plan)
        ),
    }
}
