//! [`Manifest`]: recorded state and metadata of each path of a tree.
//!
//! With the manifest, a scan recognizes unchanged files without reading them. The manifest is a cache; the history is
//! authoritative. It stores the number of history entries that it includes. A path without metadata is read again. A
//! saved [`table`] contains all paths; later updates are appended as lines to a second file.

mod compare;
mod initial;
mod path_record;
mod table;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use cleveragents_domain::TreePath;

pub(crate) use initial::{write_first, write_original};
pub(crate) use path_record::PathRecord;
use table::{Folder, Table, encode, folder_of};

/// Prefix of the line with the position in the history.
const POSITION: &str = "position";

/// Marks a path that does not exist any more.
const REMOVED: &str = "gone";

/// All paths of a tree: the saved table, and later updates.
#[derive(Debug, Default)]
pub(crate) struct Manifest {
    /// Number of history entries that it includes.
    pub(crate) position: u64,
    saved: Table<Vec<u8>>,
    /// Replaces rows of the table; `None` for a path that does not exist any more.
    newer: HashMap<TreePath, Option<PathRecord>>,
    /// Paths of `newer` that the additions file does not contain yet.
    unsaved: HashSet<TreePath>,
    /// Whether the additions file ends in the middle of a line and must be rewritten.
    is_torn: bool,
}

/// Maximum number of updates that are appended. With more, the table is rewritten.
const MAX_ADDITIONS: usize = 4096;

/// Maximum number of paths that are looked up one by one. For more paths, reading the whole table is cheaper.
const MAX_SINGLE_LOOKUPS: usize = 256;

/// A line of the additions file.
enum Line {
    Position(u64),
    Path(TreePath, Option<PathRecord>),
}

fn parse_line(line: &str) -> Option<Line> {
    let (first, rest) = line.split_once('\t')?;
    // A line with an empty path contains the position.
    if first.is_empty() {
        let position = rest.strip_prefix(POSITION)?.trim_start().parse().ok()?;
        return Some(Line::Position(position));
    }
    let path = first.parse().ok()?;
    if rest == REMOVED {
        return Some(Line::Path(path, None));
    }
    let mut fields = rest.split('\t');
    let mut next = || fields.next();
    let values = [next()?, next()?, next()?, next()?, next()?, next()?];
    Some(Line::Path(path, Some(PathRecord::parse(&values)?)))
}

fn write_line(
    file: &mut impl Write,
    path: &TreePath,
    known: Option<&PathRecord>,
) -> io::Result<()> {
    let Some(known) = known else {
        return writeln!(file, "{path}\t{REMOVED}");
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

/// Writes the table of a manifest; replaces an older table and removes its additions.
fn write_table(place: &Path, position: u64, folders: Vec<Folder>) -> io::Result<()> {
    let bytes = encode(position, folders);
    // Removes the additions first: without them, the old table is out of date but consistent.
    match std::fs::remove_file(additions_of(place)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    table::replace(place, &bytes)
}

impl Manifest {
    /// An unsaved manifest of these paths.
    #[cfg(test)]
    fn from_entries(entries: impl IntoIterator<Item = (TreePath, PathRecord)>) -> Self {
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
        let saved = Table::load(place)?;
        let mut manifest = Self {
            position: saved.position(),
            saved,
            ..Self::default()
        };
        manifest.load_additions(place)?;
        Ok(manifest)
    }

    /// Loads the additions file. After a crash its last line may be incomplete; the next scan reads that path again.
    fn load_additions(&mut self, place: &Path) -> io::Result<()> {
        let additions = match std::fs::read_to_string(additions_of(place)) {
            Ok(additions) => additions,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        for line in additions.split_inclusive('\n') {
            match line.strip_suffix('\n').and_then(parse_line) {
                Some(Line::Position(position)) => self.position = position,
                Some(Line::Path(path, known)) => {
                    self.newer.insert(path, known);
                }
                None => {
                    self.is_torn = true;
                    break;
                }
            }
        }
        Ok(())
    }

    /// Recorded state of a path.
    pub(crate) fn get(&self, path: &TreePath) -> io::Result<Option<PathRecord>> {
        match self.newer.get(path) {
            Some(known) => Ok(*known),
            None => self.saved.find(path),
        }
    }

    /// Records the state of a path; `None` if it does not exist any more.
    pub(crate) fn learn(&mut self, path: TreePath, known: Option<PathRecord>) {
        self.unsaved.insert(path.clone());
        self.newer.insert(path, known);
    }

    /// Records states of paths in a saved manifest, which then includes the history up to `position`. Loads the table
    /// only if it has to be rewritten.
    pub(crate) fn learn_at(
        place: &Path,
        learned: Vec<(TreePath, Option<PathRecord>)>,
        position: u64,
    ) -> io::Result<()> {
        let mut manifest = Self::default();
        manifest.load_additions(place)?;
        let can_append = manifest.newer.len() + learned.len() <= MAX_ADDITIONS;
        if manifest.is_torn || !can_append || !place.exists() {
            manifest = Self::load(place)?;
        }
        for (path, known) in learned {
            manifest.learn(path, known);
        }
        manifest.position = position;
        manifest.save(place)
    }

    /// All paths, unordered.
    pub(crate) fn entries(&self) -> io::Result<Vec<(TreePath, PathRecord)>> {
        let mut entries = Vec::new();
        for folder in 0..self.saved.folders() {
            let rows = self.saved.entries_of(folder)?.into_iter();
            entries.extend(rows.filter(|(path, _)| !self.newer.contains_key(path)));
        }
        let newer = self.newer.iter();
        entries.extend(newer.filter_map(|(path, known)| Some((path.clone(), (*known)?))));
        Ok(entries)
    }

    /// Saves the updates: appends up to `MAX_ADDITIONS`, rewrites the table for more.
    pub(crate) fn save(&mut self, place: &Path) -> io::Result<()> {
        let can_append = self.newer.len() <= MAX_ADDITIONS && place.exists() && !self.is_torn;
        if !can_append {
            return self.save_whole(place);
        }
        let mut lines = Vec::new();
        for path in self.unsaved.drain() {
            let known = self.newer.get(&path).copied().flatten();
            write_line(&mut lines, &path, known.as_ref())?;
        }
        writeln!(lines, "\t{POSITION} {}", self.position)?;
        let mut file = File::options()
            .create(true)
            .append(true)
            .open(additions_of(place))?;
        file.write_all(&lines)
    }

    fn save_whole(&mut self, place: &Path) -> io::Result<()> {
        let mut by_folder: BTreeMap<Vec<u8>, Vec<(TreePath, PathRecord)>> = BTreeMap::new();
        for (path, known) in self.entries()? {
            let folder = by_folder.entry(folder_of(&path).to_vec()).or_default();
            folder.push((path, known));
        }
        let mut folders = Vec::with_capacity(by_folder.len());
        for (path, mut entries) in by_folder {
            entries.sort_unstable_by(|left, right| left.0.name().cmp(right.0.name()));
            let mut folder = Folder::new(&path);
            for (path, known) in &entries {
                folder.push(path.name(), *known)?;
            }
            folders.push(folder);
        }
        write_table(place, self.position, folders)?;
        self.unsaved.clear();
        self.is_torn = false;
        Ok(())
    }

    /// Position in the history of a saved manifest.
    pub(crate) fn position_at(place: &Path) -> io::Result<u64> {
        let mut additions = Self {
            position: Table::open(place)?.position(),
            ..Self::default()
        };
        additions.load_additions(place)?;
        Ok(additions.position)
    }

    /// Looks up paths in a saved manifest. For few paths, the cost hardly depends on the size of the manifest.
    pub(crate) fn look_up(place: &Path, paths: &[TreePath]) -> io::Result<Vec<Option<PathRecord>>> {
        if paths.len() > MAX_SINGLE_LOOKUPS {
            let manifest = Self::load(place)?;
            return paths.iter().map(|path| manifest.get(path)).collect();
        }
        let table = Table::open(place)?;
        let mut additions = Self::default();
        additions.load_additions(place)?;
        let look_up_one = |path| match additions.newer.get(path) {
            Some(known) => Ok(*known),
            None => table.find(path),
        };
        paths.iter().map(look_up_one).collect()
    }
}

/// Path of the file with updates since the table was written.
fn additions_of(place: &Path) -> std::path::PathBuf {
    place.with_extension("new")
}

#[cfg(test)]
mod tests {
    use super::{Manifest, PathRecord};
    use cleveragents_domain::{ContentHash, FileMode, TreePath};
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn known(path: &str) -> PathRecord {
        PathRecord::recorded(
            FileMode::REGULAR,
            path.len() as u64,
            ContentHash::of_bytes(path.as_bytes()),
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
            let mut expected: HashMap<TreePath, PathRecord> = paths
                .iter()
                .map(|path| (TreePath::from_bytes(path.as_str()).expect("a path"), known(path)))
                .collect();
            let mut manifest = Manifest::from_entries(expected.clone());
            manifest.save(&place).expect("saved");
            let mut manifest = Manifest::load(&place).expect("loaded");
            for (path, exists) in &added {
                let at = TreePath::from_bytes(path.as_str()).expect("a path");
                let record = exists.then(|| known("something else"));
                manifest.learn(at.clone(), record);
                match record {
                    Some(record) => expected.insert(at, record),
                    None => expected.remove(&at),
                };
            }
            manifest.position = 7;
            manifest.save(&place).expect("added");
            let reloaded = Manifest::load(&place).expect("loaded");
            prop_assert_eq!(reloaded.position, 7);
            prop_assert_eq!(Manifest::position_at(&place).expect("read"), 7);
            let entries = reloaded.entries().expect("read");
            prop_assert_eq!(&entries.into_iter().collect::<HashMap<_, _>>(), &expected);
            let absent = TreePath::from_bytes(absent).expect("a path");
            for path in expected.keys().chain([&absent]) {
                let record = expected.get(path).copied();
                prop_assert_eq!(reloaded.get(path).expect("read"), record);
                let looked_up = Manifest::look_up(&place, std::slice::from_ref(path));
                prop_assert_eq!(looked_up.expect("read"), [record]);
            }
        }
    }

    #[test]
    fn a_truncated_addition_is_ignored() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join("manifest");
        let path: TreePath = "a/b".parse().expect("a path");
        Manifest::from_entries([(path.clone(), known("a"))])
            .save(&place)
            .expect("saved");
        let mut manifest = Manifest::load(&place).expect("loaded");
        manifest.learn(path.clone(), Some(known("much longer")));
        manifest.position = 3;
        manifest.save(&place).expect("added");
        let additions = super::additions_of(&place);
        let text = std::fs::read_to_string(&additions).expect("there");
        std::fs::write(&additions, &text[..20]).expect("truncated");
        let mut truncated = Manifest::load(&place).expect("loaded");
        let record = truncated.get(&path).expect("read");
        assert_eq!((truncated.position, record), (0, Some(known("a"))));
        truncated.learn(path.clone(), None);
        truncated.save(&place).expect("written");
        let reloaded = Manifest::load(&place).expect("loaded");
        assert_eq!(reloaded.get(&path).expect("read"), None);
    }

    /// A damaged table is refused or read, but no read goes beyond its end.
    #[test]
    fn a_damaged_table_is_refused_or_read_but_never_beyond_its_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join("manifest");
        let paths: Vec<TreePath> = ["a/b", "a/c", "d", "e/f/g"]
            .map(|path| path.parse().expect("a path"))
            .into();
        Manifest::from_entries(paths.iter().map(|path| (path.clone(), known("x"))))
            .save(&place)
            .expect("saved");
        let complete = std::fs::read(&place).expect("bytes");
        let is_refused = |bytes: &[u8]| {
            std::fs::write(&place, bytes).expect("written");
            let looked_up = Manifest::look_up(&place, &paths);
            let Ok(manifest) = Manifest::load(&place) else {
                return looked_up.is_err();
            };
            drop(manifest.entries());
            for path in &paths {
                drop(manifest.get(path));
            }
            false
        };
        for length in 0..complete.len() {
            assert!(is_refused(&complete[..length]), "cut at {length}");
        }
        for at in 0..complete.len() {
            for value in [0, 0x7f, 0xff] {
                let mut bytes = complete.clone();
                bytes[at] = value;
                is_refused(&bytes);
            }
        }
    }
}
