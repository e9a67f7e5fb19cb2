//! Conflicts of an apply: a path that changed both in the sandbox and outside, the reason, and the content on each
//! side.

use cleveragents_domain::{FileKind, FileState, TreePath};
use serde::Serialize;

use crate::capture::Change;
use crate::git::{Blob, GitPlan, Update};
use crate::objects::Objects;
use crate::scoped_dir::Root;
use crate::state::read_state;

/// Maximum length of the text shown for each side, in bytes.
const MAX_TEXT_BYTES: usize = 16 << 10;

/// State of a path on one side of a conflict.
#[derive(Debug, Clone, Serialize)]
pub struct Side {
    /// Size in bytes.
    pub size: u64,
    /// Kind and permissions in git's format, such as `100644`.
    pub mode: String,
    /// Beginning of the content if it is text.
    pub text: Option<String>,
}

impl Side {
    pub(crate) fn new(mode: impl Into<String>, content: &[u8]) -> Self {
        let shown = &content[..content.len().min(MAX_TEXT_BYTES)];
        // The limit may split the last character; the content still counts as text.
        let text = match std::str::from_utf8(shown) {
            Ok(text) => Some(text.to_owned()),
            Err(error) if error.error_len().is_none() => {
                Some(String::from_utf8_lossy(&shown[..error.valid_up_to()]).into_owned())
            }
            Err(_) => None,
        };
        Self {
            size: content.len() as u64,
            mode: mode.into(),
            text: text.filter(|text| !text.contains('\0')),
        }
    }

    pub(crate) fn from_state(state: &FileState, content: Option<&[u8]>) -> Self {
        let mut side = Self::new(state.mode.to_string(), content.unwrap_or_default());
        side.size = state.size;
        if content.is_none() {
            side.text = None;
        }
        side
    }
}

/// A path that cannot be applied because the real resource changed at the same path.
#[derive(Debug, Clone, Serialize)]
pub struct Conflict {
    /// Alias of the sandbox member.
    pub alias: String,
    /// Path within the member.
    pub path: TreePath,
    /// Description of the change outside the sandbox.
    pub reason: String,
    /// State when the sandbox was created.
    pub base: Option<Side>,
    /// State in the real resource.
    pub yours: Option<Side>,
    /// State in the sandbox.
    pub sandbox: Option<Side>,
}

impl Conflict {
    /// Member alias and path as one text.
    pub fn label(&self) -> String {
        format!("{}/{}", self.alias, self.path)
    }
}

/// Reasons of conflicts, shown to users after the path.
pub(crate) mod reason {
    use cleveragents_domain::TreePath;

    pub(crate) const CREATED: &str = "it was created outside too";
    pub(crate) const REMOVED: &str = "it was removed outside";
    pub(crate) const CHANGED: &str = "it was changed outside too";
    pub(crate) const DATABASE: &str = "the database was changed outside too";
    pub(crate) const UNCOMMITTED: &str = "it has changes outside that are not committed";
    pub(crate) const STAGED: &str = "it has staged changes outside that are not committed";
    pub(crate) const EDITED_PLACE: &str = "it has uncommitted edits or newer commits outside in the same place; \
                                           commit the edits, then apply";
    pub(crate) const BRANCH_CHANGED: &str = "your branch changed it too, in the same place";

    /// Reason for a file that cannot replace a real folder, because the folder contains a path that the apply does not
    /// remove.
    pub(crate) fn folder_holds(inner: &TreePath) -> String {
        format!("the folder at its path contains `{inner}`")
    }

    /// Reason for a path whose parent is not a folder in the real resource any more.
    pub(crate) fn not_a_folder(folder: &TreePath) -> String {
        format!("its parent `{folder}` is not a folder outside")
    }

    /// Reason for a real path that two members of the sandbox change.
    pub(crate) fn also_in_part(other: &str) -> String {
        format!("part `{other}` of the sandbox changes it too")
    }
}

/// State of a path in the user's folder, with up to 1 MiB of its content.
pub(crate) fn current_side(
    root: &Root,
    path: &TreePath,
    state: Option<FileState>,
) -> std::io::Result<Option<Side>> {
    let Some(state) = state else { return Ok(None) };
    let content = match state.kind() {
        FileKind::Directory => Vec::new(),
        FileKind::Symlink => root.read_link(path)?,
        FileKind::File => {
            let mut bytes = Vec::new();
            std::io::Read::read_to_end(
                &mut std::io::Read::take(root.open_file(path)?, 1 << 20),
                &mut bytes,
            )?;
            bytes
        }
    };
    Ok(Some(Side::from_state(&state, Some(&content))))
}

/// Creates a conflict, with the content of every side that is readable.
pub(crate) fn conflict(
    alias: &str,
    root: &Root,
    change: &Change,
    yours_known: Option<Side>,
    reason: String,
    objects: &Objects,
) -> Conflict {
    let side = |state: Option<FileState>| {
        let state = state?;
        let content = objects.read(state.hash).ok().flatten();
        Some(Side::from_state(&state, content.as_deref()))
    };
    let read_yours = || {
        let state = read_state(root, &change.path, None)
            .ok()
            .flatten()
            .map(|(state, _)| state);
        current_side(root, &change.path, state).ok().flatten()
    };
    Conflict {
        alias: alias.to_owned(),
        path: change.path.clone(),
        reason,
        base: side(change.before),
        yours: yours_known.or_else(read_yours),
        sandbox: side(change.after),
    }
}

/// Creates a conflict with an uncommitted edit of the user.
pub(crate) fn dirty(
    alias: &str,
    root: &Root,
    plan: &GitPlan,
    update: &Update,
    change: Option<&Change>,
    reason: &str,
    objects: &Objects,
) -> Conflict {
    let stand_in = Change {
        path: update.path.clone(),
        before: None,
        after: None,
    };
    let mut result = conflict(
        alias,
        root,
        change.unwrap_or(&stand_in),
        None,
        reason.to_owned(),
        objects,
    );
    let side = |blob: &Option<Blob>| {
        let blob = blob.as_ref()?;
        Some(Side::new(blob.mode.clone(), &plan.blob(blob).ok()?))
    };
    result.base = side(&update.old).or(result.base);
    result.sandbox = side(&update.new);
    result
}

/// Conflicts that git's merge reported.
pub(crate) fn unmerged(alias: &str, plan: &GitPlan) -> Vec<Conflict> {
    let reason = if plan.meets_edits {
        reason::EDITED_PLACE
    } else {
        reason::BRANCH_CHANGED
    };
    plan.unmerged
        .iter()
        .map(|unmerged| {
            let [base, yours, sandbox] = unmerged.sides.each_ref().map(|blob| {
                let blob = blob.as_ref()?;
                Some(Side::new(blob.mode.clone(), &plan.blob(blob).ok()?))
            });
            Conflict {
                alias: alias.to_owned(),
                path: unmerged.path.clone(),
                reason: reason.to_owned(),
                base,
                yours,
                sandbox,
            }
        })
        .collect()
}
