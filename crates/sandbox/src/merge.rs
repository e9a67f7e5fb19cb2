//! [`Merger`]: merges the changes of forks into the member that they were copied from.
//!
//! The merge is computed completely before a file is written. The state of a path at the time of the fork is the base,
//! the current state of the member is one side, the state in the fork is the other.

use std::collections::{BTreeMap, BTreeSet};

use cleveragents_domain::{FileKind, FileMode, FileState, MergeReason, MergeStrategy, TreePath};

use crate::apply::{Decision, Side, decide};
use crate::capture::Change;
use crate::error::{Error, PathContext as _};
use crate::git::Git;
use crate::member::Member;
use crate::objects::Objects;
use crate::scoped_dir::Root;
use crate::state::read_own_state;

/// Maximum size of a file that is merged line by line, in bytes.
const MAX_TEXT_BYTES: u64 = 16 << 20;

/// Number of leading bytes in which a zero byte marks binary content, as in git.
const BINARY_SCAN_BYTES: usize = 8_000;

/// A path that cannot be merged without a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeConflict {
    /// Path within the member.
    pub path: TreePath,
    pub reason: MergeReason,
    /// State when the fork was made.
    pub base: Option<FileState>,
    /// State in the member, with the changes of earlier forks.
    pub ours: Option<FileState>,
    /// State in the fork.
    pub theirs: Option<FileState>,
}

/// Result of merging one fork.
#[derive(Debug, Default)]
pub struct ForkMerge {
    /// Changes of the member that the fork causes, after those of the forks before it.
    pub changes: Vec<Change>,
    pub conflicts: Vec<MergeConflict>,
}

/// New states of paths; `None` removes a path.
pub type MergeTargets = BTreeMap<TreePath, Option<FileState>>;

/// Decisions about conflicts: the state that a path gets.
pub type Resolutions = BTreeMap<TreePath, Option<FileState>>;

/// Merges forks of one member, one after the other.
pub struct Merger<'m> {
    member: &'m Member,
    root: Root,
    objects: Objects,
    strategy: MergeStrategy,
    targets: MergeTargets,
}

impl<'m> Merger<'m> {
    /// Starts a merge into a member in its current state, without changes.
    pub fn new(member: &'m Member, strategy: MergeStrategy) -> Result<Self, Error> {
        Ok(Self {
            root: member.work_root()?,
            objects: member.open_objects()?,
            member,
            strategy,
            targets: MergeTargets::new(),
        })
    }

    /// Merges the net changes of a fork. Returns its effects and the conflicts, whose paths keep their current state.
    /// `resolutions` contains the states of paths that were in conflict.
    pub fn add(
        &mut self,
        fork: &Member,
        changes: &[Change],
        resolutions: &Resolutions,
    ) -> Result<ForkMerge, Error> {
        self.import(fork, changes)?;
        let before = self.targets.clone();
        let mut conflicts = Vec::new();
        let mut merged = Vec::new();
        for change in changes {
            let ours = self.state(&change.path)?;
            if let Some(resolved) = resolutions.get(&change.path) {
                merged.push((change, ours, *resolved));
                continue;
            }
            match self.merge_path(change, ours)? {
                Ok(Some(state)) => merged.push((change, ours, state)),
                Ok(None) => {}
                Err(reason) => conflicts.push(conflict(change, ours, reason)),
            }
        }
        for (change, _, state) in &merged {
            self.targets.insert(change.path.clone(), *state);
        }
        for (change, ours, state) in merged {
            let merged_path = MergedPath {
                fork,
                path: &change.path,
                ours,
                resolutions,
            };
            if let Some(reason) = self.fit(&merged_path, state)? {
                self.targets.insert(change.path.clone(), ours);
                conflicts.push(conflict(change, ours, reason));
            }
        }
        conflicts.sort_by(|left, right| left.path.cmp(&right.path));
        Ok(ForkMerge {
            changes: self.changes_since(&before)?,
            conflicts,
        })
    }

    /// The effects on the member since the targets were as given.
    fn changes_since(&mut self, earlier: &MergeTargets) -> Result<Vec<Change>, Error> {
        let paths: BTreeSet<TreePath> =
            earlier.keys().chain(self.targets.keys()).cloned().collect();
        let mut changes = Vec::new();
        for path in paths {
            let before = match earlier.get(&path) {
                Some(state) => *state,
                None => self.before(&path)?,
            };
            let after = self.state(&path)?;
            if before != after {
                changes.push(Change {
                    path,
                    before,
                    after,
                });
            }
        }
        Ok(changes)
    }

    /// Ends the merge. Returns the states to restore in the member; their content is stored.
    pub fn finish(mut self) -> Result<MergeTargets, Error> {
        let place = self.root.path().to_owned();
        self.objects.sync().during("writing", &place)?;
        let mut targets = std::mem::take(&mut self.targets);
        let mut unchanged = Vec::new();
        for (path, state) in &targets {
            if self.before(path)? == *state {
                unchanged.push(path.clone());
            }
        }
        for path in unchanged {
            targets.remove(&path);
        }
        Ok(targets)
    }

    /// Copies the content of both sides of the changes into the member's content store.
    fn import(&mut self, fork: &Member, changes: &[Change]) -> Result<(), Error> {
        let content = fork.open_objects()?;
        for change in changes {
            let states = [change.before, change.after].into_iter().flatten();
            for state in states.filter(|state| state.kind() != FileKind::Directory) {
                let is_kept = self
                    .objects
                    .import(&content, state.hash)
                    .during("reading", &fork.root)?;
                if !is_kept {
                    return Err(Error::ContentLost(vec![change.path.clone()]));
                }
            }
        }
        Ok(())
    }

    /// State of a path in the member before the merge.
    fn before(&mut self, path: &TreePath) -> Result<Option<FileState>, Error> {
        let place = self.root.path().join(path.as_path());
        let found = read_own_state(&self.root, path, Some(&mut self.objects));
        Ok(found.during("reading", &place)?.map(|(state, _)| state))
    }

    /// State of a path with the changes merged so far.
    fn state(&mut self, path: &TreePath) -> Result<Option<FileState>, Error> {
        match self.targets.get(path) {
            Some(state) => Ok(*state),
            None => self.before(path),
        }
    }

    /// Merges one path. Returns the new state, `None` if nothing changes, or the reason of a conflict.
    #[expect(
        clippy::option_option,
        reason = "the inner option is the state: `None` removes the path"
    )]
    fn merge_path(
        &self,
        change: &Change,
        ours: Option<FileState>,
    ) -> Result<Result<Option<Option<FileState>>, MergeReason>, Error> {
        match decide(change, ours) {
            Decision::Nothing => return Ok(Ok(None)),
            Decision::Make(state) => return Ok(Ok(Some(state))),
            Decision::Conflict(_) => {}
        }
        let reason = match (change.before, change.after, ours) {
            (None, _, Some(_)) => MergeReason::Created,
            (_, _, None) => MergeReason::RemovedOurs,
            (_, None, _) => MergeReason::RemovedTheirs,
            _ => MergeReason::Changed,
        };
        if self.strategy == MergeStrategy::LastWins {
            return Ok(Ok(Some(change.after)));
        }
        if self.strategy != MergeStrategy::FailOnConflict
            && let (Some(ours), Some(theirs)) = (ours, change.after)
            && let Some(state) = self.merge_lines(change.before, ours, theirs)?
        {
            return Ok(Ok(Some(Some(state))));
        }
        Ok(Err(reason))
    }

    /// Merges two versions of a text file line by line. `None` if they change the same lines, or are not text files.
    fn merge_lines(
        &self,
        base: Option<FileState>,
        ours: FileState,
        theirs: FileState,
    ) -> Result<Option<FileState>, Error> {
        let states = [base, Some(ours), Some(theirs)].into_iter().flatten();
        if !states.clone().all(|state| state.kind() == FileKind::File) {
            return Ok(None);
        }
        let mode = match base {
            _ if ours.mode == theirs.mode => ours.mode,
            Some(base) if base.mode == theirs.mode => ours.mode,
            Some(base) if base.mode == ours.mode => theirs.mode,
            // Both sides set different permissions.
            _ => return Ok(None),
        };
        if ours.same_content(&theirs) || base.is_some_and(|base| base.same_content(&theirs)) {
            return Ok(Some(FileState { mode, ..ours }));
        }
        if base.is_some_and(|base| base.same_content(&ours)) {
            return Ok(Some(FileState { mode, ..theirs }));
        }
        if states.clone().any(|state| state.size > MAX_TEXT_BYTES) {
            return Ok(None);
        }
        let read = |state: Option<FileState>| -> Result<Option<Vec<u8>>, Error> {
            let Some(state) = state else {
                return Ok(Some(Vec::new()));
            };
            let content = self.member.content(&self.objects, &state)?;
            Ok(content.filter(|bytes| {
                let start = &bytes[..bytes.len().min(BINARY_SCAN_BYTES)];
                !start.contains(&0)
            }))
        };
        let (Some(base_text), Some(our_text), Some(their_text)) =
            (read(base)?, read(Some(ours))?, read(Some(theirs))?)
        else {
            return Ok(None);
        };
        let Some(merged) = self.run_merge(&our_text, &base_text, &their_text)? else {
            return Ok(None);
        };
        let place = self.root.path().to_owned();
        let mut objects = self.member.open_objects()?;
        let hash = objects.put(&merged).during("writing", &place)?;
        objects.sync().during("writing", &place)?;
        Ok(Some(FileState {
            hash,
            size: merged.len() as u64,
            mode,
        }))
    }

    /// Runs `git merge-file`. `None` if both sides change the same lines.
    fn run_merge(&self, ours: &[u8], base: &[u8], theirs: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let temporary = &self.member.temporary;
        let folder = tempfile::tempdir_in(temporary).during("making a folder in", temporary)?;
        for (name, content) in [("ours", ours), ("base", base), ("theirs", theirs)] {
            let place = folder.path().join(name);
            std::fs::write(&place, content).during("writing", &place)?;
        }
        let git = Git::at(folder.path()).with("GIT_DIR", "/dev/null");
        let arguments = ["merge-file", "-p", "-q", "ours", "base", "theirs"];
        let answer = git.try_run(&arguments)?;
        match answer.code {
            Some(0) => Ok(Some(answer.stdout)),
            // The number of conflicts.
            Some(1..=127) => Ok(None),
            _ => Err(answer.failure(&arguments)),
        }
    }

    /// Makes the folders fit a merged path: a new path needs its folders, and a folder with other content stays. Returns
    /// the reason if the path cannot exist.
    fn fit(
        &mut self,
        merged: &MergedPath<'_>,
        state: Option<FileState>,
    ) -> Result<Option<MergeReason>, Error> {
        let is_folder = |state: FileState| state.kind() == FileKind::Directory;
        if !state.is_some_and(is_folder) && self.has_content(merged.path)? {
            if state.is_some() {
                if !self.is_forced(merged) {
                    return Ok(Some(MergeReason::FolderNotEmpty));
                }
                self.remove_content(merged.path)?;
            } else {
                match merged.ours.filter(|ours| is_folder(*ours)) {
                    Some(ours) => self.targets.insert(merged.path.clone(), Some(ours)),
                    None => self.targets.remove(merged.path),
                };
                return self.fit_parents(merged, false);
            }
        }
        match state {
            None => Ok(None),
            Some(_) => self.fit_parents(merged, self.is_forced(merged)),
        }
    }

    fn fit_parents(
        &mut self,
        merged: &MergedPath<'_>,
        is_forced: bool,
    ) -> Result<Option<MergeReason>, Error> {
        let is_folder = |state: &FileState| state.kind() == FileKind::Directory;
        let mut parent = merged.path.parent();
        while let Some(folder) = parent {
            match self.state(&folder)? {
                Some(state) if is_folder(&state) => return Ok(None),
                Some(_) if !is_forced || merged.resolutions.contains_key(&folder) => {
                    return Ok(Some(MergeReason::ParentNotFolder));
                }
                Some(_) | None => {
                    let state = match self.before(&folder)?.filter(is_folder) {
                        Some(state) => state,
                        None => FileState::directory(folder_permissions(merged.fork, &folder)?),
                    };
                    self.targets.insert(folder.clone(), Some(state));
                    parent = folder.parent();
                }
            }
        }
        Ok(None)
    }

    /// Whether a path gets its state even if other paths must be removed for it.
    fn is_forced(&self, merged: &MergedPath<'_>) -> bool {
        self.strategy == MergeStrategy::LastWins || merged.resolutions.contains_key(merged.path)
    }

    /// Whether a path contains anything after the merge.
    fn has_content(&mut self, folder: &TreePath) -> Result<bool, Error> {
        let mut inside = self
            .targets
            .range(folder.clone()..)
            .filter(|(path, _)| *path != folder)
            .take_while(|(path, _)| is_inside(path, folder));
        if inside.any(|(_, state)| state.is_some()) {
            return Ok(true);
        }
        let mut folders = vec![folder.clone()];
        while let Some(next) = folders.pop() {
            for path in self.entries_before(&next)? {
                match self.targets.get(&path) {
                    Some(None) => folders.push(path),
                    _ => return Ok(true),
                }
            }
        }
        Ok(false)
    }

    /// Removes everything inside a path.
    fn remove_content(&mut self, folder: &TreePath) -> Result<(), Error> {
        let mut inside = self.targets.range_mut(folder.clone()..);
        while let Some((path, state)) = inside.next()
            && (path == folder || is_inside(path, folder))
        {
            if path != folder {
                *state = None;
            }
        }
        let mut folders = vec![folder.clone()];
        while let Some(next) = folders.pop() {
            for path in self.entries_before(&next)? {
                self.targets.insert(path.clone(), None);
                folders.push(path);
            }
        }
        Ok(())
    }

    /// The paths directly inside a folder of the member before the merge. Empty if the path is not a folder.
    fn entries_before(&mut self, folder: &TreePath) -> Result<Vec<TreePath>, Error> {
        let state = self.before(folder)?;
        if state.is_none_or(|state| state.kind() != FileKind::Directory) {
            return Ok(Vec::new());
        }
        let place = self.root.path().join(folder.as_path());
        let entries = self.root.entries(Some(folder)).during("reading", &place)?;
        entries
            .into_iter()
            .map(|(name, _)| {
                TreePath::from_bytes([folder.as_bytes(), b"/", name.as_slice()].concat())
                    .map_err(|error| Error::Damaged(error.to_string()))
            })
            .collect()
    }
}

/// A path of a fork whose new state is known.
struct MergedPath<'a> {
    fork: &'a Member,
    path: &'a TreePath,
    /// State with the changes of earlier forks.
    ours: Option<FileState>,
    resolutions: &'a Resolutions,
}

fn is_inside(path: &TreePath, folder: &TreePath) -> bool {
    path.as_bytes()
        .strip_prefix(folder.as_bytes())
        .is_some_and(|rest| rest.starts_with(b"/"))
}

/// Permissions of a folder of a fork, or the usual ones if the fork has no such folder.
fn folder_permissions(fork: &Member, folder: &TreePath) -> Result<u32, Error> {
    let place = fork.root.join(folder.as_path());
    let stat = fork.work_root()?.stat(folder).during("reading", &place)?;
    Ok(stat
        .and_then(|stat| stat.mode)
        .filter(|mode| mode.kind() == FileKind::Directory)
        .map_or(0o755, FileMode::permissions))
}

impl Member {
    /// A state of the member's history with the beginning of its content, to show it.
    pub fn side(&self, state: &FileState) -> Result<Side, Error> {
        let content = match state.kind() {
            FileKind::Directory => Some(Vec::new()),
            _ if state.size > MAX_TEXT_BYTES => None,
            _ => self.content(&self.open_objects()?, state)?,
        };
        Ok(Side::from_state(state, content.as_deref()))
    }

    /// Stores content that the user or a model wrote to resolve a conflict. Returns its hash and size.
    pub fn keep_content(
        &self,
        content: &[u8],
    ) -> Result<(cleveragents_domain::ContentHash, u64), Error> {
        let mut objects = self.open_objects()?;
        let hash = objects.put(content).during("writing", &self.root)?;
        objects.sync().during("writing", &self.root)?;
        Ok((hash, content.len() as u64))
    }
}

fn conflict(change: &Change, ours: Option<FileState>, reason: MergeReason) -> MergeConflict {
    MergeConflict {
        path: change.path.clone(),
        reason,
        base: change.before,
        ours,
        theirs: change.after,
    }
}
