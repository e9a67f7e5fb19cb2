//! Child plans that an actor requested with `builtin/plan-subplan`. The stored call is the request.

use cleveragents_domain::{PlanId, PlanStep, StepKind, StepRecord, ToolInvocation};
use cleveragents_store::{Error, Reader, invocations, plan_steps};
use cleveragents_tools::builtin::{RequestedPart, SUBPLAN_TOOL};

/// A requested part of the task of a plan.
#[derive(Debug)]
pub(in crate::plan) struct PartRequest {
    /// Path of the step whose actor requested it.
    pub(in crate::plan) path: String,
    /// Path of the record of the part.
    pub(in crate::plan) part_path: String,
    pub(in crate::plan) step: PlanStep,
}

/// Whether a path belongs to a part that an actor requested: the id of the call follows the path of the actor's step.
pub(in crate::plan) fn is_requested_part(path: &str) -> bool {
    let kind = StepKind::of_path(path);
    let is_work = matches!(
        kind,
        Some(StepKind::Step | StepKind::Fix | StepKind::Guidance)
    );
    let last = path.rsplit('/').next().unwrap_or_default();
    is_work && !last.bytes().all(|byte| byte.is_ascii_digit())
}

/// The requests of a plan that are in effect, in the order in which they were made.
pub(in crate::plan) fn part_requests(
    reader: &mut dyn Reader,
    plan: PlanId,
) -> Result<Vec<PartRequest>, Error> {
    let calls = invocations::in_effect(reader, plan, SUBPLAN_TOOL)?;
    if calls.is_empty() {
        return Ok(Vec::new());
    }
    let records = plan_steps::of_plan(reader, plan)?;
    let requests = calls.iter().filter_map(|call| {
        let caller = caller(&records, call)?;
        let part = RequestedPart::from_arguments(&call.arguments)?;
        let id = call.id.to_string().to_ascii_lowercase();
        Some(PartRequest {
            path: caller.path.clone(),
            part_path: format!("{}/{id}", caller.path),
            step: PlanStep {
                title: part.title.trim().to_owned(),
                description: part.description,
                files: part.files,
                child_plan: true,
                ..PlanStep::default()
            },
        })
    });
    Ok(requests.collect())
}

/// The step that ran when a call was made.
fn caller<'r>(records: &'r [StepRecord], call: &ToolInvocation) -> Option<&'r StepRecord> {
    let has_actor = |record: &&StepRecord| {
        matches!(
            record.kind(),
            Some(StepKind::Strategize | StepKind::Step | StepKind::Fix | StepKind::Guidance)
        ) && !is_requested_part(&record.path)
    };
    records
        .iter()
        .filter(|record| record.undone_by.is_none() && record.started_at <= call.started_at)
        .filter(has_actor)
        .max_by_key(|record| (record.started_at, record.number))
}

#[cfg(test)]
mod tests {
    use super::is_requested_part;

    #[test]
    fn requested_parts_are_known_by_their_path() {
        let id = "01k0a1b2c3d4e5f6g7h8j9k0m1";
        for path in ["step/1/2", "fix/1/1", "guidance/0"] {
            assert!(!is_requested_part(path), "{path}");
            assert!(is_requested_part(&format!("{path}/{id}")), "{path}");
        }
        assert!(!is_requested_part("review/1/local/tests"));
        assert!(!is_requested_part("strategize/1"));
    }
}
