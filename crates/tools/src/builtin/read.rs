//! `builtin/file-read`: a file, or some lines of it.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::sync::Arc;

use cleveragents_domain::FileKind;
use schemars::JsonSchema;
use serde::Deserialize;

use super::paths::{Last, Target, target};
use super::{Description, FILE_TIMEOUT, Preparing, builtin, ready};
use crate::capability::{Access, Capability};
use crate::gate::LARGEST_PICTURE;
use crate::spec::{Category, Ground};
use crate::tool::{Answer, Call, Failure, Grounds, Tool};

/// So many lines are read when the call does not say.
const DEFAULT_LINES: u64 = 2_000;

/// A zero byte in the beginning of a file says that it is not text.
const LOOKED_AT: usize = 8 << 10;

/// Files are read in pieces of this size.
const PIECE: usize = 64 << 10;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The file to read.
    path: String,
    /// The first line to read, counted from 1.
    #[schemars(range(min = 1))]
    offset: Option<u64>,
    /// How many lines to read; 2000 when not given.
    #[schemars(range(min = 1))]
    limit: Option<u64>,
    /// Whether to put its number in front of every line.
    line_numbers: Option<bool>,
}

pub(super) fn tool() -> Arc<dyn Tool> {
    let description = Description {
        name: "file-read",
        about: "Reads a text file, whole or some of its lines. Pictures (PNG, JPEG, GIF, WebP) are shown to models \
                      that can see; other binary files are only described.",
        category: Category::FileOperations,
        ground: Ground::Workspace,
        capability: Capability::reads(),
        timeout: FILE_TIMEOUT,
    };
    builtin::<Arguments>(description, prepare)
}

fn prepare(arguments: Arguments, grounds: Grounds<'_>) -> Preparing<'_> {
    let file = target(grounds, &arguments.path, Last::Follow, Access::Reads)?;
    let subjects = vec![file.subject(Access::Reads)];
    Ok(ready(subjects, move |call| read(&file, &arguments, call)))
}

/// Opens a regular file.
pub(super) fn open(file: &Target<'_>) -> Result<File, Failure> {
    match file.kind()? {
        Some(FileKind::File) => file
            .root()
            .open_file(&file.path)
            .map_err(|error| file.failed("opening", &error)),
        Some(FileKind::Directory) => Err(Failure::new(format!(
            "`{}` is a folder; list it with builtin/dir-list",
            file.path
        ))),
        Some(FileKind::Symlink) | None => {
            Err(Failure::new(format!("there is no file `{}`", file.path)))
        }
    }
}

fn read(file: &Target<'_>, arguments: &Arguments, call: &mut Call<'_>) -> Result<Answer, Failure> {
    let opened = open(file)?;
    let size = opened.metadata().map_or(0, |found| found.len());
    let mut reader = BufReader::with_capacity(PIECE, opened);
    let failed = |error: std::io::Error| file.failed("reading", &error);
    let beginning = reader.fill_buf().map_err(failed)?;
    let beginning = &beginning[..beginning.len().min(LOOKED_AT)];
    if let Some(kind) = picture(beginning) {
        return picture_answer(reader, kind, size, call).map_err(failed);
    }
    if beginning.contains(&0) {
        call.output
            .text(&format!("[a binary file of {size} bytes; not shown]"));
        return Ok(Answer::written());
    }
    let lines = Lines {
        first: arguments.offset.unwrap_or(1),
        most: arguments.limit.unwrap_or(DEFAULT_LINES),
        with_numbers: arguments.line_numbers == Some(true),
    };
    lines.copy(file, reader, call)
}

/// The kind of picture that bytes begin.
fn picture(bytes: &[u8]) -> Option<&'static str> {
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
    if size > LARGEST_PICTURE {
        call.output
            .text(&format!("[{kind}, {size} bytes; too large to be shown]"));
        return Ok(Answer::written());
    }
    let mut bytes = Vec::new();
    reader.take(LARGEST_PICTURE).read_to_end(&mut bytes)?;
    call.output.bytes(&bytes);
    Ok(Answer {
        media_type: Some(kind),
        ..Answer::written()
    })
}

/// Which lines are wanted.
struct Lines {
    first: u64,
    most: u64,
    with_numbers: bool,
}

impl Lines {
    /// Copies the lines to the output, however long they are, and says where to go on.
    fn copy(
        &self,
        file: &Target<'_>,
        mut reader: BufReader<File>,
        call: &mut Call<'_>,
    ) -> Result<Answer, Failure> {
        // Lines are counted from 1; `line` is the one that the next byte belongs to.
        let mut line = 1;
        let mut is_at_start = true;
        let end = self.first.saturating_add(self.most);
        while line < end {
            call.keep_going()?;
            let piece = reader
                .fill_buf()
                .map_err(|error| file.failed("reading", &error))?;
            if piece.is_empty() {
                break;
            }
            let stop = piece.iter().position(|byte| *byte == b'\n');
            let length = stop.map_or(piece.len(), |at| at + 1);
            if line >= self.first {
                if is_at_start && self.with_numbers {
                    call.output.text(&format!("{line:>6}\t"));
                }
                call.output.bytes(&piece[..length]);
            }
            is_at_start = stop.is_some();
            line += u64::from(is_at_start);
            reader.consume(length);
        }
        let has_more = line >= end
            && !reader
                .fill_buf()
                .map_err(|error| file.failed("reading", &error))?
                .is_empty();
        // A last line without a line break counts too.
        let count = line - u64::from(is_at_start);
        if self.first > count.max(1) {
            return Err(Failure::new(format!(
                "the file has {count} lines, so it cannot be read from line {}",
                self.first
            )));
        }
        let note = has_more.then(|| format!("The file goes on: read from offset {end}."));
        Ok(Answer::written().noting(note))
    }
}
