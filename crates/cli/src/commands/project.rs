//! `project`: groups of resources.

use cleveragents_application::project_operations::{
    CreateProject, DeleteProject, LinkResource, ListProjects, ProjectDetails, ShowProject,
    UnlinkResource,
};

use super::{counted, yes_no};
use crate::arguments::{Deletion, Project as Command, ProjectCreate};
use crate::context::Context;
use crate::output::{Align, Cell, CommandError, Panel, Report, Table};

/// Commands that run as operations of the application, on this machine or on a server.
pub(crate) const OPERATIONS: &[&str] = &[
    "project create",
    "project delete",
    "project link-resource",
    "project list",
    "project show",
    "project unlink-resource",
];

pub(super) fn run(context: &Context, command: Command) -> Result<Report, CommandError> {
    match command {
        Command::Create(arguments) => create(context, arguments),
        Command::List => list(context),
        Command::Show { project } => {
            let shown = context.call(ShowProject {
                reference: project.reference,
            })?;
            Ok(details_report("project show", shown).ok("Project shown"))
        }
        Command::Delete { project, deletion } => delete(context, project.reference, deletion),
        Command::LinkResource {
            project,
            resource,
            alias,
            read_only,
        } => {
            let linked = context.call(LinkResource {
                reference: project.reference,
                resource,
                alias,
                read_only,
            })?;
            Ok(details_report("project link-resource", linked).ok("Resource linked"))
        }
        Command::UnlinkResource { project, resource } => {
            unlink(context, project.reference, resource)
        }
    }
}

fn joined(texts: &[String]) -> Option<String> {
    (!texts.is_empty()).then(|| texts.join(", "))
}

/// Report of a project and its resources.
fn details_report(command: &'static str, details: ProjectDetails) -> Report {
    let project = &details.project;
    let mut table = Table::new("Linked Resources")
        .column("Alias", Align::Left)
        .column("Name", Align::Left)
        .column("Type", Align::Left)
        .column("Read-only", Align::Left)
        .column("Location", Align::Left)
        .empty("None. Link one with `agents project link-resource`");
    for resource in &details.linked_resources {
        table = table.row(vec![
            resource.alias.clone().into(),
            resource.name.clone().into(),
            resource.type_name.clone().into(),
            yes_no(resource.read_only).into(),
            resource.location.clone().into(),
        ]);
    }
    let mut report = Report::new(command)
        .panel(
            Panel::new("Project")
                .row("Name", project.name.clone())
                .row("Id", Cell::Id(project.id.to_string()))
                .row("Description", project.description.clone())
                .row("Tags", joined(&project.tags))
                .row("Invariant actor", project.invariant_actor.clone())
                .row("Automation profile", project.automation_profile.clone())
                .row("Created", project.created),
        )
        .table(table);
    if !project.invariants.is_empty() {
        let texts = project.invariants.iter();
        let invariants = Table::new("Invariants").column("Text", Align::Left);
        report = report.table(invariants.rows(texts.map(|text| vec![text.clone().into()])));
    }
    report.data(details)
}

fn create(context: &Context, arguments: ProjectCreate) -> Result<Report, CommandError> {
    let created = context.call(CreateProject {
        name: arguments.name,
        description: arguments.description,
        resources: arguments.resources,
        tags: arguments.tags,
        invariants: arguments.invariants,
        invariant_actor: arguments.invariant_actor,
        automation_profile: arguments.automation_profile,
    })?;
    Ok(details_report("project create", created).ok("Project created"))
}

fn list(context: &Context) -> Result<Report, CommandError> {
    let listed = context.call(ListProjects {})?;
    let mut table = Table::new("Projects")
        .column("Name", Align::Left)
        .column("Resources", Align::Right)
        .column("Tags", Align::Left)
        .column("Description", Align::Left)
        .column("Updated", Align::Left)
        .keep(["Name"])
        .drop_first(["Tags", "Updated"])
        .empty("No projects. Create one with `agents project create`");
    for listed in &listed.projects {
        let project = &listed.project;
        table = table.row(vec![
            project.name.clone().into(),
            listed.resources.into(),
            joined(&project.tags).into(),
            project.description.clone().into(),
            project.updated.into(),
        ]);
    }
    let count = listed.projects.len();
    Ok(Report::new("project list")
        .data(listed)
        .table(table)
        .ok(format!("{} listed", counted(count, "project"))))
}

fn delete(
    context: &Context,
    reference: String,
    deletion: Deletion,
) -> Result<Report, CommandError> {
    let shown = context.call(ShowProject { reference })?;
    let question = format!(
        "Delete project {}? The {} it links stay.",
        shown.project.name,
        counted(shown.linked_resources.len(), "resource")
    );
    deletion.confirm(&question)?;
    let deleted = context.call(DeleteProject {
        reference: shown.project.id.to_string(),
        yes: true,
        dry_run: deletion.dry_run(),
    })?;
    let summary = &deleted.deletion_summary;
    let report = Report::new("project delete")
        .panel(
            Panel::new("Deletion Summary")
                .row("Project", summary.project.clone())
                .row("Resources unlinked", summary.resources_unlinked),
        )
        .data(deleted);
    Ok(deletion.conclude(report, "Project deleted"))
}

fn unlink(context: &Context, reference: String, resource: String) -> Result<Report, CommandError> {
    let unlinked = context.call(UnlinkResource {
        reference,
        resource,
    })?;
    Ok(Report::new("project unlink-resource")
        .panel(
            Panel::new("Link")
                .row("Project", unlinked.project.clone())
                .row("Resource", unlinked.unlinked.name.clone()),
        )
        .data(unlinked)
        .ok("Resource unlinked"))
}
