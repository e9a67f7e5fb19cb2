//! [`record_base`]: whether the base of a project passes its gates.

use cleveragents_domain::{
    Fingerprint, NewWorkItem, Priority, Severity, TransitionCause, WorkItemKind, WorkItemState,
};
use cleveragents_store::work_items::ChangeOrigin;
use cleveragents_store::{UnitOfWork, attempts, pools, work_items};

use crate::operation::OperationError;
use crate::tracker::mirror_item;

/// Records the failing gates of the base of a project. A failing base opens one item for its fix, even if the same
/// failure is found several times. The item names the last merge, which is the first suspect.
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
            "The base {} fails these gates without any change: {}.\n\n{}",
            commit.unwrap_or("(unknown commit)"),
            gates.join(", "),
            last_merge(unit, project)?
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
    let origin = ChangeOrigin::new(TransitionCause::Rule, by);
    // `None` means that the item is open already.
    if let Some(id) = work_items::insert(unit, &new, &origin)?
        && let Some(item) = work_items::get(unit, id)?
    {
        mirror_item(unit, &item)?;
    }
    Ok(())
}

/// The last merge of a project as a sentence.
fn last_merge(unit: &mut UnitOfWork<'_>, project: &str) -> Result<String, OperationError> {
    let Some(merge) = attempts::last_merge(unit, project)? else {
        return Ok("No pool has merged a change into it.".to_owned());
    };
    let plan = merge.plan.map(|plan| {
        format!(" It was applied by the plan {plan}, whose apply can be undone if it is the cause.")
    });
    Ok(format!(
        "The last merge is {} of the work item {}.{}",
        merge.head.as_deref().unwrap_or("(unknown commit)"),
        merge.item,
        plan.unwrap_or_default()
    ))
}
