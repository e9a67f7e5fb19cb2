//! Where the log of a server goes: standard error, and a file if one is configured.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use cleveragents_domain::Code;
use cleveragents_server::log_to;

use crate::config::keys;
use crate::context::Context;
use crate::output::CommandError;

/// Begins to write the log. Fails when the file that is configured cannot be written.
pub(super) fn start(context: &Context) -> Result<(), CommandError> {
    let configured = context.configuration.resolve_key(&keys::SERVE_LOG_FILE)?;
    let path = configured
        .value
        .and_then(|value| value.as_text().map(PathBuf::from));
    let file = path.as_deref().map(open).transpose()?.map(Mutex::new);
    let redactor = context.models(None)?.redactor();
    log_to(move |entry| {
        let line = format!("{entry}\n");
        let line = redactor.text(&line);
        // A log that cannot be written stops no server.
        let _told = std::io::stderr().lock().write_all(line.as_bytes());
        if let Some(file) = &file {
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            let _kept = file.write_all(line.as_bytes());
        }
    });
    Ok(())
}

/// Opens a log file to add to it. Only its owner can read a new one: lines name callers and paths.
fn open(path: &Path) -> Result<File, CommandError> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600);
    options.open(path).map_err(|error| {
        CommandError::new(
            Code::FileAccess,
            format!("the log file `{}` cannot be written", path.display()),
        )
        .caused_by(&error)
        .with_hint("name another one with --log-file")
    })
}
