//! Lock files of git: the lock on the user's index during an apply, and stale locks of killed processes.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use cleveragents_domain::ContentHash;

use crate::error::{Error, PathContext as _};

pub(crate) fn hash_file(place: &Path) -> io::Result<ContentHash> {
    Ok(crate::objects::hash_of(&mut File::open(place)?)?.0)
}

/// Lock of an index. Its content, the new index, identifies the apply that owns it. Only processes that complete or
/// roll back this apply may remove it.
pub(crate) struct IndexLock<'i> {
    index: &'i Path,
    lock: PathBuf,
    /// Path at which the lock is written before it is linked to its final path; the same in every process.
    draft: PathBuf,
    content: ContentHash,
}

impl<'i> IndexLock<'i> {
    /// The lock of the apply that replaces `index` by `content` and creates `commit`.
    pub(crate) fn new(index: &'i Path, content: ContentHash, commit: &str) -> Self {
        let sibling = |ending: &str| {
            let mut name = index.as_os_str().to_owned();
            name.push(ending);
            PathBuf::from(name)
        };
        Self {
            index,
            lock: sibling(".lock"),
            draft: sibling(&format!(".cleveragents-{commit}")),
            content,
        }
    }

    /// Path of the lock file.
    pub(crate) fn path(&self) -> &Path {
        &self.lock
    }

    /// Creates the lock with its complete content atomically. Fails with `AlreadyExists` while git holds it.
    pub(crate) fn acquire(&self, new_index: &Path) -> io::Result<()> {
        let write_and_link = || -> io::Result<()> {
            let mut file = File::create(&self.draft)?;
            file.write_all(&std::fs::read(new_index)?)?;
            file.sync_data()?;
            std::fs::hard_link(&self.draft, &self.lock)
        };
        let result = write_and_link();
        // Remove the draft also after a failure.
        match std::fs::remove_file(&self.draft) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => result.and(Err(error)),
            _ => result,
        }
    }

    /// Whether the lock exists and belongs to this apply.
    pub(crate) fn is_held(&self) -> bool {
        hash_file(&self.lock).ok() == Some(self.content)
    }

    /// Replaces the index by the lock, which releases it.
    pub(crate) fn replace_index(&self) -> Result<(), Error> {
        std::fs::rename(&self.lock, self.index).during("writing", self.index)
    }

    /// Restores an earlier index through the lock.
    pub(crate) fn restore_index(&self, saved: &Path) -> Result<(), Error> {
        std::fs::copy(saved, &self.lock).during("writing", &self.lock)?;
        self.replace_index()
    }

    /// Removes the lock if it belongs to this apply, and its draft.
    pub(crate) fn release(&self) -> Result<(), Error> {
        if self.is_held() {
            std::fs::remove_file(&self.lock).during("removing", &self.lock)?;
        }
        if self.draft.exists() {
            std::fs::remove_file(&self.draft).during("removing", &self.draft)?;
        }
        Ok(())
    }
}

/// Removes the lock of a reference that belongs to one sandbox. The caller has exclusive use of the sandbox, so such a
/// lock is left over from a killed process.
pub(super) fn remove_stale_lock(folder: &Path, reference: &str) -> Result<(), Error> {
    let lock = folder.join(format!("{reference}.lock"));
    match std::fs::remove_file(&lock) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).during("removing", &lock)
        }
        _ => Ok(()),
    }
}
