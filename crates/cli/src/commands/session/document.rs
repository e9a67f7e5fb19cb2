//! Exporting a session to a document and importing it again.

use std::fs;
use std::io::{BufWriter, ErrorKind, Read, Write, stdin, stdout};
use std::path::Path;

use cleveragents_application::{
    EXPORT_SCHEMA, ExportSummary, ImportCheck, SessionError, SessionService,
};
use cleveragents_domain::{Code, ContentHash, SessionId};
use serde_json::json;

use super::manage::parse_namespace;
use crate::arguments::{ExportDocument, SessionExport, SessionImport};
use crate::commands::output_of;
use crate::context::Context;
use crate::output::{Care, Cell, CommandError, Panel, Report, Target, path_text};

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
    let path = output_of(context, arguments.output.as_deref());
    let is_replaced = match &context.served {
        Some(served) => served.is_replaced,
        None => arguments.force,
    };
    let path = path.filter(|path| *path != Path::new("-"));
    let target = path.map(|path| Target {
        path: path.to_owned(),
        care: if is_replaced {
            Care::Replaced
        } else {
            Care::New
        },
    });
    if context.served.is_some() {
        return sent(context, &sessions, id, document, target).map(Some);
    }
    let Some(target) = target else {
        let mut out = BufWriter::new(stdout().lock());
        return match write(context, &sessions, id, document, &mut out) {
            // Whoever read the beginning has seen enough.
            Err(SessionError::Write(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(None),
            outcome => outcome.map(|_| None).map_err(Into::into),
        };
    };
    let summary = target.fill(|out| Ok(write(context, &sessions, id, document, out)?))?;
    Ok(Some(report(&summary, document, &target.path)))
}

/// So much of an export is sent to another machine at most: it is held in memory on both sides.
const LARGEST_SENT: usize = 64 << 20;

/// The export for a caller on another machine, who writes it there.
fn sent(
    context: &Context,
    sessions: &SessionService,
    id: SessionId,
    document: ExportDocument,
    target: Option<Target>,
) -> Result<Report, CommandError> {
    let mut out = Limited(Vec::new());
    let summary =
        write(context, sessions, id, document, &mut out).map_err(|error| match error {
            SessionError::Write(error) if error.kind() == ErrorKind::FileTooLarge => {
                let most = LARGEST_SENT >> 20;
                let message =
                    format!("the export is larger than the {most} MiB that a server sends");
                CommandError::new(Code::LocalOnly, message)
                    .with_hint("export it on the machine of the server, with --local")
            }
            error => error.into(),
        })?;
    Ok(match target {
        None => Report::printed("session export", out.0),
        Some(target) => report(&summary, document, &target.path).with_file(out.0, target),
    })
}

/// Bytes, up to [`LARGEST_SENT`].
struct Limited(Vec<u8>);

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0.len() + bytes.len() > LARGEST_SENT {
            return Err(ErrorKind::FileTooLarge.into());
        }
        self.0.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
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
                "output": path_text(path),
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

/// The bytes of a file that is to be imported.
pub(crate) fn read_export(path: &Path) -> Result<Vec<u8>, CommandError> {
    let failure = |error: &std::io::Error| {
        CommandError::new(Code::FileAccess, format!("cannot read {}", path.display()))
            .caused_by(error)
            .with_hint("check that the file exists and that you may read it")
    };
    if path != Path::new("-") {
        return fs::read(path).map_err(|error| failure(&error));
    }
    let mut bytes = Vec::new();
    let read = stdin().lock().read_to_end(&mut bytes);
    read.map_err(|error| failure(&error))?;
    Ok(bytes)
}

pub(super) fn import(context: &Context, arguments: &SessionImport) -> Result<Report, CommandError> {
    let path = &arguments.input;
    let file = read_export(path)?;
    let check = if arguments.unverified {
        ImportCheck::Unverified
    } else {
        ImportCheck::Verified
    };
    // Where a text was kept meanwhile that came from elsewhere is nobody's business.
    let shown = match &context.served {
        Some(_) => context.source_of(path),
        None => path.clone(),
    };
    let namespace = arguments.namespace.as_deref().map(parse_namespace);
    let namespace = namespace.transpose()?;
    let imported = context.sessions()?.import(
        &file,
        check,
        namespace.as_deref(),
        Some(context.progress("Importing")),
    )?;
    let checksum = if arguments.unverified {
        "not checked"
    } else {
        "verified"
    };
    Ok(Report::new("session import")
        .data(json!({
            "session_import": {
                "input": path_text(&shown),
                "session_id": imported.session.id,
                "messages": imported.session.message_count,
                "schema": imported.schema,
            },
            "validation": {"checksum": checksum, "schema": "compatible"},
            "merge": {"existing": imported.original, "strategy": "create new"},
        }))
        .panel(
            Panel::new("Session Import")
                .row("Input", shown.display().to_string())
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
