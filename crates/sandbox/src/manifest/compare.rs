//! Compares a tree with its manifest, folder by folder, without reading content.

use std::collections::HashSet;
use std::io;

use cleveragents_domain::TreePath;

use super::table::folder_of;
use super::{Manifest, PathRecord};
use crate::own_temporary::is_being_written;
use crate::scan::{Extent, Names, Visitor, child_path, walk_until};
use crate::scan_cancel::ScanCancel;
use crate::scoped_dir::{Root, Stat};

/// Paths whose metadata changed, with their recorded state.
#[derive(Debug, Default)]
pub(crate) struct Differences {
    pub(crate) pending: Vec<(TreePath, Option<PathRecord>)>,
    /// Devices, sockets and pipes.
    pub(crate) special: Vec<TreePath>,
    /// Temporary files of running or killed processes of this program. They do not count as changes.
    pub(crate) temporary: Vec<TreePath>,
}

impl Manifest {
    /// Compares a tree with its manifest, without reading content.
    pub(crate) fn compare(
        &self,
        root: &Root,
        extent: Extent<'_>,
        stop: &ScanCancel,
    ) -> io::Result<Differences> {
        let touched: HashSet<&[u8]> = self.newer.keys().map(folder_of).collect();
        let visitors = walk_until(root, extent, stop, || Comparison {
            manifest: self,
            touched: &touched,
            found: Differences::default(),
            rows: 0,
            visited: Vec::new(),
            seen: Vec::new(),
        })?;
        let mut differences = Differences::default();
        let mut visited = HashSet::new();
        let mut seen = HashSet::new();
        let mut rows = 0;
        for visitor in visitors {
            differences.pending.extend(visitor.found.pending);
            differences.special.extend(visitor.found.special);
            differences.temporary.extend(visitor.found.temporary);
            visited.extend(visitor.visited);
            seen.extend(visitor.seen);
            rows += visitor.rows;
        }
        if rows != self.saved.count() {
            self.add_removed_folders(&visited, &mut differences)?;
        }
        for (path, known) in &self.newer {
            if known.is_some() && !seen.contains(path) {
                differences.pending.push((path.clone(), *known));
            }
        }
        differences
            .pending
            .sort_by(|left, right| left.0.cmp(&right.0));
        differences.special.sort();
        Ok(differences)
    }

    /// Adds the paths of folders that do not exist any more.
    fn add_removed_folders(
        &self,
        visited: &HashSet<u64>,
        found: &mut Differences,
    ) -> io::Result<()> {
        for folder in (0..self.saved.folders()).filter(|folder| !visited.contains(folder)) {
            for (path, known) in self.saved.entries_of(folder)? {
                if !self.newer.contains_key(&path) {
                    found.pending.push((path, Some(known)));
                }
            }
        }
        Ok(())
    }
}

/// State of one comparing thread.
struct Comparison<'a> {
    manifest: &'a Manifest,
    /// Folders with entries that were recorded after the table was written.
    touched: &'a HashSet<&'a [u8]>,
    found: Differences,
    /// Number of table rows compared.
    rows: u64,
    /// Indexes of the folders whose rows were compared.
    visited: Vec<u64>,
    seen: Vec<TreePath>,
}

impl Visitor for Comparison<'_> {
    fn names(&self, folder: &TreePath, stat: &Stat, names: &mut Vec<u8>) -> io::Result<bool> {
        let known = self.manifest.get(folder)?;
        if !known.is_some_and(|known| known.has_same_names(stat)) {
            return Ok(false);
        }
        if let Some(folder) = self.manifest.saved.folder(folder.as_bytes())? {
            for name in self.manifest.saved.rows(folder)?.names() {
                names.extend_from_slice(name?);
                names.push(0);
            }
        }
        Ok(true)
    }

    fn folder(&mut self, path: Option<&TreePath>, names: &mut Names) -> io::Result<()> {
        let manifest = self.manifest;
        let bytes = path.map_or(b"".as_slice(), TreePath::as_bytes);
        let has_newer = self.touched.contains(bytes);
        let folder = manifest.saved.folder(bytes)?;
        self.visited.extend(folder);
        let rows = folder
            .map(|folder| manifest.saved.rows(folder))
            .transpose()?;
        let mut rows = rows.into_iter().flatten().peekable();
        for (name, stat) in names.sorted() {
            let mut known = None;
            while let Some(row) =
                rows.next_if(|row| !matches!(row, Ok((row_name, _)) if *row_name > name))
            {
                let (row_name, record) = row?;
                self.rows += 1;
                if row_name == name {
                    known = Some(record);
                    break;
                }
                self.add_removed(path, row_name, record)?;
            }
            if has_newer {
                let path = child_path(path, name)?;
                if let Some(known) = manifest.newer.get(&path) {
                    if known.is_none_or(|known| !known.is_unchanged(stat)) {
                        self.add_changed(path.clone(), *known, stat);
                    }
                    self.seen.push(path);
                    continue;
                }
            }
            if known.is_none_or(|known| !known.is_unchanged(stat)) {
                self.add_changed(child_path(path, name)?, known, stat);
            }
        }
        for row in rows {
            let (row_name, record) = row?;
            self.rows += 1;
            self.add_removed(path, row_name, record)?;
        }
        Ok(())
    }
}

impl Comparison<'_> {
    fn add_removed(
        &mut self,
        folder: Option<&TreePath>,
        name: &[u8],
        known: PathRecord,
    ) -> io::Result<()> {
        let path = child_path(folder, name)?;
        if !self.manifest.newer.contains_key(&path) {
            self.found.pending.push((path, Some(known)));
        }
        Ok(())
    }

    fn add_changed(&mut self, path: TreePath, known: Option<PathRecord>, stat: &Stat) {
        if known.is_none() && is_being_written(path.name(), stat.mode) {
            self.found.temporary.push(path);
        } else if stat.mode.is_some() {
            self.found.pending.push((path, known));
        } else {
            if known.is_some() {
                self.found.pending.push((path.clone(), known));
            }
            self.found.special.push(path);
        }
    }
}
