//! [`Manifest`]: what every path of a tree was known to hold, and how the system described it then.
//!
//! The manifest lets a walk tell changed files from unchanged ones without reading them. It is a
//! cache beside the history, which is the truth: it carries the position up to which it knows the
//! history, and a path whose description is missing is read again. One line per path, sorted by
//! folder and name, so that one path is found without reading the rest and a folder is compared at
//! once ([`compare`]); what is learned later is added in a second file.

mod compare;
mod first;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read as _, Write};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use cleveragents_domain::{ContentHash, FileKind, FileMode, TreePath};

use crate::beneath::Stat;

pub(crate) use first::write_first;

const HEADER: &str = "cleveragents-manifest 1";

/// Begins the last line, which says how many lines there must be, and how many bytes before it.
const END: &str = "cleveragents-manifest-end";

/// Stands for the facts of a path that is gone.
const GONE: &str = "gone";

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

/// Every path of a tree: a sorted text as it was saved, and what was learned since.
#[derive(Debug, Default)]
pub(crate) struct Manifest {
    /// How many entries of the history it knows.
    pub(crate) position: u64,
    /// One line per path, by folder and then by name, after a first line.
    saved: String,
    /// Where the lines begin.
    start: usize,
    /// How many there are.
    count: usize,
    /// What replaces lines of it; `None` for a path that is gone.
    newer: HashMap<TreePath, Option<Known>>,
    /// Paths of `newer` that the file beside the saved text does not hold yet.
    unsaved: HashSet<TreePath>,
    /// Whether that file ends in the middle of a line, and must be written anew.
    is_torn: bool,
}

/// When so many paths were learned, the text is written anew instead of added to.
const LONGEST_ADDITION: usize = 4096;

fn malformed(place: &Path) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("`{}` is not a manifest", place.display()),
    )
}

/// Folder and name of a path in its text form.
fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

fn path_field(line: &str) -> &str {
    line.split_once('\t').map_or(line, |(path, _)| path)
}

/// Where the line around a byte begins and ends.
fn line_around(lines: &str, at: usize) -> (usize, usize) {
    // By bytes: the place may fall into a character.
    let bytes = lines.as_bytes();
    let before = bytes[..at].iter().rev();
    let start = before.take_while(|byte| **byte != b'\n').count();
    let after = bytes[at..].iter();
    let end = after.take_while(|byte| **byte != b'\n').count();
    (at - start, at + end)
}

fn parse_line(line: &str) -> Option<(TreePath, Option<Known>)> {
    let (path, rest) = line.split_once('\t')?;
    let path = path.parse().ok()?;
    if rest == GONE {
        return Some((path, None));
    }
    Some((path, Some(parse_known(rest)?)))
}

/// The facts of a line. `None` for the mark of a path that is gone, and for what is no fact.
fn parse_known(rest: &str) -> Option<Known> {
    let mut fields = rest.split('\t');
    let mut next = || fields.next();
    let all = [next()?, next()?, next()?, next()?, next()?, next()?];
    Known::parse(&all)
}

fn write_line(file: &mut impl Write, path: &str, known: Option<&Known>) -> io::Result<()> {
    let Some(known) = known else {
        return writeln!(file, "{path}\t{GONE}");
    };
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
        Some(hash) => writeln!(file, "{hash}"),
        None => writeln!(file, "-"),
    }
}

/// Writes the text of a manifest, in place of an older one and what was added to it.
fn write_whole<'a>(
    place: &Path,
    position: u64,
    count: usize,
    lines: impl IntoIterator<Item = &'a [u8]>,
) -> io::Result<()> {
    let folder = place.parent().unwrap_or_else(|| Path::new("."));
    let mut text = format!("{HEADER} {position}\n").into_bytes();
    for part in lines {
        text.extend_from_slice(part);
    }
    // Not synced: after a power cut the last line tells whether the rest is there.
    let length = text.len();
    writeln!(text, "{END} {count} {length}")?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(&text)?;
    // The additions first: without them the old text is only behind, never wrong.
    match std::fs::remove_file(additions_of(place)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    file.persist(place).map_err(|error| error.error)?;
    Ok(())
}

impl Manifest {
    /// A manifest of these paths, that nothing is saved of yet.
    pub(crate) fn of(entries: impl IntoIterator<Item = (TreePath, Known)>) -> Self {
        let newer: HashMap<_, _> = entries
            .into_iter()
            .map(|(path, known)| (path, Some(known)))
            .collect();
        Self {
            unsaved: newer.keys().cloned().collect(),
            newer,
            ..Self::default()
        }
    }

    pub(crate) fn load(place: &Path) -> io::Result<Self> {
        let mut saved = String::new();
        File::open(place)?.read_to_string(&mut saved)?;
        let header_end = saved.find('\n').ok_or_else(|| malformed(place))?;
        let position = parse_header(&saved[..header_end]).ok_or_else(|| malformed(place))?;
        let end = saved
            .trim_end_matches('\n')
            .rfind('\n')
            .ok_or_else(|| malformed(place))?;
        let told = saved[end + 1..].trim_end().strip_prefix(END);
        let (count, length): (usize, usize) = told
            .and_then(|told| told.trim().split_once(' '))
            .and_then(|(count, length)| Some((count.parse().ok()?, length.parse().ok()?)))
            .ok_or_else(|| malformed(place))?;
        saved.truncate(end + 1);
        if saved.len() != length {
            return Err(malformed(place));
        }
        let start = header_end + 1;
        let mut manifest = Self {
            position,
            saved,
            start,
            count,
            ..Self::default()
        };
        manifest.load_additions(place)?;
        Ok(manifest)
    }

    fn lines(&self) -> &str {
        &self.saved[self.start..]
    }

    /// The lines from the first one of a folder on; those of the folder stand together.
    fn lines_from(&self, folder: &str) -> &str {
        let lines = self.lines();
        let (mut low, mut high) = (0, lines.len());
        while low < high {
            let (start, end) = line_around(lines, low + (high - low) / 2);
            if split(path_field(&lines[start..end])).0 < folder {
                low = (end + 1).min(high);
            } else {
                high = start;
            }
        }
        &lines[low..]
    }

    /// What was added beside the text. The end of a line may be missing after a crash; what such a
    /// line told is read from the tree again.
    fn load_additions(&mut self, place: &Path) -> io::Result<()> {
        let additions = match std::fs::read_to_string(additions_of(place)) {
            Ok(additions) => additions,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        for line in additions.split_inclusive('\n') {
            let Some(line) = line.strip_suffix('\n') else {
                self.is_torn = true;
                break;
            };
            if let Some(position) = parse_header(line) {
                self.position = position;
            } else if let Some((path, known)) = parse_line(line) {
                self.newer.insert(path, known);
            } else {
                self.is_torn = true;
                break;
            }
        }
        Ok(())
    }

    /// What is known of a path.
    pub(crate) fn get(&self, path: &TreePath) -> Option<Known> {
        if let Some(known) = self.newer.get(path) {
            return *known;
        }
        let wanted = path.to_string();
        let wanted = split(&wanted);
        let lines = self.lines();
        let (mut low, mut high) = (0, lines.len());
        while low < high {
            let (start, end) = line_around(lines, low + (high - low) / 2);
            let line = &lines[start..end];
            match split(path_field(line)).cmp(&wanted) {
                std::cmp::Ordering::Equal => return parse_line(line)?.1,
                std::cmp::Ordering::Less => low = (end + 1).min(high),
                std::cmp::Ordering::Greater => high = start,
            }
        }
        None
    }

    /// Learns what a path holds; `None` when it is gone.
    pub(crate) fn learn(&mut self, path: TreePath, known: Option<Known>) {
        self.unsaved.insert(path.clone());
        self.newer.insert(path, known);
    }

    /// Learns what paths hold, up to a position of the history, in a saved manifest; reads as little of
    /// it as possible.
    pub(crate) fn learn_at(
        place: &Path,
        learned: Vec<(TreePath, Option<Known>)>,
        position: u64,
    ) -> io::Result<()> {
        let mut manifest = Self::default();
        manifest.load_additions(place)?;
        let is_little = manifest.newer.len() + learned.len() <= LONGEST_ADDITION;
        if manifest.is_torn || !is_little || !place.exists() {
            manifest = Self::load(place)?;
        }
        for (path, known) in learned {
            manifest.learn(path, known);
        }
        manifest.position = position;
        manifest.save(place)
    }

    /// Every path, in no order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (TreePath, Known)> + '_ {
        let saved = self
            .lines()
            .lines()
            .filter_map(parse_line)
            .filter(|(path, _)| !self.newer.contains_key(path));
        let newer = self
            .newer
            .iter()
            .map(|(path, known)| (path.clone(), *known));
        saved
            .chain(newer)
            .filter_map(|(path, known)| Some((path, known?)))
    }

    /// Saves what was learned: as an addition when it is little, else as a whole.
    pub(crate) fn save(&mut self, place: &Path) -> io::Result<()> {
        let is_little = self.newer.len() <= LONGEST_ADDITION && place.exists() && !self.is_torn;
        if !is_little {
            return self.save_whole(place);
        }
        let mut lines = Vec::new();
        for path in self.unsaved.drain() {
            let known = self.newer.get(&path).copied().flatten();
            write_line(&mut lines, &path.to_string(), known.as_ref())?;
        }
        writeln!(lines, "{HEADER} {}", self.position)?;
        let mut file = File::options()
            .create(true)
            .append(true)
            .open(additions_of(place))?;
        file.write_all(&lines)
    }

    fn save_whole(&mut self, place: &Path) -> io::Result<()> {
        let mut lines: Vec<(String, Known)> = self
            .entries()
            .map(|(path, known)| (path.to_string(), known))
            .collect();
        lines.sort_unstable_by(|left, right| split(&left.0).cmp(&split(&right.0)));
        let mut text = Vec::with_capacity(lines.len() * 128);
        for (path, known) in &lines {
            write_line(&mut text, path, Some(known))?;
        }
        write_whole(place, self.position, lines.len(), [text.as_slice()])?;
        self.unsaved.clear();
        self.is_torn = false;
        Ok(())
    }

    /// One path of a saved manifest, and the position it knows, at a cost that hardly grows with it.
    pub(crate) fn look_up(place: &Path, path: &TreePath) -> io::Result<(u64, Option<Known>)> {
        let file = File::open(place)?;
        let header = line_from(&file, 0)?;
        let position = parse_header(&header).ok_or_else(|| malformed(place))?;
        let mut additions = Self {
            position,
            ..Self::default()
        };
        additions.load_additions(place)?;
        if let Some(known) = additions.newer.get(path) {
            return Ok((additions.position, *known));
        }
        let wanted = path.to_string();
        let wanted = split(&wanted);
        let (mut low, mut high) = (header.len() as u64 + 1, end_of_lines(&file)?);
        // The line that starts at or after `low` and before `high` is searched for.
        while low < high {
            let middle = low + (high - low) / 2;
            let start = line_start(&file, middle, low)?;
            let line = line_from(&file, start)?;
            match split(path_field(&line)).cmp(&wanted) {
                std::cmp::Ordering::Equal => {
                    let (_, known) = parse_line(&line).ok_or_else(|| malformed(place))?;
                    return Ok((additions.position, known));
                }
                std::cmp::Ordering::Less => low = start + line.len() as u64 + 1,
                std::cmp::Ordering::Greater => high = start,
            }
        }
        Ok((additions.position, None))
    }
}

/// Where what was learned since the text was written is added.
fn additions_of(place: &Path) -> std::path::PathBuf {
    place.with_extension("new")
}

fn parse_header(line: &str) -> Option<u64> {
    line.strip_prefix(HEADER)?.trim().parse().ok()
}

/// Where the last line begins, which is none of a path.
fn end_of_lines(file: &File) -> io::Result<u64> {
    let length = file.metadata()?.len();
    line_start(file, length.saturating_sub(1), 0)
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
    use std::collections::HashMap;

    fn known(path: &str) -> Known {
        Known::recorded(
            FileMode::REGULAR,
            path.len() as u64,
            ContentHash::of(path.as_bytes()),
        )
    }

    proptest! {
        #[test]
        fn every_path_is_found_as_it_was_saved(
            paths in prop::collection::hash_set("[a-c\u{e9}\n\t\\\\-]{1,5}(/[a-d-]{1,3}){0,3}", 0..60),
            added in prop::collection::vec(("[a-c]{1,2}(/[a-d]{1,2}){0,2}", any::<bool>()), 0..20),
            absent in "[a-d]{1,4}",
        ) {
            let folder = tempfile::tempdir().expect("a folder");
            let place = folder.path().join("manifest");
            let mut expected: HashMap<TreePath, Known> = paths
                .iter()
                .map(|path| (TreePath::from_bytes(path.as_str()).expect("a path"), known(path)))
                .collect();
            let mut manifest = Manifest::of(expected.clone());
            manifest.save(&place).expect("saved");
            let mut manifest = Manifest::load(&place).expect("loaded");
            for (path, is_there) in &added {
                let at = TreePath::from_bytes(path.as_str()).expect("a path");
                let fact = is_there.then(|| known("something else"));
                manifest.learn(at.clone(), fact);
                match fact {
                    Some(fact) => expected.insert(at, fact),
                    None => expected.remove(&at),
                };
            }
            manifest.position = 7;
            manifest.save(&place).expect("added");
            let again = Manifest::load(&place).expect("loaded");
            prop_assert_eq!(again.position, 7);
            prop_assert_eq!(&again.entries().collect::<HashMap<_, _>>(), &expected);
            let absent = TreePath::from_bytes(absent).expect("a path");
            for path in expected.keys().chain([&absent]) {
                let fact = expected.get(path).copied();
                prop_assert_eq!(again.get(path), fact);
                prop_assert_eq!(Manifest::look_up(&place, path).expect("read"), (7, fact));
            }
        }
    }

    #[test]
    fn an_addition_that_was_cut_short_is_not_believed() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join("manifest");
        let path: TreePath = "a/b".parse().expect("a path");
        Manifest::of([(path.clone(), known("a"))])
            .save(&place)
            .expect("saved");
        let mut manifest = Manifest::load(&place).expect("loaded");
        manifest.learn(path.clone(), Some(known("much longer")));
        manifest.position = 3;
        manifest.save(&place).expect("added");
        let additions = super::additions_of(&place);
        let text = std::fs::read_to_string(&additions).expect("there");
        std::fs::write(&additions, &text[..20]).expect("cut");
        let mut cut = Manifest::load(&place).expect("loaded");
        assert_eq!((cut.position, cut.get(&path)), (0, Some(known("a"))));
        cut.learn(path.clone(), None);
        cut.save(&place).expect("written anew");
        assert_eq!(Manifest::load(&place).expect("loaded").get(&path), None);
    }
}
