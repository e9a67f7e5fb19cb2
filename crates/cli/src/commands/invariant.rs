//! `invariant`: constraints that plans must respect.

use cleveragents_application::invariant_operations::{
    AddInvariant, InvariantInfo, InvariantList, ListInvariants, ListedInvariant, RemoveInvariant,
};
use cleveragents_domain::InvariantScope;

use super::{counted, yes_no};
use crate::arguments::{Deletion, Invariant as Command, InvariantPlaces};
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report, Table};

/// Commands that run as operations of the application, on this machine or on a server.
pub(crate) const OPERATIONS: &[&str] = &["invariant add", "invariant list", "invariant remove"];

/// Full name of a command, with its group, as in the `command` field of the JSON output.
pub(super) const fn name(command: &Command) -> &'static str {
    match command {
        Command::Add { .. } => "invariant add",
        Command::List { .. } => "invariant list",
        Command::Remove { .. } => "invariant remove",
    }
}

pub(super) fn run(context: &Context, command: Command) -> Result<Report, CommandError> {
    match command {
        Command::Add {
            places,
            non_overridable,
            text,
        } => add(
            context,
            AddInvariant {
                text,
                global: places.global,
                project: places.project,
                action: places.action,
                plan: places.plan,
                non_overridable,
            },
        ),
        Command::List {
            places,
            effective,
            pattern,
        } => {
            let listed = context.call(list_request(context, places, effective, pattern))?;
            Ok(if effective {
                effective_report(listed)
            } else {
                list_report(listed)
            })
        }
        Command::Remove { id, deletion } => remove(context, id, deletion),
    }
}

/// Title of a scope.
const fn heading(scope: InvariantScope) -> &'static str {
    match scope {
        InvariantScope::Global => "Global",
        InvariantScope::Project => "Project",
        InvariantScope::Action => "Action",
        InvariantScope::Plan => "Plan",
    }
}

fn panel(title: &str, invariant: &InvariantInfo) -> Panel {
    let panel = Panel::new(title)
        .row("Invariant", invariant.text.clone())
        .row("Scope", invariant.scope.as_str())
        .row("ID", Cell::Id(invariant.id.to_string()));
    match &invariant.source_name {
        Some(name) => panel.row(heading(invariant.scope), name.clone()),
        None => panel.row("Non-overridable", yes_no(invariant.non_overridable)),
    }
}

fn add(context: &Context, request: AddInvariant) -> Result<Report, CommandError> {
    let added = context.call(request)?;
    let report = added
        .invariants
        .iter()
        .fold(Report::new("invariant add"), |report, invariant| {
            report.panel(panel("Invariant Added", invariant))
        });
    let sentence = match added.invariants.len() {
        1 => "Invariant added".to_owned(),
        count => format!("{} added", counted(count, "invariant")),
    };
    Ok(report.data(added).ok(sentence))
}

/// Request of `invariant list`. Asks for short ids only if the output format shows them.
fn list_request(
    context: &Context,
    places: InvariantPlaces,
    effective: bool,
    pattern: Option<String>,
) -> ListInvariants {
    ListInvariants {
        global: places.global,
        project: places.project,
        action: places.action,
        plan: places.plan,
        id: None,
        effective,
        pattern,
        short_ids: context.printer.format().is_human(),
    }
}

fn id_cell(invariant: &ListedInvariant) -> Cell {
    match (&invariant.short_id, invariant.id) {
        (Some(short), _) => Cell::Id(short.clone()),
        (None, Some(id)) => Cell::Id(id.to_string()),
        (None, None) => Cell::Muted("-".to_owned()),
    }
}

fn source_cell(invariant: &ListedInvariant) -> Cell {
    let scope = invariant.source;
    match &invariant.source_name {
        Some(name) => format!("{scope} {name}").into(),
        None if invariant.non_overridable => "global, non-overridable".into(),
        None => scope.as_str().into(),
    }
}

fn list_report(listed: InvariantList) -> Report {
    let table = Table::with_columns("Invariants", ["ID", "Source", "Text", "Added"])
        .empty("No invariants. Add one with `agents invariant add`")
        .rows(listed.invariants.iter().map(|invariant| {
            vec![
                id_cell(invariant),
                source_cell(invariant),
                invariant.text.as_str().into(),
                invariant
                    .stored
                    .as_ref()
                    .map(|stored| stored.created)
                    .into(),
            ]
        }));
    let count = listed.invariants.len();
    Report::new("invariant list")
        .data(listed)
        .table(table)
        .ok(format!("{} listed", counted(count, "invariant")))
}

fn effective_report(listed: InvariantList) -> Report {
    let table = Table::with_columns("Effective Invariants", ["ID", "Source", "Text"])
        .empty("No invariant is in effect")
        .rows(listed.invariants.iter().map(|invariant| {
            vec![
                id_cell(invariant),
                source_cell(invariant),
                invariant.text.as_str().into(),
            ]
        }));
    let mut report = Report::new("invariant list").table(table);
    if let Some(reconciliation) = &listed.reconciliation {
        let conflicts = &reconciliation.conflicts_resolved;
        if !conflicts.is_empty() {
            let table = Table::with_columns(
                "Conflicts Resolved",
                ["Overridden", "Source", "By", "Source"],
            );
            report = report.table(table.rows(conflicts.iter().map(|conflict| {
                vec![
                    conflict.overridden.text.as_str().into(),
                    source_cell(&conflict.overridden),
                    conflict.by.text.as_str().into(),
                    source_cell(&conflict.by),
                ]
            })));
        }
        for (left, right) in &reconciliation.unresolved {
            report = report.warn(format!(
                "\"{}\" and \"{}\" contradict each other and have the same precedence ({}): remove one of them",
                left.text, right.text, left.source
            ));
        }
    }
    let tiers: Vec<String> = listed
        .summary
        .by_source
        .iter()
        .flat_map(|counts| {
            [
                (counts.plan, InvariantScope::Plan),
                (counts.action, InvariantScope::Action),
                (counts.project, InvariantScope::Project),
                (counts.global, InvariantScope::Global),
            ]
        })
        .filter(|(count, _)| *count > 0)
        .map(|(count, scope)| format!("{count} {scope}"))
        .collect();
    let sentence = if tiers.is_empty() {
        "No invariant is in effect".to_owned()
    } else {
        let count = counted(listed.invariants.len(), "effective invariant");
        format!("{count}: {}", tiers.join(", "))
    };
    report.data(listed).ok(sentence)
}

fn remove(context: &Context, id: String, deletion: Deletion) -> Result<Report, CommandError> {
    let listed = context.call(ListInvariants {
        id: Some(id.clone()),
        ..ListInvariants::default()
    })?;
    let invariant = listed.invariants.into_iter().next();
    let text = invariant
        .as_ref()
        .map_or("", |invariant| invariant.text.as_str());
    deletion.confirm(&format!("Remove invariant \"{text}\"?"))?;
    let full_id = invariant.and_then(|invariant| invariant.id);
    let removed = context.call(RemoveInvariant {
        id: full_id.map_or(id, |full_id| full_id.to_string()),
        yes: true,
        dry_run: deletion.dry_run(),
    })?;
    let title = if deletion.dry_run() {
        "Invariant"
    } else {
        "Invariant Removed"
    };
    let report = Report::new("invariant remove")
        .panel(panel(title, &removed.removed))
        .data(removed);
    Ok(deletion.conclude(report, "Invariant removed"))
}
