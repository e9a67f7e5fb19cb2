//! [`Known`]: what is known of a path, and whether that still holds.

use cleveragents_domain::{ContentHash, FileKind, FileMode};

use crate::beneath::Stat;

/// A moment that no file has: the path must be read to know it.
const UNKNOWN: i64 = i64::MIN;

/// The system's clock for files ticks in steps; a file that changed so shortly before it was looked
/// at may change again without a trace in its times.
const TICK: i64 = 20_000_000;

/// What is known of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) mode: FileMode,
    pub(crate) size: u64,
    pub(super) modified: i64,
    pub(super) changed: i64,
    pub(super) inode: u64,
    /// The content; `None` as long as it is what the sandbox started from.
    pub(crate) hash: Option<ContentHash>,
}

impl Known {
    /// What a look at `moment` (nanoseconds) told.
    pub(crate) fn seen(
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

    /// What the history says, without a look.
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

    /// Whether the system's description is still the same, so that the content is too.
    pub(crate) fn is_unchanged(&self, stat: &Stat) -> bool {
        if stat.mode != Some(self.mode) {
            return false;
        }
        // The times of a folder tell of the names in it, and those are paths of their own.
        self.mode.kind() == FileKind::Directory
            || (self.changed == stat.changed
                && self.modified == stat.modified
                && self.size == stat.size
                && self.inode == stat.inode)
    }

    /// A folder of which nothing but its mode is known. Its times tell whether the names in it are
    /// still the same, so they may be taken only before the names are read.
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

    /// Whether the names in a folder are still the same.
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
