//! Restores paths of a sandbox to states of its history, exactly.

use std::collections::BTreeMap;
use std::io;

use cleveragents_domain::{FileKind, FileMode, FileState, TreePath};

use crate::capture::Change;
use crate::error::{Error, PathContext as _};
use crate::kill_points;
use crate::objects::Objects;
use crate::scoped_dir::Root;
use crate::state::read_own_state;

/// Restores the paths to the requested states and returns the changes. Fails without changes if required content is
/// lost or damaged.
pub(crate) fn restore(
    root: &Root,
    targets: &BTreeMap<TreePath, Option<FileState>>,
    objects: &Objects,
) -> Result<Vec<Change>, Error> {
    let changes = compute_changes(root, targets, objects)?;
    let mut writable_folders = WritableFolders {
        root,
        root_mode: None,
        folders: Vec::new(),
    };
    for change in changes.iter().rev() {
        writable_folders.open_parent(&change.path)?;
        remove(root, change).during("removing", &root.path().join(change.path.as_path()))?;
        kill_points::boundary();
    }
    for change in &changes {
        place(root, change, objects).during("writing", &root.path().join(change.path.as_path()))?;
        kill_points::boundary();
    }
    writable_folders.restore_modes()?;
    for change in changes.iter().rev() {
        if let Some(state) = change
            .after
            .filter(|state| state.kind() == FileKind::Directory)
        {
            root.set_mode(&change.path, state.mode).during(
                "setting the permissions of",
                &root.path().join(change.path.as_path()),
            )?;
        }
    }
    Ok(changes)
}

/// Computes the changes of a restore. Fails if required content is lost or damaged.
pub(crate) fn compute_changes(
    root: &Root,
    targets: &BTreeMap<TreePath, Option<FileState>>,
    objects: &Objects,
) -> Result<Vec<Change>, Error> {
    let mut changes = Vec::new();
    for (path, target) in targets {
        let found = read_own_state(root, path, None)
            .during("reading", &root.path().join(path.as_path()))?;
        let before = found.map(|(state, _)| state);
        if before != *target {
            changes.push(Change {
                path: path.clone(),
                before,
                after: *target,
            });
        }
    }
    let lost: Vec<TreePath> = changes
        .iter()
        .filter(|change| needs_content(change).is_some_and(|state| !objects.is_sound(state.hash)))
        .map(|change| change.path.clone())
        .collect();
    if lost.is_empty() {
        Ok(changes)
    } else {
        Err(Error::ContentLost(lost))
    }
}

/// The new state if its content must be written; `None` for folders and unchanged content.
fn needs_content(change: &Change) -> Option<FileState> {
    let after = change.after?;
    let is_unchanged = change
        .before
        .is_some_and(|before| before.same_content(&after));
    (after.kind() != FileKind::Directory && !is_unchanged).then_some(after)
}

fn remove(root: &Root, change: &Change) -> io::Result<()> {
    let Some(before) = change.before else {
        return root.remove_special_file(&change.path);
    };
    if change
        .after
        .is_some_and(|after| after.kind() == before.kind())
    {
        return Ok(());
    }
    match before.kind() {
        FileKind::Directory => match root.remove_folder(&change.path) {
            // Special files are part of no state, so they are removed with their folder.
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                root.remove_special(&change.path)?;
                root.remove_folder(&change.path)
            }
            other => other,
        },
        FileKind::File | FileKind::Symlink => root.remove_file(&change.path),
    }
}

fn place(root: &Root, change: &Change, objects: &Objects) -> io::Result<()> {
    let Some(after) = change.after else {
        return Ok(());
    };
    let content = || {
        objects
            .open_object(after.hash)?
            .ok_or_else(|| io::Error::other("its content is gone"))
    };
    match after.kind() {
        FileKind::Directory => root.make_folder(&change.path),
        FileKind::File
            if needs_content(change).is_none() && root.has_other_names(&change.path)? =>
        {
            // The permissions belong to the file, so its other names would change too.
            if let Some(mut content) = objects.open_object(after.hash)? {
                root.write_file(&change.path, after.mode, &mut content)
            } else {
                let mut content = root.open_file(&change.path)?;
                root.write_file(&change.path, after.mode, &mut content)
            }
        }
        _ if needs_content(change).is_none() => root.set_mode(&change.path, after.mode),
        FileKind::File => root.write_file(&change.path, after.mode, &mut content()?),
        FileKind::Symlink => {
            let mut target = Vec::new();
            io::Read::read_to_end(&mut content()?, &mut target)?;
            root.write_link(&change.path, &target)
        }
    }
}

/// Makes folders writable while paths in them change.
struct WritableFolders<'a> {
    root: &'a Root,
    /// Original mode of the root.
    root_mode: Option<FileMode>,
    folders: Vec<(TreePath, FileMode)>,
}

impl WritableFolders<'_> {
    fn open_parent(&mut self, path: &TreePath) -> Result<(), Error> {
        let Some(parent) = path.parent() else {
            return self.open_root();
        };
        let place = self.root.path().join(parent.as_path());
        let mode = self
            .root
            .stat(&parent)
            .during("reading", &place)?
            .and_then(|stat| stat.mode);
        if let Some(mode) = mode
            && mode.kind() == FileKind::Directory
            && mode.permissions() & 0o300 != 0o300
        {
            let open = FileMode::new(FileKind::Directory, mode.permissions() | 0o700);
            self.root
                .set_mode(&parent, open)
                .during("setting the permissions of", &place)?;
            self.folders.push((parent, mode));
        }
        Ok(())
    }

    /// Makes the root writable. Its mode is not part of a state.
    fn open_root(&mut self) -> Result<(), Error> {
        let mode = self
            .root
            .own_mode()
            .during("reading", self.root.path())?
            .filter(|mode| mode.permissions() & 0o300 != 0o300);
        if let Some(mode) = mode {
            let open = FileMode::new(FileKind::Directory, mode.permissions() | 0o700);
            self.root
                .set_own_mode(open)
                .during("setting the permissions of", self.root.path())?;
            self.root_mode = Some(mode);
        }
        Ok(())
    }

    fn restore_modes(self) -> Result<(), Error> {
        for (path, mode) in self.folders.iter().rev() {
            let place = self.root.path().join(path.as_path());
            let is_folder = self
                .root
                .stat(path)
                .during("reading", &place)?
                .and_then(|stat| stat.mode)
                .is_some_and(|mode| mode.kind() == FileKind::Directory);
            // A file or link that replaced the folder has its own permissions.
            if is_folder {
                self.root
                    .set_mode(path, *mode)
                    .during("setting the permissions of", &place)?;
            }
        }
        match self.root_mode {
            Some(mode) => self
                .root
                .set_own_mode(mode)
                .during("setting the permissions of", self.root.path()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    #[test]
    fn permissions_change_only_at_the_restored_name() {
        let place = tempfile::tempdir().expect("a folder");
        let object_folder = tempfile::tempdir().expect("a folder");
        let root = Root::open(place.path()).expect("a root");
        let objects = Objects::open(object_folder.path()).expect("objects");
        let path = |name: &str| TreePath::from_bytes(name).expect("a path");
        std::fs::write(place.path().join("first"), "text").expect("a file");
        root.set_mode(&path("first"), FileMode::new(FileKind::File, 0o640))
            .expect("a mode");
        std::fs::hard_link(place.path().join("first"), place.path().join("second"))
            .expect("a second name");
        let state = |name: &str| {
            let found = read_own_state(&root, &path(name), None).expect("readable");
            found.expect("a file").0
        };
        let closed = FileState {
            mode: FileMode::new(FileKind::File, 0o600),
            ..state("second")
        };
        let open = state("first");
        let targets = BTreeMap::from([(path("second"), Some(closed))]);
        restore(&root, &targets, &objects).expect("restored");
        assert_eq!((state("first"), state("second")), (open, closed));
    }

    /// A restore replaces special files at recorded paths.
    #[test]
    fn a_pipe_that_replaced_a_file_or_folder_is_replaced() {
        let place = tempfile::tempdir().expect("a folder");
        let object_folder = tempfile::tempdir().expect("a folder");
        let root = Root::open(place.path()).expect("a root");
        let mut objects = Objects::open(object_folder.path()).expect("objects");
        let hash = objects.put(b"text").expect("stored");
        let path = |name: &str| TreePath::from_bytes(name).expect("a path");
        let file = FileState {
            hash,
            size: 4,
            mode: FileMode::REGULAR,
        };
        let targets = BTreeMap::from([
            (path("file"), Some(file)),
            (path("folder"), Some(FileState::directory(0o755))),
            (path("folder/inner"), Some(file)),
        ]);
        for name in ["file", "folder"] {
            let mode = Mode::from_raw_mode(0o600);
            mknodat(CWD, place.path().join(name), FileType::Fifo, mode, 0).expect("a pipe");
        }
        let changes = restore(&root, &targets, &objects).expect("restored");
        assert_eq!(changes.len(), 3);
        for name in ["file", "folder/inner"] {
            let text = std::fs::read_to_string(place.path().join(name)).expect("a file");
            assert_eq!(text, "text", "{name}");
        }
    }
}
