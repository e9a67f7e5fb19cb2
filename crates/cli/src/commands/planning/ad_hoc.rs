//! `agents do`: from words to a plan, in the folder one is in.

use std::fmt::Write as _;

use std::path::PathBuf;

use cleveragents_application::plan_operations::next_steps;
use cleveragents_application::{DriveOptions, LinkRequest, NewProject, Register, UseAction};
use cleveragents_domain::{Code, GateAction, Plan, PlanPhase, PlanStage, ProjectRules, Waiting};
use serde_json::json;

use super::Desk;
use super::make::{chosen, create};
use super::run::{applied, apply_now, confirm_apply, drive, outcome_rows, said};
use crate::arguments::{Do, PlanApply, PlanChoice};
use crate::commands::{can_confirm, confirm};
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report};

pub(crate) fn run(context: &Context, arguments: &Do) -> Result<Report, CommandError> {
    if arguments.task.trim().is_empty() {
        return Err(
            CommandError::usage("nothing is asked").with_hint("agents do 'fix the failing test'")
        );
    }
    if arguments
        .check
        .iter()
        .any(|command| command.trim().is_empty())
    {
        return Err(CommandError::usage("a --check is empty")
            .with_hint("give the command that must succeed, such as --check 'make test'"));
    }
    let project = project(context, arguments)?;
    let desk = Desk::new(context)?;
    let action = action(&desk, arguments)?;
    let request = UseAction {
        action,
        projects: vec![project],
        ..chosen(&arguments.choices)?
    };
    let plan = create(&desk, &request)?;
    let mut plan = drive_and_fix(&desk, &plan, DriveOptions::default(), arguments)?;
    // Gates between phases are asked here, where a person is there to answer.
    while let Some(phase) = asked(&plan) {
        let confirmed = match phase {
            PlanPhase::Strategize => confirm(desk.context, "Think it out?", arguments.yes),
            PlanPhase::Execute => {
                let question = format!("{}\nCarry it out?", strategy(&plan));
                confirm(desk.context, &question, arguments.yes)
            }
            PlanPhase::Apply => confirm_apply(&desk, &plan, arguments.yes),
        };
        if let Err(error) = confirmed {
            if error.code() == Code::ConfirmationNeeded {
                return Ok(report(&plan)
                    .warn(format!(
                        "the plan waits: go on with `{}`",
                        next_steps(&plan)[0]
                    ))
                    .exit_with(error.exit_code()));
            }
            return Err(error);
        }
        if phase == PlanPhase::Apply {
            let how = PlanApply {
                plan: PlanChoice {
                    reference: Some(plan.id.to_string()),
                },
                yes: true,
                allow_empty: false,
                merge: false,
                message: None,
            };
            return apply_now(&desk, &plan, &how);
        }
        let options = DriveOptions {
            consent: Some(phase),
            ..DriveOptions::default()
        };
        plan = drive_and_fix(&desk, &plan, options, arguments)?;
    }
    if plan.stage == PlanStage::ApplyApplied {
        return applied(&desk, &plan);
    }
    Ok(report(&plan).ok(said(&plan)))
}

/// Drives a plan, and asks whenever it waits for approval to fix failed checks.
fn drive_and_fix(
    desk: &Desk<'_>,
    plan: &Plan,
    mut options: DriveOptions,
    arguments: &Do,
) -> Result<Plan, CommandError> {
    loop {
        let error = match drive(desk, plan, &options, arguments.stream) {
            Err(error) if error.code() == Code::PlanWaiting => error,
            driven => return driven,
        };
        let waiting = desk.book.get(plan.id)?.waiting;
        let is_fix = matches!(
            &waiting,
            Some(Waiting::Gate {
                opens: GateAction::Fix,
                ..
            })
        );
        if !is_fix || !(arguments.yes || can_confirm(desk.context)) {
            return Err(error);
        }
        match confirm(desk.context, "A check failed. Fix it?", arguments.yes) {
            Ok(()) => {}
            // It stays as it is, and the error tells how to go on.
            Err(refused) if refused.code() == Code::ConfirmationNeeded => {
                return Err(if refused.exit_code() == error.exit_code() {
                    error
                } else {
                    error.interrupted()
                });
            }
            Err(other) => return Err(other),
        }
        let person = desk.context.person();
        desk.service.answer(plan.id, true, None, &person)?;
        options.consent = Some(PlanPhase::Execute);
    }
}

/// The phase before whose gate a plan stands.
fn asked(plan: &Plan) -> Option<PlanPhase> {
    match (&plan.waiting, plan.stage) {
        (Some(Waiting::Gate { .. }), PlanStage::StrategizeQueued) => Some(PlanPhase::Strategize),
        (Some(Waiting::Gate { .. }), PlanStage::StrategizeComplete) => Some(PlanPhase::Execute),
        (Some(Waiting::Gate { .. }), PlanStage::ExecuteComplete) => Some(PlanPhase::Apply),
        _ => None,
    }
}

fn strategy(plan: &Plan) -> String {
    plan.strategy
        .as_ref()
        .map(cleveragents_domain::PlanStrategy::to_markdown)
        .unwrap_or_default()
}

fn report(plan: &Plan) -> Report {
    let report = Report::new("do")
        .data(json!({
            "plan_id": plan.id, "phase": plan.stage.phase(), "state": plan.shown_state(),
            "action": plan.action, "waiting": plan.waiting, "next_steps": next_steps(plan),
        }))
        .panel(
            Panel::new("Plan")
                .row("Plan ID", Cell::Id(plan.id.to_string()))
                .row("Phase", plan.stage.phase().as_str())
                .row("State", plan.shown_state().as_str()),
        );
    outcome_rows(report, plan)
}

/// The project of a folder, made with its resource when there is none.
fn project(context: &Context, arguments: &Do) -> Result<String, CommandError> {
    let folder = match &arguments.folder {
        Some(folder) => folder.clone(),
        None => context
            .environment
            .working_folder()
            .map(PathBuf::from)
            .ok_or_else(|| CommandError::usage("there is no folder to work in"))?,
    };
    let folder = std::fs::canonicalize(&folder).map_err(|error| {
        CommandError::new(
            Code::LocationNotFound,
            format!("`{}` cannot be worked on", folder.display()),
        )
        .caused_by(&error)
        .with_hint("name a folder that exists with --folder")
    })?;
    // Before anything is stored.
    context.sandboxes()?.check_folder(&folder)?;
    let resource = context.resources()?.ensure_path(&folder)?;
    let projects = context.projects()?;
    let mut links = projects.list()?.into_iter().filter(|project| {
        project.links.len() == 1
            && project
                .links
                .iter()
                .all(|link| link.resource == resource.id)
    });
    if let Some(known) = links.next() {
        return Ok(known.name.to_string());
    }
    let name = format!("local/{}", resource.name.last_segment());
    let made = projects.create(NewProject {
        name,
        rules: ProjectRules {
            description: Some(format!("made by `agents do` for {}", folder.display())),
            ..ProjectRules::default()
        },
        links: vec![LinkRequest {
            resource: resource.id.to_string(),
            alias: None,
            read_only: false,
        }],
    })?;
    Ok(made.name.to_string())
}

/// The action that a person's words are.
fn action(desk: &Desk<'_>, arguments: &Do) -> Result<String, CommandError> {
    let task = arguments.task.trim();
    let word: String = task
        .to_lowercase()
        .chars()
        .map(|letter| {
            if letter.is_ascii_alphanumeric() {
                letter
            } else {
                '-'
            }
        })
        .collect();
    let word: Vec<&str> = word
        .split('-')
        .filter(|part| !part.is_empty())
        .take(5)
        .collect();
    let stamp = cleveragents_domain::PlanId::generate()
        .to_string()
        .to_ascii_lowercase();
    let name = format!(
        "local/do-{}-{}",
        if word.is_empty() {
            "it".to_owned()
        } else {
            word.join("-")
        },
        &stamp[stamp.len() - 6..]
    );
    let mut done = format!("- {task}\n");
    for command in &arguments.check {
        let _written = writeln!(done, "- check `{command}`");
    }
    // Braces and `$` in a person's words are no places and no variables.
    let plain = |text: &str| {
        text.replace('{', "{{")
            .replace('}', "}}")
            .replace('$', "$$")
    };
    let text = json!({
        "name": name,
        "description": plain(task),
        "definition_of_done": plain(&done),
        "reusable": false,
    })
    .to_string();
    let actions = cleveragents_application::ActionService::new(desk.context.engine()?);
    let made = actions.create(&text, "agents do", Register::New, &|_| None)?;
    Ok(made.action.name)
}
