//! `resource`: what plans work on.

mod add;
mod browse;
mod manage;
mod types;

use cleveragents_domain::{ArgumentType, InheritedType, Resource, SandboxStrategy};
use serde_json::{Value, json};

use super::yes_no;
use crate::arguments::Resource as Command;
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report};

/// Runs a resource command. `None` means that it wrote help to standard output.
pub(super) fn run(context: &Context, command: Command) -> Result<Option<Report>, CommandError> {
    let report = match command {
        Command::Add(arguments) => return add::run(context, &arguments),
        Command::List { type_name, project } => browse::list(context, type_name, project)?,
        Command::Show { resource } => browse::show(context, &resource.reference)?,
        Command::Inspect { resource } => browse::inspect(context, &resource.reference)?,
        Command::Tree {
            reference,
            type_name,
        } => browse::tree(context, reference.as_deref(), type_name.as_deref())?,
        Command::Remove { resource, yes } => manage::remove(context, &resource.reference, yes)?,
        Command::LinkChild { parent, child } => manage::link_child(context, &parent, &child)?,
        Command::UnlinkChild { parent, child } => manage::unlink_child(context, &parent, &child)?,
        Command::Type(command) => types::run(context, command)?,
    };
    Ok(Some(report))
}

/// How a resource is isolated, as people read it.
pub(super) fn sandbox_cell(strategy: Option<SandboxStrategy>) -> Cell {
    Cell::from(strategy.map(SandboxStrategy::as_str))
}

/// Yes or no, as people read it.
/// The properties of a resource without the passwords that an address may hold.
fn shown_properties(resource: &Resource, kind: Option<&InheritedType>) -> Value {
    let is_address = |name: &str| {
        kind.is_none_or(|kind| {
            let mut arguments = kind.whole.arguments.iter();
            arguments.any(|argument| argument.name == name && argument.kind == ArgumentType::Url)
        })
    };
    let shown = resource.properties.iter().map(|(name, value)| {
        let value = match value {
            Value::String(text) if is_address(name) => json!(cleveragents_store::redact(text)),
            other => other.clone(),
        };
        (name.clone(), value)
    });
    Value::Object(shown.collect())
}

/// A resource as programs read it.
pub(super) fn resource_json(resource: &Resource, kind: Option<&InheritedType>) -> Value {
    json!({
        "id": resource.id,
        "name": resource.name,
        "type": resource.type_name,
        "physical_virtual": kind.map(|kind| kind.whole.kind),
        "sandbox_strategy": kind.and_then(|kind| kind.whole.sandbox_strategy),
        "location": resource.location,
        "description": resource.description,
        "read_only": resource.read_only,
        "auto_discovered": resource.auto_discovered,
        "properties": shown_properties(resource, kind),
        "content_hash": resource.content_hash,
        "version": resource.version,
        "created": resource.created_at,
        "updated": resource.updated_at,
    })
}

/// A resource as people read it.
fn resource_panel(title: &str, resource: &Resource, kind: Option<&InheritedType>) -> Panel {
    let strategy = kind.and_then(|kind| kind.whole.sandbox_strategy);
    let panel = Panel::new(title)
        .row("Name", resource.name.to_string())
        .row("Id", Cell::Id(resource.id.to_string()))
        .row("Type", resource.type_name.to_string())
        .row("Location", resource.location.clone())
        .row("Description", resource.description.clone())
        .row("Sandbox", sandbox_cell(strategy))
        .row("Read-only", yes_no(resource.read_only))
        .row("Discovered", yes_no(resource.auto_discovered));
    let properties = shown_properties(resource, kind);
    let others = properties.as_object().into_iter().flatten();
    others
        .filter(|(name, _)| !matches!(name.as_str(), "path" | "url"))
        .fold(panel, |panel, (name, value)| {
            let text = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            panel.row(name.clone(), text)
        })
}
