//! Changes to one real tree: staged inside it, and put in place or rolled back by renames.
//!
//! A new file is first written completely into a staging folder on the same file system. An atomic rename exchanges it
//! with the old file. Only then is the old file compared with its expected state, which detects an edit at the last
//! moment; such an edit is restored. The old files stay in the staging folder until the apply is complete, so a
//! rollback needs no copy.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use cleveragents_domain::{FileKind, FileMode, FileState, TreePath};
use rustix::fs::RenameFlags;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::error::{Error, PathContext as _};
use crate::kill_points;
use crate::objects::Objects;
use crate::scoped_dir::{Root, stat_of};
use crate::state::read_state;

/// Permissions that the owner needs to change the content of a folder.
const OWNER_WRITE_EXECUTE: u32 = 0o300;

/// One change to one path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Step {
    pub(crate) path: TreePath,
    pub(crate) before: Option<FileState>,
    pub(crate) after: Option<FileState>,
    /// Name in the staging folder.
    slot: u64,
    /// Only for a path that changes in two steps: in the first step, the state of the path after both steps; in the
    /// second step, the state before both.
    #[serde(default)]
    far: Option<FileState>,
}

/// Order of the steps: removals come first, because other paths may take their place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum StepOrder {
    RemoveFile,
    RemoveFolder,
    MakeFolder,
    PlaceFile,
}

/// All changes to one tree, in the order of execution.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Steps {
    #[serde(with = "crate::path_text")]
    pub(crate) root: PathBuf,
    #[serde(with = "crate::path_text")]
    stage: PathBuf,
    pub(crate) all: Vec<Step>,
    /// Folders without write permission, with their modes. They are writable while the steps run.
    #[serde(default)]
    closed: Vec<(TreePath, FileMode)>,
}

fn is_folder(state: Option<FileState>) -> bool {
    state.is_some_and(|state| state.kind() == FileKind::Directory)
}

impl Step {
    /// Whether the path is in the `far` state. For the first of two steps this means that both are complete; for the
    /// second, that neither has started.
    fn is_far(&self, found: Option<FileState>) -> bool {
        // For folders only the kind counts, because their permissions change while steps run.
        self.far.is_some() && (found == self.far || (is_folder(found) && is_folder(self.far)))
    }
}

fn order_of(step: &Step) -> StepOrder {
    match (step.before, step.after) {
        (before, None) if is_folder(before) => StepOrder::RemoveFolder,
        (_, None) => StepOrder::RemoveFile,
        (_, after) if is_folder(after) => StepOrder::MakeFolder,
        _ => StepOrder::PlaceFile,
    }
}

impl Steps {
    /// Orders the changes; a change from a folder to a file, or the reverse, becomes two steps.
    pub(crate) fn new(
        root: &Path,
        stage_name: &str,
        changes: Vec<(TreePath, Option<FileState>, Option<FileState>)>,
    ) -> Self {
        let mut steps = Vec::new();
        let mut push = |path: TreePath, before, after, far| {
            let slot = steps.len() as u64;
            steps.push(Step {
                path,
                before,
                after,
                slot,
                far,
            });
        };
        for (path, before, after) in changes {
            if before.is_some() && after.is_some() && is_folder(before) != is_folder(after) {
                push(path.clone(), before, None, after);
                push(path, None, after, before);
            } else if before != after {
                push(path, before, after, None);
            }
        }
        steps.sort_by(|left, right| {
            order_of(left).cmp(&order_of(right)).then_with(|| {
                if order_of(left) <= StepOrder::RemoveFolder {
                    right.path.cmp(&left.path)
                } else {
                    left.path.cmp(&right.path)
                }
            })
        });
        Self {
            root: root.to_owned(),
            stage: root.join(stage_name),
            all: steps,
            closed: Vec::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    fn roots(&self) -> Result<(Root, Root), Error> {
        let root = Root::open(&self.root).during("opening", &self.root)?;
        let stage = Root::open(&self.stage).during("opening", &self.stage)?;
        Ok((root, stage))
    }

    /// Writes every new file into the staging folder.
    pub(crate) fn stage(&mut self, objects: &Objects) -> Result<(), Error> {
        if self.is_empty() {
            return Ok(());
        }
        std::fs::create_dir(&self.stage).during("making", &self.stage)?;
        let (root, stage) = self.roots()?;
        self.closed = self.find_closed(&root)?;
        let root_stat = rustix::fs::fstat(root.handle()).during("reading", &self.root)?;
        let mut folders = HashMap::new();
        for step in &self.all {
            let folder = self.target_folder(&root, &root_stat, step, &mut folders)?;
            let Some(after) = step
                .after
                .filter(|state| state.kind() != FileKind::Directory)
            else {
                continue;
            };
            let slot = slot_path(step.slot, "")?;
            let place = self.stage.join(slot.as_path());
            let mut content = objects
                .open_object(after.hash)
                .during("reading", &place)?
                .ok_or_else(|| Error::ContentLost(vec![step.path.clone()]))?;
            if after.kind() == FileKind::Symlink {
                let mut target = Vec::new();
                io::Read::read_to_end(&mut content, &mut target).during("reading", &place)?;
                stage.create_link(&slot, &target)
            } else {
                stage.create_file(&slot, after.mode, &mut content)
            }
            .during("writing", &place)?;
            keep_owner(&root, &stage, step, &slot, &folder)
                .during("setting the owner of", &place)?;
        }
        rustix::fs::syncfs(stage.handle()).during("writing", &self.stage)?;
        Ok(())
    }

    /// Target folder of a step. Refuses a folder on another file system before any change, because renames cannot cross
    /// file systems.
    fn target_folder(
        &self,
        root: &Root,
        root_stat: &rustix::fs::Stat,
        step: &Step,
        cache: &mut HashMap<Option<TreePath>, TargetFolder>,
    ) -> Result<TargetFolder, Error> {
        let path = step.path.parent();
        if let Some(folder) = cache.get(&path) {
            return Ok(*folder);
        }
        let place = self.root.join(step.path.as_path());
        let folder = match root.parent(&step.path) {
            Ok(parent) => {
                let found = rustix::fs::fstat(&parent).during("reading", &place)?;
                if found.st_dev != root_stat.st_dev {
                    return Err(Error::CannotApply {
                        alias: self.root.display().to_string(),
                        problems: vec![(
                            step.path.clone(),
                            "it is on another file system".to_owned(),
                        )],
                    });
                }
                TargetFolder::Existing(stat_of(&found).owner)
            }
            // The folder will be created, perhaps in place of a file or link.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {
                TargetFolder::Missing(owner_above(root, path.as_ref()).during("reading", &place)?)
            }
            Err(error) => return Err(error).during("opening", &place),
        };
        cache.insert(path, folder);
        Ok(folder)
    }

    /// Parent folders of changed paths that lack write permission.
    fn find_closed(&self, root: &Root) -> Result<Vec<(TreePath, FileMode)>, Error> {
        let folders: BTreeSet<TreePath> = self
            .all
            .iter()
            .filter_map(|step| step.path.parent())
            .collect();
        let mut closed = Vec::new();
        for folder in folders {
            let mode = root
                .stat(&folder)
                .during("reading", &self.root.join(folder.as_path()))?
                .and_then(|stat| stat.mode);
            if let Some(mode) = mode
                && mode.kind() == FileKind::Directory
                && mode.permissions() & OWNER_WRITE_EXECUTE != OWNER_WRITE_EXECUTE
            {
                closed.push((folder, mode));
            }
        }
        Ok(closed)
    }

    /// Sets the permissions of the closed folders to their recorded permissions plus `added`. Skips paths that are not
    /// folders any more.
    fn set_closed(&self, root: &Root, added: u32) -> Result<(), Error> {
        for (folder, mode) in self.closed.iter().rev() {
            let place = self.root.join(folder.as_path());
            let found = root.stat(folder).during("reading", &place)?;
            let is_folder = found
                .and_then(|stat| stat.mode)
                .is_some_and(|mode| mode.kind() == FileKind::Directory);
            if is_folder {
                let mode = FileMode::new(FileKind::Directory, mode.permissions() | added);
                root.set_mode(folder, mode)
                    .during("setting the permissions of", &place)?;
            }
        }
        Ok(())
    }

    /// Sets the final permissions of folders.
    fn set_folder_modes(
        &self,
        root: &Root,
        target_state: impl Fn(&Step) -> Option<FileState>,
    ) -> Result<(), Error> {
        for step in self.all.iter().rev() {
            let Some(state) =
                target_state(step).filter(|state| state.kind() == FileKind::Directory)
            else {
                continue;
            };
            let place = self.root.join(step.path.as_path());
            let found = root.stat(&step.path).during("reading", &place)?;
            let is_folder = found
                .and_then(|stat| stat.mode)
                .is_some_and(|mode| mode.kind() == FileKind::Directory);
            if is_folder {
                root.set_mode(&step.path, state.mode)
                    .during("setting the permissions of", &place)?;
            }
        }
        Ok(())
    }

    /// Executes all steps that were not executed yet.
    pub(crate) fn forward(&self) -> Result<(), Error> {
        if self.is_empty() {
            return Ok(());
        }
        let (root, stage) = self.roots()?;
        self.set_closed(&root, OWNER_WRITE_EXECUTE)?;
        for step in &self.all {
            execute_step(&root, &stage, step)
                .map_err(|error| error.at(&self.root.join(step.path.as_path())))?;
            kill_points::boundary();
        }
        self.set_closed(&root, 0)?;
        self.set_folder_modes(&root, |step| step.after)?;
        rustix::fs::syncfs(root.handle()).during("writing", &self.root)?;
        Ok(())
    }

    /// Rolls back all executed steps. Returns the paths that another process has changed since, which it leaves
    /// unchanged.
    pub(crate) fn backward(&self) -> Result<Vec<TreePath>, Error> {
        let mut unrestored = Vec::new();
        if self.is_empty() || !self.stage.exists() {
            return Ok(unrestored);
        }
        let (root, stage) = self.roots()?;
        self.set_closed(&root, OWNER_WRITE_EXECUTE)?;
        for step in self.all.iter().rev() {
            let is_restored = roll_back_step(&root, &stage, step)
                .map_err(|error| error.at(&self.root.join(step.path.as_path())))?;
            if !is_restored {
                unrestored.push(step.path.clone());
            }
            kill_points::boundary();
        }
        self.set_folder_modes(&root, |step| step.before)?;
        self.set_closed(&root, 0)?;
        rustix::fs::syncfs(root.handle()).during("writing", &self.root)?;
        Ok(unrestored)
    }

    /// Removes the staging folder.
    pub(crate) fn clean(&self) -> Result<(), Error> {
        crate::remove_folder(&self.stage).during("removing", &self.stage)
    }

    /// Adds the missing parent folders of new files.
    pub(crate) fn add_missing_parents(
        root: &Root,
        changes: &mut Vec<(TreePath, Option<FileState>, Option<FileState>)>,
    ) -> io::Result<()> {
        let will_exist: HashMap<&TreePath, bool> = changes
            .iter()
            .map(|(path, _, after)| (path, after.is_some()))
            .collect();
        let mut missing = BTreeSet::new();
        let mut visited = HashSet::new();
        for (path, _, after) in changes.iter() {
            let mut ancestor = path.parent().filter(|_| after.is_some());
            // If a folder was visited, its parents were visited too.
            while let Some(parent) = ancestor
                && !visited.contains(&parent)
            {
                let exists = match will_exist.get(&parent) {
                    Some(exists) => *exists,
                    None => root.stat(&parent)?.is_some(),
                };
                if !exists {
                    missing.insert(parent.clone());
                }
                ancestor = parent.parent();
                visited.insert(parent);
            }
        }
        // A removal at this path makes room for the folder.
        for (path, before, after) in changes.iter_mut() {
            if missing.remove(path) {
                let folder_before = before.filter(|before| before.kind() == FileKind::Directory);
                *after = folder_before.or_else(|| Some(FileState::directory(0o755)));
            }
        }
        changes.extend(
            missing
                .into_iter()
                .map(|path| (path, None, Some(FileState::directory(0o755)))),
        );
        Ok(())
    }
}

/// Folder that will contain a path, with its owner (user, group). For a missing folder, the owner of its nearest
/// existing ancestor.
#[derive(Debug, Clone, Copy)]
enum TargetFolder {
    Existing((u32, u32)),
    Missing((u32, u32)),
}

/// Owner of a path, or of its nearest existing ancestor.
fn owner_above(root: &Root, path: Option<&TreePath>) -> io::Result<(u32, u32)> {
    let mut ancestor = path.cloned();
    while let Some(path) = ancestor {
        if let Some(stat) = root.stat(&path)? {
            return Ok(stat.owner);
        }
        ancestor = path.parent();
    }
    Ok(stat_of(&rustix::fs::fstat(root.handle())?).owner)
}

/// Sets the owner if the superuser applies: a replaced file keeps its owner, and a new file gets the owner of its
/// folder.
fn keep_owner(
    root: &Root,
    stage: &Root,
    step: &Step,
    slot: &TreePath,
    folder: &TargetFolder,
) -> io::Result<()> {
    use rustix::fs::{AtFlags, Gid, Uid};
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let owner = match *folder {
        TargetFolder::Missing(owner) => owner,
        TargetFolder::Existing(owner) => match root.stat(&step.path)? {
            Some(stat) => stat.owner,
            None => owner,
        },
    };
    if owner != (0, 0) {
        let (user, group) = (Some(Uid::from_raw(owner.0)), Some(Gid::from_raw(owner.1)));
        rustix::fs::chownat(
            stage.handle(),
            slot.as_path(),
            user,
            group,
            AtFlags::SYMLINK_NOFOLLOW,
        )?;
        if let Some(after) = step.after {
            // `chown` may clear permission bits.
            stage.set_mode(slot, after.mode)?;
        }
    }
    Ok(())
}

/// Failure of a step.
enum StepError {
    System(io::Error),
    /// The state of the path has changed since planning.
    Changed,
}

impl From<io::Error> for StepError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl From<Errno> for StepError {
    fn from(error: Errno) -> Self {
        Self::System(error.into())
    }
}

impl StepError {
    fn at(self, place: &Path) -> Error {
        match self {
            Self::System(source) => Error::Files {
                action: "changing",
                path: place.to_owned(),
                source,
            },
            Self::Changed => Error::Raced(format!(
                "`{}` was changed by another process meanwhile",
                place.display()
            )),
        }
    }
}

fn slot_path(slot: u64, suffix: &str) -> Result<TreePath, Error> {
    TreePath::from_bytes(format!("{slot}{suffix}"))
        .map_err(|error| Error::Damaged(error.to_string()))
}

fn slots(step: &Step) -> Result<(TreePath, TreePath), StepError> {
    let to_step_error = |error: Error| StepError::System(io::Error::other(error.to_string()));
    Ok((
        slot_path(step.slot, "").map_err(to_step_error)?,
        slot_path(step.slot, ".old").map_err(to_step_error)?,
    ))
}

/// Whether a step creates a file or link where nothing existed.
fn is_new_file(step: &Step) -> bool {
    step.before.is_none() && step.after.is_some() && !is_folder(step.after)
}

fn state(root: &Root, path: &TreePath) -> io::Result<Option<FileState>> {
    Ok(read_state(root, path, None)?.map(|(state, _)| state))
}

fn execute_step(root: &Root, stage: &Root, step: &Step) -> Result<(), StepError> {
    let (slot, old) = slots(step)?;
    if is_new_file(step) {
        match stage.rename_to(&slot, root, &step.path, RenameFlags::NOREPLACE) {
            // The path exists, perhaps because this step already created it.
            Err(Errno::EXIST | Errno::NOENT) => {}
            other => return Ok(other?),
        }
    }
    let current = state(root, &step.path)?;
    if current == step.after || (step.after.is_none() && step.is_far(current)) {
        return Ok(());
    }
    match (step.before, step.after) {
        (Some(before), None) if before.kind() == FileKind::Directory => {
            match root.remove_folder(&step.path) {
                // The folder contains other files of the user, so it is kept.
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
                other => Ok(other?),
            }
        }
        (_, Some(after)) if after.kind() == FileKind::Directory => {
            if current.is_some_and(|current| current.kind() != FileKind::Directory) {
                return Err(StepError::Changed);
            }
            Ok(root.make_folder(&step.path)?)
        }
        (Some(before), None) => {
            if current != Some(before) {
                return Err(StepError::Changed);
            }
            root.rename_to(&step.path, stage, &old, RenameFlags::NOREPLACE)?;
            if state(stage, &old)? == Some(before) {
                return Ok(());
            }
            stage.rename_to(&old, root, &step.path, RenameFlags::NOREPLACE)?;
            Err(StepError::Changed)
        }
        (None, Some(_)) => match stage.rename_to(&slot, root, &step.path, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => Err(StepError::Changed),
            other => Ok(other?),
        },
        (Some(before), Some(_)) => {
            if current != Some(before) {
                return Err(StepError::Changed);
            }
            replace(root, stage, step, before, &slot, &old)
        }
        (None, None) => Ok(()),
    }
}

/// Exchanges the new file with the old file, whose state must be `before`.
fn replace(
    root: &Root,
    stage: &Root,
    step: &Step,
    before: FileState,
    slot: &TreePath,
    old: &TreePath,
) -> Result<(), StepError> {
    match stage.rename_to(slot, root, &step.path, RenameFlags::EXCHANGE) {
        Ok(()) => {
            if state(stage, slot)? == Some(before) {
                return Ok(());
            }
            stage.rename_to(slot, root, &step.path, RenameFlags::EXCHANGE)?;
            Err(StepError::Changed)
        }
        // This file system cannot exchange files: move the old file away, then move the new file in.
        Err(Errno::INVAL | Errno::NOSYS) => {
            root.rename_to(&step.path, stage, old, RenameFlags::empty())?;
            if state(stage, old)? != Some(before) {
                stage.rename_to(old, root, &step.path, RenameFlags::empty())?;
                return Err(StepError::Changed);
            }
            Ok(stage.rename_to(slot, root, &step.path, RenameFlags::empty())?)
        }
        Err(error) => Err(error.into()),
    }
}

/// Rolls back one step. Returns `false` and leaves the path unchanged if it has changed since.
fn roll_back_step(root: &Root, stage: &Root, step: &Step) -> Result<bool, StepError> {
    let (slot, old) = slots(step)?;
    let current = state(root, &step.path)?;
    if current == step.before || (step.before.is_none() && step.is_far(current)) {
        return Ok(true);
    }
    match (step.before, step.after) {
        (Some(before), _) if before.kind() == FileKind::Directory => {
            if current.is_some_and(|current| current.kind() != FileKind::Directory) {
                return Ok(false);
            }
            // `backward` sets the permissions last, because they may prevent restoring the folder's content.
            root.make_folder(&step.path)?;
            Ok(true)
        }
        (None, Some(after)) if after.kind() == FileKind::Directory => {
            match root.remove_folder(&step.path) {
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(true),
                other => {
                    other?;
                    Ok(true)
                }
            }
        }
        (None, after) => {
            if state(stage, &slot)?.is_some() {
                // The new file was never put in place, so another process created the current file.
                return Ok(true);
            }
            if current != after {
                return Ok(false);
            }
            root.rename_to(&step.path, stage, &slot, RenameFlags::NOREPLACE)?;
            Ok(true)
        }
        (Some(before), after) => {
            let old_file = if state(stage, &old)? == Some(before) {
                old
            } else if state(stage, &slot)? == Some(before) {
                slot
            } else {
                // The old file was never moved away, so another process created the current file.
                return Ok(true);
            };
            if current.is_none() {
                stage.rename_to(&old_file, root, &step.path, RenameFlags::NOREPLACE)?;
                return Ok(true);
            }
            if current != after {
                return Ok(false);
            }
            match stage.rename_to(&old_file, root, &step.path, RenameFlags::EXCHANGE) {
                Err(Errno::INVAL | Errno::NOSYS) => {
                    stage.rename_to(&old_file, root, &step.path, RenameFlags::empty())?;
                }
                other => other?,
            }
            Ok(true)
        }
    }
}
