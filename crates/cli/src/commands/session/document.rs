//! Exporting a session to a document and importing it again.

use std::fs;
use std::io::{BufWriter, Read, Write, stdin, stdout};
use std::path::Path;

use cleveragents_domain::{Code, ContentHash, SessionId};
use cleveragents_engine::{
    EXPORT_SCHEMA, ExportSummary, ImportCheck, SessionError, SessionService,
};
use serde_json::json;

use crate::arguments::{ExportDocument, SessionExport, SessionImport};
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report};

pub(super) fn export(
    context: &Context,
    arguments: &SessionExport,
    is_markdown: bool,
) -> Result<Option<Report>, CommandError> {
    let document = match (arguments.document, is_markdown) {
        (Some(document), _) => document,
        (None, true) => ExportDocument::Markdown,
        (None, false) => ExportDocument::Json,
    };
    let sessions = context.sessions()?;
    let id = sessions.resolve(&arguments.session.reference)?;
    match arguments.output.as_deref() {
        Some(path) if path != Path::new("-") => {
            let summary = export_to_file(context, &sessions, id, document, path, arguments.force)?;
            Ok(Some(report(&summary, document, path)))
        }
        _ => {
            let mut out = BufWriter::new(stdout().lock());
            match write(context, &sessions, id, document, &mut out) {
                // Whoever read the beginning has seen enough.
                Err(SessionError::Write(error))
                    if error.kind() == std::io::ErrorKind::BrokenPipe =>
                {
                    Ok(None)
                }
                outcome => outcome.map(|_| None).map_err(Into::into),
            }
        }
    }
}

fn write(
    context: &Context,
    sessions: &SessionService,
    id: SessionId,
    document: ExportDocument,
    out: &mut dyn Write,
) -> Result<ExportSummary, SessionError> {
    let progress = context.progress("Exporting");
    match document {
        ExportDocument::Json => sessions.export_json(id, out, Some(&progress)),
        ExportDocument::Markdown => sessions.export_markdown(id, out, Some(&progress)),
    }
}

/// Writes beside the target first, so that the target is the whole export or untouched.
fn export_to_file(
    context: &Context,
    sessions: &SessionService,
    id: SessionId,
    document: ExportDocument,
    path: &Path,
    force: bool,
) -> Result<ExportSummary, CommandError> {
    let failure = |error: &std::io::Error| {
        CommandError::new(Code::FileAccess, format!("cannot write {}", path.display()))
            .caused_by(error)
            .with_hint("check that the folder exists and has room")
    };
    let exists = || {
        CommandError::new(
            Code::OutputExists,
            format!("{} exists already", path.display()),
        )
        .with_hint("choose another file, or overwrite it with --force")
    };
    if !force && path.exists() {
        return Err(exists());
    }
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or_else(|| Path::new("."));
    let temporary = tempfile::NamedTempFile::new_in(folder).map_err(|error| failure(&error))?;
    let mut out = BufWriter::new(temporary);
    let summary = write(context, sessions, id, document, &mut out)?;
    let temporary = out.into_inner().map_err(|error| failure(error.error()))?;
    temporary
        .as_file()
        .sync_all()
        .map_err(|error| failure(&error))?;
    let placed = if force {
        temporary.persist(path)
    } else {
        temporary.persist_noclobber(path)
    };
    match placed {
        Ok(_) => Ok(summary),
        Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => Err(exists()),
        Err(error) => Err(failure(&error.error)),
    }
}

fn report(summary: &ExportSummary, document: ExportDocument, path: &Path) -> Report {
    let format = match document {
        ExportDocument::Json => "json",
        ExportDocument::Markdown => "markdown",
    };
    let checksum = summary.checksum.as_ref().map(ContentHash::to_string);
    Report::new("session export")
        .data(json!({
            "session_export": {
                "session": summary.session_id,
                "output": path,
                "messages": summary.messages,
                "size": summary.size_bytes,
                "format": format,
            },
            "contents": {
                "messages": summary.messages,
                "plan_references": summary.plan_references,
                "metadata_keys": summary.metadata_keys,
                "schema_version": EXPORT_SCHEMA,
            },
            "integrity": {"checksum": checksum, "encrypted": false},
        }))
        .panel(
            Panel::new("Session Export")
                .row("Session", Cell::Id(summary.session_id.to_string()))
                .row("Output", path.display().to_string())
                .row("Messages", summary.messages)
                .row("Size", Cell::Bytes(summary.size_bytes))
                .row("Format", format),
        )
        .panel(
            Panel::new("Contents")
                .row("Messages", summary.messages)
                .row("Plan References", summary.plan_references)
                .row("Metadata Keys", summary.metadata_keys)
                .row("Schema Version", EXPORT_SCHEMA),
        )
        .panel(
            Panel::new("Integrity")
                .row("Checksum", checksum)
                .row("Encrypted", "no"),
        )
        .ok("Export completed")
}

pub(super) fn import(context: &Context, arguments: &SessionImport) -> Result<Report, CommandError> {
    let path = &arguments.input;
    let failure = |error: &std::io::Error| {
        CommandError::new(Code::FileAccess, format!("cannot read {}", path.display()))
            .caused_by(error)
            .with_hint("check that the file exists and that you may read it")
    };
    let file = if path == Path::new("-") {
        let mut bytes = Vec::new();
        stdin()
            .lock()
            .read_to_end(&mut bytes)
            .map_err(|error| failure(&error))?;
        bytes
    } else {
        fs::read(path).map_err(|error| failure(&error))?
    };
    let check = if arguments.unverified {
        ImportCheck::Unverified
    } else {
        ImportCheck::Verified
    };
    let imported = context
        .sessions()?
        .import(&file, check, Some(context.progress("Importing")))?;
    let checksum = if arguments.unverified {
        "not checked"
    } else {
        "verified"
    };
    Ok(Report::new("session import")
        .data(json!({
            "session_import": {
                "input": path,
                "session_id": imported.session.id,
                "messages": imported.session.message_count,
                "schema": imported.schema,
            },
            "validation": {"checksum": checksum, "schema": "compatible"},
            "merge": {"existing": imported.original, "strategy": "create new"},
        }))
        .panel(
            Panel::new("Session Import")
                .row("Input", path.display().to_string())
                .row("Session", Cell::Id(imported.session.id.to_string()))
                .row("Messages", imported.session.message_count)
                .row("Schema", imported.schema),
        )
        .panel(
            Panel::new("Validation")
                .row("Checksum", checksum)
                .row("Schema", "compatible"),
        )
        .panel(
            Panel::new("Merge")
                .row("Exported from", Cell::Id(imported.original.to_string()))
                .row("Strategy", "create new"),
        )
        .ok("Import completed"))
}
