//! [`store_result`]: the only place that turns a report into rows. Attempt, gates, cost, transition and events are stored
//! in one unit of work, which fails unless the dispatch still holds its lease.

use std::fmt::Write as _;
use std::sync::Arc;

use cleveragents_domain::{
    AttemptEvidence, AttemptOutcome, Code, Diagnose as _, Finding, Fingerprint, MergeOutcome,
    MicroUsd, NewWorkItem, OpenChange, PlanId, PoolDefinition, PoolRole, Priority, RegressionRule,
    ReviewVerdict, Severity, StoredReview, TransitionCause, TriageDecision, TriageVerdict,
    WorkItem, WorkItemKind, WorkItemState, checked_body, checked_labels, checked_title,
};
use cleveragents_store::attempts::AttemptResult;
use cleveragents_store::work_items::ChangeOrigin;
use cleveragents_store::{Engine, UnitOfWork, attempts, budgets, leases, pools, work_items};

use super::claim::{reservation, scopes};
use super::dispatch::{Dispatch, RoleFailure, RoleReport};
use crate::operation::OperationError;

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
    spend(unit, &dispatch.pool, &dispatch.attempt, result.cost)?;
    leases::release(unit, subject, *token)?;
    let after = work_items::get(unit, dispatch.item.id)?;
    Ok(StoredAttemptResult {
        outcome: result.outcome,
        reason: result.reason,
        cost: result.cost,
        state: after.map_or(storing.item.state, |item| item.state),
    })
}

/// Turns the reservations of an attempt into spending.
pub(super) fn spend(
    unit: &mut UnitOfWork<'_>,
    pool: &PoolDefinition,
    attempt: &cleveragents_domain::Attempt,
    cost: MicroUsd,
) -> Result<(), cleveragents_store::Error> {
    let id = reservation(attempt.id)?;
    for (scope, _) in scopes(pool, attempt.item, attempt.started_at) {
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
                let note = format!("{} findings", findings.len());
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

    /// Files a finding as a new item or as a sighting of an existing one. A finding below the confidence limit never
    /// becomes a new item.
    fn file(
        &self,
        unit: &mut UnitOfWork<'_>,
        finding: &Finding,
        plan: Option<PlanId>,
    ) -> Result<(), OperationError> {
        let pool = &self.dispatch.pool;
        if finding.confidence < pool.outcomes.minimum_confidence {
            work_items::record_sighting(unit, &pool.project, finding, plan)?;
            return Ok(());
        }
        let new = NewWorkItem {
            body: finding_body(finding),
            priority: match finding.severity {
                Severity::Critical => Priority::Critical,
                Severity::High => Priority::High,
                Severity::Medium => Priority::Medium,
                Severity::Low => Priority::Low,
            },
            labels: checked_labels([finding.category.as_str()]).unwrap_or_default(),
            milestone: self.item.milestone.clone(),
            parent: Some(self.item.id),
            ..NewWorkItem::new(
                &pool.project,
                WorkItemKind::Bug,
                checked_title(&finding.title).unwrap_or_else(|_| finding.location.path.clone()),
            )
        };
        work_items::file_finding(unit, &new, finding, plan, &self.origin(None))?;
        Ok(())
    }

    fn triage(
        &self,
        unit: &mut UnitOfWork<'_>,
        decision: &TriageDecision,
        cost: MicroUsd,
        plan: Option<PlanId>,
    ) -> Result<AttemptResult, OperationError> {
        let reason = decision.verdict.reason.clone();
        let to = match &decision.verdict.value {
            TriageVerdict::Accept => WorkItemState::Verified,
            TriageVerdict::Reject => WorkItemState::WontDo,
            TriageVerdict::AskPerson { question } => {
                self.move_item(unit, WorkItemState::NeedsPerson, Some(question.clone()))?;
                return Ok(succeeded(cost, plan));
            }
            TriageVerdict::Duplicate { of } => {
                let original = work_items::get(unit, *of)?;
                let is_valid = *of != self.item.id
                    && original.is_some_and(|original| {
                        original.project == self.item.project
                            && original.state != WorkItemState::Duplicate
                    });
                if !is_valid {
                    return Ok(refused(
                        format!(
                            "`{of}` cannot be the original: it is the item itself, a duplicate, or in another project"
                        ),
                        cost,
                    ));
                }
                work_items::set_duplicate_of(unit, self.item.id, *of)?;
                WorkItemState::Duplicate
            }
        };
        if self.item.state != self.dispatch.item.state {
            // The user has decided meanwhile.
            return Ok(succeeded(cost, plan));
        }
        if to == WorkItemState::Verified
            && let Err(refusal) = self.set_fields(unit, decision)?
        {
            return Ok(refused(refusal, cost));
        }
        self.move_item(unit, to, Some(reason))?;
        Ok(AttemptResult {
            summary: triage_reasons(decision),
            ..succeeded(cost, plan)
        })
    }

    /// Writes the fields of a triage. Refuses invalid fields without writing any; the inner error is the reason.
    fn set_fields(
        &self,
        unit: &mut UnitOfWork<'_>,
        decision: &TriageDecision,
    ) -> Result<Result<(), String>, OperationError> {
        let mut item = self.item.clone();
        if let Some(kind) = &decision.kind {
            item.kind = kind.value;
        }
        if let Some(priority) = &decision.priority {
            item.priority = priority.value;
        }
        if let Some(milestone) = &decision.milestone {
            item.milestone = Some(milestone.value.trim().to_owned());
        }
        if let Some(points) = &decision.points {
            item.points = Some(points.value);
        }
        if let Some(moscow) = &decision.moscow {
            item.moscow = Some(moscow.value);
        }
        if let Some(labels) = &decision.labels {
            let known = &self.dispatch.pool.outcomes.labels;
            let unknown: Vec<&str> = labels
                .value
                .iter()
                .filter(|label| !known.contains(label))
                .map(String::as_str)
                .collect();
            if !unknown.is_empty() {
                return Ok(Err(format!("unknown labels: {}", unknown.join(", "))));
            }
            item.labels.extend(labels.value.iter().cloned());
        }
        if work_items::update(unit, &item, &self.dispatch.pool.name)? {
            return Ok(Ok(()));
        }
        Ok(Err("the item was changed meanwhile".to_owned()))
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
                let reason = format!("the review has {blocking} blocking findings");
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

/// Records the failing gates of the base of a project. A failing base opens one item for its fix, even if the same
/// failure is found several times.
pub fn record_base(
    unit: &mut UnitOfWork<'_>,
    project: &str,
    commit: Option<&str>,
    failing_gates: &[String],
    by: &str,
) -> Result<(), OperationError> {
    pools::set_base(unit, project, commit, failing_gates)?;
    if failing_gates.is_empty() {
        return Ok(());
    }
    let mut gates = failing_gates.to_vec();
    gates.sort_unstable();
    let new = NewWorkItem {
        body: format!(
            "The base {} fails these gates without any change: {}.",
            commit.unwrap_or("(unknown commit)"),
            gates.join(", ")
        ),
        state: WorkItemState::Verified,
        priority: Priority::CiBlocker,
        severity: Some(Severity::Critical),
        fingerprint: Some(Fingerprint::new("", None, "red base", &gates.join(" "))),
        ..NewWorkItem::new(
            project,
            WorkItemKind::Bug,
            format!("The base fails its gates: {}", gates.join(", ")),
        )
    };
    // `None` means that the item is open already.
    work_items::insert(unit, &new, &ChangeOrigin::new(TransitionCause::Rule, by))?;
    Ok(())
}

fn finding_body(finding: &Finding) -> String {
    let location = &finding.location;
    let mut body = format!(
        "{}\n\nLocation: {}, lines {} to {}{}\n\n```\n{}\n```\n\nEvidence: {}\n",
        finding.description,
        location.path,
        location.line_start,
        location.line_end,
        location
            .symbol
            .as_ref()
            .map(|symbol| format!(" ({symbol})"))
            .unwrap_or_default(),
        location.quote,
        finding.evidence,
    );
    for (name, text) in [
        ("Expected", &finding.expected),
        ("Actual", &finding.actual),
        ("Suggested fix", &finding.suggested_fix),
    ] {
        if let Some(text) = text {
            // Writing to a string does not fail.
            let _ = write!(body, "\n{name}: {text}\n");
        }
    }
    checked_body(&body).unwrap_or_else(|_| finding.description.chars().take(10_000).collect())
}

/// The reasons of a triage, one line per field.
fn triage_reasons(decision: &TriageDecision) -> String {
    let mut lines = vec![format!("verdict: {}", decision.verdict.reason)];
    let mut add = |field: &str, reason: Option<&String>| {
        if let Some(reason) = reason {
            lines.push(format!("{field}: {reason}"));
        }
    };
    add("kind", decision.kind.as_ref().map(|field| &field.reason));
    add(
        "priority",
        decision.priority.as_ref().map(|field| &field.reason),
    );
    add(
        "milestone",
        decision.milestone.as_ref().map(|field| &field.reason),
    );
    add(
        "points",
        decision.points.as_ref().map(|field| &field.reason),
    );
    add(
        "moscow",
        decision.moscow.as_ref().map(|field| &field.reason),
    );
    add(
        "labels",
        decision.labels.as_ref().map(|field| &field.reason),
    );
    lines.join("\n")
}
