//! Captures the changes of a copy, and restores earlier states.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use cleveragents_domain::{FileState, TreePath};

use super::original::BaseReader;
use super::{Base, Member};
use crate::capture::{CaptureResult, Change, capture, capture_paths};
use crate::database;
use crate::error::{Error, PathContext as _};
use crate::git::is_read_by_git;
use crate::manifest::{Manifest, PathRecord};
use crate::objects::Objects;
use crate::restore::{compute_changes, restore};
use crate::scan_cancel::ScanCancel;
use crate::scoped_dir::Root;

impl Member {
    /// Merges the write-ahead log or rollback journal next to the database into the database file.
    fn fold_database(&self, root: &Root) -> Result<(), Error> {
        let name = self.file_path()?;
        let Some(mut folded) = database::fold(root, &name, &self.temporary)? else {
            return Ok(());
        };
        let place = self.root.join(name.as_path());
        let found = root.stat(&name).during("reading", &place)?;
        let Some((mode, stat)) = found.and_then(|stat| Some((stat.mode?, stat))) else {
            return Ok(());
        };
        // The file is written before the log is removed: after a crash in between, replaying the log on the complete
        // file changes nothing.
        root.write_file(&name, mode, &mut folded.file)
            .and_then(|()| crate::copy::keep_owner(&root.parent(&name)?, name.name(), &stat))
            .during("writing", &place)?;
        self.remove_companions(root)
    }

    /// Removes the files that SQLite keeps next to the database, even if they are folders or links.
    fn remove_companions(&self, root: &Root) -> Result<(), Error> {
        let name = self.file_path()?;
        for suffix in database::BESIDE {
            let path = database::with_suffix(&name, suffix)?;
            let place = self.root.join(path.as_path());
            root.remove_all(Some(&path)).during("removing", &place)?;
        }
        Ok(())
    }

    /// Number of history entries that the manifest includes.
    pub fn known_position(&self) -> Result<u64, Error> {
        let place = self.manifest_path();
        Manifest::position_at(&place)
            .map_err(|error| Error::Damaged(format!("`{}`: {error}", place.display())))
    }

    /// Finds all changes since the manifest was saved. `recent` contains the history entries that the manifest does not
    /// include yet. `stop` may cancel the scan; then nothing is recorded.
    pub fn capture(&self, recent: &[Change], stop: &ScanCancel) -> Result<Capture, Error> {
        let found = self.capture_changes(recent, stop);
        // A cancellation makes the current file operation fail; report it as an interruption.
        found.map_err(|error| match error {
            Error::Files { .. } if stop.is_due() => Error::Interrupted,
            other => other,
        })
    }

    fn capture_changes(&self, recent: &[Change], stop: &ScanCancel) -> Result<Capture, Error> {
        let root = self.work_root()?;
        if let Base::Sqlite { .. } = self.base {
            self.fold_database(&root)?;
        }
        let mut manifest = self.load_manifest()?;
        for change in recent {
            let record = change
                .after
                .map(|state| PathRecord::recorded(state.mode, state.size, state.hash));
            manifest.learn(change.path.clone(), record);
        }
        let mut objects = self.open_objects()?.stopping(stop);
        let first = BaseReader(self);
        let captured = capture(&root, self.extent(), manifest, &first, &mut objects, stop)?;
        if let Base::Git(_) = self.base {
            // Git opens files of these names without checking their kind, and a pipe would block it forever.
            for path in captured
                .special
                .iter()
                .filter(|path| is_read_by_git(path.name()))
            {
                let place = self.root.join(path.as_path());
                root.remove_special_file(path).during("removing", &place)?;
            }
        }
        Ok(Capture {
            changes: captured.changes.clone(),
            special: captured.special.clone(),
            captured,
        })
    }

    /// Finds the changes of single paths, at a cost that does not depend on the size of the tree. Includes the parent
    /// folders of the paths, because undoing or restoring a path needs them.
    pub fn capture_paths(
        &self,
        paths: &[TreePath],
        recent: &[Change],
    ) -> Result<Vec<Change>, Error> {
        let root = self.work_root()?;
        let place = self.manifest_path();
        let paths: Vec<TreePath> = with_folders(paths).into_iter().collect();
        let saved = Manifest::look_up(&place, &paths).during("reading", &place)?;
        let known = paths.into_iter().zip(saved).map(|(path, saved)| {
            let last = recent.iter().rev().find(|change| change.path == path);
            let record = match last {
                Some(change) => change
                    .after
                    .map(|state| PathRecord::recorded(state.mode, state.size, state.hash)),
                None => saved,
            };
            (path, record)
        });
        let known: HashMap<_, _> = known.collect();
        let mut objects = self.open_objects()?;
        capture_paths(&root, known, &BaseReader(self), &mut objects)
    }

    /// Records the result of a capture in the manifest. Call it after the history includes the result, up to
    /// `position`.
    pub fn remember(&self, capture: Capture, position: u64) -> Result<(), Error> {
        let mut manifest = capture.captured.manifest;
        if !capture.captured.is_news && manifest.position == position {
            return Ok(());
        }
        manifest.position = position;
        manifest
            .save(&self.manifest_path())
            .during("writing", &self.manifest_path())
    }

    /// Checks whether paths can be restored to earlier states, without changing them.
    pub fn check_restore(
        &self,
        targets: &BTreeMap<TreePath, Option<FileState>>,
    ) -> Result<(), Error> {
        compute_changes(&self.work_root()?, targets, &self.open_objects()?)?;
        Ok(())
    }

    /// Restores paths to earlier states and returns the changes.
    pub fn restore(
        &self,
        targets: &BTreeMap<TreePath, Option<FileState>>,
    ) -> Result<Vec<Change>, Error> {
        if let Base::Sqlite { .. } = self.base {
            // SQLite must not apply a log of the current content to the restored content.
            self.remove_companions(&self.work_root()?)?;
        }
        restore(&self.work_root()?, targets, &self.open_objects()?)
    }

    /// Records restored paths in the manifest. Call it after the history includes the changes, up to `position`. Their
    /// metadata is left to a later scan, when the file clock has advanced.
    pub fn remember_restored(&self, changes: &[Change], position: u64) -> Result<(), Error> {
        let to_record = |state: FileState| PathRecord::recorded(state.mode, state.size, state.hash);
        let learned = changes
            .iter()
            .map(|change| (change.path.clone(), change.after.map(to_record)))
            .collect();
        let place = self.manifest_path();
        Manifest::learn_at(&place, learned, position).during("writing", &place)
    }

    /// The content of a state of the history, from [`Self::open_objects`]. `None` if it is lost or damaged.
    pub(crate) fn content(
        &self,
        objects: &Objects,
        state: &FileState,
    ) -> Result<Option<Vec<u8>>, Error> {
        match objects.read(state.hash) {
            Err(_) if !objects.is_sound(state.hash) => Ok(None),
            other => other.during("reading", &self.objects),
        }
    }

    /// The content of a file in the history of the member. `None` if it is lost or damaged.
    pub fn file_content(&self, state: &FileState) -> Result<Option<Vec<u8>>, Error> {
        self.content(&self.open_objects()?, state)
    }
}

/// Paths with all their parent folders.
fn with_folders(paths: &[TreePath]) -> BTreeSet<TreePath> {
    let mut all = BTreeSet::new();
    for path in paths {
        let mut ancestor = Some(path.clone());
        while let Some(path) = ancestor {
            ancestor = path.parent();
            all.insert(path);
        }
    }
    all
}

/// Result of a capture.
#[derive(Debug)]
pub struct Capture {
    /// One change per path.
    pub changes: Vec<Change>,
    /// Devices, sockets and pipes, which are not captured.
    pub special: Vec<TreePath>,
    captured: CaptureResult,
}
