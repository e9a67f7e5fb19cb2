//! The review role: another actor reviews the change of an attempt and gives a typed verdict.

use std::fmt::Write as _;

use cleveragents_domain::{
    MicroUsd, Plan, PlanReport, ReviewDecision, ReviewFinding, ReviewVerdict, Severity,
};
use serde::Deserialize;
use serde_json::Value;

use super::brief::{ItemBrief, data_block};
use super::driver::{RoleDriver, RolePlan, RoleStop, StopReason};
use super::sandbox_changes::change_state;
use crate::operation::OperationError;

/// Maximum size of the diff in a task, in bytes.
const SHOWN_PATCH: usize = 32_000;

/// A change to review.
pub(crate) struct ReviewRequest<'a> {
    pub(crate) project: &'a str,
    pub(crate) item: &'a ItemBrief,
    /// The plan whose change is reviewed.
    pub(crate) change: &'a Plan,
    /// The gates of the change in lines.
    pub(crate) evidence: &'a str,
    pub(crate) actor: Option<&'a str>,
    pub(crate) max_cost: Option<MicroUsd>,
}

/// A finding of a review, as a model reports it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct ReportedReviewFinding {
    severity: Severity,
    path: String,
    line: Option<u32>,
    description: String,
    evidence: String,
}

/// A verdict as a model reports it. The summary has no effect on the item.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct ReportedVerdict {
    verdict: ReviewDecision,
    summary: String,
    findings: Vec<ReportedReviewFinding>,
}

impl From<ReportedVerdict> for ReviewVerdict {
    fn from(reported: ReportedVerdict) -> Self {
        let finding = |found: ReportedReviewFinding| ReviewFinding {
            severity: found.severity,
            path: found.path,
            line: found.line,
            message: format!("{} ({})", found.description, found.evidence),
        };
        Self {
            decision: reported.verdict,
            findings: reported.findings.into_iter().map(finding).collect(),
            summary: reported.summary,
        }
    }
}

pub(crate) struct ReviewResult {
    pub(crate) verdict: ReviewVerdict,
    /// The state of the change that was reviewed.
    pub(crate) state: String,
}

impl RoleDriver<'_> {
    /// Reviews a change in a copy of its sandbox.
    pub(crate) fn review(
        &self,
        request: &ReviewRequest<'_>,
    ) -> Result<(Plan, Result<ReviewResult, RoleStop>), OperationError> {
        let (state, patch) = {
            let workspace = self.plans.open_workspace(request.change, self.cancel)?;
            let (view, diff) = workspace.net_diff()?;
            let temporary = view.folders().state();
            let mut patch = Vec::new();
            for part in &diff.parts {
                patch.extend(diff.patch(part, &temporary)?);
            }
            (
                change_state(&diff),
                String::from_utf8_lossy(&patch).into_owned(),
            )
        };
        let plan = self.create(&RolePlan {
            role: "review",
            task: review_task(request, &self.runtime.redactor().text(&patch)),
            report: Some(PlanReport::Verdict),
            project: request.project,
            actor: request.actor,
            max_cost: request.max_cost,
        })?;
        self.plans
            .fork_workspace(request.change, plan.id, self.cancel)?;
        let read = |report: Value| -> Result<ReviewVerdict, OperationError> {
            let reported: Result<ReportedVerdict, _> = serde_json::from_value(report);
            Ok(reported
                .map_err(|error| {
                    OperationError::internal("the report of a review cannot be read")
                        .caused_by(error)
                })?
                .into())
        };
        // The copy of the change must never be applied, so the plan is not ended by an apply.
        let reviewed = match self.execute(plan.id)? {
            Err(stop) => Err(stop),
            Ok(executed) => match self.plans.typed_report(&executed)? {
                Some(report) => Ok(read(report)?),
                None => Err(RoleStop {
                    reason: StopReason::NoResult,
                    message: "the reviewer gave no verdict".to_owned(),
                }),
            },
        };
        self.plans.cancel(plan.id, "the review is complete")?;
        self.plans.discard_workspace(&plan)?;
        let plan = self.plans.get(plan.id)?;
        Ok((
            plan,
            reviewed.map(|verdict| ReviewResult { verdict, state }),
        ))
    }
}

fn review_task(request: &ReviewRequest<'_>, patch: &str) -> String {
    let item = request.item;
    let mut task = format!(
        "Review the change for: {}\n\nThe item {} (data):\n{}",
        item.title,
        item.id,
        item.to_data()
    );
    let _written = write!(
        task,
        "\nChecks of the change:\n{}\n",
        request.evidence.trim_end()
    );
    let end = patch.floor_char_boundary(SHOWN_PATCH);
    let _written = write!(
        task,
        "\nThe diff (data):\n{}",
        data_block("diff", &patch[..end])
    );
    if end < patch.len() {
        let _written = writeln!(
            task,
            "The first {end} of {} bytes are shown. Read the rest in the files.",
            patch.len()
        );
    }
    task
}

#[cfg(test)]
mod tests {
    use cleveragents_domain::{ReviewVerdict, Severity};
    use serde_json::json;

    use super::ReportedVerdict;

    #[test]
    fn prose_never_approves() {
        let verdict = |verdict: &str, summary: &str, severity: Option<&str>| -> ReviewVerdict {
            let findings: Vec<_> = severity
                .map(|severity| {
                    json!({"severity": severity, "path": "a.py", "line": null, "description": "d", "evidence": "e"})
                })
                .into_iter()
                .collect();
            let report = json!({"verdict": verdict, "summary": summary, "findings": findings});
            let reported: ReportedVerdict = serde_json::from_value(report).expect("a verdict");
            reported.into()
        };
        let limit = Severity::High;
        assert!(verdict("approve", "fine", None).approves(limit));
        assert!(verdict("approve", "fine", Some("low")).approves(limit));
        assert!(!verdict("request_changes", "APPROVED. Merge it.", None).approves(limit));
        assert!(!verdict("approve", "approved", Some("high")).approves(limit));
    }
}
