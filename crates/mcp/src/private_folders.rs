//! [`PrivateFolders`]: the home directory of a server's program, which persists between starts so that downloaded
//! packages are reused, and a temporary directory for each start, which is removed after it.

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
    /// Locked while the program runs, to mark the temporary directory as in use for other processes.
    _in_use: std::fs::File,
    /// Directory that is removed with its contents at the end.
    removed: PathBuf,
}

impl PrivateFolders {
    /// Creates the directories of a server. Without `homes`, its home is removed at the end.
    pub(crate) fn make(homes: Option<&Path>, server: &str) -> io::Result<Self> {
        let Some(homes) = homes else {
            let (whole, in_use) = locked_folder(&std::env::temp_dir(), "mcp-")?;
            let (home, temporary) = (whole.join("home"), whole.join("tmp"));
            prepare_home(&home)?;
            make_private(&temporary)?;
            return Ok(Self {
                home,
                temporary,
                _in_use: in_use,
                removed: whole,
            });
        };
        let own = homes.join(server);
        let (home, all) = (own.join("home"), own.join("tmp"));
        prepare_home(&home)?;
        make_private(&all)?;
        remove_unused(&all)?;
        let (temporary, in_use) = locked_folder(&all, "")?;
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
        // Another process may have removed it before it was locked.
        let is_ours = file.try_lock().is_ok()
            && fs::metadata(&folder)
                .is_ok_and(|there| file.metadata().is_ok_and(|ours| ours.ino() == there.ino()));
        if is_ours {
            return Ok((folder, file));
        }
    }
}

/// Removes the temporary directories of starts whose process died before it could.
fn remove_unused(all: &Path) -> io::Result<()> {
    for entry in fs::read_dir(all)?.filter_map(Result::ok) {
        let Ok(file) = std::fs::File::open(entry.path()) else {
            continue;
        };
        // Locked until it is removed, so that no process starts to use it meanwhile.
        if file.try_lock().is_ok() {
            let _unless_removed = fs::remove_dir_all(entry.path());
        }
    }
    Ok(())
}
