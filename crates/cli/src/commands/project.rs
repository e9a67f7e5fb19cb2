//! `project`: named scopes of resources.

use cleveragents_application::{LinkRequest, NewProject, ProjectError, ProjectTarget};
use cleveragents_domain::{Project, ProjectRules};
use serde_json::{Value, json};

use super::{confirm, counted, yes_no};
use crate::arguments::{Project as Command, ProjectCreate};
use crate::context::Context;
use crate::output::{Align, Cell, CommandError, Panel, Report, Table};

pub(super) fn run(context: &Context, command: Command) -> Result<Report, CommandError> {
    match command {
        Command::Create(arguments) => create(context, arguments),
        Command::List => list(context),
        Command::Show { project } => {
            let (project, targets) = context.projects()?.view(&project.reference)?;
            Ok(shown("project show", &project, &targets).ok("Project shown"))
        }
        Command::Delete { project, yes } => delete(context, &project.reference, yes),
        Command::LinkResource {
            project,
            resource,
            alias,
            read_only,
        } => {
            let projects = context.projects()?;
            let request = LinkRequest {
                resource,
                alias,
                read_only,
            };
            let project = projects.link_resource(&project.reference, request)?;
            let (project, targets) = projects.view(&project.id.to_string())?;
            Ok(shown("project link-resource", &project, &targets).ok("Resource linked"))
        }
        Command::UnlinkResource { project, resource } => {
            unlink(context, &project.reference, &resource)
        }
    }
}

fn project_json(project: &Project) -> Value {
    json!({
        "id": project.id,
        "name": project.name,
        "namespace": project.name.namespace(),
        "server": project.name.server(),
        "description": project.rules.description,
        "tags": project.rules.tags,
        "invariants": project.rules.invariants,
        "invariant_actor": project.rules.invariant_actor,
        "automation_profile": project.rules.automation_profile,
        "version": project.version,
        "created": project.created_at,
        "updated": project.updated_at,
    })
}

fn target_json(target: &ProjectTarget) -> Value {
    json!({
        "alias": target.alias,
        "id": target.resource.id,
        "name": target.resource.name,
        "type": target.resource.type_name,
        "location": target.resource.location,
        "read_only": target.read_only,
    })
}

fn listed(texts: &[String]) -> Option<String> {
    (!texts.is_empty()).then(|| texts.join(", "))
}

/// A project and what it links.
fn shown(command: &'static str, project: &Project, targets: &[ProjectTarget]) -> Report {
    let rules = &project.rules;
    let mut data = json!({"project": project_json(project)});
    if let Some(fields) = data.as_object_mut() {
        let targets = targets.iter().map(target_json).collect();
        fields.insert("linked_resources".to_owned(), Value::Array(targets));
    }
    let mut table = Table::new("Linked Resources")
        .column("Alias", Align::Left)
        .column("Name", Align::Left)
        .column("Type", Align::Left)
        .column("Read-only", Align::Left)
        .column("Location", Align::Left)
        .empty("None. Link one with `agents project link-resource`");
    for target in targets {
        table = table.row(vec![
            target.alias.to_string().into(),
            target.resource.name.to_string().into(),
            target.resource.type_name.to_string().into(),
            yes_no(target.read_only).into(),
            target.resource.location.clone().into(),
        ]);
    }
    let mut report = Report::new(command)
        .data(data)
        .panel(
            Panel::new("Project")
                .row("Name", project.name.to_string())
                .row("Id", Cell::Id(project.id.to_string()))
                .row("Description", rules.description.clone())
                .row("Tags", listed(&rules.tags))
                .row(
                    "Invariant actor",
                    rules.invariant_actor.as_ref().map(ToString::to_string),
                )
                .row("Automation profile", rules.automation_profile.clone())
                .row("Created", project.created_at),
        )
        .table(table);
    if !rules.invariants.is_empty() {
        let invariants = Table::new("Invariants").column("Text", Align::Left);
        report = report.table(
            invariants.rows(
                rules
                    .invariants
                    .iter()
                    .map(|invariant| vec![invariant.clone().into()]),
            ),
        );
    }
    report
}

/// A resource with an alias behind its last colon. What stands behind the colon of a server holds a
/// slash, so it is none.
fn link_request(text: &str) -> LinkRequest {
    let (resource, alias) = match text.rsplit_once(':') {
        Some((resource, alias)) if !alias.contains('/') => (resource, Some(alias)),
        _ => (text, None),
    };
    LinkRequest {
        resource: resource.to_owned(),
        alias: alias.map(str::to_owned),
        read_only: false,
    }
}

fn create(context: &Context, arguments: ProjectCreate) -> Result<Report, CommandError> {
    let invariant_actor = arguments
        .invariant_actor
        .as_deref()
        .map(str::parse)
        .transpose()
        .map_err(ProjectError::Name)?;
    let new = NewProject {
        name: arguments.name,
        rules: ProjectRules {
            description: arguments.description,
            tags: arguments.tags,
            invariants: arguments.invariants,
            invariant_actor,
            automation_profile: arguments.automation_profile,
        },
        links: arguments
            .resources
            .iter()
            .map(|text| link_request(text))
            .collect(),
    };
    let projects = context.projects()?;
    let project = projects.create(new)?;
    let (project, targets) = projects.view(&project.id.to_string())?;
    Ok(shown("project create", &project, &targets).ok("Project created"))
}

fn list(context: &Context) -> Result<Report, CommandError> {
    let mut projects = context.projects()?.list()?;
    projects.retain(|project| context.sees(&project.name.to_string()));
    let mut table = Table::new("Projects")
        .column("Name", Align::Left)
        .column("Resources", Align::Right)
        .column("Tags", Align::Left)
        .column("Description", Align::Left)
        .column("Updated", Align::Left)
        .empty("No projects. Make one with `agents project create`");
    let mut rows = Vec::new();
    for project in &projects {
        table = table.row(vec![
            project.name.to_string().into(),
            project.links.len().into(),
            listed(&project.rules.tags).into(),
            project.rules.description.clone().into(),
            project.updated_at.into(),
        ]);
        let mut row = project_json(project);
        if let Some(fields) = row.as_object_mut() {
            fields.insert("resources".to_owned(), json!(project.links.len()));
        }
        rows.push(row);
    }
    Ok(Report::new("project list")
        .data(json!({"projects": rows, "summary": {"total": projects.len()}}))
        .table(table)
        .ok(format!("{} listed", counted(projects.len(), "project"))))
}

fn delete(context: &Context, reference: &str, yes: bool) -> Result<Report, CommandError> {
    let projects = context.projects()?;
    let present = projects.resolve(reference)?;
    confirm(
        context,
        &format!(
            "Delete project {}? The {} it links stay.",
            present.name,
            counted(present.links.len(), "resource")
        ),
        yes,
    )?;
    let project = projects.delete(&present.id.to_string())?;
    let unlinked = project.links.len();
    Ok(Report::new("project delete")
        .data(json!({
            "deletion_summary": {
                "project": project.name,
                "resources_unlinked": unlinked,
            },
        }))
        .panel(
            Panel::new("Deletion Summary")
                .row("Project", project.name.to_string())
                .row("Resources unlinked", unlinked),
        )
        .ok("Project deleted"))
}

fn unlink(context: &Context, project: &str, resource: &str) -> Result<Report, CommandError> {
    let (project, resource) = context.projects()?.unlink_resource(project, resource)?;
    Ok(Report::new("project unlink-resource")
        .data(json!({
            "project": project.name,
            "unlinked": {"id": resource.id, "name": resource.name},
            "resources_linked": project.links.len(),
        }))
        .panel(
            Panel::new("Link")
                .row("Project", project.name.to_string())
                .row("Resource", resource.name.to_string()),
        )
        .ok("Resource unlinked"))
}
