//! `resource add`. Each resource type declares its own flags, so the parser is built at run time.

use std::collections::BTreeMap;
use std::path::Path;

use clap::builder::{Arg, ArgAction};
use clap::error::ErrorKind;
use clap::{ArgMatches, Command, CommandFactory};
use cleveragents_application::resource_operations::ResourceInfo;
use cleveragents_application::{NewResource, Outcome, Register, RegisteredResource};
use cleveragents_domain::{Argument, ArgumentType, InheritedType};
use serde_json::json;

use super::resource_panel;
use crate::app::usage_error;
use crate::arguments::{Arguments, ResourceAdd};
use crate::commands::{counted, write_document};
use crate::context::Context;
use crate::output::{Align, CommandError, Report, Table};

pub(super) fn run(
    context: &Context,
    arguments: &ResourceAdd,
) -> Result<Option<Report>, CommandError> {
    let Some(type_name) = &arguments.type_name else {
        if arguments.help {
            return help_of_add().map(|()| None);
        }
        return Err(
            CommandError::usage("the type and the name of the resource are missing")
                .with_hint("run `agents resource add --help`, or `agents resource type list`"),
        );
    };
    let resources = context.resources()?;
    let kind = resources.show_type(type_name)?;
    let mut command = flags_of(&kind);
    if arguments.help {
        return write_document(command.render_help().to_string().as_bytes()).map(|()| None);
    }
    let matches = match command.try_get_matches_from_mut(&arguments.rest) {
        Ok(matches) => matches,
        Err(error) if error.kind() == ErrorKind::DisplayHelp => {
            return write_document(error.render().to_string().as_bytes()).map(|()| None);
        }
        Err(error) => return Err(usage_error(&error)),
    };
    let register = if matches.get_flag("update") {
        Register::Update
    } else {
        Register::New
    };
    let base = context
        .environment
        .working_folder()
        .unwrap_or_else(|| Path::new("/"));
    let new = NewResource {
        type_name: type_name.clone(),
        name: text(&matches, "name").unwrap_or_default(),
        values: argument_values(&kind, &matches),
        description: text(&matches, "description"),
        read_only: matches.get_flag("read-only"),
        base: base.to_owned(),
    };
    let registered = resources.add(&new, register)?;
    Ok(Some(report(registered, &kind)))
}

/// Prints the help of the command without a type.
fn help_of_add() -> Result<(), CommandError> {
    let mut program = Arguments::command();
    program.build();
    let help = program
        .find_subcommand_mut("resource")
        .and_then(|resource| resource.find_subcommand_mut("add"))
        .map(|add| add.render_help().to_string())
        .ok_or_else(|| CommandError::internal("the command `resource add` is missing"))?;
    write_document(help.as_bytes())
}

fn text(matches: &ArgMatches, name: &str) -> Option<String> {
    matches.get_one::<String>(name).cloned()
}

/// Values that the command line gives for the arguments of the type.
fn argument_values(kind: &InheritedType, matches: &ArgMatches) -> BTreeMap<String, String> {
    let arguments = kind.whole.arguments.iter();
    arguments
        .filter_map(|argument| Some((argument.name.clone(), text(matches, &argument.name)?)))
        .collect()
}

/// Parser for the flags of one type.
fn flags_of(kind: &InheritedType) -> Command {
    let name = format!("agents resource add {}", kind.whole.name);
    let type_flags = kind.whole.arguments.iter().map(flag);
    Command::new(name.clone())
        .bin_name(name)
        .about(format!("Register a resource: {}", kind.whole.description))
        .no_binary_name(true)
        .arg(
            Arg::new("name")
                .value_name("NAME")
                .required(true)
                .help("Name, such as local/api; the default namespace is local/"),
        )
        .args(type_flags)
        .arg(
            Arg::new("description")
                .long("description")
                .value_name("TEXT")
                .help("Description"),
        )
        .arg(
            Arg::new("read-only")
                .long("read-only")
                .action(ArgAction::SetTrue)
                .help("Plans may only read it"),
        )
        .arg(
            Arg::new("update")
                .long("update")
                .action(ArgAction::SetTrue)
                .help("Update the resource of this name, and discover its children again"),
        )
}

fn flag(argument: &Argument) -> Arg {
    let help = match &argument.default {
        Some(default) => format!("{} [default: {default}]", argument.description),
        None => argument.description.clone(),
    };
    let flag = Arg::new(argument.name.clone())
        .long(argument.name.clone())
        .value_name(argument.kind.as_str().to_uppercase())
        .required(argument.required)
        .help(help);
    match argument.kind {
        ArgumentType::Boolean => flag
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true"),
        ArgumentType::Integer => flag.allow_negative_numbers(true),
        _ => flag,
    }
}

fn report(registered: RegisteredResource, kind: &InheritedType) -> Report {
    let RegisteredResource {
        resource,
        outcome,
        discovered,
        removed,
        warnings,
    } = registered;
    let resource = ResourceInfo::new(resource, Some(kind));
    let panel = resource_panel("Resource", &resource);
    let children: Vec<_> = discovered
        .iter()
        .map(|child| json!({"id": child.id, "name": child.name, "type": child.type_name, "location": child.location}))
        .collect();
    let missing_children: Vec<_> = removed.iter().map(|child| &child.name).collect();
    let mut report = Report::new("resource add")
        .data(json!({
            "resource": resource,
            "outcome": outcome,
            "discovered": children,
            "removed": missing_children,
        }))
        .panel(panel);
    if !discovered.is_empty() {
        let table = Table::new("Discovered")
            .column("Name", Align::Left)
            .column("Type", Align::Left)
            .column("Location", Align::Left)
            .keep(["Name", "Type"])
            .shorten(["Location"]);
        report = report.table(table.rows(discovered.iter().map(|child| {
            vec![
                child.name.to_string().into(),
                child.type_name.to_string().into(),
                child.location.clone().into(),
            ]
        })));
    }
    for warning in warnings {
        report = report.warn(warning.clone());
    }
    if !removed.is_empty() {
        let count = counted(removed.len(), "resource");
        report = report.info(format!("no longer found and removed: {count}"));
    }
    report.ok(match outcome {
        Outcome::Created => "Resource registered",
        Outcome::Updated => "Resource updated",
        Outcome::Unchanged => "Resource is already registered, unchanged",
    })
}
