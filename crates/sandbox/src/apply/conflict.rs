//! Conflicts of an apply: a path that changed on both sides, the reason, and the content of each side.

use cleveragents_domain::{FileKind, FileState, TreePath};
use serde::Serialize;

use crate::capture::Change;
use crate::git::{Blob, GitPlan, Update};
use crate::objects::Objects;
use crate::scoped_dir::Root;
use crate::state::read_state;

/// Maximum number of bytes of text shown of each side.
const SHOWN: usize = 16 << 10;

/// State of a path on one side of a conflict.
#[derive(Debug, Clone, Serialize)]
pub struct Side {
    /// Size in bytes.
    pub size: u64,
    /// Kind and permissions, as git writes them.
    pub mode: String,
    /// Beginning of the content if it is text.
    pub text: Option<String>,
}

impl Side {
    pub(crate) fn new(mode: impl Into<String>, content: &[u8]) -> Self {
        let shown = &content[..content.len().min(SHOWN)];
        // The limit may cut a character in two; the content still counts as text.
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

/// A path that cannot be applied because the real resource changed there too.
#[derive(Debug, Clone, Serialize)]
pub struct Conflict {
    /// Alias of the sandbox member.
    pub alias: String,
    /// Path within the member.
    pub path: TreePath,
    /// Description of the change outside the sandbox.
    pub reason: String,
    /// State that the sandbox started from.
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

/// Reasons of conflicts, as users read them after the path.
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

    /// A file replaces a folder that has content outside.
    pub(crate) fn folder_holds(inner: &TreePath) -> String {
        format!("the folder in its place holds `{inner}`")
    }

    /// The parent of the path is no longer a folder.
    pub(crate) fn not_a_folder(folder: &TreePath) -> String {
        format!("its folder `{folder}` is something else outside")
    }

    /// Two parts of one sandbox contain the same real path.
    pub(crate) fn also_in_part(other: &str) -> String {
        format!("part `{other}` of the sandbox changes it too")
    }
}

/// State of a path in the user's folder, with up to 1 MiB of its content.
pub(crate) fn yours(
    root: &Root,
    path: &TreePath,
    found: Option<FileState>,
) -> std::io::Result<Option<Side>> {
    let Some(found) = found else { return Ok(None) };
    let content = match found.kind() {
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
    Ok(Some(Side::from_state(&found, Some(&content))))
}

/// A conflict with the content of both sides as far as they are readable.
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
    let found = || {
        let state = read_state(root, &change.path, None)
            .ok()
            .flatten()
            .map(|(state, _)| state);
        yours(root, &change.path, state).ok().flatten()
    };
    Conflict {
        alias: alias.to_owned(),
        path: change.path.clone(),
        reason,
        base: side(change.before),
        yours: yours_known.or_else(found),
        sandbox: side(change.after),
    }
}

/// A conflict with an edit that the user did not commit.
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
    let mut found = conflict(
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
    found.base = side(&update.old).or(found.base);
    found.sandbox = side(&update.new);
    found
}

/// Conflicts that the merge itself reported.
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
