//! `builtin/dir-create` and `builtin/dir-list`.

use std::sync::Arc;

use cleveragents_domain::{FileKind, FileMode, TreePath};
use cleveragents_sandbox::is_own_temporary;
use schemars::JsonSchema;
use serde::Deserialize;

use super::paths::{LastLink, Place, Target, places, target};
use super::{Description, FILE_TIMEOUT, PrepareResult, builtin, ready, write};
use crate::capability::{Access, Capability};
use crate::ports::PartPath;
use crate::spec::{Category, WorkspaceNeed};
use crate::tool::{Answer, Call, Failure, PrepareContext, Tool};

/// Default of `limit`.
const DEFAULT_ENTRIES: usize = 1_000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CreateArguments {
    /// The directory to create. Missing parent directories are created too.
    path: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListArguments {
    /// The directory to list. Default: the root of the sandbox.
    path: Option<String>,
    /// Number of directory levels to list. Default: 1.
    #[schemars(range(min = 1, max = 10))]
    depth: Option<u32>,
    /// Maximum number of entries. Default: 1000.
    #[schemars(range(min = 1, max = 10_000))]
    limit: Option<usize>,
}

pub(super) fn create_tool() -> Arc<dyn Tool> {
    let description = Description {
        name: "dir-create",
        about: "Creates a directory and its missing parents. Succeeds if the directory already exists.",
        category: Category::DirectoryOperations,
        workspace_need: WorkspaceNeed::Required,
        capability: Capability {
            idempotent: true,
            ..Capability::writes("file")
        },
        timeout: FILE_TIMEOUT,
    };
    builtin::<CreateArguments>(description, prepare_create)
}

pub(super) fn list_tool() -> Arc<dyn Tool> {
    let description = Description {
        name: "dir-list",
        about: "Lists the content of a directory with file sizes. Directories end with `/`; symlinks show their target.",
        category: Category::DirectoryOperations,
        workspace_need: WorkspaceNeed::Required,
        capability: Capability::reads(),
        timeout: FILE_TIMEOUT,
    };
    builtin::<ListArguments>(description, prepare_list)
}

fn prepare_create(arguments: CreateArguments, context: PrepareContext<'_>) -> PrepareResult<'_> {
    let folder = target(context, &arguments.path, LastLink::Follow, Access::Writes)?;
    let subjects = vec![folder.subject(Access::Writes)];
    Ok(ready(subjects, move |call| create(&folder, call)))
}

fn create(folder: &Target<'_>, call: &mut Call<'_>) -> Result<Answer, Failure> {
    match folder.kind()? {
        Some(FileKind::Directory) => {
            call.output
                .text(&format!("`{}` already exists", folder.path));
            return Ok(Answer::written());
        }
        Some(kind) => {
            let (path, kind) = (&folder.path, kind.as_str());
            return Err(Failure::new(format!("`{path}` exists and is a {kind}")));
        }
        None => {}
    }
    let mut touched = write::make_parents(folder)?;
    touched.push(folder.part_path());
    folder
        .root()
        .make_folder(&folder.path)
        .map_err(|error| folder.failed("creating", &error))?;
    call.output.text(&format!("created `{}`", folder.path));
    Ok(Answer::written().touching(touched))
}

fn prepare_list(arguments: ListArguments, context: PrepareContext<'_>) -> PrepareResult<'_> {
    let places = places(context, arguments.path.as_deref())?;
    let subjects = places
        .iter()
        .map(|place| place.subject(Access::Reads))
        .collect();
    Ok(ready(subjects, move |call| {
        let mut list = List {
            depth: arguments.depth.unwrap_or(1),
            remaining: arguments.limit.unwrap_or(DEFAULT_ENTRIES),
            omitted: 0,
        };
        let has_several = places.len() > 1;
        for place in &places {
            if has_several {
                call.output.line(&format!("{}/", place.part.alias));
            }
            list.list_folder(place, place.path.as_ref(), u32::from(has_several), 1, call)?;
        }
        let note = (list.omitted > 0).then(|| {
            format!(
                "{} more entries are not shown: raise `limit` or list a subdirectory.",
                list.omitted
            )
        });
        Ok(Answer::written().with_note(note))
    }))
}

struct List {
    depth: u32,
    remaining: usize,
    omitted: u64,
}

impl List {
    fn list_folder(
        &mut self,
        place: &Place<'_>,
        path: Option<&TreePath>,
        indent: u32,
        level: u32,
        call: &mut Call<'_>,
    ) -> Result<(), Failure> {
        call.check_running()?;
        let entries = place.root().entries(path).map_err(|error| {
            let shown = path.map_or_else(|| place.part.alias.clone(), ToString::to_string);
            Failure::new(format!("listing `{shown}` failed: {error}"))
        })?;
        for (name, stat) in entries {
            if is_own_temporary(&name) {
                continue;
            }
            let inner = match path {
                Some(path) => path.join(&name),
                None => TreePath::from_bytes(name),
            };
            let inner = inner.map_err(|error| Failure::new(error.to_string()))?;
            let part_path = PartPath {
                alias: place.part.alias.clone(),
                path: inner.clone(),
            };
            if !call.path_permissions().shows(&part_path) {
                continue;
            }
            if self.remaining == 0 {
                self.omitted += 1;
                continue;
            }
            self.remaining -= 1;
            let name = String::from_utf8_lossy(inner.name()).into_owned();
            let shown = match stat.mode.map(FileMode::kind) {
                Some(FileKind::Directory) => format!("{name}/"),
                Some(FileKind::File) => format!("{name} ({} bytes)", stat.size),
                Some(FileKind::Symlink) => {
                    let link = place.root().read_link(&inner).unwrap_or_default();
                    format!("{name} -> {}", String::from_utf8_lossy(&link))
                }
                None => format!("{name} (device, socket or pipe)"),
            };
            let shown: String = shown.replace(char::is_control, "?");
            let space = "  ".repeat(indent as usize);
            call.output.line(&format!("{space}{shown}"));
            let is_folder = stat
                .mode
                .is_some_and(|mode| mode.kind() == FileKind::Directory);
            if is_folder && level < self.depth {
                self.list_folder(place, Some(&inner), indent + 1, level + 1, call)?;
            }
        }
        Ok(())
    }
}
