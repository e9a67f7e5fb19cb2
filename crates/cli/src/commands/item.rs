//! `item`: the work of a project.

use cleveragents_application::work_item_operations::{
    AddWorkItem, CloseWorkItem, EditWorkItem, LinkWorkItem, ListWorkItems, ShowWorkItem,
    ShownWorkItem,
};
use cleveragents_domain::{AttemptOutcome, MicroUsd, WorkItem, WorkItemState};

use super::{counted, item_source};
use crate::arguments::{Item as Command, ItemAdd, ItemEdit, ItemList};
use crate::context::Context;
use crate::output::{Align, Cell, CommandError, Panel, Report, Table};

/// Commands that run as operations of the application, on this machine or on a server.
pub(crate) const OPERATIONS: &[&str] = &[
    "item add",
    "item close",
    "item edit",
    "item link",
    "item list",
    "item show",
];

/// Full name of a command, with its group, as in the `command` field of the JSON output.
pub(super) const fn name(command: &Command) -> &'static str {
    match command {
        Command::Add(_) => "item add",
        Command::List(_) => "item list",
        Command::Show { .. } => "item show",
        Command::Edit(_) => "item edit",
        Command::Link { .. } => "item link",
        Command::Close { .. } => "item close",
        Command::Sync { .. } => "item sync",
        Command::Source(command) => item_source::name(command),
    }
}

pub(super) fn run(context: &Context, command: Command) -> Result<Report, CommandError> {
    match command {
        Command::Sync { source } => item_source::sync(context, source),
        Command::Source(command) => item_source::run(context, command),
        Command::Add(arguments) => add(context, arguments),
        Command::List(arguments) => list(context, arguments),
        Command::Show { item } => {
            let shown = context.call(ShowWorkItem { item })?;
            Ok(details("item show", shown).ok("Item shown"))
        }
        Command::Edit(arguments) => edit(context, arguments),
        Command::Link {
            item,
            depends_on,
            parent,
            remove,
        } => {
            let shown = context.call(LinkWorkItem {
                item,
                depends_on,
                parent,
                remove,
            })?;
            let done = if remove { "removed" } else { "added" };
            Ok(details("item link", shown).ok(format!("Link {done}")))
        }
        Command::Close {
            item,
            as_state,
            duplicate_of,
            reason,
        } => {
            let shown = context.call(CloseWorkItem {
                item,
                as_state,
                duplicate_of,
                reason,
            })?;
            let state = shown.item.state;
            Ok(details("item close", shown).ok(format!("Item closed as {state}")))
        }
    }
}

fn add(context: &Context, arguments: ItemAdd) -> Result<Report, CommandError> {
    let shown = context.call(AddWorkItem {
        project: arguments.project,
        title: arguments.title,
        body: arguments.body,
        kind: arguments.kind,
        priority: arguments.priority,
        milestone: arguments.milestone,
        points: arguments.points,
        moscow: arguments.moscow,
        severity: arguments.severity,
        labels: arguments.labels,
        parent: arguments.parent,
        depends_on: arguments.depends_on,
        verified: arguments.verified,
    })?;
    Ok(details("item add", shown).ok("Item added"))
}

fn edit(context: &Context, arguments: ItemEdit) -> Result<Report, CommandError> {
    let shown = context.call(EditWorkItem {
        item: arguments.item,
        title: arguments.title,
        body: arguments.body,
        kind: arguments.kind,
        priority: arguments.priority,
        milestone: arguments.milestone,
        points: arguments.points,
        moscow: arguments.moscow,
        severity: arguments.severity,
        add_labels: arguments.add_labels,
        remove_labels: arguments.remove_labels,
        state: arguments.state,
        reason: arguments.reason,
        version: arguments.version,
    })?;
    Ok(details("item edit", shown).ok("Item changed"))
}

pub(super) fn state_cell(state: WorkItemState) -> Cell {
    let text = state.as_str().to_owned();
    match state {
        WorkItemState::Completed | WorkItemState::Approved => Cell::Good(text),
        WorkItemState::NeedsPerson | WorkItemState::Paused => Cell::Warn(text),
        WorkItemState::Duplicate | WorkItemState::WontDo => Cell::Muted(text),
        _ => Cell::Text(text),
    }
}

fn panel(item: &WorkItem) -> Panel {
    let mut panel = Panel::new("Item")
        .row("ID", Cell::Id(item.id.to_string()))
        .row("Title", item.title.clone())
        .row("Project", item.project.clone())
        .row("Kind", item.kind.as_str())
        .row("State", state_cell(item.state))
        .row("Since", item.state_since)
        .row("Priority", item.priority.as_str());
    let labels: Vec<&str> = item.labels.iter().map(String::as_str).collect();
    for (field, value) in [
        ("Reason", item.reason.clone()),
        ("Milestone", item.milestone.clone()),
        ("Points", item.points.map(|points| points.to_string())),
        (
            "MoSCoW",
            item.moscow.map(|moscow| moscow.as_str().to_owned()),
        ),
        (
            "Severity",
            item.severity.map(|severity| severity.as_str().to_owned()),
        ),
        ("Labels", (!labels.is_empty()).then(|| labels.join(", "))),
        (
            "Location",
            item.location
                .as_ref()
                .map(|place| format!("{}:{}", place.path, place.line_start)),
        ),
        ("Duplicate of", item.duplicate_of.map(|of| of.to_string())),
        ("Part of", item.parent.map(|parent| parent.to_string())),
        (
            "Plan",
            item.change
                .as_ref()
                .and_then(|change| change.plan.map(|plan| plan.to_string())),
        ),
        (
            "Tracker",
            item.external.as_ref().map(|external| {
                external
                    .url
                    .clone()
                    .unwrap_or_else(|| format!("{} {}", external.source, external.id))
            }),
        ),
    ] {
        if let Some(value) = value {
            panel = panel.row(field, value);
        }
    }
    panel.row("Version", item.version)
}

fn details(command: &'static str, shown: ShownWorkItem) -> Report {
    let mut report = Report::new(command).panel(panel(&shown.item));
    if !shown.item.body.is_empty() {
        report = report.table(
            Table::with_columns("Description", ["Text"])
                .rows(shown.item.body.lines().map(|line| vec![line.into()])),
        );
    }
    let links = shown.depends_on.iter().map(|link| ("waits for", link));
    let links = links.chain(shown.needed_by.iter().map(|link| ("needed by", link)));
    let links: Vec<Vec<Cell>> = links
        .map(|(relation, link)| {
            vec![
                relation.into(),
                Cell::Id(link.id.to_string()),
                state_cell(link.state),
            ]
        })
        .collect();
    if !links.is_empty() {
        report = report.table(Table::with_columns("Links", ["Link", "Item", "State"]).rows(links));
    }
    if !shown.attempts.is_empty() {
        report = report.table(attempts(&shown));
    }
    report = report.table(
        Table::with_columns("History", ["Time", "State", "By", "Reason"]).rows(
            shown.transitions.iter().map(|step| {
                vec![
                    Cell::Time(step.at),
                    state_cell(step.to),
                    step.by.as_str().into(),
                    step.reason.clone().into(),
                ]
            }),
        ),
    );
    report.data(shown)
}

fn attempts(shown: &ShownWorkItem) -> Table {
    Table::new("Attempts")
        .column("Role", Align::Left)
        .column("Number", Align::Right)
        .column("Tier", Align::Left)
        .column("Outcome", Align::Left)
        .column("Gates", Align::Left)
        .column("Cost", Align::Right)
        .column("Reason", Align::Left)
        .keep(["Role", "Outcome"])
        .rows(shown.attempts.iter().map(|attempt| {
            let outcome = match attempt.outcome {
                None => Cell::Text("running".to_owned()),
                Some(AttemptOutcome::Succeeded) => Cell::Good("succeeded".to_owned()),
                Some(other) => Cell::Bad(other.as_str().to_owned()),
            };
            let gates: Vec<String> = attempt
                .gates
                .iter()
                .map(|gate| match gate.exit_code {
                    Some(code) => format!("{}={code}", gate.name),
                    None => format!("{}=?", gate.name),
                })
                .collect();
            vec![
                attempt.role.as_str().into(),
                attempt.number.into(),
                attempt.tier.as_str().into(),
                outcome,
                gates.join(" ").into(),
                Cell::Money(MicroUsd(attempt.cost.0)),
                attempt.reason.clone().into(),
            ]
        }))
}

fn list(context: &Context, arguments: ItemList) -> Result<Report, CommandError> {
    let listed = context.call(ListWorkItems {
        project: arguments.project,
        states: arguments.states,
        kinds: arguments.kinds,
        priorities: arguments.priorities,
        label: arguments.label,
        milestone: arguments.milestone,
        search: arguments.search,
        all: arguments.all,
        limit: arguments.limit,
        before: arguments.before,
    })?;
    let table = Table::new("Items")
        .column("ID", Align::Left)
        .column("State", Align::Left)
        .column("Priority", Align::Left)
        .column("Kind", Align::Left)
        .column("Milestone", Align::Left)
        .column("Points", Align::Right)
        .column("Title", Align::Left)
        .keep(["ID", "State", "Title"])
        .drop_first(["Points", "Milestone", "Kind", "Priority"])
        .empty("No item. Add one with `agents item add --project NAME --kind bug TITLE`")
        .rows(listed.items.iter().map(|item| {
            vec![
                Cell::Id(item.id.to_string()),
                state_cell(item.state),
                item.priority.as_str().into(),
                item.kind.as_str().into(),
                item.milestone.clone().into(),
                item.points.map(|points| points.to_string()).into(),
                item.title.as_str().into(),
            ]
        }));
    let sentence = format!(
        "{} of {} listed",
        listed.summary.shown,
        counted(listed.summary.matching, "item")
    );
    Ok(Report::new("item list")
        .table(table)
        .data(listed)
        .ok(sentence))
}
