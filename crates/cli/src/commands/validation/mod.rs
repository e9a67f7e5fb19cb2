//! `validation`: checks of the results of plans.

mod trial;

use std::path::Path;

use cleveragents_application::ValidationService;
use cleveragents_application::validation_operations::{
    AddValidation, ArgumentValues, AttachValidation, AttachmentInfo, CheckInfo, CommandText,
    DetachValidation, ListAttachments, ListValidations, ListedValidation, RemoveValidation,
    ShowValidation, ValidationInfo,
};
use cleveragents_domain::{DefinitionKind, ValidationMode};

use super::definition::{
    DefinitionInput, listed as listed_sentence, read_input, registered, remove as remove_definition,
};
use super::{counted, yes_no};
use crate::arguments::{Deletion, Validation, ValidationAttach, ValidationAttachments};
use crate::context::Context;
use crate::output::{Align, Cell, CommandError, Panel, Report, Table};

const KIND: DefinitionKind = DefinitionKind::Validation;

/// Full name of a command, with its group, as in the `command` field of the JSON output.
pub(super) const fn name(command: &Validation) -> &'static str {
    match command {
        Validation::Add { .. } => "validation add",
        Validation::List { .. } => "validation list",
        Validation::Show { .. } => "validation show",
        Validation::Remove { .. } => "validation remove",
        Validation::Attach(_) => "validation attach",
        Validation::Detach { .. } => "validation detach",
        Validation::Attachments(_) => "validation attachments",
        Validation::Run(_) => "validation run",
    }
}

/// Commands that run as operations of the application, on this machine or on a server.
pub(crate) const OPERATIONS: &[&str] = &[
    "validation add",
    "validation attach",
    "validation attachments",
    "validation detach",
    "validation list",
    "validation remove",
    "validation show",
];

pub(super) fn run(context: &Context, command: Validation) -> Result<Report, CommandError> {
    match command {
        Validation::Add { config, update } => add(context, &config, update),
        Validation::List { pattern } => list(context, pattern),
        Validation::Show { validation } => show(context, validation.name),
        Validation::Remove {
            validation,
            deletion,
        } => remove(context, &validation.name, deletion),
        Validation::Attach(arguments) => attach(context, arguments),
        Validation::Detach { attachment } => detach(context, attachment),
        Validation::Attachments(arguments) => attachments(context, arguments),
        Validation::Run(arguments) => trial::run(
            context,
            &ValidationService::new(context.engine()?),
            &arguments,
        ),
    }
}

fn mode_cell(mode: ValidationMode) -> Cell {
    match mode {
        ValidationMode::Required => Cell::Warn(mode.as_str().to_owned()),
        ValidationMode::Informational => mode.as_str().into(),
    }
}

fn command_text(command: &CommandText) -> String {
    match command {
        CommandText::Shell(text) => text.trim().to_owned(),
        CommandText::Words(words) => words.join(" "),
    }
}

/// Command or tool of a validation, on one line.
fn check_text(check: &CheckInfo) -> String {
    match check {
        CheckInfo::Command(check) => command_text(&check.command),
        CheckInfo::Tool(check) => format!("{} → {}", check.wraps, check.transform),
    }
}

fn panel(title: &str, validation: &ValidationInfo) -> Panel {
    let joined = |words: Vec<&str>| (!words.is_empty()).then(|| words.join(", "));
    let mut panel = Panel::new(title)
        .row("Name", validation.name.as_str())
        .row("Description", validation.description.as_str())
        .row("Mode", mode_cell(validation.mode));
    panel = match &validation.check {
        CheckInfo::Command(check) => {
            let codes = check.passes_when.exit_code.iter();
            let codes: Vec<String> = codes.map(ToString::to_string).collect();
            let environment = check.environment.iter().map(String::as_str).collect();
            let metrics = check.metrics.keys().map(String::as_str).collect();
            panel
                .row("Command", command_text(&check.command))
                .row("Timeout", Cell::Seconds(check.timeout))
                .row("Network", yes_no(check.network))
                .row("Variables", joined(environment))
                .row("Passes with exit code", codes.join(", "))
                .row(
                    "Passes if output matches",
                    check.passes_when.output_matches.clone(),
                )
                .row("Metrics", joined(metrics))
        }
        CheckInfo::Tool(check) => panel
            .row("Wraps", check.wraps.as_str())
            .row("Transform", check.transform.as_str()),
    };
    let arguments = validation.arguments.iter().map(String::as_str).collect();
    panel.row("Arguments", joined(arguments))
}

fn add(context: &Context, config: &Path, update: bool) -> Result<Report, CommandError> {
    let DefinitionInput { text, source } = read_input(context, config, KIND)?;
    let added = context.call(AddValidation {
        text,
        source,
        update,
    })?;
    let new = &added.validation_registered;
    let sentence = registered(KIND, new.outcome, "registered");
    Ok(Report::new("validation add")
        .panel(
            panel("Validation Registered", &new.stored.validation)
                .row("Config", new.stored.config.clone()),
        )
        .data(added)
        .ok(sentence))
}

fn list(context: &Context, pattern: Option<String>) -> Result<Report, CommandError> {
    let listed = context.call(ListValidations { pattern })?;
    let rows = listed
        .validations
        .iter()
        .map(|validation| match validation {
            ListedValidation::Readable(validation) => vec![
                validation.name.as_str().into(),
                mode_cell(validation.mode),
                super::turn_view::short(&check_text(&validation.check), 60).into(),
                validation.description.as_str().into(),
            ],
            ListedValidation::Broken { name, problem } => vec![
                name.as_str().into(),
                Cell::Bad("broken".to_owned()),
                Cell::Muted(String::new()),
                problem.as_str().into(),
            ],
        });
    let table = Table::with_columns("Validations", ["Name", "Mode", "Runs", "Description"])
        .empty("None. Register one with `agents validation add`")
        .rows(rows);
    let total = listed.summary.total;
    Ok(Report::new("validation list")
        .data(listed)
        .table(table)
        .ok(listed_sentence(KIND, total)))
}

fn show(context: &Context, name: String) -> Result<Report, CommandError> {
    let shown = context.call(ShowValidation { name })?;
    let stored = &shown.validation;
    Ok(Report::new("validation show")
        .panel(panel("Validation", &stored.validation).row("Config", stored.config.clone()))
        .table(attachment_table(&shown.attachments))
        .data(shown)
        .ok("Validation shown"))
}

fn remove(context: &Context, name: &str, deletion: Deletion) -> Result<Report, CommandError> {
    remove_definition(
        context,
        "validation remove",
        KIND,
        deletion,
        |yes, dry_run| RemoveValidation {
            name: name.to_owned(),
            yes,
            dry_run,
        },
    )
}

fn attach(context: &Context, arguments: ValidationAttach) -> Result<Report, CommandError> {
    let attached = context.call(AttachValidation {
        resource: arguments.resource,
        validation: arguments.validation,
        project: arguments.project,
        plan: arguments.plan,
        arguments: ArgumentValues::Pairs(arguments.arguments),
    })?;
    let (attachment, mode) = (&attached.attachment.attachment, attached.attachment.mode);
    let is_everywhere = attachment.scope_target.is_none();
    let report = Report::new("validation attach")
        .panel(attachment_panel("Validation Attached", attachment).row("Mode", mode.map(mode_cell)))
        .data(attached);
    let report = if is_everywhere {
        report.info("it checks every plan that works on the resource")
    } else {
        report
    };
    Ok(report.ok("Validation attached"))
}

fn detach(context: &Context, attachment: String) -> Result<Report, CommandError> {
    let detached = context.call(DetachValidation { attachment })?;
    Ok(Report::new("validation detach")
        .panel(attachment_panel("Validation Detached", &detached.detached))
        .data(detached)
        .ok("Validation detached"))
}

fn attachments(
    context: &Context,
    arguments: ValidationAttachments,
) -> Result<Report, CommandError> {
    let listed = context.call(ListAttachments {
        validation: arguments.validation,
        resource: arguments.resource,
        project: arguments.project,
        plan: arguments.plan,
    })?;
    let table = attachment_table(&listed.attachments);
    let total = listed.summary.total;
    Ok(Report::new("validation attachments")
        .data(listed)
        .table(table)
        .ok(format!("{} listed", counted(total, "attachment"))))
}

fn scope_text(attachment: &AttachmentInfo) -> String {
    let scope = attachment.scope.as_str();
    match &attachment.scope_target {
        Some(target) => format!("{scope} {target}"),
        None => scope.to_owned(),
    }
}

/// Arguments in command-line form.
fn argument_text(attachment: &AttachmentInfo) -> Option<String> {
    let fields = attachment.arguments.as_object()?;
    let pairs: Vec<String> = fields
        .iter()
        .map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default()))
        .collect();
    (!pairs.is_empty()).then(|| pairs.join(" "))
}

fn attachment_panel(title: &str, attachment: &AttachmentInfo) -> Panel {
    Panel::new(title)
        .row(
            "Attachment ID",
            Cell::Id(attachment.attachment_id.to_string()),
        )
        .row("Validation", attachment.validation.as_str())
        .row("Resource", attachment.resource.as_str())
        .row("Scope", scope_text(attachment))
        .row("Arguments", argument_text(attachment))
}

fn attachment_table(all: &[AttachmentInfo]) -> Table {
    Table::new("Attachments")
        .column("Id", Align::Left)
        .column("Validation", Align::Left)
        .column("Resource", Align::Left)
        .column("Scope", Align::Left)
        .column("Arguments", Align::Left)
        .empty("None. Attach one with `agents validation attach`")
        .rows(all.iter().map(|attachment| {
            vec![
                Cell::Id(attachment.attachment_id.to_string()),
                attachment.validation.as_str().into(),
                attachment.resource.as_str().into(),
                scope_text(attachment).into(),
                argument_text(attachment).into(),
            ]
        }))
}
