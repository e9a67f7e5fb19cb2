//! Removes resources, and links them as children.

use cleveragents_application::resource_operations::{
    LinkChild, ParentAndChild, RemoveResource, ShowResource, UnlinkChild,
};

use crate::arguments::Deletion;
use crate::commands::counted;
use crate::context::Context;
use crate::output::{CommandError, Panel, Report};

pub(super) fn remove(
    context: &Context,
    reference: String,
    deletion: Deletion,
) -> Result<Report, CommandError> {
    let shown = context.call(ShowResource { reference })?;
    let question = format!("Remove resource {}? Its files stay.", shown.resource.name);
    deletion.confirm(&question)?;
    // Removes by id, because the name may belong to another resource by now.
    let removed = context.call(RemoveResource {
        reference: shown.resource.id.to_string(),
        yes: true,
        dry_run: deletion.dry_run(),
    })?;
    let summary = &removed.removal_summary;
    let discovered_children = summary.discovered_removed.len();
    let report = Report::new("resource remove")
        .panel(
            Panel::new("Removal Summary")
                .row("Resource", summary.resource.clone())
                .row("Discovered children", discovered_children),
        )
        .data(removed);
    let count = counted(discovered_children + 1, "resource");
    Ok(deletion.conclude(report, format!("{count} removed; files are unchanged")))
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
