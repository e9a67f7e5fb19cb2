//! `action`: templates of plans.

use std::path::Path;

use cleveragents_application::action_operations::{
    ActionInfo, ArchiveAction, CreateAction, ListActions, ShowAction,
};
use cleveragents_domain::{ActionArgument, ActionState, Code, DefinitionKind};
use serde_json::Value;

use super::definition::{DefinitionInput, listed as listed_sentence, read_input, registered};
use super::{confirm, yes_no};
use crate::arguments::Action as Command;
use crate::context::Context;
use crate::output::{Align, Cell, CommandError, Panel, Report, Table};

const KIND: DefinitionKind = DefinitionKind::Action;

/// Commands that run as operations of the application, on this machine or on a server.
pub(crate) const OPERATIONS: &[&str] = &[
    "action archive",
    "action create",
    "action list",
    "action show",
];

/// Full name of a command, with its group, as in the `command` field of the JSON output.
pub(super) const fn name(command: &Command) -> &'static str {
    match command {
        Command::Create { .. } => "action create",
        Command::List { .. } => "action list",
        Command::Show { .. } => "action show",
        Command::Archive { .. } => "action archive",
    }
}

pub(super) fn run(context: &Context, command: Command) -> Result<Report, CommandError> {
    match command {
        Command::Create { config, update } => create(context, &config, update),
        Command::List {
            pattern,
            state,
            namespace,
        } => list(
            context,
            ListActions {
                pattern,
                state: state.map(ActionState::from),
                namespace,
            },
        ),
        Command::Show { name } => {
            let shown = context.call(ShowAction { name })?;
            let report = details(Report::new("action show"), &shown.action);
            Ok(report.data(shown).ok("Action shown"))
        }
        Command::Archive { name, yes } => archive(context, &name, yes),
    }
}

fn create(context: &Context, config: &Path, update: bool) -> Result<Report, CommandError> {
    let DefinitionInput { text, source } = read_input(context, config, KIND)?;
    let source = if config == Path::new("-") {
        Some("standard input".to_owned())
    } else {
        source
    };
    let created = context.call(CreateAction {
        text,
        source,
        update,
    })?;
    let sentence = registered(KIND, created.outcome, "created");
    let report = details(Report::new("action create"), &created.action);
    Ok(report.data(created).ok(sentence))
}

fn state_cell(state: ActionState) -> Cell {
    match state {
        ActionState::Available => Cell::Good(state.as_str().to_owned()),
        ActionState::Archived => Cell::Muted(state.as_str().to_owned()),
    }
}

fn details(report: Report, action: &ActionInfo) -> Report {
    let summary = &action.summary;
    let (Some(listed), Some(details)) = (&summary.definition, &action.details) else {
        return report;
    };
    let mut panel = Panel::new("Action")
        .row("Name", summary.name.clone())
        .row("State", state_cell(summary.state))
        .row("Description", listed.description.clone())
        .row("Reusable", yes_no(listed.reusable))
        .row("Read-only", yes_no(listed.read_only));
    for (field, value) in [
        ("Strategy actor", &listed.strategy_actor),
        ("Execution actor", &listed.execution_actor),
        ("Estimation actor", &details.estimation_actor),
        ("Review actor", &details.review_actor),
        ("Apply actor", &details.apply_actor),
        ("Invariant actor", &details.invariant_actor),
        ("Automation profile", &details.automation_profile),
        ("Safety profile", &details.safety_profile),
    ] {
        if let Some(value) = value {
            panel = panel.row(field, value.clone());
        }
    }
    panel = panel
        .row("Plans", summary.plans)
        .row("Config", action.config.clone())
        .row("Version", action.version)
        .row("Updated", action.updated);
    let lines = |title: &str, texts: &mut dyn Iterator<Item = &str>| {
        Table::with_columns(title, ["Text"]).rows(texts.map(|text| vec![text.into()]))
    };
    let mut report = report.panel(panel);
    if let Some(text) = &details.long_description {
        report = report.table(lines("About", &mut text.lines()));
    }
    report = report.table(lines(
        "Definition of Done",
        &mut details.definition_of_done.lines(),
    ));
    if !details.arguments.is_empty() {
        report = report.table(arguments(&details.arguments));
    }
    if !details.invariants.is_empty() {
        let mut texts = details.invariants.iter().map(String::as_str);
        report = report.table(lines("Invariants", &mut texts));
    }
    report
}

fn arguments(all: &[ActionArgument]) -> Table {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    Table::with_columns(
        "Arguments",
        [
            "Name",
            "Type",
            "Required",
            "Default",
            "Limits",
            "Description",
        ],
    )
    .rows(all.iter().map(|argument| {
        let mut limits = Vec::new();
        if !argument.choices.is_empty() {
            let choices: Vec<String> = argument.choices.iter().map(text).collect();
            limits.push(choices.join(" | "));
        }
        if let Some(minimum) = &argument.minimum {
            limits.push(format!("at least {minimum}"));
        }
        if let Some(maximum) = &argument.maximum {
            limits.push(format!("at most {maximum}"));
        }
        if let Some(pattern) = &argument.pattern {
            limits.push(format!("matches {pattern}"));
        }
        vec![
            argument.name.as_str().into(),
            argument.kind.as_str().into(),
            yes_no(argument.required).into(),
            argument.default.as_ref().map(text).into(),
            limits.join(", ").into(),
            argument.description.clone().into(),
        ]
    }))
}

fn list(context: &Context, request: ListActions) -> Result<Report, CommandError> {
    let listed = context.call(request)?;
    let table = Table::new("Actions")
        .column("Name", Align::Left)
        .column("State", Align::Left)
        .column("Strategy actor", Align::Left)
        .column("Execution actor", Align::Left)
        .column("Reusable", Align::Left)
        .column("Plans", Align::Right)
        .column("Description", Align::Left)
        .keep(["Name", "State"])
        .drop_first(["Reusable", "Plans", "Execution actor", "Strategy actor"])
        .empty("No action. Register one with `agents action create --config FILE`")
        .rows(listed.actions.iter().map(|action| {
            let mut row = vec![action.name.as_str().into(), state_cell(action.state)];
            match &action.definition {
                Some(definition) => row.extend([
                    definition.strategy_actor.clone().into(),
                    definition.execution_actor.clone().into(),
                    yes_no(definition.reusable).into(),
                    action.plans.into(),
                    definition.description.as_str().into(),
                ]),
                None => row.extend([
                    Cell::Bad("broken".to_owned()),
                    Cell::Muted(String::new()),
                    Cell::Muted(String::new()),
                    action.plans.into(),
                    Cell::Bad(action.problem.clone().unwrap_or_default()),
                ]),
            }
            row
        }));
    let mut report = Report::new("action list").table(table);
    let broken = listed.actions.iter();
    for action in broken.filter(|action| action.problem.is_some()) {
        report = report.warn(format!(
            "the stored definition of action {} cannot be read",
            action.name
        ));
    }
    let count = listed.actions.len();
    Ok(report.data(listed).ok(listed_sentence(KIND, count)))
}

/// Archives an action. Unless `yes`, first calls the operation without confirmation, which only checks that the action
/// exists; then asks the user and calls it again.
fn archive(context: &Context, name: &str, yes: bool) -> Result<Report, CommandError> {
    let request = |yes: bool| ArchiveAction {
        name: name.to_owned(),
        yes,
    };
    let archived = match context.call(request(yes)) {
        Err(error) if error.code() == Code::ConfirmationNeeded && !yes => {
            confirm(&format!("Archive action {name}?"), false)?;
            context.call(request(true))
        }
        result => result,
    }?;
    let action = &archived.action;
    Ok(Report::new("action archive")
        .panel(
            Panel::new("Action Archived")
                .row("Name", action.summary.name.clone())
                .row("State", state_cell(action.summary.state))
                .row("Plans", action.summary.plans)
                .row("Archived", action.archived),
        )
        .data(archived)
        .ok("Action archived"))
}
