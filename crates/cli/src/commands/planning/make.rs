//! `plan use`: a plan is made from an action, and begun as far as its profile allows.

use cleveragents_application::plan_operations::next_steps;
use cleveragents_application::{DefaultActors, DriveOptions, PlanDefaults, UseAction, parse_usd};
use cleveragents_domain::{MicroUsd, Plan};
use serde_json::json;

use super::Desk;
use super::run::{drive, outcome_rows};
use crate::arguments::{PlanChoices, PlanUse};
use crate::config::keys;
use crate::output::{Cell, CommandError, Panel, Report};

pub(super) fn run(desk: &Desk<'_>, arguments: &PlanUse) -> Result<Report, CommandError> {
    let mut projects = arguments.projects.clone();
    projects.extend(arguments.more_projects.iter().cloned());
    if projects.is_empty() {
        return Err(
            CommandError::usage("a plan needs a project to work on").with_hint(
                "agents plan use ACTION PROJECT; `agents project list` shows what there is",
            ),
        );
    }
    let request = UseAction {
        action: arguments.action.clone(),
        arguments: pairs(&arguments.arguments)?,
        projects,
        ..chosen(&arguments.choices)?
    };
    let plan = create(desk, &request)?;
    let driven = if arguments.no_start {
        None
    } else {
        // What was made stays made, whatever comes of beginning it: the failure names the plan.
        let plan = drive(desk, &plan, &DriveOptions::default(), arguments.stream)?;
        Some(plan)
    };
    Ok(shown("plan use", desk, driven.as_ref().unwrap_or(&plan))?.ok("Plan created"))
}

/// What a person chose.
pub(super) fn chosen(choices: &PlanChoices) -> Result<UseAction, CommandError> {
    let max_cost: Option<MicroUsd> = choices.max_cost.as_deref().map(parse_usd).transpose()?;
    Ok(UseAction {
        profile: choices.automation_profile.clone(),
        actors: DefaultActors {
            strategy: choices.strategy_actor.clone(),
            execution: choices.execution_actor.clone(),
            estimation: choices.estimation_actor.clone(),
            invariant: choices.invariant_actor.clone(),
            review: choices.review_actor.clone(),
        },
        invariants: choices.invariant.clone(),
        max_cost,
        read_only: choices.read_only,
        ..UseAction::default()
    })
}

/// Makes a plan.
pub(super) fn create(desk: &Desk<'_>, request: &UseAction) -> Result<Plan, CommandError> {
    let settings = &desk.context.settings;
    let defaults = PlanDefaults {
        profile: settings.automation_profile().to_owned(),
        actors: DefaultActors {
            strategy: settings.actor_of(&keys::ACTOR_STRATEGY),
            execution: settings.actor_of(&keys::ACTOR_EXECUTION),
            estimation: settings.actor_of(&keys::ACTOR_ESTIMATION),
            invariant: settings.actor_of(&keys::ACTOR_INVARIANT),
            review: settings.actor_of(&keys::ACTOR_REVIEW),
        },
    };
    let variables = desk.context.variables();
    Ok(desk.service.create(request, &defaults, &variables)?)
}

/// The report of a plan that was made.
pub(super) fn shown(
    command: &'static str,
    desk: &Desk<'_>,
    plan: &Plan,
) -> Result<Report, CommandError> {
    let made = &plan.made_with;
    let projects: Vec<&str> = made
        .projects
        .iter()
        .map(|project| project.name.as_str())
        .collect();
    let next = next_steps(plan);
    let resources: usize = made
        .projects
        .iter()
        .map(|project| {
            desk.context
                .projects()?
                .targets(&project.name)
                .map(|found| found.len())
                .map_err(CommandError::from)
        })
        .sum::<Result<usize, CommandError>>()?;
    let mut inputs = made.arguments.clone();
    inputs.insert("automation_profile".to_owned(), json!(made.profile.name));
    let report = Report::new(command)
        .data(json!({
            "plan_id": plan.id,
            "name": plan.name,
            "phase": plan.stage.phase(),
            "state": plan.shown_state(),
            "action": plan.action,
            "project": projects.join(", "),
            "projects": projects,
            "automation_profile": made.profile.name,
            "attempt": plan.attempt,
            "inputs": inputs,
            "actors": {
                "strategy": made.actors.strategy,
                "execution": made.actors.execution,
                "estimation": made.actors.estimation,
                "review": made.actors.review,
                "invariant": made.actors.invariant,
            },
            "automation": {
                "profile": made.profile.name,
                "source": made.profile.source,
                "read_only": made.read_only,
            },
            "context": {
                "resources": resources,
                // The index of projects comes with a later part of the program.
                "indexed_files": null, "view": null, "hot_token_budget": null,
            },
            "waiting": plan.waiting,
            "next_steps": next,
        }))
        .panel(
            Panel::new("Plan")
                .row("Plan ID", Cell::Id(plan.id.to_string()))
                .row("Name", plan.name.clone())
                .row("Action", plan.action.clone())
                .row("Project", projects.join(", "))
                .row("Phase", plan.stage.phase().as_str())
                .row("State", plan.shown_state().as_str())
                .row(
                    "Automation",
                    format!("{} ({})", made.profile.name, made.profile.source),
                )
                .row("Read-only", if made.read_only { "yes" } else { "no" }),
        );
    let report = outcome_rows(report, plan);
    Ok(match next.first() {
        Some(next) => report.info(format!("next: `{next}`")),
        None => report,
    })
}

/// Arguments as `NAME=VALUE`.
fn pairs(given: &[String]) -> Result<Vec<(String, String)>, CommandError> {
    given
        .iter()
        .map(|pair| match pair.split_once('=') {
            Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
            _ => Err(CommandError::usage(format!("`{pair}` is not NAME=VALUE"))
                .with_hint("write it like --arg issue=17")),
        })
        .collect()
}
