//! The merge role: applies a reviewed change if all criteria are met in the unit of work that starts the apply.

use std::sync::Arc;

use cleveragents_domain::{
    Code, Diagnose as _, MergeEvidence, MergeOutcome, MicroUsd, Plan, PlanPhase, PlanStage,
};
use cleveragents_store::{Error, UnitOfWork, attempts, leases, pools, work_items};

use super::attempt_report::{AttemptReport, GateLine};
use super::driver::RoleDriver;
use super::runner::failed_report;
use crate::observer::NoApprover;
use crate::operation::OperationError;
use crate::plan::{ApplyGuard, DriveOptions, PlanError, PlanFrontEnd};
use crate::pool::{Dispatch, RoleFailure, RoleReport, require_may_apply};

impl RoleDriver<'_> {
    /// Applies the change of the dispatched item.
    pub(super) fn merge(&self, dispatch: &Dispatch) -> Result<RoleReport, OperationError> {
        let change = dispatch.item.change.as_ref();
        let Some(plan) = change.and_then(|change| change.plan) else {
            let reason = "the item has no change to merge".to_owned();
            return Ok(failed_report(RoleFailure::NoResult(reason), None));
        };
        let plan = self.plans.get(plan)?;
        if plan.stage == PlanStage::ApplyApplied {
            // The process that applied it ended before it reported the merge.
            return Ok(merged_report(&plan));
        }
        let checked = Arc::new(dispatch.clone());
        let guard = ApplyGuard::new(move |unit, _, state| unmet_criteria(unit, &checked, state));
        let options = DriveOptions {
            consent: Some(PlanPhase::Apply),
            message: Some(description(dispatch, &plan)),
            guard: Some(guard),
            ..DriveOptions::default()
        };
        let front_end = PlanFrontEnd {
            approver: &NoApprover,
            observer: self.observer,
            cancel: self.cancel,
        };
        let applied = self.plans.drive(plan.id, &options, self.runtime, front_end);
        let current = self.plans.get(plan.id)?;
        if current.stage == PlanStage::ApplyApplied {
            self.clean_up(dispatch);
            return Ok(merged_report(&current));
        }
        let report = |outcome: MergeOutcome| RoleReport::Merge {
            outcome,
            cost: MicroUsd(0),
            plan: Some(current.id),
        };
        let Err(error) = applied else {
            // The plan returned to execution, because its checks have to run again.
            let failing = vec!["gates_passed: the checks of the plan have to run again".to_owned()];
            return Ok(report(MergeOutcome::Refused { failing }));
        };
        Ok(match error {
            PlanError::Constrained { reasons, .. } => {
                report(MergeOutcome::Refused { failing: reasons })
            }
            PlanError::Stopped { .. } => failed_report(RoleFailure::Cancelled, Some(&current)),
            PlanError::Waits { .. } => report(MergeOutcome::NeedsApproval {
                reason: error.to_string(),
            }),
            error if error.code() == Code::ApplyConflict => report(MergeOutcome::Conflict {
                paths: conflict_paths(&error),
            }),
            PlanError::NothingToApply(_) | PlanError::NotReady { .. } => {
                report(MergeOutcome::Refused {
                    failing: vec![error.to_string()],
                })
            }
            error => failed_report(RoleFailure::Environment(error.to_string()), Some(&current)),
        })
    }

    /// Cancels the plans of captures, whose tests are merged with the change.
    fn clean_up(&self, dispatch: &Dispatch) {
        let captures = dispatch.earlier.iter();
        let captures =
            captures.filter(|attempt| attempt.role == cleveragents_domain::PoolRole::Capture);
        for plan in captures.filter_map(|attempt| attempt.plan) {
            let cancelled = self.plans.cancel(plan, "its test was merged with the fix");
            if let Err(error) = cancelled {
                tracing::info!(%plan, %error, "plan of a capture not cancelled");
            }
        }
    }
}

fn merged_report(plan: &Plan) -> RoleReport {
    let parts = plan
        .report
        .as_ref()
        .and_then(|report| report["parts"].as_array().cloned());
    let commits = parts
        .into_iter()
        .flatten()
        .filter_map(|part| part["commit"]["new"].as_str().map(str::to_owned));
    let commit = commits.collect::<Vec<_>>().join(" ");
    RoleReport::Merge {
        outcome: MergeOutcome::Merged {
            commit: if commit.is_empty() {
                plan.id.to_string()
            } else {
                commit
            },
        },
        cost: MicroUsd(0),
        plan: Some(plan.id),
    }
}

fn conflict_paths(error: &PlanError) -> Vec<String> {
    let details = error.details();
    let conflicts = details["conflicts"].as_array().cloned().unwrap_or_default();
    let paths = conflicts.iter().filter_map(|conflict| {
        let path = conflict["path"].as_str().or_else(|| conflict.as_str());
        path.map(str::to_owned)
    });
    paths.collect()
}

/// The criteria that a change does not meet, read in the unit of work that starts its apply.
fn unmet_criteria(
    unit: &mut UnitOfWork<'_>,
    dispatch: &Dispatch,
    state: &str,
) -> Result<Vec<String>, Error> {
    // A pool that is not registered belongs to a command in the foreground, which its user can stop.
    if pools::get(unit, &dispatch.pool.name)?.is_some()
        && let Err(error) = require_may_apply(unit, dispatch)
    {
        return Ok(vec![format!("not_stopped: {error}")]);
    }
    let (subject, token) = &dispatch.lease;
    leases::require(unit, subject, *token)?;
    let item = dispatch.item.id;
    let Some(current) = work_items::get(unit, item)? else {
        return Ok(vec!["the work item was removed".to_owned()]);
    };
    if current.state != cleveragents_domain::WorkItemState::Approved {
        return Ok(vec![format!(
            "approved: the work item is {}",
            current.state
        )]);
    }
    let stored_attempts = attempts::of_item(unit, item)?;
    let reviews = attempts::reviews(unit, item)?;
    let dependencies = work_items::dependencies(unit, item)?;
    let base = pools::base(unit, &current.project)?;
    let completed = cleveragents_domain::WorkItemState::Completed;
    let evidence = MergeEvidence {
        head: state,
        required_gates: &dispatch.pool.outcomes.required_gates,
        attempts: &stored_attempts,
        reviews: &reviews,
        blocking: dispatch.pool.outcomes.blocking_severity,
        is_captured: current.is_captured,
        dependencies_completed: dependencies.iter().all(|(_, state)| *state == completed),
        is_base_green: base.is_none_or(|base| !base.is_red),
        fixes_base: current.priority == cleveragents_domain::Priority::CiBlocker,
    };
    let failing = evidence.failing().into_iter();
    Ok(failing
        .map(|criterion| criterion.as_str().to_owned())
        .collect())
}

/// The description of the change, rendered from the row of its attempt.
fn description(dispatch: &Dispatch, plan: &Plan) -> String {
    let author = dispatch
        .earlier
        .iter()
        .rev()
        .find(|attempt| attempt.plan == Some(plan.id));
    let gates = author
        .map(|attempt| attempt.gates.as_slice())
        .unwrap_or_default();
    let gate = |gate: &cleveragents_domain::GateResult| GateLine {
        name: gate.name.clone(),
        command: gate.command.clone(),
        scope: gate.scope.clone(),
        exit_code: gate.exit_code,
        output_tail: gate.output_tail.clone(),
    };
    let report = AttemptReport {
        item: dispatch.item.id.to_string(),
        title: crate::plan::commit_subject(&dispatch.item.title),
        actor: author
            .map(|attempt| attempt.actor.clone())
            .unwrap_or_default(),
        plan: plan.id.to_string(),
        gates: gates.iter().map(gate).collect(),
        pool: dispatch.pool.name.clone(),
        ..AttemptReport::default()
    };
    report.to_description()
}
