//! Languages, build systems and check commands of a tree, detected by its file names.

use std::collections::BTreeSet;
use std::io::Read as _;

use cleveragents_domain::{FileKind, TreePath};
use cleveragents_sandbox::{Root, is_by_product};

/// Maximum number of subfolders of the root that are inspected.
const MAX_FOLDERS: usize = 40;

/// Maximum number of bytes read of a build file.
const MAX_FILE_BYTES: u64 = 256 << 10;

/// Maximum number of files that are listed.
const MAX_FILES: usize = 30;

/// A file that indicates a language and a build system.
struct Manifest {
    file: &'static str,
    language: &'static str,
    build_system: &'static str,
    /// The usual check command; empty when [`check_of`] determines it.
    check: &'static str,
}

const fn manifest(
    file: &'static str,
    language: &'static str,
    build_system: &'static str,
    check: &'static str,
) -> Manifest {
    Manifest {
        file,
        language,
        build_system,
        check,
    }
}

const MANIFESTS: &[Manifest] = &[
    manifest("Cargo.toml", "Rust", "cargo", "cargo test"),
    manifest("package.json", "JavaScript", "npm", ""),
    manifest("tsconfig.json", "TypeScript", "", ""),
    manifest("pnpm-lock.yaml", "", "pnpm", ""),
    manifest("yarn.lock", "", "yarn", ""),
    manifest("deno.json", "TypeScript", "deno", "deno test"),
    manifest("pyproject.toml", "Python", "pyproject", ""),
    manifest("setup.py", "Python", "setuptools", ""),
    manifest("requirements.txt", "Python", "pip", ""),
    manifest("uv.lock", "Python", "uv", ""),
    manifest("poetry.lock", "Python", "poetry", ""),
    manifest("go.mod", "Go", "go", "go test ./..."),
    manifest("Makefile", "", "make", ""),
    manifest("CMakeLists.txt", "C/C++", "cmake", ""),
    manifest("meson.build", "C/C++", "meson", "meson test"),
    manifest("pom.xml", "Java", "maven", "mvn test"),
    manifest("build.gradle", "Java", "gradle", "gradle test"),
    manifest("build.gradle.kts", "Kotlin", "gradle", "gradle test"),
    manifest("build.sbt", "Scala", "sbt", "sbt test"),
    manifest("Gemfile", "Ruby", "bundler", ""),
    manifest("composer.json", "PHP", "composer", ""),
    manifest("mix.exs", "Elixir", "mix", "mix test"),
    manifest("Package.swift", "Swift", "swift", "swift test"),
    manifest("stack.yaml", "Haskell", "stack", "stack test"),
    manifest("build.zig", "Zig", "zig", "zig build test"),
];

/// Languages by file name extension.
const ENDINGS: &[(&str, &str)] = &[
    ("rs", "Rust"),
    ("py", "Python"),
    ("js", "JavaScript"),
    ("mjs", "JavaScript"),
    ("jsx", "JavaScript"),
    ("ts", "TypeScript"),
    ("tsx", "TypeScript"),
    ("go", "Go"),
    ("c", "C/C++"),
    ("h", "C/C++"),
    ("cc", "C/C++"),
    ("cpp", "C/C++"),
    ("java", "Java"),
    ("kt", "Kotlin"),
    ("cs", "C#"),
    ("rb", "Ruby"),
    ("php", "PHP"),
    ("swift", "Swift"),
    ("scala", "Scala"),
    ("hs", "Haskell"),
    ("sh", "Shell"),
    ("sql", "SQL"),
];

/// Result of the detection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct DetectedProject {
    pub(super) languages: Vec<String>,
    pub(super) build_systems: Vec<String>,
    /// Commands that run the tests, as defined by build files in the root.
    pub(super) checks: Vec<String>,
    /// All files, if there are only a few.
    pub(super) files: Vec<String>,
}

impl DetectedProject {
    /// Inspects the root of a tree and its subfolders.
    pub(super) fn find(root: &Root) -> Self {
        let top = files_and_folders(root, None);
        let mut languages = BTreeSet::new();
        let mut build_systems = BTreeSet::new();
        let mut checks = Vec::new();
        for found in MANIFESTS {
            if !top.files.iter().any(|name| name == found.file) {
                continue;
            }
            build_systems.insert(found.build_system);
            languages.insert(found.language);
            let check = check_of(root, found, &top);
            checks.extend(check.filter(|check| !check.is_empty()));
        }
        let inner = top.folders.iter().take(MAX_FOLDERS);
        let inner: Vec<Names> = inner
            .filter_map(|name| TreePath::from_bytes(name.as_str()).ok())
            .map(|folder| files_and_folders(root, Some(&folder)))
            .collect();
        for name in inner.iter().chain([&top]).flat_map(|names| &names.files) {
            let by_manifest = MANIFESTS.iter().find(|found| name == found.file);
            languages.extend(by_manifest.map(|found| found.language));
            let ending = name.rsplit_once('.').map(|(_, ending)| ending);
            let by_ending = ENDINGS.iter().find(|(known, _)| Some(*known) == ending);
            languages.extend(by_ending.map(|(_, language)| *language));
        }
        if checks.is_empty() {
            checks.extend(python_check(&top));
        }
        checks.dedup();
        let texts = |found: BTreeSet<&str>| {
            let found = found.into_iter().filter(|text| !text.is_empty());
            found.map(str::to_owned).collect()
        };
        Self {
            languages: texts(languages),
            build_systems: texts(build_systems),
            checks,
            files: all_files(root).unwrap_or_default(),
        }
    }
}

/// The paths of all files that are not by-products; `None` if there are more than [`MAX_FILES`].
fn all_files(root: &Root) -> Option<Vec<String>> {
    let mut files = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        let path = TreePath::from_bytes(folder.trim_end_matches('/')).ok();
        let names = files_and_folders(root, path.as_ref());
        files.extend(names.files.iter().map(|name| format!("{folder}{name}")));
        folders.extend(names.folders.iter().map(|name| format!("{folder}{name}/")));
        if files.len() > MAX_FILES || folders.len() > MAX_FILES {
            return None;
        }
    }
    files.sort();
    Some(files)
}

/// The test runner of Python tests in the root without a build file.
fn python_check(top: &Names) -> Option<String> {
    let is_test = |name: &&String| {
        name.strip_suffix(".py")
            .is_some_and(|stem| stem.starts_with("test_"))
    };
    top.files.iter().find(is_test)?;
    let uses_pytest = top.files.iter().any(|name| name == "conftest.py");
    let runner = if uses_pytest { "pytest" } else { "unittest" };
    Some(format!("python3 -m {runner}"))
}

/// The names in one folder.
struct Names {
    files: Vec<String>,
    folders: Vec<String>,
}

fn files_and_folders(root: &Root, folder: Option<&TreePath>) -> Names {
    let mut names = Names {
        files: Vec::new(),
        folders: Vec::new(),
    };
    for (name, stat) in root.entries(folder).unwrap_or_default() {
        let Ok(name) = String::from_utf8(name) else {
            continue;
        };
        match stat.mode.map(cleveragents_domain::FileMode::kind) {
            // In a worktree, `.git` is a file.
            Some(FileKind::File) if name != ".git" => names.files.push(name),
            Some(FileKind::Directory) if !name.starts_with('.') => {
                let exists = |path: &TreePath| root.stat(path).is_ok_and(|stat| stat.is_some());
                let path = TreePath::from_bytes(name.as_str());
                if !path.is_ok_and(|path| is_by_product(&path, exists)) {
                    names.folders.push(name);
                }
            }
            _ => {}
        }
    }
    names
}

/// The command that runs the tests of a build file; `None` when it defines none.
fn check_of(root: &Root, found: &Manifest, top: &Names) -> Option<String> {
    match found.file {
        "package.json" => {
            let package: serde_json::Value = serde_json::from_str(&read(root, found.file)).ok()?;
            let has_test = package["scripts"]["test"].is_string();
            has_test.then(|| "npm test".to_owned())
        }
        "Makefile" => {
            let text = read(root, found.file);
            let has = |target: &str| text.lines().any(|line| line.starts_with(target));
            let mut targets = ["check", "test"].into_iter();
            let target = targets.find(|target| has(&format!("{target}:")));
            target.map(|target| format!("make {target}"))
        }
        "pyproject.toml" | "setup.py" | "requirements.txt" => {
            let uses_pytest = read(root, found.file).contains("pytest")
                || top
                    .files
                    .iter()
                    .any(|name| matches!(name.as_str(), "pytest.ini" | "conftest.py"));
            let has_tests = top.folders.iter().any(|name| name == "tests");
            if uses_pytest {
                Some("python3 -m pytest".to_owned())
            } else {
                has_tests.then(|| "python3 -m unittest discover tests".to_owned())
            }
        }
        _ => Some(found.check.to_owned()),
    }
}

/// The first [`MAX_FILE_BYTES`] of a file in the root; empty if the file cannot be read.
fn read(root: &Root, name: &str) -> String {
    let path = TreePath::from_bytes(name).ok();
    let file = path.and_then(|path| root.open_regular(&path).ok().flatten());
    let mut bytes = Vec::new();
    if let Some(file) = file {
        let _incomplete_on_error = file.take(MAX_FILE_BYTES).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detected(files: &[(&str, &str)]) -> DetectedProject {
        let place = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let file = place.path().join(name);
            std::fs::create_dir_all(file.parent().expect("a folder")).expect("made");
            std::fs::write(file, text).expect("written");
        }
        DetectedProject::find(&Root::open(place.path()).expect("a root"))
    }

    #[test]
    fn build_files_name_languages_and_check_commands() {
        let found = detected(&[
            ("Cargo.toml", ""),
            ("package.json", r#"{"scripts": {"test": "jest"}}"#),
            ("Makefile", "all:\n\ntest: all\n"),
            ("src/deep.go", ""),
        ]);
        assert_eq!(found.languages, ["Go", "JavaScript", "Rust"]);
        assert_eq!(found.build_systems, ["cargo", "make", "npm"]);
        assert_eq!(found.checks, ["cargo test", "npm test", "make test"]);
    }

    #[test]
    fn check_commands_are_detected_only_if_a_file_defines_them() {
        let found = detected(&[("package.json", "{}"), ("Makefile", "all:\n")]);
        assert_eq!(found.checks, Vec::<String>::new());
        assert_eq!(detected(&[]), DetectedProject::default());
    }

    #[test]
    fn python_checks_use_the_test_runner_of_the_project() {
        let with =
            |text: &str| detected(&[("pyproject.toml", text), ("tests/test_a.py", "")]).checks;
        assert_eq!(with("[tool.pytest.ini_options]\n"), ["python3 -m pytest"]);
        assert_eq!(with(""), ["python3 -m unittest discover tests"]);
        let without = |files: &[(&str, &str)]| detected(files).checks;
        assert_eq!(without(&[("test_a.py", "")]), ["python3 -m unittest"]);
        let with_pytest = [("test_a.py", ""), ("conftest.py", "")];
        assert_eq!(without(&with_pytest), ["python3 -m pytest"]);
        assert_eq!(without(&[("a.py", "")]), [""; 0]);
    }

    #[test]
    fn the_files_of_a_small_tree_are_listed() {
        let small = [
            ("b.py", ""),
            ("src/deep/a.py", ""),
            ("node_modules/x.js", ""),
            (".git/config", ""),
        ];
        assert_eq!(detected(&small).files, ["b.py", "src/deep/a.py"]);
        let names: Vec<String> = (0..=MAX_FILES)
            .map(|number| format!("{number}.py"))
            .collect();
        let large: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
        assert_eq!(detected(&large).files, [""; 0], "not even a part of them");
        assert_eq!(detected(&large[1..]).files.len(), MAX_FILES);
    }

    #[test]
    fn by_products_do_not_affect_detection() {
        let found = detected(&[("node_modules/x.js", ""), ("a.py", "")]);
        assert_eq!(found.languages, ["Python"]);
    }
}
