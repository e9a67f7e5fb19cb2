//! Adding messages: one, or a stream of them.
//!
//! A stream is read by a thread of its own, so that whatever has arrived while one commit was on its
//! way shares the next. A line alone is stored at once. Each line is acknowledged only after its
//! message is durable.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Write, stdin, stdout};
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};

use cleveragents_application::{SessionError, SessionService};
use cleveragents_domain::{Code, ContentError, Metadata, NewMessage, Role, SessionId};
use serde::Deserialize;
use serde_json::json;

use super::parse_role;
use crate::arguments::SessionAppend;
use crate::commands::unwritable;
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report};

/// How much of a text that is too large is read to say how large it is.
const COUNTED: u64 = 1 << 30;

/// The most lines that share a commit.
const BATCH: usize = 256;

pub(super) fn run(
    context: &Context,
    arguments: SessionAppend,
) -> Result<Option<Report>, CommandError> {
    let role = parse_role(&arguments.role)?;
    match (arguments.jsonl, arguments.text) {
        (Some(path), _) => {
            stream(context, &arguments.session.reference, &path, role).map(|()| None)
        }
        (None, text) => {
            let metadata = parse_metadata(arguments.metadata.as_deref())?;
            let text = match text.as_deref() {
                Some("-") => read_text(context)?,
                other => other.unwrap_or_default().to_owned(),
            };
            one(context, &arguments.session.reference, role, text, metadata).map(Some)
        }
    }
}

fn parse_metadata(text: Option<&str>) -> Result<Metadata, SessionError> {
    text.map_or_else(
        || Ok(Metadata::new()),
        |text| {
            serde_json::from_str(text).map_err(|error| SessionError::Metadata(error.to_string()))
        },
    )
}

/// Reads all of standard input as one text, without the line break that ends it.
pub(crate) fn read_text(context: &Context) -> Result<String, CommandError> {
    let limit = context.settings.max_message_bytes();
    let failure = |error: std::io::Error| unreadable("standard input", &error);
    let mut input = stdin().lock();
    let mut bytes = Vec::new();
    // Beyond the limit and a line break the text is only counted, and not for ever.
    let kept = input
        .by_ref()
        .take(limit as u64 + 2)
        .read_to_end(&mut bytes)
        .map_err(failure)?;
    let rest = std::io::copy(&mut input.take(COUNTED), &mut std::io::sink()).map_err(failure)?;
    if rest > 0 {
        let actual = kept.saturating_add(usize::try_from(rest).unwrap_or(usize::MAX));
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

fn unreadable(place: &str, error: &std::io::Error) -> CommandError {
    CommandError::new(Code::FileAccess, format!("{place} cannot be read"))
        .caused_by(error)
        .with_hint("check that the file exists and that you may read it")
}

fn invalid_utf8(place: &str, at: usize) -> CommandError {
    CommandError::new(
        Code::InvalidUtf8,
        format!("{place} is not valid UTF-8 at byte {at}"),
    )
    .with_hint("convert it first, for example with `iconv -t utf-8`")
    .with_details(json!({"byte": at}))
}

fn one(
    context: &Context,
    reference: &str,
    role: Role,
    text: String,
    metadata: Metadata,
) -> Result<Report, CommandError> {
    let sessions = context.sessions()?;
    let id = sessions.resolve(reference)?;
    let stored = sessions.append_message(id, role, text, metadata)?;
    Ok(Report::new("session append")
        .data(json!({"session_id": id, "sequence": stored.sequence, "message_id": stored.id, "role": role}))
        .panel(
            Panel::new("Message")
                .row("Session", Cell::Id(id.to_string()))
                .row("Number", stored.sequence.0)
                .row("Role", role.as_str())
                .row("Id", Cell::Id(stored.id.to_string())),
        )
        .ok(format!("Message {} appended", stored.sequence)))
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

fn stream(context: &Context, reference: &str, path: &Path, role: Role) -> Result<(), CommandError> {
    let sessions = context.sessions()?;
    let id = sessions.resolve(reference)?;
    let input: Box<dyn Read + Send> = if path == Path::new("-") {
        Box::new(stdin())
    } else {
        Box::new(File::open(path).map_err(|error| unreadable(&path.display().to_string(), &error))?)
    };
    // JSON may spell a byte with six characters; beyond that a line cannot fit the limit.
    let longest = context
        .settings
        .max_message_bytes()
        .saturating_mul(12)
        .saturating_add(4096);
    let lines = read_lines(input, longest);
    let mut out = BufWriter::new(stdout().lock());
    while let Ok(first) = lines.recv() {
        let mut batch = Vec::new();
        let mut failure = None;
        let waiting = std::iter::from_fn(|| lines.try_recv().ok());
        for line in std::iter::once(first).chain(waiting).take(BATCH) {
            match parse_line(&sessions, line, role) {
                Ok(message) => batch.extend(message),
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        store(&sessions, id, batch, &mut out)?;
        if let Some(failure) = failure {
            return Err(failure);
        }
    }
    Ok(())
}

/// Stores what came before a wrong line too, and acknowledges each message once it is durable.
fn store(
    sessions: &SessionService,
    id: SessionId,
    batch: Vec<NewMessage>,
    out: &mut impl Write,
) -> Result<(), CommandError> {
    if batch.is_empty() {
        return Ok(());
    }
    for stored in sessions.append_messages(id, batch)? {
        let line = json!({"sequence": stored.sequence, "message_id": stored.id});
        writeln!(out, "{line}").map_err(|error| unwritable(&error))?;
    }
    out.flush().map_err(|error| unwritable(&error))
}

/// Reads lines on a thread of their own, a few commits ahead at most.
fn read_lines(input: Box<dyn Read + Send>, longest: usize) -> Receiver<Line> {
    let (sender, receiver) = sync_channel(4 * BATCH);
    std::thread::spawn(move || {
        let mut input = BufReader::new(input);
        for number in 1.. {
            let mut bytes = Vec::new();
            let read = input
                .by_ref()
                .take(longest as u64 + 1)
                .read_until(b'\n', &mut bytes);
            let bytes = match read {
                Ok(0) => return,
                Ok(_) => Ok(bytes),
                Err(error) => Err(error),
            };
            let is_last = bytes.as_ref().map_or(true, |bytes| bytes.len() > longest);
            if sender.send(Line { number, bytes }).is_err() || is_last {
                return;
            }
        }
    });
    receiver
}

/// Reads a message from a line, `None` from an empty one.
fn parse_line(
    sessions: &SessionService,
    line: Line,
    role: Role,
) -> Result<Option<NewMessage>, CommandError> {
    let number = line.number;
    let place = format!("line {number}");
    let bytes = line.bytes.map_err(|error| unreadable(&place, &error))?;
    let text = std::str::from_utf8(&bytes).map_err(|error| {
        invalid_utf8(&place, error.valid_up_to())
            .with_details(json!({"line": number, "byte": error.valid_up_to()}))
    })?;
    if text.trim().is_empty() {
        return Ok(None);
    }
    let input: InputLine = serde_json::from_str(text).map_err(|error| {
        CommandError::new(Code::InvalidJsonLine, format!("line {number} is not a message: {}", without_position(&error)))
            .with_hint("each line is a JSON object like {\"content\": \"…\", \"role\": \"user\"}; the lines before it are stored")
            .with_details(json!({"line": number}))
    })?;
    let made = match input.role.as_deref().map_or(Ok(role), parse_role) {
        Ok(role) => sessions.message(role, input.content, input.metadata.unwrap_or_default()),
        Err(error) => Err(error),
    };
    made.map(Some).map_err(|error| wrong_line(number, error))
}

/// What is wrong with a line, with the column alone: the line is ours to count.
fn without_position(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let reason = text
        .rsplit_once(" at line ")
        .map_or(text.as_str(), |(reason, _)| reason);
    format!("{reason} (column {})", error.column())
}

/// The error of a message, told with the number of its line.
fn wrong_line(number: u64, error: SessionError) -> CommandError {
    let inner = CommandError::from(error);
    let failure = CommandError::new(inner.code(), format!("line {number}: {}", inner.message()))
        .with_details(json!({"line": number}));
    match inner.hint() {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}
