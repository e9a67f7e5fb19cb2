//! Runs the triage of an item and converts its decision to the stored types.

use cleveragents_domain::identity::Namespaces;
use cleveragents_domain::{
    Moscow, Priority, ReasonedValue, StoryPoints, TriageDecision, TriageVerdict, WorkItemKind,
    WorkItemState,
};
use cleveragents_store::work_items::{self, ItemFilter};

use super::change_report::{failed_report, stopped};
use super::driver::RoleDriver;
use super::runner::{PlanRoleRunner, actor, brief};
use super::triage::{ReportedTriage, TriageRequest};
use crate::operation::OperationError;
use crate::pool::{Dispatch, RoleFailure, RoleReport};

/// Other items of a project, as a triage sees them.
struct TriageContext {
    /// Ids and titles.
    candidates: Vec<(String, String)>,
    milestones: Vec<String>,
}

impl PlanRoleRunner {
    pub(super) fn triage(
        &self,
        driver: &RoleDriver<'_>,
        dispatch: &Dispatch,
    ) -> Result<RoleReport, OperationError> {
        let item = brief(dispatch);
        let context = self.triage_context(dispatch)?;
        let (plan, triaged) = driver.triage(&TriageRequest {
            project: &dispatch.item.project,
            item: &item,
            candidates: &context.candidates,
            milestones: &context.milestones,
            labels: &dispatch.pool.outcomes.labels,
            actor: actor(dispatch),
            max_cost: Some(dispatch.budget()),
        })?;
        let decision = match triaged {
            Err(stop) => return Ok(stopped(stop, &plan)),
            Ok(triage) => triage.and_then(decision_of),
        };
        Ok(match decision {
            Ok(decision) => RoleReport::Triage {
                decision,
                cost: plan.usage.cost_micro_usd,
                plan: Some(plan.id),
            },
            Err(reason) => failed_report(RoleFailure::NoResult(reason), Some(&plan)),
        })
    }

    /// The items of the project with the same path, and the milestones of its open items; the number of both is limited.
    fn triage_context(&self, dispatch: &Dispatch) -> Result<TriageContext, OperationError> {
        const CANDIDATES: u64 = 200;
        const SHOWN: usize = 10;
        let filter = ItemFilter {
            project: Some(dispatch.item.project.clone()),
            visible: Namespaces::All,
            ..ItemFilter::default()
        };
        let items = self
            .engine
            .read(|reader| work_items::page(reader, &filter, None, CANDIDATES))?;
        let path = dispatch
            .item
            .location
            .as_ref()
            .map(|location| location.path.as_str());
        let candidates = items
            .iter()
            .filter(|item| item.id != dispatch.item.id && item.kind != WorkItemKind::Task)
            .filter(|item| item.state != WorkItemState::Duplicate)
            .filter(|item| {
                path.is_some()
                    && item
                        .location
                        .as_ref()
                        .map(|location| location.path.as_str())
                        == path
            })
            .take(SHOWN)
            .map(|item| (item.id.to_string(), item.title.clone()))
            .collect();
        let mut milestones: Vec<String> = items
            .iter()
            .filter_map(|item| item.milestone.clone())
            .collect();
        milestones.sort_unstable();
        milestones.dedup();
        Ok(TriageContext {
            candidates,
            milestones,
        })
    }
}

/// Converts a triage to the stored types. The error names a value that does not exist.
fn decision_of(triage: ReportedTriage) -> Result<TriageDecision, String> {
    let reasoned = |reason: &str| reason.to_owned();
    let unknown = |what: &str, value: &str| format!("`{value}` is not a {what}");
    let state = triage.state;
    let verdict = match state.value.as_str() {
        "verified" => TriageVerdict::Accept,
        "wont_do" => TriageVerdict::Reject,
        "needs_person" => TriageVerdict::AskPerson {
            question: state.reason.clone(),
        },
        "duplicate" => {
            let of = triage.duplicate_of.unwrap_or_default();
            TriageVerdict::Duplicate {
                of: of.parse().map_err(|_| unknown("work item", &of))?,
            }
        }
        other => return Err(unknown("state of a triage", other)),
    };
    let priority = Priority::from_stored(&triage.priority.value)
        .ok_or_else(|| unknown("priority", &triage.priority.value))?;
    let moscow = Moscow::from_stored(&triage.moscow.value)
        .ok_or_else(|| unknown("MoSCoW category", &triage.moscow.value))?;
    let points =
        StoryPoints::new(u32::from(triage.points.value)).map_err(|error| error.to_string())?;
    let milestone = triage.milestone.value.map(|value| ReasonedValue {
        value,
        reason: triage.milestone.reason.clone(),
    });
    Ok(TriageDecision {
        verdict: ReasonedValue {
            value: verdict,
            reason: state.reason,
        },
        kind: None,
        priority: Some(ReasonedValue {
            value: priority,
            reason: reasoned(&triage.priority.reason),
        }),
        milestone,
        points: Some(ReasonedValue {
            value: points,
            reason: reasoned(&triage.points.reason),
        }),
        moscow: Some(ReasonedValue {
            value: moscow,
            reason: reasoned(&triage.moscow.reason),
        }),
        labels: (!triage.labels.is_empty()).then(|| ReasonedValue {
            value: triage.labels,
            reason: "known labels of the project".to_owned(),
        }),
    })
}
