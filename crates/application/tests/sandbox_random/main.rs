//! Random trees with random edits by shells and tools, checkpoints, rollbacks and redos in any order, then an apply:
//! rollback restores trees exactly, the diff contains exactly the changes, the preview equals the apply, and after the
//! apply the real tree equals the tree of the sandbox.
//!
//! A failing case prints its seed; `CLEVERAGENTS_TEST_SEED` runs only that case.

#![expect(clippy::print_stdout, reason = "prints the number of cases")]

mod edits;
mod real;
mod tree;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use cleveragents_application::{
    ApplyRequest, OpenSandbox, RollbackTarget, SandboxError, SandboxService,
};
use cleveragents_domain::{CheckpointReason, TreePath};
use cleveragents_sandbox::Source;
use cleveragents_testkit::{Dice, TestDatabase, proof_size};
use rustix::io::Errno;

use real::RealFolder;
use tree::{Entry, Tree, walk};

/// A sandbox and its expected state.
struct Case<'a> {
    service: &'a SandboxService,
    open: OpenSandbox,
    root: std::path::PathBuf,
    base: Tree,
    /// Every checkpoint with the tree that it must restore.
    checkpoints: Vec<(String, Tree)>,
    /// The trees that redo must restore.
    redo: Vec<Tree>,
    /// The tree at the last full scan.
    scanned: Tree,
}

impl Case<'_> {
    /// Records that the program scans the whole tree. A change since the last scan discards all redo states.
    fn scan(&mut self) -> Tree {
        let current = walk(&self.root);
        if current != self.scanned {
            self.redo.clear();
        }
        self.scanned.clone_from(&current);
        current
    }

    fn checkpoint(&mut self) {
        let tree = self.scan();
        let number = self
            .service
            .checkpoint(&mut self.open, CheckpointReason::Manual, None)
            .expect("a checkpoint is made");
        self.checkpoints.push((number.to_string(), tree));
    }

    fn rollback(&mut self, dice: &mut Dice) {
        let before = self.scan();
        let (number, expected_tree) = dice.pick(&self.checkpoints).clone();
        let done = self
            .service
            .rollback(&mut self.open, &RollbackTarget::Checkpoint(number.clone()))
            .unwrap_or_else(|error| panic!("rollback to {number}: {error}"));
        assert_same(&walk(&self.root), &expected_tree, "after rollback");
        let kept = done.before.expect("the state before is kept");
        self.checkpoints.push((kept.to_string(), before.clone()));
        self.redo.push(before);
        self.scanned = expected_tree;
    }

    fn redo(&mut self) {
        self.scan();
        match (self.service.redo(&mut self.open), self.redo.pop()) {
            (Ok(_), Some(expected_tree)) => {
                assert_same(&walk(&self.root), &expected_tree, "after redo");
                self.scanned = expected_tree;
            }
            (Err(SandboxError::NothingToRedo(_)), None) => {}
            (Ok(_), None) => panic!("redo without a rollback to undo"),
            (Err(error), _) => panic!("redo: {error}"),
        }
    }

    /// Makes edits as file tools would, reports their paths, and creates a checkpoint of the reported paths.
    fn tools(&mut self, dice: &mut Dice) {
        self.scan();
        self.service
            .capture(&mut self.open, None)
            .expect("the tree is scanned");
        for _ in 0..=dice.roll(3) {
            let paths: Vec<TreePath> = edits::tool(&self.root, dice)
                .into_iter()
                .map(|path| TreePath::from_bytes(path).expect("a path"))
                .collect();
            let report = self
                .service
                .capture_paths(&mut self.open, &[("part", paths)], Some("test/tool".into()))
                .expect("the paths are scanned");
            if !report.changes.is_empty() {
                self.redo.clear();
            }
        }
        let tree = walk(&self.root);
        let number = self
            .service
            .checkpoint_recorded(&mut self.open, CheckpointReason::Manual, None)
            .expect("a checkpoint is made");
        self.checkpoints.push((number.to_string(), tree.clone()));
        if self.redo.is_empty() {
            self.scanned = tree;
        }
    }

    fn preview(&mut self) {
        self.scan();
        self.service
            .preview(&mut self.open, &ApplyRequest::default())
            .expect("a preview");
    }

    fn run_random_action(&mut self, dice: &mut Dice) {
        match dice.roll(16) {
            0..=6 => edits::shell(&self.root, dice),
            7 | 8 => self.checkpoint(),
            9 | 10 => self.tools(dice),
            11..=13 => self.rollback(dice),
            14 => self.redo(),
            _ => self.preview(),
        }
    }
}

fn assert_same(found: &Tree, expected_tree: &Tree, when: &str) {
    let paths: BTreeSet<&Vec<u8>> = found.keys().chain(expected_tree.keys()).collect();
    let wrong: Vec<String> = paths
        .into_iter()
        .filter(|path| found.get(*path) != expected_tree.get(*path))
        .map(|path| {
            format!(
                "{:?}: {:?} instead of {:?}",
                String::from_utf8_lossy(path),
                found.get(path),
                expected_tree.get(path)
            )
        })
        .collect();
    assert!(wrong.is_empty(), "{when}:\n{}", wrong.join("\n"));
}

/// The changed paths between two trees, with the operations that a preview shows.
fn operations(before: &Tree, after: &Tree) -> BTreeSet<(Vec<u8>, &'static str)> {
    let paths: BTreeSet<&Vec<u8>> = before.keys().chain(after.keys()).collect();
    paths
        .into_iter()
        .filter_map(|path| {
            let word = match (before.get(path), after.get(path)) {
                (None, _) => "create",
                (_, None) => "delete",
                (Some(old), Some(new)) if old == new => return None,
                (Some(old), Some(new)) if old.state().same_content(&new.state()) => "mode",
                _ => "modify",
            };
            Some((path.clone(), word))
        })
        .collect()
}

/// Asserts that git can apply the patch to a copy of the base, and that the result equals the files of the sandbox.
fn assert_patch(patch: &[u8], base: &Tree, expected_tree: &Tree, folder: &Path) {
    std::fs::create_dir(folder).expect("a folder");
    // A patch cannot remove an empty folder.
    let holds_files = |path: &Vec<u8>| {
        let within = [path.as_slice(), b"/"].concat();
        base.iter()
            .any(|(other, entry)| !entry.is_folder() && other.starts_with(&within))
    };
    let files: Tree = base
        .iter()
        .filter(|(path, entry)| !entry.is_folder() || holds_files(path))
        .map(|(path, entry)| match entry {
            Entry::Folder(_) => (path.clone(), Entry::Folder(0o755)),
            other => (path.clone(), other.clone()),
        })
        .collect();
    tree::write(&files, folder);
    // Git looks up the new paths in a folder before it removes the link at the folder's place, which fails if the link
    // leads to itself.
    let leads_nowhere = |path: &Vec<u8>| {
        let place = folder.join(std::ffi::OsStr::from_bytes(path));
        std::fs::metadata(place)
            .is_err_and(|error| Errno::from_io_error(&error) == Some(Errno::LOOP))
    };
    let becomes_folder = |path: &Vec<u8>| expected_tree.get(path).is_some_and(Entry::is_folder);
    if files
        .keys()
        .any(|path| becomes_folder(path) && leads_nowhere(path))
    {
        return;
    }
    if !patch.is_empty() {
        let mut child = Command::new("git")
            .args(["apply", "--whitespace=nowarn", "-"])
            .current_dir(folder)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CEILING_DIRECTORIES", folder)
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("git starts");
        let mut input = child.stdin.take().expect("a pipe");
        input.write_all(patch).expect("git reads");
        drop(input);
        let output = child.wait_with_output().expect("git ends");
        assert!(
            output.status.success(),
            "git apply: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    // A patch contains neither folders nor permissions other than execution.
    let plain = |tree: Tree| -> Tree {
        tree.into_iter()
            .filter(|(_, entry)| !entry.is_folder())
            .map(|(path, entry)| match entry {
                Entry::File(mode, content) => (path, Entry::File(mode & 0o100, content)),
                other => (path, other),
            })
            .collect()
    };
    assert_same(
        &plain(walk(folder)),
        &plain(expected_tree.clone()),
        "after git apply",
    );
}

fn run(service: &SandboxService, home: &Path, seed: u64, source: Source) {
    let dice = &mut Dice::seeded(seed);
    let folder = tempfile::tempdir().expect("a folder");
    let real_path = folder.path().join("real");
    let real = if source == Source::Git {
        RealFolder::repository(real_path, dice)
    } else {
        RealFolder::directory(real_path, dice)
    };
    let name = format!("case-{seed}");
    let view = service
        .create(&name, "a test", &[real.target()])
        .expect("a sandbox is made");
    let root = view.members[0].root.clone();
    let base = walk(&root);
    if source == Source::Directory {
        assert_same(&base, &walk(&real.place), "the copy");
    }
    real.write_own_files(dice);
    let mut case = Case {
        service,
        open: service.open(&name).expect("it can be opened"),
        root,
        checkpoints: vec![(view.checkpoints[0].number.to_string(), base.clone())],
        redo: Vec::new(),
        scanned: base.clone(),
        base,
    };
    for _ in 0..4 + dice.roll(16) {
        case.run_random_action(dice);
    }
    finish(case, &real, folder.path(), home);
    cleveragents_sandbox::remove_folder(&folder.keep()).expect("the folder can be removed");
}

/// Checks the diff, the preview and the apply of a case.
fn finish(mut case: Case<'_>, real: &RealFolder, folder: &Path, home: &Path) {
    let expected_tree = walk(&case.root);
    let diff = case.service.diff(&mut case.open).expect("a difference");
    let part = &diff.parts[0];
    let mut listed: Vec<_> = part
        .changes
        .iter()
        .map(|change| (change.path.as_bytes().to_vec(), change.before, change.after))
        .collect();
    // The program sorts by names, the test by bytes.
    listed.sort_by(|left, right| left.0.cmp(&right.0));
    let made: Vec<_> = operations(&case.base, &expected_tree)
        .into_iter()
        .map(|(path, _)| {
            let state = |tree: &Tree| tree.get(&path).map(Entry::state);
            (path.clone(), state(&case.base), state(&expected_tree))
        })
        .collect();
    assert_eq!(listed, made, "the diff lists exactly the changes");
    let temporary = tempfile::tempdir().expect("a folder");
    let patch = diff.patch(part, temporary.path()).expect("a patch");
    assert_patch(&patch, &case.base, &expected_tree, &folder.join("patched"));

    let preview = case
        .service
        .preview(&mut case.open, &ApplyRequest::default())
        .expect("a preview");
    let before = walk(&real.place);
    let sandbox_folder = case.open.view.folders().whole;
    let applied = case
        .service
        .apply(case.open, &ApplyRequest::default())
        .expect("it is applied");
    let operations_of = |parts: &[cleveragents_sandbox::apply::MemberPreview]| -> BTreeSet<_> {
        parts
            .iter()
            .flat_map(|part| &part.files)
            .map(|file| (file.path.as_bytes().to_vec(), file.operation))
            .collect()
    };
    assert_eq!(
        operations_of(&preview.parts),
        operations_of(&applied.parts),
        "the preview equals the apply"
    );
    let left_out: BTreeSet<Vec<u8>> = applied
        .parts
        .iter()
        .flat_map(|part| &part.left_out)
        .map(|path| path.as_bytes().to_vec())
        .collect();
    let after = walk(&real.place);
    if real.source == Source::Directory {
        assert!(left_out.is_empty(), "nothing of a folder is left out");
        assert_same(&after, &expected_tree, "after apply");
    } else {
        let expected = real::expected(before.clone(), &case.base, &expected_tree, &left_out);
        assert_same(&after, &expected, "after apply");
    }
    let actual = operations(&before, &after);
    assert_eq!(
        operations_of(&applied.parts),
        actual,
        "the reported changes are the real ones"
    );
    real.assert_settled(!actual.is_empty(), &left_out);
    assert!(!sandbox_folder.exists(), "the sandbox's folder is gone");
    let remaining = std::fs::read_dir(home).map_or(0, Iterator::count);
    assert_eq!(remaining, 0, "no sandbox remains");
}

/// Runs a number of random cases, or the case that the environment requests.
fn run_cases(count: usize, source: Source) {
    let requested: Option<u64> = std::env::var("CLEVERAGENTS_TEST_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let first = Dice::default().roll(1 << 40);
    let seeds: Vec<u64> = match requested {
        Some(seed) => vec![seed],
        None => (first..first + count as u64).collect(),
    };
    let database = TestDatabase::sqlite();
    let home = tempfile::tempdir().expect("a folder");
    let sandboxes = home.path().join("sandboxes");
    let service = SandboxService::new(database.open(), &sandboxes);
    for seed in seeds {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            run(&service, &sandboxes, seed, source);
        }));
        if let Err(panic) = outcome {
            println!("{source:?}: run again with CLEVERAGENTS_TEST_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
    println!("{source:?}: {count} random cases");
}

#[test]
fn a_random_folder_is_changed_rolled_back_and_applied_exactly() {
    run_cases(proof_size(60, 1_200), Source::Directory);
}

#[test]
fn a_random_repository_is_changed_rolled_back_and_applied_exactly() {
    run_cases(proof_size(30, 1_000), Source::Git);
}
