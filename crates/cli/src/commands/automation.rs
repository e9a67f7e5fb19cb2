//! `automation-profile`: profiles that set which gates of a plan need approval.

use std::path::Path;

use cleveragents_application::automation_operations::{
    AddProfile, GateThresholds, ListProfiles, ListedProfile, ProfileFlags, ProfileGuards,
    RemoveProfile, ShowProfile,
};
use cleveragents_domain::{AutomationGate, DefinitionKind, GateGroup, MicroUsd};

use super::definition::{
    DefinitionInput, listed as listed_sentence, read_input, registered, remove as remove_definition,
};
use super::yes_no;
use crate::arguments::{AutomationProfile as Command, Deletion};
use crate::context::Context;
use crate::output::{Align, Cell, CommandError, Panel, Report, Table};

const KIND: DefinitionKind = DefinitionKind::AutomationProfile;

/// Commands that run as operations of the application, on this machine or on a server.
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
        Command::Remove { profile, deletion } => remove(context, &profile.name, deletion),
    }
}

fn add(context: &Context, config: &Path, update: bool) -> Result<Report, CommandError> {
    let DefinitionInput { text, source } = read_input(context, config, KIND)?;
    let added = context.call(AddProfile {
        text,
        source,
        update,
    })?;
    let retries = (added.max_retries, added.validation_retries);
    let sentence = registered(KIND, added.outcome, "registered");
    Ok(Report::new("automation-profile add")
        .panel(profile_panel(&added.name, &added.description).row("Config", added.config.clone()))
        .table(gates_table(&added.thresholds))
        .panel(flags_panel(added.flags, retries, added.guards.as_ref()))
        .data(added)
        .ok(sentence))
}

fn profile_panel(name: &str, description: &str) -> Panel {
    let description = Some(description.to_owned()).filter(|text| !text.is_empty());
    Panel::new("Automation Profile")
        .row("Name", name)
        .row("Description", description)
}

/// Table of the gates, in the order of their groups.
fn gates_table(thresholds: &GateThresholds) -> Table {
    let mut table = Table::new("Gates")
        .column("Before", Align::Left)
        .column("Threshold", Align::Right)
        .column("Without asking", Align::Left);
    for gate in GateGroup::ALL.into_iter().flat_map(GateGroup::gates) {
        let Some(threshold) = thresholds.get(&gate).copied() else {
            continue;
        };
        table = table.row(vec![
            gate.description().into(),
            format_threshold(threshold).into(),
            approval_cell(threshold),
        ]);
    }
    table
}

/// Formats a threshold with at least one decimal.
fn format_threshold(threshold: f64) -> String {
    format!("{threshold:?}")
}

fn approval_cell(threshold: f64) -> Cell {
    if threshold <= 0.0 {
        Cell::Good("always".to_owned())
    } else if threshold >= 1.0 {
        Cell::Warn("never".to_owned())
    } else {
        "if confident".into()
    }
}

fn flags_panel(
    flags: ProfileFlags,
    (max_retries, validation_retries): (u32, u32),
    guards: Option<&ProfileGuards>,
) -> Panel {
    let panel = Panel::new("Flags")
        .row("Sandbox required", yes_no(flags.require_sandbox))
        .row("Checkpoints required", yes_no(flags.require_checkpoints))
        .row("Unsafe tools", yes_no(flags.allow_unsafe_tools))
        .row("Retries", u64::from(max_retries))
        .row("Fixes of failed validations", u64::from(validation_retries));
    let Some(guards) = guards else {
        return panel;
    };
    let joined = |list: &[String]| {
        if list.is_empty() {
            "none".to_owned()
        } else {
            list.join(", ")
        }
    };
    let allowed = guards.tool_allowlist.as_deref();
    let cost = guards.max_total_cost;
    panel
        .row("Denied tools", joined(&guards.tool_denylist))
        .row(
            "Allowed tools",
            allowed.map_or_else(|| "all".to_owned(), joined),
        )
        .row("Maximum calls per step", guards.max_tool_calls_per_step)
        .row(
            "Maximum cost of a plan",
            cost.and_then(MicroUsd::from_usd_rounded_up)
                .map(Cell::Money),
        )
        .row(
            "Approval for every write",
            yes_no(guards.require_approval_for_writes),
        )
        .row(
            "Approval to apply",
            yes_no(guards.require_approval_for_apply),
        )
}

fn list(context: &Context, pattern: Option<String>) -> Result<Report, CommandError> {
    let listed = context.call(ListProfiles { pattern })?;
    let table = Table::with_columns(
        "Automation Profiles",
        ["Name", "Source", "Applies without asking", "Description"],
    )
    .empty("No automation profile matches")
    .rows(listed.automation_profiles.iter().map(row));
    let total = listed.automation_profiles.len();
    Ok(Report::new("automation-profile list")
        .data(listed)
        .table(table)
        .ok(listed_sentence(KIND, total)))
}

fn row(profile: &ListedProfile) -> Vec<Cell> {
    let (applies, text) = match &profile.definition {
        Some(definition) => {
            let threshold = definition.thresholds.get(&AutomationGate::Apply);
            (
                threshold.copied().map_or_else(|| "".into(), approval_cell),
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
        .panel(
            profile_panel(&profile.name, &profile.description)
                .row("Config", profile.config.clone()),
        )
        .table(gates_table(&profile.thresholds()))
        .panel(flags_panel(
            controls.flags,
            retries,
            profile.guards.as_ref(),
        ))
        .data(profile)
        .ok("Automation profile shown"))
}

fn remove(context: &Context, name: &str, deletion: Deletion) -> Result<Report, CommandError> {
    remove_definition(
        context,
        "automation-profile remove",
        KIND,
        deletion,
        |yes, dry_run| RemoveProfile {
            name: name.to_owned(),
            yes,
            dry_run,
        },
    )
}
