//! `resource type`: the types there are.

use std::path::Path;

use cleveragents_application::{Outcome, Register};
use cleveragents_domain::{Capabilities, Code, InheritedType, ResourceType as Declared, TypeName};
use serde_json::{Value, json};

use super::sandbox_cell;
use crate::arguments::ResourceType;
use crate::commands::{confirm, counted, read_definition, yes_no};
use crate::context::Context;
use crate::output::{Align, CommandError, Panel, Report, Table};

pub(super) fn run(context: &Context, command: ResourceType) -> Result<Report, CommandError> {
    match command {
        ResourceType::Add { config, update } => add(context, &config, update),
        ResourceType::List => list(context),
        ResourceType::Show { name } => {
            let kind = context.resources()?.show_type(&name)?;
            Ok(details("resource type show", &kind, type_json(&kind)).ok("Resource type shown"))
        }
        ResourceType::Remove { name, yes } => remove(context, &name, yes),
    }
}

fn source(declared: &Declared) -> &'static str {
    if declared.is_built_in() {
        "built-in"
    } else {
        "custom"
    }
}

fn names(list: &[TypeName]) -> Option<String> {
    let names: Vec<&str> = list.iter().map(TypeName::as_str).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

fn able(declared: &Declared) -> Capabilities {
    declared.capabilities.unwrap_or_default()
}

/// A type as programs read it.
fn type_json(kind: &InheritedType) -> Value {
    let whole = &kind.whole;
    let arguments: Vec<Value> = whole
        .arguments
        .iter()
        .map(|argument| {
            json!({
                "argument": format!("--{}", argument.name),
                "required": argument.required,
                "type": argument.kind,
                "description": argument.description,
                "default": argument.default,
                "validation_pattern": argument.validation_pattern,
            })
        })
        .collect();
    json!({
        "name": whole.name,
        "source": source(whole),
        "description": whole.description,
        "physical_virtual": whole.kind,
        "user_addable": whole.user_addable,
        "inherits": whole.inherits,
        "chain": kind.chain,
        "cli_arguments": arguments,
        "parent_types": whole.parent_types,
        "child_types": whole.child_types,
        "auto_discovery": whole.auto_discovery,
        "equivalence": whole.equivalence,
        "sandbox": {
            "strategy": whole.sandbox_strategy,
            "checkpointable": able(whole).checkpoint,
            "handler": whole.handler,
        },
        "capabilities": able(whole),
    })
}

fn details(command: &'static str, kind: &InheritedType, data: Value) -> Report {
    let whole = &kind.whole;
    let able = able(whole);
    let able: Vec<&str> = [
        (able.read, "read"),
        (able.write, "write"),
        (able.sandbox, "sandbox"),
        (able.checkpoint, "checkpoint"),
    ]
    .into_iter()
    .filter_map(|(can, word)| can.then_some(word))
    .collect();
    let children: Vec<TypeName> = whole
        .child_types
        .iter()
        .map(|child| child.name.clone())
        .collect();
    let table = Table::new("Arguments")
        .column("Flag", Align::Left)
        .column("Type", Align::Left)
        .column("Required", Align::Left)
        .column("Description", Align::Left)
        .empty("It takes none");
    let table = table.rows(whole.arguments.iter().map(|argument| {
        vec![
            format!("--{}", argument.name).into(),
            argument.kind.as_str().into(),
            yes_no(argument.required).into(),
            argument.description.clone().into(),
        ]
    }));
    Report::new(command)
        .data(data)
        .panel(
            Panel::new("Resource Type")
                .row("Name", whole.name.to_string())
                .row("Source", source(whole))
                .row("Description", whole.description.clone())
                .row("Kind", whole.kind.as_str())
                .row("Inherits", names(kind.chain.get(1..).unwrap_or_default()))
                .row("Can be added", yes_no(whole.user_addable))
                .row("May lie below", names(&whole.parent_types))
                .row("May contain", names(&children))
                .row("Sandbox", sandbox_cell(whole.sandbox_strategy))
                .row("Handler", whole.handler.clone())
                .row("Can", (!able.is_empty()).then(|| able.join(", "))),
        )
        .table(table)
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
    let mut data = type_json(&added.inherited);
    if let Some(fields) = data.as_object_mut() {
        fields.insert(
            "registered".to_owned(),
            json!(added.outcome != Outcome::Unchanged),
        );
        fields.insert("outcome".to_owned(), json!(added.outcome));
    }
    Ok(
        details("resource type add", &added.inherited, data).ok(match added.outcome {
            Outcome::Created => "Resource type registered",
            Outcome::Updated => "Resource type updated",
            Outcome::Unchanged => "Resource type is registered just so already",
        }),
    )
}

fn list(context: &Context) -> Result<Report, CommandError> {
    let types = context.resources()?.types()?;
    let mut table = Table::new("Resource Types")
        .column("Name", Align::Left)
        .column("Source", Align::Left)
        .column("Kind", Align::Left)
        .column("Inherits", Align::Left)
        .column("Sandbox", Align::Left)
        .column("Can be added", Align::Left)
        .column("Description", Align::Left);
    let mut listed = Vec::new();
    for declared in types.all() {
        let strategy = types.strategy(&declared.name);
        table = table.row(vec![
            declared.name.to_string().into(),
            source(declared).into(),
            declared.kind.as_str().into(),
            declared.inherits.as_ref().map(ToString::to_string).into(),
            sandbox_cell(strategy),
            yes_no(declared.user_addable).into(),
            declared.description.clone().into(),
        ]);
        listed.push(json!({
            "name": declared.name,
            "source": source(declared),
            "description": declared.description,
            "physical_virtual": declared.kind,
            "user_addable": declared.user_addable,
            "inherits": declared.inherits,
            "sandbox": {"strategy": strategy},
        }));
    }
    let count = listed.len();
    Ok(Report::new("resource type list")
        .data(json!({"resource_types": listed, "summary": {"total": count}}))
        .table(table)
        .ok(format!("{} listed", counted(count, "type"))))
}

fn remove(context: &Context, name: &str, yes: bool) -> Result<Report, CommandError> {
    let resources = context.resources()?;
    let kind = resources.show_type(name)?;
    confirm(
        context,
        &format!("Remove resource type {}?", kind.whole.name),
        yes,
    )?;
    let removed = resources.remove_type(kind.whole.name.as_str())?;
    Ok(Report::new("resource type remove")
        .data(json!({"removed": removed.name}))
        .panel(Panel::new("Removal Summary").row("Resource type", removed.name.to_string()))
        .ok("Resource type removed"))
}
