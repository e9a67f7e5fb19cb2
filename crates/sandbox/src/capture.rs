//! Change capture: compares the current content of a tree with its recorded content.
//!
//! It inspects the tree instead of tracking tools, so it also finds changes by shell commands. It does not read files
//! with unchanged metadata; the metadata includes the change time (`ctime`), which no program can set.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use cleveragents_domain::{FileKind, FileState, TreePath};

use crate::error::{Error, PathContext as _};
use crate::manifest::{Manifest, PathRecord, write_first};
use crate::objects::Objects;
use crate::own_temporary::{is_abandoned, is_being_written};
use crate::scan::Extent;
use crate::scan_cancel::ScanCancel;
use crate::scoped_dir::{Root, Stat};
use crate::state::read_own_state;

/// A changed path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Path within the member.
    pub path: TreePath,
    /// State before the change; `None` when the path did not exist.
    pub before: Option<FileState>,
    /// State after the change; `None` when the path was removed.
    pub after: Option<FileState>,
}

/// Source of the original content of a tree.
pub(crate) trait BaseContent {
    /// Stores the original content of each path in `objects`. Returns the state of each path, `None` if its content is
    /// lost.
    fn store_original(
        &self,
        paths: &[(TreePath, PathRecord)],
        objects: &mut Objects,
    ) -> Result<Vec<Option<FileState>>, Error>;
}

/// Result of a capture, and the updated manifest.
#[derive(Debug)]
pub(crate) struct CaptureResult {
    pub(crate) changes: Vec<Change>,
    pub(crate) manifest: Manifest,
    /// Devices, sockets and pipes, which are not captured.
    pub(crate) special: Vec<TreePath>,
    /// Whether the manifest changed and should be saved.
    pub(crate) is_news: bool,
}

/// Slightly more than one tick of the clock for file times.
const CLOCK_TICK: std::time::Duration = std::time::Duration::from_millis(22);

/// Nanoseconds since the epoch.
pub(crate) fn now() -> i64 {
    let elapsed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    elapsed.map_or(0, |elapsed| {
        i64::try_from(elapsed.as_nanos()).unwrap_or(i64::MAX)
    })
}

/// Compares a whole tree with its manifest.
pub(crate) fn capture(
    root: &Root,
    extent: Extent<'_>,
    mut manifest: Manifest,
    base: &dyn BaseContent,
    objects: &mut Objects,
    stop: &ScanCancel,
) -> Result<CaptureResult, Error> {
    let captured_at = now();
    let found = manifest
        .compare(root, extent, stop)
        .during("walking", root.path())?;
    let abandoned = found
        .temporary
        .iter()
        .filter(|path| is_abandoned(path.name()));
    for path in abandoned {
        let place = root.path().join(path.as_path());
        root.remove_file(path).during("removing", &place)?;
    }
    let is_news = !found.pending.is_empty();
    let pending = found.pending;
    let changes = read_candidates(root, pending, &mut manifest, base, objects, captured_at)?;
    objects.sync().during("writing", root.path())?;
    Ok(CaptureResult {
        changes,
        manifest,
        special: found.special,
        is_news,
    })
}

/// Compares single paths with their recorded states.
pub(crate) fn capture_paths(
    root: &Root,
    known: HashMap<TreePath, Option<PathRecord>>,
    base: &dyn BaseContent,
    objects: &mut Objects,
) -> Result<Vec<Change>, Error> {
    let is_user_file = |(path, known): &(TreePath, Option<PathRecord>)| {
        known.is_some() || !is_being_written(path.name(), None)
    };
    let mut pending: Vec<_> = known.into_iter().filter(is_user_file).collect();
    pending.sort_by(|left, right| left.0.cmp(&right.0));
    let changes = read_candidates(
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

/// A path that may have changed, with its states before and after the change as far as they are known.
struct Candidate {
    path: TreePath,
    known: Option<PathRecord>,
    after: Option<(FileState, Stat)>,
    before: Option<FileState>,
}

/// Reads the paths that may have changed, determines their previous state, and updates the
/// manifest.
fn read_candidates(
    root: &Root,
    pending: Vec<(TreePath, Option<PathRecord>)>,
    manifest: &mut Manifest,
    base: &dyn BaseContent,
    objects: &mut Objects,
    captured_at: i64,
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
    let unknown: Vec<(TreePath, PathRecord)> = candidates
        .iter()
        .filter(|candidate| candidate.before.is_none())
        .filter_map(|candidate| Some((candidate.path.clone(), candidate.known?)))
        .collect();
    if !unknown.is_empty() {
        let mut originals = base.store_original(&unknown, objects)?.into_iter();
        for candidate in &mut candidates {
            if candidate.before.is_none()
                && let Some(known) = candidate.known
            {
                let original = originals.next().flatten();
                candidate.before = Some(original.unwrap_or_else(|| lost(&candidate.path, &known)));
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
                // Original content needs no hash in the manifest.
                let is_first =
                    known.is_some_and(|known| known.hash.is_none()) && before == Some(*state);
                let hash = (!is_first).then_some(state.hash);
                let known = match state.kind() {
                    FileKind::Directory => PathRecord::folder(state.mode),
                    _ => PathRecord::from_scan(stat, state.mode, hash, captured_at),
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

/// State according to the manifest; `None` if only the source of the tree can provide the content hash.
fn recorded_state(known: &PathRecord) -> Option<FileState> {
    if known.mode.kind() == FileKind::Directory {
        return Some(FileState::directory(known.mode.permissions()));
    }
    Some(FileState {
        hash: known.hash?,
        size: known.size,
        mode: known.mode,
    })
}

/// State of lost content: its hash matches no object.
fn lost(path: &TreePath, known: &PathRecord) -> FileState {
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

/// Writes the manifest of a newly created tree, before any work in it.
pub(crate) fn write_first_manifest(
    place: &Path,
    root: &Root,
    extent: Extent<'_>,
) -> io::Result<()> {
    // Scan only after the clock has advanced, so that every later change is visible in the times.
    std::thread::sleep(CLOCK_TICK);
    write_first(place, root, extent, now())
}
