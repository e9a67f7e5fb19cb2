//! The user's repositories, folders and databases, and their content as comparable text.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use cleveragents_testkit::{Agents, Answer, TestDatabase};
use serde_json::Value;

pub(crate) fn agents() -> Agents {
    Agents::new(env!("CARGO_BIN_EXE_agents"))
}

/// Runs git as the user, with any result.
pub(crate) fn try_git(folder: &Path, arguments: &[&str]) -> Answer {
    let output = Command::new("git")
        .args(["-c", "user.name=Test", "-c", "user.email=test@localhost"])
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_OPTIONAL_LOCKS", "0")
        .output()
        .expect("git starts");
    Answer::from_output(&output)
}

/// Runs git as the user. Asserts that it succeeds, and returns its output.
pub(crate) fn git(folder: &Path, arguments: &[&str]) -> String {
    let answer = try_git(folder, arguments);
    assert_eq!(answer.code, Some(0), "git {arguments:?}: {answer:?}");
    answer.out
}

pub(crate) fn write(path: impl AsRef<Path>, content: &str) {
    let path = path.as_ref();
    let parent = path.parent().expect("a parent folder");
    std::fs::create_dir_all(parent).expect("folders");
    std::fs::write(path, content).expect("a file");
}

pub(crate) fn read(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(path).expect("a text")
}

/// A repository with these files in its first commit.
pub(crate) fn repository(path: &Path, files: &[(&str, &str)]) {
    std::fs::create_dir_all(path).expect("a folder");
    git(path, &["init", "-q", "-b", "main"]);
    for (name, content) in files {
        write(path.join(name), content);
    }
    commit(path, "first");
}

/// Commits everything, as the user.
pub(crate) fn commit(path: &Path, message: &str) {
    git(path, &["add", "-A"]);
    git(path, &["commit", "-q", "--allow-empty", "-m", message]);
}

/// Every path below a folder with kind, permissions and content, and optionally the times of files,
/// except paths in `skip`.
pub(crate) fn snapshot(
    root: &Path,
    with_times: bool,
    skip: &dyn Fn(&str) -> bool,
) -> BTreeMap<String, String> {
    let mut entries = BTreeMap::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root.join(&folder)).expect("a folder") {
            let path = folder.join(entry.expect("an entry").file_name());
            let name = path.display().to_string();
            if skip(&name) {
                continue;
            }
            let full_path = root.join(&path);
            let metadata = std::fs::symlink_metadata(&full_path).expect("the path exists");
            let mut description = format!("{:o} ", metadata.mode());
            if metadata.is_dir() {
                folders.push(path);
            } else {
                let content = if metadata.is_symlink() {
                    let target = std::fs::read_link(&full_path).expect("a link");
                    target.display().to_string().into_bytes()
                } else {
                    std::fs::read(&full_path).expect("a file")
                };
                description.push_str(&String::from_utf8_lossy(&content));
                if with_times {
                    write!(
                        description,
                        " {} {}",
                        metadata.mtime(),
                        metadata.mtime_nsec()
                    )
                    .expect("text");
                }
            }
            entries.insert(name, description);
        }
    }
    entries
}

/// The user's files, without `.git`.
pub(crate) fn files(root: &Path) -> BTreeMap<String, String> {
    snapshot(root, false, &|name| name == ".git")
}

/// Every byte of a repository, with file times, except git objects and the git data of sandboxes.
pub(crate) fn every_byte(root: &Path) -> BTreeMap<String, String> {
    snapshot(root, true, &|name| {
        name == ".git/objects" || name == ".git/worktrees" || name == ".git/refs/cleveragents"
    })
}

/// Creates a sandbox. Returns the folders of its parts.
pub(crate) fn create(agents: &Agents, name: &str, paths: &[&Path]) -> Vec<PathBuf> {
    let mut arguments = vec!["sandbox", "create", name];
    for path in paths {
        arguments.extend(["--path", path.to_str().expect("a path")]);
    }
    let created = agents.data(&arguments);
    let parts = created["sandbox"]["parts"].as_array().expect("parts");
    parts
        .iter()
        .map(|part| PathBuf::from(part["folder"].as_str().expect("a folder")))
        .collect()
}

/// Names of the open sandboxes.
pub(crate) fn names(agents: &Agents) -> Vec<String> {
    let listed = agents.data(&["sandbox", "list"]);
    let sandboxes = listed["sandboxes"].as_array().expect("a list");
    sandboxes
        .iter()
        .map(|sandbox| sandbox["name"].as_str().expect("a name").to_owned())
        .collect()
}

/// Asserts that each open sandbox has one folder and one reference, and that nothing else is left.
pub(crate) fn assert_nothing_leaked(agents: &Agents, repositories: &[&Path], folders: &[&Path]) {
    let count = names(agents).len();
    let folder_count =
        std::fs::read_dir(agents.home().join("sandboxes")).map_or(0, Iterator::count);
    assert_eq!(folder_count, count, "one folder for each sandbox");
    for place in repositories {
        let worktrees = git(place, &["worktree", "list", "--porcelain"]);
        let worktrees = worktrees
            .lines()
            .filter(|line| line.starts_with("worktree "))
            .count();
        assert_eq!(worktrees, 1, "no sandbox is registered");
        let references = git(place, &["for-each-ref", "refs/cleveragents"]);
        assert_eq!(
            references.lines().count(),
            count,
            "one reference for each sandbox: {references}"
        );
        for entry in std::fs::read_dir(place.join(".git")).expect("a folder") {
            let name = entry.expect("an entry").file_name();
            let name = name.to_string_lossy();
            assert!(
                !name.starts_with("index."),
                "`.git/{name}` is left behind in {}",
                place.display()
            );
        }
    }
    for place in repositories.iter().chain(folders) {
        for name in files(place).keys() {
            assert!(!name.starts_with(".cleveragents"), "{name} is left behind");
        }
    }
}

/// Two repositories, a folder and a database, for a sandbox that changes each of them.
pub(crate) struct World {
    pub(crate) agents: Agents,
    template: tempfile::TempDir,
}

impl World {
    /// Creates the user's data in its initial state.
    pub(crate) fn new(agents: Agents) -> Self {
        let world = Self {
            agents,
            template: tempfile::tempdir().expect("a folder"),
        };
        for (name, text) in [("one", "eins\n"), ("two", "zwei\n")] {
            repository(
                &world.place(name),
                &[
                    ("keep", "same\n"),
                    ("edit", text),
                    ("gone", "away\n"),
                    ("sub/deep", "deep\n"),
                ],
            );
        }
        write(world.place("plain/edit"), "before\n");
        write(world.place("plain/gone"), "away\n");
        write(world.place("plain/swap"), "a file\n");
        write(world.place("plain/folder/inside"), "inside\n");
        let rows = "CREATE TABLE t (v TEXT); INSERT INTO t VALUES ('old');";
        TestDatabase::write_file(&world.place("data.db"), rows);
        world
    }

    pub(crate) fn place(&self, name: &str) -> PathBuf {
        self.agents.cwd().join(name)
    }

    pub(crate) fn repositories(&self) -> [PathBuf; 2] {
        [self.place("one"), self.place("two")]
    }

    /// Creates the sandbox `all` and changes files in it.
    pub(crate) fn change_everything(&self) {
        let places = ["one", "two", "plain", "data.db"].map(|name| self.place(name));
        let places: Vec<&Path> = places.iter().map(PathBuf::as_path).collect();
        let parts = create(&self.agents, "all", &places);
        for part in &parts[..2] {
            write(part.join("edit"), "changed\n");
            write(part.join("new/file"), "new\n");
            std::fs::remove_file(part.join("gone")).expect("removed");
        }
        write(parts[2].join("edit"), "after\n");
        std::fs::remove_file(parts[2].join("gone")).expect("removed");
        std::fs::remove_dir_all(parts[2].join("folder")).expect("removed");
        write(parts[2].join("folder"), "a file now\n");
        std::fs::remove_file(parts[2].join("swap")).expect("removed");
        write(parts[2].join("swap/inside"), "a folder now\n");
        std::os::unix::fs::symlink("edit", parts[2].join("link")).expect("a link");
        let rows = "INSERT INTO t VALUES ('new');";
        TestDatabase::write_file(&parts[3].join("data.db"), rows);
        self.agents.data(&["sandbox", "checkpoint", "all"]);
    }

    /// The user's data, part by part.
    pub(crate) fn state(&self) -> Vec<String> {
        let mut parts: Vec<String> = self
            .repositories()
            .iter()
            .map(|place| {
                let output = |arguments: &[&str]| git(place, arguments);
                format!(
                    "{:?} {} {} {} {}",
                    files(place),
                    output(&["rev-parse", "HEAD^{tree}"]),
                    output(&["rev-list", "--count", "HEAD"]),
                    output(&["status", "--porcelain", "-uall"]),
                    output(&["ls-files", "--stage"]),
                )
            })
            .collect();
        parts.push(format!("{:?}", files(&self.place("plain"))));
        let rows = TestDatabase::read_file(&self.place("data.db"), "SELECT v FROM t ORDER BY v");
        parts.push(format!("{rows:?}"));
        parts
    }

    /// Changes of the sandbox.
    pub(crate) fn changes(&self) -> Value {
        self.agents.data(&["sandbox", "diff", "all", "--stat"])["parts"].clone()
    }

    fn copy(from: &Path, to: &Path) {
        let copied = Command::new("cp").arg("-a").arg(from).arg(to).status();
        assert!(copied.expect("cp starts").success(), "copied");
    }

    fn places(&self) -> [PathBuf; 2] {
        [self.agents.home().to_owned(), self.agents.cwd()]
    }

    pub(crate) fn save_state(&self) {
        for place in self.places() {
            Self::copy(&place, self.template.path());
        }
    }

    pub(crate) fn restore_state(&self) {
        for place in self.places() {
            std::fs::remove_dir_all(&place).expect("removed");
            let name = place.file_name().expect("a name");
            Self::copy(&self.template.path().join(name), &place);
        }
    }

    /// Asserts that only these sandboxes have left traces.
    pub(crate) fn assert_nothing_leaked_but(&self, left: &[String]) {
        assert_eq!(names(&self.agents), left);
        self.assert_nothing_leaked();
    }

    pub(crate) fn assert_nothing_leaked(&self) {
        let repositories = self.repositories();
        let repositories: Vec<&Path> = repositories.iter().map(PathBuf::as_path).collect();
        assert_nothing_leaked(&self.agents, &repositories, &[&self.place("plain")]);
    }
}
