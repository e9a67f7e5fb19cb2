//! By-products of tools, which users do not want to keep: caches, compiled files, installed packages,
//! and files that git ignores.

use std::collections::{BTreeSet, HashSet};

use cleveragents_domain::{FileKind, FileMode, TreePath};

use crate::error::Error;
use crate::git::{joined, open_checkout, records};
use crate::member::{Base, Member};

/// Names of folders that always contain by-products.
const FOLDERS: &[&str] = &[
    "__pycache__",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    ".hypothesis",
    ".tox",
    ".nox",
    ".eggs",
    ".ipynb_checkpoints",
    "node_modules",
    ".nyc_output",
    ".parcel-cache",
    ".turbo",
    ".gradle",
    ".venv",
    ".next",
    ".nuxt",
    ".svelte-kit",
    ".vite",
    ".terraform",
    ".dart_tool",
    ".stack-work",
    "CMakeFiles",
    "dist-newstyle",
    "htmlcov",
];

/// Suffixes of the names of folders that contain by-products.
const FOLDER_ENDS: &[&str] = &[".egg-info"];

/// Folders that contain by-products if they contain one of these files.
const MARKED_FOLDERS: &[(&str, &[&str])] = &[
    ("target", &[".rustc_info.json", "CACHEDIR.TAG"]),
    ("venv", &["pyvenv.cfg"]),
    (
        "coverage",
        &["lcov.info", "coverage-final.json", "clover.xml"],
    ),
];

/// Names of files that are always by-products.
const FILES: &[&str] = &[".DS_Store", "Thumbs.db", ".coverage", ".eslintcache"];

/// Suffixes of the names of files that are by-products.
const FILE_ENDS: &[&str] = &[".pyc", ".pyo", ".class", ".gcda", ".gcno", ".tsbuildinfo"];

/// Whether a path is a well-known by-product or lies in a folder of by-products. `exists` checks whether a path exists
/// in the tree; it is called for files that mark a folder, such as `CACHEDIR.TAG` in cargo's `target`.
pub fn is_by_product(path: &TreePath, exists: impl Fn(&TreePath) -> bool) -> bool {
    let name = path.name();
    let ends = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end.as_bytes()));
    if FILES.iter().any(|file| name == file.as_bytes()) || ends(FILE_ENDS) {
        return true;
    }
    let mut ancestor = Some(path.clone());
    while let Some(folder) = ancestor {
        if is_folder_of_by_products(&folder, &exists) {
            return true;
        }
        ancestor = folder.parent();
    }
    false
}

fn is_folder_of_by_products(folder: &TreePath, exists: &impl Fn(&TreePath) -> bool) -> bool {
    let name = folder.name();
    let is_named = |expected: &&str| name == expected.as_bytes();
    if FOLDERS.iter().any(is_named) || FOLDER_ENDS.iter().any(|end| name.ends_with(end.as_bytes()))
    {
        return true;
    }
    MARKED_FOLDERS.iter().any(|(expected, marks)| {
        is_named(expected)
            && marks
                .iter()
                .any(|mark| folder.join(mark.as_bytes()).is_ok_and(|mark| exists(&mark)))
    })
}

impl Member {
    /// Returns the subset of `paths` that git ignores, by the rules of the copy and of the user's repository. Empty if
    /// the member is not a git repository, or if its copy or repository is missing.
    pub fn ignored(&self, paths: &[TreePath]) -> Result<HashSet<TreePath>, Error> {
        let is_git = matches!(self.base, Base::Git(_)) && self.root.is_dir();
        if paths.is_empty() || !is_git || !self.has_readable_ignore_files(paths)? {
            return Ok(HashSet::new());
        }
        let Ok(checkout) = open_checkout(&self.location) else {
            return Ok(HashSet::new());
        };
        let git = checkout.scratch(&checkout.index, &self.root);
        let arguments = ["check-ignore", "-z", "--stdin", "--no-index"];
        let answer = git.start_in(&self.root, &arguments, &joined(paths))?;
        // Git refuses paths that lead through links or submodules; the apply checks such paths again.
        if !matches!(answer.code, Some(0 | 1)) {
            return Ok(HashSet::new());
        }
        Ok(records(&answer.stdout)
            .filter_map(|path| TreePath::from_bytes(path).ok())
            .collect())
    }

    /// Whether every `.gitignore` that git would read for these paths is a regular file or link. Git would block
    /// forever on a pipe.
    fn has_readable_ignore_files(&self, paths: &[TreePath]) -> Result<bool, Error> {
        let root = self.work_root()?;
        let mut files: BTreeSet<TreePath> =
            TreePath::from_bytes(b".gitignore").into_iter().collect();
        for path in paths {
            let mut ancestor = path.parent();
            while let Some(folder) = ancestor {
                let file = folder.join(b".gitignore").ok();
                let is_new = file.is_some_and(|file| files.insert(file));
                ancestor = folder.parent().filter(|_| is_new);
            }
        }
        for file in files {
            let Ok(found) = root.stat(&file) else {
                return Ok(false);
            };
            let kind = found.map(|stat| stat.mode.map(FileMode::kind));
            if !matches!(kind, None | Some(Some(FileKind::File | FileKind::Symlink))) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::is_by_product;
    use cleveragents_domain::TreePath;

    fn path(text: &str) -> TreePath {
        text.parse().expect("a path")
    }

    #[test]
    fn caches_and_compiled_files_are_by_products() {
        for text in [
            "__pycache__",
            "src/__pycache__/a.cpython-312.pyc",
            "old.pyc",
            ".pytest_cache/v/cache/lastfailed",
            "web/node_modules/left-pad/index.js",
            "pkg.egg-info/PKG-INFO",
            "docs/.DS_Store",
            ".venv/lib/site.py",
            "web/.next/cache/x",
            "infra/.terraform/providers/x",
            "src/Main.class",
            "htmlcov/index.html",
        ] {
            assert!(is_by_product(&path(text), |_| false), "{text}");
        }
        for text in [
            "src/pycache.py",
            "target/list.txt",
            "venv/notes.md",
            "coverage/notes.md",
            "a.py",
        ] {
            assert!(!is_by_product(&path(text), |_| false), "{text}");
        }
    }

    #[test]
    fn only_a_target_folder_of_cargo_is_a_by_product() {
        let mark = path("app/target/CACHEDIR.TAG");
        let exists = |queried: &TreePath| *queried == mark;
        assert!(is_by_product(&path("app/target/debug/app"), exists));
        assert!(is_by_product(&path("app/target"), exists));
        assert!(!is_by_product(&path("other/target/x"), exists));
    }
}
