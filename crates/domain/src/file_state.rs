//! What a path holds at one moment: its kind, its permissions and its content.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ContentHash;

/// The kinds of things a tree can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileKind {
    /// A folder; its content is the paths beneath it.
    Directory,
    /// A file with bytes.
    File,
    /// A symbolic link; its content is the target.
    Symlink,
}

impl FileKind {
    /// The kind as printed.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Directory => "directory",
            Self::File => "file",
            Self::Symlink => "symlink",
        }
    }
}

/// Kind and permission bits, as the system's `st_mode` has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FileMode(u32);

const KIND: u32 = 0o170_000;
const PERMISSIONS: u32 = 0o7_777;
const SPECIAL_BITS: u32 = 0o7_000;

impl FileMode {
    /// A file that its owner may write and everyone may read.
    pub const REGULAR: Self = Self(0o100_644);

    /// Reads a `st_mode`. `None` for devices, sockets and pipes, which a tree cannot hold.
    pub const fn from_raw(raw: u32) -> Option<Self> {
        match raw & KIND {
            0o100_000 | 0o040_000 => Some(Self(raw & (KIND | PERMISSIONS))),
            // The permissions of a link mean nothing and differ between systems.
            0o120_000 => Some(Self(0o120_777)),
            _ => None,
        }
    }

    /// The same without the set-user-id, set-group-id and sticky bits.
    #[must_use]
    pub const fn without_special_bits(self) -> Self {
        Self(self.0 & !SPECIAL_BITS)
    }

    /// The same with those set-user-id, set-group-id and sticky bits only that another mode has too.
    #[must_use]
    pub const fn with_special_bits_of(self, other: Self) -> Self {
        Self(self.0 & !(SPECIAL_BITS & !other.0))
    }

    /// A mode of a kind with permission bits.
    pub const fn new(kind: FileKind, permissions: u32) -> Self {
        match kind {
            FileKind::Directory => Self(0o040_000 | (permissions & PERMISSIONS)),
            FileKind::File => Self(0o100_000 | (permissions & PERMISSIONS)),
            FileKind::Symlink => Self(0o120_777),
        }
    }

    /// The whole number, as stored.
    pub const fn raw(self) -> u32 {
        self.0
    }

    /// What it is.
    pub const fn kind(self) -> FileKind {
        match self.0 & KIND {
            0o040_000 => FileKind::Directory,
            0o120_000 => FileKind::Symlink,
            _ => FileKind::File,
        }
    }

    /// The permission bits.
    pub const fn permissions(self) -> u32 {
        self.0 & PERMISSIONS
    }

    /// Whether its owner may execute it, the one permission that git keeps.
    pub const fn is_executable(self) -> bool {
        self.0 & 0o100 != 0
    }
}

impl fmt::Display for FileMode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:06o}", self.0)
    }
}

/// What a path holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileState {
    /// The content: bytes of a file, target of a link, nothing for a folder.
    pub hash: ContentHash,
    /// How many bytes of content.
    pub size: u64,
    /// Kind and permissions.
    pub mode: FileMode,
}

impl FileState {
    /// A folder.
    pub fn directory(permissions: u32) -> Self {
        Self {
            hash: ContentHash::of(b""),
            size: 0,
            mode: FileMode::new(FileKind::Directory, permissions),
        }
    }

    /// What it is.
    pub const fn kind(&self) -> FileKind {
        self.mode.kind()
    }

    /// Whether kind and content are the same, whatever the permissions.
    pub fn same_content(&self, other: &Self) -> bool {
        self.kind() == other.kind() && self.hash == other.hash
    }
}
