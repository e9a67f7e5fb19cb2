//! The first manifest of a tree, written as the tree is walked.

use std::io::{self, Write as _};
use std::path::Path;

use cleveragents_domain::TreePath;

use super::{Known, write_line, write_whole};
use crate::beneath::Root;
use crate::scan::{Extent, Names, Visitor, inside, walk};

/// Writes the manifest of a tree in which nobody worked yet, as it is after `moment` (nanoseconds).
pub(crate) fn write_first(
    place: &Path,
    root: &Root,
    extent: Extent<'_>,
    moment: i64,
) -> io::Result<()> {
    let visitors = walk(root, extent, || Lines {
        moment,
        count: 0,
        folders: Vec::new(),
    })?;
    let count = visitors.iter().map(|visitor| visitor.count).sum();
    let mut folders: Vec<(String, Vec<u8>)> = visitors
        .into_iter()
        .flat_map(|visitor| visitor.folders)
        .collect();
    folders.sort_unstable_by(|left, right| left.0.cmp(&right.0));
    let lines = folders.iter().map(|(_, lines)| lines.as_slice());
    write_whole(place, 0, count, lines)
}

/// The lines of each folder.
struct Lines {
    moment: i64,
    count: usize,
    folders: Vec<(String, Vec<u8>)>,
}

impl Visitor for Lines {
    fn folder(&mut self, folder: Option<&TreePath>, names: &mut Names) -> io::Result<()> {
        let text = folder.map(ToString::to_string).unwrap_or_default();
        let mut entries = Vec::new();
        for (name, stat) in names.sorted() {
            if let Some(mode) = stat.mode {
                let known = Known::seen(stat, mode, None, self.moment);
                entries.push((inside(None, name)?.to_string(), known));
            }
        }
        // Names as text may stand in another order than their bytes.
        entries.sort_by(|left, right| left.0.cmp(&right.0));
        self.count += entries.len();
        let mut lines = Vec::with_capacity(entries.len() * 128);
        for (name, known) in &entries {
            if !text.is_empty() {
                write!(lines, "{text}/")?;
            }
            write_line(&mut lines, name, Some(known))?;
        }
        self.folders.push((text, lines));
        Ok(())
    }
}
