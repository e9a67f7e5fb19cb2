//! Files the findings of a hunt.

use std::fmt::Write as _;

use cleveragents_domain::{
    Finding, NewWorkItem, PlanId, Priority, Severity, WorkItemKind, checked_body, checked_labels,
    checked_title,
};
use cleveragents_store::work_items::FiledFinding;
use cleveragents_store::{UnitOfWork, work_items};

use super::ResultStorage;
use crate::operation::OperationError;
use crate::tracker::mirror_item;

impl ResultStorage<'_> {
    /// Files a finding as a new item or as a sighting of an existing one. A finding below the confidence limit never
    /// becomes a new item.
    pub(super) fn file(
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
        let filed = work_items::file_finding(unit, &new, finding, plan, &self.origin(None))?;
        if let FiledFinding::New(id) = filed
            && let Some(item) = work_items::get(unit, id)?
        {
            mirror_item(unit, &item)?;
        }
        Ok(())
    }
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
