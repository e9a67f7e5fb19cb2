//! Paths inside a tree: relative, without `.` or `..`, with any bytes that the operating system allows.
//!
//! The text form is reversible: a byte that is not UTF-8 or a control character is written `\xE9`,
//! a backslash `\\`, so that a path is always one line.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The text or bytes are not a path inside a tree.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a path inside a tree")]
pub struct TreePathError(String);

/// A path relative to the root of a tree.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TreePath(Vec<u8>);

impl TreePath {
    /// Validates bytes with `/` between the names.
    pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> Result<Self, TreePathError> {
        let bytes = bytes.into();
        let is_name = |name: &[u8]| !name.is_empty() && name != b"." && name != b"..";
        if bytes.contains(&0) || !bytes.split(|byte| *byte == b'/').all(is_name) {
            return Err(TreePathError(String::from_utf8_lossy(&bytes).into_owned()));
        }
        Ok(Self(bytes))
    }

    /// Appends a name.
    pub fn join(&self, name: &[u8]) -> Result<Self, TreePathError> {
        Self::from_bytes([&self.0, b"/".as_slice(), name].concat())
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// As a path for file system calls.
    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }

    /// Names from the root down.
    pub fn names(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.0.split(|byte| *byte == b'/')
    }

    /// Number of names.
    pub fn depth(&self) -> usize {
        self.names().count()
    }

    /// The last name.
    pub fn name(&self) -> &[u8] {
        self.names().next_back().unwrap_or_default()
    }

    /// The parent path. `None` at the top.
    pub fn parent(&self) -> Option<Self> {
        let end = self.0.iter().rposition(|byte| *byte == b'/')?;
        Some(Self(self.0[..end].to_vec()))
    }

    /// Whether the path is `other` or lies beneath it.
    pub fn is_within(&self, other: &Self) -> bool {
        self.0
            .strip_prefix(other.0.as_slice())
            .is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
    }
}

/// Compares name by name, so that the contents of a directory directly follow the directory.
impl Ord for TreePath {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let slash_first = |byte: &u8| if *byte == b'/' { 0 } else { *byte };
        self.0
            .iter()
            .map(slash_first)
            .cmp(other.0.iter().map(slash_first))
    }
}

impl PartialOrd for TreePath {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for TreePath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write as _;
        for chunk in self.0.utf8_chunks() {
            for letter in chunk.valid().chars() {
                match letter {
                    '\\' => formatter.write_str("\\\\")?,
                    '\0'..='\x1f' | '\x7f' => write!(formatter, "\\x{:02X}", u32::from(letter))?,
                    _ => formatter.write_char(letter)?,
                }
            }
            for byte in chunk.invalid() {
                write!(formatter, "\\x{byte:02X}")?;
            }
        }
        Ok(())
    }
}

impl FromStr for TreePath {
    type Err = TreePathError;

    fn from_str(text: &str) -> Result<Self, TreePathError> {
        let invalid = || TreePathError(text.to_owned());
        let mut bytes = Vec::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('\\') {
            bytes.extend_from_slice(&rest.as_bytes()[..at]);
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix('\\') {
                bytes.push(b'\\');
                rest = after;
            } else {
                let digits = rest.strip_prefix('x').and_then(|rest| rest.get(..2));
                let digits = digits.ok_or_else(invalid)?;
                bytes.push(u8::from_str_radix(digits, 16).map_err(|_| invalid())?);
                rest = &rest[3..];
            }
        }
        bytes.extend_from_slice(rest.as_bytes());
        Self::from_bytes(bytes)
    }
}

impl Serialize for TreePath {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TreePath {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::TreePath;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_path_of_any_bytes_round_trips_through_text(bytes in prop::collection::vec(any::<u8>(), 1..40)) {
            if let Ok(path) = TreePath::from_bytes(bytes) {
                let parsed: TreePath = path.to_string().parse().expect("its own text");
                prop_assert_eq!(parsed, path);
            }
        }

        #[test]
        fn contents_follow_their_folder(
            folder in "[a-c!-]{1,3}", name in "[a-c!]{1,3}", other in "[a-c!-]{1,4}",
        ) {
            let folder: TreePath = folder.parse().expect("a path");
            let inner = folder.join(name.as_bytes()).expect("a path");
            let other: TreePath = other.parse().expect("a path");
            prop_assert!(folder < inner);
            // No other path sorts between a directory and its contents.
            prop_assert!(!(folder < other && other < inner));
            prop_assert!(inner.is_within(&folder) && !other.is_within(&inner));
        }
    }

    #[test]
    fn a_path_stays_inside_its_tree() {
        for invalid in ["", "/", "/etc", "a//b", "a/", "./a", "a/../b", "..", "a\0"] {
            assert!(TreePath::from_bytes(invalid).is_err(), "{invalid:?}");
        }
        assert!("a\\q".parse::<TreePath>().is_err());
        assert!("a\\x4".parse::<TreePath>().is_err());
    }
}
