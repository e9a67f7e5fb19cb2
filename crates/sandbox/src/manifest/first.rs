//! The first manifests of a tree: of a copy, written as it is walked, and of its original.

use std::io;
use std::path::Path;

use cleveragents_domain::TreePath;

use super::table::Folder;
use super::{Known, write_table};
use crate::beneath::Root;
use crate::copy::Copied;
use crate::scan::{Extent, Names, Visitor, walk};

/// Writes the manifest of a tree in which nobody worked yet, as it is after `moment` (nanoseconds).
pub(crate) fn write_first(
    place: &Path,
    root: &Root,
    extent: Extent<'_>,
    moment: i64,
) -> io::Result<()> {
    let visitors = walk(root, extent, || Described {
        moment,
        folders: Vec::new(),
    })?;
    let folders = visitors.into_iter().flat_map(|visitor| visitor.folders);
    write_table(place, 0, folders.collect())
}

/// Writes the manifest of a tree as it was copied. Gives the paths that changed so shortly before that
/// a further change may not show.
pub(crate) fn write_original(place: &Path, copied: &Copied) -> io::Result<Vec<TreePath>> {
    let mut unsettled = Vec::new();
    let mut folders = Vec::with_capacity(copied.listings.len());
    for listing in &copied.listings {
        let path = listing.folder.as_ref();
        let mut folder = Folder::new(path.map_or(b"", TreePath::as_bytes));
        for (name, stat) in listing.entries() {
            let Some(mode) = stat.mode else { continue };
            let known = Known::seen(stat, mode, None, copied.moment);
            if !known.is_unchanged(stat) {
                unsettled.push(listing.inside(name)?);
            }
            folder.push(name, known)?;
        }
        folders.push(folder);
    }
    write_table(place, 0, folders)?;
    Ok(unsettled)
}

/// The folders that one thread described.
struct Described {
    moment: i64,
    folders: Vec<Folder>,
}

impl Visitor for Described {
    fn folder(&mut self, path: Option<&TreePath>, names: &mut Names) -> io::Result<()> {
        let mut folder = Folder::new(path.map_or(b"", TreePath::as_bytes));
        for (name, stat) in names.sorted() {
            if let Some(mode) = stat.mode {
                folder.push(name, Known::seen(stat, mode, None, self.moment))?;
            }
        }
        self.folders.push(folder);
        Ok(())
    }
}
