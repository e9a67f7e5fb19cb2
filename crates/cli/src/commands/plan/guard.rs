//! `plan guard`: what limits a plan.

use cleveragents_application::{PlanBook, PlanGuard, parse_usd};
use cleveragents_domain::{AutomationProfile, Plan};
use serde_json::{Value, json};

use crate::commands::planning::Desk;
use crate::commands::{cost_cell, put_cost, yes_no};
use crate::context::Context;
use crate::output::{Align, Cell, CommandError, Panel, Report, Table};

pub(super) fn run(
    context: &Context,
    book: &PlanBook,
    plan: Plan,
    max_cost: Option<&str>,
) -> Result<Report, CommandError> {
    let most = max_cost.map(parse_usd).transpose()?;
    let plan = match most {
        Some(most) => Desk::new(context)?.service.limit_cost(plan.id, most)?,
        None => plan,
    };
    let guard = book.guard(plan)?;
    let mut report = Report::new("plan guard")
        .data(data(&guard))
        .panel(limits(&guard));
    if let Some(profile) = &guard.profile {
        report = report.table(gates(profile));
    } else {
        report = report.info("what its automation profile was is not known");
    }
    let Some(most) = most else {
        return Ok(report.ok("Guards shown"));
    };
    if guard.max_cost.is_some_and(|tighter| tighter < most) {
        report = report.warn("the guards of its automation profile allow less, and hold too");
    }
    let most = Cell::Money(most).text();
    Ok(report
        .info(format!(
            "go on with `agents plan execute {}`",
            guard.plan.id
        ))
        .ok(format!("The plan may cost {most}")))
}

fn limits(guard: &PlanGuard) -> Panel {
    let guards = &guard.guards;
    let plan = &guard.plan;
    let unlimited = || Cell::Muted("no limit".to_owned());
    let listed = |names: &[String]| match names {
        [] => Cell::Muted("(none)".to_owned()),
        names => Cell::Text(names.join(", ")),
    };
    let mut panel = Panel::new("Guards")
        .row("Plan", Cell::Id(plan.id.to_string()))
        .row("Automation", plan.made_with.profile.name.clone())
        .row("Chosen by", plan.made_with.profile.source.clone())
        .row("Read only", yes_no(plan.made_with.read_only))
        .row("Denied tools", listed(&guards.tool_denylist))
        .row(
            "Allowed tools",
            guards
                .tool_allowlist
                .as_deref()
                .map_or_else(|| Cell::Muted("any".to_owned()), listed),
        )
        .row(
            "Calls in a step",
            guards
                .max_tool_calls_per_step
                .map_or_else(unlimited, |most| match guard.spent.tool_calls_in_step {
                    Some(used) => format!("{used} of {most}").into(),
                    None => format!("at most {most}").into(),
                }),
        )
        .row(
            "Cost",
            guard.max_cost.map_or_else(unlimited, |most| {
                let used = cost_cell(guard.spent.cost, guard.spent.is_cost_known).text();
                Cell::Text(format!("{used} of {}", Cell::Money(most).text()))
            }),
        )
        .row("Calls so far", guard.spent.tool_calls)
        .row(
            "Writes need approval",
            yes_no(guards.require_approval_for_writes),
        )
        .row(
            "Applying needs approval",
            yes_no(guards.require_approval_for_apply),
        );
    if let Some(profile) = &guard.profile {
        panel = panel
            .row("Sandbox required", yes_no(profile.require_sandbox))
            .row("Checkpoints required", yes_no(profile.require_checkpoints))
            .row("Unsafe tools", yes_no(profile.allow_unsafe_tools))
            .row("Retries of a step", u64::from(profile.max_retries));
    }
    panel
}

fn gates(profile: &AutomationProfile) -> Table {
    Table::new("Gates")
        .column("Gate", Align::Left)
        .column("Stands before", Align::Left)
        .column("Asks below", Align::Right)
        .rows(
            cleveragents_domain::AutomationGate::ALL
                .into_iter()
                .map(|gate| {
                    let threshold = profile.thresholds.threshold(gate);
                    vec![
                        gate.as_str().into(),
                        gate.gates().into(),
                        if threshold <= 0.0 {
                            Cell::Muted("never asks".to_owned())
                        } else if threshold >= 1.0 {
                            Cell::Warn("always asks".to_owned())
                        } else {
                            format!("{threshold:.2}").into()
                        },
                    ]
                }),
        )
}

fn data(guard: &PlanGuard) -> Value {
    let plan = &guard.plan;
    let guards = &guard.guards;
    let profile = guard.profile.as_ref();
    let mut data = json!({
        "plan_id": plan.id,
        "profile": {"name": plan.made_with.profile.name, "source": plan.made_with.profile.source},
        "read_only": plan.made_with.read_only,
        "guards": {
            "tool_denylist": guards.tool_denylist,
            "tool_allowlist": guards.tool_allowlist,
            "max_tool_calls_per_step": guards.max_tool_calls_per_step,
            "max_total_cost": guards.max_total_cost.map(cleveragents_domain::MicroUsd::as_usd),
            "max_cost_per_plan": plan.made_with.max_cost_micro_usd
                .map(|most| cleveragents_domain::MicroUsd(most).as_usd()),
            "require_approval_for_writes": guards.require_approval_for_writes,
            "require_approval_for_apply": guards.require_approval_for_apply,
        },
        "flags": profile.map(|profile| json!({
            "require_sandbox": profile.require_sandbox,
            "require_checkpoints": profile.require_checkpoints,
            "allow_unsafe_tools": profile.allow_unsafe_tools,
            "max_retries": profile.max_retries,
            "validation_retries": profile.validation_retries,
        })),
        "thresholds": profile.map(|profile| &profile.thresholds),
        "spent": {
            "cost_usd": guard.spent.cost.as_usd(),
            "tool_calls": guard.spent.tool_calls,
            "tool_calls_in_step": guard.spent.tool_calls_in_step,
        },
    });
    let (cost, is_known) = (guard.spent.cost, guard.spent.is_cost_known);
    put_cost(&mut data["spent"], "cost_usd", cost, is_known);
    data
}
