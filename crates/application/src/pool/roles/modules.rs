//! Lists the modules of a project that a hunt reads one by one.

use std::path::Path;

use cleveragents_sandbox::Git;

use super::sandbox_changes::is_test;

/// Extensions of source files.
const SOURCES: [&str; 24] = [
    "py", "rs", "go", "js", "jsx", "mjs", "cjs", "ts", "tsx", "java", "kt", "rb", "php", "c", "h",
    "cc", "cpp", "hpp", "cs", "swift", "scala", "sql", "sh", "ex",
];

/// Minimum size of a module, in bytes. Smaller files contain no logic.
const MIN_MODULE_BYTES: u64 = 120;

/// Maximum number of entries of folders that are visited in a project without a repository.
const MAX_ENTRIES: usize = 20_000;

/// The source files below a path of a project, without tests, sorted by name. Files that git ignores are left out.
pub(crate) fn modules(location: &Path, below: &str) -> Vec<String> {
    let below = below.trim_start_matches("./").trim_end_matches('/');
    let is_below = |path: &str| {
        below.is_empty()
            || below == "."
            || path == below
            || path
                .strip_prefix(below)
                .is_some_and(|rest| rest.starts_with('/'))
    };
    let is_large_enough = |path: &str| {
        let metadata = std::fs::symlink_metadata(location.join(path));
        metadata.is_ok_and(|metadata| metadata.is_file() && metadata.len() >= MIN_MODULE_BYTES)
    };
    let mut files = tracked(location).unwrap_or_else(|| visited(location));
    files.retain(|path| {
        is_source(path) && !is_test(path) && is_below(path) && is_large_enough(path)
    });
    files.sort();
    files
}

fn is_source(path: &str) -> bool {
    let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
    SOURCES.contains(&extension)
}

/// The files that git tracks; `None` without a repository.
fn tracked(location: &Path) -> Option<Vec<String>> {
    let git = Git::at(location).with_commands_disabled().ok()?;
    let listed = git.try_run(&["ls-files", "-z"]).ok()?;
    if listed.code != Some(0) {
        return None;
    }
    let names = String::from_utf8_lossy(&listed.stdout).into_owned();
    Some(
        names
            .split('\0')
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect(),
    )
}

/// The files of a folder without hidden ones.
fn visited(location: &Path) -> Vec<String> {
    let mut files = Vec::new();
    let mut folders = vec![String::new()];
    let mut entries_left = MAX_ENTRIES;
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(location.join(&folder)) else {
            continue;
        };
        for entry in entries.flatten() {
            let Some(left) = entries_left.checked_sub(1) else {
                return files;
            };
            entries_left = left;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            if name.starts_with('.') {
                continue;
            }
            let path = if folder.is_empty() {
                name
            } else {
                format!("{folder}/{name}")
            };
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(path),
                Ok(kind) if kind.is_file() => files.push(path),
                _ => {}
            }
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::modules;

    #[test]
    fn tests_tiny_and_other_files_are_left_out() {
        let folder = tempfile::tempdir().expect("a folder");
        let source = "x = 1\n".repeat(30);
        for (path, text) in [
            ("src/a.py", source.as_str()),
            ("src/deep/b.rs", &source),
            ("src/tiny.py", "x = 1\n"),
            ("src/test_a.py", &source),
            ("tests/c.py", &source),
            ("srcs/d.py", &source),
            ("src/data.csv", &source),
            (".hidden/e.py", &source),
        ] {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(path, text).expect("a file");
        }
        assert_eq!(
            modules(folder.path(), "src/"),
            ["src/a.py", "src/deep/b.rs"]
        );
        assert_eq!(modules(folder.path(), "src/a.py"), ["src/a.py"]);
        assert_eq!(
            modules(folder.path(), "."),
            ["src/a.py", "src/deep/b.rs", "srcs/d.py"]
        );
    }
}
