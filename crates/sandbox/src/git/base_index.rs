//! Lookup of single entries in the index that git wrote for a worktree.
//!
//! Git always reads a complete index, which is slow for large repositories. A list with the offset of each entry,
//! written once, makes it possible to look up a few paths and to pass git an index of only those paths.

use std::cmp::Ordering;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use cleveragents_domain::TreePath;

const SIGNATURE: &[u8; 4] = b"DIRC";

/// Length of the header: signature, version and number of entries.
const HEADER_BYTES: usize = 12;

/// Length of an entry's file metadata, which precedes the object name.
const METADATA_BYTES: usize = 40;

/// Flag of an entry with two additional bytes of flags.
const EXTENDED: u16 = 0x4000;

/// Number of bytes in the first read of an entry; enough for most paths.
const FIRST_READ_BYTES: usize = 256;

/// Start of the list. One byte with the length of object names follows.
const MAGIC: &[u8; 7] = b"CAindex";
const LIST_HEADER_BYTES: usize = 8;

fn unreadable() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the index cannot be read")
}

fn list_path(index: &Path) -> PathBuf {
    index.with_extension("offsets")
}

/// Parses bytes that start with an entry. Returns the length of the entry's fixed part, and its name. `None` if the
/// bytes end within the entry.
fn parse(bytes: &[u8], name_length: usize) -> Option<(usize, &[u8])> {
    let flags_at = METADATA_BYTES + name_length;
    let flags = bytes.get(flags_at..flags_at + 2)?;
    let is_extended = u16::from_be_bytes([flags[0], flags[1]]) & EXTENDED != 0;
    let fixed = flags_at + if is_extended { 4 } else { 2 };
    let after_fixed = bytes.get(fixed..)?;
    let end = after_fixed.iter().position(|byte| *byte == 0)?;
    Some((fixed, &after_fixed[..end]))
}

/// Length of an entry with its padding of one to eight zeros after the name.
const fn padded(length: usize) -> usize {
    (length + 8) & !7
}

/// Writes the list for an index with object names of `name_length` bytes. Writes no list if the entries cannot be read
/// one by one, for example because their paths are compressed; git then reads the whole index.
pub(crate) fn write_list(index: &Path, name_length: u8) -> io::Result<()> {
    let bytes = std::fs::read(index)?;
    let Some(offsets) = offsets(&bytes, usize::from(name_length)) else {
        return Ok(());
    };
    let mut list = Vec::with_capacity(LIST_HEADER_BYTES + offsets.len() * 4);
    list.extend_from_slice(MAGIC);
    list.push(name_length);
    for offset in offsets {
        list.extend_from_slice(&offset.to_le_bytes());
    }
    std::fs::write(list_path(index), list)
}

fn offsets(bytes: &[u8], name_length: usize) -> Option<Vec<u32>> {
    let head = bytes.get(..HEADER_BYTES)?.strip_prefix(SIGNATURE)?;
    let number = |at: usize| Some(u32::from_be_bytes(head.get(at..at + 4)?.try_into().ok()?));
    if !matches!(number(0)?, 2 | 3) {
        return None;
    }
    let count = number(4)?;
    let mut offsets = Vec::with_capacity(bytes.len().min(count as usize));
    let mut at = HEADER_BYTES;
    for _ in 0..count {
        offsets.push(u32::try_from(at).ok()?);
        let (fixed, name) = parse(bytes.get(at..)?, name_length)?;
        at += padded(fixed + name.len());
    }
    Some(offsets)
}

/// Bytes of an index with only these paths and the attribute files that apply to them. `None` if a path is missing, or
/// if the index has no list.
pub(crate) fn filter_index<'a>(
    index: &Path,
    paths: impl IntoIterator<Item = &'a TreePath>,
) -> io::Result<Option<Vec<u8>>> {
    let Some(entries) = IndexEntries::open(index)? else {
        return Ok(None);
    };
    // Sorted as git requires, without duplicates.
    let mut selected = std::collections::BTreeMap::new();
    for path in paths {
        let Some(entry) = entries.find(path.as_bytes())? else {
            return Ok(None);
        };
        selected.insert(path.as_bytes().to_vec(), Some(entry));
        let mut folder = path.parent();
        loop {
            let attributes = match &folder {
                Some(folder) => [folder.as_bytes(), b"/.gitattributes"].concat(),
                None => b".gitattributes".to_vec(),
            };
            if selected.contains_key(&attributes) {
                break;
            }
            let entry = entries.find(&attributes)?;
            selected.insert(attributes, entry);
            match folder {
                Some(near) => folder = near.parent(),
                None => break,
            }
        }
    }
    let found: Vec<Vec<u8>> = selected.into_values().flatten().collect();
    let mut bytes = entries.version;
    let count = u32::try_from(found.len()).map_err(io::Error::other)?;
    bytes.extend_from_slice(&count.to_be_bytes());
    for entry in found {
        bytes.extend(entry);
    }
    // Git accepts zeros in place of a checksum.
    bytes.extend(vec![0; entries.name_length]);
    Ok(Some(bytes))
}

/// An index and its list.
struct IndexEntries {
    index: File,
    list: File,
    count: u64,
    name_length: usize,
    /// The first eight bytes of the index.
    version: Vec<u8>,
}

impl IndexEntries {
    fn open(index: &Path) -> io::Result<Option<Self>> {
        let list = match File::open(list_path(index)) {
            Ok(list) => list,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let length = list.metadata()?.len();
        let mut head = [0; LIST_HEADER_BYTES];
        if length < LIST_HEADER_BYTES as u64 {
            return Ok(None);
        }
        list.read_exact_at(&mut head, 0)?;
        let Some([name_length]) = head.strip_prefix(MAGIC) else {
            return Ok(None);
        };
        let index = File::open(index)?;
        let mut version = vec![0; 8];
        index.read_exact_at(&mut version, 0)?;
        Ok(Some(Self {
            index,
            count: (length - LIST_HEADER_BYTES as u64) / 4,
            list,
            name_length: usize::from(*name_length),
            version,
        }))
    }

    /// The bytes of the entry of a path, padding included.
    fn find(&self, path: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let (mut from, mut to) = (0, self.count);
        while from < to {
            let middle = from + (to - from) / 2;
            let (entry, name) = self.entry(middle)?;
            match entry[name.clone()].cmp(path) {
                Ordering::Less => from = middle + 1,
                Ordering::Greater => to = middle,
                Ordering::Equal => {
                    let mut entry_bytes = entry[..name.end].to_vec();
                    entry_bytes.resize(padded(name.end), 0);
                    return Ok(Some(entry_bytes));
                }
            }
        }
        Ok(None)
    }

    /// Bytes that start with an entry, and the range of its name in them.
    fn entry(&self, number: u64) -> io::Result<(Vec<u8>, std::ops::Range<usize>)> {
        let mut offset = [0; 4];
        self.list
            .read_exact_at(&mut offset, LIST_HEADER_BYTES as u64 + number * 4)?;
        let offset = u64::from(u32::from_le_bytes(offset));
        let mut bytes = vec![0; FIRST_READ_BYTES];
        loop {
            let count = self.index.read_at(&mut bytes, offset)?;
            if let Some((fixed, name)) = parse(&bytes[..count], self.name_length) {
                let name = fixed..fixed + name.len();
                return Ok((bytes, name));
            }
            // Longer than any path that git accepts.
            if count < bytes.len() || bytes.len() > 1 << 20 {
                return Err(unreadable());
            }
            bytes.resize(bytes.len() * 4, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::BaseContent as _;
    use crate::git::{CommittedContent, Git};
    use crate::manifest::PathRecord;
    use crate::objects::Objects;
    use cleveragents_domain::{ContentHash, FileMode};

    fn git(folder: &Path, arguments: &[&str]) -> String {
        let answer = Git::at(folder).try_run(arguments).expect("git runs");
        let errors = String::from_utf8_lossy(&answer.stderr).into_owned();
        assert_eq!(answer.code, Some(0), "{arguments:?}: {errors}");
        String::from_utf8_lossy(&answer.stdout).into_owned()
    }

    fn path(text: &str) -> TreePath {
        TreePath::from_bytes(text).expect("a path")
    }

    /// A repository with attributes in several folders and its files in the index.
    fn repository(format: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let real = folder.path().join("real");
        std::fs::create_dir_all(real.join("sub/deep")).expect("made");
        let option = format!("--object-format={format}");
        git(&real, &["init", "--quiet", &option]);
        std::fs::write(real.join(".gitattributes"), "*.txt eol=lf\n").expect("written");
        std::fs::write(real.join("sub/.gitattributes"), "*.txt eol=crlf\n").expect("written");
        for number in 0..300 {
            let long = "n".repeat(number % 200);
            std::fs::write(real.join(format!("f{number}-{long}.txt")), "a\nb\n").expect("written");
        }
        for name in ["sub/a.txt", "sub/deep/b.txt", "sub/c.bin"] {
            std::fs::write(real.join(name), "a\nb\n").expect("written");
        }
        git(&real, &["add", "--all"]);
        (folder, real)
    }

    #[test]
    fn a_small_index_contains_only_its_paths_and_their_attribute_files() {
        for (format, name_length) in [("sha1", 20), ("sha256", 32)] {
            let (_folder, real) = repository(format);
            let index = real.join(".git/index");
            write_list(&index, name_length).expect("written");
            let complete_list = git(&real, &["ls-files", "--stage"]);
            for number in 0..300 {
                let name = format!("f{number}-{}.txt", "n".repeat(number % 200));
                let paths = [path("sub/deep/b.txt"), path(&name)];
                let bytes = filter_index(&index, &paths).expect("read").expect("found");
                let small = real.join(".git/small");
                std::fs::write(&small, bytes).expect("written");
                let listed = Git::at(&real)
                    .with("GIT_INDEX_FILE", &small)
                    .try_run(&["ls-files", "--stage"])
                    .expect("git runs");
                let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
                let expected: Vec<&str> = complete_list
                    .lines()
                    .filter(|line| {
                        let path = line.split('\t').nth(1).unwrap_or_default();
                        path.ends_with(".gitattributes") || path == name || path == "sub/deep/b.txt"
                    })
                    .collect();
                assert_eq!(listed.lines().collect::<Vec<_>>(), expected, "{format}");
            }
            assert!(
                filter_index(&index, &[path("sub")])
                    .expect("read")
                    .is_none()
            );
        }
    }

    #[test]
    fn an_index_with_compressed_paths_has_no_list() {
        let (_folder, real) = repository("sha1");
        let index = real.join(".git/index");
        git(&real, &["update-index", "--index-version", "4"]);
        write_list(&index, 20).expect("read");
        assert!(!list_path(&index).exists());
        assert!(
            filter_index(&index, &[path("sub/a.txt")])
                .expect("read")
                .is_none()
        );
    }

    /// A damaged file results in an error or in no entry, never in a panic.
    #[test]
    fn a_damaged_list_or_index_is_refused() {
        let (_folder, real) = repository("sha1");
        let index = real.join(".git/index");
        write_list(&index, 20).expect("written");
        let list = std::fs::read(list_path(&index)).expect("there");
        let complete = std::fs::read(&index).expect("there");
        for length in [0, 4, 8, 9, 12, 100] {
            std::fs::write(list_path(&index), &list[..length]).expect("cut");
            drop(filter_index(&index, &[path("sub/a.txt")]));
        }
        std::fs::write(list_path(&index), &list).expect("whole again");
        for length in [0, 4, 12, 100, complete.len() / 2] {
            std::fs::write(&index, &complete[..length]).expect("cut");
            drop(filter_index(&index, &[path("sub/a.txt")]));
            drop(write_list(&index, 20));
            std::fs::write(list_path(&index), &list).expect("whole again");
        }
    }

    /// Original content has the line endings that the attributes of its folder specify, with and without a list.
    #[test]
    fn original_content_is_as_git_wrote_it() {
        for has_list in [true, false] {
            let (folder, real) = repository("sha1");
            let index = real.join(".git/index");
            if has_list {
                write_list(&index, 20).expect("written");
            }
            let mut objects = Objects::open(&folder.path().join("objects")).expect("objects");
            let content = CommittedContent {
                location: &real,
                repository: &folder.path().join("base.git"),
                index: &index,
                temporary: folder.path(),
            };
            let known = |name: &str, text: &str| {
                let hash = ContentHash::of_bytes(b"unknown");
                let known = PathRecord::recorded(FileMode::REGULAR, text.len() as u64, hash);
                (path(name), known)
            };
            let expected = [
                ("f7-nnnnnnn.txt", "a\nb\n"),
                ("sub/c.bin", "a\nb\n"),
                ("sub/deep/b.txt", "a\r\nb\r\n"),
            ];
            let paths: Vec<_> = expected.map(|(name, text)| known(name, text)).into();
            let states = content
                .store_original(&paths, &mut objects)
                .expect("states");
            for ((name, text), state) in expected.iter().zip(states) {
                let hash = state.map(|state| state.hash);
                assert_eq!(hash, Some(ContentHash::of_bytes(text.as_bytes())), "{name}");
            }
        }
    }
}
