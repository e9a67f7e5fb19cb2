//! `plan list`.

use cleveragents_application::{PlanBook, PlanQuery};
use cleveragents_domain::identity::Namespaces;
use cleveragents_domain::{Plan, shortest_prefix};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::{clock, elapsed, projects, state_cell};
use crate::arguments::{PhaseName, PlanList};
use crate::commands::{counted, put_cost};
use crate::output::{Align, Cell, CommandError, Report, Table};

pub(super) fn run(
    book: &PlanBook,
    visible: Namespaces,
    arguments: &PlanList,
) -> Result<Report, CommandError> {
    let query = PlanQuery {
        phase: arguments.phase.map(PhaseName::phase),
        state: arguments.state.map(|state| state.as_str().to_owned()),
        project: arguments.project.clone(),
        action: arguments.action.clone(),
        pattern: arguments.pattern.clone(),
        visible,
    };
    let plans = book.list(&query)?;
    let ids: Vec<String> = plans.iter().map(|plan| plan.id.to_string()).collect();
    let short = |at: usize| {
        // Newest first: the one before has the greater id.
        let before = ids.get(at + 1).map(String::as_str);
        let after = at.checked_sub(1).map(|at| ids[at].as_str());
        shortest_prefix(&ids[at], before, after).to_owned()
    };
    let table = Table::new("Plans")
        .column("Id", Align::Left)
        .column("Phase", Align::Left)
        .column("State", Align::Left)
        .column("Action", Align::Left)
        .column("Project", Align::Left)
        .column("Elapsed", Align::Right)
        .empty("No plan matches")
        .rows(plans.iter().enumerate().map(|(at, plan)| {
            vec![
                Cell::Id(short(at)),
                plan.stage.phase().as_str().into(),
                state_cell(plan),
                plan.action.as_str().into(),
                projects(plan).into(),
                elapsed(plan).map(clock).into(),
            ]
        }));
    let count = |is_such: &dyn Fn(&Plan) -> bool| plans.iter().filter(|plan| is_such(plan)).count();
    let summary = json!({
        "total": plans.len(),
        "processing": count(&|plan| plan.shown_state() == "processing"),
        "completed": count(&|plan| plan.shown_state() == "applied"),
        "errored": count(&|plan| plan.stage.is_errored()),
        "awaiting_input": count(&|plan| plan.shown_state() == "awaiting_input"),
    });
    let report = Report::new("plan list")
        .table(table)
        .ok(format!("{} listed", counted(plans.len(), "plan")));
    let shorts: Vec<String> = (0..plans.len()).map(short).collect();
    Ok(report.records(Listing {
        plans: shorts.into_iter().zip(plans).collect(),
        filters: json!({
            "phase": query.phase, "state": query.state, "project": query.project,
            "action": query.action, "pattern": query.pattern,
        }),
        summary,
    }))
}

/// What programs read. Its entries are made when somebody does.
#[derive(Serialize)]
struct Listing {
    #[serde(serialize_with = "entries")]
    plans: Vec<(String, Plan)>,
    filters: Value,
    summary: Value,
}

fn entries<S: Serializer>(plans: &[(String, Plan)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(plans.iter().map(|(short, plan)| entry(short, plan)))
}

fn entry(short: &str, plan: &Plan) -> Value {
    let took = elapsed(plan);
    let mut entry = json!({
        "id": short,
        "plan_id": plan.id,
        "name": plan.name,
        "phase": plan.stage.phase(),
        "state": plan.shown_state(),
        "action": plan.action,
        "project": projects(plan),
        "parent_plan_id": plan.parent,
        "attempt": plan.attempt,
        "waiting_for": plan.waiting.as_ref().map(cleveragents_domain::Waiting::sentence),
        "elapsed": took.map(clock),
        "elapsed_s": took,
        "created": plan.created_at,
        "updated": plan.updated_at,
    });
    let (cost, is_known) = (plan.usage.cost_micro_usd, !plan.is_cost_partial);
    put_cost(&mut entry, "cost_usd", cost, is_known);
    entry
}
