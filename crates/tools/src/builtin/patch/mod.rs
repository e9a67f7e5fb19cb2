//! `builtin/apply-patch`: changes several files atomically, in the patch format that models are trained on.
//!
//! All new contents are computed in memory first; when a write fails, it and all earlier writes are rolled back. Rules,
//! guards and profiles treat a patch as the calls that it replaces: `builtin/file-write`, `file-edit`, `file-delete`
//! and `file-move`.

mod hunks;
mod parse;

use std::collections::BTreeMap;
use std::sync::Arc;

use cleveragents_domain::{FileKind, FileMode};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use self::hunks::apply;
use self::parse::{Hunk, Section, parse};
use super::paths::{LastLink, Target, target};
use super::write::{self, MaskedLines};
use super::{Description, FILE_TIMEOUT, PrepareResult, builtin, edit, missing};
use crate::capability::{Access, Capability};
use crate::gate::Permit;
use crate::name::ToolName;
use crate::ports::PartPath;
use crate::spec::{Category, ToolSpec, WorkspaceNeed};
use crate::tool::{
    Answer, Call, Failure, PrepareContext, PrepareError, PreparedCall, Subject, Tool, TouchedPaths,
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PatchArguments {
    /// The patch, from `*** Begin Patch` to `*** End Patch`.
    #[schemars(length(min = 1))]
    patch: String,
}

/// `builtin/apply-patch`. Rules, guards and profiles treat a call like calls of the file tools that
/// would make the same changes.
struct ApplyPatch(Arc<dyn Tool>);

pub(super) fn tool() -> Arc<dyn Tool> {
    let description = Description {
        name: "apply-patch",
        about: "Applies a patch to one or more files, atomically. The patch has sections `*** Add File: PATH`, \
                `*** Update File: PATH` (optionally followed by `*** Move to: PATH`) and `*** Delete File: PATH`.",
        category: Category::FileOperations,
        workspace_need: WorkspaceNeed::Required,
        capability: Capability::writes("file"),
        timeout: FILE_TIMEOUT,
    };
    Arc::new(ApplyPatch(builtin::<PatchArguments>(description, prepare)))
}

impl Tool for ApplyPatch {
    fn spec(&self) -> &ToolSpec {
        self.0.spec()
    }

    fn prepare<'a>(&'a self, arguments: Value, context: PrepareContext<'a>) -> PrepareResult<'a> {
        self.0.prepare(arguments, context)
    }

    fn acts_as(&self, arguments: &Value) -> Vec<ToolName> {
        let patch = arguments["patch"].as_str().unwrap_or_default();
        let mut names: Vec<ToolName> = Vec::new();
        // `prepare` rejects patches with syntax errors.
        for section in parse(patch).unwrap_or_default() {
            names.extend(section.tools());
        }
        names.sort();
        names.dedup();
        names
    }
}

impl Section {
    /// The tools that the patch replaces.
    fn tools(&self) -> Vec<ToolName> {
        match self {
            Self::Add { .. } => vec![ToolName::builtin("file-write")],
            Self::Delete { .. } => vec![ToolName::builtin("file-delete")],
            Self::Update { move_to, hunks, .. } => {
                let edits = (!hunks.is_empty()).then(|| ToolName::builtin("file-edit"));
                let moves = move_to.as_ref().map(|_| ToolName::builtin("file-move"));
                edits.into_iter().chain(moves).collect()
            }
        }
    }
}

/// A section with resolved paths.
enum Change<'a> {
    Add(Target<'a>, String),
    Delete(Target<'a>),
    Update {
        file: Target<'a>,
        moved: Option<Target<'a>>,
        hunks: Vec<Hunk>,
    },
}

fn prepare(arguments: PatchArguments, context: PrepareContext<'_>) -> PrepareResult<'_> {
    let sections = parse(&arguments.patch).map_err(PrepareError::Arguments)?;
    let mut changes = Vec::new();
    for section in sections {
        let find = |path: &str, last| target(context, path, last, Access::Writes);
        changes.push(match section {
            Section::Add { path, content } => Change::Add(find(&path, LastLink::Follow)?, content),
            Section::Delete { path } => Change::Delete(find(&path, LastLink::Keep)?),
            Section::Update {
                path,
                move_to,
                hunks,
            } => Change::Update {
                file: find(&path, LastLink::Follow)?,
                moved: move_to
                    .map(|path| find(&path, LastLink::Keep))
                    .transpose()?,
                hunks,
            },
        });
    }
    Ok(Box::new(PreparedPatch(changes)))
}

struct PreparedPatch<'a>(Vec<Change<'a>>);

impl PreparedCall for PreparedPatch<'_> {
    fn subjects(&self) -> Vec<Subject> {
        let subjects = self.subjects_by_tool();
        subjects.into_iter().map(|(_, subject)| subject).collect()
    }

    fn subjects_by_tool(&self) -> Vec<(ToolName, Subject)> {
        let subject =
            |tool, file: &Target<'_>| (ToolName::builtin(tool), file.subject(Access::Writes));
        let mut subjects = Vec::new();
        for change in &self.0 {
            match change {
                Change::Add(file, _) => subjects.push(subject("file-write", file)),
                Change::Delete(file) => subjects.push(subject("file-delete", file)),
                Change::Update { file, moved, hunks } => {
                    if !hunks.is_empty() {
                        subjects.push(subject("file-edit", file));
                    }
                    if let Some(moved) = moved {
                        subjects.push(subject("file-move", file));
                        subjects.push(subject("file-move", moved));
                    }
                }
            }
        }
        subjects
    }

    fn run(self: Box<Self>, _permit: Permit, call: &mut Call<'_>) -> Result<Answer, Failure> {
        let mut files = Files::default();
        for change in self.0 {
            call.check_running()?;
            files.change(change, call).map_err(|failure| {
                call.output.text(&files.excerpt);
                Failure::new(format!("{}. Nothing was changed.", failure.message))
            })?;
        }
        files.write(call)
    }
}

/// The files that a patch changes, with their contents before and after.
#[derive(Default)]
struct Files<'a> {
    changes: BTreeMap<PartPath, FileChange<'a>>,
    /// Descriptions of the changes, in the order of the patch.
    summary: Vec<String>,
    repairs: Vec<String>,
    /// Lines of the file that are similar to the hunk that failed, for the error message.
    excerpt: String,
}

struct FileChange<'a> {
    file: Target<'a>,
    /// Content before the patch; `None` when the file did not exist.
    before: Option<Content>,
    after: Option<Content>,
}

#[derive(Clone, PartialEq, Eq)]
struct Content {
    text: String,
    mode: FileMode,
}

impl<'a> Files<'a> {
    /// The content of a file after the sections processed so far.
    fn current(&mut self, file: &Target<'a>, call: &Call<'_>) -> Result<Option<Content>, Failure> {
        let path = file.part_path();
        if let Some(change) = self.changes.get(&path) {
            return Ok(change.after.clone());
        }
        let before = match file.kind()? {
            None => None,
            Some(FileKind::File) => Some(Content {
                text: edit::content(file, call)?,
                mode: file.stat()?.mode.unwrap_or(FileMode::REGULAR),
            }),
            Some(kind) => {
                let kind = kind.as_str();
                return Err(Failure::new(format!(
                    "`{}` is a {kind}, not a file",
                    file.path
                )));
            }
        };
        let change = FileChange {
            file: file.clone(),
            before: before.clone(),
            after: before.clone(),
        };
        self.changes.insert(path, change);
        Ok(before)
    }

    fn set(&mut self, file: &Target<'a>, content: Option<Content>) {
        if let Some(change) = self.changes.get_mut(&file.part_path()) {
            change.after = content;
        }
    }

    fn change(&mut self, change: Change<'a>, call: &Call<'_>) -> Result<(), Failure> {
        match change {
            Change::Add(file, text) => {
                if self.current(&file, call)?.is_some() {
                    return Err(Failure::new(format!(
                        "`{}` exists; change it with `*** Update File:`",
                        file.path
                    )));
                }
                self.set(
                    &file,
                    Some(Content {
                        text,
                        mode: FileMode::REGULAR,
                    }),
                );
                self.summary.push(format!("added `{}`", file.path));
            }
            Change::Delete(file) => {
                if file.kind()? == Some(FileKind::Symlink) {
                    return Err(Failure::new(format!(
                        "`{}` is a symlink; delete it with builtin/file-delete",
                        file.path
                    )));
                }
                if self.current(&file, call)?.is_none() {
                    return Err(missing::no_file(&file, call));
                }
                self.set(&file, None);
                self.summary.push(format!("deleted `{}`", file.path));
            }
            Change::Update { file, moved, hunks } => self.update(&file, moved, &hunks, call)?,
        }
        Ok(())
    }

    fn update(
        &mut self,
        file: &Target<'a>,
        moved: Option<Target<'a>>,
        hunks: &[Hunk],
        call: &Call<'_>,
    ) -> Result<(), Failure> {
        let Some(mut content) = self.current(file, call)? else {
            return Err(missing::no_file(file, call));
        };
        let path = &file.path;
        let patched = apply(&content.text, hunks).map_err(|mismatch| {
            if call.path_permissions().shows(&file.part_path()) {
                self.excerpt = mismatch.excerpt;
            }
            Failure::new(format!("`{path}`, {}", mismatch.why))
        })?;
        let repairs = patched.repairs.into_iter();
        self.repairs
            .extend(repairs.map(|repair| format!("`{path}`: {repair}")));
        content.text = patched.text;
        let Some(moved) = moved else {
            self.set(file, Some(content));
            self.summary.push(format!("updated `{path}`"));
            return Ok(());
        };
        if self.current(&moved, call)?.is_some() {
            return Err(Failure::new(format!("`{}` already exists", moved.path)));
        }
        self.set(file, None);
        self.set(&moved, Some(content));
        self.summary
            .push(format!("moved `{path}` to `{}`", moved.path));
        Ok(())
    }

    /// Writes all files. When a write fails, restores all of them.
    fn write(self, call: &mut Call<'_>) -> Result<Answer, Failure> {
        let changed: Vec<&FileChange<'_>> = self
            .changes
            .values()
            .filter(|change| change.before != change.after)
            .collect();
        for change in &changed {
            let text = |content: &Option<Content>| {
                content
                    .as_ref()
                    .map_or_else(String::new, |content| content.text.clone())
            };
            let before = MaskedLines::find_in(&text(&change.before));
            write::refuse_masked_lines(&change.file, before, &text(&change.after))?;
        }
        let mut touched = Vec::new();
        for (index, change) in changed.iter().enumerate() {
            let written = change.write(change.after.as_ref(), &mut touched);
            let Err(failure) = written else { continue };
            let mut restored = true;
            for change in changed[..=index].iter().rev() {
                restored &= change.write(change.before.as_ref(), &mut touched).is_ok();
            }
            let state = if restored {
                "all files were restored"
            } else {
                "some files could not be restored"
            };
            let message = format!("{}; {state}", failure.message);
            return Err(Failure::new(message).touching(TouchedPaths::Paths(touched)));
        }
        for line in &self.summary {
            call.output.line(line);
        }
        let note = (!self.repairs.is_empty()).then(|| self.repairs.join("\n"));
        Ok(Answer::written().touching(touched).with_note(note))
    }
}

impl FileChange<'_> {
    /// Writes or deletes the file, and adds the changed paths to `touched`.
    fn write(&self, content: Option<&Content>, touched: &mut Vec<PartPath>) -> Result<(), Failure> {
        let (file, root) = (&self.file, self.file.root());
        let failed = |error: std::io::Error| file.failed("writing", &error);
        match content {
            Some(content) => {
                touched.extend(write::make_parents(file)?);
                touched.push(file.part_path());
                root.write_file(&file.path, content.mode, &mut content.text.as_bytes())
                    .map_err(failed)
            }
            None if file.kind()?.is_none() => Ok(()),
            None => {
                touched.push(file.part_path());
                root.remove_file(&file.path).map_err(failed)
            }
        }
    }
}

#[cfg(test)]
mod tests;
