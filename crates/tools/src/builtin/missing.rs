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
        Some(meant) => format!("file `{part}{path}` does not exist; did you mean `{part}{meant}`?"),
        None => format!("file `{part}{path}` does not exist; search with builtin/file-find"),
    })
}

/// The most similar existing path: the same name in another directory, a similar name in the same directory, or else a
/// similar path.
fn most_similar(file: &Target<'_>, call: &Call<'_>) -> Option<String> {
    let known = files(file, call);
    let (wanted, parent) = (file.path.to_string(), file.path.parent());
    let name = |path: &TreePath| String::from_utf8_lossy(path.name()).into_owned();
    let texts = |is_meant: &dyn Fn(&TreePath) -> bool| -> Vec<String> {
        let meant = known.iter().filter(|path| is_meant(path));
        meant.map(ToString::to_string).collect()
    };
    let best = |texts: &[String]| nearest::best(&wanted, texts.iter().map(String::as_str));
    if let Some(same_name) = best(&texts(&|path| path.name() == file.path.name())) {
        return Some(same_name);
    }
    let siblings: Vec<&TreePath> = known
        .iter()
        .filter(|path| path.parent() == parent)
        .collect();
    let names: Vec<String> = siblings.iter().map(|path| name(path)).collect();
    if let Some(near) = nearest::best(&name(&file.path), names.iter().map(String::as_str)) {
        let index = names.iter().position(|name| *name == near)?;
        return Some(siblings.get(index)?.to_string());
    }
    best(&texts(&|_| true))
}

/// Files of the part that permission rules show to the model.
fn files(file: &Target<'_>, call: &Call<'_>) -> Vec<TreePath> {
    let mut found = Vec::new();
    let mut open: Vec<Option<TreePath>> = vec![file.path.parent()];
    if open[0].is_some() {
        open.insert(0, None);
    }
    let mut seen = 0;
    while let Some(folder) = open.pop() {
        if call.check_cancelled().is_err() {
            break;
        }
        let Ok(entries) = file.root().entries(folder.as_ref()) else {
            continue;
        };
        for (name, stat) in entries {
            seen += 1;
            if seen > MAX_ENTRIES {
                return found;
            }
            let path = match &folder {
                Some(folder) => folder.join(&name),
                None => TreePath::from_bytes(name.clone()),
            };
            let Ok(path) = path else { continue };
            if !call.fence().shows(&file.part_path_of(&path)) {
                continue;
            }
            match stat.mode.map(FileMode::kind) {
                Some(FileKind::Directory) if !SKIPPED.contains(&name.as_slice()) => {
                    let is_searched = Some(&path) == file.path.parent().as_ref();
                    if !is_searched {
                        open.insert(0, Some(path));
                    }
                }
                Some(FileKind::File) => found.push(path),
                _ => {}
            }
        }
    }
    found
}
