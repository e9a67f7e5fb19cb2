//! [`Manifest`]: what every path of a tree was known to hold, and how the system described it then.
//!
//! The manifest lets a walk tell changed files from unchanged ones without reading them. It is a
//! cache beside the history, which is the truth: it carries the position up to which it knows the
//! history, and a path whose description is missing is read again. One line per path, sorted by
//! folder and name, so that one path is found without reading the rest and a folder is compared at
//! once; what is learned later is added in a second file.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufWriter, Read as _, Write};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use cleveragents_domain::{ContentHash, FileKind, FileMode, TreePath};

use crate::beneath::{Root, Stat};
use crate::scan::{Extent, Names, Visitor, inside};

const HEADER: &str = "cleveragents-manifest 1";

/// Begins the last line, which says how many lines there must be.
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
        let count = saved[end + 1..].trim_end().strip_prefix(END);
        let count: usize = count
            .and_then(|count| count.trim().parse().ok())
            .ok_or_else(|| malformed(place))?;
        saved.truncate(end + 1);
        let start = header_end + 1;
        if saved[start..].bytes().filter(|byte| *byte == b'\n').count() != count {
            return Err(malformed(place));
        }
        let mut manifest = Self {
            position,
            saved,
            start,
            ..Self::default()
        };
        manifest.load_additions(place)?;
        Ok(manifest)
    }

    fn lines(&self) -> &str {
        &self.saved[self.start..]
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
        let mut rest = self.lines();
        while !rest.is_empty() {
            // By bytes: the middle may fall into a character.
            let before = rest.as_bytes()[..rest.len() / 2].iter();
            let middle = before.rev().position(|byte| *byte == b'\n');
            let middle = middle.map_or(0, |back| rest.len() / 2 - back);
            let end = rest[middle..]
                .find('\n')
                .map_or(rest.len(), |end| middle + end);
            let line = &rest[middle..end];
            match split(path_field(line)).cmp(&wanted) {
                std::cmp::Ordering::Equal => return parse_line(line)?.1,
                std::cmp::Ordering::Less => rest = &rest[(end + 1).min(rest.len())..],
                std::cmp::Ordering::Greater => rest = &rest[..middle],
            }
        }
        None
    }

    /// Learns what a path holds; `None` when it is gone.
    pub(crate) fn learn(&mut self, path: TreePath, known: Option<Known>) {
        self.unsaved.insert(path.clone());
        self.newer.insert(path, known);
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
        let folder = place.parent().unwrap_or_else(|| Path::new("."));
        let mut file = BufWriter::with_capacity(1 << 18, tempfile::NamedTempFile::new_in(folder)?);
        writeln!(file, "{HEADER} {}", self.position)?;
        for (path, known) in &lines {
            write_line(&mut file, path, Some(known))?;
        }
        // Not synced: after a power cut the last line tells whether the rest is there.
        writeln!(file, "{END} {}", lines.len())?;
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        // The additions first: without them the old text is only behind, never wrong.
        match std::fs::remove_file(additions_of(place)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        file.persist(place).map_err(|error| error.error)?;
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

    /// Compares a tree with what is known of it, without reading content.
    pub(crate) fn compare(&self, root: &Root, extent: Extent<'_>) -> io::Result<Differences> {
        let mut runs: HashMap<&str, &str> = HashMap::new();
        let mut rest = self.lines();
        while !rest.is_empty() {
            let (folder, _) = split(path_field(rest.split('\n').next().unwrap_or_default()));
            let mut end = 0;
            for line in rest.split_inclusive('\n') {
                if split(path_field(line)).0 != folder {
                    break;
                }
                end += line.len();
            }
            runs.insert(folder, &rest[..end]);
            rest = &rest[end..];
        }
        let touched: HashSet<String> = self
            .newer
            .keys()
            .map(|path| split(&path.to_string()).0.to_owned())
            .collect();
        let visitors = crate::scan::walk(root, extent, || Comparison {
            manifest: self,
            runs: &runs,
            touched: &touched,
            found: Differences::default(),
            visited: Vec::new(),
            seen: Vec::new(),
        })?;
        let mut whole = Differences::default();
        let mut visited = HashSet::new();
        let mut seen = HashSet::new();
        for visitor in visitors {
            whole.pending.extend(visitor.found.pending);
            whole.special.extend(visitor.found.special);
            visited.extend(visitor.visited);
            seen.extend(visitor.seen);
        }
        // What was in folders that are gone, and what was learned of paths that are gone.
        for (folder, run) in &runs {
            if !visited.contains(*folder) {
                let lines = run.lines().filter_map(parse_line);
                let gone = lines.filter(|(path, _)| !self.newer.contains_key(path));
                whole.pending.extend(gone);
            }
        }
        for (path, known) in &self.newer {
            if known.is_some() && !seen.contains(path) {
                whole.pending.push((path.clone(), *known));
            }
        }
        whole.pending.sort_by(|left, right| left.0.cmp(&right.0));
        whole.special.sort();
        Ok(whole)
    }
}

/// Where what was learned since the text was written is added.
fn additions_of(place: &Path) -> std::path::PathBuf {
    place.with_extension("new")
}

/// Paths whose description changed, with what was known of them.
#[derive(Debug, Default)]
pub(crate) struct Differences {
    pub(crate) pending: Vec<(TreePath, Option<Known>)>,
    /// Devices, sockets and pipes.
    pub(crate) special: Vec<TreePath>,
}

/// Compares folder by folder.
struct Comparison<'a> {
    manifest: &'a Manifest,
    runs: &'a HashMap<&'a str, &'a str>,
    touched: &'a HashSet<String>,
    found: Differences,
    visited: Vec<String>,
    seen: Vec<TreePath>,
}

impl Visitor for Comparison<'_> {
    fn folder(&mut self, folder: Option<&TreePath>, names: &mut Names) -> io::Result<()> {
        let text = folder.map(ToString::to_string).unwrap_or_default();
        let run = self.runs.get(text.as_str()).copied().unwrap_or_default();
        let has_newer = self.touched.contains(&text);
        let mut lines: HashMap<&str, &str> = HashMap::new();
        let mut in_order = run.lines().peekable();
        for (name, stat) in names.sorted() {
            let plain = plain_name(name);
            let shown = match plain {
                Some(name) => std::borrow::Cow::Borrowed(name),
                None => std::borrow::Cow::Owned(inside(None, name)?.to_string()),
            };
            if has_newer {
                let path = inside(folder, name)?;
                if let Some(known) = self.manifest.newer.get(&path) {
                    if known.is_none_or(|known| !known.is_unchanged(stat)) {
                        self.differ(path.clone(), *known, stat);
                    }
                    self.seen.push(path);
                    continue;
                }
            }
            // Both are nearly always in the same order; what is passed over is kept for later.
            let mut rest = None;
            while let Some(line) = in_order.peek() {
                let (path, facts) = line.split_once('\t').unwrap_or((line, ""));
                let there = split(path).1;
                if there > shown.as_ref() {
                    break;
                }
                in_order.next();
                if there == shown.as_ref() {
                    rest = Some(facts);
                    break;
                }
                lines.insert(there, facts);
            }
            let rest = rest.or_else(|| lines.remove(shown.as_ref()));
            let known = rest.and_then(parse_known);
            if known.is_none_or(|known| !known.is_unchanged(stat)) {
                self.differ(inside(folder, name)?, known, stat);
            }
        }
        let left = in_order
            .filter_map(|line| line.split_once('\t'))
            .map(|(path, facts)| (split(path).1, facts));
        for (name, facts) in lines.into_iter().chain(left) {
            let whole = if text.is_empty() {
                name.to_owned()
            } else {
                format!("{text}/{name}")
            };
            let path: TreePath = whole.parse().map_err(io::Error::other)?;
            if !self.manifest.newer.contains_key(&path) {
                self.found.pending.push((path, parse_known(facts)));
            }
        }
        self.visited.push(text);
        Ok(())
    }
}

impl Comparison<'_> {
    fn differ(&mut self, path: TreePath, known: Option<Known>, stat: &Stat) {
        if stat.mode.is_some() {
            self.found.pending.push((path, known));
        } else {
            if known.is_some() {
                self.found.pending.push((path.clone(), known));
            }
            self.found.special.push(path);
        }
    }
}

/// A name that is the same as text.
fn plain_name(name: &[u8]) -> Option<&str> {
    let is_plain = |byte: &u8| (0x20..0x7f).contains(byte) && *byte != b'\\';
    name.iter()
        .all(is_plain)
        .then(|| std::str::from_utf8(name).ok())?
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
