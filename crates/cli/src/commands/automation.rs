//! `automation-profile`: how much plans do by themselves.

use std::path::Path;

use cleveragents_application::Outcome;
use cleveragents_application::automation_operations::{
    AddProfile, GateThresholds, ListProfiles, ListedProfile, ProfileFlags, ProfileGuards,
    RemoveProfile, ShowProfile,
};
use cleveragents_domain::{AutomationGate, Code, GateGroup, MicroUsd};

use super::{call_removal, counted, read_definition, removal, yes_no};
use crate::arguments::AutomationProfile as Command;
use crate::context::Context;
use crate::output::{Align, Cell, CommandError, Panel, Report, Table};

/// Commands that consist of typed operations.
pub(crate) const OPERATIONS: &[&str] = &[
    "automation-profile add",
    "automation-profile list",
    "automation-profile remove",
    "automation-profile show",
];

pub(super) fn run(context: &Context, command: Command) -> Result<Report, CommandError> {
    match command {
        Command::Add { config, update } => add(context, &config, update),
        Command::List { pattern } => list(context, pattern),
        Command::Show { profile } => show(context, profile.name),
        Command::Remove { profile, yes } => remove(context, &profile.name, yes),
    }
}

fn add(context: &Context, config: &Path, update: bool) -> Result<Report, CommandError> {
    let added = context.call(AddProfile {
        text: read_definition(config, "an automation profile", Code::MalformedProfile)?,
        source: context.definition_source(config),
        update,
    })?;
    let retries = (added.max_retries, added.validation_retries);
    let sentence = match added.outcome {
        Outcome::Updated => "Automation profile updated",
        Outcome::Created | Outcome::Unchanged => "Automation profile registered",
    };
    Ok(Report::new("automation-profile add")
        .panel(head(&added.name, &added.description).row("Config", added.config.clone()))
        .table(gates(&added.thresholds))
        .panel(flags_panel(added.flags, retries, added.guards.as_ref()))
        .data(added)
        .ok(sentence))
}

fn head(name: &str, description: &str) -> Panel {
    let description = Some(description.to_owned()).filter(|text| !text.is_empty());
    Panel::new("Automation Profile")
        .row("Name", name)
        .row("Description", description)
}

/// The gates, group by group.
fn gates(thresholds: &GateThresholds) -> Table {
    let mut table = Table::new("Gates")
        .column("Gate", Align::Left)
        .column("Threshold", Align::Right)
        .column("By itself", Align::Left)
        .column("Stands before", Align::Left);
    for gate in GateGroup::ALL.into_iter().flat_map(GateGroup::gates) {
        let Some(threshold) = thresholds.get(&gate).copied() else {
            continue;
        };
        table = table.row(vec![
            gate.as_str().into(),
            shown(threshold).into(),
            by_itself(threshold),
            gate.gates().into(),
        ]);
    }
    table
}

/// A threshold with at least one digit behind the point.
fn shown(threshold: f64) -> String {
    format!("{threshold:?}")
}

fn by_itself(threshold: f64) -> Cell {
    if threshold <= 0.0 {
        Cell::Good("always".to_owned())
    } else if threshold >= 1.0 {
        Cell::Warn("asks".to_owned())
    } else {
        "when sure".into()
    }
}

fn flags_panel(
    flags: ProfileFlags,
    (max_retries, validation_retries): (u32, u32),
    guards: Option<&ProfileGuards>,
) -> Panel {
    let panel = Panel::new("Flags")
        .row("Sandbox demanded", yes_no(flags.require_sandbox))
        .row("Checkpoint demanded", yes_no(flags.require_checkpoints))
        .row("Unsafe tools", yes_no(flags.allow_unsafe_tools))
        .row("Tries again", u64::from(max_retries))
        .row("Mends after validations", u64::from(validation_retries));
    let Some(guards) = guards else {
        return panel;
    };
    let listed = |list: &[String]| {
        if list.is_empty() {
            "none".to_owned()
        } else {
            list.join(", ")
        }
    };
    let allowed = guards.tool_allowlist.as_deref();
    let cost = guards.max_total_cost;
    panel
        .row("Tools denied", listed(&guards.tool_denylist))
        .row(
            "Tools allowed",
            allowed.map_or_else(|| "all".to_owned(), listed),
        )
        .row("Calls in a step", guards.max_tool_calls_per_step)
        .row(
            "Cost of a plan",
            cost.and_then(MicroUsd::from_usd_rounded_up)
                .map(Cell::Money),
        )
        .row(
            "Every change asked about",
            yes_no(guards.require_approval_for_writes),
        )
        .row(
            "Applying asked about",
            yes_no(guards.require_approval_for_apply),
        )
}

fn list(context: &Context, pattern: Option<String>) -> Result<Report, CommandError> {
    let listed = context.call(ListProfiles { pattern })?;
    let table = Table::with_columns(
        "Automation Profiles",
        ["Name", "Source", "Applies by itself", "Description"],
    )
    .empty("No automation profile matches")
    .rows(listed.automation_profiles.iter().map(row));
    let total = listed.automation_profiles.len();
    Ok(Report::new("automation-profile list")
        .data(listed)
        .table(table)
        .ok(format!("{} listed", counted(total, "automation profile"))))
}

fn row(profile: &ListedProfile) -> Vec<Cell> {
    let (applies, text) = match &profile.definition {
        Some(definition) => {
            let threshold = definition.thresholds.get(&AutomationGate::Apply);
            (
                threshold.copied().map_or_else(|| "".into(), by_itself),
                definition.description.as_str(),
            )
        }
        None => (
            Cell::Bad("broken".to_owned()),
            profile.problem.as_deref().unwrap_or_default(),
        ),
    };
    vec![
        profile.name.as_str().into(),
        profile.source.as_str().into(),
        applies,
        text.into(),
    ]
}

fn show(context: &Context, name: String) -> Result<Report, CommandError> {
    let profile = context.call(ShowProfile { name })?;
    let controls = &profile.execution_controls;
    let retries = (controls.max_retries, controls.validation_retries);
    Ok(Report::new("automation-profile show")
        .panel(head(&profile.name, &profile.description).row("Config", profile.config.clone()))
        .table(gates(&profile.thresholds()))
        .panel(flags_panel(
            controls.flags,
            retries,
            profile.guards.as_ref(),
        ))
        .data(profile)
        .ok("Automation profile shown"))
}

fn remove(context: &Context, name: &str, yes: bool) -> Result<Report, CommandError> {
    let removed = call_removal(context, "automation profile", yes, |yes| RemoveProfile {
        name: name.to_owned(),
        yes,
    })?;
    Ok(removal(
        "automation-profile remove",
        "Automation profile",
        removed.removed,
        removed.config,
    ))
}
