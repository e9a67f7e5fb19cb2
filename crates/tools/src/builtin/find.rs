//! `builtin/file-find`: finds files by path pattern.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use cleveragents_domain::TreePath;
use globset::{GlobBuilder, GlobMatcher};
use schemars::JsonSchema;
use serde::Deserialize;

use super::paths::{Place, places};
use super::search::{SearchResults, has_parts, shown_path};
use super::tree::{self, Options};
use super::{Description, FILE_TIMEOUT, PrepareResult, builtin, ready};
use crate::capability::{Access, Capability};
use crate::ports::PartPath;
use crate::spec::{Category, WorkspaceNeed};
use crate::tool::{Answer, PrepareContext, PrepareError, Tool};

/// Default of `limit`.
const DEFAULT_FILES: usize = 1_000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FindArguments {
    /// The glob pattern for paths, such as `*.rs`, `src/**/mod.rs` or `**/test_*`.
    #[schemars(length(min = 1))]
    pattern: String,
    /// The directory to search. Default: the whole sandbox.
    path: Option<String>,
    /// Whether to include hidden files. Default: false.
    hidden: Option<bool>,
    /// Maximum number of files to list. Default: 1000.
    #[schemars(range(min = 1, max = 20_000))]
    limit: Option<usize>,
}

pub(super) fn tool() -> Arc<dyn Tool> {
    let description = Description {
        name: "file-find",
        about: "Finds files by a glob pattern of their paths. Files ignored by .gitignore are excluded.",
        category: Category::FileOperations,
        workspace_need: WorkspaceNeed::Required,
        capability: Capability::reads(),
        timeout: FILE_TIMEOUT,
    };
    builtin::<FindArguments>(description, prepare_find)
}

fn prepare_find(arguments: FindArguments, context: PrepareContext<'_>) -> PrepareResult<'_> {
    let pattern = FilePattern::new(&arguments.pattern)?;
    let places = places(context, arguments.path.as_deref())?;
    let subjects = places
        .iter()
        .map(|place| place.subject(Access::Reads))
        .collect();
    Ok(ready(subjects, move |call| {
        let limit = arguments.limit.unwrap_or(DEFAULT_FILES);
        let results = Mutex::new(SearchResults::new(limit));
        let total = AtomicU64::new(0);
        let options = Options {
            hidden: arguments.hidden == Some(true),
            glob: None,
        };
        let needs_alias = places.len() > 1 || has_parts(call)?;
        let path_permissions = call.path_permissions();
        for place in &places {
            tree::walk(place, &options, call, || {
                |path: &TreePath| {
                    let part_path = PartPath {
                        alias: place.part.alias.clone(),
                        path: path.clone(),
                    };
                    if !pattern.matches(place, path) || !path_permissions.shows(&part_path) {
                        return;
                    }
                    total.fetch_add(1, Ordering::Relaxed);
                    let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
                    results.add(shown_path(place, path, needs_alias), 1, Vec::new());
                }
            })?;
        }
        let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        let (total, shown) = (total.into_inner(), results.files.len() as u64);
        for path in results.files.into_keys() {
            call.output.line(&path);
        }
        let note = match total {
            0 => "No files found.".to_owned(),
            _ if shown < total => format!("{total} files; the first {shown} are shown."),
            1 => "1 file.".to_owned(),
            _ => format!("{total} files."),
        };
        Ok(Answer::written().with_note(Some(note)))
    }))
}

/// A glob pattern for paths. Without a slash it matches the file name only.
struct FilePattern {
    glob: GlobMatcher,
    is_name: bool,
}

impl FilePattern {
    fn new(pattern: &str) -> Result<Self, PrepareError> {
        let glob = GlobBuilder::new(pattern.trim_start_matches("./"))
            .literal_separator(true)
            .build()
            .map_err(|error| PrepareError::Arguments(format!("the pattern is invalid: {error}")))?;
        Ok(Self {
            glob: glob.compile_matcher(),
            is_name: !pattern.contains('/'),
        })
    }

    /// Returns whether the pattern matches a path, taken relative to the searched directory or to the root of the part.
    fn matches(&self, place: &Place<'_>, path: &TreePath) -> bool {
        let full_path = path.as_path();
        if self.is_name {
            return full_path
                .file_name()
                .is_some_and(|name| self.glob.is_match(Path::new(name)));
        }
        let relative = place
            .path
            .as_ref()
            .and_then(|folder| full_path.strip_prefix(folder.as_path()).ok());
        self.glob.is_match(full_path)
            || relative.is_some_and(|relative| self.glob.is_match(relative))
    }
}
