//! The first manifest of a tree, written as the tree is walked.

use std::io;
use std::path::Path;

use cleveragents_domain::TreePath;

use super::table::Folder;
use super::{Known, write_table};
use crate::beneath::Root;
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
