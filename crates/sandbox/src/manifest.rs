//! [`Manifest`]: what every path of a tree was known to hold, and how the system described it then.
//!
//! The manifest lets a walk tell changed files from unchanged ones without reading them. It is a
//! cache beside the history, which is the truth: it carries the position up to which it knows the
//! history, and a path whose description is missing is read again. One line per path, sorted, so
//! that one path is found without reading the rest.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use cleveragents_domain::{ContentHash, FileKind, FileMode, TreePath};

use crate::beneath::Stat;

const HEADER: &str = "cleveragents-manifest 1";

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
    modified: i64,
    changed: i64,
    inode: u64,
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

    /// Whether a look would be needed to be sure of it.
    pub(crate) const fn is_settled(&self) -> bool {
        self.changed != UNKNOWN || matches!(self.mode.kind(), FileKind::Directory)
    }

    fn parse(fields: &[&str]) -> Option<Self> {
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

/// Every path of a tree.
#[derive(Debug, Default)]
pub(crate) struct Manifest {
    /// How many entries of the history it knows.
    pub(crate) position: u64,
    pub(crate) entries: HashMap<TreePath, Known>,
}

fn malformed(place: &Path) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("`{}` is not a manifest", place.display()),
    )
}

fn parse_line(line: &str) -> Option<(TreePath, Known)> {
    let mut fields = line.split('\t');
    let path = fields.next()?.parse().ok()?;
    let rest: Vec<&str> = fields.collect();
    Some((path, Known::parse(&rest)?))
}

impl Manifest {
    pub(crate) fn load(place: &Path) -> io::Result<Self> {
        let mut text = String::new();
        File::open(place)?.read_to_string(&mut text)?;
        let mut lines = text.lines();
        let position = lines
            .next()
            .and_then(parse_header)
            .ok_or_else(|| malformed(place))?;
        let mut entries = HashMap::with_capacity(text.len() / 96);
        for line in lines {
            let (path, known) = parse_line(line).ok_or_else(|| malformed(place))?;
            entries.insert(path, known);
        }
        Ok(Self { position, entries })
    }

    pub(crate) fn save(&self, place: &Path) -> io::Result<()> {
        let mut lines: Vec<(String, &Known)> = self
            .entries
            .iter()
            .map(|(path, known)| (path.to_string(), known))
            .collect();
        lines.sort_unstable_by(|left, right| left.0.cmp(&right.0));
        let folder = place.parent().unwrap_or_else(|| Path::new("."));
        let mut file = BufWriter::new(tempfile::NamedTempFile::new_in(folder)?);
        writeln!(file, "{HEADER} {}", self.position)?;
        for (path, known) in lines {
            write!(
                file,
                "{path}\t{:o}\t{}\t{}\t{}\t{}\t",
                known.mode.raw(),
                known.size,
                known.modified,
                known.changed,
                known.inode
            )?;
            match known.hash {
                Some(hash) => writeln!(file, "{hash}")?,
                None => writeln!(file, "-")?,
            }
        }
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.as_file().sync_data()?;
        file.persist(place).map_err(|error| error.error)?;
        Ok(())
    }

    /// One path of a saved manifest, and the position it knows, at a cost that hardly grows with it.
    pub(crate) fn look_up(place: &Path, path: &TreePath) -> io::Result<(u64, Option<Known>)> {
        let file = File::open(place)?;
        let header = line_from(&file, 0)?;
        let position = parse_header(&header).ok_or_else(|| malformed(place))?;
        let wanted = path.to_string();
        let (mut low, mut high) = (header.len() as u64 + 1, file.metadata()?.len());
        // The line that starts at or after `low` and before `high` is searched for.
        while low < high {
            let middle = low + (high - low) / 2;
            let start = line_start(&file, middle, low)?;
            let line = line_from(&file, start)?;
            let name = line.split('\t').next().unwrap_or_default();
            match name.cmp(&wanted) {
                std::cmp::Ordering::Equal => {
                    let (_, known) = parse_line(&line).ok_or_else(|| malformed(place))?;
                    return Ok((position, Some(known)));
                }
                std::cmp::Ordering::Less => low = start + line.len() as u64 + 1,
                std::cmp::Ordering::Greater => high = start,
            }
        }
        Ok((position, None))
    }
}

fn parse_header(line: &str) -> Option<u64> {
    line.strip_prefix(HEADER)?.trim().parse().ok()
}

/// Where the line that holds a byte begins, not before `floor`.
fn line_start(file: &File, byte: u64, floor: u64) -> io::Result<u64> {
    let mut end = byte;
    let mut buffer = [0; 512];
    while end > floor {
        let from = end.saturating_sub(buffer.len() as u64).max(floor);
        let part = &mut buffer[..usize::try_from(end - from).unwrap_or(0)];
        file.read_exact_at(part, from)?;
        if let Some(at) = part.iter().rposition(|byte| *byte == b'\n') {
            return Ok(from + at as u64 + 1);
        }
        end = from;
    }
    Ok(floor)
}

/// The line that begins at a byte, without its end.
fn line_from(file: &File, start: u64) -> io::Result<String> {
    let mut line = Vec::new();
    let mut buffer = [0; 512];
    loop {
        let count = file.read_at(&mut buffer, start + line.len() as u64)?;
        let part = &buffer[..count];
        match part.iter().position(|byte| *byte == b'\n') {
            Some(at) => line.extend_from_slice(&part[..at]),
            None if count > 0 => {
                line.extend_from_slice(part);
                continue;
            }
            None => {}
        }
        return String::from_utf8(line)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error));
    }
}

#[cfg(test)]
mod tests {
    use super::{Known, Manifest};
    use cleveragents_domain::{ContentHash, FileMode, TreePath};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_path_is_found_as_it_was_saved(
            paths in prop::collection::hash_set("[a-c\u{e9}\n\t\\\\]{1,5}(/[a-d]{1,3}){0,3}", 0..60),
            absent in "[a-d]{1,4}",
        ) {
            let folder = tempfile::tempdir().expect("a folder");
            let place = folder.path().join("manifest");
            let entries = paths
                .iter()
                .map(|path| {
                    let known = Known::recorded(FileMode::REGULAR, path.len() as u64, ContentHash::of(path.as_bytes()));
                    (TreePath::from_bytes(path.as_str()).expect("a path"), known)
                })
                .collect();
            let manifest = Manifest { position: 7, entries };
            manifest.save(&place).expect("saved");
            let again = Manifest::load(&place).expect("loaded");
            prop_assert_eq!(again.position, 7);
            prop_assert_eq!(&again.entries, &manifest.entries);
            for (path, known) in &manifest.entries {
                prop_assert_eq!(Manifest::look_up(&place, path).expect("read"), (7, Some(*known)));
            }
            let absent = TreePath::from_bytes(absent).expect("a path");
            let expected = manifest.entries.get(&absent).copied();
            prop_assert_eq!(Manifest::look_up(&place, &absent).expect("read"), (7, expected));
        }
    }
}
