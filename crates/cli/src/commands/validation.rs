//! `validation`: what judges the work of plans.

mod trial;

use std::collections::BTreeMap;
use std::path::Path;

use cleveragents_application::{
    AttachRequest, AttachmentQuery, AttachmentView, Outcome, Register, Validation as Definition,
    ValidationCheck, ValidationError, ValidationService,
};
use cleveragents_domain::{Code, PlanId, ValidationMode};
use serde_json::{Value, json};

use super::{confirm, counted, name_filter, read_definition, removal, yes_no};
use crate::arguments::{Validation, ValidationAttach, ValidationAttachments};
use crate::context::Context;
use crate::output::{Align, Cell, CommandError, Panel, Report, Table};

/// The short name of a command, as the envelope carries it.
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

pub(super) fn run(context: &Context, command: &Validation) -> Result<Report, CommandError> {
    let service = ValidationService::new(context.engine()?);
    match command {
        Validation::Add { config, update } => add(context, &service, config, *update),
        Validation::List { pattern } => list(context, &service, pattern.as_deref()),
        Validation::Show { validation } => show(context, &service, &validation.name),
        Validation::Remove { validation, yes } => remove(context, &service, &validation.name, *yes),
        Validation::Attach(arguments) => attach(context, &service, arguments),
        Validation::Detach { attachment } => {
            let view = service.detach(attachment)?;
            Ok(Report::new("validation detach")
                .data(json!({"detached": attachment_json(&view)}))
                .panel(attachment_panel("Validation Detached", &view))
                .ok("Validation detached"))
        }
        Validation::Attachments(arguments) => attachments(&service, arguments),
        Validation::Run(arguments) => trial::run(context, &service, arguments),
    }
}

/// The id of a plan.
fn plan(text: Option<&str>) -> Result<Option<PlanId>, CommandError> {
    let parse = |text: &str| {
        text.parse::<PlanId>().map_err(|_| {
            CommandError::new(Code::PlanNotFound, format!("plan `{text}` does not exist"))
                .with_hint("give the whole id of a plan")
        })
    };
    text.map(parse).transpose()
}

/// Arguments as they are written on the command line.
fn pairs(given: &[String]) -> Result<BTreeMap<String, String>, CommandError> {
    let mut pairs = BTreeMap::new();
    for pair in given {
        let wrong = |message: String| {
            CommandError::usage(message).with_hint("write each argument once, as NAME=VALUE")
        };
        let Some((name, value)) = pair.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            return Err(wrong(format!("`{pair}` is not NAME=VALUE")));
        };
        // A hyphen and an underscore are the same.
        if pairs
            .insert(name.replace('-', "_"), value.to_owned())
            .is_some()
        {
            return Err(wrong(format!("`{name}` is given twice")));
        }
    }
    Ok(pairs)
}

fn mode_cell(mode: ValidationMode) -> Cell {
    match mode {
        ValidationMode::Required => Cell::Warn(mode.as_str().to_owned()),
        ValidationMode::Informational => mode.as_str().into(),
    }
}

fn panel(title: &str, validation: &Definition) -> Panel {
    let places: Vec<String> = validation.places().into_iter().collect();
    let mut panel = Panel::new(title)
        .row("Name", validation.name.as_str())
        .row("Description", validation.description.as_str())
        .row("Mode", mode_cell(validation.mode));
    panel = match &validation.check {
        ValidationCheck::Command(check) => {
            let names: Vec<&str> = check.environment.keys().map(String::as_str).collect();
            let codes: Vec<String> = check.exit_codes.iter().map(ToString::to_string).collect();
            let metrics: Vec<&str> = check.metrics.keys().map(String::as_str).collect();
            panel
                .row("Command", validation.what())
                .row("Timeout", Cell::Seconds(check.timeout.as_secs_f64()))
                .row("Network", yes_no(check.network))
                .row("Variables", (!names.is_empty()).then(|| names.join(", ")))
                .row("Passes with exit code", codes.join(", "))
                .row(
                    "And output that matches",
                    check
                        .output_matches
                        .as_ref()
                        .map(|wanted| wanted.as_str().to_owned()),
                )
                .row("Metrics", (!metrics.is_empty()).then(|| metrics.join(", ")))
        }
        ValidationCheck::Wraps(check) => panel
            .row("Wraps", check.tool.as_str())
            .row("Transform", validation.keys.hide(check.transform.text())),
    };
    panel.row("Arguments", (!places.is_empty()).then(|| places.join(", ")))
}

fn add(
    context: &Context,
    service: &ValidationService,
    config: &Path,
    update: bool,
) -> Result<Report, CommandError> {
    let text = read_definition(
        config,
        "the file of a validation",
        Code::MalformedValidation,
    )?;
    let file = context.source_of(config);
    let register = if update {
        Register::Update
    } else {
        Register::New
    };
    let added = service.add(&text, &file, register, &context.variables())?;
    let secrets = context.models(None)?.redactor();
    let mut entry = secrets.value(&added.validation.summary());
    entry["config"] = json!(added.stored.source);
    entry["created"] = json!(added.stored.created_at);
    entry["updated"] = json!(added.stored.updated_at);
    entry["version"] = json!(added.stored.version);
    entry["outcome"] = json!(added.outcome);
    Ok(Report::new("validation add")
        .data(json!({"validation_registered": entry}))
        .panel(
            panel("Validation Registered", &added.validation)
                .row("Config", added.stored.source.clone()),
        )
        .ok(match added.outcome {
            Outcome::Updated => "Validation updated",
            Outcome::Created | Outcome::Unchanged => "Validation registered",
        }))
}

fn list(
    context: &Context,
    service: &ValidationService,
    pattern: Option<&str>,
) -> Result<Report, CommandError> {
    let fits = name_filter(pattern)?;
    let secrets = context.models(None)?.redactor();
    let mut all = service.list(&context.variables())?;
    all.retain(|registered| fits(&registered.stored.name) && context.sees(&registered.stored.name));
    let table = Table::with_columns("Validations", ["Name", "Mode", "Runs", "Description"])
        .empty("None. Register one with `agents validation add`")
        .rows(all.iter().map(|registered| match &registered.validation {
            Ok(validation) => vec![
                validation.name.as_str().into(),
                mode_cell(validation.mode),
                super::turn_view::short(&validation.what(), 60).into(),
                validation.description.as_str().into(),
            ],
            Err(error) => vec![
                registered.stored.name.as_str().into(),
                Cell::Bad("broken".to_owned()),
                Cell::Muted(String::new()),
                error.to_string().into(),
            ],
        }));
    let entries: Vec<Value> = all
        .iter()
        .map(|registered| match &registered.validation {
            Ok(validation) => secrets.value(&validation.summary()),
            Err(error) => {
                json!({"name": registered.stored.name, "problem": error.to_string()})
            }
        })
        .collect();
    Ok(Report::new("validation list")
        .data(json!({"validations": entries, "summary": {"total": all.len()}}))
        .table(table)
        .ok(format!("{} listed", counted(all.len(), "validation"))))
}

fn show(
    context: &Context,
    service: &ValidationService,
    name: &str,
) -> Result<Report, CommandError> {
    let found = service.get(name, &context.variables())?;
    let validation = found.validation.map_err(ValidationError::from)?;
    let query = AttachmentQuery {
        validation: Some(found.stored.name.clone()),
        ..AttachmentQuery::default()
    };
    let attached = service.attachments(&query)?;
    let secrets = context.models(None)?.redactor();
    let mut entry = secrets.value(&validation.summary());
    entry["config"] = json!(found.stored.source);
    entry["created"] = json!(found.stored.created_at);
    entry["updated"] = json!(found.stored.updated_at);
    entry["version"] = json!(found.stored.version);
    let attachments: Vec<Value> = attached.iter().map(attachment_json).collect();
    Ok(Report::new("validation show")
        .data(json!({"validation": entry, "attachments": attachments}))
        .panel(panel("Validation", &validation).row("Config", found.stored.source))
        .table(attachment_table(&attached))
        .ok("Validation shown"))
}

fn remove(
    context: &Context,
    service: &ValidationService,
    name: &str,
    yes: bool,
) -> Result<Report, CommandError> {
    let found = service.get(name, &context.variables())?.stored;
    confirm(context, &format!("Remove validation {}?", found.name), yes)?;
    let removed = service.remove(name)?;
    Ok(removal(
        "validation remove",
        "Validation",
        removed.name,
        removed.source,
    ))
}

fn attach(
    context: &Context,
    service: &ValidationService,
    arguments: &ValidationAttach,
) -> Result<Report, CommandError> {
    let request = AttachRequest {
        resource: arguments.resource.clone(),
        validation: arguments.validation.clone(),
        project: arguments.project.clone(),
        plan: plan(arguments.plan.as_deref())?,
        arguments: pairs(&arguments.arguments)?,
    };
    let view = service.attach(&request, &context.variables())?;
    let mode = service
        .get(&view.attachment.validation, &context.variables())?
        .validation
        .map(|validation| validation.mode)
        .ok();
    let mut entry = attachment_json(&view);
    entry["mode"] = json!(mode);
    let report = Report::new("validation attach")
        .data(json!({"attachment": entry}))
        .panel(attachment_panel("Validation Attached", &view).row("Mode", mode.map(mode_cell)));
    let report = if view.scope_target.is_none() {
        report.info("it judges every plan that works on the resource")
    } else {
        report
    };
    Ok(report.ok("Validation attached"))
}

fn attachments(
    service: &ValidationService,
    arguments: &ValidationAttachments,
) -> Result<Report, CommandError> {
    let query = AttachmentQuery {
        validation: arguments.validation.clone(),
        resource: arguments.resource.clone(),
        project: arguments.project.clone(),
        plan: plan(arguments.plan.as_deref())?,
    };
    let all = service.attachments(&query)?;
    let entries: Vec<Value> = all.iter().map(attachment_json).collect();
    Ok(Report::new("validation attachments")
        .data(json!({"attachments": entries, "summary": {"total": all.len()}}))
        .table(attachment_table(&all))
        .ok(format!("{} listed", counted(all.len(), "attachment"))))
}

fn attachment_json(view: &AttachmentView) -> Value {
    json!({
        "attachment_id": view.attachment.id,
        "validation": view.attachment.validation,
        "resource": view.resource,
        "scope": view.attachment.scope(),
        "scope_target": view.scope_target,
        "arguments": view.attachment.arguments,
        "created": view.attachment.created_at,
    })
}

/// Where an attachment holds, in words.
fn scope(view: &AttachmentView) -> String {
    let scope = view.attachment.scope().as_str();
    match &view.scope_target {
        Some(target) => format!("{scope} {target}"),
        None => scope.to_owned(),
    }
}

/// The arguments as they are written.
fn written(view: &AttachmentView) -> Option<String> {
    let fields = view.attachment.arguments.as_object()?;
    let pairs: Vec<String> = fields
        .iter()
        .map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default()))
        .collect();
    (!pairs.is_empty()).then(|| pairs.join(" "))
}

fn attachment_panel(title: &str, view: &AttachmentView) -> Panel {
    Panel::new(title)
        .row("Attachment ID", Cell::Id(view.attachment.id.to_string()))
        .row("Validation", view.attachment.validation.as_str())
        .row("Resource", view.resource.as_str())
        .row("Scope", scope(view))
        .row("Arguments", written(view))
}

fn attachment_table(all: &[AttachmentView]) -> Table {
    Table::new("Attachments")
        .column("Id", Align::Left)
        .column("Validation", Align::Left)
        .column("Resource", Align::Left)
        .column("Scope", Align::Left)
        .column("Arguments", Align::Left)
        .empty("None. Attach one with `agents validation attach`")
        .rows(all.iter().map(|view| {
            vec![
                Cell::Id(view.attachment.id.to_string()),
                view.attachment.validation.as_str().into(),
                view.resource.as_str().into(),
                scope(view).into(),
                written(view).into(),
            ]
        }))
}
