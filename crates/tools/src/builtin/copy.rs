//! `builtin/file-move` and `builtin/file-copy`: files, symlinks and directory trees.

use std::sync::Arc;

use cleveragents_domain::{FileKind, FileMode, TreePath};
use cleveragents_sandbox::ExistingTarget;
use schemars::JsonSchema;
use serde::Deserialize;

use super::paths::{LastLink, Target, target};
use super::walk::{self, TreeEntry};
use super::{Description, FILE_TIMEOUT, PrepareResult, builtin, missing, ready, remove, write};
use crate::capability::{Access, Capability};
use crate::spec::{Category, WorkspaceNeed};
use crate::tool::{Answer, Call, Failure, PrepareContext, Tool, TouchedPaths};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CopyArguments {
    /// The file, symlink or directory to move or copy. Directories include their content.
    from: String,
    /// The full new path, including the file name. Missing parent directories are created.
    to: String,
    /// Whether to replace an existing file. Directories are never replaced. Default: false.
    overwrite: Option<bool>,
}

pub(super) fn move_tool() -> Arc<dyn Tool> {
    let description = Description {
        name: "file-move",
        about: "Moves or renames a file or a directory.",
        category: Category::FileOperations,
        workspace_need: WorkspaceNeed::Required,
        capability: Capability::writes("file"),
        timeout: FILE_TIMEOUT,
    };
    builtin::<CopyArguments>(description, prepare_move)
}

pub(super) fn copy_tool() -> Arc<dyn Tool> {
    let description = Description {
        name: "file-copy",
        about: "Copies a file, or a directory with its content. Symlinks are copied as symlinks.",
        category: Category::FileOperations,
        workspace_need: WorkspaceNeed::Required,
        capability: Capability::writes("file"),
        timeout: FILE_TIMEOUT,
    };
    builtin::<CopyArguments>(description, prepare_copy)
}

fn prepare_move(arguments: CopyArguments, context: PrepareContext<'_>) -> PrepareResult<'_> {
    let from = target(context, &arguments.from, LastLink::Keep, Access::Writes)?;
    let to = target(context, &arguments.to, LastLink::Keep, Access::Writes)?;
    let subjects = vec![from.subject(Access::Writes), to.subject(Access::Writes)];
    let existing = existing(&arguments);
    Ok(ready(subjects, move |call| {
        let pair = Pair::new(&from, &to, existing, call)?;
        for entry in &pair.inner {
            call.path_permissions()
                .check(&from.part_path_of(&entry.path))?;
            call.path_permissions()
                .check(&to.part_path_of(&pair.new_path(&entry.path)?))?;
        }
        pair.relocate(call)
    }))
}

fn prepare_copy(arguments: CopyArguments, context: PrepareContext<'_>) -> PrepareResult<'_> {
    let from = target(context, &arguments.from, LastLink::Keep, Access::Reads)?;
    let to = target(context, &arguments.to, LastLink::Keep, Access::Writes)?;
    let subjects = vec![from.subject(Access::Reads), to.subject(Access::Writes)];
    let existing = existing(&arguments);
    Ok(ready(subjects, move |call| {
        let pair = Pair::new(&from, &to, existing, call)?;
        for entry in &pair.inner {
            call.path_permissions()
                .check(&to.part_path_of(&pair.new_path(&entry.path)?))?;
            let path = from.part_path_of(&entry.path);
            if !call.path_permissions().shows(&path) {
                return Err(Failure::new(format!("`{path}` may not be read")));
            }
        }
        pair.duplicate(call)
    }))
}

fn existing(arguments: &CopyArguments) -> ExistingTarget {
    if arguments.overwrite == Some(true) {
        ExistingTarget::Replace
    } else {
        ExistingTarget::Keep
    }
}

/// Source and target of a move or copy.
struct Pair<'p, 'a> {
    from: &'p Target<'a>,
    to: &'p Target<'a>,
    mode: FileMode,
    existing: ExistingTarget,
    /// Content of a directory; empty for files and symlinks.
    inner: Vec<TreeEntry>,
}

impl<'p, 'a> Pair<'p, 'a> {
    fn new(
        from: &'p Target<'a>,
        to: &'p Target<'a>,
        existing: ExistingTarget,
        call: &Call<'_>,
    ) -> Result<Self, Failure> {
        if from.kind()?.is_none() {
            return Err(missing::no_file(from, call));
        }
        let mode = from
            .stat()?
            .mode
            .ok_or_else(|| Failure::new(format!("`{}` is a device, socket or pipe", from.path)))?;
        let same_part = from.part.alias == to.part.alias;
        if same_part && to.path.is_within(&from.path) {
            return Err(Failure::new(format!(
                "`{}` is the same as `{}` or inside it",
                to.path, from.path
            )));
        }
        match (to.kind()?, existing) {
            (Some(FileKind::Directory), _) => {
                let path = &to.path;
                return Err(Failure::new(format!(
                    "`{path}` is a directory; give the full new path, including the file name"
                )));
            }
            (Some(_), ExistingTarget::Keep) => {
                let path = &to.path;
                return Err(Failure::new(format!(
                    "`{path}` exists; set `overwrite` to replace it"
                )));
            }
            (Some(_), ExistingTarget::Replace) if mode.kind() == FileKind::Directory => {
                let path = &to.path;
                return Err(Failure::new(format!(
                    "`{path}` exists and is not a directory"
                )));
            }
            (None, _) | (Some(_), ExistingTarget::Replace) => {}
        }
        let inner = if mode.kind() == FileKind::Directory {
            walk::list_tree(from, call)?
        } else {
            Vec::new()
        };
        Ok(Self {
            from,
            to,
            mode,
            existing,
            inner,
        })
    }

    /// The new path of an entry of the directory.
    fn new_path(&self, path: &TreePath) -> Result<TreePath, Failure> {
        let relative = &path.as_bytes()[self.from.path.as_bytes().len() + 1..];
        self.to
            .path
            .join(relative)
            .map_err(|error| Failure::new(error.to_string()))
    }

    /// Paths that the move or copy creates, or [`TouchedPaths::Anything`] when there are too many to list.
    fn touched_target(&self) -> Result<TouchedPaths, Failure> {
        let new_entries = self
            .inner
            .iter()
            .map(|entry| {
                Ok(TreeEntry {
                    path: self.new_path(&entry.path)?,
                    mode: entry.mode,
                })
            })
            .collect::<Result<Vec<_>, Failure>>()?;
        Ok(remove::touched_paths(self.to, &new_entries))
    }

    fn relocate(self, call: &mut Call<'_>) -> Result<Answer, Failure> {
        let parents = write::make_parents(self.to)?;
        let touched = union(
            union(
                remove::touched_paths(self.from, &self.inner),
                self.touched_target()?,
            ),
            TouchedPaths::Paths(parents),
        );
        let (from, to) = (self.from, self.to);
        from.root()
            .rename(&from.path, to.root(), &to.path, self.existing)
            .map_err(|error| from.failed("moving", &error).touching(touched.clone()))?;
        call.output
            .text(&format!("moved `{}` to `{}`", from.path, to.path));
        Ok(Answer {
            touched,
            ..Answer::written()
        })
    }

    fn duplicate(self, call: &mut Call<'_>) -> Result<Answer, Failure> {
        let parents = write::make_parents(self.to)?;
        let touched = union(self.touched_target()?, TouchedPaths::Paths(parents));
        let failed = |failure: Failure| failure.touching(touched.clone());
        self.copy_entry(&self.from.path, &self.to.path, self.mode)
            .map_err(failed)?;
        let mut count = 1;
        for entry in &self.inner {
            call.check_running().map_err(failed)?;
            // Devices, sockets and pipes are not copied.
            let Some(mode) = entry.mode else { continue };
            let new_path = self.new_path(&entry.path)?;
            self.copy_entry(&entry.path, &new_path, mode)
                .map_err(failed)?;
            count += 1;
        }
        // Directory modes are set last: nothing can be created in a read-only directory.
        let folders = self.inner.iter().rev().filter(|entry| entry.is_directory());
        for entry in folders {
            self.copy_mode(&self.new_path(&entry.path)?, entry.mode)
                .map_err(failed)?;
        }
        if self.mode.kind() == FileKind::Directory {
            self.copy_mode(&self.to.path, Some(self.mode))
                .map_err(failed)?;
        }
        let (from, to) = (&self.from.path, &self.to.path);
        call.output
            .text(&format!("copied `{from}` to `{to}` ({count} entries)"));
        Ok(Answer {
            touched,
            ..Answer::written()
        })
    }

    fn copy_entry(&self, from: &TreePath, to: &TreePath, mode: FileMode) -> Result<(), Failure> {
        let (source, target) = (self.from.root(), self.to.root());
        let copied = match mode.kind() {
            FileKind::Directory => target.make_folder(to),
            FileKind::Symlink => source
                .read_link(from)
                .and_then(|link| target.write_link(to, &link)),
            FileKind::File => source
                .open_file(from)
                .and_then(|mut file| target.write_file(to, mode, &mut file)),
        };
        copied.map_err(|error| Failure::new(format!("copying `{from}` failed: {error}")))
    }
}

impl Pair<'_, '_> {
    fn copy_mode(&self, to: &TreePath, mode: Option<FileMode>) -> Result<(), Failure> {
        let Some(mode) = mode else { return Ok(()) };
        self.to
            .root()
            .set_mode(to, mode)
            .map_err(|error| Failure::new(format!("setting the mode of `{to}` failed: {error}")))
    }
}

/// The union of two sets of touched paths.
fn union(left: TouchedPaths, right: TouchedPaths) -> TouchedPaths {
    match (left, right) {
        (TouchedPaths::Paths(mut left), TouchedPaths::Paths(right)) => {
            left.extend(right);
            TouchedPaths::Paths(left)
        }
        (TouchedPaths::Nothing, other) | (other, TouchedPaths::Nothing) => other,
        _ => TouchedPaths::Anything,
    }
}
