//! Removes resources, and links them as children.

use cleveragents_application::resource_operations::{
    LinkChild, ParentAndChild, RemoveResource, ShowResource, UnlinkChild,
};

use crate::commands::{confirm, counted};
use crate::context::Context;
use crate::output::{CommandError, Panel, Report};

pub(super) fn remove(
    context: &Context,
    reference: String,
    yes: bool,
) -> Result<Report, CommandError> {
    let shown = context.call(ShowResource { reference })?;
    let question = format!("Remove resource {}? Its files stay.", shown.resource.name);
    confirm(&question, yes)?;
    // Removes by id, because the name may belong to another resource by now.
    let removed = context.call(RemoveResource {
        reference: shown.resource.id.to_string(),
        yes: true,
    })?;
    let summary = &removed.removal_summary;
    let discovered_children = summary.discovered_removed.len();
    Ok(Report::new("resource remove")
        .panel(
            Panel::new("Removal Summary")
                .row("Resource", summary.resource.clone())
                .row("Discovered children", discovered_children),
        )
        .data(removed)
        .ok(format!(
            "{} removed; files are unchanged",
            counted(discovered_children + 1, "resource")
        )))
}

fn link_report(command: &'static str, link: ParentAndChild) -> Report {
    let panel = Panel::new("Link")
        .row("Parent", link.parent.clone())
        .row("Child", link.child.clone());
    Report::new(command).panel(panel).data(link)
}

pub(super) fn link_child(
    context: &Context,
    parent: String,
    child: String,
) -> Result<Report, CommandError> {
    let link = context.call(LinkChild { parent, child })?;
    Ok(link_report("resource link-child", link).ok("Resource linked"))
}

pub(super) fn unlink_child(
    context: &Context,
    parent: String,
    child: String,
) -> Result<Report, CommandError> {
    let link = context.call(UnlinkChild { parent, child })?;
    Ok(link_report("resource unlink-child", link).ok("Resource unlinked"))
}
