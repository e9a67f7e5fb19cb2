//! [`store_result`]: the only place that turns a report into rows. Attempt, gates, cost, transition and events are stored
//! in one unit of work, which fails unless the dispatch still holds its lease.

mod finding;
mod triage;

use std::sync::Arc;

use cleveragents_domain::{
    AttemptEvidence, AttemptOutcome, Code, Diagnose as _, MergeOutcome, MicroUsd, OpenChange,
    PlanId, PoolRole, Priority, RegressionRule, ReviewVerdict, StoredReview, TransitionCause,
    WorkItem, WorkItemState,
};
use cleveragents_store::attempts::AttemptResult;
use cleveragents_store::work_items::ChangeOrigin;
use cleveragents_store::{Engine, UnitOfWork, attempts, budgets, leases, pools, work_items};

use super::base::record_base;
use super::claim::{reservation, scopes};
use super::dispatch::{Dispatch, RoleFailure, RoleReport};
use super::roles::attempt_report::AttemptReport;
use crate::count::counted;
use crate::operation::OperationError;
use crate::tracker::{is_mirrored, mirror_comment, mirror_fields};

/// Stored result of a dispatch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredAttemptResult {
    pub outcome: AttemptOutcome,
    pub reason: Option<String>,
    pub cost: MicroUsd,
    /// State of the item afterwards.
    pub state: WorkItemState,
}

/// Stores the result of a dispatch. Fails without a change if the lease was lost, because another worker may then have
/// the item.
pub(crate) fn store_result(
    engine: &Engine,
    dispatch: &Dispatch,
    report: Result<RoleReport, OperationError>,
    is_cancelled: bool,
) -> Result<StoredAttemptResult, OperationError> {
    let report = report.unwrap_or_else(|error| RoleReport::Failed {
        failure: if is_cancelled || error.code() == Code::PlanCancelled {
            RoleFailure::Cancelled
        } else {
            RoleFailure::Environment(error.to_string())
        },
        cost: MicroUsd(0),
        plan: None,
    });
    let (dispatch, report) = (Arc::new(dispatch.clone()), Arc::new(report));
    engine.write(move |unit| store_result_in(unit, &dispatch, &report))
}

fn store_result_in(
    unit: &mut UnitOfWork<'_>,
    dispatch: &Dispatch,
    report: &RoleReport,
) -> Result<StoredAttemptResult, OperationError> {
    pools::lock_claims(unit)?;
    let (subject, token) = &dispatch.lease;
    leases::require(unit, subject, *token)?;
    let item = work_items::get(unit, dispatch.item.id)?
        .ok_or_else(|| OperationError::internal("the item of an attempt is missing"))?;
    let storing = ResultStorage { dispatch, item };
    let result = storing.apply(unit, report)?;
    let is_ended = attempts::finish(unit, &dispatch.attempt, &dispatch.item.project, &result)?;
    if !is_ended {
        return Err(OperationError::new(
            Code::LeaseLost,
            format!("the attempt {} has ended already", dispatch.attempt.id),
        ));
    }
    spend(unit, &dispatch.attempt, result.cost)?;
    leases::release(unit, subject, *token)?;
    let after = work_items::get(unit, dispatch.item.id)?
        .ok_or_else(|| OperationError::internal("the item of an attempt is missing"))?;
    // The task of a hunt has no issue in the tracker; only its findings have one.
    if dispatch.role() != PoolRole::Hunt {
        mirror_result(unit, dispatch, report, &after)?;
    }
    Ok(StoredAttemptResult {
        outcome: result.outcome,
        reason: result.reason,
        cost: result.cost,
        state: after.state,
    })
}

/// Enqueues the comment about an ended attempt, and the fields of its item if they changed.
fn mirror_result(
    unit: &mut UnitOfWork<'_>,
    dispatch: &Dispatch,
    report: &RoleReport,
    after: &WorkItem,
) -> Result<(), OperationError> {
    if !is_mirrored(unit, after)? {
        return Ok(());
    }
    let Some(attempt) = attempts::get(unit, dispatch.attempt.id)? else {
        return Ok(());
    };
    let reviews = attempts::reviews(unit, after.id)?;
    let review = reviews
        .iter()
        .find(|review| review.attempt == attempt.id)
        .map(|review| &review.verdict);
    let changed = match report {
        RoleReport::Change { evidence, .. } => evidence.changed_paths.clone(),
        _ => Vec::new(),
    };
    let tier = dispatch.pool.tier_number(&attempt.tier);
    let comment = AttemptReport::from_attempt(&attempt, after, tier, changed, review).to_comment();
    mirror_comment(unit, after, &format!("attempt:{}", attempt.id), &comment)?;
    if after.version != dispatch.item.version {
        mirror_fields(unit, after)?;
    }
    Ok(())
}

/// Turns the reservations of an attempt into spending.
pub(super) fn spend(
    unit: &mut UnitOfWork<'_>,
    attempt: &cleveragents_domain::Attempt,
    cost: MicroUsd,
) -> Result<(), cleveragents_store::Error> {
    let id = reservation(attempt.id)?;
    for scope in scopes(&attempt.pool, attempt.item, attempt.started_at) {
        budgets::spend_reserved(unit, id, &scope, cost)?;
    }
    Ok(())
}

/// Stores the report of one dispatch.
struct ResultStorage<'a> {
    dispatch: &'a Dispatch,
    /// The item as it is now; the user may have changed it meanwhile.
    item: WorkItem,
}

/// A result that the rules refuse. It counts as a failed attempt.
fn refused(reason: impl Into<String>, cost: MicroUsd) -> AttemptResult {
    AttemptResult::bare(AttemptOutcome::FailedGates, Some(reason.into()), cost)
}

fn succeeded(cost: MicroUsd, plan: Option<PlanId>) -> AttemptResult {
    AttemptResult {
        plan,
        ..AttemptResult::bare(AttemptOutcome::Succeeded, None, cost)
    }
}

impl ResultStorage<'_> {
    fn apply(
        &self,
        unit: &mut UnitOfWork<'_>,
        report: &RoleReport,
    ) -> Result<AttemptResult, OperationError> {
        let role = self.dispatch.role();
        match (role, report) {
            (
                _,
                RoleReport::Failed {
                    failure,
                    cost,
                    plan,
                },
            ) => self.fail(unit, failure, *cost, *plan),
            (
                PoolRole::Hunt,
                RoleReport::Findings {
                    findings,
                    base,
                    summary,
                    cost,
                    plan,
                },
            ) => {
                for finding in findings {
                    self.file(unit, finding, *plan)?;
                }
                let note = counted(findings.len(), "finding");
                self.move_item(unit, WorkItemState::Completed, Some(note))?;
                Ok(AttemptResult {
                    base: base.clone(),
                    summary: summary.clone(),
                    ..succeeded(*cost, *plan)
                })
            }
            (
                PoolRole::Triage,
                RoleReport::Triage {
                    decision,
                    cost,
                    plan,
                },
            ) => self.triage(unit, decision, *cost, *plan),
            (PoolRole::Capture | PoolRole::Fix, RoleReport::Change { evidence, plan }) => {
                self.change(unit, evidence, *plan)
            }
            (
                PoolRole::Review,
                RoleReport::Review {
                    verdict,
                    head,
                    cost,
                    plan,
                },
            ) => self.review(unit, verdict, head, *cost, *plan),
            (
                PoolRole::Merge,
                RoleReport::Merge {
                    outcome,
                    cost,
                    plan,
                },
            ) => self.merge(unit, outcome, *cost, *plan),
            _ => Ok(refused(
                format!("the role {role} returned the result of another role"),
                MicroUsd(0),
            )),
        }
    }

    fn origin(&self, reason: Option<String>) -> ChangeOrigin {
        ChangeOrigin {
            reason,
            ..ChangeOrigin::new(TransitionCause::Role, &self.dispatch.pool.name)
        }
    }

    /// Moves the item if its role may do so. A state that the user has set meanwhile is kept.
    fn move_item(
        &self,
        unit: &mut UnitOfWork<'_>,
        to: WorkItemState,
        reason: Option<String>,
    ) -> Result<bool, OperationError> {
        if !self.dispatch.role().can_move(self.item.state, to) {
            return Ok(false);
        }
        Ok(work_items::transition(
            unit,
            &self.item,
            to,
            &self.origin(reason),
        )?)
    }

    fn fail(
        &self,
        unit: &mut UnitOfWork<'_>,
        failure: &RoleFailure,
        cost: MicroUsd,
        plan: Option<PlanId>,
    ) -> Result<AttemptResult, OperationError> {
        let (outcome, reason) = match failure {
            RoleFailure::Environment(reason) => {
                (AttemptOutcome::EnvironmentFailure, reason.clone())
            }
            RoleFailure::Limit(reason) => (AttemptOutcome::LimitReached, reason.clone()),
            RoleFailure::NoResult(reason) => (AttemptOutcome::FailedGates, reason.clone()),
            RoleFailure::Cancelled => (
                AttemptOutcome::Cancelled,
                "the attempt was cancelled".to_owned(),
            ),
            RoleFailure::Blocked(reason) => {
                // It leaves the queue until the user has answered.
                self.move_item(unit, WorkItemState::NeedsPerson, Some(reason.clone()))?;
                (AttemptOutcome::Blocked, reason.clone())
            }
        };
        Ok(AttemptResult {
            plan,
            ..AttemptResult::bare(outcome, Some(reason), cost)
        })
    }

    /// The evidence with the gates and the regression rule that the pool and the item require. A role cannot relax them.
    fn with_requirements(&self, evidence: &AttemptEvidence) -> AttemptEvidence {
        let mut evidence = evidence.clone();
        for gate in &self.dispatch.pool.outcomes.required_gates {
            if !evidence.required_gates.contains(gate) {
                evidence.required_gates.push(gate.clone());
            }
        }
        evidence.fixes_base = self.item.priority == Priority::CiBlocker;
        evidence.regression_rule = match self.dispatch.role() {
            PoolRole::Capture => RegressionRule::FailsOnBase,
            _ if self.item.is_captured => RegressionRule::FailsOnBaseAndPassesOnHead,
            _ => evidence.regression_rule,
        };
        evidence
    }

    fn change(
        &self,
        unit: &mut UnitOfWork<'_>,
        evidence: &AttemptEvidence,
        plan: Option<PlanId>,
    ) -> Result<AttemptResult, OperationError> {
        let evidence = self.with_requirements(evidence);
        let outcome = AttemptOutcome::from_evidence(&evidence);
        let reason = evidence.reason();
        match outcome {
            AttemptOutcome::Succeeded => self.accept_change(unit, &evidence, plan)?,
            AttemptOutcome::RedBase => self.report_red_base(unit, &evidence)?,
            AttemptOutcome::Blocked => {
                self.move_item(unit, WorkItemState::NeedsPerson, reason.clone())?;
            }
            _ => {}
        }
        Ok(AttemptResult {
            outcome,
            reason,
            base: evidence.base,
            head: Some(evidence.head),
            plan,
            gates: evidence.gates,
            regression: evidence.regression,
            summary: evidence.summary,
            cost: MicroUsd(evidence.cost_micro_usd),
        })
    }

    fn accept_change(
        &self,
        unit: &mut UnitOfWork<'_>,
        evidence: &AttemptEvidence,
        plan: Option<PlanId>,
    ) -> Result<(), OperationError> {
        if self.dispatch.role() == PoolRole::Capture {
            if self.move_item(unit, WorkItemState::Captured, None)? {
                work_items::set_captured(unit, self.item.id)?;
            }
            return Ok(());
        }
        if self.move_item(unit, WorkItemState::InReview, None)? {
            let change = OpenChange {
                pool: self.dispatch.pool.name.clone(),
                plan,
                head: Some(evidence.head.clone()),
            };
            work_items::set_change(unit, self.item.id, &change)?;
        }
        Ok(())
    }

    /// Records a base that fails its gates, and opens one item for its fix.
    fn report_red_base(
        &self,
        unit: &mut UnitOfWork<'_>,
        evidence: &AttemptEvidence,
    ) -> Result<(), OperationError> {
        record_base(
            unit,
            &self.item.project,
            evidence.base.as_deref(),
            &evidence.failing_on_base,
            &self.dispatch.pool.name,
        )
    }

    fn review(
        &self,
        unit: &mut UnitOfWork<'_>,
        verdict: &ReviewVerdict,
        head: &str,
        cost: MicroUsd,
        plan: Option<PlanId>,
    ) -> Result<AttemptResult, OperationError> {
        let change = self.item.change.as_ref();
        if change.and_then(|change| change.head.as_deref()) != Some(head) {
            return Ok(refused(
                format!("the review covers `{head}`, which is not the current head of the change"),
                cost,
            ));
        }
        if !verdict.is_usable() {
            return Ok(refused(
                "the review requests changes without naming one",
                cost,
            ));
        }
        let limit = self.dispatch.pool.outcomes.blocking_severity;
        let approves = verdict.approves(limit);
        let review = StoredReview {
            item: self.item.id,
            head: head.to_owned(),
            profile: self.dispatch.pool.name.clone(),
            attempt: self.dispatch.attempt.id,
            actor: self.dispatch.attempt.actor.clone(),
            verdict: verdict.clone(),
            approves,
            reviewed_at: unit.now(),
        };
        // An unchanged state is reviewed once; a second verdict changes nothing.
        if attempts::insert_review(unit, &review, &self.item.project)? {
            if approves {
                self.move_item(unit, WorkItemState::Approved, None)?;
            } else {
                let blocking = verdict.blocking(limit).count();
                let reason = format!("the review has {}", counted(blocking, "blocking finding"));
                self.move_item(unit, WorkItemState::InProgress, Some(reason))?;
            }
        }
        Ok(AttemptResult {
            head: Some(head.to_owned()),
            summary: verdict.summary.clone(),
            ..succeeded(cost, plan)
        })
    }

    fn merge(
        &self,
        unit: &mut UnitOfWork<'_>,
        outcome: &MergeOutcome,
        cost: MicroUsd,
        plan: Option<PlanId>,
    ) -> Result<AttemptResult, OperationError> {
        match outcome {
            MergeOutcome::Merged { commit } => {
                let reason = format!("merged as {commit}");
                self.move_item(unit, WorkItemState::Completed, Some(reason))?;
                if self.item.priority == Priority::CiBlocker {
                    let project = &self.item.project;
                    record_base(unit, project, Some(commit), &[], &self.dispatch.pool.name)?;
                }
                Ok(AttemptResult {
                    head: Some(commit.clone()),
                    ..succeeded(cost, plan)
                })
            }
            MergeOutcome::Refused { failing } => {
                let reason = format!("the merge was refused: {}", failing.join(", "));
                self.move_item(unit, WorkItemState::InProgress, Some(reason.clone()))?;
                Ok(AttemptResult {
                    plan,
                    ..refused(reason, cost)
                })
            }
            MergeOutcome::Conflict { paths } => {
                let reason = format!("the change conflicts with the base: {}", paths.join(", "));
                self.move_item(unit, WorkItemState::InProgress, Some(reason.clone()))?;
                Ok(AttemptResult {
                    plan,
                    ..AttemptResult::bare(AttemptOutcome::Blocked, Some(reason), cost)
                })
            }
            MergeOutcome::NeedsApproval { reason } => {
                self.fail(unit, &RoleFailure::Blocked(reason.clone()), cost, plan)
            }
        }
    }
}
