//! Changes of a new commit to the user's checkout, compared with the user's current state.

use std::collections::{HashMap, HashSet};

use cleveragents_domain::{FileKind, TreePath};

use super::program::Git;
use super::result::{Blob, GitPlan, GitRequest, entry, staged, succeed};
use super::{joined, records};
use crate::error::{Error, PathContext as _};
use crate::scoped_dir::Root;

/// A path that the new commit changes.
#[derive(Debug, Clone)]
pub(crate) struct Update {
    pub(crate) path: TreePath,
    pub(crate) old: Option<Blob>,
    pub(crate) new: Option<Blob>,
    /// Blob in the user's index.
    pub(crate) index: Option<Blob>,
    /// The user's file as a blob; `None` if the file does not exist.
    pub(crate) file: Option<Blob>,
    /// Whether the user excludes this path from the work tree (sparse checkout).
    pub(crate) is_sparse: bool,
    /// Whether the new content is exactly that of the sandbox.
    pub(crate) is_sandboxed: bool,
    /// The uncommitted edit that the sandbox started with, if any.
    pub(crate) edit: Option<EditedBlob>,
}

/// A file with an uncommitted edit of the user (`start`), and the sandbox's version of it.
#[derive(Debug, Clone)]
pub(crate) struct EditedBlob {
    pub(crate) start: Option<Blob>,
    pub(crate) sandbox: Option<Blob>,
}

impl Update {
    /// Whether the user's file still has the uncommitted edit that the sandbox started with, staged or not.
    pub(crate) fn is_as_at_start(&self) -> bool {
        self.edit.as_ref().is_some_and(|edit| {
            self.file == edit.start && (self.index == self.old || self.index == edit.start)
        })
    }

    /// New blob in the user's index. A staged edit stays staged.
    pub(crate) fn new_index(&self) -> Option<&Blob> {
        match &self.edit {
            Some(edit) if self.index != self.old && self.index == edit.start => {
                edit.sandbox.as_ref()
            }
            _ => self.new.as_ref(),
        }
    }
}

/// Computes the changes of the new commit, with the user's current state of each path.
pub(super) fn updates(
    plan: &GitPlan,
    request: &GitRequest<'_>,
    new: &str,
    sandbox_tree: &str,
) -> Result<Vec<Update>, Error> {
    let mut updates_found = tree_differences(&plan.git, &plan.old, new)?;
    let composed: HashSet<TreePath> = tree_differences(&plan.git, sandbox_tree, new)?
        .into_iter()
        .map(|update| update.path)
        .collect();
    for update in &mut updates_found {
        update.is_sandboxed = !composed.contains(&update.path);
    }
    if let Some(snapshot) = &request.base.snapshot {
        add_edits(plan, request, snapshot, sandbox_tree, &mut updates_found)?;
    }
    if request.checkout.is_bare || request.new_branch.is_some() {
        return Ok(updates_found);
    }
    let positions: HashMap<TreePath, usize> = updates_found
        .iter()
        .enumerate()
        .map(|(at, update)| (update.path.clone(), at))
        .collect();
    // Lists the user's complete index, because git takes single paths only as arguments, whose length is limited.
    let index = plan.git.with("GIT_INDEX_FILE", &request.checkout.index);
    for record in records(&index.run(&["ls-files", "-z", "--stage"])?) {
        if let Some((path, stage, blob)) = staged(record)
            && let Some(at) = positions.get(&path)
        {
            // A path that is unmerged in the user's index differs from every blob.
            updates_found[*at].index = Some(if stage == 0 {
                blob
            } else {
                Blob {
                    mode: "unmerged".to_owned(),
                    oid: blob.oid,
                }
            });
        }
    }
    for record in records(&index.run(&["ls-files", "-z", "-t", "--cached"])?) {
        if let Some(path) = record.strip_prefix(b"S ")
            && let Some(at) = TreePath::from_bytes(path)
                .ok()
                .and_then(|path| positions.get(&path).copied())
        {
            updates_found[at].is_sparse = true;
        }
    }
    files_as_blobs(plan, request, &mut updates_found, &positions)?;
    Ok(updates_found)
}

/// Adds the uncommitted edits that the sandbox started with.
fn add_edits(
    plan: &GitPlan,
    request: &GitRequest<'_>,
    snapshot: &str,
    sandbox_tree: &str,
    found: &mut [Update],
) -> Result<(), Error> {
    let blobs = |from: &str, to: &str| -> Result<HashMap<TreePath, Option<Blob>>, Error> {
        let differences = tree_differences(&plan.git, from, to)?.into_iter();
        Ok(differences
            .map(|update| (update.path, update.new))
            .collect())
    };
    let edits = blobs(&request.base.commit, snapshot)?;
    let sandbox = blobs(snapshot, sandbox_tree)?;
    for update in found {
        if let Some(start) = edits.get(&update.path) {
            update.edit = Some(EditedBlob {
                start: start.clone(),
                sandbox: sandbox.get(&update.path).unwrap_or(start).clone(),
            });
        }
    }
    Ok(())
}

/// Reads the user's files as the blobs that git would store. Git's conversion of line endings depends on the index
/// entry of a path, so the blobs of the user's index are loaded first. They have no file times, so git skips no file as
/// unchanged.
fn files_as_blobs(
    plan: &GitPlan,
    request: &GitRequest<'_>,
    found: &mut [Update],
    positions: &HashMap<TreePath, usize>,
) -> Result<(), Error> {
    let location = &request.checkout.location;
    let root = Root::open(location).during("opening", location)?;
    let mut present = Vec::new();
    for update in found.iter() {
        let stat = root
            .stat(&update.path)
            .during("reading", &location.join(update.path.as_path()))?;
        let is_content = stat
            .and_then(|stat| stat.mode)
            .is_some_and(|mode| mode.kind() != FileKind::Directory);
        if is_content {
            present.push(update.path.clone());
        }
    }
    if present.is_empty() {
        return Ok(());
    }
    let index = request.scratch.join("files.index");
    let git = plan
        .git
        .with("GIT_INDEX_FILE", &index)
        .with("GIT_WORK_TREE", location);
    git.run(&["read-tree", "--empty"])?;
    let known = present.iter().filter_map(|path| {
        let update = &found[*positions.get(path)?];
        let staged = update.index.as_ref().filter(|blob| blob.mode != "unmerged");
        Some((path, staged.or(update.old.as_ref())?))
    });
    let input: Vec<u8> = known.flat_map(|(path, blob)| entry(path, blob)).collect();
    git.run_with(&["update-index", "-z", "--index-info"], &input)?;
    let arguments = ["update-index", "-z", "--add", "--replace", "--stdin"];
    succeed(
        git.start_in(location, &arguments, &joined(&present))?,
        &arguments,
    )?;
    for record in records(&git.run(&["ls-files", "-z", "--stage"])?) {
        if let Some((path, _, blob)) = staged(record)
            && let Some(at) = positions.get(&path)
        {
            found[*at].file = Some(blob);
        }
    }
    // Git permanently reports a file as changed if its attributes specify other line endings than the commit has. Here,
    // a file with exactly the bytes of the commit, or those of its checkout, counts as unchanged.
    for path in &present {
        let Some(update) = positions.get(path).and_then(|at| found.get_mut(*at)) else {
            continue;
        };
        let (Some(file), Some(old)) = (&update.file, &update.old) else {
            continue;
        };
        let is_text = file.mode == old.mode && old.mode.starts_with("100");
        if file.oid != old.oid
            && is_text
            && (has_bytes(&root, path, &plan.blob(old)?)?
                || has_bytes(&root, path, &plan.checked_out_blob(location, path, old)?)?)
        {
            update.file = Some(old.clone());
        }
    }
    Ok(())
}

/// Whether a file has exactly these bytes.
fn has_bytes(root: &Root, path: &TreePath, bytes: &[u8]) -> Result<bool, Error> {
    use std::io::Read as _;
    let place = root.path().join(path.as_path());
    let Some(file) = root.open_regular(path).during("reading", &place)? else {
        return Ok(false);
    };
    let mut content = Vec::new();
    let limit = bytes.len() as u64 + 1;
    file.take(limit)
        .read_to_end(&mut content)
        .during("reading", &place)?;
    Ok(content == bytes)
}

fn tree_differences(git: &Git, from: &str, to: &str) -> Result<Vec<Update>, Error> {
    let printed = git.run(&[
        "diff-tree",
        "-r",
        "-z",
        "--no-renames",
        "--raw",
        "--no-abbrev",
        from,
        to,
    ])?;
    let mut fields = records(&printed);
    let mut updates = Vec::new();
    while let Some(fields_of_entry) = fields.next() {
        let broken = || Error::Git {
            command: "diff-tree".to_owned(),
            message: "the answer is not understood".to_owned(),
        };
        let fields_of_entry = std::str::from_utf8(fields_of_entry).map_err(|_| broken())?;
        let words: Vec<&str> = fields_of_entry.trim_start_matches(':').split(' ').collect();
        let [old_mode, new_mode, old, new, _] = words[..] else {
            return Err(broken());
        };
        let path = fields.next().ok_or_else(broken)?;
        updates.push(Update {
            path: TreePath::from_bytes(path).map_err(|_| broken())?,
            old: Blob::new(old_mode, old),
            new: Blob::new(new_mode, new),
            index: None,
            file: None,
            is_sparse: false,
            is_sandboxed: false,
            edit: None,
        });
    }
    Ok(updates)
}
