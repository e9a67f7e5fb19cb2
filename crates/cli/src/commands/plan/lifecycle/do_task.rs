//! `agents do`: runs a one-off task in a folder. A sequence of operations creates the project of
//! the folder, an action and a plan, and runs the phases of the plan.

use std::path::PathBuf;

use cleveragents_application::action_operations::CreateAction;
use cleveragents_application::one_off_action;
use cleveragents_application::plan_operations::{
    AppliedPlan, ApplyPlan, ApprovePlan, CreatedPlan, ExecutePlan, PlanExecution, ShowPlan,
    ShowPlanStatus, StrategyOutline, UsePlan,
};
use cleveragents_application::project_operations::ProjectOfFolder;
use cleveragents_domain::{
    Code, GateAction, PlanId, PlanPhase, PlanStage, PlanState, Suggestion, Waiting,
};
use serde_json::json;

use super::interactive;
use super::run::{applied_view, apply_confirmed, confirm_apply, outcome_panels, stage_message};
use super::use_action::chosen;
use crate::arguments::Do;
use crate::commands::{can_confirm, confirm, first_run};
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report, command, commands};

/// Plan of a task, as the last operation reported it.
struct TaskPlan {
    id: PlanId,
    stage: PlanStage,
    state: PlanState,
    action: String,
    waiting: Option<Waiting>,
    strategy: Option<StrategyOutline>,
    applied: Option<Box<AppliedPlan>>,
    next_steps: Vec<Suggestion>,
}

impl From<CreatedPlan> for TaskPlan {
    fn from(plan: CreatedPlan) -> Self {
        Self {
            id: plan.plan_id,
            stage: plan.stage,
            state: plan.state,
            action: plan.action,
            waiting: plan.waiting,
            strategy: plan.strategy,
            applied: plan.applied,
            next_steps: plan.next_steps,
        }
    }
}

impl TaskPlan {
    fn from_execution(plan: PlanExecution, action: String) -> Self {
        Self {
            id: plan.plan_id,
            stage: plan.stage,
            state: plan.state,
            action,
            waiting: plan.waiting,
            strategy: plan.strategy_summary.outline,
            applied: plan.applied,
            next_steps: plan.next_steps,
        }
    }

    /// Phase that waits for approval.
    fn gated_phase(&self) -> Option<PlanPhase> {
        match (&self.waiting, self.stage) {
            (Some(Waiting::Gate { .. }), PlanStage::StrategizeQueued) => {
                Some(PlanPhase::Strategize)
            }
            (Some(Waiting::Gate { .. }), PlanStage::StrategizeComplete) => Some(PlanPhase::Execute),
            (Some(Waiting::Gate { .. }), PlanStage::ExecuteComplete) => Some(PlanPhase::Apply),
            _ => None,
        }
    }

    fn view(&self) -> Report {
        let report = Report::new("do")
            .data(json!({
                "plan_id": self.id, "phase": self.stage.phase(), "state": self.state,
                "action": self.action, "waiting": self.waiting,
                "next_steps": commands(&self.next_steps),
            }))
            .panel(
                Panel::new("Plan")
                    .row("Plan ID", Cell::Id(self.id.to_string()))
                    .row("Phase", self.stage.phase().as_str())
                    .row("State", self.state.as_str()),
            );
        let (strategy, waiting) = (self.strategy.as_ref(), self.waiting.as_ref());
        outcome_panels(report, strategy, waiting, self.stage)
    }
}

pub(crate) fn run(context: &Context, arguments: Do) -> Result<Report, CommandError> {
    if arguments.task.trim().is_empty() {
        return Err(
            CommandError::usage("no task is given").with_hint("agents do 'fix the failing test'")
        );
    }
    let mut checks = arguments.check.iter();
    if checks.any(|command| command.trim().is_empty()) {
        return Err(CommandError::usage("--check is empty")
            .with_hint("add the command that must succeed, such as --check 'make test'"));
    }
    let mut choices = arguments.choices;
    if let Some(model) = arguments.model {
        for actor in [
            &mut choices.strategy_actor,
            &mut choices.execution_actor,
            &mut choices.review_actor,
            &mut choices.invariant_actor,
        ] {
            actor.get_or_insert_with(|| model.clone());
        }
    }
    // A server uses its own models, so the local ones are checked only without a server.
    if context.connection.is_none() {
        let configured = context.settings.plan_actors().strategy;
        let actor = choices.strategy_actor.as_deref().or(configured.as_deref());
        if let Some(screen) = first_run::screen(context, "do", actor)? {
            return Ok(screen);
        }
    }
    let task = Task {
        context,
        yes: arguments.yes,
        is_stream: arguments.stream,
    };
    let project = task.project(arguments.folder)?;
    let action = task.action(&arguments.task, &arguments.check)?;
    let mut plan = task.start(UsePlan {
        action,
        projects: vec![project],
        ..chosen(choices)
    })?;
    while let Some(phase) = plan.gated_phase() {
        if let Err(error) = task.confirm_phase(&plan, phase) {
            if error.code() == Code::ConfirmationNeeded {
                let next = plan.next_steps.first().map(command).unwrap_or_default();
                return Ok(plan
                    .view()
                    .warn(format!("the plan waits: continue with `{next}`"))
                    .exit_with(error.exit_code()));
            }
            return Err(error);
        }
        if phase == PlanPhase::Apply {
            let request = ApplyPlan {
                reference: Some(plan.id.to_string()),
                ..ApplyPlan::default()
            };
            return apply_confirmed(context, request);
        }
        plan = task.execute(plan.id.to_string(), plan.action)?;
    }
    let message = stage_message(plan.stage);
    Ok(match plan.applied {
        Some(applied) => applied_view(*applied),
        None => plan.view().ok(message),
    })
}

/// Parameters shared by all operations of a task.
struct Task<'a> {
    context: &'a Context,
    /// Whether every question is answered with yes, without asking the user.
    yes: bool,
    is_stream: bool,
}

impl Task<'_> {
    /// Project of a folder, created with its resource if needed.
    fn project(&self, folder: Option<PathBuf>) -> Result<String, CommandError> {
        let working_folder = || self.context.environment.working_folder().map(PathBuf::from);
        let is_working_folder = folder.is_none();
        let folder = folder.or_else(working_folder);
        let folder = folder.ok_or_else(|| CommandError::usage("there is no working folder"))?;
        let project = self.context.call(ProjectOfFolder {
            folder,
            whole_repository: is_working_folder,
        });
        let project = project.map_err(|error| match error.code() {
            Code::LocationNotFound => error.with_hint("choose an existing folder with --folder"),
            _ => error,
        })?;
        Ok(project.name)
    }

    /// Registers the task description as an action, and returns its name.
    fn action(&self, task: &str, checks: &[String]) -> Result<String, CommandError> {
        let created = self.context.call(CreateAction {
            text: one_off_action(task, checks),
            source: Some("agents do".to_owned()),
            update: false,
        })?;
        Ok(created.action.summary.name)
    }

    /// Creates the plan and runs it as far as its profile allows.
    fn start(&self, request: UsePlan) -> Result<TaskPlan, CommandError> {
        let action = request.action.clone();
        match interactive::call(self.context, request, self.is_stream) {
            Err(error) if error.code() == Code::PlanWaiting => self.fix(error, action),
            created => Ok(created?.into()),
        }
    }

    /// Runs the next phase.
    fn execute(&self, reference: String, action: String) -> Result<TaskPlan, CommandError> {
        let request = ExecutePlan {
            reference: Some(reference),
            ..ExecutePlan::default()
        };
        match interactive::call(self.context, request, self.is_stream) {
            Err(error) if error.code() == Code::PlanWaiting => self.fix(error, action),
            executed => Ok(TaskPlan::from_execution(executed?, action)),
        }
    }

    /// If the plan waits for approval to fix failed checks, asks the user and resumes the plan.
    fn fix(&self, error: CommandError, action: String) -> Result<TaskPlan, CommandError> {
        let details = error.details();
        let Some(plan) = details["plan_id"].as_str().map(str::to_owned) else {
            return Err(error);
        };
        let status = self.context.call(ShowPlanStatus {
            reference: Some(plan.clone()),
        })?;
        let is_fix = matches!(
            status.waiting.map(|waiting| waiting.request),
            Some(Waiting::Gate {
                opens: GateAction::Fix,
                ..
            })
        );
        if !is_fix || !(self.yes || can_confirm()) {
            return Err(error);
        }
        match confirm("A check failed. Fix it?", self.yes) {
            Ok(()) => {}
            // The user did not agree. The plan stays unchanged, and the hint of the error shows how to continue.
            Err(refused) if refused.code() == Code::ConfirmationNeeded => {
                return Err(if refused.exit_code() == error.exit_code() {
                    error
                } else {
                    error.interrupted()
                });
            }
            Err(other) => return Err(other),
        }
        self.context.call(ApprovePlan {
            reference: Some(plan.clone()),
            answer: None,
        })?;
        self.execute(plan, action)
    }

    fn confirm_phase(&self, plan: &TaskPlan, phase: PlanPhase) -> Result<(), CommandError> {
        match phase {
            PlanPhase::Strategize => confirm("Create the strategy?", self.yes),
            PlanPhase::Execute => {
                let shown = self.context.call(ShowPlan {
                    reference: Some(plan.id.to_string()),
                    document: None,
                })?;
                let strategy = shown.markdown.unwrap_or_default();
                let question = format!("{strategy}\nExecute it?");
                confirm(&question, self.yes)
            }
            PlanPhase::Apply => confirm_apply(self.context, &plan.id.to_string(), self.yes),
        }
    }
}
