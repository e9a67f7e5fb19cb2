//! `session export` and `session import`.

use std::fs;
use std::io::{BufWriter, ErrorKind, Read, Write, stdin, stdout};
use std::path::Path;

use cleveragents_application::SessionError;
use cleveragents_application::session_operations::{
    ExportFormat, ExportReport, ExportSession, ImportSession,
};
use cleveragents_domain::Code;

use crate::arguments::{ExportDocument, SessionExport, SessionImport};
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report, Target, WriteMode, path_text};

pub(super) fn export(
    context: &Context,
    arguments: SessionExport,
    is_markdown: bool,
) -> Result<Option<Report>, CommandError> {
    let format = match (arguments.document, is_markdown) {
        (Some(ExportDocument::Markdown), _) | (None, true) => ExportFormat::Markdown,
        (Some(ExportDocument::Json), _) | (None, false) => ExportFormat::Json,
    };
    let reference = arguments.session.reference;
    let path = arguments.output.filter(|path| path != Path::new("-"));
    let target = path.map(|path| Target {
        path,
        care: if arguments.force {
            WriteMode::Replaced
        } else {
            WriteMode::New
        },
    });
    let Some(target) = target else {
        let mut out = BufWriter::new(stdout().lock());
        return match write(context, reference, format, &mut out) {
            // The reader closed the pipe.
            Err(WriteError::Output(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(None),
            outcome => outcome.map(|_| None).map_err(Into::into),
        };
    };
    let mut report = target.fill(|out| Ok(write(context, reference, format, out)?))?;
    report.session_export.output = Some(path_text(&target.path));
    Ok(Some(export_report(report, &target.path)))
}

enum WriteError {
    Output(std::io::Error),
    Command(CommandError),
}

impl From<WriteError> for CommandError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Output(error) => SessionError::Write(error).into(),
            WriteError::Command(error) => error,
        }
    }
}

/// Writes an export, from the database or from the connected server.
fn write(
    context: &Context,
    reference: String,
    format: ExportFormat,
    out: &mut dyn Write,
) -> Result<ExportReport, WriteError> {
    if context.connection.is_some() {
        let exported = context
            .call(ExportSession {
                reference,
                document: format,
            })
            .map_err(WriteError::Command)?;
        let written = out
            .write_all(exported.document.as_bytes())
            .and_then(|()| out.flush());
        written.map_err(WriteError::Output)?;
        return Ok(exported.report);
    }
    let sessions = context.sessions().map_err(WriteError::Command)?;
    let command = |error: SessionError| match error {
        SessionError::Write(error) => WriteError::Output(error),
        error => WriteError::Command(error.into()),
    };
    let id = sessions.resolve(&reference).map_err(command)?;
    let progress = context.progress("Exporting");
    let summary = sessions.export(id, format, out, Some(&progress));
    Ok(ExportReport::new(&summary.map_err(command)?, format))
}

fn export_report(report: ExportReport, path: &Path) -> Report {
    let (file, contents) = (&report.session_export, &report.contents);
    Report::new("session export")
        .panel(
            Panel::new("Session Export")
                .row("Session", Cell::Id(file.session.to_string()))
                .row("Output", path.display().to_string())
                .row("Messages", file.messages)
                .row("Size", Cell::Bytes(file.size))
                .row("Format", file.format.as_str()),
        )
        .panel(
            Panel::new("Contents")
                .row("Messages", contents.messages)
                .row("Plan References", contents.plan_references)
                .row("Metadata Keys", contents.metadata_keys)
                .row("Schema Version", contents.schema_version.clone()),
        )
        .panel(
            Panel::new("Integrity")
                .row("Checksum", report.integrity.checksum.clone())
                .row("Encrypted", "no"),
        )
        .data(report)
        .ok("Export completed")
}

/// Reads a file to import, `-` for standard input.
fn read_export(path: &Path) -> Result<Vec<u8>, CommandError> {
    let failure = |error: &std::io::Error| {
        CommandError::new(Code::FileAccess, format!("cannot read {}", path.display()))
            .caused_by(error)
            .with_hint("check that the file exists and is readable")
    };
    if path != Path::new("-") {
        return fs::read(path).map_err(|error| failure(&error));
    }
    let mut bytes = Vec::new();
    let read = stdin().lock().read_to_end(&mut bytes);
    read.map_err(|error| failure(&error))?;
    Ok(bytes)
}

pub(super) fn import(context: &Context, arguments: SessionImport) -> Result<Report, CommandError> {
    let path = &arguments.input;
    let text = String::from_utf8(read_export(path)?)
        .map_err(|error| SessionError::ImportMalformed(error.to_string()))?;
    let mut imported = context.call(ImportSession {
        text,
        unverified: arguments.unverified,
        namespace: arguments.namespace,
    })?;
    imported.session_import.input = Some(path_text(path));
    let report = &imported.session_import;
    Ok(Report::new("session import")
        .panel(
            Panel::new("Session Import")
                .row("Input", path.display().to_string())
                .row("Session", Cell::Id(report.session_id.to_string()))
                .row("Messages", report.messages)
                .row("Schema", report.schema.clone()),
        )
        .panel(
            Panel::new("Validation")
                .row("Checksum", imported.validation.checksum.clone())
                .row("Schema", imported.validation.schema.clone()),
        )
        .panel(
            Panel::new("Merge")
                .row(
                    "Exported from",
                    Cell::Id(imported.merge.existing.to_string()),
                )
                .row("Strategy", imported.merge.strategy.clone()),
        )
        .data(imported)
        .ok("Import completed"))
}
