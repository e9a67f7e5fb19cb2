//! `plan guard`: limits of a plan.

use std::collections::BTreeMap;

use cleveragents_application::plan_operations::{LimitPlanCost, PlanGuardReport, ShowPlanGuard};
use cleveragents_domain::{AutomationGate, MicroUsd};

use super::known_cost;
use crate::commands::{cost_cell, yes_no};
use crate::context::Context;
use crate::output::{Align, Cell, CommandError, Panel, Report, Table};

pub(super) fn run(
    context: &Context,
    reference: Option<String>,
    max_cost: Option<String>,
) -> Result<Report, CommandError> {
    let is_limited = max_cost.is_some();
    let guard = match max_cost {
        Some(max_cost) => context.call(LimitPlanCost {
            reference,
            max_cost,
        })?,
        None => context.call(ShowPlanGuard { reference })?,
    };
    let mut report = Report::new("plan guard").data(&guard).panel(limits(&guard));
    if let Some(thresholds) = &guard.thresholds {
        report = report.table(gates(thresholds));
    } else {
        report = report.info("its automation profile is unknown");
    }
    let plan_limit = guard.guards.max_cost_per_plan.filter(|_| is_limited);
    let Some(plan_limit) = plan_limit.and_then(MicroUsd::from_usd_rounded_up) else {
        return Ok(report.ok("Guards shown"));
    };
    if max_cost_of(&guard).is_some_and(|limit| limit < plan_limit) {
        report = report.warn("the guards of its automation profile are stricter, and apply too");
    }
    let limit = Cell::Money(plan_limit).text();
    Ok(report
        .info(format!(
            "continue with `agents plan execute {}`",
            guard.plan_id
        ))
        .ok(format!("Maximum cost set to {limit}")))
}

/// The lower of `max_total_cost` and `max_cost_per_plan`; `None` if neither is set.
fn max_cost_of(guard: &PlanGuardReport) -> Option<MicroUsd> {
    let limits = [guard.guards.max_total_cost, guard.guards.max_cost_per_plan];
    let limits = limits.into_iter().flatten();
    limits.filter_map(MicroUsd::from_usd_rounded_up).min()
}

fn limits(guard: &PlanGuardReport) -> Panel {
    let guards = &guard.guards;
    let unlimited = || Cell::Muted("no limit".to_owned());
    let joined = |names: &[String]| match names {
        [] => Cell::Muted("(none)".to_owned()),
        names => Cell::Text(names.join(", ")),
    };
    let mut panel = Panel::new("Guards")
        .row("Plan", Cell::Id(guard.plan_id.to_string()))
        .row("Automation", guard.profile.name.clone())
        .row("Chosen by", guard.profile.source.clone())
        .row("Read only", yes_no(guard.read_only))
        .row("Denied tools", joined(&guards.tool_denylist))
        .row(
            "Allowed tools",
            guards
                .tool_allowlist
                .as_deref()
                .map_or_else(|| Cell::Muted("any".to_owned()), joined),
        )
        .row(
            "Calls per step",
            guards
                .max_tool_calls_per_step
                .map_or_else(unlimited, |limit| match guard.spent.tool_calls_in_step {
                    Some(used) => format!("{used} of {limit}").into(),
                    None => format!("at most {limit}").into(),
                }),
        )
        .row(
            "Cost",
            max_cost_of(guard).map_or_else(unlimited, |limit| {
                let (cost, is_known) =
                    known_cost(guard.spent.cost_usd, guard.spent.cost_known_part);
                let used = cost_cell(cost, is_known).text();
                Cell::Text(format!("{used} of {}", Cell::Money(limit).text()))
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
    if let Some(flags) = &guard.flags {
        panel = panel
            .row("Sandbox required", yes_no(flags.require_sandbox))
            .row("Checkpoints required", yes_no(flags.require_checkpoints))
            .row("Unsafe tools", yes_no(flags.allow_unsafe_tools))
            .row("Retries per step", u64::from(flags.max_retries));
    }
    panel
}

fn gates(thresholds: &BTreeMap<AutomationGate, f64>) -> Table {
    Table::new("Gates")
        .column("Before", Align::Left)
        .column("Asks below", Align::Right)
        .rows(thresholds.iter().map(|(gate, threshold)| {
            vec![
                gate.description().into(),
                if *threshold <= 0.0 {
                    Cell::Muted("never asks".to_owned())
                } else if *threshold >= 1.0 {
                    Cell::Warn("always asks".to_owned())
                } else {
                    format!("{threshold:.2}").into()
                },
            ]
        }))
}
