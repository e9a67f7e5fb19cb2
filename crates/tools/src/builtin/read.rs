//! `builtin/file-read`: reads a file, or some lines of it.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::sync::Arc;

use cleveragents_domain::FileKind;
use schemars::JsonSchema;
use serde::Deserialize;

use super::paths::{LastLink, Target, target};
use super::{Description, FILE_TIMEOUT, PrepareResult, builtin, missing, ready};
use crate::capability::{Access, Capability};
use crate::gate::MAX_IMAGE_SIZE;
use crate::spec::{Category, WorkspaceNeed};
use crate::tool::{Answer, Call, Failure, PrepareContext, Tool};

/// Default of `limit`.
const DEFAULT_LINES: u64 = 2_000;

/// Number of leading bytes of a file to search for a NUL byte, which marks a binary file.
const BINARY_CHECK_LENGTH: usize = 8 << 10;

/// Size of the read buffer, in bytes.
const BUFFER_SIZE: usize = 64 << 10;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadArguments {
    /// The file to read.
    path: String,
    /// The first line to read, counted from 1. Default: 1.
    #[schemars(range(min = 1))]
    offset: Option<u64>,
    /// Maximum number of lines to read. Default: 2000.
    #[schemars(range(min = 1))]
    limit: Option<u64>,
    /// Whether to prefix every line with its number. Default: false.
    line_numbers: Option<bool>,
}

pub(super) fn tool() -> Arc<dyn Tool> {
    let description = Description {
        name: "file-read",
        about: "Reads a text file or some of its lines. Images (PNG, JPEG, GIF, WebP) are shown to models \
                      that accept images; for other binary files it returns only the size.",
        category: Category::FileOperations,
        workspace_need: WorkspaceNeed::Required,
        capability: Capability::reads(),
        timeout: FILE_TIMEOUT,
    };
    builtin::<ReadArguments>(description, prepare)
}

fn prepare(arguments: ReadArguments, context: PrepareContext<'_>) -> PrepareResult<'_> {
    let file = target(context, &arguments.path, LastLink::Follow, Access::Reads)?;
    let subjects = vec![file.subject(Access::Reads)];
    Ok(ready(subjects, move |call| read(&file, &arguments, call)))
}

/// Opens a regular file.
pub(super) fn open(file: &Target<'_>, call: &Call<'_>) -> Result<File, Failure> {
    match file.kind()? {
        Some(FileKind::File) => file
            .root()
            .open_file(&file.path)
            .map_err(|error| file.failed("opening", &error)),
        Some(FileKind::Directory) => Err(Failure::new(format!(
            "`{}` is a directory; list it with builtin/dir-list",
            file.path
        ))),
        Some(FileKind::Symlink) | None => Err(missing::no_file(file, call)),
    }
}

fn read(
    file: &Target<'_>,
    arguments: &ReadArguments,
    call: &mut Call<'_>,
) -> Result<Answer, Failure> {
    let opened = open(file, call)?;
    let size = opened.metadata().map_or(0, |metadata| metadata.len());
    let mut reader = BufReader::with_capacity(BUFFER_SIZE, opened);
    let failed = |error: std::io::Error| file.failed("reading", &error);
    let beginning = reader.fill_buf().map_err(failed)?;
    let beginning = &beginning[..beginning.len().min(BINARY_CHECK_LENGTH)];
    if let Some(kind) = image_media_type(beginning) {
        return picture_answer(reader, kind, size, call).map_err(failed);
    }
    if beginning.contains(&0) {
        call.output
            .text(&format!("[binary file, {size} bytes; not shown]"));
        return Ok(Answer::written());
    }
    let lines = Lines {
        first: arguments.offset.unwrap_or(1),
        limit: arguments.limit.unwrap_or(DEFAULT_LINES),
        with_numbers: arguments.line_numbers == Some(true),
    };
    lines.copy(file, reader, call)
}

/// The media type of an image that starts with these bytes; `None` if it is no image.
pub fn image_media_type(bytes: &[u8]) -> Option<&'static str> {
    let kinds: [(&[u8], &str); 4] = [
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"GIF87a", "image/gif"),
        (b"GIF89a", "image/gif"),
    ];
    let known = kinds.iter().find(|(magic, _)| bytes.starts_with(magic));
    let is_webp = bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP");
    known
        .map(|(_, kind)| *kind)
        .or_else(|| is_webp.then_some("image/webp"))
}

fn picture_answer(
    reader: BufReader<File>,
    kind: &'static str,
    size: u64,
    call: &mut Call<'_>,
) -> std::io::Result<Answer> {
    if size > MAX_IMAGE_SIZE {
        call.output
            .text(&format!("[{kind}, {size} bytes; too large to show]"));
        return Ok(Answer::written());
    }
    let mut bytes = Vec::new();
    reader.take(MAX_IMAGE_SIZE).read_to_end(&mut bytes)?;
    call.output.bytes(&bytes);
    Ok(Answer {
        media_type: Some(kind),
        ..Answer::written()
    })
}

/// The range of lines to read.
struct Lines {
    first: u64,
    limit: u64,
    with_numbers: bool,
}

/// Maximum number of bytes to read after the shown lines, to count the lines of the file.
const MAX_COUNTED: u64 = 256 << 20;

impl Lines {
    /// Copies whole lines to the output up to the size limit of one result, and adds a note with the line to continue
    /// at.
    fn copy(
        &self,
        file: &Target<'_>,
        mut reader: BufReader<File>,
        call: &mut Call<'_>,
    ) -> Result<Answer, Failure> {
        let shown_limit = call.output.shown_limit() as u64;
        let end = self.first.saturating_add(self.limit);
        // `line` is the number, counted from 1, of the line that contains the next byte.
        let (mut line, mut last, mut counted) = (1, 0, 0);
        let (mut is_at_start, mut is_full) = (true, false);
        let mut piece = Vec::new();
        while counted <= MAX_COUNTED {
            call.check_running()?;
            piece.clear();
            let read = (&mut reader)
                .take(BUFFER_SIZE as u64)
                .read_until(b'\n', &mut piece);
            let length = read.map_err(|error| file.failed("reading", &error))? as u64;
            if length == 0 {
                break;
            }
            // The first line is shown even if it exceeds the limit.
            is_full |= is_at_start && line > self.first && call.output.len() + length > shown_limit;
            if line >= end || is_full {
                counted += length;
            } else if line >= self.first {
                if is_at_start && self.with_numbers {
                    call.output.text(&format!("{line:>6}\t"));
                }
                call.output.bytes(&piece);
                last = line;
            }
            is_at_start = piece.ends_with(b"\n");
            line += u64::from(is_at_start);
        }
        // A last line without a line break counts as a line.
        let total = line - u64::from(is_at_start);
        if self.first > total.max(1) {
            return Err(Failure::new(format!(
                "the file has {total} lines, so it cannot be read from line {}",
                self.first
            )));
        }
        let (first, next) = (self.first, last + 1);
        let more = if counted > MAX_COUNTED {
            "more than "
        } else {
            ""
        };
        let note = if last < total {
            Some(format!(
                "Lines {first}–{last} of {more}{total}. Continue with offset {next}."
            ))
        } else {
            (first > 1).then(|| format!("Lines {first}–{last} of {total}."))
        };
        Ok(Answer::written().with_note(note))
    }
}
