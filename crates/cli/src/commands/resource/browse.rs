//! Lists, shows, draws and inspects resources.

use cleveragents_application::Presence;
use cleveragents_application::resource_operations::{
    InspectResource, ListResources, ResourceLink, ResourceNode, ShowResource, ShowResourceTree,
};

use super::{resource_panel, sandbox_cell};
use crate::commands::{counted, yes_no};
use crate::context::Context;
use crate::output::{Align, Cell, CommandError, Panel, Report, Table};

pub(super) fn list(
    context: &Context,
    type_name: Option<String>,
    project: Option<String>,
) -> Result<Report, CommandError> {
    let is_filtered = type_name.is_some() || project.is_some();
    let listed = context.call(ListResources { type_name, project })?;
    let mut table = Table::new("Resources")
        .column("Name", Align::Left)
        .column("Type", Align::Left)
        .column("Sandbox", Align::Left)
        .column("Read-only", Align::Left)
        .column("Location", Align::Left)
        .keep(["Name", "Type"])
        .shorten(["Location"])
        .drop_first(["Read-only", "Sandbox"])
        .empty(if is_filtered {
            "No resource matches"
        } else {
            "No resources. Register one with `agents resource add`"
        });
    for resource in &listed.resources {
        table = table.row(vec![
            resource.name.clone().into(),
            resource.type_name.clone().into(),
            sandbox_cell(resource.sandbox_strategy),
            yes_no(resource.read_only).into(),
            resource.location.clone().into(),
        ]);
    }
    let count = listed.resources.len();
    Ok(Report::new("resource list")
        .data(listed)
        .table(table)
        .ok(format!("{} listed", counted(count, "resource"))))
}

fn links_table(title: &str, links: &[ResourceLink]) -> Table {
    let table = Table::new(title)
        .column("Name", Align::Left)
        .column("Type", Align::Left)
        .column("Discovered", Align::Left);
    table.rows(links.iter().map(|link| {
        vec![
            link.name.clone().into(),
            link.type_name.clone().into(),
            yes_no(link.auto_discovered).into(),
        ]
    }))
}

pub(super) fn show(context: &Context, reference: String) -> Result<Report, CommandError> {
    let shown = context.call(ShowResource { reference })?;
    let mut report =
        Report::new("resource show").panel(resource_panel("Resource", &shown.resource));
    if !shown.parents.is_empty() {
        report = report.table(links_table("Parents", &shown.parents));
    }
    if !shown.children.is_empty() {
        report = report.table(links_table("Children", &shown.children));
    }
    if !shown.projects.is_empty() {
        let table = Table::new("Projects")
            .column("Name", Align::Left)
            .column("Alias", Align::Left)
            .column("Read-only", Align::Left);
        report = report.table(table.rows(shown.projects.iter().map(|project| {
            vec![
                project.name.clone().into(),
                project.alias.clone().into(),
                yes_no(project.read_only).into(),
            ]
        })));
    }
    if shown.type_chain.is_none() {
        let name = &shown.resource.type_name;
        report = report.warn(format!("Its type {name} no longer exists"));
    }
    Ok(report.data(shown).ok("Resource shown"))
}

pub(super) fn inspect(context: &Context, reference: String) -> Result<Report, CommandError> {
    let inspected = context.call(InspectResource { reference })?;
    let presence = match inspected.presence {
        Presence::File => Cell::Good("file".to_owned()),
        Presence::Folder => Cell::Good("folder".to_owned()),
        Presence::Other => Cell::Warn("neither file nor folder".to_owned()),
        Presence::Missing => Cell::Bad("nothing".to_owned()),
        Presence::Unknown => Cell::Muted("not checked".to_owned()),
    };
    let resource = &inspected.resource;
    let mut panel = Panel::new("Current State")
        .row("Name", resource.name.clone())
        .row("Type", resource.type_name.clone())
        .row("Location", resource.location.clone())
        .row("On disk", presence)
        .row("Changed", inspected.modified);
    if let Some(size) = inspected.size {
        panel = panel.row("Size", Cell::Bytes(size));
    }
    if let Some(git) = &inspected.git {
        panel = panel
            .row("Branch", git.branch.clone())
            .row("Commit", git.commit.clone())
            .row("Uncommitted changes", git.dirty);
    }
    let mut report = Report::new("resource inspect").panel(panel);
    for warning in &inspected.warnings {
        report = report.warn(warning.clone());
    }
    Ok(report.data(inspected).ok("Resource inspected"))
}

pub(super) fn tree(
    context: &Context,
    reference: Option<String>,
    type_name: Option<String>,
) -> Result<Report, CommandError> {
    let tree = context.call(ShowResourceTree {
        reference,
        type_name,
    })?;
    let mut lines = Vec::new();
    for root in &tree.tree {
        draw(root, "", "", &mut lines);
    }
    let count = lines.len();
    let report = Report::new("resource tree").data(tree);
    let report = if lines.is_empty() {
        report
    } else {
        report.text(lines.join("\n"))
    };
    Ok(report.ok(format!("{} drawn", counted(count, "resource"))))
}

/// Appends one line for the resource and one for each of its descendants.
fn draw(node: &ResourceNode, branch: &str, trunk: &str, lines: &mut Vec<String>) {
    let repeated = if node.repeated { " (as above)" } else { "" };
    lines.push(format!(
        "{branch}{} ({}){repeated}",
        node.name, node.type_name
    ));
    let last = node.children.len().saturating_sub(1);
    for (index, child) in node.children.iter().enumerate() {
        let (turn, line) = if index == last {
            ("└── ", "    ")
        } else {
            ("├── ", "│   ")
        };
        draw(
            child,
            &format!("{trunk}{turn}"),
            &format!("{trunk}{line}"),
            lines,
        );
    }
}
