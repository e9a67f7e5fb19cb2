//! `safety`: safety profiles and the limits in effect.

mod layers;

use cleveragents_application::EffectiveSafety;
use cleveragents_tools::{AllowList, Guards, Safety as Named, SafetyProfile};
use serde_json::{Value, json};

use super::{counted, yes_no};
use crate::arguments::Safety;
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report, Table};
pub(crate) use layers::{listed, named_profile, safety_in_force};

pub(super) fn run(context: &Context, command: &Safety) -> Result<Report, CommandError> {
    match command {
        Safety::List => Ok(list()),
        Safety::Show {
            profile: Some(text),
            ..
        } => Ok(show(&named_profile(&context.process(), text, None)?)),
        Safety::Show {
            profile: None,
            options,
        } => Ok(show_effective(&safety_in_force(
            &context.process(),
            &options.into(),
        )?)),
    }
}

fn list() -> Report {
    let all = Named::built_in();
    let mut table = Table::with_columns("Safety Profiles", ["Name", "Description"]);
    for safety in &all {
        table = table.row(vec![
            safety.name.as_str().into(),
            safety.description.as_str().into(),
        ]);
    }
    let count = all.len();
    Report::new("safety list")
        .data(json!({"profiles": all, "summary": {"total": count}}))
        .table(table)
        .ok(format!("{} listed", counted(count, "profile")))
}

fn show(safety: &Named) -> Report {
    Report::new("safety show")
        .data(json!({"profile": safety}))
        .panel(
            Panel::new("Safety Profile")
                .row("Name", safety.name.as_str())
                .row("Description", safety.description.as_str()),
        )
        .panel(profile_panel(&safety.profile))
        .panel(guards_panel(&safety.guards))
        .ok("Profile shown")
}

fn show_effective(safety: &EffectiveSafety) -> Report {
    let mut table = Table::with_columns("Sources", ["Level", "Setting", "Source"]);
    for layer in &safety.layers {
        table = table.row(vec![
            layer.level.as_str().into(),
            layer.description.as_str().into(),
            Cell::Muted(layer.source.clone()),
        ]);
    }
    Report::new("safety show")
        .data(json!({"in_force": safety}))
        .panel(profile_panel(&safety.profile))
        .panel(guards_panel(&safety.guards))
        .table(table)
        .ok("The combination of these limits is in effect")
}

fn profile_panel(profile: &SafetyProfile) -> Panel {
    let categories = profile.allowed_categories.as_ref().map(|categories| {
        let names: Vec<&str> = categories
            .iter()
            .map(|category| category.as_str())
            .collect();
        names.join(", ")
    });
    Panel::new("Profile")
        .row("Changes", yes_no(profile.allow_changes))
        .row("Unsafe tools", yes_no(profile.allow_unsafe_tools))
        .row("Sandbox required", yes_no(profile.require_sandbox))
        .row("Checkpoints required", yes_no(profile.require_checkpoints))
        .row(
            "Approval for every call",
            yes_no(profile.require_human_approval),
        )
        .row("Categories", categories.unwrap_or_else(|| "all".to_owned()))
        .row("Allowed tools", allow_list_text(&profile.allowed_tools))
        .row("Denied tools", text_or_none(listed(&profile.denied_tools)))
        .row(
            "Maximum cost of a plan",
            profile.max_cost_per_plan.map(Cell::Money),
        )
        .row(
            "Maximum total cost",
            profile.max_total_cost.map(Cell::Money),
        )
}

fn guards_panel(guards: &Guards) -> Panel {
    Panel::new("Guards")
        .row("Denied tools", text_or_none(listed(&guards.denylist)))
        .row("Allowed tools", allow_list_text(&guards.allowlist))
        .row("Maximum calls per response", guards.max_tool_calls_per_step)
        .row("Maximum total cost", guards.max_total_cost.map(Cell::Money))
        .row(
            "Approval for every write",
            yes_no(guards.require_approval_for_writes),
        )
}

/// Text of the allow lists. A tool is allowed if it is on all lists.
fn allow_list_text(allowed: &AllowList) -> String {
    let value = serde_json::to_value(allowed).unwrap_or(Value::Null);
    let Some(lists) = value.as_array() else {
        return "all".to_owned();
    };
    let list = |list: &Value| {
        let names: Vec<&str> = list
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        text_or_none(names.join(", "))
    };
    let all: Vec<String> = lists.iter().map(list).collect();
    all.join(" and of these ")
}

fn text_or_none(text: String) -> String {
    if text.is_empty() {
        "none".to_owned()
    } else {
        text
    }
}
