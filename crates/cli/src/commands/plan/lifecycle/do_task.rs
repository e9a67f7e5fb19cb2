//! `agents do`: runs a one-off task in a folder. A sequence of operations creates the project of
//! the folder, an action and a plan, and runs the phases of the plan.

use std::fmt::Write as _;
use std::path::PathBuf;

use cleveragents_application::action_operations::CreateAction;
use cleveragents_application::plan_operations::{
    AppliedPlan, ApplyPlan, ApprovePlan, CreatedPlan, ExecutePlan, PlanDetails, PlanExecution,
    RevertPlan, ShowPlan, ShowPlanStatus, StrategyOutline, UsePlan,
};
use cleveragents_application::project_operations::ProjectOfFolder;
use cleveragents_application::{FailedCheck, Mode, one_off_action};
use cleveragents_domain::{
    Code, GateAction, PlanId, PlanPhase, PlanStage, PlanState, Suggestion, Waiting,
};
use serde_json::json;

use super::question::{PlanAnswer, PlanQuestion};
use super::run::{
    applied_view, apply_confirmed, ask_apply, give_guidance, not_applied, outcome_panels,
    stage_message,
};
use super::use_action::chosen;
use super::watcher::{prints_events, strategy_lines};
use super::{edit, interactive};
use crate::arguments::Do;
use crate::commands::unfinished::{self, AnnouncedWork};
use crate::commands::{can_confirm, confirm, first_run};
use crate::context::Context;
use crate::output::{
    Cell, CommandError, Panel, Report, command, commands, visible_lines, write_err,
};

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
        match &self.waiting {
            Some(Waiting::Gate { .. }) => self.stage.gated_phase(),
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
    if let Some(mode) = arguments.mode {
        choices.automation_profile = Some(mode.profile().to_owned());
    }
    let has_own_profile = arguments.mode.is_none() && choices.automation_profile.is_some();
    let mode = arguments.mode.or_else(|| context.settings.mode());
    let mode = mode.filter(|_| !has_own_profile);
    // A server uses its own models, so the local ones are checked only without a server.
    if context.connection.is_none() {
        let configured = context.settings.plan_actors().strategy;
        let chosen = choices.strategy_actor.as_deref();
        let actor = chosen.or(arguments.model.as_deref());
        let actor = actor.or(configured.as_deref());
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
        model: arguments.model,
        ..chosen(choices)
    })?;
    if mode.is_some_and(Mode::stops_after_strategy)
        && plan.gated_phase() == Some(PlanPhase::Execute)
    {
        let next = plan.next_steps.first().map(command).unwrap_or_default();
        return Ok(plan
            .view()
            .info(format!("next: `{next}`"))
            .ok("Strategy created; no file was changed"));
    }
    while let Some(phase) = plan.gated_phase() {
        let answer = match task.ask_phase(&plan, phase) {
            Ok(answer) => answer,
            Err(error) if error.code() == Code::ConfirmationNeeded => {
                return Ok(declined(&plan, error.exit_code()));
            }
            Err(error) => return Err(error),
        };
        let id = plan.id.to_string();
        match (answer, phase) {
            (PlanAnswer::No, PlanPhase::Apply) => return Ok(not_applied(context, "do", &id)),
            (PlanAnswer::No, _) => {
                let code = Code::ConfirmationNeeded.kind().exit_code();
                return Ok(declined(&plan, code));
            }
            (PlanAnswer::Edit, _) => task.edit_strategy(&id)?,
            (PlanAnswer::Tell(guidance), PlanPhase::Execute) => {
                plan = task.strategize_again(plan, guidance)?;
            }
            (PlanAnswer::Tell(guidance), _) => {
                if let Some(next) = give_guidance(context, &id, guidance)? {
                    plan = task.execute_request(next, plan.action)?;
                }
            }
            (PlanAnswer::Yes, PlanPhase::Apply) => {
                let request = ApplyPlan {
                    reference: Some(id),
                    ..ApplyPlan::default()
                };
                return apply_confirmed(context, request);
            }
            (PlanAnswer::Yes, _) => plan = task.execute(id, plan.action)?,
        }
    }
    let message = stage_message(plan.stage);
    Ok(match plan.applied {
        Some(applied) => applied_view(*applied),
        None => plan.view().ok(message),
    })
}

/// Report of a plan whose next phase the user did not confirm.
fn declined(plan: &TaskPlan, exit_code: u8) -> Report {
    let next = plan.next_steps.first().map(command).unwrap_or_default();
    plan.view()
        .warn(format!("the plan waits: continue with `{next}`"))
        .exit_with(exit_code)
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
        unfinished::announce(self.context, &project.folder, AnnouncedWork::All);
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
        self.execute_request(request, action)
    }

    fn execute_request(
        &self,
        request: ExecutePlan,
        action: String,
    ) -> Result<TaskPlan, CommandError> {
        match interactive::call(self.context, request, self.is_stream) {
            Err(error) if error.code() == Code::PlanWaiting => self.fix(error, action),
            executed => Ok(TaskPlan::from_execution(executed?, action)),
        }
    }

    /// Makes a new strategy with the text of the user. If the plan may not return to its strategy again, the text is
    /// guidance for its execution, and the strategy stays.
    fn strategize_again(&self, plan: TaskPlan, text: String) -> Result<TaskPlan, CommandError> {
        let id = plan.id.to_string();
        let reverted = self.context.call(RevertPlan {
            reference: id.clone(),
            to_phase: PlanPhase::Strategize,
            reason: text.clone(),
        });
        match reverted {
            Ok(_) => self.execute(id, plan.action),
            Err(error) if error.code() == Code::ReversionLimit => {
                give_guidance(self.context, &id, text)?;
                write_err("The plan cannot strategize again; its execution gets the guidance.\n");
                Ok(plan)
            }
            Err(error) => Err(error),
        }
    }

    /// Opens the strategy in the user's editor, and shows the result. A strategy that is refused leaves the plan
    /// unchanged.
    fn edit_strategy(&self, plan: &str) -> Result<(), CommandError> {
        match edit::run(self.context, plan.to_owned(), None) {
            Ok(_) => {
                let text = strategy_outline(&self.strategy(plan)?);
                write_err(&text);
                Ok(())
            }
            Err(error) => {
                write_err(&visible_lines(&format!("{}\n", error.message())));
                Ok(())
            }
        }
    }

    fn strategy(&self, plan: &str) -> Result<PlanDetails, CommandError> {
        self.context.call(ShowPlan {
            reference: Some(plan.to_owned()),
            document: None,
        })
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
        if !self.yes {
            let checks = status.failed_checks;
            let question = PlanQuestion {
                text: "A check failed. Fix it?".to_owned(),
                subject: "output",
                show: &|| Ok(visible_lines(&outputs(&checks)).into_owned()),
                can_edit: false,
            };
            match question.ask(self.context) {
                Ok(PlanAnswer::Yes | PlanAnswer::Edit) => {}
                // The user did not agree. The plan stays unchanged, and the hint of the error shows how to continue.
                Ok(PlanAnswer::No) => return Err(error),
                Ok(PlanAnswer::Tell(guidance)) => {
                    return match give_guidance(self.context, &plan, guidance)? {
                        Some(next) => self.execute_request(next, action),
                        None => Err(error),
                    };
                }
                Err(refused) if refused.code() == Code::ConfirmationNeeded => {
                    return Err(if refused.exit_code() == error.exit_code() {
                        error
                    } else {
                        error.interrupted()
                    });
                }
                Err(other) => return Err(other),
            }
        }
        self.context.call(ApprovePlan {
            reference: Some(plan.clone()),
            answer: None,
        })?;
        self.execute(plan, action)
    }

    fn ask_phase(&self, plan: &TaskPlan, phase: PlanPhase) -> Result<PlanAnswer, CommandError> {
        let id = plan.id.to_string();
        match phase {
            PlanPhase::Strategize => {
                confirm("Create the strategy?", self.yes).map(|()| PlanAnswer::Yes)
            }
            PlanPhase::Execute if self.yes || !can_confirm() => {
                confirm("Execute it?", self.yes).map(|()| PlanAnswer::Yes)
            }
            PlanPhase::Execute => {
                // The progress display has shown the strategy, if there is one.
                if !prints_events(self.context, self.is_stream) {
                    write_err(&strategy_outline(&self.strategy(&id)?));
                }
                let question = PlanQuestion {
                    text: "Execute it?".to_owned(),
                    subject: "details",
                    show: &|| {
                        let markdown = self.strategy(&id)?.markdown.unwrap_or_default();
                        Ok(visible_lines(&markdown).into_owned())
                    },
                    can_edit: true,
                };
                question.ask(self.context)
            }
            PlanPhase::Apply => ask_apply(self.context, &id, None, self.yes),
        }
    }
}

/// Summary and steps of a strategy, as the progress display shows a new one.
fn strategy_outline(plan: &PlanDetails) -> String {
    plan.strategy.as_ref().map_or_else(String::new, |strategy| {
        let lines: Vec<String> = strategy_lines(strategy).collect();
        visible_lines(&format!("{}\n", lines.join("\n"))).into_owned()
    })
}

/// Failed checks with their commands and outputs.
fn outputs(checks: &[FailedCheck]) -> String {
    let mut text = String::new();
    for check in checks {
        let _never_fails = writeln!(text, "✗ {} — {}", check.validation, check.message);
        if let Some(command) = &check.command {
            let _never_fails = writeln!(text, "$ {command}");
        }
        let _never_fails = writeln!(text, "{}", check.output.trim_end());
    }
    text
}
