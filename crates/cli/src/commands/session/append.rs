//! `session append`: one message, or a stream of messages.
//!
//! A thread reads the stream, so that lines that arrive during one commit share the next commit.
//! A single line is stored at once. Each line is acknowledged only after its message is durable.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Write, stdin, stdout};
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};

use cleveragents_application::session_operations::{AppendMessage, MetadataParameter, ShowSession};
use cleveragents_application::{SessionError, SessionService};
use cleveragents_domain::{Code, ContentError, MessageId, Metadata, Role, Sequence, SessionId};
use serde::Deserialize;
use serde_json::json;

use crate::arguments::SessionAppend;
use crate::commands::unwritable;
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report};

/// Maximum number of bytes to read beyond the limit, to report the size of an oversized text.
const MAX_COUNTED_BYTES: u64 = 1 << 30;

/// Maximum number of lines per commit.
const MAX_BATCH_LINES: usize = 256;

pub(super) fn run(
    context: &Context,
    arguments: SessionAppend,
) -> Result<Option<Report>, CommandError> {
    let reference = arguments.session.reference;
    if let Some(path) = arguments.jsonl {
        return stream(context, &reference, &path, &arguments.role).map(|()| None);
    }
    let text = match arguments.text.as_deref() {
        Some("-") => read_text(context)?,
        other => other.unwrap_or_default().to_owned(),
    };
    let metadata = arguments.metadata;
    let appended = context.call(AppendMessage {
        reference,
        role: arguments.role,
        text,
        metadata: metadata.map_or(MetadataParameter::Missing, MetadataParameter::Text),
    })?;
    let number = appended.sequence;
    let report = Report::new("session append")
        .panel(
            Panel::new("Message")
                .row("Session", Cell::Id(appended.session_id.to_string()))
                .row("Number", number.0)
                .row("Role", appended.role.as_str())
                .row("Id", Cell::Id(appended.message_id.to_string())),
        )
        .data(appended)
        .ok(format!("Message {number} appended"));
    Ok(Some(report))
}

/// Reads standard input as one text, without its final line break.
pub(crate) fn read_text(context: &Context) -> Result<String, CommandError> {
    let limit = context.settings.max_message_bytes();
    let failure = |error: std::io::Error| unreadable("standard input", &error);
    let mut input = stdin().lock();
    let mut bytes = Vec::new();
    // Bytes beyond the limit are counted, not stored.
    let stored_bytes = input
        .by_ref()
        .take(limit as u64 + 2)
        .read_to_end(&mut bytes)
        .map_err(failure)?;
    let excess =
        std::io::copy(&mut input.take(MAX_COUNTED_BYTES), &mut std::io::sink()).map_err(failure)?;
    if excess > 0 {
        let actual = stored_bytes.saturating_add(usize::try_from(excess).unwrap_or(usize::MAX));
        return Err(SessionError::Content(ContentError::TooLarge { actual, limit }).into());
    }
    let mut text = String::from_utf8(bytes)
        .map_err(|error| invalid_utf8("standard input", error.utf8_error().valid_up_to()))?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    Ok(text)
}

fn unreadable(source: &str, error: &std::io::Error) -> CommandError {
    CommandError::new(Code::FileAccess, format!("{source} cannot be read"))
        .caused_by(error)
        .with_hint("check that the file exists and is readable")
}

fn invalid_utf8(source: &str, at: usize) -> CommandError {
    CommandError::new(
        Code::InvalidUtf8,
        format!("{source} is not valid UTF-8 at byte {at}"),
    )
    .with_hint("convert it first, for example with `iconv -t utf-8`")
    .with_details(json!({"byte": at}))
}

/// A line of the input, with its number from 1.
struct Line {
    number: u64,
    bytes: std::io::Result<Vec<u8>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InputLine {
    content: String,
    role: Option<String>,
    #[serde(default)]
    metadata: Option<Metadata>,
}

/// Stores messages from JSON lines. Lines that arrive during one commit share the next commit; a
/// server receives the messages one by one.
fn stream(context: &Context, reference: &str, path: &Path, role: &str) -> Result<(), CommandError> {
    let role = parse_role(role)?;
    let sink = Sink::open(context, reference)?;
    let input: Box<dyn Read + Send> = if path == Path::new("-") {
        Box::new(stdin())
    } else {
        Box::new(File::open(path).map_err(|error| unreadable(&path.display().to_string(), &error))?)
    };
    // Upper limit for a line with a valid message: JSON writes a byte as at most six characters (`\u0000`), and the
    // rest leaves room for the other fields.
    let max_line_bytes = context
        .settings
        .max_message_bytes()
        .saturating_mul(12)
        .saturating_add(4096);
    let lines = read_lines(input, max_line_bytes);
    let mut out = BufWriter::new(stdout().lock());
    while let Ok(first) = lines.recv() {
        let mut batch = Vec::new();
        let mut failure = None;
        let waiting = std::iter::from_fn(|| lines.try_recv().ok());
        for line in std::iter::once(first).chain(waiting).take(MAX_BATCH_LINES) {
            match parse_line(line, role) {
                Ok(message) => batch.extend(message),
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        sink.store(batch, &mut out)?;
        if let Some(failure) = failure {
            return Err(failure);
        }
    }
    Ok(())
}

/// Destination of the messages of a stream.
enum Sink<'a> {
    Local(SessionService, SessionId),
    Server(&'a Context, String),
}

impl<'a> Sink<'a> {
    fn open(context: &'a Context, reference: &str) -> Result<Self, CommandError> {
        if context.connection.is_some() {
            let shown = context.call(ShowSession {
                reference: reference.to_owned(),
                recent: 0,
            })?;
            return Ok(Self::Server(context, shown.session_summary.id.to_string()));
        }
        let sessions = context.sessions()?;
        let id = sessions.resolve(reference)?;
        Ok(Self::Local(sessions, id))
    }

    /// Stores messages, and acknowledges each message once it is durable.
    fn store(&self, batch: Vec<ParsedLine>, out: &mut impl Write) -> Result<(), CommandError> {
        match self {
            Self::Local(sessions, id) => store_batch(sessions, *id, batch, out),
            Self::Server(context, reference) => {
                for line in batch {
                    let appended = context.call(AppendMessage {
                        reference: reference.clone(),
                        role: line.role.as_str().to_owned(),
                        text: line.content,
                        metadata: MetadataParameter::Object(line.metadata),
                    });
                    let appended = appended.map_err(|error| in_line(line.number, &error))?;
                    acknowledge(out, appended.sequence, appended.message_id)?;
                }
                out.flush().map_err(|error| unwritable(&error))
            }
        }
    }
}

/// Stores messages. Stops at an invalid message, after storing the messages before it.
fn store_batch(
    sessions: &SessionService,
    id: SessionId,
    batch: Vec<ParsedLine>,
    out: &mut impl Write,
) -> Result<(), CommandError> {
    let mut messages = Vec::new();
    let mut failure = None;
    for line in batch {
        match sessions.message(line.role, line.content, line.metadata) {
            Ok(message) => messages.push(message),
            Err(error) => {
                failure = Some(in_line(line.number, &CommandError::from(error)));
                break;
            }
        }
    }
    if !messages.is_empty() {
        for stored in sessions.append_messages(id, messages)? {
            acknowledge(out, stored.sequence, stored.id)?;
        }
        out.flush().map_err(|error| unwritable(&error))?;
    }
    failure.map_or(Ok(()), Err)
}

fn acknowledge(
    out: &mut impl Write,
    sequence: Sequence,
    id: MessageId,
) -> Result<(), CommandError> {
    let line = json!({"sequence": sequence, "message_id": id});
    writeln!(out, "{line}").map_err(|error| unwritable(&error))
}

/// Reads lines on a thread, at most a few commits ahead.
fn read_lines(input: Box<dyn Read + Send>, max_line_bytes: usize) -> Receiver<Line> {
    let (sender, receiver) = sync_channel(4 * MAX_BATCH_LINES);
    std::thread::spawn(move || {
        let mut input = BufReader::new(input);
        for number in 1.. {
            let mut bytes = Vec::new();
            let read = input
                .by_ref()
                .take(max_line_bytes as u64 + 1)
                .read_until(b'\n', &mut bytes);
            let bytes = match read {
                Ok(0) => return,
                Ok(_) => Ok(bytes),
                Err(error) => Err(error),
            };
            let is_last = bytes
                .as_ref()
                .map_or(true, |bytes| bytes.len() > max_line_bytes);
            if sender.send(Line { number, bytes }).is_err() || is_last {
                return;
            }
        }
    });
    receiver
}

/// A message from a line of the input.
struct ParsedLine {
    number: u64,
    role: Role,
    content: String,
    metadata: Metadata,
}

/// Parses a message from a line; `None` for an empty line.
fn parse_line(line: Line, role: Role) -> Result<Option<ParsedLine>, CommandError> {
    let number = line.number;
    let source = format!("line {number}");
    let bytes = line.bytes.map_err(|error| unreadable(&source, &error))?;
    let text = std::str::from_utf8(&bytes).map_err(|error| {
        invalid_utf8(&source, error.valid_up_to())
            .with_details(json!({"line": number, "byte": error.valid_up_to()}))
    })?;
    if text.trim().is_empty() {
        return Ok(None);
    }
    let input: InputLine = serde_json::from_str(text).map_err(|error| {
        CommandError::new(Code::InvalidJsonLine, format!("line {number} is not a message: {}", without_position(&error)))
            .with_hint("each line is a JSON object like {\"content\": \"…\", \"role\": \"user\"}; the previous lines are stored")
            .with_details(json!({"line": number}))
    })?;
    let role = input.role.as_deref().map_or(Ok(role), parse_role);
    Ok(Some(ParsedLine {
        number,
        role: role.map_err(|error| in_line(number, &CommandError::from(error)))?,
        content: input.content,
        metadata: input.metadata.unwrap_or_default(),
    }))
}

fn parse_role(text: &str) -> Result<Role, SessionError> {
    Ok(text.parse::<Role>()?)
}

/// Text of a JSON error without its line number, which counts lines within the single line that was parsed.
fn without_position(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let reason = text
        .rsplit_once(" at line ")
        .map_or(text.as_str(), |(reason, _)| reason);
    format!("{reason} (column {})", error.column())
}

/// Adds the line number to the error of a message.
fn in_line(number: u64, inner: &CommandError) -> CommandError {
    let failure = CommandError::new(inner.code(), format!("line {number}: {}", inner.message()))
        .with_details(json!({"line": number}));
    match inner.hint() {
        Some(hint) => failure.with_hint(hint.clone()),
        None => failure,
    }
}
