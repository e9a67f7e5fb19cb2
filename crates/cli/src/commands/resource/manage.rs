//! Removing resources and putting them below one another.

use serde_json::json;

use crate::commands::{confirm, counted};
use crate::context::Context;
use crate::output::{CommandError, Panel, Report};

pub(super) fn remove(
    context: &Context,
    reference: &str,
    yes: bool,
) -> Result<Report, CommandError> {
    let resources = context.resources()?;
    let resource = resources.resolve(reference)?;
    confirm(
        context,
        &format!("Remove resource {}? Its files stay.", resource.name),
        yes,
    )?;
    // By id: whatever has this name by now, only what was asked about goes.
    let removed = resources.remove(&resource.id.to_string())?;
    let discovered: Vec<_> = removed
        .iter()
        .skip(1)
        .map(|resource| &resource.name)
        .collect();
    Ok(Report::new("resource remove")
        .data(json!({
            "removal_summary": {
                "resource": resource.name,
                "id": resource.id,
                "discovered_removed": discovered,
            },
        }))
        .panel(
            Panel::new("Removal Summary")
                .row("Resource", resource.name.to_string())
                .row("Discovered below it", discovered.len()),
        )
        .ok(format!(
            "{} removed; nothing was done to files",
            counted(removed.len(), "resource")
        )))
}

pub(super) fn link_child(
    context: &Context,
    parent: &str,
    child: &str,
) -> Result<Report, CommandError> {
    let (parent, child) = context.resources()?.link_child(parent, child)?;
    Ok(Report::new("resource link-child")
        .data(json!({"parent": parent.name, "child": child.name}))
        .panel(
            Panel::new("Link")
                .row("Parent", parent.name.to_string())
                .row("Child", child.name.to_string()),
        )
        .ok("Resource linked"))
}

pub(super) fn unlink_child(
    context: &Context,
    parent: &str,
    child: &str,
) -> Result<Report, CommandError> {
    let (parent, child) = context.resources()?.unlink_child(parent, child)?;
    Ok(Report::new("resource unlink-child")
        .data(json!({"parent": parent.name, "child": child.name}))
        .panel(
            Panel::new("Link")
                .row("Parent", parent.name.to_string())
                .row("Child", child.name.to_string()),
        )
        .ok("Resource unlinked"))
}
