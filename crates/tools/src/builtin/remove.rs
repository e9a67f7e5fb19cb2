//! `builtin/file-delete` and `builtin/dir-delete`.

use std::sync::Arc;

use cleveragents_domain::FileKind;
use schemars::JsonSchema;
use serde::Deserialize;

use super::paths::{LastLink, Target, target};
use super::walk::{self, MAX_PATHS};
use super::{Description, FILE_TIMEOUT, PrepareResult, builtin, missing, ready};
use crate::capability::{Access, Capability};
use crate::spec::{Category, WorkspaceNeed};
use crate::tool::{Answer, Call, Failure, PrepareContext, Tool, TouchedPaths};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FileArguments {
    /// The file or symlink to delete.
    path: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DirectoryArguments {
    /// The directory to delete.
    path: String,
    /// Whether to delete its content too. Default: false.
    recursive: Option<bool>,
}

pub(super) fn file_tool() -> Arc<dyn Tool> {
    let description = Description {
        name: "file-delete",
        about: "Deletes a file. For a symlink, deletes the symlink, not its target.",
        category: Category::FileOperations,
        workspace_need: WorkspaceNeed::Required,
        capability: Capability::writes("file"),
        timeout: FILE_TIMEOUT,
    };
    builtin::<FileArguments>(description, prepare_file)
}

pub(super) fn directory_tool() -> Arc<dyn Tool> {
    let description = Description {
        name: "dir-delete",
        about: "Deletes an empty directory, or with `recursive` a directory and its content.",
        category: Category::DirectoryOperations,
        workspace_need: WorkspaceNeed::Required,
        capability: Capability::writes("file"),
        timeout: FILE_TIMEOUT,
    };
    builtin::<DirectoryArguments>(description, prepare_directory)
}

fn prepare_file(arguments: FileArguments, context: PrepareContext<'_>) -> PrepareResult<'_> {
    let file = target(context, &arguments.path, LastLink::Keep, Access::Writes)?;
    let subjects = vec![file.subject(Access::Writes)];
    Ok(ready(subjects, move |call| delete_file(&file, call)))
}

fn delete_file(file: &Target<'_>, call: &mut Call<'_>) -> Result<Answer, Failure> {
    match file.kind()? {
        Some(FileKind::File | FileKind::Symlink) => {}
        Some(FileKind::Directory) => {
            let path = &file.path;
            return Err(Failure::new(format!(
                "`{path}` is a directory; delete it with builtin/dir-delete and `recursive`"
            )));
        }
        None => return Err(missing::no_file(file, call)),
    }
    file.root()
        .remove_file(&file.path)
        .map_err(|error| file.failed("deleting", &error))?;
    call.output.text(&format!("deleted `{}`", file.path));
    Ok(Answer::written().touching([file.part_path()]))
}

fn prepare_directory(
    arguments: DirectoryArguments,
    context: PrepareContext<'_>,
) -> PrepareResult<'_> {
    let folder = target(context, &arguments.path, LastLink::Keep, Access::Writes)?;
    let subjects = vec![folder.subject(Access::Writes)];
    let is_recursive = arguments.recursive == Some(true);
    Ok(ready(subjects, move |call| {
        require_directory(&folder)?;
        if is_recursive {
            delete_tree(&folder, call)
        } else {
            delete_empty(&folder, call)
        }
    }))
}

fn require_directory(folder: &Target<'_>) -> Result<(), Failure> {
    match folder.kind()? {
        Some(FileKind::Directory) => Ok(()),
        Some(_) => Err(Failure::new(format!(
            "`{}` is not a directory; delete it without `recursive` (builtin/file-delete)",
            folder.path
        ))),
        None => Err(Failure::new(format!("`{}` does not exist", folder.path))),
    }
}

fn delete_empty(folder: &Target<'_>, call: &mut Call<'_>) -> Result<Answer, Failure> {
    folder.root().remove_folder(&folder.path).map_err(|error| {
        if error.kind() == std::io::ErrorKind::DirectoryNotEmpty {
            let path = &folder.path;
            Failure::new(format!(
                "`{path}` is not empty; set `recursive` to delete its content too"
            ))
        } else {
            folder.failed("deleting", &error)
        }
    })?;
    call.output.text(&format!("deleted `{}`", folder.path));
    Ok(Answer::written().touching([folder.part_path()]))
}

fn delete_tree(folder: &Target<'_>, call: &mut Call<'_>) -> Result<Answer, Failure> {
    let entries = walk::list_tree(folder, call)?;
    // All paths are checked before the first is deleted.
    for entry in &entries {
        call.path_permissions()
            .check(&folder.part_path_of(&entry.path))?;
    }
    let touched = touched_paths(folder, &entries);
    for entry in entries.iter().rev() {
        call.check_running()
            .map_err(|failure| failure.touching(touched.clone()))?;
        let removed = if entry.is_directory() {
            folder.root().remove_folder(&entry.path)
        } else {
            folder.root().remove_file(&entry.path)
        };
        removed.map_err(|error| {
            folder
                .failed("deleting from", &error)
                .touching(touched.clone())
        })?;
    }
    folder
        .root()
        .remove_folder(&folder.path)
        .map_err(|error| folder.failed("deleting", &error).touching(touched.clone()))?;
    let count = entries.len();
    call.output.text(&format!(
        "deleted `{}` and {count} entries in it",
        folder.path
    ));
    Ok(Answer {
        touched,
        ..Answer::written()
    })
}

/// The paths of a directory and its content, or [`TouchedPaths::Anything`] when there are too many to list.
pub(super) fn touched_paths(folder: &Target<'_>, entries: &[walk::TreeEntry]) -> TouchedPaths {
    if entries.len() > MAX_PATHS {
        return TouchedPaths::Anything;
    }
    let inner = entries.iter().map(|entry| folder.part_path_of(&entry.path));
    TouchedPaths::Paths(std::iter::once(folder.part_path()).chain(inner).collect())
}
