//! Listing, showing and drawing resources, and looking at what is there.

use cleveragents_application::{Presence, ResourceFilter, TreeNode};
use cleveragents_domain::{InheritedType, Resource, SandboxStrategy};
use cleveragents_store::resources::Linked;
use serde_json::{Value, json};

use super::{resource_json, resource_panel, sandbox_cell};
use crate::commands::{counted, yes_no};
use crate::context::Context;
use crate::output::{Align, Cell, CommandError, Panel, Report, Table};

pub(super) fn list(
    context: &Context,
    type_name: Option<String>,
    project: Option<String>,
) -> Result<Report, CommandError> {
    let is_filtered = type_name.is_some() || project.is_some();
    let filter = ResourceFilter { type_name, project };
    let mut resources = context.resources()?.list(&filter)?;
    resources.retain(|(resource, _)| context.sees(&resource.name.to_string()));
    let listed: Vec<Value> = resources.iter().map(listed).collect();
    let mut table = Table::new("Resources")
        .column("Name", Align::Left)
        .column("Type", Align::Left)
        .column("Sandbox", Align::Left)
        .column("Read-only", Align::Left)
        .column("Location", Align::Left)
        .empty(if is_filtered {
            "No resource matches"
        } else {
            "No resources. Register one with `agents resource add`"
        });
    for (resource, strategy) in &resources {
        table = table.row(vec![
            resource.name.to_string().into(),
            resource.type_name.to_string().into(),
            sandbox_cell(*strategy),
            yes_no(resource.read_only).into(),
            resource.location.clone().into(),
        ]);
    }
    Ok(Report::new("resource list")
        .data(json!({"resources": listed, "summary": {"total": resources.len()}}))
        .table(table)
        .ok(format!("{} listed", counted(resources.len(), "resource"))))
}

fn listed((resource, strategy): &(Resource, Option<SandboxStrategy>)) -> Value {
    json!({
        "id": resource.id,
        "name": resource.name,
        "type": resource.type_name,
        "sandbox_strategy": strategy,
        "read_only": resource.read_only,
        "auto_discovered": resource.auto_discovered,
        "location": resource.location,
        "description": resource.description,
    })
}

/// The other end of a link, as programs read it.
fn linked(link: &Linked) -> Value {
    json!({
        "id": link.resource.id,
        "name": link.resource.name,
        "type": link.resource.type_name,
        "auto_discovered": link.auto_discovered,
    })
}

fn links_table(title: &str, links: &[Linked]) -> Table {
    let table = Table::new(title)
        .column("Name", Align::Left)
        .column("Type", Align::Left)
        .column("Discovered", Align::Left);
    table.rows(links.iter().map(|link| {
        vec![
            link.resource.name.to_string().into(),
            link.resource.type_name.to_string().into(),
            yes_no(link.auto_discovered).into(),
        ]
    }))
}

fn chain(kind: Option<&InheritedType>) -> Value {
    json!(kind.map(|kind| &kind.chain))
}

pub(super) fn show(context: &Context, reference: &str) -> Result<Report, CommandError> {
    let details = context.resources()?.show(reference)?;
    let kind = details.inherited.as_ref();
    let projects: Vec<Value> = details
        .projects
        .iter()
        .map(|project| json!({"id": project.id, "name": project.name, "alias": project.alias, "read_only": project.read_only}))
        .collect();
    let mut report = Report::new("resource show")
        .data(json!({
            "resource": resource_json(&details.resource, kind),
            "type_chain": chain(kind),
            "parents": details.parents.iter().map(linked).collect::<Vec<_>>(),
            "children": details.children.iter().map(linked).collect::<Vec<_>>(),
            "projects": projects,
        }))
        .panel(resource_panel("Resource", &details.resource, kind));
    if !details.parents.is_empty() {
        report = report.table(links_table("Lies below", &details.parents));
    }
    if !details.children.is_empty() {
        report = report.table(links_table("Below it", &details.children));
    }
    if !details.projects.is_empty() {
        let table = Table::new("Projects")
            .column("Name", Align::Left)
            .column("Alias", Align::Left)
            .column("Read-only", Align::Left);
        report = report.table(table.rows(details.projects.iter().map(|project| {
            vec![
                project.name.to_string().into(),
                project.alias.to_string().into(),
                yes_no(project.read_only).into(),
            ]
        })));
    }
    if kind.is_none() {
        let name = &details.resource.type_name;
        report = report.warn(format!("Its type {name} does not exist any more"));
    }
    Ok(report.ok("Resource shown"))
}

pub(super) fn inspect(context: &Context, reference: &str) -> Result<Report, CommandError> {
    let found = context.resources()?.inspect(reference)?;
    let exists = match found.presence {
        Presence::Unknown => Value::Null,
        presence => json!(presence != Presence::Missing),
    };
    let presence = match found.presence {
        Presence::File => Cell::Good("a file".to_owned()),
        Presence::Folder => Cell::Good("a folder".to_owned()),
        Presence::Other => Cell::Warn("neither file nor folder".to_owned()),
        Presence::Missing => Cell::Bad("nothing".to_owned()),
        Presence::Unknown => Cell::Muted("not looked at".to_owned()),
    };
    let resource = &found.resource;
    let mut panel = Panel::new("Found")
        .row("Name", resource.name.to_string())
        .row("Type", resource.type_name.to_string())
        .row("Location", resource.location.clone())
        .row("There is", presence)
        .row("Changed", found.modified);
    if let Some(size) = found.size {
        panel = panel.row("Size", Cell::Bytes(size));
    }
    if let Some(git) = &found.git {
        panel = panel
            .row("Branch", git.branch.clone())
            .row("Commit", git.commit.clone())
            .row("Uncommitted changes", git.dirty);
    }
    let mut report = Report::new("resource inspect")
        .data(json!({
            "resource": {"id": resource.id, "name": resource.name, "type": resource.type_name, "location": resource.location},
            "exists": exists,
            "presence": found.presence,
            "size": found.size,
            "modified": found.modified,
            "git": found.git,
        }))
        .panel(panel);
    for warning in &found.warnings {
        report = report.warn(warning.clone());
    }
    Ok(report.ok("Resource inspected"))
}

pub(super) fn tree(
    context: &Context,
    reference: Option<&str>,
    type_name: Option<&str>,
) -> Result<Report, CommandError> {
    let roots = context.resources()?.tree(reference, type_name)?;
    let mut lines = Vec::new();
    for root in &roots {
        draw(root, "", "", &mut lines);
    }
    let shown: Vec<Value> = roots.iter().map(node).collect();
    let report = Report::new("resource tree").data(json!({"tree": shown}));
    let count = lines.len();
    let report = if lines.is_empty() {
        report
    } else {
        report.text(lines.join("\n"))
    };
    Ok(report.ok(format!("{} drawn", counted(count, "resource"))))
}

/// One line for a resource and lines for what lies below it.
fn draw(node: &TreeNode, branch: &str, trunk: &str, lines: &mut Vec<String>) {
    let repeated = if node.is_repeated { " (as above)" } else { "" };
    lines.push(format!(
        "{branch}{} ({}){repeated}",
        node.resource.name, node.resource.type_name
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

fn node(node: &TreeNode) -> Value {
    json!({
        "id": node.resource.id,
        "name": node.resource.name,
        "type": node.resource.type_name,
        "sandbox_strategy": node.strategy,
        "auto_discovered": node.auto_discovered,
        "repeated": node.is_repeated,
        "children": node.children.iter().map(self::node).collect::<Vec<_>>(),
    })
}
