//! `resource`: repositories, folders, databases and other things that plans work on.

mod add;
mod browse;
mod manage;
mod types;

use cleveragents_application::resource_operations::ResourceInfo;
use cleveragents_domain::SandboxStrategy;

use super::yes_no;
use crate::arguments::Resource as Command;
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report};

/// Commands that run as operations of the application, on this machine or on a server.
pub(crate) const OPERATIONS: &[&str] = &[
    "resource inspect",
    "resource link-child",
    "resource list",
    "resource remove",
    "resource show",
    "resource tree",
    "resource type list",
    "resource type show",
    "resource unlink-child",
];

/// Runs a resource command. `None` means that it wrote help to standard output.
pub(super) fn run(context: &Context, command: Command) -> Result<Option<Report>, CommandError> {
    let report = match command {
        Command::Add(arguments) => return add::run(context, &arguments),
        Command::List { type_name, project } => browse::list(context, type_name, project)?,
        Command::Show { resource } => browse::show(context, resource.reference)?,
        Command::Inspect { resource } => browse::inspect(context, resource.reference)?,
        Command::Tree {
            reference,
            type_name,
        } => browse::tree(context, reference, type_name)?,
        Command::Remove { resource, deletion } => {
            manage::remove(context, resource.reference, deletion)?
        }
        Command::LinkChild { parent, child } => manage::link_child(context, parent, child)?,
        Command::UnlinkChild { parent, child } => manage::unlink_child(context, parent, child)?,
        Command::Type(command) => types::run(context, command)?,
    };
    Ok(Some(report))
}

fn sandbox_cell(strategy: Option<SandboxStrategy>) -> Cell {
    Cell::from(strategy.map(SandboxStrategy::as_str))
}

fn resource_panel(title: &str, resource: &ResourceInfo) -> Panel {
    let panel = Panel::new(title)
        .row("Name", resource.name.clone())
        .row("Id", Cell::Id(resource.id.to_string()))
        .row("Type", resource.type_name.clone())
        .row("Location", resource.location.clone())
        .row("Description", resource.description.clone())
        .row("Sandbox", sandbox_cell(resource.sandbox_strategy))
        .row("Read-only", yes_no(resource.read_only))
        .row("Discovered", yes_no(resource.auto_discovered));
    // `path` and `url` are already shown as the location.
    let others = resource.properties.iter();
    others
        .filter(|(name, _)| !matches!(name.as_str(), "path" | "url"))
        .fold(panel, |panel, (name, value)| {
            let text = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            panel.row(name.clone(), text)
        })
}
