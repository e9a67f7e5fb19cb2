//! Apply for a git repository: its files, branch and index.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use cleveragents_domain::{ContentHash, FileKind, FileState, TreePath};
use serde::{Deserialize, Serialize};

use super::conflict::{Conflict, conflict, dirty, reason};
use super::tree::{Obstacles, TreeChanges};
use crate::capture::Change;
use crate::error::{Error, PathContext as _};
use crate::git::{Checkout, GitPlan, IndexLock, hash_file, open_checkout};
use crate::kill_points;
use crate::objects::Objects;
use crate::scoped_dir::Root;
use crate::state::read_state;

/// Change of a branch and the index.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RefChange {
    #[serde(with = "crate::path_text")]
    location: PathBuf,
    old: String,
    new: String,
    log: String,
    index: Option<IndexChange>,
    /// Folder with the new objects, within the sandbox.
    #[serde(with = "crate::path_text")]
    objects: PathBuf,
    /// Whether to copy only the packs, because they contain all new objects.
    #[serde(default)]
    is_packed: bool,
    /// Reference of the branch to create at `new`; `None` to move the current branch from `old` to `new`.
    #[serde(default)]
    creates: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct IndexChange {
    #[serde(with = "crate::path_text")]
    place: PathBuf,
    /// Copy of the index before the apply, for a rollback.
    #[serde(with = "crate::path_text")]
    saved: PathBuf,
    /// New index.
    #[serde(with = "crate::path_text")]
    fresh: PathBuf,
    before: ContentHash,
    after: ContentHash,
}

impl IndexChange {
    /// Lock on the index while the commit `new` is applied.
    fn lock(&self, new: &str) -> IndexLock<'_> {
        IndexLock::new(&self.place, self.after, new)
    }
}

/// Name of the folder of packs in an object folder.
const PACKS: &str = "pack";

/// Maximum number of files that are synced one by one. For more files, one call syncs the whole file system.
const MAX_SINGLE_SYNCS: usize = 64;

/// Copies missing objects. An object gets its final name only after it is complete. When this returns, all objects are
/// durable, and no reference points to them yet.
fn copy_objects(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::create_dir_all(to)?;
    let mut copied_paths = Vec::new();
    copy_objects_into(from, to, &mut copied_paths)?;
    if copied_paths.len() > MAX_SINGLE_SYNCS {
        return Ok(rustix::fs::syncfs(File::open(to)?)?);
    }
    for place in copied_paths {
        File::open(&place)?.sync_data()?;
        if let Some(folder) = place.parent() {
            File::open(folder)?.sync_data()?;
        }
    }
    Ok(())
}

fn copy_objects_into(from: &Path, to: &Path, copied_paths: &mut Vec<PathBuf>) -> io::Result<()> {
    let mut entries = std::fs::read_dir(from)?.collect::<io::Result<Vec<_>>>()?;
    // A pack before its index: git does not read a pack that has no index.
    entries.sort_by_key(|entry| entry.path().extension().is_some_and(|end| end == "idx"));
    for entry in entries {
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            match std::fs::create_dir(&target) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => copy_objects_into(&entry.path(), &target, copied_paths)?,
            }
        } else if !target.exists() {
            let mut file = tempfile::NamedTempFile::new_in(to)?;
            io::copy(&mut File::open(entry.path())?, &mut file)?;
            file.as_file()
                .set_permissions(entry.metadata()?.permissions())?;
            file.persist(&target).map_err(|error| error.error)?;
            copied_paths.push(target);
        }
    }
    Ok(())
}

/// Compares the changes of the new commit with the user's files and index. Returns the changes to the files, and the
/// conflicts.
pub(crate) fn plan_files(
    alias: &str,
    plan: &GitPlan,
    checkout: &Checkout,
    changes: &[Change],
    objects: &mut Objects,
    temporary: &Path,
) -> Result<(TreeChanges, Vec<Conflict>), Error> {
    let root = Root::open(&checkout.location).during("opening", &checkout.location)?;
    let by_path: HashMap<&TreePath, &Change> = changes
        .iter()
        .map(|change| (&change.path, change))
        .collect();
    let mut planned: TreeChanges = Vec::new();
    let mut conflicts = Vec::new();
    let mut merged = Vec::new();
    for update in &plan.updates {
        let is_untouched = update.index == update.old && update.file == update.old;
        let is_hidden = update.is_sparse && update.file.is_none() && update.index == update.old;
        let is_applied =
            update.file == update.new && (update.index == update.old || update.index == update.new);
        if is_hidden || is_applied {
            continue;
        }
        if is_untouched {
            let place = checkout.location.join(update.path.as_path());
            let current = read_state(&root, &update.path, None)
                .during("reading", &place)?
                .map(|(state, _)| state);
            let from_sandbox = by_path.get(&update.path).filter(|_| update.is_sandboxed);
            let folder = from_sandbox
                .and_then(|change| change.after)
                .filter(|after| after.kind() == FileKind::Directory);
            match (from_sandbox, &update.new) {
                // Git sees only a deleted file, but the sandbox replaced the file by a folder.
                (_, None) if folder.is_some() => {
                    planned.push((update.path.clone(), current, folder));
                }
                (_, None) => planned.push((update.path.clone(), current, None)),
                (Some(change), Some(_)) => {
                    planned.push((update.path.clone(), current, with_mode(change, current)));
                }
                (None, Some(_)) => merged.push((update.path.clone(), current)),
            }
            continue;
        }
        if update.is_as_at_start()
            && let Some(change) = by_path.get(&update.path)
        {
            // The user's file still has the uncommitted edit that the sandbox started with, so the sandbox's file
            // contains both the edit and the change.
            let place = checkout.location.join(update.path.as_path());
            let current = read_state(&root, &update.path, None)
                .during("reading", &place)?
                .map(|(state, _)| state);
            planned.push((update.path.clone(), current, with_mode(change, current)));
            continue;
        }
        let reason = if update.index == update.old {
            reason::UNCOMMITTED
        } else {
            reason::STAGED
        };
        conflicts.push(dirty(
            alias,
            &root,
            plan,
            update,
            by_path.get(&update.path).copied(),
            reason,
            objects,
        ));
    }
    checked_out(plan, merged, objects, temporary, &mut planned)?;
    let removed: BTreeSet<&TreePath> = planned
        .iter()
        .filter(|(_, _, after)| after.is_none_or(|after| after.kind() == FileKind::Directory))
        .map(|(path, _, _)| path)
        .chain(
            changes
                .iter()
                .filter(|change| change.after.is_none())
                .map(|change| &change.path),
        )
        .collect();
    let mut obstacles = Obstacles::new(&root, &removed);
    for (path, _, after) in &planned {
        if let Some(reason) = obstacles.blocking_reason(path, *after)? {
            let change = Change {
                path: path.clone(),
                before: None,
                after: *after,
            };
            let change = by_path.get(path).copied().unwrap_or(&change);
            conflicts.push(conflict(alias, &root, change, None, reason, objects));
        }
    }
    Ok((planned, conflicts))
}

/// The sandbox's file, with the user's permissions unless the sandbox changed them.
fn with_mode(change: &Change, found: Option<FileState>) -> Option<FileState> {
    let after = change.after?;
    match (change.before, found) {
        (Some(before), Some(found))
            if before.mode == after.mode && found.kind() == after.kind() =>
        {
            Some(FileState {
                mode: found.mode.without_special_bits(),
                ..after
            })
        }
        _ => Some(after),
    }
}

/// Adds files that the merge composed from both sides, with the content that git checks out.
fn checked_out(
    plan: &GitPlan,
    merged: Vec<(TreePath, Option<FileState>)>,
    objects: &mut Objects,
    temporary: &Path,
    planned: &mut TreeChanges,
) -> Result<(), Error> {
    if merged.is_empty() {
        return Ok(());
    }
    let folder = tempfile::tempdir_in(temporary).during("making a folder in", temporary)?;
    let paths: Vec<TreePath> = merged.iter().map(|(path, _)| path.clone()).collect();
    plan.check_out(folder.path(), &paths)?;
    let root = Root::open(folder.path()).during("opening", folder.path())?;
    for (path, found) in merged {
        let checked_out_state = read_state(&root, &path, Some(objects))
            .during("reading", &root.path().join(path.as_path()))?;
        let Some((mut after, _)) = checked_out_state else {
            return Err(Error::Damaged(format!("git did not write `{path}`")));
        };
        if let Some(found) = found
            && found.kind() == FileKind::File
            && found.mode.is_executable() == after.mode.is_executable()
        {
            after.mode = found.mode.without_special_bits();
        }
        planned.push((path, found, Some(after)));
    }
    Ok(())
}

/// The commit of a reference; `None` if the reference does not exist.
fn commit_at(checkout: &Checkout, reference: &str) -> Result<Option<String>, Error> {
    let arguments = ["rev-parse", "--verify", "--quiet", reference];
    let answer = checkout.git.try_run(&arguments)?;
    let commit = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
    Ok((answer.code == Some(0)).then_some(commit))
}

impl RefChange {
    /// Plans the change and writes the new index into the scratch folder.
    pub(crate) fn plan(
        plan: &GitPlan,
        new: &str,
        checkout: &Checkout,
        folder: &Path,
        log: &str,
    ) -> Result<Self, Error> {
        let index = if checkout.is_bare {
            None
        } else {
            let saved = folder.join("index.before");
            std::fs::copy(&checkout.index, &saved).during("copying", &checkout.index)?;
            let fresh = folder.join("index.after");
            plan.write_index(checkout, &fresh)?;
            Some(IndexChange {
                before: hash_file(&saved).during("reading", &saved)?,
                after: hash_file(&fresh).during("reading", &fresh)?,
                place: checkout.index.clone(),
                saved,
                fresh,
            })
        };
        Ok(Self {
            location: checkout.location.clone(),
            old: plan.old.clone(),
            new: new.to_owned(),
            log: log.to_owned(),
            index,
            objects: plan.objects.clone(),
            is_packed: plan.is_packed,
            creates: None,
        })
    }

    /// The creation of a branch. The current branch, the index and the files stay unchanged.
    pub(crate) fn create(
        plan: &GitPlan,
        new: &str,
        checkout: &Checkout,
        reference: &str,
        log: &str,
    ) -> Self {
        Self {
            location: checkout.location.clone(),
            old: plan.old.clone(),
            new: new.to_owned(),
            log: log.to_owned(),
            index: None,
            objects: plan.objects.clone(),
            is_packed: plan.is_packed,
            creates: Some(reference.to_owned()),
        }
    }

    /// Takes the lock on the user's index, with the new index as its content. Verifies that neither index nor branch
    /// has changed since planning.
    pub(crate) fn lock(&self) -> Result<(), Error> {
        let checkout = open_checkout(&self.location)?;
        // No reference points to the objects yet. If none ever does, git garbage-collects them.
        let user_objects = checkout.common_dir.join("objects");
        let (from, to) = if self.is_packed {
            (self.objects.join(PACKS), user_objects.join(PACKS))
        } else {
            (self.objects.clone(), user_objects.clone())
        };
        copy_objects(&from, &to).during("writing", &user_objects)?;
        if let Some(reference) = &self.creates {
            return match commit_at(&checkout, reference)? {
                None => Ok(()),
                Some(_) => Err(self.branch_raced(reference)),
            };
        }
        let mut is_index_unchanged = true;
        if let Some(index) = &self.index {
            let lock = index.lock(&self.new);
            match lock.acquire(&index.fresh) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    return Err(Error::RepositoryBusy {
                        repository: self.location.clone(),
                        lock: lock.path().to_owned(),
                    });
                }
                other => other.during("making", lock.path())?,
            }
            is_index_unchanged =
                hash_file(&index.place).during("reading", &index.place)? == index.before;
        }
        if !is_index_unchanged || checkout.head()?.commit != self.old {
            return Err(Error::Raced(format!(
                "`{}` was changed by another git command",
                self.location.display()
            )));
        }
        Ok(())
    }

    /// Moves the branch, then replaces the index.
    pub(crate) fn forward(&self) -> Result<(), Error> {
        let checkout = open_checkout(&self.location)?;
        if let Some(reference) = &self.creates {
            return self.create_branch(&checkout, reference);
        }
        let head = checkout.head()?.commit;
        if head == self.old {
            let moved =
                checkout
                    .git
                    .run(&["update-ref", "-m", &self.log, "HEAD", &self.new, &self.old]);
            moved.map_err(|error| Error::Raced(error.to_string()))?;
        } else if head != self.new {
            return Err(Error::Raced(format!(
                "the branch of `{}` was moved by another process",
                self.location.display()
            )));
        }
        kill_points::boundary();
        if let Some(index) = &self.index {
            let lock = index.lock(&self.new);
            if lock.is_held() {
                lock.replace_index()?;
            } else if hash_file(&index.place).during("reading", &index.place)? != index.after {
                return Err(Error::Raced(format!(
                    "the index of `{}` was changed by another process",
                    self.location.display()
                )));
            }
        }
        kill_points::boundary();
        Ok(())
    }

    /// Restores index and branch; `false` if another process has moved the branch since.
    pub(crate) fn backward(&self) -> Result<bool, Error> {
        let checkout = open_checkout(&self.location)?;
        if let Some(reference) = &self.creates {
            return self.delete_branch(&checkout, reference);
        }
        if let Some(index) = &self.index
            && hash_file(&index.place).during("reading", &index.place)? == index.after
        {
            index.lock(&self.new).restore_index(&index.saved)?;
        }
        kill_points::boundary();
        let head = checkout.head()?.commit;
        if head == self.new {
            checkout.git.run(&[
                "update-ref",
                "-m",
                "cleveragents: apply rolled back",
                "HEAD",
                &self.old,
                &self.new,
            ])?;
        }
        self.unlock()?;
        kill_points::boundary();
        Ok(head == self.new || head == self.old)
    }

    fn branch_raced(&self, reference: &str) -> Error {
        Error::Raced(format!(
            "the branch `{}` of `{}` was created by another process",
            reference.trim_start_matches("refs/heads/"),
            self.location.display()
        ))
    }

    fn create_branch(&self, checkout: &Checkout, reference: &str) -> Result<(), Error> {
        match commit_at(checkout, reference)? {
            Some(commit) if commit == self.new => {}
            Some(_) => return Err(self.branch_raced(reference)),
            None => {
                // With this expected value, git fails if the reference exists.
                let absent = "0".repeat(self.new.len());
                let create = [
                    "update-ref",
                    "-m",
                    &self.log,
                    reference,
                    &self.new,
                    absent.as_str(),
                ];
                let created = checkout.git.run(&create);
                created.map_err(|error| Error::Raced(error.to_string()))?;
            }
        }
        kill_points::boundary();
        Ok(())
    }

    /// Deletes the branch that the apply created; `false` if another process has moved it since.
    fn delete_branch(&self, checkout: &Checkout, reference: &str) -> Result<bool, Error> {
        let found = commit_at(checkout, reference)?;
        let is_own = found.as_ref() == Some(&self.new);
        if is_own {
            checkout
                .git
                .run(&["update-ref", "-d", reference, &self.new])?;
        }
        kill_points::boundary();
        Ok(is_own || found.is_none())
    }

    /// Removes the index lock if this apply created it.
    pub(crate) fn unlock(&self) -> Result<(), Error> {
        if let Some(index) = &self.index {
            index.lock(&self.new).release()?;
        }
        Ok(())
    }

    /// Updates the file times in git's index, so that programs that compare only times see no changes. A failure has no
    /// consequences, except that git has to read the files.
    pub(crate) fn refresh(&self) {
        if let Some(index) = &self.index {
            let _ignored = self.refresh_index(index);
        }
    }

    /// Git updates a copy, because a killed git process would leave its lock on the user's index. If the process dies
    /// while it holds its own lock, the next one finds the lock by its content.
    fn refresh_index(&self, index: &IndexChange) -> Result<(), Error> {
        let copy = index.fresh.with_extension("refreshed");
        let lock_of = |copy: &Path| -> Result<IndexLock<'_>, Error> {
            let content = hash_file(copy).during("reading", copy)?;
            Ok(IndexLock::new(&index.place, content, &self.new))
        };
        let is_unchanged = || -> Result<bool, Error> {
            Ok(hash_file(&index.place).during("reading", &index.place)? == index.after)
        };
        if copy.exists() {
            lock_of(&copy)?.release()?;
        }
        std::fs::copy(&index.place, &copy).during("copying", &index.place)?;
        let checkout = open_checkout(&self.location)?;
        let git = checkout.git.with("GIT_INDEX_FILE", &copy);
        git.try_run(&["update-index", "-q", "--refresh"])?;
        let lock = lock_of(&copy)?;
        lock.acquire(&copy).during("making", lock.path())?;
        kill_points::boundary();
        let replaced = match is_unchanged() {
            Ok(true) => lock.replace_index(),
            Ok(false) => lock.release(),
            Err(error) => lock.release().and(Err(error)),
        };
        kill_points::boundary();
        replaced
    }
}
