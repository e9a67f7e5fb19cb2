//! [`ItemRun`]: takes one work item through the roles in the foreground, for one user without a worker.
//!
//! Each attempt is claimed with the lease and the row that a worker would use, so that a worker and this command never
//! attempt one item together.

use std::fmt::Write as _;
use std::sync::Arc;

use cleveragents_domain::{
    Attempt, AttemptId, AttemptOutcome, CODE_TIER, Code, MergeOutcome, MicroUsd, NewWorkItem,
    NextAttempt, OpenChange, PastAttempt, PoolDefinition, PoolRole, StoredReview, Tier,
    TransitionCause, TriageDecision, TriageVerdict, WorkItem, WorkItemId, WorkItemKind,
    WorkItemState,
};
use cleveragents_process::Cancel;
use cleveragents_store::attempts::{AttemptResult as StoredResult, NewAttempt};
use cleveragents_store::work_items::{ChangeOrigin, FiledFinding};
use cleveragents_store::{Engine, Error, UnitOfWork, attempts, leases, work_items};

use crate::lease::LeaseService;
use crate::operation::OperationError;
use crate::pool::{Dispatch, RoleFailure, RoleReport, RoleRunner, item_lease};

/// Runs roles on one item after the other.
pub(crate) struct ItemRun<'a> {
    pub(crate) engine: Arc<Engine>,
    pub(crate) runner: &'a dyn RoleRunner,
    pub(crate) cancel: &'a Cancel,
}

/// A finding of a hunt, as it was filed.
#[derive(Debug, Clone)]
pub(crate) struct FiledReport {
    pub(crate) item: WorkItemId,
    pub(crate) is_new: bool,
}

/// The result of an attempt.
pub(crate) struct ItemAttempt {
    pub(crate) attempt: Attempt,
    pub(crate) item: WorkItem,
    /// The findings of a hunt.
    pub(crate) filed: Vec<FiledReport>,
}

/// The end of a step of an item.
pub(crate) enum ItemStep {
    Attempted(Box<ItemAttempt>),
    /// No tier is left, so that a user decides.
    GivenUp(String),
}

impl ItemRun<'_> {
    /// The item with an id.
    pub(crate) fn item(&self, id: WorkItemId) -> Result<WorkItem, OperationError> {
        let found = self.engine.read(|reader| work_items::get(reader, id))?;
        found.ok_or_else(|| {
            let message = format!("the work item {id} does not exist");
            OperationError::new(Code::WorkItemNotFound, message)
        })
    }

    /// Makes one attempt of a role on an item.
    pub(crate) fn attempt(
        &self,
        pool: &Arc<PoolDefinition>,
        id: WorkItemId,
    ) -> Result<ItemStep, OperationError> {
        let leases = LeaseService::new(Arc::clone(&self.engine));
        let held = leases.acquire(item_lease(id, pool.role), pool.limits.lease_ttl)?;
        let stop = self.cancel.child();
        let _guard = held.guard(&stop);
        let fence = (held.subject().clone(), held.token());
        let (claimed, subject) = (Arc::clone(pool), fence.clone());
        let claim = self.engine.write(move |unit| {
            leases::require(unit, &subject.0, subject.1)?;
            claim(unit, &claimed, id, &subject)
        })?;
        let dispatch = match claim {
            Ok(dispatch) => *dispatch,
            Err(reason) => return Ok(ItemStep::GivenUp(reason)),
        };
        let report = match self.runner.run(&dispatch, &stop) {
            Ok(report) => report,
            Err(error) => RoleReport::Failed {
                failure: RoleFailure::Environment(error.to_string()),
                cost: MicroUsd(0),
                plan: None,
            },
        };
        let attempt = dispatch.attempt.id;
        let filed = self.engine.write(move |unit| {
            leases::require(unit, &fence.0, fence.1)?;
            settle(unit, &dispatch, &report)
        })?;
        held.release()?;
        let attempt = self.engine.read(|reader| attempts::get(reader, attempt))?;
        let attempt = attempt.ok_or_else(|| OperationError::internal("an attempt is missing"))?;
        Ok(ItemStep::Attempted(Box::new(ItemAttempt {
            attempt,
            item: self.item(id)?,
            filed,
        })))
    }
}

/// Claims an attempt: stores its row, and moves the item. The inner error is the reason why no attempt is left.
fn claim(
    unit: &mut UnitOfWork<'_>,
    pool: &Arc<PoolDefinition>,
    id: WorkItemId,
    fence: &crate::lease::Fence,
) -> Result<Result<Box<Dispatch>, String>, OperationError> {
    let missing = || OperationError::new(Code::WorkItemNotFound, format!("the work item {id} does not exist"));
    let mut item = work_items::get(unit, id)?.ok_or_else(missing)?;
    if !pool.takes(&item) {
        let message = format!("the work item {id} is {}; the role {} does not take it", item.state, pool.role);
        return Err(OperationError::new(Code::WorkItemTransition, message));
    }
    let earlier = attempts::of_item(unit, id)?;
    let past: Vec<PastAttempt> = earlier.iter().map(PastAttempt::from).collect();
    let tier = if pool.tiers.is_empty() {
        Tier { name: CODE_TIER.to_owned(), actor: CODE_TIER.to_owned() }
    } else {
        match pool.tier_rule().next(pool.role, item.round, &past) {
            NextAttempt::Run { tier, .. } => tier,
            NextAttempt::GiveToPerson { reason, .. } => {
                let origin = origin(pool, TransitionCause::Rule).because(&reason);
                work_items::transition(unit, &item, WorkItemState::NeedsPerson, &origin)?;
                return Ok(Err(reason));
            }
        }
    };
    let new = NewAttempt {
        id: AttemptId::generate(),
        item: id,
        project: item.project.clone(),
        pool: pool.name.clone(),
        role: pool.role,
        round: item.round,
        tier: tier.name.clone(),
        actor: tier.actor.clone(),
        token: fence.1,
        reserved: pool.budgets.attempt,
    };
    if attempts::insert(unit, &new)?.is_none() {
        let message = format!("another attempt on the work item {id} runs");
        return Err(OperationError::new(Code::WorkItemBusy, message));
    }
    if pool.role == PoolRole::Fix && item.state != WorkItemState::InProgress {
        let to = WorkItemState::InProgress;
        work_items::transition(unit, &item, to, &origin(pool, TransitionCause::Role))?;
        let change = OpenChange { pool: pool.name.clone(), plan: None, head: None };
        work_items::set_change(unit, id, &change)?;
        item = work_items::get(unit, id)?.ok_or_else(missing)?;
    }
    let attempt = attempts::get(unit, new.id)?
        .ok_or_else(|| OperationError::internal("an attempt is missing after its insertion"))?;
    Ok(Ok(Box::new(Dispatch {
        pool: Arc::clone(pool),
        reviews: attempts::reviews(unit, id)?,
        sightings: work_items::sightings(unit, id)?,
        item,
        tier,
        attempt,
        lease: fence.clone(),
        earlier,
    })))
}

fn origin(pool: &PoolDefinition, cause: TransitionCause) -> ChangeOrigin {
    ChangeOrigin::new(cause, pool.name.clone())
}

/// Stores the result of an attempt and moves its item.
fn settle(
    unit: &mut UnitOfWork<'_>,
    dispatch: &Dispatch,
    report: &RoleReport,
) -> Result<Vec<FiledReport>, OperationError> {
    let item = work_items::get(unit, dispatch.item.id)?.unwrap_or_else(|| dispatch.item.clone());
    let result = stored_result(dispatch, report);
    let succeeded = result.outcome == AttemptOutcome::Succeeded;
    let is_running = attempts::finish(unit, &dispatch.attempt, &item.project, &result)?;
    if !is_running {
        return Err(OperationError::new(Code::LeaseLost, "the attempt has ended already"));
    }
    let mut filed = Vec::new();
    let to = match report {
        RoleReport::Findings { findings, plan, .. } => {
            for finding in findings {
                filed.extend(file(unit, dispatch, finding, *plan)?);
            }
            Some((WorkItemState::Completed, None))
        }
        RoleReport::Triage { decision, .. } => Some(triaged(unit, dispatch, &item, decision)?),
        RoleReport::Change { .. } if !succeeded => None,
        RoleReport::Change { evidence, plan } => {
            if dispatch.role() == PoolRole::Capture {
                work_items::set_captured(unit, item.id)?;
                Some((WorkItemState::Captured, None))
            } else {
                let change = OpenChange {
                    pool: dispatch.pool.name.clone(),
                    plan: *plan,
                    head: Some(evidence.head.clone()),
                };
                work_items::set_change(unit, item.id, &change)?;
                Some((WorkItemState::InReview, None))
            }
        }
        RoleReport::Review { verdict, head, .. } => {
            let blocking = dispatch.pool.outcomes.blocking_severity;
            let is_current = item.change.as_ref().and_then(|change| change.head.as_ref()) == Some(head);
            let approves = is_current && verdict.approves(blocking);
            let review = StoredReview {
                item: item.id,
                head: head.clone(),
                profile: dispatch.pool.name.clone(),
                attempt: dispatch.attempt.id,
                actor: dispatch.tier.actor.clone(),
                verdict: verdict.clone(),
                approves,
                reviewed_at: unit.now(),
            };
            attempts::insert_review(unit, &review, &item.project)?;
            if approves {
                Some((WorkItemState::Approved, None))
            } else if verdict.blocks(blocking) {
                Some((WorkItemState::InProgress, Some("the review blocks".to_owned())))
            } else {
                let reason = "the review requests changes without a blocking finding";
                Some((WorkItemState::NeedsPerson, Some(reason.to_owned())))
            }
        }
        RoleReport::Merge { outcome, .. } => match outcome {
            MergeOutcome::Merged { .. } => Some((WorkItemState::Completed, None)),
            MergeOutcome::Conflict { paths } => {
                let reason = format!("it conflicts with the base in {}", paths.join(", "));
                Some((WorkItemState::InProgress, Some(reason)))
            }
            MergeOutcome::Refused { .. } | MergeOutcome::NeedsApproval { .. } => None,
        },
        RoleReport::Failed { .. } => None,
    };
    if let Some((state, reason)) = to {
        let mut origin = origin(&dispatch.pool, TransitionCause::Role);
        if let Some(reason) = reason {
            origin = origin.because(&reason);
        }
        let current = work_items::get(unit, item.id)?.unwrap_or(item);
        let may_move = state == WorkItemState::NeedsPerson || dispatch.role().can_move(current.state, state);
        if may_move {
            work_items::transition(unit, &current, state, &origin)?;
        }
    }
    Ok(filed)
}

/// Files a finding: as a new item, as a sighting, or, below the limit of confidence, only as a sighting of a known item
/// of the same file.
fn file(
    unit: &mut UnitOfWork<'_>,
    dispatch: &Dispatch,
    finding: &cleveragents_domain::Finding,
    plan: Option<cleveragents_domain::PlanId>,
) -> Result<Option<FiledReport>, Error> {
    if finding.confidence < dispatch.pool.outcomes.minimum_confidence {
        return Ok(None);
    }
    let mut body = format!("{}\n\n## Evidence\n\n{}\n", finding.description, finding.evidence);
    let parts = [
        ("Expected", &finding.expected),
        ("Actual", &finding.actual),
        ("Suggested fix", &finding.suggested_fix),
    ];
    for (title, text) in parts {
        if let Some(text) = text {
            let _written = write!(body, "\n## {title}\n\n{text}\n");
        }
    }
    let new = NewWorkItem {
        body,
        labels: [finding.category.clone()].into(),
        ..NewWorkItem::new(dispatch.item.project.clone(), WorkItemKind::Bug, finding.title.clone())
    };
    let origin = origin(&dispatch.pool, TransitionCause::Role);
    let filed = work_items::file_finding(unit, &new, finding, plan, &origin)?;
    Ok(Some(FiledReport {
        item: filed.item(),
        is_new: matches!(filed, FiledFinding::New(_)),
    }))
}

/// Applies the fields of a triage. Returns the next state of the item.
fn triaged(
    unit: &mut UnitOfWork<'_>,
    dispatch: &Dispatch,
    item: &WorkItem,
    decision: &TriageDecision,
) -> Result<(WorkItemState, Option<String>), Error> {
    let mut changed = item.clone();
    if let Some(kind) = &decision.kind {
        changed.kind = kind.value;
    }
    if let Some(priority) = &decision.priority {
        changed.priority = priority.value;
    }
    if let Some(milestone) = &decision.milestone {
        changed.milestone = Some(milestone.value.clone());
    }
    if let Some(points) = &decision.points {
        changed.points = Some(points.value);
    }
    if let Some(moscow) = &decision.moscow {
        changed.moscow = Some(moscow.value);
    }
    if let Some(labels) = &decision.labels {
        changed.labels.extend(labels.value.iter().cloned());
    }
    work_items::update(unit, &changed, &dispatch.pool.name)?;
    let reason = Some(decision.verdict.reason.clone());
    Ok(match &decision.verdict.value {
        TriageVerdict::Accept => (WorkItemState::Verified, reason),
        TriageVerdict::Reject => (WorkItemState::WontDo, reason),
        TriageVerdict::Duplicate { of } => {
            work_items::set_duplicate_of(unit, item.id, *of)?;
            (WorkItemState::Duplicate, reason)
        }
        TriageVerdict::AskPerson { question } => (WorkItemState::NeedsPerson, Some(question.clone())),
    })
}

/// The stored result of a report.
fn stored_result(dispatch: &Dispatch, report: &RoleReport) -> StoredResult {
    let bare = |outcome, reason: Option<String>, cost, plan| StoredResult {
        plan,
        ..StoredResult::bare(outcome, reason, cost)
    };
    let succeeded = AttemptOutcome::Succeeded;
    match report {
        RoleReport::Findings { base, summary, cost, plan, .. } => StoredResult {
            base: base.clone(),
            summary: summary.clone(),
            ..bare(succeeded, None, *cost, *plan)
        },
        RoleReport::Triage { cost, plan, .. } => bare(succeeded, None, *cost, *plan),
        RoleReport::Change { evidence, plan } => StoredResult {
            base: evidence.base.clone(),
            head: Some(evidence.head.clone()),
            gates: evidence.gates.clone(),
            regression: evidence.regression.clone(),
            summary: evidence.summary.clone(),
            ..bare(
                AttemptOutcome::from_evidence(evidence),
                evidence.reason(),
                MicroUsd(evidence.cost_micro_usd),
                *plan,
            )
        },
        RoleReport::Review { head, cost, plan, .. } => StoredResult {
            head: Some(head.clone()),
            ..bare(succeeded, None, *cost, *plan)
        },
        RoleReport::Merge { outcome, cost, plan } => match outcome {
            MergeOutcome::Merged { commit } => StoredResult {
                head: Some(commit.clone()),
                ..bare(succeeded, None, *cost, *plan)
            },
            MergeOutcome::Refused { failing } => {
                let reason = format!("the merge was refused: {}", failing.join(", "));
                bare(AttemptOutcome::Blocked, Some(reason), *cost, *plan)
            }
            MergeOutcome::Conflict { paths } => {
                let reason = format!("conflicts: {}", paths.join(", "));
                bare(AttemptOutcome::Blocked, Some(reason), *cost, *plan)
            }
            MergeOutcome::NeedsApproval { reason } => {
                bare(AttemptOutcome::Blocked, Some(reason.clone()), *cost, *plan)
            }
        },
        RoleReport::Failed { failure, cost, plan } => {
            let (outcome, reason) = match failure {
                RoleFailure::Environment(reason) => (AttemptOutcome::EnvironmentFailure, reason.clone()),
                RoleFailure::Limit(reason) => (AttemptOutcome::LimitReached, reason.clone()),
                RoleFailure::Blocked(reason) => (AttemptOutcome::Blocked, reason.clone()),
                RoleFailure::Cancelled => (AttemptOutcome::Cancelled, "it was cancelled".to_owned()),
                RoleFailure::NoResult(reason) => (AttemptOutcome::FailedGates, reason.clone()),
            };
            let _role = dispatch.role();
            bare(outcome, Some(reason), *cost, *plan)
        }
    }
}
