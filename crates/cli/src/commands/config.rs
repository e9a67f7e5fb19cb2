//! `config`: reads and changes the configuration.

use cleveragents_application::{AuditService, AutomationService, DefinitionError};
use cleveragents_domain::{AutomationProfile, DefinitionKind, nearest};
use serde_json::json;

use crate::arguments::Config;
use crate::config::{Change, ConfigFile, Environment, Home, KEYS, ResolvedKey, keys};
use crate::context::Context;
use crate::output::{Align, Cell, CommandError, Panel, Report, Table, path_text};

/// Runs `config set` or `config unset`; returns `None` for commands that only read.
pub(crate) fn change(
    command: &Config,
    environment: &Environment,
    home: &Home,
) -> Result<Option<Report>, CommandError> {
    let (name, project) = match command {
        Config::Set { project, .. } => ("config set", *project),
        Config::Unset { project, .. } => ("config unset", *project),
        Config::Get { .. } | Config::List => return Ok(None),
    };
    let file = if project {
        let folder = environment
            .working_folder()
            .ok_or_else(|| CommandError::usage("the working folder is unknown"))?;
        ConfigFile::of_project(folder.join(".cleveragents").join("config.toml"))
    } else {
        ConfigFile::of_home(home)
    };
    let changes = match command {
        Config::Set { key, value, .. } => file.set(&[(key, value)])?,
        Config::Unset { key, .. } => file.unset(&[key])?,
        Config::Get { .. } | Config::List => Vec::new(),
    };
    Ok(Some(change_report(name, &file, &changes)))
}

/// Sets a key in the configuration file of the user.
pub(crate) fn set_in_home(context: &Context, key: &str, value: &str) -> Result<(), CommandError> {
    let file = ConfigFile::of_home(&context.home);
    let changes = file.set(&[(key, value)])?;
    note(context, &change_report("config set", &file, &changes))
}

/// Refuses to set an automation profile that does not exist. Calls `context` to open the database only
/// if needed. `context` returns `None` if the configuration is unreadable: the database is unknown
/// then, and the check is skipped.
pub(crate) fn require_profile(
    command: &Config,
    context: impl FnOnce() -> Option<Context>,
) -> Result<(), CommandError> {
    let Config::Set { key, value, .. } = command else {
        return Ok(());
    };
    // Malformed names are refused when the file is written.
    if key != keys::AUTOMATION_PROFILE.name
        || keys::AUTOMATION_PROFILE.parse(value).is_err()
        || AutomationProfile::find_built_in(value).is_some()
    {
        return Ok(());
    }
    let Some(context) = context() else {
        return Ok(());
    };
    if context.lacks_database() {
        return Err(DefinitionError::NotFound {
            kind: DefinitionKind::AutomationProfile,
            name: value.clone(),
            nearest: nearest::all(value, AutomationProfile::built_in_names(), 3),
        }
        .into());
    }
    AutomationService::new(context.engine()?).file(value)?;
    Ok(())
}

fn change_report(command: &'static str, file: &ConfigFile, changes: &[Change]) -> Report {
    let mut report = Report::new(command);
    for change in changes {
        let show = |value: &Option<crate::config::Value>| {
            value.as_ref().map(|value| change.key.show(value))
        };
        let (before, after) = (show(&change.before), show(&change.after));
        report = report
            .data(json!({
                "key": change.key.name,
                "value": change.after.as_ref().map(|value| change.key.to_json(value)),
                "previous": change.before.as_ref().map(|value| change.key.to_json(value)),
                "file": path_text(file.path()),
            }))
            .panel(
                Panel::new("Configuration")
                    .row("Key", change.key.name)
                    .row("Value", after.clone())
                    .row("Before", before.clone())
                    .row("File", file.path().display().to_string()),
            );
        report = match (before, after) {
            (_, Some(after)) => report.ok(format!("{} is now {after}", change.key.name)),
            (Some(_), None) => {
                report.ok(format!("{} is no longer set in this file", change.key.name))
            }
            (None, None) => report.info(format!("{} was not set in this file", change.key.name)),
        };
    }
    report
}

/// Records a change in the audit log, if a database exists.
pub(crate) fn note(context: &Context, report: &Report) -> Result<(), CommandError> {
    let data = report.data.to_tree();
    let Some(key) = data["key"].as_str().filter(|_| context.has_database()) else {
        return Ok(());
    };
    let text = |value: &serde_json::Value| match value {
        serde_json::Value::Null => None,
        serde_json::Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    let (before, after) = (text(&data["previous"]), text(&data["value"]));
    if before == after {
        return Ok(());
    }
    let audit = AuditService::new(context.engine()?);
    Ok(audit.configuration_changed(key, before.as_deref(), after.as_deref())?)
}

pub(crate) fn show(context: &Context, command: &Config) -> Result<Report, CommandError> {
    match command {
        Config::Get { key, verbose } => get(context, key, *verbose),
        _ => list(context),
    }
}

fn value_text(resolved: &ResolvedKey) -> Option<String> {
    resolved
        .value
        .as_ref()
        .map(|value| resolved.key.show(value))
}

fn get(context: &Context, key: &str, verbose: bool) -> Result<Report, CommandError> {
    let resolved = context.configuration.resolve(key)?;
    let mut data = resolved.to_json();
    if !verbose && let Some(data) = data.as_object_mut() {
        data.remove("chain");
    }
    let mut report = Report::new("config get").data(data).panel(
        Panel::new("Configuration")
            .row("Key", resolved.key.name)
            .row("Value", value_text(&resolved))
            .row(
                "Set by",
                format!("{} ({})", level_name(resolved.level), resolved.source),
            )
            .row("Meaning", resolved.key.description)
            .row("Allowed", resolved.key.allowed()),
    );
    if verbose {
        let mut table = Table::new("Levels, strongest first")
            .column("Level", Align::Left)
            .column("Value", Align::Left)
            .column("Source", Align::Left);
        for step in &resolved.chain {
            table = table.row(vec![
                level_name(step.level).into(),
                step.value
                    .as_ref()
                    .map(|value| resolved.key.show(value))
                    .into(),
                step.source.as_ref().map(ToString::to_string).into(),
            ]);
        }
        report = report.table(table);
    }
    Ok(report)
}

fn level_name(level: crate::config::ConfigLevel) -> String {
    serde_json::to_value(level)
        .ok()
        .and_then(|value| value.as_str().map(str::to_owned))
        .unwrap_or_default()
}

fn list(context: &Context) -> Result<Report, CommandError> {
    let all = context.configuration.all()?;
    let mut table = Table::new("Configuration")
        .column("Key", Align::Left)
        .column("Value", Align::Left)
        .column("Set by", Align::Left)
        .column("Meaning", Align::Left)
        .keep(["Key"])
        .shorten(["Value"])
        .drop_first(["Set by", "Meaning"]);
    for resolved in &all {
        table = table.row(vec![
            resolved.key.name.into(),
            value_text(resolved).into(),
            level_name(resolved.level).into(),
            Cell::Muted(resolved.key.description.to_owned()),
        ]);
    }
    let keys: Vec<serde_json::Value> = all
        .iter()
        .map(|resolved| {
            let mut value = resolved.to_json();
            if let Some(fields) = value.as_object_mut() {
                fields.remove("chain");
                fields.insert("variable".to_owned(), json!(resolved.key.variable));
                fields.insert("description".to_owned(), json!(resolved.key.description));
            }
            value
        })
        .collect();
    Ok(Report::new("config list")
        .data(json!({"keys": keys}))
        .table(table)
        .ok(format!("{} keys listed", KEYS.len())))
}
