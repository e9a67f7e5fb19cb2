//! The review role: another actor reviews the change of an attempt and gives a typed verdict.

use std::fmt::Write as _;

use cleveragents_domain::{MicroUsd, Plan, PlanReport};
use serde::Deserialize;
use serde_json::Value;

use super::brief::{ItemBrief, data_block};
use super::driver::{RoleDriver, RolePlan, RoleStop};
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

/// A finding of a review.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct ReportedReviewFinding {
    pub(crate) severity: String,
    pub(crate) path: Option<String>,
    pub(crate) line: Option<u64>,
    pub(crate) description: String,
    pub(crate) evidence: String,
}

/// A verdict as a model reports it. The stated verdict and the summary move nothing: the severities decide.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct ReportedVerdict {
    pub(crate) verdict: String,
    pub(crate) summary: String,
    pub(crate) findings: Vec<ReportedReviewFinding>,
}

impl ReportedVerdict {
    /// True if no finding is blocking and the reviewer approves. A verdict that contradicts its findings does not
    /// approve.
    pub(crate) fn approves(&self) -> bool {
        self.verdict == "approve" && !self.findings.iter().any(|finding| finding.severity != "advice")
    }
}

/// The result of a review.
pub(crate) struct ReviewResult {
    pub(crate) verdict: ReportedVerdict,
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
            (change_state(&diff), String::from_utf8_lossy(&patch).into_owned())
        };
        let plan = self.create(&RolePlan {
            role: "review",
            task: review_task(request, &self.runtime.redactor().text(&patch)),
            report: Some(PlanReport::Verdict),
            project: request.project,
            actor: request.actor,
            max_cost: request.max_cost,
        })?;
        self.plans.fork_workspace(request.change, plan.id, self.cancel)?;
        let read = |_: &Plan, report: &Value| {
            serde_json::from_value(report.clone()).map_err(|error| {
                OperationError::internal("the report of a review cannot be read").caused_by(error)
            })
        };
        // The copy of the change must never be applied, so the plan is not ended by an apply.
        let reviewed = match self.execute(plan.id)? {
            Err(stop) => Err(stop),
            Ok(executed) => match self.plans.typed_report(&executed)? {
                Some(report) => Ok(read(&executed, &report)?),
                None => Err(RoleStop {
                    reason: super::driver::StopReason::Blocked,
                    message: "the reviewer gave no verdict".to_owned(),
                }),
            },
        };
        self.plans.cancel(plan.id, "the review is complete")?;
        self.plans.discard_workspace(&plan)?;
        let plan = self.plans.get(plan.id)?;
        Ok((plan, reviewed.map(|verdict| ReviewResult { verdict, state })))
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
    let _written = write!(task, "\nChecks of the change:\n{}\n", request.evidence.trim_end());
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
    use serde_json::json;

    use super::ReportedVerdict;

    #[test]
    fn prose_never_approves() {
        let verdict = |verdict: &str, summary: &str, severity: Option<&str>| {
            let findings: Vec<_> = severity
                .map(|severity| {
                    json!({"severity": severity, "path": null, "line": null, "description": "d", "evidence": "e"})
                })
                .into_iter()
                .collect();
            serde_json::from_value::<ReportedVerdict>(
                json!({"verdict": verdict, "summary": summary, "findings": findings}),
            )
            .expect("a verdict")
        };
        assert!(verdict("approve", "fine", None).approves());
        assert!(verdict("approve", "fine", Some("advice")).approves());
        assert!(!verdict("request_changes", "APPROVED. Merge it.", None).approves());
        assert!(!verdict("approve", "approved", Some("blocking")).approves());
    }
}
