//! `init`: creates the home folder. Never deletes existing files.

use std::fs;
use std::path::{Path, PathBuf};

use cleveragents_domain::{Code, Timestamp};
use serde_json::json;

use super::confirm;
use crate::arguments::Init;
use crate::config::KEYS;
use crate::context::Context;
use crate::output::{CommandError, Panel, Report, path_text};

pub(crate) fn run(context: &Context, arguments: &Init) -> Result<Report, CommandError> {
    let url = context.database_url()?;
    let config_file = context.home.config_file();
    let mut backup = None;
    if arguments.force {
        let Some(database) = url.path() else {
            return Err(
                CommandError::usage("only an SQLite database can be reset").with_hint(
                    "create another database on the server and set core.database-url to it",
                ),
            );
        };
        let existing: Vec<PathBuf> = database_files(database)
            .into_iter()
            .chain([config_file.clone()])
            .filter(|path| path.exists())
            .collect();
        if !existing.is_empty() {
            confirm(
                &format!(
                    "Move the data in {} to a backup and reset?",
                    context.home.path().display()
                ),
                arguments.yes,
            )?;
            backup = Some(move_to_backup(context, &existing)?);
        }
    }
    context.home.create()?;
    let wrote_config = write_template(&config_file)?;
    let existed = url.path().is_none_or(Path::exists);
    let engine = context.engine()?;
    let status = engine.status()?;
    let state = |is_created: bool| if is_created { "created" } else { "exists" };
    let report = Report::new("init")
        .data(json!({
            "home": path_text(context.home.path()),
            "config_file": {"path": path_text(&config_file), "created": wrote_config},
            "database": {"url": status.url, "created": !existed, "schema_version": status.schema_version},
            "backup": backup.as_deref().map(path_text),
        }))
        .panel(
            Panel::new("Home")
                .row("Home", context.home.path().display().to_string())
                .row("Configuration", format!("{} ({})", config_file.display(), state(wrote_config)))
                .row("Database", format!("{} ({})", status.url, state(!existed)))
                .row("Schema version", status.schema_version)
                .row("Backup", backup.map(|path| path.display().to_string())),
        );
    Ok(report.ok("Ready"))
}

/// Files of an SQLite database.
fn database_files(database: &Path) -> Vec<PathBuf> {
    ["", "-wal", "-shm"]
        .map(|suffix| {
            let mut name = database.as_os_str().to_owned();
            name.push(suffix);
            PathBuf::from(name)
        })
        .to_vec()
}

fn file_error(action: &str, path: &Path, error: &std::io::Error) -> CommandError {
    CommandError::new(
        Code::FileAccess,
        format!("cannot {action} {}", path.display()),
    )
    .caused_by(error)
    .with_hint("check write permission and free disk space")
}

fn move_to_backup(context: &Context, existing: &[PathBuf]) -> Result<PathBuf, CommandError> {
    let stamp = Timestamp::now().as_micros();
    let folder = context
        .home
        .path()
        .join("backups")
        .join(format!("init-{stamp}"));
    fs::create_dir_all(&folder).map_err(|error| file_error("create", &folder, &error))?;
    for path in existing {
        let Some(name) = path.file_name() else {
            continue;
        };
        fs::rename(path, folder.join(name)).map_err(|error| file_error("move", path, &error))?;
    }
    Ok(folder)
}

/// Writes a configuration file that describes every key and sets none.
fn write_template(path: &Path) -> Result<bool, CommandError> {
    use std::fmt::Write as _;
    let mut text =
        String::from("# Configuration of CleverAgents. Remove the # before a key to set it.\n");
    let mut section = "";
    for key in KEYS {
        let (table, name) = key.name.split_once('.').unwrap_or(("core", key.name));
        if table != section {
            section = table;
            // Writing to a String cannot fail.
            let _written = writeln!(text, "\n[{table}]");
        }
        let _written = writeln!(
            text,
            "# {} ({})\n# {name} = {}",
            key.description,
            key.allowed(),
            key.example()
        );
    }
    // Writes the file atomically, and never replaces a file that another process created meanwhile.
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)
        .map_err(|error| file_error("create", path, &error))?;
    std::io::Write::write_all(&mut file, text.as_bytes())
        .map_err(|error| file_error("write", path, &error))?;
    match file.persist_noclobber(path) {
        Ok(_) => Ok(true),
        Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(file_error("create", path, &error.error)),
    }
}
