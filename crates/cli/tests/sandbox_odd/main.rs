//! Sandboxes of unusual repositories, damaged sandboxes, and escape attempts: each works or is
//! refused with an error and a recovery, and the user's data stays unchanged.

mod builds;
mod commands;
mod contents;
mod damage;
mod disk;
mod escape;
mod exec;
mod git_inside;
mod interrupt;
mod names;
mod parts;
mod paths;
mod races;
mod reading;
mod repositories;
mod special;
mod submodules;
mod terminal;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use cleveragents_testkit::{Agents, Answer};
use serde_json::Value;

/// Each path with its permissions, and its bytes or the target of the link.
type Tree = BTreeMap<PathBuf, (u32, Vec<u8>)>;

/// A home, and the user's files next to it.
struct SandboxFixture {
    agents: Agents,
}

impl SandboxFixture {
    fn new() -> Self {
        let fixture = Self {
            agents: Agents::new(env!("CARGO_BIN_EXE_agents")),
        };
        fixture.config("user.name", "A User");
        fixture.config("user.email", "user@localhost");
        fixture.config("init.defaultBranch", "main");
        fixture
    }

    fn with(self, name: &str, value: impl Into<String>) -> Self {
        Self {
            agents: self.agents.with(name, value),
        }
    }

    /// Folder of the user's files.
    fn folder(&self) -> PathBuf {
        self.agents.cwd()
    }

    /// The user's home directory, where git reads its configuration.
    fn user(&self) -> PathBuf {
        self.folder().parent().expect("a parent folder").to_owned()
    }

    /// Sets a key in the user's git configuration.
    fn config(&self, name: &str, value: &str) {
        self.git(&self.folder(), &["config", "--global", name, value]);
    }

    fn start_git<S: AsRef<OsStr>>(&self, folder: &Path, arguments: &[S]) -> Output {
        Command::new("git")
            .current_dir(folder)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.user())
            .args(arguments)
            .output()
            .expect("git starts")
    }

    /// Runs git as the user. Asserts that it succeeds, and returns its output.
    fn git<S: AsRef<OsStr> + std::fmt::Debug>(&self, folder: &Path, arguments: &[S]) -> String {
        let output = self.start_git(folder, arguments);
        assert!(
            output.status.success(),
            "git {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout)
            .trim_end()
            .to_owned()
    }

    fn commit(&self, folder: &Path, message: &str) {
        self.git(folder, &["add", "-A"]);
        self.git(folder, &["commit", "-q", "--no-gpg-sign", "-m", message]);
    }

    /// Creates a repository with a few files and one commit.
    fn repository(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.repository_of(name, &[])
    }

    /// Like `repository`, with options of `git init`.
    fn repository_of(&self, name: impl AsRef<OsStr>, options: &[&str]) -> PathBuf {
        let folder = self.folder().join(name.as_ref());
        std::fs::create_dir_all(folder.join("d")).expect("a folder");
        self.git(&folder, &[&["init", "-q"], options].concat());
        std::fs::write(folder.join("a.txt"), "one\n").expect("a file");
        std::fs::write(folder.join("d/b.txt"), "two\n").expect("a file");
        std::fs::write(folder.join("run.sh"), "#!/bin/sh\n").expect("a file");
        set_mode(&folder.join("run.sh"), 0o755);
        std::os::unix::fs::symlink("a.txt", folder.join("link")).expect("a link");
        self.commit(&folder, "first");
        folder
    }

    fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Answer {
        let output = self.agents.command(arguments).output();
        Answer::from_output(&output.expect("the program starts"))
    }

    fn run_successfully<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Answer {
        let answer = self.run(arguments);
        assert_eq!(answer.code, Some(0), "{answer:?}");
        assert!(!answer.err.contains("panicked"), "{answer:?}");
        answer
    }

    /// Creates the sandbox `s` of a folder.
    fn create(&self, path: &Path) {
        self.run_successfully([
            OsStr::new("sandbox"),
            "create".as_ref(),
            "s".as_ref(),
            "--path".as_ref(),
            path.as_os_str(),
        ]);
    }

    /// Runs a script in the sandbox. Asserts that it succeeds.
    fn sh(&self, script: &str) -> Answer {
        self.run_successfully(["sandbox", "exec", "s", "--", "sh", "-ec", script])
    }

    /// Changed paths, with their operations.
    fn diff(&self) -> BTreeMap<String, String> {
        let data = self.agents.data(&["sandbox", "diff", "s", "--stat"]);
        let changes = data["parts"][0]["changes"]
            .as_array()
            .expect("a list")
            .clone();
        changes
            .iter()
            .map(|change| {
                let text = |name: &str| change[name].as_str().expect("text").to_owned();
                (text("path"), text("operation"))
            })
            .collect()
    }

    fn apply(&self) -> Value {
        self.agents.data(&["sandbox", "apply", "s"])
    }

    /// Asserts that a command is refused in a human format and in JSON. Returns the error.
    fn refused(&self, arguments: &[&str], exit: i32, code: &str) -> Value {
        let human = self.run([&["--format", "plain"], arguments].concat());
        assert_eq!(human.code, Some(exit), "{arguments:?}: {human:?}");
        assert!(human.err.contains(&format!("error[{code}]: ")), "{human:?}");
        let machine = self.run([&["--format", "json"], arguments].concat());
        assert_eq!(machine.code, Some(exit), "{arguments:?}: {machine:?}");
        let error = machine.json()["data"]["error"].clone();
        assert_eq!(error["code"], code, "{machine:?}");
        for part in ["message", "hint"] {
            let text = error[part].as_str().unwrap_or_default();
            assert!(!text.trim().is_empty(), "{part} is missing: {machine:?}");
        }
        error
    }

    /// Asserts that an apply is refused and changes nothing. Returns the error message.
    fn apply_refused(&self, path: &Path, exit: i32, code: &str) -> String {
        let before = tree(path);
        let error = self.refused(&["sandbox", "apply", "s"], exit, code);
        assert_same(&before, &tree(path));
        error["message"].as_str().expect("text").to_owned()
    }

    fn discard(&self) {
        self.run_successfully(["sandbox", "discard", "s", "--yes"]);
    }

    /// Folder of the sandbox.
    fn sandbox(&self) -> PathBuf {
        let data = self.agents.data(&["sandbox", "show", "s"]);
        let work = PathBuf::from(data["sandbox"]["folder"].as_str().expect("a folder"));
        work.parent().expect("a parent folder").to_owned()
    }

    /// Asserts that no sandbox has left traces, neither in the home nor in a repository.
    fn assert_nothing_left(&self, repository: &Path) {
        let sandboxes = self.agents.home().join("sandboxes");
        let left: Vec<_> = std::fs::read_dir(&sandboxes)
            .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
            .unwrap_or_default();
        assert!(left.is_empty(), "left in the home: {left:?}");
        for path in tree(repository).keys() {
            let name = path.to_string_lossy();
            assert!(!name.contains("cleveragents"), "left: {name}");
            assert!(!name.contains("worktrees/s"), "left: {name}");
            assert!(!name.ends_with("index.lock"), "left: {name}");
        }
    }

    /// Applies the sandbox, and asserts that the repository is valid and clean, has one more commit
    /// and equals the sandbox.
    fn apply_and_check(&self, repository: &Path) -> Value {
        let count = |fixture: &Self| fixture.git(repository, &["rev-list", "--count", "HEAD"]);
        let before: u32 = count(self).parse().expect("a number");
        let part = self.agents.data(&["sandbox", "show", "s"])["sandbox"]["parts"][0].clone();
        let expected = files(Path::new(part["folder"].as_str().expect("a folder")));
        let applied = self.apply();
        assert_eq!(count(self), (before + 1).to_string(), "one commit more");
        assert_eq!(
            files(repository),
            expected,
            "the repository equals the sandbox"
        );
        assert_eq!(self.git(repository, &["status", "--porcelain"]), "");
        self.git(repository, &["fsck", "--strict"]);
        self.assert_nothing_left(repository);
        applied
    }
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("permissions");
}

/// All entries below a folder.
fn tree(folder: &Path) -> Tree {
    let mut contents = Tree::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries {
            let path = entry.expect("an entry").path();
            let metadata = std::fs::symlink_metadata(&path).expect("metadata");
            let bytes = if metadata.is_symlink() {
                use std::os::unix::ffi::OsStringExt as _;
                let target = std::fs::read_link(&path).expect("a target");
                target.into_os_string().into_vec()
            } else if metadata.is_file() {
                std::fs::read(&path).expect("a file can be read")
            } else {
                folders.push(path.clone());
                Vec::new()
            };
            contents.insert(path, (metadata.permissions().mode(), bytes));
        }
    }
    contents
}

/// Files and links below a folder, without `.git`, by relative path.
fn files(folder: &Path) -> Tree {
    tree(folder)
        .into_iter()
        .filter(|(path, _)| !path.is_dir() || path.is_symlink())
        .map(|(path, content)| {
            (
                path.strip_prefix(folder).expect("a prefix").to_owned(),
                content,
            )
        })
        .filter(|(path, _)| !path.starts_with(".git"))
        .collect()
}

/// Asserts that two trees are equal. Reports the first difference.
fn assert_same(before: &Tree, after: &Tree) {
    for (path, content) in before {
        assert_eq!(after.get(path), Some(content), "{} changed", path.display());
    }
    for path in after.keys() {
        assert!(before.contains_key(path), "{} is new", path.display());
    }
}

fn read(path: impl AsRef<Path>) -> String {
    String::from_utf8_lossy(&std::fs::read(path).expect("a file")).into_owned()
}
