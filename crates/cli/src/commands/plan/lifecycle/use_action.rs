//! `plan use`: creates a plan from an action.

use cleveragents_application::plan_operations::{CreatedPlan, UsePlan};

use super::interactive;
use super::run::outcome_panels;
use crate::arguments::{PlanChoices, PlanUse};
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report, command};

pub(super) fn run(context: &Context, arguments: PlanUse) -> Result<Report, CommandError> {
    let mut projects = arguments.projects;
    projects.extend(arguments.more_projects);
    if projects.is_empty() {
        return Err(CommandError::usage("a plan needs a project to work on")
            .with_hint("agents plan use ACTION PROJECT; `agents project list` shows all"));
    }
    let is_malformed =
        |pair: &&String| pair.split_once('=').is_none_or(|(name, _)| name.is_empty());
    if let Some(pair) = arguments.arguments.iter().find(is_malformed) {
        return Err(CommandError::usage(format!("`{pair}` is not NAME=VALUE"))
            .with_hint("use for example --arg issue=17"));
    }
    let request = UsePlan {
        action: arguments.action,
        projects,
        arguments: arguments.arguments,
        no_start: arguments.no_start,
        ..chosen(arguments.choices)
    };
    let created = interactive::call(context, request, arguments.stream)?;
    Ok(view(created).ok("Plan created"))
}

/// Request with the options of the command line, without action and projects.
pub(super) fn chosen(choices: PlanChoices) -> UsePlan {
    UsePlan {
        automation_profile: choices.automation_profile,
        strategy_actor: choices.strategy_actor,
        execution_actor: choices.execution_actor,
        estimation_actor: choices.estimation_actor,
        review_actor: choices.review_actor,
        invariant_actor: choices.invariant_actor,
        invariant: choices.invariant,
        max_cost: choices.max_cost,
        read_only: choices.read_only,
        ..UsePlan::default()
    }
}

fn view(created: CreatedPlan) -> Report {
    let automation = &created.automation;
    let report = Report::new("plan use").panel(
        Panel::new("Plan")
            .row("Plan ID", Cell::Id(created.plan_id.to_string()))
            .row("Name", created.name.clone())
            .row("Action", created.action.clone())
            .row("Project", created.project.clone())
            .row("Phase", created.phase.as_str())
            .row("State", created.state.as_str())
            .row(
                "Automation",
                format!("{} ({})", automation.profile, automation.source),
            )
            .row("Read-only", if automation.read_only { "yes" } else { "no" }),
    );
    let report = outcome_panels(
        report,
        created.strategy.as_ref(),
        created.waiting.as_ref(),
        created.stage,
    );
    let next = created.next_steps.first().map(command);
    let report = report.data(created).commands_at(&["/next_steps"]);
    match next {
        Some(next) => report.info(format!("next: `{next}`")),
        None => report,
    }
}
