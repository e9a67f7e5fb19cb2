//! The user's working tree as a commit, so that a sandbox starts with uncommitted edits.
//!
//! The parent of this commit is the head. The commit is on no branch; a reference of the sandbox protects it from
//! garbage collection. Its objects are in the user's repository, where git removes them after the sandbox is removed.
//! The index and the files of the user stay unchanged.

use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::path::Path;

use cleveragents_domain::TreePath;

use super::program::Git;
use super::result::with_identity;
use super::worktree::{Checkout, GitBase};
use super::{joined, records};
use crate::by_products::is_by_product;
use crate::error::{Error, PathContext as _};
use crate::scoped_dir::Root;

/// Maximum size of an untracked file in a sandbox, in bytes. Larger files are left out.
const MAX_UNTRACKED_FILE_BYTES: u64 = 32 << 20;

/// Maximum total size of the untracked files in a sandbox, in bytes. Further files are left out.
const MAX_UNTRACKED_BYTES: u64 = 512 << 20;

/// Maximum number of left-out paths that are listed.
const MAX_LISTED_PATHS: usize = 100;

/// Uncommitted changes in the user's checkout.
#[derive(Default)]
struct UncommittedEdits {
    /// Paths whose current content the snapshot contains. If the user has deleted a path, the snapshot deletes it too.
    included: Vec<TreePath>,
    left_out: Vec<TreePath>,
}

impl Checkout {
    /// Adds the user's uncommitted edits to the starting point of a sandbox. `scratch` is a folder for a
    /// temporary index.
    pub(crate) fn snapshot(&self, base: GitBase, scratch: &Path) -> Result<GitBase, Error> {
        if self.is_bare {
            return Ok(base);
        }
        let edits = self.edits(&base)?;
        let texts = |paths: &[TreePath]| {
            let paths = paths.iter().take(MAX_LISTED_PATHS);
            paths.map(ToString::to_string).collect()
        };
        let left_out = texts(&edits.left_out);
        if edits.included.is_empty() {
            return Ok(GitBase { left_out, ..base });
        }
        let folder = tempfile::tempdir_in(scratch).during("making a folder in", scratch)?;
        let index = folder.path().join("snapshot.index");
        let git = self.scratch(&index, &self.location);
        // Starts from the commit instead of the user's index, which may be split, sparse or unmerged.
        git.run(&["read-tree", &base.commit])?;
        let arguments = [
            "update-index",
            "-z",
            "--add",
            "--remove",
            "--replace",
            "--stdin",
        ];
        let answer = git.start_in(&self.location, &arguments, &joined(&edits.included))?;
        super::result::succeed(answer, &arguments)?;
        let tree = git.line(&["write-tree"])?;
        if tree == git.line(&["rev-parse", &format!("{}^{{tree}}", base.commit)])? {
            return Ok(GitBase { left_out, ..base });
        }
        let commit = with_identity(git)?.line(&[
            "commit-tree",
            &tree,
            "-p",
            &base.commit,
            "-m",
            "Uncommitted edits at the start of a sandbox",
        ])?;
        Ok(GitBase {
            snapshot: Some(commit),
            left_out,
            ..base
        })
    }

    /// Paths that differ between two commits.
    pub(crate) fn changed_between(&self, old: &str, new: &str) -> Result<Vec<TreePath>, Error> {
        if old == new {
            return Ok(Vec::new());
        }
        let printed = self.git.run(&[
            "diff-tree",
            "-r",
            "-z",
            "--name-only",
            "--no-renames",
            old,
            new,
        ])?;
        let paths = records(&printed);
        Ok(paths
            .filter_map(|path| TreePath::from_bytes(path).ok())
            .collect())
    }

    /// Finds uncommitted changes, and splits them into those that a sandbox starts with and those left out.
    fn edits(&self, base: &GitBase) -> Result<UncommittedEdits, Error> {
        let printed = self.git.run(&[
            "status",
            "--porcelain",
            "-z",
            "--no-renames",
            "--untracked-files=all",
            "--ignore-submodules=all",
        ])?;
        let root = Root::open(&self.location).during("opening", &self.location)?;
        let mut edits = UncommittedEdits::default();
        let mut untracked_bytes = 0;
        for record in records(&printed) {
            // Two letters and a space precede the path; an untracked repository ends with a slash.
            let (Some(letters), Some(path)) = (record.get(..2), record.get(3..)) else {
                continue;
            };
            let is_repository = path.ends_with(b"/");
            let path = path.strip_suffix(b"/").unwrap_or(path);
            let Ok(path) = TreePath::from_bytes(path) else {
                continue;
            };
            let is_untracked = letters == b"??";
            if is_untracked && is_by_product(&path, |mark| self.has_file(mark)) {
                continue;
            }
            if !is_untracked && self.is_as_checked_out(&root, base, &path)? {
                continue;
            }
            let is_unmerged = letters.contains(&b'U') || letters == b"AA" || letters == b"DD";
            let mut is_included = !is_repository && !is_unmerged;
            if is_included && is_untracked {
                let place = self.location.join(path.as_path());
                let stat = root.stat(&path).during("reading", &place)?;
                let size = stat.map_or(0, |stat| stat.size);
                is_included = size <= MAX_UNTRACKED_FILE_BYTES
                    && untracked_bytes + size <= MAX_UNTRACKED_BYTES;
                untracked_bytes += if is_included { size } else { 0 };
            }
            if is_included {
                edits.included.push(path);
            } else {
                edits.left_out.push(path);
            }
        }
        self.exclude_filtered(&mut edits)?;
        Ok(edits)
    }

    /// Whether a file with carriage returns has exactly the bytes of the commit, or those that git writes when it checks
    /// the commit out. Git permanently reports such a file as changed if its attributes specify other line endings.
    fn is_as_checked_out(
        &self,
        root: &Root,
        base: &GitBase,
        path: &TreePath,
    ) -> Result<bool, Error> {
        if !has_bytes(root, path, |bytes| bytes.contains(&b'\r'))? {
            return Ok(false);
        }
        let mut name = OsString::from(format!("{}:", base.commit));
        name.push(path.as_path());
        for form in ["blob", "--filters"] {
            let arguments = [OsStr::new("cat-file"), OsStr::new(form), &name];
            let written = self.git.try_run(&arguments)?;
            let is_equal = |bytes: &[u8]| bytes == written.stdout;
            if written.code == Some(0) && has_bytes(root, path, is_equal)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn has_file(&self, path: &TreePath) -> bool {
        let place = self.location.join(path.as_path());
        std::fs::symlink_metadata(place).is_ok_and(|found| found.is_file())
    }

    /// Leaves out paths whose content git could store only by running a filter command of the user's configuration.
    fn exclude_filtered(&self, edits: &mut UncommittedEdits) -> Result<(), Error> {
        if edits.included.is_empty() {
            return Ok(());
        }
        let input = joined(&edits.included);
        let arguments = ["check-attr", "-z", "--stdin", "filter"];
        let printed = self.git.run_with(&arguments, &input)?;
        let mut fields = printed.split(|byte| *byte == 0);
        while let (Some(path), Some(_), Some(value)) = (fields.next(), fields.next(), fields.next())
        {
            if self.git.has_filter(value)
                && let Some(at) = edits
                    .included
                    .iter()
                    .position(|included| included.as_bytes() == path)
            {
                edits.left_out.push(edits.included.remove(at));
            }
        }
        Ok(())
    }
}

/// Whether a path is a regular file of at most [`MAX_UNTRACKED_FILE_BYTES`] whose bytes satisfy a condition.
fn has_bytes(
    root: &Root,
    path: &TreePath,
    condition: impl Fn(&[u8]) -> bool,
) -> Result<bool, Error> {
    let place = root.path().join(path.as_path());
    let Some(file) = root.open_regular(path).during("reading", &place)? else {
        return Ok(false);
    };
    let mut bytes = Vec::new();
    file.take(MAX_UNTRACKED_FILE_BYTES + 1)
        .read_to_end(&mut bytes)
        .during("reading", &place)?;
    Ok(bytes.len() as u64 <= MAX_UNTRACKED_FILE_BYTES && condition(&bytes))
}

/// Paths with uncommitted edits that a sandbox started with.
pub(crate) fn included_edits(git: &Git, base: &GitBase) -> Result<Vec<TreePath>, Error> {
    let Some(snapshot) = &base.snapshot else {
        return Ok(Vec::new());
    };
    let printed = git.run(&[
        "diff-tree",
        "-r",
        "-z",
        "--no-renames",
        "--name-only",
        &base.commit,
        snapshot,
    ])?;
    Ok(records(&printed)
        .filter_map(|path| TreePath::from_bytes(path).ok())
        .collect())
}
