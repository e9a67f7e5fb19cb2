//! The original of a sandbox, before and after: a plain folder or a git repository.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use cleveragents_application::Target;
use cleveragents_sandbox::Source;
use cleveragents_testkit::Dice;

use crate::tree::{self, Entry, Tree, walk};

/// Runs git, which must succeed.
pub(crate) fn git(folder: &Path, arguments: &[&str]) -> Vec<u8> {
    let output = Command::new("git")
        .args(["-c", "user.name=Test", "-c", "user.email=test@localhost"])
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .expect("git starts");
    assert!(
        output.status.success(),
        "git {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

/// Uncommitted files of the user. Git ignores the second one if the repository has a `.gitignore`.
const OWN: [&str; 2] = ["my own", "mine.ignored"];

/// A folder of the user.
pub(crate) struct RealFolder {
    pub(crate) place: PathBuf,
    pub(crate) source: Source,
    /// Id of the only commit; empty unless the folder is a repository.
    head: Vec<u8>,
}

impl RealFolder {
    /// A folder with a random tree.
    pub(crate) fn directory(place: PathBuf, dice: &mut Dice) -> Self {
        std::fs::create_dir(&place).expect("a folder");
        tree::write(&tree::random(dice), &place);
        Self {
            place,
            source: Source::Directory,
            head: Vec::new(),
        }
    }

    /// A repository whose only commit contains a random tree.
    pub(crate) fn repository(place: PathBuf, dice: &mut Dice) -> Self {
        std::fs::create_dir(&place).expect("a folder");
        git(&place, &["init", "-q", "-b", "main"]);
        let mut all = tree::random(dice);
        if dice.once_in(2) {
            let patterns = Entry::File(0o644, b"*.ignored\n".to_vec());
            all.insert(b".gitignore".to_vec(), patterns);
        }
        tree::write(&all, &place);
        git(&place, &["add", "-A"]);
        git(&place, &["commit", "-q", "--allow-empty", "-m", "first"]);
        // Check the files out again, so that they are as git writes them.
        let written = walk(&place);
        for (path, _) in written.iter().filter(|(_, entry)| entry.is_folder()) {
            tree::set_mode(&tree::at(&place, path), 0o755);
        }
        for path in written.keys().rev() {
            let place = tree::at(&place, path);
            std::fs::remove_file(&place)
                .or_else(|_| std::fs::remove_dir(&place))
                .expect("removed");
        }
        git(&place, &["reset", "-q", "--hard"]);
        Self {
            head: git(&place, &["rev-parse", "HEAD"]),
            source: Source::Git,
            place,
        }
    }

    /// Writes uncommitted files into a repository, after the sandbox was created.
    pub(crate) fn write_own_files(&self, dice: &mut Dice) {
        if self.source != Source::Git {
            return;
        }
        for name in OWN.iter().filter(|_| dice.once_in(2)) {
            std::fs::write(self.place.join(name), "not committed\n").expect("a file");
        }
    }

    pub(crate) fn target(&self) -> Target {
        Target {
            alias: "part".to_owned(),
            resource: "part".to_owned(),
            strategy: "test".to_owned(),
            source: self.source,
            location: self.place.clone(),
            is_read_only: false,
        }
    }

    /// Asserts that no files of a sandbox remain in the folder, and that git reports the expected state.
    pub(crate) fn assert_settled(&self, is_changed: bool, left_out: &BTreeSet<Vec<u8>>) {
        for entry in std::fs::read_dir(&self.place).expect("a folder") {
            let name = entry.expect("an entry").file_name();
            let name = name.to_string_lossy();
            assert!(!name.starts_with(".cleveragents"), "{name} is left behind");
        }
        if self.source != Source::Git {
            return;
        }
        let status = git(&self.place, &["status", "--porcelain", "-z", "-uall"]);
        let foreign: Vec<_> = status
            .split(|byte| *byte == 0)
            .filter(|line| !line.is_empty())
            .filter(|line| {
                !OWN.iter()
                    .any(|name| *line == format!("?? {name}").as_bytes())
            })
            .map(String::from_utf8_lossy)
            .collect();
        assert!(foreign.is_empty(), "git sees changes: {foreign:?}");
        let head = git(&self.place, &["rev-parse", "HEAD"]);
        if is_changed && head != self.head {
            let parent = git(&self.place, &["rev-parse", "HEAD^"]);
            assert_eq!(parent, self.head, "one commit on top");
        }
        for path in left_out {
            let ignored = Command::new("git")
                .args(["check-ignore", "-q", "--stdin", "-z"])
                .current_dir(&self.place)
                .stdin(std::process::Stdio::piped())
                .spawn()
                .and_then(|mut child| {
                    use std::io::Write as _;
                    let mut input = child.stdin.take().expect("a pipe");
                    input.write_all(path)?;
                    drop(input);
                    child.wait()
                })
                .expect("git runs");
            assert!(
                ignored.success(),
                "{} is left out and git does not ignore it",
                String::from_utf8_lossy(path)
            );
        }
        let refs = git(&self.place, &["for-each-ref", "refs/cleveragents"]);
        assert!(refs.is_empty(), "no reference of a sandbox remains");
        let worktrees = git(&self.place, &["worktree", "list", "--porcelain", "-z"]);
        let count = worktrees
            .split(|byte| *byte == 0)
            .filter(|line| line.starts_with(b"worktree "))
            .count();
        assert_eq!(count, 1, "no worktree of a sandbox remains");
        assert!(!self.place.join(".git/index.lock").exists(), "no lock");
    }
}

/// The expected tree of the user after the changes from `base` to `wanted` are applied to it,
/// without the paths that stay in the sandbox.
pub(crate) fn expected(
    mut real: Tree,
    base: &Tree,
    wanted: &Tree,
    left_out: &BTreeSet<Vec<u8>>,
) -> Tree {
    for path in base.keys().rev() {
        let within = [path.as_slice(), b"/"].concat();
        let holds_more = real.keys().any(|other| other.starts_with(&within));
        if !wanted.contains_key(path) && !left_out.contains(path) && !holds_more {
            real.remove(path);
        }
    }
    for (path, entry) in wanted {
        if base.get(path) != Some(entry) && !left_out.contains(path) {
            real.insert(path.clone(), entry.clone());
        }
    }
    real
}
