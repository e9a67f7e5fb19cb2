//! `version` and `info`: versions, paths and counts.

use cleveragents_application::system_operations::ProgramVersion;
use serde_json::json;

use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report, path_text};

pub(crate) fn version() -> Report {
    let version = ProgramVersion::current();
    Report::new("version")
        .panel(
            Panel::new("CleverAgents")
                .row("Version", version.version.clone())
                .row("Platform", version.platform.clone())
                .row("SQLite", version.sqlite.clone())
                .row("Database schema", version.schema_version)
                .row("Export schema", version.export_schema.clone()),
        )
        .data(version)
        .ok("Version reported")
}

/// Reports the environment without creating anything.
pub(crate) fn info(context: &Context) -> Result<Report, CommandError> {
    let url = context.database_url()?;
    let exists = url.path().is_none_or(std::path::Path::exists);
    let totals = if exists {
        Some(context.sessions()?.list(&totals_only())?.1)
    } else {
        None
    };
    let config_file = context.home.config_file();
    let report = Report::new("info")
        .data(json!({
            "version": env!("CARGO_PKG_VERSION"),
            "home": path_text(context.home.path()),
            "config_file": {"path": path_text(&config_file), "exists": config_file.exists()},
            "project_config": context.configuration.project_file().map(path_text),
            "database": {"url": url.to_string(), "engine": url.dialect().as_str(), "exists": exists},
            "sessions": totals.as_ref().map(|totals| totals.sessions),
            "messages": totals.as_ref().map(|totals| totals.messages),
            "server_mode": "disabled",
        }))
        .panel(
            Panel::new("Environment")
                .row("Version", env!("CARGO_PKG_VERSION"))
                .row("Home", context.home.path().display().to_string())
                .row("Configuration", config_file.display().to_string())
                .row("Project configuration", context.configuration.project_file().map(|path| path.display().to_string()))
                .row("Database", url.to_string())
                .row("Server mode", "disabled"),
        );
    Ok(match totals {
        Some(totals) => report
            .panel(
                Panel::new("Contents")
                    .row("Sessions", totals.sessions)
                    .row("Messages", totals.messages)
                    .row("Message text", Cell::Bytes(totals.content_bytes)),
            )
            .ok("Environment reported"),
        None => {
            report.info("There is no database yet; the first command that stores data creates it")
        }
    })
}

fn totals_only() -> cleveragents_store::sessions::SessionFilter {
    cleveragents_store::sessions::SessionFilter {
        limit: Some(0),
        ..Default::default()
    }
}
