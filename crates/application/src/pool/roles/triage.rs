//! The triage role: decides about an item with typed values.

use std::fmt::Write as _;

use cleveragents_domain::{MicroUsd, Plan, PlanReport};
use serde::Deserialize;
use serde_json::Value;

use super::brief::{ItemBrief, data_block};
use super::driver::{RoleDriver, RolePlan, RoleStop};
use crate::operation::OperationError;

/// An item to triage.
pub(crate) struct TriageRequest<'a> {
    pub(crate) project: &'a str,
    pub(crate) item: &'a ItemBrief,
    /// Items that may have the same cause: id and title.
    pub(crate) candidates: &'a [(String, String)],
    /// The open milestones. Only these can be chosen.
    pub(crate) milestones: &'a [String],
    /// The known labels. Only these can be chosen.
    pub(crate) labels: &'a [String],
    pub(crate) actor: Option<&'a str>,
    pub(crate) max_cost: Option<MicroUsd>,
}

/// A decision with its reason.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct TriageValue<T> {
    pub(crate) value: T,
    pub(crate) reason: String,
}

/// The decisions about an item, as a model reports them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct ReportedTriage {
    pub(crate) state: TriageValue<String>,
    pub(crate) duplicate_of: Option<String>,
    pub(crate) priority: TriageValue<String>,
    pub(crate) milestone: TriageValue<Option<String>>,
    pub(crate) points: TriageValue<u8>,
    pub(crate) moscow: TriageValue<String>,
    pub(crate) labels: Vec<String>,
}

impl ReportedTriage {
    /// Reads a report and refuses values that do not exist: candidates, milestones and labels are never invented.
    pub(crate) fn read(report: &Value, request: &TriageRequest<'_>) -> Result<Self, String> {
        let triage: Self =
            serde_json::from_value(report.clone()).map_err(|error| error.to_string())?;
        if let Some(milestone) = &triage.milestone.value
            && !request.milestones.contains(milestone)
        {
            return Err(format!("the milestone `{milestone}` does not exist"));
        }
        let unknown = triage
            .labels
            .iter()
            .find(|label| !request.labels.contains(label));
        if let Some(label) = unknown {
            return Err(format!("the label `{label}` does not exist"));
        }
        let candidate = |id: &String| request.candidates.iter().any(|(known, _)| known == id);
        match (triage.state.value.as_str(), &triage.duplicate_of) {
            ("duplicate", None) => Err("a duplicate names the item that it duplicates".to_owned()),
            ("duplicate", Some(id)) if !candidate(id) => {
                Err(format!("`{id}` is not one of the candidates"))
            }
            ("duplicate", Some(_)) | (_, None) => Ok(triage),
            (state, Some(id)) => Err(format!(
                "`{id}` is named as original, but the state is {state}"
            )),
        }
    }
}

/// A triage, or the reason for which its report is refused.
type TriageResult = Result<ReportedTriage, String>;

impl RoleDriver<'_> {
    /// Triages an item. The inner error is a refused report.
    pub(crate) fn triage(
        &self,
        request: &TriageRequest<'_>,
    ) -> Result<(Plan, Result<TriageResult, RoleStop>), OperationError> {
        let plan = self.create(&RolePlan {
            role: "triage",
            task: triage_task(request),
            report: Some(PlanReport::Triage),
            project: request.project,
            actor: request.actor,
            max_cost: request.max_cost,
        })?;
        let triaged = self.report(plan.id, |_, report| {
            Ok(ReportedTriage::read(report, request))
        })?;
        let plan = self.plans.get(plan.id)?;
        Ok((plan, triaged.map(|(_, triage)| triage)))
    }
}

fn triage_task(request: &TriageRequest<'_>) -> String {
    let item = request.item;
    let mut task = format!(
        "Triage: {}\n\nThe item {} (data):\n{}",
        item.title,
        item.id,
        item.to_data()
    );
    let named = |names: &[String]| match names {
        [] => "none".to_owned(),
        names => names.join(", "),
    };
    let _written = writeln!(task, "\nOpen milestones: {}", named(request.milestones));
    let _written = writeln!(task, "Labels: {}", named(request.labels));
    if request.candidates.is_empty() {
        task.push_str("Candidates for a duplicate: none\n");
    } else {
        let candidates = request.candidates.iter();
        let lines: Vec<String> = candidates
            .map(|(id, title)| format!("{id}: {title}"))
            .collect();
        let _written = write!(
            task,
            "Candidates for a duplicate (data):\n{}",
            data_block("candidates", &lines.join("\n"))
        );
    }
    task
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{ItemBrief, ReportedTriage, TriageRequest};

    fn report(
        state: &str,
        duplicate: Option<&str>,
        milestone: Option<&str>,
        labels: &[&str],
    ) -> Value {
        json!({
            "report": "submit_triage",
            "state": {"value": state, "reason": "r"}, "duplicate_of": duplicate,
            "priority": {"value": "high", "reason": "r"}, "milestone": {"value": milestone, "reason": "r"},
            "points": {"value": 2, "reason": "r"}, "moscow": {"value": "must", "reason": "r"}, "labels": labels,
        })
    }

    #[test]
    fn invented_milestones_labels_and_originals_are_refused() {
        let (milestones, labels) = (["v1.2".to_owned()], ["race".to_owned()]);
        let candidates = [("01A".to_owned(), "cache".to_owned())];
        let item = ItemBrief::default();
        let request = TriageRequest {
            project: "local/p",
            item: &item,
            candidates: &candidates,
            milestones: &milestones,
            labels: &labels,
            actor: None,
            max_cost: None,
        };
        let read = |report: Value| ReportedTriage::read(&report, &request);
        assert!(read(report("verified", None, Some("v1.2"), &["race"])).is_ok());
        assert!(read(report("duplicate", Some("01A"), None, &[])).is_ok());
        for refused in [
            report("verified", None, Some("v9"), &[]),
            report("verified", None, None, &["urgent"]),
            report("duplicate", None, None, &[]),
            report("duplicate", Some("01B"), None, &[]),
            report("verified", Some("01A"), None, &[]),
        ] {
            assert!(read(refused.clone()).is_err(), "{refused}");
        }
    }
}
