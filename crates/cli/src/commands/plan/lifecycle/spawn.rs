//! `plan spawn`.

use cleveragents_application::plan_operations::SpawnChildPlan;

use crate::arguments::PlanSpawn;
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report};

pub(super) fn run(context: &Context, mut arguments: PlanSpawn) -> Result<Report, CommandError> {
    let task = arguments.task.pop().unwrap_or_default();
    let spawned = context.call(SpawnChildPlan {
        reference: arguments.task.pop(),
        task,
        files: arguments.files,
        after: arguments.after,
    })?;
    Ok(Report::new("plan spawn")
        .panel(
            Panel::new("Part Added")
                .row("Plan", Cell::Id(spawned.plan_id.to_string()))
                .row("Step", spawned.step)
                .row("Title", spawned.title.clone())
                .row("Decision", Cell::Id(spawned.decision_id.to_string()))
                .row("Stage", spawned.stage.to_string()),
        )
        .data(spawned)
        .commands_at(&["/next_steps"])
        .ok("A child plan will execute the part"))
}
