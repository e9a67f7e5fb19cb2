//! [`Manifest`]: what every path of a tree was known to hold, and how the system described it then.
//!
//! The manifest lets a walk tell changed files from unchanged ones without reading them. It is a
//! cache beside the history, which is the truth: it carries the position up to which it knows the
//! history, and a path whose description is missing is read again. A saved [`table`] holds every path;
//! what is learned later is added as lines in a second file.

mod compare;
mod first;
mod known;
mod table;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use cleveragents_domain::TreePath;

pub(crate) use first::{write_first, write_original};
pub(crate) use known::Known;
use table::{Folder, Table, encode, folder_of};

/// Begins the line that says which position of the history is known.
const POSITION: &str = "position";

/// Stands for the facts of a path that is gone.
const GONE: &str = "gone";

/// Every path of a tree: a table as it was saved, and what was learned since.
#[derive(Debug, Default)]
pub(crate) struct Manifest {
    /// How many entries of the history it knows.
    pub(crate) position: u64,
    saved: Table<Vec<u8>>,
    /// What replaces rows of it; `None` for a path that is gone.
    newer: HashMap<TreePath, Option<Known>>,
    /// Paths of `newer` that the file beside the table does not hold yet.
    unsaved: HashSet<TreePath>,
    /// Whether that file ends in the middle of a line, and must be written anew.
    is_torn: bool,
}

/// When so many paths were learned, the table is written anew instead of added to.
const LONGEST_ADDITION: usize = 4096;

/// A line of the file beside the table.
enum Line {
    Position(u64),
    Path(TreePath, Option<Known>),
}

fn parse_line(line: &str) -> Option<Line> {
    let (first, rest) = line.split_once('\t')?;
    // No path is empty, so none is taken for a position.
    if first.is_empty() {
        let position = rest.strip_prefix(POSITION)?.trim_start().parse().ok()?;
        return Some(Line::Position(position));
    }
    let path = first.parse().ok()?;
    if rest == GONE {
        return Some(Line::Path(path, None));
    }
    let mut fields = rest.split('\t');
    let mut next = || fields.next();
    let all = [next()?, next()?, next()?, next()?, next()?, next()?];
    Some(Line::Path(path, Some(Known::parse(&all)?)))
}

fn write_line(file: &mut impl Write, path: &TreePath, known: Option<&Known>) -> io::Result<()> {
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

/// Writes the table of a manifest, in place of an older one and what was added to it.
fn write_table(place: &Path, position: u64, folders: Vec<Folder>) -> io::Result<()> {
    let bytes = encode(position, folders);
    // The additions first: without them the old table is only behind, never wrong.
    match std::fs::remove_file(additions_of(place)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    table::replace(place, &bytes)
}

impl Manifest {
    /// A manifest of these paths, that nothing is saved of yet.
    #[cfg(test)]
    fn of(entries: impl IntoIterator<Item = (TreePath, Known)>) -> Self {
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

    /// What was added beside the table. The end of a line may be missing after a crash; what such a
    /// line told is read from the tree again.
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

    /// What is known of a path.
    pub(crate) fn get(&self, path: &TreePath) -> io::Result<Option<Known>> {
        match self.newer.get(path) {
            Some(known) => Ok(*known),
            None => self.saved.find(path),
        }
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
    pub(crate) fn entries(&self) -> io::Result<Vec<(TreePath, Known)>> {
        let mut entries = Vec::new();
        for folder in 0..self.saved.folders() {
            let rows = self.saved.entries_of(folder)?.into_iter();
            entries.extend(rows.filter(|(path, _)| !self.newer.contains_key(path)));
        }
        let newer = self.newer.iter();
        entries.extend(newer.filter_map(|(path, known)| Some((path.clone(), (*known)?))));
        Ok(entries)
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
        let mut by_folder: BTreeMap<Vec<u8>, Vec<(TreePath, Known)>> = BTreeMap::new();
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

    /// The position of the history that a saved manifest knows.
    pub(crate) fn position_at(place: &Path) -> io::Result<u64> {
        let mut additions = Self {
            position: Table::open(place)?.position(),
            ..Self::default()
        };
        additions.load_additions(place)?;
        Ok(additions.position)
    }

    /// Some paths of a saved manifest, at a cost that hardly grows with it.
    pub(crate) fn look_up(place: &Path, paths: &[TreePath]) -> io::Result<Vec<Option<Known>>> {
        let table = Table::open(place)?;
        let mut additions = Self::default();
        additions.load_additions(place)?;
        let look = |path| match additions.newer.get(path) {
            Some(known) => Ok(*known),
            None => table.find(path),
        };
        paths.iter().map(look).collect()
    }
}

/// Where what was learned since the table was written is added.
fn additions_of(place: &Path) -> std::path::PathBuf {
    place.with_extension("new")
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
            prop_assert_eq!(Manifest::position_at(&place).expect("read"), 7);
            let entries = again.entries().expect("read");
            prop_assert_eq!(&entries.into_iter().collect::<HashMap<_, _>>(), &expected);
            let absent = TreePath::from_bytes(absent).expect("a path");
            for path in expected.keys().chain([&absent]) {
                let fact = expected.get(path).copied();
                prop_assert_eq!(again.get(path).expect("read"), fact);
                let looked_up = Manifest::look_up(&place, std::slice::from_ref(path));
                prop_assert_eq!(looked_up.expect("read"), [fact]);
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
        let known_then = cut.get(&path).expect("read");
        assert_eq!((cut.position, known_then), (0, Some(known("a"))));
        cut.learn(path.clone(), None);
        cut.save(&place).expect("written anew");
        let anew = Manifest::load(&place).expect("loaded");
        assert_eq!(anew.get(&path).expect("read"), None);
    }

    /// Whatever a table was damaged into, it is refused or read; nothing is asked for beyond its end.
    #[test]
    fn a_damaged_table_is_refused_or_read_but_never_beyond_its_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join("manifest");
        let paths: Vec<TreePath> = ["a/b", "a/c", "d", "e/f/g"]
            .map(|path| path.parse().expect("a path"))
            .into();
        Manifest::of(paths.iter().map(|path| (path.clone(), known("x"))))
            .save(&place)
            .expect("saved");
        let whole = std::fs::read(&place).expect("bytes");
        let try_it = |bytes: &[u8]| {
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
        for length in 0..whole.len() {
            assert!(try_it(&whole[..length]), "cut at {length}");
        }
        for at in 0..whole.len() {
            for value in [0, 0x7f, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] = value;
                try_it(&bytes);
            }
        }
    }
}
