//! [`RoleDriver`]: creates and runs the plan of a role, and classifies why it stopped.

use std::sync::Arc;

use cleveragents_domain::{
    Code, Diagnose as _, FailureCategory, MicroUsd, Plan, PlanId, PlanPhase, PlanReport, PlanStage,
};
use cleveragents_process::Cancel;
use cleveragents_store::Engine;
use serde_json::{Value, json};

use crate::action::ActionService;
use crate::observer::{NoApprover, Observer};
use crate::operation::OperationError;
use crate::plan::{
    DefaultActors, DriveOptions, KeptVariables, PlanDefaults, PlanError, PlanFrontEnd, PlanService,
    UseAction,
};
use crate::resource::Register;
use crate::runtime::AgentRuntime;

/// The automation profile of the plans of roles: everything except the apply needs no approval.
const PROFILE: &str = "auto";

/// A plan to run for a role.
pub(crate) struct RolePlan<'a> {
    /// The name of the role, for the name of the plan.
    pub(crate) role: &'static str,
    /// The task. Its first line is the subject.
    pub(crate) task: String,
    pub(crate) report: Option<PlanReport>,
    pub(crate) project: &'a str,
    /// The actor; `None` for the configured actors.
    pub(crate) actor: Option<&'a str>,
    pub(crate) max_cost: Option<MicroUsd>,
}

/// The reason why a plan of a role has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopReason {
    Cancelled,
    /// A limit of cost, calls or time was reached.
    LimitReached,
    /// A model, a program or a resource was not available: this shows nothing about the work.
    Environment,
    /// The plan waits for an answer or an approval.
    Waiting,
    /// The actor reported that the task is impossible, or gave no usable result.
    NoResult,
    /// Required checks failed.
    FailedChecks,
}

/// A plan that stopped without a result.
#[derive(Debug, Clone)]
pub(crate) struct RoleStop {
    pub(crate) reason: StopReason,
    pub(crate) message: String,
}

/// Creates and runs plans for roles.
pub(crate) struct RoleDriver<'a> {
    pub(crate) engine: Arc<Engine>,
    pub(crate) plans: &'a PlanService,
    pub(crate) runtime: &'a AgentRuntime,
    pub(crate) defaults: &'a DefaultActors,
    pub(crate) variables: &'a KeptVariables,
    pub(crate) observer: &'a dyn Observer,
    pub(crate) cancel: &'a Cancel,
    /// Called with every plan after its creation and before its first model call.
    pub(crate) on_plan: &'a dyn Fn(PlanId) -> Result<(), OperationError>,
}

impl RoleDriver<'_> {
    /// Creates a plan without starting it.
    pub(crate) fn create(&self, role_plan: &RolePlan<'_>) -> Result<Plan, OperationError> {
        let (action, text) = role_action(role_plan.role, &role_plan.task);
        let variables = |name: &str| (self.variables)(name);
        ActionService::new(Arc::clone(&self.engine)).add(
            &text,
            "a pool",
            Register::New,
            &variables,
        )?;
        let actor = || role_plan.actor.map(str::to_owned);
        let none = || Some("none".to_owned());
        let request = UseAction {
            action,
            projects: vec![role_plan.project.to_owned()],
            profile: Some(PROFILE.to_owned()),
            actors: DefaultActors {
                strategy: actor(),
                execution: actor(),
                estimation: none(),
                invariant: None,
                // The review is a role of its own, by another actor.
                review: none(),
            },
            max_cost: role_plan.max_cost,
            report: role_plan.report,
            ..UseAction::default()
        };
        let defaults = PlanDefaults {
            profile: PROFILE.to_owned(),
            actors: self.defaults.clone(),
        };
        let plan = self.plans.create(&request, &defaults, &variables)?;
        (self.on_plan)(plan.id)?;
        Ok(plan)
    }

    /// Runs a plan until its execution is complete.
    pub(crate) fn execute(&self, plan: PlanId) -> Result<Result<Plan, RoleStop>, OperationError> {
        self.drive(plan, PlanPhase::Strategize, DriveOptions::default())
    }

    /// Runs a phase of a plan.
    pub(crate) fn drive(
        &self,
        plan: PlanId,
        phase: PlanPhase,
        options: DriveOptions,
    ) -> Result<Result<Plan, RoleStop>, OperationError> {
        let options = DriveOptions {
            consent: Some(phase),
            ..options
        };
        let front_end = PlanFrontEnd {
            approver: &NoApprover,
            observer: self.observer,
            cancel: self.cancel,
        };
        match self.plans.drive(plan, &options, self.runtime, front_end) {
            Ok(driven) => Ok(Ok(driven)),
            Err(error) => {
                let stored = self.plans.get(plan)?;
                match stop_reason(&error, &stored) {
                    Some(reason) => Ok(Err(RoleStop {
                        reason,
                        message: error.to_string(),
                    })),
                    None => Err(error.into()),
                }
            }
        }
    }

    /// Runs a plan whose typed report is its whole result. `read` reads the report while the sandbox of the plan exists.
    pub(crate) fn report<T>(
        &self,
        plan: PlanId,
        read: impl FnOnce(&Plan, &Value) -> Result<T, OperationError>,
    ) -> Result<Result<(Plan, T), RoleStop>, OperationError> {
        let executed = match self.execute(plan)? {
            Ok(executed) => executed,
            Err(stop) => return Ok(Err(stop)),
        };
        let Some(report) = self.plans.typed_report(&executed)? else {
            return Ok(Err(RoleStop {
                reason: StopReason::NoResult,
                message: "the actor reported no result".to_owned(),
            }));
        };
        let result = read(&executed, &report)?;
        // Nothing changed, so the apply only ends the plan. The report counts even if that fails.
        let options = DriveOptions {
            allow_empty: true,
            ..DriveOptions::default()
        };
        let finished = match self.drive(plan, PlanPhase::Apply, options) {
            Ok(Ok(finished)) => finished,
            _ => executed,
        };
        Ok(Ok((finished, result)))
    }
}

/// The name and the definition of the action of a task.
fn role_action(role: &str, task: &str) -> (String, String) {
    let stamp = PlanId::generate().to_string().to_ascii_lowercase();
    let name = format!("local/pool-{role}-{}", &stamp[stamp.len() - 10..]);
    // Escapes braces and `$`, which would be placeholders and variables.
    let escaped = task
        .replace('{', "{{")
        .replace('}', "}}")
        .replace('$', "$$");
    let subject = escaped.lines().next().unwrap_or_default();
    let definition = json!({
        "name": name,
        "description": subject,
        "long_description": escaped,
        "definition_of_done": "- the task is done",
        "reusable": false,
    });
    (name, definition.to_string())
}

/// Classifies the error of a plan; `None` for an error of the program or its database.
fn stop_reason(error: &PlanError, plan: &Plan) -> Option<StopReason> {
    match error {
        PlanError::Stopped { .. } => return Some(StopReason::Cancelled),
        PlanError::Waits { .. } => return Some(StopReason::Waiting),
        PlanError::Invariant { .. } | PlanError::ReversionLimit { .. } => {
            return Some(StopReason::NoResult);
        }
        PlanError::Preflight { .. } | PlanError::Sandbox(_) | PlanError::EmptyProject(_) => {
            return Some(StopReason::Environment);
        }
        PlanError::Constrained { .. } => return Some(StopReason::FailedChecks),
        PlanError::Failed { .. } => {}
        PlanError::Service(error) => return code_reason(error.code()),
        _ => return None,
    }
    let failure = plan.error.as_ref();
    let field = |name: &str| failure.and_then(|failure| failure.get(name)?.as_str());
    let category = field("error_category").and_then(FailureCategory::from_stored);
    let code = field("code").and_then(Code::parse);
    if let Some(reason) = code.and_then(code_reason) {
        return Some(reason);
    }
    Some(match category {
        Some(FailureCategory::Validation) => StopReason::FailedChecks,
        Some(FailureCategory::Transient | FailureCategory::Resource) => StopReason::Environment,
        _ => StopReason::NoResult,
    })
}

/// The reason that a code alone decides.
fn code_reason(code: Code) -> Option<StopReason> {
    match code {
        Code::BudgetExceeded | Code::RunLimit => Some(StopReason::LimitReached),
        Code::ModelCancelled => Some(StopReason::Cancelled),
        // `CA-08…` are errors of models and providers.
        code if code.as_str().starts_with("CA-08") => Some(StopReason::Environment),
        _ => None,
    }
}

/// True if a plan was executed completely.
pub(crate) fn is_executed(plan: &Plan) -> bool {
    matches!(
        plan.stage,
        PlanStage::ExecuteComplete
            | PlanStage::ApplyQueued
            | PlanStage::ApplyProcessing
            | PlanStage::ApplyApplied
            | PlanStage::ApplyConstrained
            | PlanStage::ApplyErrored
    )
}
