//! Suggestions of existing paths for a path that does not exist.

use cleveragents_domain::{FileKind, FileMode, TreePath, nearest};

use super::paths::Target;
use crate::tool::{Call, Failure};

/// Maximum number of directory entries to search.
const MAX_ENTRIES: usize = 5_000;

/// Directories of dependencies and build output; not searched.
const SKIPPED: &[&[u8]] = &[
    b".git",
    b"node_modules",
    b"target",
    b".venv",
    b"__pycache__",
];

/// Error for a missing file, with the most similar existing path.
pub(super) fn no_file(file: &Target<'_>, call: &Call<'_>) -> Failure {
    let part = match call.workspace() {
        Ok(workspace) if workspace.parts().len() > 1 => format!("{}/", file.part.alias),
        _ => String::new(),
    };
    let path = &file.path;
    Failure::new(match most_similar(file, call) {
        Some(suggestion) => {
            format!("file `{part}{path}` does not exist; did you mean `{part}{suggestion}`?")
        }
        None => format!("file `{part}{path}` does not exist; search with builtin/file-find"),
    })
}

/// The most similar existing path: the same name in another directory, a similar name in the same directory, or else a
/// similar path.
fn most_similar(file: &Target<'_>, call: &Call<'_>) -> Option<String> {
    let candidates = files(file, call);
    let (requested, parent) = (file.path.to_string(), file.path.parent());
    let name = |path: &TreePath| String::from_utf8_lossy(path.name()).into_owned();
    let texts = |filter: &dyn Fn(&TreePath) -> bool| -> Vec<String> {
        let matching = candidates.iter().filter(|path| filter(path));
        matching.map(ToString::to_string).collect()
    };
    let best = |texts: &[String]| nearest::best(&requested, texts.iter().map(String::as_str));
    if let Some(same_name) = best(&texts(&|path| path.name() == file.path.name())) {
        return Some(same_name);
    }
    let siblings: Vec<&TreePath> = candidates
        .iter()
        .filter(|path| path.parent() == parent)
        .collect();
    let names: Vec<String> = siblings.iter().map(|path| name(path)).collect();
    if let Some(similar_name) = nearest::best(&name(&file.path), names.iter().map(String::as_str)) {
        let index = names.iter().position(|name| *name == similar_name)?;
        return Some(siblings.get(index)?.to_string());
    }
    best(&texts(&|_| true))
}

/// Lists files of the part that permission rules do not hide. Stops after [`MAX_ENTRIES`] entries.
fn files(file: &Target<'_>, call: &Call<'_>) -> Vec<TreePath> {
    let mut paths = Vec::new();
    let mut queue: Vec<Option<TreePath>> = vec![file.path.parent()];
    if queue[0].is_some() {
        queue.insert(0, None);
    }
    let mut entry_count = 0;
    while let Some(folder) = queue.pop() {
        if call.check_running().is_err() {
            break;
        }
        let Ok(entries) = file.root().entries(folder.as_ref()) else {
            continue;
        };
        for (name, stat) in entries {
            entry_count += 1;
            if entry_count > MAX_ENTRIES {
                return paths;
            }
            let path = match &folder {
                Some(folder) => folder.join(&name),
                None => TreePath::from_bytes(name.clone()),
            };
            let Ok(path) = path else { continue };
            if !call.path_permissions().shows(&file.part_path_of(&path)) {
                continue;
            }
            match stat.mode.map(FileMode::kind) {
                Some(FileKind::Directory) if !SKIPPED.contains(&name.as_slice()) => {
                    let is_searched = Some(&path) == file.path.parent().as_ref();
                    if !is_searched {
                        queue.insert(0, Some(path));
                    }
                }
                Some(FileKind::File) => paths.push(path),
                _ => {}
            }
        }
    }
    paths
}
