//! `automation-profile`: how much plans do by themselves.

use std::path::Path;

use cleveragents_application::{AutomationError, AutomationService, Outcome, Register};
use cleveragents_domain::{AutomationGuard, AutomationProfile, Code, GateGroup};
use serde_json::{Map, Value, json};

use super::{confirm, counted, name_filter, read_definition, removal, yes_no};
use crate::arguments::AutomationProfile as Command;
use crate::config::keys;
use crate::context::Context;
use crate::output::{Align, Cell, CommandError, Panel, Report, Table};

pub(super) fn run(context: &Context, command: &Command) -> Result<Report, CommandError> {
    let service = AutomationService::new(context.engine()?);
    match command {
        Command::Add { config, update } => add(context, &service, config, *update),
        Command::List { pattern } => list(context, &service, pattern.as_deref()),
        Command::Show { profile } => show(context, &service, &profile.name),
        Command::Remove { profile, yes } => remove(context, &service, &profile.name, *yes),
    }
}

/// A profile whose description holds no key of the environment.
fn redacted(
    context: &Context,
    profile: AutomationProfile,
) -> Result<AutomationProfile, CommandError> {
    let secrets = context.models(None)?.redactor();
    Ok(AutomationProfile {
        description: secrets.text(&profile.description).into_owned(),
        ..profile
    })
}

fn add(
    context: &Context,
    service: &AutomationService,
    config: &Path,
    update: bool,
) -> Result<Report, CommandError> {
    let text = read_definition(config, "an automation profile", Code::MalformedProfile)?;
    let file = context.source_of(config);
    let register = if update {
        Register::Update
    } else {
        Register::New
    };
    let source = file.display().to_string();
    let added = service.add(&text, &source, register, &context.variables())?;
    let profile = redacted(context, added.profile)?;
    Ok(Report::new("automation-profile add")
        .data(json!({
            "name": profile.name,
            "description": profile.description,
            "thresholds": profile.thresholds,
            "flags": flags(&profile),
            "guards": guards(profile.guards.as_ref()),
            "max_retries": profile.max_retries,
            "validation_retries": profile.validation_retries,
            "config": added.stored.source,
            "created": added.stored.created_at,
            "updated": added.stored.updated_at,
            "version": added.stored.version,
            "outcome": added.outcome,
        }))
        .panel(head(&profile).row("Config", added.stored.source.clone()))
        .table(gates(&profile))
        .panel(flags_panel(&profile))
        .ok(match added.outcome {
            Outcome::Updated => "Automation profile updated",
            Outcome::Created | Outcome::Unchanged => "Automation profile registered",
        }))
}

fn flags(profile: &AutomationProfile) -> Value {
    json!({
        "require_sandbox": profile.require_sandbox,
        "require_checkpoints": profile.require_checkpoints,
        "allow_unsafe_tools": profile.allow_unsafe_tools,
    })
}

fn guards(guards: Option<&AutomationGuard>) -> Value {
    guards.map_or(Value::Null, |guards| {
        json!({
            "tool_denylist": guards.tool_denylist,
            "tool_allowlist": guards.tool_allowlist,
            "max_tool_calls_per_step": guards.max_tool_calls_per_step,
            "max_total_cost": guards.max_total_cost.map(cleveragents_domain::MicroUsd::as_usd),
            "require_approval_for_writes": guards.require_approval_for_writes,
            "require_approval_for_apply": guards.require_approval_for_apply,
        })
    })
}

fn head(profile: &AutomationProfile) -> Panel {
    let description = Some(profile.description.clone()).filter(|text| !text.is_empty());
    Panel::new("Automation Profile")
        .row("Name", profile.name.as_str())
        .row("Description", description)
}

/// The gates, group by group.
fn gates(profile: &AutomationProfile) -> Table {
    let mut table = Table::new("Gates")
        .column("Gate", Align::Left)
        .column("Threshold", Align::Right)
        .column("By itself", Align::Left)
        .column("Stands before", Align::Left);
    for gate in GateGroup::ALL.into_iter().flat_map(GateGroup::gates) {
        let threshold = profile.thresholds.threshold(gate);
        table = table.row(vec![
            gate.as_str().into(),
            shown(threshold).into(),
            by_itself(threshold),
            gate.gates().into(),
        ]);
    }
    table
}

/// A threshold with at least one digit behind the point.
fn shown(threshold: f64) -> String {
    format!("{threshold:?}")
}

fn by_itself(threshold: f64) -> Cell {
    if threshold <= 0.0 {
        Cell::Good("always".to_owned())
    } else if threshold >= 1.0 {
        Cell::Warn("asks".to_owned())
    } else {
        "when sure".into()
    }
}

fn flags_panel(profile: &AutomationProfile) -> Panel {
    let mut panel = Panel::new("Flags")
        .row("Sandbox demanded", yes_no(profile.require_sandbox))
        .row("Checkpoint demanded", yes_no(profile.require_checkpoints))
        .row("Unsafe tools", yes_no(profile.allow_unsafe_tools))
        .row("Tries again", u64::from(profile.max_retries))
        .row(
            "Mends after validations",
            u64::from(profile.validation_retries),
        );
    if let Some(guards) = &profile.guards {
        let listed = |list: &[String]| {
            if list.is_empty() {
                "none".to_owned()
            } else {
                list.join(", ")
            }
        };
        let allowed = guards.tool_allowlist.as_deref();
        panel = panel
            .row("Tools denied", listed(&guards.tool_denylist))
            .row(
                "Tools allowed",
                allowed.map_or_else(|| "all".to_owned(), listed),
            )
            .row("Calls in a step", guards.max_tool_calls_per_step)
            .row("Cost of a plan", guards.max_total_cost.map(Cell::Money))
            .row(
                "Every change asked about",
                yes_no(guards.require_approval_for_writes),
            )
            .row(
                "Applying asked about",
                yes_no(guards.require_approval_for_apply),
            );
    }
    panel
}

fn list(
    context: &Context,
    service: &AutomationService,
    pattern: Option<&str>,
) -> Result<Report, CommandError> {
    let fits = name_filter(pattern)?;
    let mut table = Table::with_columns(
        "Automation Profiles",
        ["Name", "Source", "Applies by itself", "Description"],
    )
    .empty("No automation profile matches");
    let mut entries = Vec::new();
    for profile in AutomationProfile::built_in() {
        if !fits(&profile.name) {
            continue;
        }
        table = table.row(row(&profile, "builtin"));
        entries.push(entry(&profile, "builtin"));
    }
    for registered in service.list(&context.variables())? {
        if !fits(&registered.stored.name) || !context.sees(&registered.stored.name) {
            continue;
        }
        match registered.profile {
            Ok(profile) => {
                let profile = redacted(context, profile)?;
                table = table.row(row(&profile, "custom"));
                entries.push(entry(&profile, "custom"));
            }
            Err(error) => {
                let name = registered.stored.name;
                table = table.row(vec![
                    name.as_str().into(),
                    "custom".into(),
                    Cell::Bad("broken".to_owned()),
                    error.to_string().into(),
                ]);
                entries
                    .push(json!({"name": name, "source": "custom", "problem": error.to_string()}));
            }
        }
    }
    let total = entries.len();
    Ok(Report::new("automation-profile list")
        .data(json!({"automation_profiles": entries, "summary": {"total": total}}))
        .table(table)
        .ok(format!("{} listed", counted(total, "automation profile"))))
}

fn row(profile: &AutomationProfile, source: &'static str) -> Vec<Cell> {
    let apply = cleveragents_domain::AutomationGate::Apply;
    vec![
        profile.name.as_str().into(),
        source.into(),
        by_itself(profile.thresholds.threshold(apply)),
        profile.description.as_str().into(),
    ]
}

fn entry(profile: &AutomationProfile, source: &str) -> Value {
    json!({
        "name": profile.name,
        "source": source,
        "description": profile.description,
        "thresholds": profile.thresholds,
        "flags": flags(profile),
    })
}

fn show(
    context: &Context,
    service: &AutomationService,
    name: &str,
) -> Result<Report, CommandError> {
    let stored = service.file(name)?;
    let profile = redacted(context, service.get(name, &context.variables())?)?;
    let mut data = Map::new();
    data.insert("name".to_owned(), json!(profile.name));
    data.insert("description".to_owned(), json!(profile.description));
    data.insert(
        "source".to_owned(),
        json!(if stored.is_some() {
            "custom"
        } else {
            "builtin"
        }),
    );
    for group in GateGroup::ALL {
        let mut fields: Map<String, Value> = group
            .gates()
            .map(|gate| {
                let threshold = profile.thresholds.threshold(gate);
                (gate.as_str().to_owned(), json!(threshold))
            })
            .collect();
        if group == GateGroup::ExecutionControls
            && let Value::Object(flags) = flags(&profile)
        {
            fields.extend(flags);
            fields.insert("max_retries".to_owned(), json!(profile.max_retries));
            fields.insert(
                "validation_retries".to_owned(),
                json!(profile.validation_retries),
            );
        }
        data.insert(group.as_str().to_owned(), Value::Object(fields));
    }
    data.insert("guards".to_owned(), guards(profile.guards.as_ref()));
    data.insert(
        "config".to_owned(),
        json!(stored.as_ref().map(|stored| &stored.source)),
    );
    data.insert(
        "version".to_owned(),
        json!(stored.as_ref().map(|stored| stored.version)),
    );
    Ok(Report::new("automation-profile show")
        .data(Value::Object(data))
        .panel(head(&profile).row("Config", stored.map(|stored| stored.source)))
        .table(gates(&profile))
        .panel(flags_panel(&profile))
        .ok("Automation profile shown"))
}

fn remove(
    context: &Context,
    service: &AutomationService,
    name: &str,
    yes: bool,
) -> Result<Report, CommandError> {
    if let Some(stored) = service.file(name)? {
        let configured = context.settings.automation_profile().to_lowercase();
        if configured == stored.name || format!("local/{configured}") == stored.name {
            let key = keys::AUTOMATION_PROFILE.name;
            let error = AutomationError::InUse {
                name: stored.name,
                by: format!("the configuration, as `{key}`"),
            };
            return Err(CommandError::from(error).with_hint(format!(
                "choose another with `agents config set {key} NAME`"
            )));
        }
        confirm(
            context,
            &format!("Remove automation profile {}?", stored.name),
            yes,
        )?;
    }
    let removed = service.remove(name)?;
    Ok(removal(
        "automation-profile remove",
        "Automation profile",
        removed.name,
        removed.source,
    ))
}
