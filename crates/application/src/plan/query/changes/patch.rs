//! Parses a git patch into one [`Section`] per path.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One hunk of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Hunk {
    /// Old and new position, as in the hunk header: `-1,3 +1,4`.
    pub range: String,
    /// The deleted lines.
    pub deletions: Vec<String>,
    /// The added lines.
    pub insertions: Vec<String>,
}

/// The section of one path in a patch.
#[derive(Debug, Default)]
pub(super) struct Section {
    pub(super) insertions: usize,
    pub(super) deletions: usize,
    pub(super) is_binary: bool,
    pub(super) hunks: Vec<Hunk>,
}

/// Parses a patch into its sections by path. `patch_folder` is the first folder of all paths in the patch; the
/// returned paths are relative to it.
pub(super) fn sections(patch: &[u8], patch_folder: Option<&str>) -> HashMap<OsString, Section> {
    let mut by_path = HashMap::new();
    let mut name = None;
    let mut section = Section::default();
    // Remaining old and new lines of the current hunk.
    let mut remaining = (0_usize, 0_usize);
    let prefix = patch_folder.map(|alias| format!("{alias}/").into_bytes());
    let mut close = |name: &mut Option<Vec<u8>>, section: &mut Section| {
        if let Some(name) = name.take() {
            let own = prefix
                .as_deref()
                .and_then(|prefix| name.strip_prefix(prefix))
                .unwrap_or(&name);
            by_path.insert(OsString::from_vec(own.to_vec()), std::mem::take(section));
        }
    };
    for line in patch.split(|byte| *byte == b'\n') {
        if remaining != (0, 0) {
            add_hunk_line(line, &mut remaining, &mut section);
        } else if let Some(names) = line.strip_prefix(b"diff --git ") {
            close(&mut name, &mut section);
            name = path(names);
        } else if let Some(header) = line.strip_prefix(b"@@ ") {
            remaining = start_hunk(header, &mut section).unwrap_or_default();
        } else if line.starts_with(b"GIT binary patch") || line.starts_with(b"Binary files ") {
            section.is_binary = true;
        }
    }
    close(&mut name, &mut section);
    by_path
}

/// Starts a hunk and returns the numbers of its old and new lines.
fn start_hunk(header: &[u8], section: &mut Section) -> Option<(usize, usize)> {
    let header = String::from_utf8_lossy(header);
    let range = header.split(" @@").next()?;
    let (old, new) = range.split_once(' ')?;
    let count = |side: &str| match side.split_once(',') {
        Some((_, count)) => count.parse().ok(),
        None => Some(1),
    };
    let remaining = (count(old)?, count(new)?);
    section.hunks.push(Hunk {
        range: range.to_owned(),
        deletions: Vec::new(),
        insertions: Vec::new(),
    });
    Some(remaining)
}

fn add_hunk_line(line: &[u8], remaining: &mut (usize, usize), section: &mut Section) {
    let Some(hunk) = section.hunks.last_mut() else {
        return;
    };
    let text = || String::from_utf8_lossy(line.get(1..).unwrap_or_default()).into_owned();
    match line.first() {
        Some(b'+') => {
            section.insertions += 1;
            remaining.1 = remaining.1.saturating_sub(1);
            hunk.insertions.push(text());
        }
        Some(b'-') => {
            section.deletions += 1;
            remaining.0 = remaining.0.saturating_sub(1);
            hunk.deletions.push(text());
        }
        // `\ No newline at end of file` does not count as a line.
        Some(b'\\') => {}
        _ => *remaining = (remaining.0.saturating_sub(1), remaining.1.saturating_sub(1)),
    }
}

/// Extracts the path from `a/PATH b/PATH`. Both paths may be quoted.
fn path(names: &[u8]) -> Option<Vec<u8>> {
    if names.first() == Some(&b'"') {
        let (first, _) = unquote(&names[1..])?;
        return first.get(2..).map(<[u8]>::to_vec);
    }
    // Both paths have the same length, so the space between them is in the middle.
    let half = names.len().checked_sub(1)? / 2;
    names.get(2..half).map(<[u8]>::to_vec)
}

/// Decodes a quoted path. Returns the text up to the closing quote, and the bytes after the quote.
fn unquote(quoted: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut text = Vec::new();
    let mut at = 0;
    loop {
        match quoted.get(at)? {
            b'"' => return Some((text, &quoted[at + 1..])),
            b'\\' => {
                let next = *quoted.get(at + 1)?;
                at += 2;
                text.push(match next {
                    b'a' => 7,
                    b'b' => 8,
                    b't' => b'\t',
                    b'n' => b'\n',
                    b'v' => 11,
                    b'f' => 12,
                    b'r' => b'\r',
                    b'0'..=b'3' => {
                        let digits = quoted.get(at - 1..at + 2)?;
                        at += 2;
                        let text = std::str::from_utf8(digits).ok()?;
                        u8::from_str_radix(text, 8).ok()?
                    }
                    other => other,
                });
            }
            byte => {
                text.push(*byte);
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::sections;
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt as _;

    #[test]
    fn lines_that_look_like_headers_are_counted() {
        let patch = b"diff --git a/src/x y b/src/x y\n--- a/src/x y\n+++ b/src/x y\n@@ -1,3 +1,2 @@ fn\n a\n--- gone\n-diff --git a/z b/z\n+new\n\\ No newline at end of file\n@@ -9 +8,0 @@\n-last\ndiff --git \"a/\\303\\244\\t\" \"b/\\303\\244\\t\"\nnew file mode 100644\nindex 0..1\nGIT binary patch\nliteral 3\nabc\n";
        let by_path = sections(patch, None);
        let first = &by_path[&OsString::from("src/x y")];
        assert_eq!((first.insertions, first.deletions), (1, 3));
        assert_eq!(first.hunks.len(), 2);
        assert_eq!(first.hunks[0].range, "-1,3 +1,2");
        assert_eq!(first.hunks[0].deletions, ["-- gone", "diff --git a/z b/z"]);
        assert_eq!(first.hunks[1].deletions, ["last"]);
        let second = &by_path[&OsString::from_vec("ä\t".as_bytes().to_vec())];
        assert!(second.is_binary);
        assert_eq!(by_path.len(), 2);
    }

    #[test]
    fn the_folder_of_the_part_is_stripped() {
        let patch =
            b"diff --git a/code/a b/code/a\n--- a/code/a\n+++ b/code/a\n@@ -1 +1 @@\n-a\n+b\n";
        let by_path = sections(patch, Some("code"));
        assert_eq!(by_path[&OsString::from("a")].insertions, 1);
    }

    proptest::proptest! {
        #[test]
        fn parsing_any_bytes_does_not_panic(patch: Vec<u8>) {
            let _found = sections(&patch, None);
        }

        #[test]
        fn parsing_any_text_does_not_panic(patch in "(diff --git |@@ |[-+ \\\\\"ab,/0-9\n]){0,40}") {
            let _found = sections(patch.as_bytes(), Some("a"));
        }
    }
}
