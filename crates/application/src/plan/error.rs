//! Why something cannot be done with a plan.

use cleveragents_domain::{Code, Diagnose, PlanId, PlanStage, Waiting};
use cleveragents_tools::ports::PortError;
use serde_json::{Value, json};

use crate::lease::LeaseError;
use crate::sandbox::SandboxError;

/// Why something cannot be done with a plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The plan is not where this could be done.
    #[error("the plan {plan} is {stage}: {reason}")]
    NotReady {
        /// The plan.
        plan: PlanId,
        /// Where it is.
        stage: PlanStage,
        /// Why this cannot be done there.
        reason: String,
        /// What can be done.
        hint: String,
    },
    /// Somebody else works on it.
    #[error("the plan {plan} is being worked on by {owner}")]
    Busy {
        /// The plan.
        plan: PlanId,
        /// By whom.
        owner: String,
    },
    /// It waits for a person.
    #[error("the plan {plan} waits for {}", .waiting.sentence())]
    Waits {
        /// The plan.
        plan: PlanId,
        /// For what.
        waiting: Box<Waiting>,
    },
    /// One of the checks before the beginning failed.
    #[error("the plan {plan} cannot begin: {}", .failed.join("; "))]
    Preflight {
        /// The plan.
        plan: PlanId,
        /// What is not as it must be.
        failed: Vec<String>,
    },
    /// An invariant stands in the way.
    #[error("an invariant stands in the way of the plan {plan}: {reason}")]
    Invariant {
        /// The plan.
        plan: PlanId,
        /// Which, and how.
        reason: String,
    },
    /// A phase failed.
    #[error("the plan {plan} failed in {}: {message}", .stage.phase())]
    Failed {
        /// The plan.
        plan: PlanId,
        /// Where it is now.
        stage: PlanStage,
        /// Why.
        message: String,
        /// What can be done.
        hint: String,
    },
    /// Validations stand in the way.
    #[error("the plan {plan} cannot be applied: {}", .reasons.join("; "))]
    Constrained {
        /// The plan.
        plan: PlanId,
        /// Which, and why.
        reasons: Vec<String>,
    },
    /// It changed nothing.
    #[error("the plan {0} changed nothing, so there is nothing to apply")]
    NothingToApply(PlanId),
    /// It was stopped.
    #[error("the plan {plan} was {}", if *.is_over { "cancelled" } else { "interrupted; what was done is kept" })]
    Stopped {
        /// The plan.
        plan: PlanId,
        /// Whether for good.
        is_over: bool,
    },
    /// It went back to its strategy as often as it may.
    #[error("the plan {plan} went back to its strategy {limit} times, which is the most")]
    ReversionLimit {
        /// The plan.
        plan: PlanId,
        /// How often it may.
        limit: u64,
    },
    /// Its strategy, as somebody changed it, is none.
    #[error("the strategy cannot be read{}: {message}", .line.map(|line| format!(" (line {line})")).unwrap_or_default())]
    Strategy {
        /// Why.
        message: String,
        /// Where.
        line: Option<usize>,
    },
    /// It cannot be taken back, or forward again.
    #[error("the plan {plan} cannot be taken {way}: {reason}")]
    Rollback {
        /// The plan.
        plan: PlanId,
        /// `back` or `forward again`.
        way: &'static str,
        /// Why.
        reason: String,
    },
    /// The project links nothing.
    #[error("the project `{0}` links no resource")]
    EmptyProject(String),
    /// There is no such plan.
    #[error("the plan {0} does not exist")]
    NotFound(PlanId),
    /// A text is empty or too long, or an option does not fit.
    #[error("{0}")]
    Usage(String),
    /// Something that plans are driven with failed.
    #[error(transparent)]
    World(PortError),
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
    /// A failure of another part of the program.
    pub fn of(error: impl Diagnose + Send + Sync + 'static) -> Self {
        Self::World(PortError::new(error))
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
                Waiting::Doubt { .. } => Code::StepInDoubt,
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
            Self::EmptyProject(_) => Code::ProjectEmpty,
            Self::NotFound(_) => Code::PlanNotFound,
            Self::Usage(_) => Code::Usage,
            Self::World(error) => error.code(),
            Self::Sandbox(error) => error.code(),
            Self::Lease(error) => error.code(),
            Self::Store(error) => error.code(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::NotReady { hint, .. } | Self::Failed { hint, .. } => Some(hint.clone()),
            Self::Busy { plan, .. } => Some(format!(
                "watch it with `agents plan status {plan}` or `agents plan wait {plan}`, or stop it with \
                 `agents plan cancel {plan}`"
            )),
            Self::Waits { plan, waiting } => Some(match **waiting {
                Waiting::Gate { .. } | Waiting::Call { .. } => format!(
                    "`agents plan approve {plan}` or `agents plan reject {plan}`, then `agents plan execute {plan}`"
                ),
                Waiting::Question { .. } => format!(
                    "`agents plan approve {plan} --answer TEXT`, then `agents plan execute {plan}`"
                ),
                Waiting::Doubt { .. } => format!(
                    "`agents plan execute {plan} --redo` makes it again, `--skip` takes it for done"
                ),
                Waiting::Guidance { .. } => {
                    format!("`agents plan prompt {plan} TEXT`, then `agents plan execute {plan}`")
                }
            }),
            Self::Preflight { plan, .. } => {
                Some(format!("mend that and run `agents plan execute {plan}`"))
            }
            Self::Invariant { plan, .. } => Some(format!(
                "remove one of them with `agents invariant remove ID`: `agents invariant list` shows the ids; then \
                 `agents plan execute {plan}`"
            )),
            Self::Constrained { plan, .. } => Some(format!(
                "`agents plan status {plan}` shows them; let the plan mend it with `agents plan prompt {plan} TEXT` \
                 and `agents plan execute {plan}`, or go back with `agents plan revert {plan}`"
            )),
            Self::NothingToApply(plan) => Some(format!(
                "`agents plan apply {plan} --allow-empty` ends it as applied all the same"
            )),
            Self::Stopped {
                plan,
                is_over: false,
            } => Some(format!("go on with `agents plan execute {plan}`")),
            Self::Stopped { is_over: true, .. } => {
                Some("make a new one with `agents plan use ACTION PROJECT`".to_owned())
            }
            Self::ReversionLimit { .. } => {
                Some("make a new plan with `agents plan use ACTION PROJECT`".to_owned())
            }
            Self::Strategy { .. } => Some(
                "`agents plan show PLAN --as markdown` prints the present one in the right form"
                    .to_owned(),
            ),
            Self::Rollback { plan, .. } => Some(format!(
                "`agents plan checkpoint list {plan}` shows to what it can be taken back"
            )),
            Self::EmptyProject(project) => Some(format!(
                "link one: `agents project link-resource {project} RESOURCE`"
            )),
            Self::NotFound(_) => Some("`agents plan list` shows what there is".to_owned()),
            Self::Usage(_) => Some("`agents help plan` shows how plans are worked with".to_owned()),
            Self::World(error) => error.hint(),
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
                    format!("agents plan prompt {plan} TEXT"),
                    format!("agents plan execute {plan}"),
                    format!("agents plan revert {plan}"),
                ],
            }),
            Self::Invariant { plan, .. }
            | Self::Stopped { plan, .. }
            | Self::ReversionLimit { plan, .. }
            | Self::Rollback { plan, .. }
            | Self::NothingToApply(plan)
            | Self::NotFound(plan) => json!({"plan_id": plan}),
            Self::EmptyProject(project) => json!({"project": project}),
            Self::Strategy { line, .. } => json!({"line": line}),
            Self::Usage(_) => Value::Null,
            Self::World(error) => error.details(),
            Self::Sandbox(error) => error.details(),
            Self::Lease(error) => error.details(),
            Self::Store(error) => error.details(),
        }
    }
}
