//! The first manifests of a copied tree: of the copy and of its original.

use std::io;
use std::path::Path;

use cleveragents_domain::TreePath;

use super::table::Folder;
use super::{PathRecord, write_table};
use crate::copy::CopiedTree;
use crate::scan::{Extent, Names, Visitor, walk};
use crate::scoped_dir::Root;

/// Writes the manifest of a tree that is still unchanged. `moment` is the time of the scan, in nanoseconds since the
/// epoch.
pub(crate) fn write_first(
    place: &Path,
    root: &Root,
    extent: Extent<'_>,
    moment: i64,
) -> io::Result<()> {
    let visitors = walk(root, extent, || FolderCollector {
        moment,
        folders: Vec::new(),
    })?;
    let folders = visitors.into_iter().flat_map(|visitor| visitor.folders);
    write_table(place, 0, folders.collect())
}

/// Writes the manifest of an original at the time of the copy. Returns the paths that changed shortly before the copy, whose
/// times may not show a further change.
pub(crate) fn write_original(place: &Path, copied: &CopiedTree) -> io::Result<Vec<TreePath>> {
    let mut unsettled = Vec::new();
    let mut folders = Vec::with_capacity(copied.listings.len());
    for listing in &copied.listings {
        let path = listing.folder.as_ref();
        let mut folder = Folder::new(path.map_or(b"", TreePath::as_bytes));
        for (name, stat) in listing.entries() {
            let Some(mode) = stat.mode else { continue };
            let known = PathRecord::from_scan(stat, mode, None, copied.moment);
            if !known.is_unchanged(stat) {
                unsettled.push(listing.child_path(name)?);
            }
            folder.push(name, known)?;
        }
        folders.push(folder);
    }
    write_table(place, 0, folders)?;
    Ok(unsettled)
}

/// The folders that one thread scanned.
struct FolderCollector {
    moment: i64,
    folders: Vec<Folder>,
}

impl Visitor for FolderCollector {
    fn folder(&mut self, path: Option<&TreePath>, names: &mut Names) -> io::Result<()> {
        let mut folder = Folder::new(path.map_or(b"", TreePath::as_bytes));
        for (name, stat) in names.sorted() {
            if let Some(mode) = stat.mode {
                folder.push(name, PathRecord::from_scan(stat, mode, None, self.moment))?;
            }
        }
        self.folders.push(folder);
        Ok(())
    }
}
