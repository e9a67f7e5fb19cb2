//! `builtin/file-write`: writes a whole file atomically.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _};
use std::sync::Arc;

use cleveragents_domain::{FileKind, FileMode, TreePath};
use schemars::JsonSchema;
use serde::Deserialize;

use super::paths::{LastLink, Target, target};
use super::{Description, FILE_TIMEOUT, PrepareResult, builtin, read, ready};
use crate::capability::{Access, Capability};
use crate::ports::{MASK, PartPath};
use crate::spec::{Category, WorkspaceNeed};
use crate::tool::{Answer, Call, Failure, PrepareContext, Tool, TouchedPaths};

/// Maximum number of bytes to read at once when the existing file is searched for masks ([`MASK`]).
const CHUNK_LENGTH: u64 = 1 << 20;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WriteArguments {
    /// The file to write. Missing parent directories are created.
    path: String,
    /// The complete new content of the file.
    content: String,
    /// Whether to refuse the call if the file exists. Default: false.
    #[serde(default)]
    create: Option<bool>,
}

pub(super) fn tool() -> Arc<dyn Tool> {
    let description = Description {
        name: "file-write",
        about: "Creates a file or replaces its whole content. To change parts of a file, use builtin/file-edit.",
        category: Category::FileOperations,
        workspace_need: WorkspaceNeed::Required,
        capability: Capability {
            idempotent: true,
            ..Capability::writes("file")
        },
        timeout: FILE_TIMEOUT,
    };
    builtin::<WriteArguments>(description, prepare)
}

fn prepare(arguments: WriteArguments, context: PrepareContext<'_>) -> PrepareResult<'_> {
    let file = target(context, &arguments.path, LastLink::Follow, Access::Writes)?;
    let subjects = vec![file.subject(Access::Writes)];
    Ok(ready(subjects, move |call| {
        if arguments.create == Some(true) && file.kind()?.is_some() {
            return Err(Failure::new(format!(
                "`{}` exists already. Nothing was changed. To change it, give the text to replace",
                file.path
            )));
        }
        write(&file, &arguments.content, call)
    }))
}

fn write(file: &Target<'_>, content: &str, call: &mut Call<'_>) -> Result<Answer, Failure> {
    let existed = file.kind()?.is_some();
    check_mask(file, content, call)?;
    let touched = replace(file, content.as_bytes())?;
    let verb = if existed { "replaced" } else { "created" };
    call.output
        .text(&format!("{verb} `{}`, {} bytes", file.path, content.len()));
    Ok(Answer::written().touching(touched))
}

/// Refuses content with masks, except in lines that the file has literally. The model was shown a mask instead of a
/// secret; writing the mask back would overwrite the secret.
fn check_mask(file: &Target<'_>, content: &str, call: &Call<'_>) -> Result<(), Failure> {
    if !content.contains(MASK) {
        return Ok(());
    }
    let mut before = MaskedLines::default();
    if file.kind()? == Some(FileKind::File) {
        let mut reader = BufReader::new(read::open(file, call)?);
        let mut line = Vec::new();
        loop {
            call.check_running()?;
            line.clear();
            let count = (&mut reader)
                .take(CHUNK_LENGTH)
                .read_until(b'\n', &mut line)
                .map_err(|error| file.failed("reading", &error))?;
            if count == 0 {
                break;
            }
            before.add(&String::from_utf8_lossy(&line));
        }
    }
    refuse_masked_lines(file, before, content)
}

/// The lines of a text that contain a mask, each with the number of its occurrences.
#[derive(Default)]
pub(super) struct MaskedLines(HashMap<String, usize>);

impl MaskedLines {
    pub(super) fn find_in(text: &str) -> Self {
        let mut lines = Self::default();
        lines.add(text);
        lines
    }

    fn add(&mut self, text: &str) {
        for line in text.lines().filter(|line| line.contains(MASK)) {
            *self.0.entry(line.to_owned()).or_default() += 1;
        }
    }
}

/// Fails when the new content has a line with a mask that the file does not have, or has less often.
pub(super) fn refuse_masked_lines(
    file: &Target<'_>,
    before: MaskedLines,
    content: &str,
) -> Result<(), Failure> {
    let MaskedLines(mut before) = before;
    let are_literal = content
        .lines()
        .filter(|line| line.contains(MASK))
        .all(|line| match before.get_mut(line) {
            Some(left) if *left > 0 => {
                *left -= 1;
                true
            }
            _ => false,
        });
    refuse_new_masks(file, 0, usize::from(!are_literal))
}

/// Fails when a file would have more masks than before.
pub(super) fn refuse_new_masks(
    file: &Target<'_>,
    before: usize,
    after: usize,
) -> Result<(), Failure> {
    if after <= before {
        return Ok(());
    }
    Err(Failure::new(format!(
        "the new content of `{}` contains `{MASK}`, which stands for a secret that you are not shown; \
         writing it would destroy the secret. Nothing was changed. Use builtin/file-edit on the text \
         around the secret; if this text is meant literally, write it with builtin/shell",
        file.path
    )))
}

/// Replaces the content of a file atomically, keeps its permissions, and returns the touched paths.
pub(super) fn replace(file: &Target<'_>, content: &[u8]) -> Result<Vec<PartPath>, Failure> {
    let mode = match file.kind()? {
        None => FileMode::REGULAR,
        Some(FileKind::File) => file.stat()?.mode.unwrap_or(FileMode::REGULAR),
        Some(kind) => {
            let (path, kind) = (&file.path, kind.as_str());
            return Err(Failure::new(format!("`{path}` is a {kind}, not a file")));
        }
    };
    let mut touched = make_parents(file)?;
    touched.push(file.part_path());
    file.root()
        .write_file(&file.path, mode, &mut &*content)
        .map_err(|error| {
            file.failed("writing", &error)
                .touching(TouchedPaths::Paths(touched.clone()))
        })?;
    Ok(touched)
}

/// Creates missing parent directories and returns their paths.
pub(super) fn make_parents(file: &Target<'_>) -> Result<Vec<PartPath>, Failure> {
    let missing = missing_parents(file)?;
    let created = missing
        .iter()
        .map(|path| file.part_path_of(path))
        .collect::<Vec<_>>();
    file.root().make_parents(&file.path).map_err(|error| {
        file.failed("creating the parent directory of", &error)
            .touching(TouchedPaths::Paths(created.clone()))
    })?;
    Ok(created)
}

fn missing_parents(file: &Target<'_>) -> Result<Vec<TreePath>, Failure> {
    let mut missing = Vec::new();
    let mut next = file.path.parent();
    while let Some(path) = next {
        let stat = file
            .root()
            .stat(&path)
            .map_err(|error| file.failed("reading the parent directory of", &error))?;
        if stat.is_some() {
            break;
        }
        next = path.parent();
        missing.push(path);
    }
    missing.reverse();
    Ok(missing)
}
