//! State of a path: its kind, its permissions and its content.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ContentHash;

/// Kinds of entries in a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileKind {
    /// A directory; its content is the paths beneath it.
    Directory,
    /// A regular file.
    File,
    /// A symbolic link; its content is the target.
    Symlink,
}

impl FileKind {
    /// Printed name of the kind.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Directory => "directory",
            Self::File => "file",
            Self::Symlink => "symlink",
        }
    }
}

/// Kind and permission bits, in the format of `st_mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FileMode(u32);

const KIND: u32 = 0o170_000;
const PERMISSIONS: u32 = 0o7_777;
const SPECIAL_BITS: u32 = 0o7_000;

impl FileMode {
    /// Readable by everyone, writable by its owner (0644).
    pub const REGULAR: Self = Self(0o100_644);

    /// Converts a `st_mode`. `None` for devices, sockets and pipes, which a tree cannot contain.
    pub const fn from_raw(raw: u32) -> Option<Self> {
        match raw & KIND {
            0o100_000 | 0o040_000 => Some(Self(raw & (KIND | PERMISSIONS))),
            // The permissions of a link are meaningless and differ between systems.
            0o120_000 => Some(Self(0o120_777)),
            _ => None,
        }
    }

    /// Clears the set-user-id, set-group-id and sticky bits.
    #[must_use]
    pub const fn without_special_bits(self) -> Self {
        Self(self.0 & !SPECIAL_BITS)
    }

    /// Keeps only those set-user-id, set-group-id and sticky bits that `other` has too.
    #[must_use]
    pub const fn with_special_bits_of(self, other: Self) -> Self {
        Self(self.0 & !(SPECIAL_BITS & !other.0))
    }

    /// Creates a mode from a kind and permission bits.
    pub const fn new(kind: FileKind, permissions: u32) -> Self {
        match kind {
            FileKind::Directory => Self(0o040_000 | (permissions & PERMISSIONS)),
            FileKind::File => Self(0o100_000 | (permissions & PERMISSIONS)),
            FileKind::Symlink => Self(0o120_777),
        }
    }

    /// The complete value, as stored.
    pub const fn raw(self) -> u32 {
        self.0
    }

    /// Kind of the entry.
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

    /// Whether the owner of the file may execute it, the only permission that git stores.
    pub const fn is_executable(self) -> bool {
        self.0 & 0o100 != 0
    }
}

impl fmt::Display for FileMode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:06o}", self.0)
    }
}

/// State of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileState {
    /// Hash of the content: bytes of a file, target of a link, empty for a directory.
    pub hash: ContentHash,
    /// Size of the content in bytes.
    pub size: u64,
    /// Kind and permissions.
    pub mode: FileMode,
}

impl FileState {
    pub fn directory(permissions: u32) -> Self {
        Self {
            hash: ContentHash::of_bytes(b""),
            size: 0,
            mode: FileMode::new(FileKind::Directory, permissions),
        }
    }

    /// Kind of the entry.
    pub const fn kind(&self) -> FileKind {
        self.mode.kind()
    }

    /// Whether kind and content are equal, regardless of permissions.
    pub fn same_content(&self, other: &Self) -> bool {
        self.kind() == other.kind() && self.hash == other.hash
    }
}
