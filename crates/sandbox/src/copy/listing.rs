//! A tree as scanned, folder by folder.

use std::cmp::Ordering;
use std::io;

use cleveragents_domain::{FileKind, TreePath};

use crate::scan::{Extent, Names, Visitor, child_path, walk};
use crate::scoped_dir::{Root, Stat};

/// One folder of a tree.
#[derive(Debug, Default)]
pub(crate) struct FolderListing {
    /// `None` for the root.
    pub(crate) folder: Option<TreePath>,
    /// All names, concatenated.
    bytes: Vec<u8>,
    /// End of each name in `bytes`, in the order of the names.
    entries: Vec<(usize, Stat)>,
}

impl FolderListing {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Files, links and folders, sorted by name.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&[u8], &Stat)> {
        let mut start = 0;
        self.entries.iter().map(move |(end, stat)| {
            let name = &self.bytes[start..*end];
            start = *end;
            (name, stat)
        })
    }

    pub(crate) fn child_path(&self, name: &[u8]) -> io::Result<TreePath> {
        child_path(self.folder.as_ref(), name)
    }
}

#[derive(Default)]
struct ListingCollector(Vec<FolderListing>);

impl Visitor for ListingCollector {
    fn folder(&mut self, folder: Option<&TreePath>, names: &mut Names) -> io::Result<()> {
        let mut listing = FolderListing {
            folder: folder.cloned(),
            ..FolderListing::default()
        };
        for (name, stat) in names.sorted() {
            if stat.mode.is_some() {
                listing.bytes.extend_from_slice(name);
                listing.entries.push((listing.bytes.len(), *stat));
            }
        }
        self.0.push(listing);
        Ok(())
    }
}

/// Every folder of a tree, sorted by path.
pub(super) fn list(root: &Root, extent: Extent<'_>) -> io::Result<Vec<FolderListing>> {
    let parts = walk(root, extent, ListingCollector::default)?;
    let mut listings: Vec<FolderListing> = parts.into_iter().flat_map(|part| part.0).collect();
    listings.sort_unstable_by(|left, right| left.folder.cmp(&right.folder));
    Ok(listings)
}

/// Paths that differ between two scans, sorted.
pub(super) fn differences(
    before: &[FolderListing],
    after: &[FolderListing],
) -> io::Result<Vec<TreePath>> {
    let mut paths = Vec::new();
    let empty = FolderListing::default();
    for pair in merged(before.iter(), after.iter(), |left, right| {
        left.folder.cmp(&right.folder)
    }) {
        let (old, new) = (pair.0.unwrap_or(&empty), pair.1.unwrap_or(&empty));
        let listing = pair.0.or(pair.1).unwrap_or(&empty);
        for (old, new) in merged(old.entries(), new.entries(), |left, right| {
            left.0.cmp(right.0)
        }) {
            let is_same = match (old, new) {
                (Some((_, old)), Some((_, new))) => is_same(old, new),
                _ => false,
            };
            if let Some((name, _)) = old.or(new).filter(|_| !is_same) {
                paths.push(listing.child_path(name)?);
            }
        }
    }
    paths.sort_unstable();
    Ok(paths)
}

/// The times of a folder only reflect changes of the names in it, which are compared separately.
fn is_same(old: &Stat, new: &Stat) -> bool {
    let is_folder = |stat: &Stat| {
        stat.mode
            .is_some_and(|mode| mode.kind() == FileKind::Directory)
    };
    if is_folder(old) && is_folder(new) {
        old.mode == new.mode
    } else {
        old == new
    }
}

/// Merges two sorted sequences; equal elements are returned as a pair.
fn merged<T>(
    left: impl Iterator<Item = T>,
    right: impl Iterator<Item = T>,
    compare: impl Fn(&T, &T) -> Ordering,
) -> impl Iterator<Item = (Option<T>, Option<T>)> {
    let (mut left, mut right) = (left.peekable(), right.peekable());
    std::iter::from_fn(move || {
        let order = match (left.peek(), right.peek()) {
            (None, None) => return None,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(left), Some(right)) => compare(left, right),
        };
        Some(match order {
            Ordering::Less => (left.next(), None),
            Ordering::Equal => (left.next(), right.next()),
            Ordering::Greater => (None, right.next()),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_difference_is_found() {
        let place = tempfile::tempdir().expect("a folder");
        let root = Root::open(place.path()).expect("a root");
        let write = |name: &str, text: &str| {
            let place = place.path().join(name);
            std::fs::create_dir_all(place.parent().expect("a folder")).expect("made");
            std::fs::write(place, text).expect("written");
        };
        for name in ["a/same", "a/b/changed", "gone/deep/file", "kind", "top"] {
            write(name, "one");
        }
        let before = list(&root, Extent::default()).expect("walked");
        let same = list(&root, Extent::default()).expect("walked");
        assert_eq!(differences(&before, &same).expect("compared"), Vec::new());
        write("a/b/changed", "another");
        write("new/deep/file", "new");
        std::fs::remove_dir_all(place.path().join("gone")).expect("removed");
        std::fs::remove_file(place.path().join("kind")).expect("removed");
        write("kind/inner", "a folder now");
        let after = list(&root, Extent::default()).expect("walked");
        let found: Vec<String> = differences(&before, &after)
            .expect("compared")
            .iter()
            .map(ToString::to_string)
            .collect();
        let expected = [
            "a/b/changed",
            "gone",
            "gone/deep",
            "gone/deep/file",
            "kind",
            "kind/inner",
            "new",
            "new/deep",
            "new/deep/file",
        ];
        assert_eq!(found, expected);
    }
}
