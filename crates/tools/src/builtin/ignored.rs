//! [`IgnoreRules`]: the rules of the `.gitignore` and `.ignore` files of a tree.
//!
//! These files are untrusted, so only regular files of a limited size are read. Git does
//! not follow symlinks with these names either.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use cleveragents_sandbox::{Links, read_regular};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// Maximum size of an ignore file, in bytes. Larger files are skipped.
const MAX_FILE_SIZE: u64 = 1 << 20;

/// Names of ignore files. Rules in the first override rules in the second.
const FILES: [&str; 2] = [".ignore", ".gitignore"];

/// The rules of one directory, in the order of [`FILES`].
type FolderRules = Arc<[Gitignore; 2]>;

/// The rules of a tree. The ignore files of a directory are read when the directory is first needed.
pub(super) struct IgnoreRules {
    /// Rules in directories above this one are ignored.
    top: PathBuf,
    folders: Mutex<HashMap<PathBuf, FolderRules>>,
}

impl IgnoreRules {
    pub(super) fn new(top: PathBuf) -> Self {
        Self {
            top,
            folders: Mutex::default(),
        }
    }

    /// Matches a path against the rules. The nearest directory with a matching rule decides.
    pub(super) fn matched(&self, path: &Path, is_folder: bool) -> Match<()> {
        let above = path.ancestors().skip(1);
        let folders: Vec<FolderRules> = above
            .take_while(|folder| folder.starts_with(&self.top))
            .map(|folder| self.rules_of(folder))
            .collect();
        for kind in 0..FILES.len() {
            for rules in &folders {
                match rules[kind].matched(path, is_folder) {
                    Match::None => {}
                    matched => return matched.map(drop),
                }
            }
        }
        Match::None
    }

    fn rules_of(&self, folder: &Path) -> FolderRules {
        let cache = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rules) = cache.get(folder) {
            return Arc::clone(rules);
        }
        drop(cache);
        let rules = Arc::new(FILES.map(|name| read_rules(folder, name)));
        let mut cache = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        cache.insert(folder.to_owned(), Arc::clone(&rules));
        rules
    }
}

/// Reads the rules in a file. Unreadable files and invalid rules are skipped.
fn read_rules(folder: &Path, name: &str) -> Gitignore {
    let file = folder.join(name);
    let Ok(Some(bytes)) = read_regular(&file, Links::Refuse, MAX_FILE_SIZE) else {
        return Gitignore::empty();
    };
    let text = String::from_utf8_lossy(&bytes);
    let mut builder = GitignoreBuilder::new(folder);
    for line in text.trim_start_matches('\u{feff}').lines() {
        let _invalid_rule = builder.add_line(Some(file.clone()), line);
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

#[cfg(test)]
mod tests {
    use super::IgnoreRules;
    use std::path::Path;

    #[test]
    fn the_nearest_rule_decides_and_ignore_wins_over_gitignore() {
        let tree = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            let place = tree.path().join(name);
            std::fs::create_dir_all(place.parent().expect("a folder")).expect("made");
            std::fs::write(place, text).expect("written");
        };
        write(".gitignore", "*.log\nbuild/\n/only-top\n.kept\n");
        write("inner/.gitignore", "!keep.log\n");
        write("other/.ignore", "!*.log\n");
        let rules = IgnoreRules::new(tree.path().to_owned());
        let ignored = |path: &str, is_folder| {
            rules
                .matched(&tree.path().join(Path::new(path)), is_folder)
                .is_ignore()
        };
        assert!(ignored("a.log", false) && ignored("inner/b.log", false));
        assert!(!ignored("inner/keep.log", false) && !ignored("other/a.log", false));
        assert!(ignored("build", true) && !ignored("build", false));
        assert!(ignored("only-top", false) && !ignored("inner/only-top", false));
        assert!(!ignored("a.txt", false));
    }

    #[test]
    fn pipes_devices_and_symlinks_are_not_read_as_rules() {
        let tree = tempfile::tempdir().expect("a folder");
        let pipe = tree.path().join(".gitignore");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.expect("mkfifo runs").success());
        std::os::unix::fs::symlink("/dev/zero", tree.path().join(".ignore")).expect("a link");
        let rules = IgnoreRules::new(tree.path().to_owned());
        assert!(rules.matched(&tree.path().join("a"), false).is_none());
    }
}
