//! Change capture: what a tree holds now against what it was known to hold.
//!
//! The tree itself is asked, never the tools that worked in it, so a shell command's changes are
//! found like any other. A file whose description by the system did not change is not read; the
//! description includes the time of the last change of the entry, which no program can set back.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use cleveragents_domain::{FileKind, FileState, TreePath};

use crate::beneath::{Root, Stat};
use crate::error::{During as _, Error};
use crate::manifest::{Known, Manifest, write_first};
use crate::objects::Objects;
use crate::scan::Extent;
use crate::state::read_own_state;
use crate::stop::Stop;

/// One path that changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Where.
    pub path: TreePath,
    /// What was there.
    pub before: Option<FileState>,
    /// What is there now.
    pub after: Option<FileState>,
}

/// Where the content comes from that a tree was made with.
pub(crate) trait BaseContent {
    /// Keeps the first content of each path and gives its hash and size, `None` where it is lost.
    fn keep(
        &self,
        paths: &[(TreePath, Known)],
        objects: &mut Objects,
    ) -> Result<Vec<Option<FileState>>, Error>;
}

/// What a capture found, and the manifest that knows it.
#[derive(Debug)]
pub(crate) struct Captured {
    pub(crate) changes: Vec<Change>,
    pub(crate) manifest: Manifest,
    /// Devices, sockets and pipes, which are not captured.
    pub(crate) special: Vec<TreePath>,
    /// Whether the manifest is worth saving.
    pub(crate) is_news: bool,
}

/// A little more than the step of the clock that files are stamped with.
const SETTLING: std::time::Duration = std::time::Duration::from_millis(22);

/// Nanoseconds since the epoch.
pub(crate) fn now() -> i64 {
    let elapsed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    elapsed.map_or(0, |elapsed| {
        i64::try_from(elapsed.as_nanos()).unwrap_or(i64::MAX)
    })
}

/// Compares a whole tree with what was known of it.
pub(crate) fn capture(
    root: &Root,
    extent: Extent<'_>,
    mut manifest: Manifest,
    base: &dyn BaseContent,
    objects: &mut Objects,
    stop: &Stop,
) -> Result<Captured, Error> {
    let moment = now();
    let found = manifest
        .compare(root, extent, stop)
        .during("walking", root.path())?;
    let is_news = !found.pending.is_empty();
    let pending = found.pending;
    let changes = settle(root, pending, &mut manifest, base, objects, moment)?;
    objects.sync().during("writing", root.path())?;
    Ok(Captured {
        changes,
        manifest,
        special: found.special,
        is_news,
    })
}

/// Compares single paths with what was known of them.
pub(crate) fn capture_paths(
    root: &Root,
    known: HashMap<TreePath, Option<Known>>,
    base: &dyn BaseContent,
    objects: &mut Objects,
) -> Result<Vec<Change>, Error> {
    let mut pending: Vec<_> = known.into_iter().collect();
    pending.sort_by(|left, right| left.0.cmp(&right.0));
    let changes = settle(
        root,
        pending,
        &mut Manifest::default(),
        base,
        objects,
        now(),
    )?;
    objects.sync().during("writing", root.path())?;
    Ok(changes)
}

/// A path that may have changed, with both states as far as they are known.
struct Candidate {
    path: TreePath,
    known: Option<Known>,
    after: Option<(FileState, Stat)>,
    before: Option<FileState>,
}

/// Reads what may have changed, finds out what it was, and brings the manifest up to date.
fn settle(
    root: &Root,
    pending: Vec<(TreePath, Option<Known>)>,
    manifest: &mut Manifest,
    base: &dyn BaseContent,
    objects: &mut Objects,
    moment: i64,
) -> Result<Vec<Change>, Error> {
    let mut candidates = Vec::with_capacity(pending.len());
    for (path, known) in pending {
        let after = read_own_state(root, &path, Some(objects))
            .during("reading", &root.path().join(path.as_path()))?;
        candidates.push(Candidate {
            before: known.and_then(|known| recorded_state(&known)),
            path,
            known,
            after,
        });
    }
    let unknown: Vec<(TreePath, Known)> = candidates
        .iter()
        .filter(|candidate| candidate.before.is_none())
        .filter_map(|candidate| Some((candidate.path.clone(), candidate.known?)))
        .collect();
    if !unknown.is_empty() {
        let mut first = base.keep(&unknown, objects)?.into_iter();
        for candidate in &mut candidates {
            if candidate.before.is_none()
                && let Some(known) = candidate.known
            {
                let kept = first.next().flatten();
                candidate.before = Some(kept.unwrap_or_else(|| lost(&candidate.path, &known)));
            }
        }
    }
    let mut changes = Vec::new();
    for Candidate {
        path,
        after,
        before,
        known,
    } in candidates
    {
        let state = after.as_ref().map(|(state, _)| *state);
        match &after {
            None => {
                manifest.learn(path.clone(), None);
            }
            Some((state, stat)) => {
                // Content that is still the first needs no name of its own.
                let is_first =
                    known.is_some_and(|known| known.hash.is_none()) && before == Some(*state);
                let hash = (!is_first).then_some(state.hash);
                let known = match state.kind() {
                    FileKind::Directory => Known::folder(state.mode),
                    _ => Known::seen(stat, state.mode, hash, moment),
                };
                manifest.learn(path.clone(), Some(known));
            }
        }
        if before != state {
            changes.push(Change {
                path,
                before,
                after: state,
            });
        }
    }
    Ok(changes)
}

/// The state that the manifest knows without asking where the tree came from.
fn recorded_state(known: &Known) -> Option<FileState> {
    if known.mode.kind() == FileKind::Directory {
        return Some(FileState::directory(known.mode.permissions()));
    }
    Some(FileState {
        hash: known.hash?,
        size: known.size,
        mode: known.mode,
    })
}

/// A state whose content nobody has any more: a hash that no object answers to.
fn lost(path: &TreePath, known: &Known) -> FileState {
    let name = format!("lost {path}");
    FileState {
        hash: cleveragents_domain::ContentHash::of_parts([
            b"cleveragents\0".as_slice(),
            name.as_bytes(),
        ]),
        size: known.size,
        mode: known.mode,
    }
}

/// Writes the manifest of a tree that was just made, before anyone worked in it.
pub(crate) fn write_first_manifest(
    place: &Path,
    root: &Root,
    extent: Extent<'_>,
) -> io::Result<()> {
    // Looked at once the clock has moved on, so that every later change shows.
    std::thread::sleep(SETTLING);
    write_first(place, root, extent, now())
}
