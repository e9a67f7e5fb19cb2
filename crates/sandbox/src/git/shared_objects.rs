//! The object folders of the user's repository to which a sandbox's repository refers. Git in the sandbox must be able
//! to read them.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Maximum size of a file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// Maximum length of a chain of alternates, as in git.
const MAX_DEPTH: usize = 5;

/// The object folders of the repository at or above `location`, including its alternates, recursively. Empty if there
/// is no repository.
pub(crate) fn shared_objects(location: &Path) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    let Some(common) = location.ancestors().find_map(common_folder) else {
        return folders;
    };
    let mut pending = vec![(common.join("objects"), 0)];
    while let Some((objects, depth)) = pending.pop() {
        let Ok(objects) = fs::canonicalize(objects) else {
            continue;
        };
        if folders.contains(&objects) {
            continue;
        }
        if depth < MAX_DEPTH
            && let Some(alternates) = read_small(&objects.join("info/alternates"))
        {
            let lines = alternates.split(|byte| *byte == b'\n');
            let lines = lines.filter(|line| !line.is_empty() && !line.starts_with(b"#"));
            pending.extend(lines.map(|line| (objects.join(path_in(line)), depth + 1)));
        }
        folders.push(objects);
    }
    folders
}

/// The configuration file of the repository at or above `location`, which lists its remotes. `None` if it contains a
/// secret, such as a token in an address.
pub(crate) fn shared_config(location: &Path) -> Option<PathBuf> {
    let common = location.ancestors().find_map(common_folder)?;
    let config = fs::canonicalize(common.join("config")).ok()?;
    cleveragents_process::is_clean(&config).then_some(config)
}

/// The common git folder of the repository whose root is `folder`.
fn common_folder(folder: &Path) -> Option<PathBuf> {
    let inner = folder.join(".git");
    let git = if inner.is_dir() {
        inner
    } else if let Some(link) = read_small(&inner) {
        let target = link.trim_ascii().strip_prefix(b"gitdir:")?;
        folder.join(path_in(target.trim_ascii()))
    } else if folder.join("HEAD").is_file() && folder.join("objects").is_dir() {
        folder.to_owned()
    } else {
        return None;
    };
    Some(match read_small(&git.join("commondir")) {
        Some(common) => git.join(path_in(common.trim_ascii())),
        None => git,
    })
}

fn path_in(bytes: &[u8]) -> PathBuf {
    PathBuf::from(std::ffi::OsStr::from_bytes(bytes))
}

fn read_small(path: &Path) -> Option<Vec<u8>> {
    let file = fs::metadata(path).ok()?;
    (file.is_file() && file.len() <= MAX_FILE_BYTES)
        .then(|| fs::read(path).ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::shared_objects;
    use std::fs;

    #[test]
    fn a_worktree_of_a_clone_borrows_from_both() {
        let place = tempfile::tempdir().expect("a folder");
        let place = fs::canonicalize(place.path()).expect("its path");
        for folder in [
            "a/.git/objects",
            "b/.git/objects/info",
            "b/.git/worktrees/c",
            "c/sub",
        ] {
            fs::create_dir_all(place.join(folder)).expect("a folder");
        }
        let borrowed = "../../../a/.git/objects\n";
        fs::write(place.join("b/.git/objects/info/alternates"), borrowed).expect("a file");
        fs::write(place.join("b/.git/worktrees/c/commondir"), "../..\n").expect("a file");
        fs::write(place.join("c/.git"), "gitdir: ../b/.git/worktrees/c\n").expect("a file");
        assert_eq!(
            shared_objects(&place.join("c/sub")),
            [place.join("b/.git/objects"), place.join("a/.git/objects")]
        );
        assert!(shared_objects(&place.join("b/.git/objects")).len() == 2);
    }
}
