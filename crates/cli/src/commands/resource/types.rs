//! `resource type`: registers, lists, shows and removes types.

use std::path::Path;

use cleveragents_application::resource_operations::{
    ListResourceTypes, ResourceTypeInfo, ShowResourceType,
};
use cleveragents_application::{Outcome, Register, ResourceService};
use cleveragents_domain::{Code, TypeName};
use serde::Serialize;

use super::sandbox_cell;
use crate::arguments::{Deletion, ResourceType};
use crate::commands::{counted, read_definition, yes_no};
use crate::context::Context;
use crate::output::{Align, CommandError, Panel, Report, Table};

pub(super) fn run(context: &Context, command: ResourceType) -> Result<Report, CommandError> {
    match command {
        ResourceType::Add { config, update } => add(context, &config, update),
        ResourceType::List => list(context),
        ResourceType::Show { name } => {
            let kind = context.call(ShowResourceType { name })?;
            let report = details(Report::new("resource type show"), &kind);
            Ok(report.data(kind).ok("Resource type shown"))
        }
        ResourceType::Remove { name, deletion } => remove(context, &name, deletion),
    }
}

fn names(list: &[TypeName]) -> Option<String> {
    let names: Vec<&str> = list.iter().map(TypeName::as_str).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

fn details(report: Report, kind: &ResourceTypeInfo) -> Report {
    let capabilities = [
        (kind.capabilities.read, "read"),
        (kind.capabilities.write, "write"),
        (kind.capabilities.sandbox, "sandbox"),
        (kind.capabilities.checkpoint, "checkpoint"),
    ];
    let capabilities: Vec<&str> = capabilities
        .into_iter()
        .filter_map(|(is_supported, name)| is_supported.then_some(name))
        .collect();
    let children: Vec<TypeName> = kind
        .child_types
        .iter()
        .map(|child| child.name.clone())
        .collect();
    let table = Table::new("Arguments")
        .column("Flag", Align::Left)
        .column("Type", Align::Left)
        .column("Required", Align::Left)
        .column("Description", Align::Left)
        .empty("No arguments");
    let table = table.rows(kind.cli_arguments.iter().map(|argument| {
        vec![
            argument.argument.clone().into(),
            argument.kind.as_str().into(),
            yes_no(argument.required).into(),
            argument.description.clone().into(),
        ]
    }));
    report
        .panel(
            Panel::new("Resource Type")
                .row("Name", kind.name.clone())
                .row("Source", kind.source.as_str())
                .row("Description", kind.description.clone())
                .row("Kind", kind.physical_virtual.as_str())
                .row("Inherits", names(kind.chain.get(1..).unwrap_or_default()))
                .row("Can be added", yes_no(kind.user_addable))
                .row("Parent types", names(&kind.parent_types))
                .row("Child types", names(&children))
                .row("Sandbox", sandbox_cell(kind.sandbox.strategy))
                .row("Handler", kind.sandbox.handler.clone())
                .row(
                    "Capabilities",
                    (!capabilities.is_empty()).then(|| capabilities.join(", ")),
                ),
        )
        .table(table)
}

/// Response of `resource type add`.
#[derive(Serialize)]
struct AddedResourceType {
    #[serde(flatten)]
    kind: ResourceTypeInfo,
    registered: bool,
    outcome: Outcome,
}

fn add(context: &Context, config: &Path, update: bool) -> Result<Report, CommandError> {
    let text = read_definition(config, "a resource type", Code::MalformedResourceType)?;
    let register = if update {
        Register::Update
    } else {
        Register::New
    };
    let variables = |name: &str| context.environment.text(name);
    let resources = context.resources()?;
    let added = resources
        .add_type(&text, &variables, register)
        .map_err(|error| CommandError::from(error).in_file(config))?;
    let kind = ResourceTypeInfo::from(added.inherited);
    let report = details(Report::new("resource type add"), &kind);
    let added = AddedResourceType {
        kind,
        registered: added.outcome != Outcome::Unchanged,
        outcome: added.outcome,
    };
    let sentence = match added.outcome {
        Outcome::Created => "Resource type registered",
        Outcome::Updated => "Resource type updated",
        Outcome::Unchanged => "Resource type is already registered, unchanged",
    };
    Ok(report.data(added).ok(sentence))
}

fn list(context: &Context) -> Result<Report, CommandError> {
    let listed = context.call(ListResourceTypes {})?;
    let mut table = Table::new("Resource Types")
        .column("Name", Align::Left)
        .column("Source", Align::Left)
        .column("Kind", Align::Left)
        .column("Inherits", Align::Left)
        .column("Sandbox", Align::Left)
        .column("Can be added", Align::Left)
        .column("Description", Align::Left)
        .keep(["Name"])
        .drop_first(["Can be added", "Inherits", "Source", "Sandbox"]);
    for kind in &listed.resource_types {
        table = table.row(vec![
            kind.name.clone().into(),
            kind.source.as_str().into(),
            kind.physical_virtual.as_str().into(),
            kind.inherits.clone().into(),
            sandbox_cell(kind.sandbox.strategy),
            yes_no(kind.user_addable).into(),
            kind.description.clone().into(),
        ]);
    }
    let count = listed.resource_types.len();
    Ok(Report::new("resource type list")
        .data(listed)
        .table(table)
        .ok(format!("{} listed", counted(count, "type"))))
}

fn remove(context: &Context, name: &str, deletion: Deletion) -> Result<Report, CommandError> {
    let resources = ResourceService::new(deletion.rehearsal.engine(context)?);
    let kind = resources.show_type(name)?;
    deletion.confirm(&format!("Remove resource type {}?", kind.whole.name))?;
    let removed = resources.remove_type(kind.whole.name.as_str())?;
    let report = Report::new("resource type remove")
        .data(serde_json::json!({"removed": removed.name}))
        .panel(Panel::new("Removal Summary").row("Resource type", removed.name.to_string()));
    Ok(deletion.conclude(report, "Resource type removed"))
}
