//! `invariant`: what plans must keep true.

use cleveragents_application::{InvariantQuery, InvariantService, InvariantTarget, NewInvariant};
use cleveragents_domain::{
    Invariant, InvariantId, InvariantScope, PlanId, Reconciled, SourcedInvariant, shortest_prefix,
};
use serde_json::{Value, json};

use super::{confirm, counted, yes_no};
use crate::arguments::{Invariant as Command, InvariantPlaces};
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report, Table};

/// The short name of a command.
pub(super) const fn name(command: &Command) -> &'static str {
    match command {
        Command::Add { .. } => "invariant add",
        Command::List { .. } => "invariant list",
        Command::Remove { .. } => "invariant remove",
    }
}

pub(super) fn run(context: &Context, command: Command) -> Result<Report, CommandError> {
    let service = InvariantService::new(context.engine()?);
    match command {
        Command::Add {
            places,
            non_overridable,
            text,
        } => add(
            &service,
            NewInvariant {
                text,
                targets: places.targets(),
                non_overridable,
            },
        ),
        Command::List {
            places,
            effective: true,
            pattern,
        } => effective(context, &service, &places, pattern.as_deref()),
        Command::List {
            places, pattern, ..
        } => list(context, &service, &places, pattern),
        Command::Remove { id, yes } => remove(context, &service, &id, yes),
    }
}

fn invariant_json(invariant: &Invariant) -> Value {
    json!({
        "id": invariant.id,
        "text": invariant.text,
        "scope": invariant.scope,
        "source": invariant.scope,
        "source_name": invariant.source_name,
        "non_overridable": invariant.non_overridable,
        "active": invariant.removed_at.is_none(),
        "created": invariant.created_at,
        "removed": invariant.removed_at,
    })
}

fn sourced_json(invariant: &SourcedInvariant) -> Value {
    json!({
        "id": invariant.id,
        "source": invariant.source,
        "source_name": invariant.source_name,
        "non_overridable": invariant.non_overridable,
        "text": invariant.text,
    })
}

/// A scope as the heading of a line.
const fn heading(scope: InvariantScope) -> &'static str {
    match scope {
        InvariantScope::Global => "Global",
        InvariantScope::Project => "Project",
        InvariantScope::Action => "Action",
        InvariantScope::Plan => "Plan",
    }
}

fn panel(title: &str, invariant: &Invariant) -> Panel {
    let panel = Panel::new(title)
        .row("Invariant", invariant.text.clone())
        .row("Scope", invariant.scope.as_str())
        .row("ID", Cell::Id(invariant.id.to_string()));
    match &invariant.source_name {
        Some(name) => panel.row(heading(invariant.scope), name.clone()),
        None => panel.row("Non-overridable", yes_no(invariant.non_overridable)),
    }
}

fn add(service: &InvariantService, new: NewInvariant) -> Result<Report, CommandError> {
    let added = service.add(new)?;
    let entries: Vec<Value> = added.iter().map(invariant_json).collect();
    let report = Report::new("invariant add").data(json!({
        "invariant": entries.first(),
        "invariants": entries,
    }));
    let report = added.iter().fold(report, |report, invariant| {
        report.panel(panel("Invariant Added", invariant))
    });
    Ok(report.ok(match added.len() {
        1 => "Invariant added".to_owned(),
        more => format!("{} added", counted(more, "invariant")),
    }))
}

/// Where invariants are asked for, for programs.
fn scope_json(places: &InvariantPlaces) -> Vec<&'static str> {
    [
        (InvariantScope::Global, places.global),
        (InvariantScope::Project, !places.project.is_empty()),
        (InvariantScope::Action, !places.action.is_empty()),
        (InvariantScope::Plan, !places.plan.is_empty()),
    ]
    .into_iter()
    .filter(|(_, is_asked)| *is_asked)
    .map(|(scope, _)| scope.as_str())
    .collect()
}

/// The beginning of an id that tells it from those of all invariants that hold.
fn short(id: InvariantId, all: &[Invariant]) -> Cell {
    let whole = id.to_string();
    let place = all.partition_point(|other| other.id < id);
    let at = |place: Option<usize>| {
        place
            .and_then(|place| all.get(place))
            .map(|other| other.id.to_string())
    };
    let (before, after) = (at(place.checked_sub(1)), at(Some(place + 1)));
    Cell::Id(shortest_prefix(&whole, before.as_deref(), after.as_deref()).to_owned())
}

fn source_cell(scope: InvariantScope, name: Option<&str>, is_fixed: bool) -> Cell {
    match name {
        Some(name) => format!("{scope} {name}").into(),
        None if is_fixed => "global, non-overridable".into(),
        None => scope.as_str().into(),
    }
}

fn list(
    context: &Context,
    service: &InvariantService,
    places: &InvariantPlaces,
    pattern: Option<String>,
) -> Result<Report, CommandError> {
    let all = service.list(&InvariantQuery::default())?;
    let query = InvariantQuery {
        targets: places.targets(),
        pattern,
    };
    let mut found = service.list(&query)?;
    found.retain(|invariant| match invariant.scope {
        InvariantScope::Global => true,
        InvariantScope::Project | InvariantScope::Action => {
            context.sees(invariant.source_name.as_deref().unwrap_or_default())
        }
        // Whoever may see the plan named it.
        InvariantScope::Plan => context.served.is_none() || !places.plan.is_empty(),
    });
    let table = Table::with_columns("Invariants", ["ID", "Source", "Text", "Added"])
        .empty("No invariant was added. Add one with `agents invariant add`")
        .rows(found.iter().map(|invariant| {
            let name = invariant.source_name.as_deref();
            vec![
                short(invariant.id, &all),
                source_cell(invariant.scope, name, invariant.non_overridable),
                invariant.text.as_str().into(),
                invariant.created_at.into(),
            ]
        }));
    let entries: Vec<Value> = found.iter().map(invariant_json).collect();
    Ok(Report::new("invariant list")
        .data(json!({
            "scope": scope_json(places),
            "effective": false,
            "pattern": query.pattern,
            "invariants": entries,
            "summary": {"total": found.len()},
        }))
        .table(table)
        .ok(format!("{} listed", counted(found.len(), "invariant"))))
}

fn effective(
    context: &Context,
    service: &InvariantService,
    places: &InvariantPlaces,
    pattern: Option<&str>,
) -> Result<Report, CommandError> {
    if places.plan.len() > 1 || places.action.len() > 1 {
        return Err(
            CommandError::usage("what holds is asked for more than one plan or action")
                .with_hint("name one plan or one action, and any number of projects"),
        );
    }
    let targets: Vec<InvariantTarget> = places.targets();
    let query = service.query(&targets, &context.variables())?;
    let all = service.list(&InvariantQuery::default())?;
    let found = InvariantService::narrow(service.effective(&query)?, pattern)?;
    let short = |id: Option<InvariantId>| {
        id.map_or_else(|| Cell::Muted("-".to_owned()), |id| short(id, &all))
    };
    let cell = |invariant: &SourcedInvariant| {
        let name = invariant.source_name.as_deref();
        source_cell(invariant.source, name, invariant.non_overridable)
    };
    let table = Table::with_columns("Effective Invariants", ["ID", "Source", "Text"])
        .empty("No invariant holds")
        .rows(found.effective.iter().map(|invariant| {
            vec![
                short(invariant.id),
                cell(invariant),
                invariant.text.as_str().into(),
            ]
        }));
    let mut report = Report::new("invariant list")
        .data(effective_json(&found, places, query.plan))
        .table(table);
    if !found.conflicts.is_empty() {
        let conflicts = Table::with_columns(
            "Conflicts Resolved",
            ["Does not hold", "Source", "Because of", "Source"],
        );
        report = report.table(conflicts.rows(found.conflicts.iter().map(|conflict| {
            vec![
                conflict.overridden.text.as_str().into(),
                cell(&conflict.overridden),
                conflict.by.text.as_str().into(),
                cell(&conflict.by),
            ]
        })));
    }
    for (left, right) in &found.unresolved {
        report = report.warn(format!(
            "\"{}\" and \"{}\" contradict each other and are equally strong ({}): remove one of them",
            left.text,
            right.text,
            left.source
        ));
    }
    let tiers: Vec<String> = InvariantScope::ALL
        .into_iter()
        .rev()
        .map(|scope| (scope, of_scope(&found, scope)))
        .filter(|(_, count)| *count > 0)
        .map(|(scope, count)| format!("{count} {scope}"))
        .collect();
    let sentence = match tiers.len() {
        0 => "No invariant holds".to_owned(),
        _ => format!(
            "{}: {}",
            counted(found.effective.len(), "effective invariant"),
            tiers.join(", ")
        ),
    };
    Ok(report.ok(sentence))
}

fn of_scope(found: &Reconciled, scope: InvariantScope) -> usize {
    let effective = found.effective.iter();
    effective
        .filter(|invariant| invariant.source == scope)
        .count()
}

fn effective_json(found: &Reconciled, places: &InvariantPlaces, plan: Option<PlanId>) -> Value {
    let invariants: Vec<Value> = found.effective.iter().map(sourced_json).collect();
    let conflicts: Vec<Value> = found
        .conflicts
        .iter()
        .map(|conflict| {
            json!({
                "overridden": sourced_json(&conflict.overridden),
                "by": sourced_json(&conflict.by),
            })
        })
        .collect();
    let unresolved: Vec<Value> = found
        .unresolved
        .iter()
        .map(|(left, right)| json!([sourced_json(left), sourced_json(right)]))
        .collect();
    json!({
        "scope": scope_json(places),
        "plan_id": plan,
        "effective": true,
        "invariants": invariants,
        "conflicts_resolved": conflicts,
        "unresolved": unresolved,
        "summary": {
            "total": found.effective.len(),
            "plan": of_scope(found, InvariantScope::Plan),
            "action": of_scope(found, InvariantScope::Action),
            "project": of_scope(found, InvariantScope::Project),
            "global": of_scope(found, InvariantScope::Global),
        },
    })
}

fn remove(
    context: &Context,
    service: &InvariantService,
    id: &str,
    yes: bool,
) -> Result<Report, CommandError> {
    let found = service.get(id)?;
    confirm(
        context,
        &format!("Remove invariant \"{}\"?", found.text),
        yes,
    )?;
    let removed = service.remove(&found.id.to_string())?;
    Ok(Report::new("invariant remove")
        .data(json!({"removed": invariant_json(&removed)}))
        .panel(panel("Invariant Removed", &removed))
        .ok("Invariant removed"))
}
