//! `action`: the templates of plans.

use std::path::Path;

use cleveragents_application::{ActionFilter, ActionService, Outcome, Register, RegisteredAction};
use cleveragents_domain::{ActionArgument, ActionState, Code};
use serde_json::{Map, Value, json};

use super::{confirm, counted, read_definition, yes_no};
use crate::arguments::Action as Command;
use crate::context::Context;
use crate::output::{Align, Cell, CommandError, Panel, Report, Table};

/// The short name of a command.
pub(super) const fn name(command: &Command) -> &'static str {
    match command {
        Command::Create { .. } => "action create",
        Command::List { .. } => "action list",
        Command::Show { .. } => "action show",
        Command::Archive { .. } => "action archive",
    }
}

pub(super) fn run(context: &Context, command: &Command) -> Result<Report, CommandError> {
    let actions = ActionService::new(context.engine()?);
    match command {
        Command::Create { config, update } => create(context, &actions, config, *update),
        Command::List {
            pattern,
            state,
            namespace,
        } => {
            let filter = ActionFilter {
                state: state.map(ActionState::from),
                namespace: namespace.clone(),
                pattern: pattern.clone(),
            };
            list(context, &actions, &filter)
        }
        Command::Show { name } => {
            let found = actions.get(name, &context.variables())?;
            if let Err(error) = &found.action {
                return Err(error.as_ref().clone().into());
            }
            Ok(shown("action show", &found).ok("Action shown"))
        }
        Command::Archive { name, yes } => archive(context, &actions, name, *yes),
    }
}

fn create(
    context: &Context,
    actions: &ActionService,
    config: &Path,
    update: bool,
) -> Result<Report, CommandError> {
    let text = read_definition(config, "the file of an action", Code::MalformedAction)?;
    let source = if config == Path::new("-") {
        "standard input".to_owned()
    } else {
        context.source_of(config).display().to_string()
    };
    let register = if update {
        Register::Update
    } else {
        Register::New
    };
    let variables = context.variables();
    let added = actions.create(&text, &source, register, &variables)?;
    let found = actions.get(&added.stored.name, &variables)?;
    Ok(shown("action create", &found).ok(match added.outcome {
        Outcome::Updated => "Action updated",
        Outcome::Created | Outcome::Unchanged => "Action created",
    }))
}

fn argument_json(argument: &ActionArgument) -> Value {
    json!({
        "name": argument.name,
        "type": argument.kind.as_str(),
        "required": argument.required,
        "description": argument.description,
        "default": argument.default,
        "choices": argument.choices,
        "minimum": argument.minimum,
        "maximum": argument.maximum,
        "pattern": argument.pattern,
    })
}

/// What every list and view says about an action.
fn summary(found: &RegisteredAction) -> Map<String, Value> {
    let mut fields = Map::new();
    let mut set = |name: &str, value: Value| fields.insert(name.to_owned(), value);
    set("name", json!(found.stored.name));
    set("state", json!(found.state()));
    match &found.action {
        Ok(action) => {
            set("strategy_actor", json!(action.actors.strategy));
            set("execution_actor", json!(action.actors.execution));
            set("reusable", json!(action.reusable));
            set("read_only", json!(action.read_only));
            set("description", json!(action.description));
        }
        Err(error) => {
            set("problem", json!(error.to_string()));
        }
    }
    set("plans", json!(found.plans));
    fields
}

/// An action with everything it says.
fn whole(found: &RegisteredAction) -> Value {
    let mut fields = summary(found);
    let mut set = |name: &str, value: Value| fields.insert(name.to_owned(), value);
    if let Ok(action) = &found.action {
        set("long_description", json!(action.long_description));
        set("definition_of_done", json!(action.definition_of_done));
        for (field, actor) in action.actors.by_field() {
            set(field, json!(actor));
        }
        set("automation_profile", json!(action.automation_profile));
        set("safety_profile", json!(action.safety_profile));
        set("invariants", json!(action.invariants));
        set(
            "arguments",
            action.arguments.iter().map(argument_json).collect(),
        );
    }
    set("config", json!(found.stored.source));
    set("version", json!(found.stored.version));
    set("created", json!(found.stored.created_at));
    set("updated", json!(found.stored.updated_at));
    set("archived", json!(found.stored.archived_at));
    Value::Object(fields)
}

fn state_cell(state: ActionState) -> Cell {
    match state {
        ActionState::Available => Cell::Good(state.as_str().to_owned()),
        ActionState::Archived => Cell::Muted(state.as_str().to_owned()),
    }
}

fn shown(command: &'static str, found: &RegisteredAction) -> Report {
    let report = Report::new(command).data(json!({"action": whole(found)}));
    let Ok(action) = &found.action else {
        return report;
    };
    let mut panel = Panel::new("Action")
        .row("Name", action.name.clone())
        .row("State", state_cell(found.state()))
        .row("Description", action.description.clone())
        .row("Reusable", yes_no(action.reusable))
        .row("Read-only", yes_no(action.read_only));
    for (field, actor) in action.actors.by_field() {
        if let Some(actor) = actor {
            panel = panel.row(label(field), actor.to_owned());
        }
    }
    for (field, profile) in [
        ("Automation profile", &action.automation_profile),
        ("Safety profile", &action.safety_profile),
    ] {
        if let Some(profile) = profile {
            panel = panel.row(field, profile.clone());
        }
    }
    panel = panel
        .row("Plans", found.plans)
        .row("Config", found.stored.source.clone())
        .row("Version", found.stored.version)
        .row("Updated", found.stored.updated_at);
    let lines = |title: &str, texts: &mut dyn Iterator<Item = &str>| {
        Table::with_columns(title, ["Text"]).rows(texts.map(|text| vec![text.into()]))
    };
    let mut report = report.panel(panel);
    if let Some(text) = &action.long_description {
        report = report.table(lines("About", &mut text.lines()));
    }
    report = report.table(lines(
        "Definition of Done",
        &mut action.definition_of_done.lines(),
    ));
    if !action.arguments.is_empty() {
        report = report.table(arguments(&action.arguments));
    }
    if !action.invariants.is_empty() {
        let mut texts = action.invariants.iter().map(String::as_str);
        report = report.table(lines("Invariants", &mut texts));
    }
    report
}

/// The name of a field as people read it: `strategy_actor` is "Strategy actor".
fn label(field: &str) -> String {
    let words = field.replace('_', " ");
    let mut letters = words.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => words,
    }
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
            limits.push(format!("like {pattern}"));
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

fn list(
    context: &Context,
    actions: &ActionService,
    filter: &ActionFilter,
) -> Result<Report, CommandError> {
    let mut all = actions.list(filter, &context.variables())?;
    all.retain(|action| context.sees(&action.stored.name));
    let table = Table::new("Actions")
        .column("Name", Align::Left)
        .column("State", Align::Left)
        .column("Strategy actor", Align::Left)
        .column("Execution actor", Align::Left)
        .column("Reusable", Align::Left)
        .column("Plans", Align::Right)
        .column("Description", Align::Left)
        .empty("No action. Register one with `agents action create --config FILE`")
        .rows(all.iter().map(|found| {
            let mut row = vec![found.stored.name.as_str().into(), state_cell(found.state())];
            match &found.action {
                Ok(action) => row.extend([
                    action.actors.strategy.clone().into(),
                    action.actors.execution.clone().into(),
                    yes_no(action.reusable).into(),
                    found.plans.into(),
                    action.description.as_str().into(),
                ]),
                Err(error) => row.extend([
                    Cell::Bad("broken".to_owned()),
                    Cell::Muted(String::new()),
                    Cell::Muted(String::new()),
                    found.plans.into(),
                    Cell::Bad(error.to_string()),
                ]),
            }
            row
        }));
    let archived = all
        .iter()
        .filter(|found| found.state() == ActionState::Archived)
        .count();
    let broken: Vec<&RegisteredAction> = all.iter().filter(|found| found.action.is_err()).collect();
    let plans: u64 = all.iter().map(|found| found.plans).sum();
    let entries: Vec<Value> = all.iter().map(|found| summary(found).into()).collect();
    let mut report = Report::new("action list")
        .data(json!({
            "actions": entries,
            "filters": {
                "state": filter.state,
                "namespace": filter.namespace,
                "pattern": filter.pattern,
            },
            "summary": {
                "total": all.len(),
                "available": all.len() - archived,
                "archived": archived,
                "broken": broken.len(),
                "total_plans_created": plans,
            },
        }))
        .table(table);
    for found in broken {
        report = report.warn(format!(
            "the action {} cannot be read any more",
            found.stored.name
        ));
    }
    Ok(report.ok(format!("{} listed", counted(all.len(), "action"))))
}

fn archive(
    context: &Context,
    actions: &ActionService,
    name: &str,
    yes: bool,
) -> Result<Report, CommandError> {
    let variables = context.variables();
    let found = actions.get(name, &variables)?;
    confirm(
        context,
        &format!("Archive action {}?", found.stored.name),
        yes,
    )?;
    let stored = actions.archive(&found.stored.name)?;
    let found = actions.get(&stored.name, &variables)?;
    Ok(Report::new("action archive")
        .data(json!({"action": whole(&found)}))
        .panel(
            Panel::new("Action Archived")
                .row("Name", found.stored.name.clone())
                .row("State", state_cell(found.state()))
                .row("Plans", found.plans)
                .row("Archived", found.stored.archived_at),
        )
        .ok("Action archived"))
}
