//! The expected result of a merge, computed from trees without the code under test.

use std::collections::BTreeSet;
use std::process::Command;

use crate::tree::{Entry, Tree};

pub(crate) struct ExpectedMerge {
    /// The tree after the merge, unless there is a conflict.
    pub(crate) tree: Tree,
    /// The first fork with a conflict.
    pub(crate) first_conflict: Option<usize>,
    /// The paths of that fork that both sides changed.
    pub(crate) conflicts: BTreeSet<Vec<u8>>,
}

pub(crate) fn is_inside(path: &[u8], folder: &[u8]) -> bool {
    path.strip_prefix(folder)
        .is_some_and(|rest| rest.starts_with(b"/"))
}

fn parent(path: &[u8]) -> Option<&[u8]> {
    let end = path.iter().rposition(|byte| *byte == b'/')?;
    Some(&path[..end])
}

/// Merges forks of `base` in order, up to the first one with a conflict.
pub(crate) fn merge(base: &Tree, forks: &[&Tree]) -> ExpectedMerge {
    let mut current = base.clone();
    for (number, fork) in forks.iter().enumerate() {
        let mut next = current.clone();
        let mut conflicts = BTreeSet::new();
        let paths: BTreeSet<&Vec<u8>> = base.keys().chain(fork.keys()).collect();
        for path in paths {
            match merge_entry(base.get(path), current.get(path), fork.get(path)) {
                Ok(Some(entry)) => drop(next.insert(path.clone(), entry)),
                Ok(None) => drop(next.remove(path)),
                Err(()) => drop(conflicts.insert(path.clone())),
            }
        }
        let is_possible = add_folders(&mut next, [&current, base, fork]);
        if !conflicts.is_empty() || !is_possible {
            return ExpectedMerge {
                tree: current,
                first_conflict: Some(number),
                conflicts,
            };
        }
        current = next;
    }
    ExpectedMerge {
        tree: current,
        first_conflict: None,
        conflicts: BTreeSet::new(),
    }
}

/// Adds the missing folders of all paths, as they are in one of the `sources`. Returns `false` if a path is inside
/// something that is not a folder.
fn add_folders(tree: &mut Tree, sources: [&Tree; 3]) -> bool {
    let paths: Vec<Vec<u8>> = tree.keys().cloned().collect();
    for path in &paths {
        let mut above = parent(path);
        while let Some(folder) = above {
            match tree.get(folder) {
                Some(Entry::Folder(_)) => {}
                Some(_) => return false,
                None => {
                    let entries = sources.iter().filter_map(|source| source.get(folder));
                    let entry = entries.into_iter().find(|entry| entry.is_folder());
                    let entry = entry.expect("one of the sides has the folder").clone();
                    tree.insert(folder.to_vec(), entry);
                }
            }
            above = parent(folder);
        }
    }
    true
}

fn merge_entry(
    base: Option<&Entry>,
    ours: Option<&Entry>,
    theirs: Option<&Entry>,
) -> Result<Option<Entry>, ()> {
    if theirs == base || ours == theirs {
        return Ok(ours.cloned());
    }
    if ours == base {
        return Ok(theirs.cloned());
    }
    let (our_mode, our_text, their_mode, their_text) = match (ours, theirs) {
        // Other permissions of a folder are no conflict.
        (Some(Entry::Folder(_)), Some(Entry::Folder(_))) => return Ok(ours.cloned()),
        (Some(Entry::File(our_mode, ours)), Some(Entry::File(their_mode, theirs))) => {
            (our_mode, ours, their_mode, theirs)
        }
        _ => return Err(()),
    };
    let (base_mode, base_text) = match base {
        None => (None, None),
        Some(Entry::File(mode, text)) => (Some(mode), Some(text)),
        Some(_) => return Err(()),
    };
    let mode = pick_side(base_mode, our_mode, their_mode).ok_or(())?;
    if let Some(text) = pick_side(base_text, our_text, their_text) {
        return Ok(Some(Entry::File(*mode, text.clone())));
    }
    let base_text = base_text.map(Vec::as_slice).unwrap_or_default();
    let text = merge_file(our_text, base_text, their_text).ok_or(())?;
    Ok(Some(Entry::File(*mode, text)))
}

/// The side that changed; `None` if both changed differently.
fn pick_side<'a, T: PartialEq>(base: Option<&T>, ours: &'a T, theirs: &'a T) -> Option<&'a T> {
    if ours == theirs || base == Some(theirs) {
        Some(ours)
    } else if base == Some(ours) {
        Some(theirs)
    } else {
        None
    }
}

/// The result of `git merge-file`; `None` if it reports conflicts or binary content.
fn merge_file(ours: &[u8], base: &[u8], theirs: &[u8]) -> Option<Vec<u8>> {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, content) in [("ours", ours), ("base", base), ("theirs", theirs)] {
        std::fs::write(folder.path().join(name), content).expect("a file");
    }
    let output = Command::new("git")
        .args(["merge-file", "-p", "-q", "ours", "base", "theirs"])
        .current_dir(folder.path())
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CEILING_DIRECTORIES", folder.path())
        .output()
        .expect("git starts");
    output.status.success().then_some(output.stdout)
}
