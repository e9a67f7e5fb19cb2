//! Read access to paths that a command in a sandbox made unreadable even for their owner.
//!
//! Unreadable paths can be neither recorded nor restored, which would block the sandbox. This module gives the owner
//! read permission again, but only in the program's own copies, never in the user's files. If the program runs as root,
//! it changes no permissions, because root needs none.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use cleveragents_domain::{FileKind, FileMode, TreePath};

use crate::scoped_dir::Root;

/// Permission bits that the owner needs to read a path of this kind.
const fn required_bits(kind: FileKind) -> u32 {
    match kind {
        FileKind::Directory => 0o500,
        FileKind::File => 0o400,
        FileKind::Symlink => 0,
    }
}

/// Opens the folder of one of the program's own copies.
pub(crate) fn open_own(path: &Path) -> io::Result<Root> {
    let opened = match Root::open(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let mode = std::fs::symlink_metadata(path)?.permissions().mode();
            let wider = mode | required_bits(FileKind::Directory);
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(wider))?;
            Root::open(path)
        }
        other => other,
    };
    opened.map(Root::into_own)
}

/// Runs an operation on a path beneath a root. If it lacks permission in one of the program's own copies, adds the
/// permission and retries.
pub(crate) fn reading<T>(
    root: &Root,
    path: Option<&TreePath>,
    mut action: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    match action() {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && root.is_own() => {
            if add_read_permission(root, path)? {
                action()
            } else {
                Err(error)
            }
        }
        other => other,
    }
}

/// Gives the owner read permission on a path (the root for `None`) and its parent folders. Returns whether a permission
/// was missing.
fn add_read_permission(root: &Root, path: Option<&TreePath>) -> io::Result<bool> {
    let Some(path) = path else {
        let Some(wider) = root.own_mode()?.and_then(wider) else {
            return Ok(false);
        };
        root.set_own_mode(wider)?;
        return Ok(true);
    };
    let is_parent_changed = add_read_permission(root, path.parent().as_ref())?;
    let mode = root.stat(path)?.and_then(|stat| stat.mode);
    let Some(wider) = mode.and_then(wider) else {
        return Ok(is_parent_changed);
    };
    root.set_mode(path, wider)?;
    Ok(true)
}

/// The mode with the permissions that the owner needs; `None` if none is missing.
fn wider(mode: FileMode) -> Option<FileMode> {
    let wider = mode.permissions() | required_bits(mode.kind());
    (wider != mode.permissions()).then(|| FileMode::new(mode.kind(), wider))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

    use super::*;
    use crate::objects::Objects;
    use crate::restore::restore;
    use crate::scan::{Extent, scan};
    use crate::state::read_state;

    /// Runs an action in a thread to which permissions apply as to an ordinary user, even for root.
    fn as_ordinary_user(action: impl FnOnce() + Send) {
        std::thread::scope(|scope| {
            let run = scope.spawn(|| {
                let mut sets = capabilities(None).expect("capabilities");
                sets.effective -= CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
                set_capabilities(None, sets).expect("dropping capabilities is always allowed");
                action();
            });
            run.join().expect("no panic");
        });
    }

    fn path(text: &str) -> TreePath {
        TreePath::from_bytes(text.as_bytes()).expect("a path")
    }

    fn mode_of(place: &Path) -> u32 {
        let facts = std::fs::symlink_metadata(place).expect("facts");
        facts.permissions().mode() & 0o7777
    }

    fn set_mode(place: &Path, mode: u32) {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(place, permissions).expect("permissions");
    }

    /// A folder with an unreadable folder and file in it.
    fn unreadable_copy() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        let inner = folder.path().join("unreadable");
        std::fs::create_dir(&inner).expect("a folder");
        std::fs::write(inner.join("f"), "text").expect("a file");
        set_mode(&inner.join("f"), 0o000);
        set_mode(&inner, 0o000);
        folder
    }

    /// Restores permissions, so that an ordinary user can remove the folder.
    fn restore_permissions(folder: &tempfile::TempDir) {
        set_mode(folder.path(), 0o700);
        set_mode(&folder.path().join("unreadable"), 0o700);
    }

    #[test]
    fn unreadable_files_are_read_in_the_copy() {
        let folder = unreadable_copy();
        as_ordinary_user(|| {
            let root = open_own(folder.path()).expect("a root");
            let found = scan(&root, Extent::default()).expect("it is walked");
            assert!(found.entries.contains_key(&path("unreadable/f")));
            let (state, _) = read_state(&root, &path("unreadable/f"), None)
                .expect("it is read")
                .expect("it exists");
            assert_eq!((state.size, state.mode.permissions()), (4, 0o400));
            assert_eq!(mode_of(&folder.path().join("unreadable")), 0o500);
        });
        restore_permissions(&folder);
    }

    #[test]
    fn an_unreadable_copy_is_opened() {
        for mode in [0o000, 0o200, 0o400] {
            let folder = unreadable_copy();
            set_mode(folder.path(), mode);
            as_ordinary_user(|| {
                let root = open_own(folder.path()).expect("a root");
                assert!(scan(&root, Extent::default()).is_ok(), "{mode:o}");
            });
            restore_permissions(&folder);
        }
    }

    #[test]
    fn a_copy_with_a_read_only_root_is_restored() {
        let folder = tempfile::tempdir().expect("a folder");
        let objects = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("later"), "text").expect("a file");
        set_mode(folder.path(), 0o500);
        as_ordinary_user(|| {
            let root = open_own(folder.path()).expect("a root");
            let objects = Objects::open(objects.path()).expect("objects");
            let targets = BTreeMap::from([(path("later"), None)]);
            let changes = restore(&root, &targets, &objects).expect("it is restored");
            assert_eq!(changes.len(), 1);
            assert!(!folder.path().join("later").exists());
            assert_eq!(mode_of(folder.path()), 0o500, "the original mode");
        });
        set_mode(folder.path(), 0o700);
    }

    #[test]
    fn files_of_the_user_keep_their_permissions() {
        let folder = unreadable_copy();
        as_ordinary_user(|| {
            let root = Root::open(folder.path()).expect("a root");
            let refused = scan(&root, Extent::default()).expect_err("it may not be read");
            assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
            assert_eq!(mode_of(&folder.path().join("unreadable")), 0o000);
        });
        restore_permissions(&folder);
    }
}
