//! Atomic file updates: readers never see a partial file, and concurrent writers lose no change.
//!
//! A writer holds an exclusive lock from before it reads the target until it has replaced the
//! target. It writes the new text to a temporary file in the same folder, syncs that file, and
//! renames it to the target. The lock is on a separate file next to the target, because each change
//! replaces the target.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use cleveragents_sandbox::Links;

use super::document::text_of;
use super::error::Error;

/// Mode of a new file: only the owner can read and write it.
const PRIVATE: u32 = 0o600;

/// Changes the text of a file: `change` receives the current text, `None` when the file does not
/// exist, and returns the new one, or `None` to leave the file unchanged. The folder must exist.
pub(crate) fn update<T>(
    path: &Path,
    change: impl FnOnce(Option<&str>) -> Result<(T, Option<String>), Error>,
) -> Result<T, Error> {
    let path = resolve_link(path)?;
    let _lock = lock(&path)?;
    let before = text_of(&path, Links::Follow)?;
    let (result, after) = change(before.as_deref())?;
    if let Some(after) = after
        && before.as_deref() != Some(after.as_str())
    {
        replace(&path, &after)?;
    }
    Ok(result)
}

/// Resolves a symbolic link, so that an update changes its target and preserves the link.
fn resolve_link(path: &Path) -> Result<PathBuf, Error> {
    match path.canonicalize() {
        Ok(real) => Ok(real),
        Err(error) if error.kind() == ErrorKind::NotFound && !path.is_symlink() => {
            Ok(path.to_owned())
        }
        Err(error) => Err(Error::access("find", path)(error)),
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or_else(|| Path::new("."))
}

/// Takes the lock; it is released when the file is dropped, or when the process ends.
fn lock(path: &Path) -> Result<File, Error> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let lock_path = folder_of(path).join(format!(".{name}.lock"));
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(PRIVATE)
        .open(&lock_path)
        .map_err(Error::access("write", &lock_path))?;
    loop {
        match file.lock() {
            Ok(()) => return Ok(file),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::access("lock", &lock_path)(error)),
        }
    }
}

fn replace(path: &Path, text: &str) -> Result<(), Error> {
    let folder = folder_of(path);
    let permissions = fs::metadata(path).map_or_else(
        |_| Permissions::from_mode(PRIVATE),
        |file| file.permissions(),
    );
    let mut temporary = tempfile::Builder::new()
        .prefix(".config.")
        .suffix(".tmp")
        .tempfile_in(folder)
        .map_err(Error::access("write in", folder))?;
    temporary
        .write_all(text.as_bytes())
        .and_then(|()| temporary.as_file().set_permissions(permissions))
        .and_then(|()| temporary.as_file().sync_all())
        .map_err(Error::access("write", path))?;
    temporary
        .persist(path)
        .map_err(|error| Error::access("replace", path)(error.error))?;
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(Error::access("flush", folder))
}

#[cfg(test)]
mod tests {
    use super::update;
    use crate::config::Error;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    fn write(path: &std::path::Path, text: &str) -> Result<(), Error> {
        update(path, |_| Ok(((), Some(text.to_owned()))))
    }

    #[test]
    fn a_new_file_is_private_and_an_old_one_keeps_its_mode() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("config.toml");
        let mode = || path.metadata().expect("exists").permissions().mode() & 0o777;
        write(&path, "a").expect("written");
        assert_eq!(mode(), 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("mode");
        write(&path, "b").expect("written");
        assert_eq!(
            (mode(), fs::read_to_string(&path).expect("text").as_str()),
            (0o640, "b")
        );
    }

    #[test]
    fn a_link_stays_a_link_and_its_target_changes() {
        let folder = tempfile::tempdir().expect("folder");
        let (target, link) = (
            folder.path().join("real.toml"),
            folder.path().join("config.toml"),
        );
        fs::write(&target, "a").expect("file");
        std::os::unix::fs::symlink(&target, &link).expect("link");
        write(&link, "b").expect("written");
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&target).expect("text"), "b");
    }

    #[test]
    fn a_refused_change_leaves_no_trace() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("config.toml");
        fs::write(&path, "a").expect("file");
        let refused = update::<()>(&path, |_| Err(Error::NoHome));
        assert!(refused.is_err());
        assert_eq!(fs::read_to_string(&path).expect("text"), "a");
        let names: Vec<_> = fs::read_dir(folder.path())
            .expect("list")
            .map(|entry| entry.expect("entry").file_name())
            .collect();
        assert!(
            names
                .iter()
                .all(|name| name == "config.toml" || name == ".config.toml.lock")
        );
    }

    #[test]
    fn a_missing_folder_is_named() {
        let error = write("/nonexistent/x/config.toml".as_ref(), "a").expect_err("no folder");
        assert!(error.to_string().contains("/nonexistent/x"), "{error}");
    }
}
