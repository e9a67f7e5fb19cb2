//! Parses a patch of git into the lines of each path.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One hunk of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Hunk {
    /// Its position: `-1,3 +1,4`.
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

/// Parses a patch, path by path. `beneath` is a first folder that the paths have in the patch only.
pub(super) fn sections(patch: &[u8], beneath: Option<&str>) -> HashMap<OsString, Section> {
    let mut found = HashMap::new();
    let mut name = None;
    let mut section = Section::default();
    // Remaining lines of the current hunk, old and new.
    let mut left = (0_usize, 0_usize);
    let prefix = beneath.map(|alias| format!("{alias}/").into_bytes());
    let mut close = |name: &mut Option<Vec<u8>>, section: &mut Section| {
        if let Some(name) = name.take() {
            let own = prefix
                .as_deref()
                .and_then(|prefix| name.strip_prefix(prefix))
                .unwrap_or(&name);
            found.insert(OsString::from_vec(own.to_vec()), std::mem::take(section));
        }
    };
    for line in patch.split(|byte| *byte == b'\n') {
        if left != (0, 0) {
            body(line, &mut left, &mut section);
        } else if let Some(names) = line.strip_prefix(b"diff --git ") {
            close(&mut name, &mut section);
            name = path(names);
        } else if let Some(header) = line.strip_prefix(b"@@ ") {
            left = begin(header, &mut section).unwrap_or_default();
        } else if line.starts_with(b"GIT binary patch") || line.starts_with(b"Binary files ") {
            section.is_binary = true;
        }
    }
    close(&mut name, &mut section);
    found
}

/// Starts a hunk and returns its numbers of old and new lines.
fn begin(header: &[u8], section: &mut Section) -> Option<(usize, usize)> {
    let header = String::from_utf8_lossy(header);
    let range = header.split(" @@").next()?;
    let (old, new) = range.split_once(' ')?;
    let count = |side: &str| match side.split_once(',') {
        Some((_, count)) => count.parse().ok(),
        None => Some(1),
    };
    let left = (count(old)?, count(new)?);
    section.hunks.push(Hunk {
        range: range.to_owned(),
        deletions: Vec::new(),
        insertions: Vec::new(),
    });
    Some(left)
}

fn body(line: &[u8], left: &mut (usize, usize), section: &mut Section) {
    let Some(hunk) = section.hunks.last_mut() else {
        return;
    };
    let text = || String::from_utf8_lossy(line.get(1..).unwrap_or_default()).into_owned();
    match line.first() {
        Some(b'+') => {
            section.insertions += 1;
            left.1 = left.1.saturating_sub(1);
            hunk.insertions.push(text());
        }
        Some(b'-') => {
            section.deletions += 1;
            left.0 = left.0.saturating_sub(1);
            hunk.deletions.push(text());
        }
        // `\ No newline at end of file` does not count as a line.
        Some(b'\\') => {}
        _ => *left = (left.0.saturating_sub(1), left.1.saturating_sub(1)),
    }
}

/// The path in `a/PATH b/PATH`, each of which may be quoted.
fn path(names: &[u8]) -> Option<Vec<u8>> {
    if names.first() == Some(&b'"') {
        let (first, _) = unquoted(&names[1..])?;
        return first.get(2..).map(<[u8]>::to_vec);
    }
    // Both names are equal: the space between them is in the middle.
    let half = names.len().checked_sub(1)? / 2;
    names.get(2..half).map(<[u8]>::to_vec)
}

/// The text up to the closing quote, and the rest after it.
fn unquoted(quoted: &[u8]) -> Option<(Vec<u8>, &[u8])> {
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
    fn lines_are_counted_also_those_that_look_like_headers() {
        let patch = b"diff --git a/src/x y b/src/x y\n--- a/src/x y\n+++ b/src/x y\n@@ -1,3 +1,2 @@ fn\n a\n--- gone\n-diff --git a/z b/z\n+new\n\\ No newline at end of file\n@@ -9 +8,0 @@\n-last\ndiff --git \"a/\\303\\244\\t\" \"b/\\303\\244\\t\"\nnew file mode 100644\nindex 0..1\nGIT binary patch\nliteral 3\nabc\n";
        let found = sections(patch, None);
        let first = &found[&OsString::from("src/x y")];
        assert_eq!((first.insertions, first.deletions), (1, 3));
        assert_eq!(first.hunks.len(), 2);
        assert_eq!(first.hunks[0].range, "-1,3 +1,2");
        assert_eq!(first.hunks[0].deletions, ["-- gone", "diff --git a/z b/z"]);
        assert_eq!(first.hunks[1].deletions, ["last"]);
        let second = &found[&OsString::from_vec("ä\t".as_bytes().to_vec())];
        assert!(second.is_binary);
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn the_name_of_the_part_is_taken_off() {
        let patch =
            b"diff --git a/code/a b/code/a\n--- a/code/a\n+++ b/code/a\n@@ -1 +1 @@\n-a\n+b\n";
        let found = sections(patch, Some("code"));
        assert_eq!(found[&OsString::from("a")].insertions, 1);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(patch: Vec<u8>) {
            let _found = sections(&patch, None);
        }

        #[test]
        fn any_text_is_read_without_a_panic(patch in "(diff --git |@@ |[-+ \\\\\"ab,/0-9\n]){0,40}") {
            let _found = sections(patch.as_bytes(), Some("a"));
        }
    }
}
