//! [`PathRecord`]: recorded state and metadata of a path.

use cleveragents_domain::{ContentHash, FileKind, FileMode};

use crate::scoped_dir::Stat;

/// Change time that no file has: the next scan always reads the path.
const UNKNOWN: i64 = i64::MIN;

/// Resolution of the file clock, in nanoseconds. A file that changed within this time before the scan may change again
/// without new times.
const TICK: i64 = 20_000_000;

/// Recorded state of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PathRecord {
    pub(crate) mode: FileMode,
    pub(crate) size: u64,
    pub(super) modified: i64,
    pub(super) changed: i64,
    pub(super) inode: u64,
    /// Hash of the content; `None` while it is the original content.
    pub(crate) hash: Option<ContentHash>,
}

impl PathRecord {
    /// State from a scan at `moment`, in nanoseconds since the epoch.
    pub(crate) fn from_scan(
        stat: &Stat,
        mode: FileMode,
        hash: Option<ContentHash>,
        moment: i64,
    ) -> Self {
        let is_settled = stat.changed.saturating_add(TICK) < moment;
        Self {
            mode,
            size: stat.size,
            modified: stat.modified,
            changed: if is_settled { stat.changed } else { UNKNOWN },
            inode: stat.inode,
            hash,
        }
    }

    /// State from the history, without a scan.
    pub(crate) const fn recorded(mode: FileMode, size: u64, hash: ContentHash) -> Self {
        Self {
            mode,
            size,
            modified: UNKNOWN,
            changed: UNKNOWN,
            inode: 0,
            hash: Some(hash),
        }
    }

    /// Whether the metadata is unchanged, and therefore the content too.
    pub(crate) fn is_unchanged(&self, stat: &Stat) -> bool {
        if stat.mode != Some(self.mode) {
            return false;
        }
        // The times of a folder only reflect changes of the names in it, which have their own entries.
        self.mode.kind() == FileKind::Directory
            || (self.changed == stat.changed
                && self.modified == stat.modified
                && self.size == stat.size
                && self.inode == stat.inode)
    }

    /// Whether mode, size, inode and time of modification are the same. Weaker than [`Self::is_unchanged`]: the time of
    /// the last change of metadata is not compared.
    pub(crate) fn has_same_modification(&self, stat: &Stat) -> bool {
        stat.mode == Some(self.mode)
            && self.modified == stat.modified
            && self.size == stat.size
            && self.inode == stat.inode
    }

    /// A folder with a known mode but without times. Unchanged times prove that the names in the folder are unchanged,
    /// so times may be recorded only if they were read before the names.
    pub(crate) const fn folder(mode: FileMode) -> Self {
        Self {
            mode,
            size: 0,
            modified: UNKNOWN,
            changed: UNKNOWN,
            inode: 0,
            hash: None,
        }
    }

    /// Whether the names in a folder are unchanged.
    pub(crate) fn has_same_names(&self, stat: &Stat) -> bool {
        self.mode.kind() == FileKind::Directory
            && self.changed == stat.changed
            && self.modified == stat.modified
            && self.inode == stat.inode
    }

    pub(super) fn parse(fields: &[&str]) -> Option<Self> {
        let [mode, size, modified, changed, inode, hash] = fields else {
            return None;
        };
        Some(Self {
            mode: FileMode::from_raw(u32::from_str_radix(mode, 8).ok()?)?,
            size: size.parse().ok()?,
            modified: modified.parse().ok()?,
            changed: changed.parse().ok()?,
            inode: inode.parse().ok()?,
            hash: match *hash {
                "-" => None,
                hash => Some(hash.parse().ok()?),
            },
        })
    }
}
