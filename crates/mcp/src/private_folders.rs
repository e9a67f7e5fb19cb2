//! [`PrivateFolders`]: the private home and temporary directory of a server's program. The home persists between
//! starts, so that downloaded packages are reused. The temporary directory is created for one start and removed after
//! it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use cleveragents_process::prepare_home;
use fs_err as fs;

/// The directories of one start of a server.
#[derive(Debug)]
pub(crate) struct PrivateFolders {
    pub(crate) home: PathBuf,
    pub(crate) temporary: PathBuf,
    /// Holds a lock on the temporary directory while the program runs, so that no other process removes it.
    _in_use: std::fs::File,
    /// Directory to remove with its contents when this value is dropped.
    removed: PathBuf,
}

impl PrivateFolders {
    /// Creates the directories of a server. Without `homes`, its home is temporary too.
    pub(crate) fn make(homes: Option<&Path>, server: &str) -> io::Result<Self> {
        let Some(homes) = homes else {
            let (parent, in_use) = locked_folder(&std::env::temp_dir(), "mcp-")?;
            let (home, temporary) = (parent.join("home"), parent.join("tmp"));
            prepare_home(&home)?;
            make_private(&temporary)?;
            return Ok(Self {
                home,
                temporary,
                _in_use: in_use,
                removed: parent,
            });
        };
        let server_folder = homes.join(server);
        let (home, temporary_folders) = (server_folder.join("home"), server_folder.join("tmp"));
        prepare_home(&home)?;
        make_private(&temporary_folders)?;
        remove_unused(&temporary_folders)?;
        let (temporary, in_use) = locked_folder(&temporary_folders, "")?;
        Ok(Self {
            home,
            removed: temporary.clone(),
            temporary,
            _in_use: in_use,
        })
    }
}

impl Drop for PrivateFolders {
    fn drop(&mut self) {
        // If removal fails, the next start tries again.
        let _left = fs::remove_dir_all(&self.removed);
    }
}

fn make_private(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
}

/// Creates a directory with a new name and locks it.
fn locked_folder(parent: &Path, prefix: &str) -> io::Result<(PathBuf, std::fs::File)> {
    use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let nanoseconds = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |time| time.subsec_nanos());
        let process = std::process::id();
        let folder = parent.join(format!("{prefix}{process}-{number}-{nanoseconds}"));
        match std::fs::DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(error),
        }
        let Ok(file) = std::fs::File::open(&folder) else {
            continue;
        };
        // Another process may have removed the directory before it was locked.
        let is_locked = file.try_lock().is_ok()
            && fs::metadata(&folder).is_ok_and(|current| {
                file.metadata()
                    .is_ok_and(|opened| opened.ino() == current.ino())
            });
        if is_locked {
            return Ok((folder, file));
        }
    }
}

/// Removes temporary directories of processes that died without removing them.
fn remove_unused(temporary_folders: &Path) -> io::Result<()> {
    for entry in fs::read_dir(temporary_folders)?.filter_map(Result::ok) {
        let Ok(file) = std::fs::File::open(entry.path()) else {
            continue;
        };
        // The lock is held until the directory is removed, so that no other process starts to use it.
        if file.try_lock().is_ok() {
            let _unless_removed = fs::remove_dir_all(entry.path());
        }
    }
    Ok(())
}
