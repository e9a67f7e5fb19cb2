//! Random trees, random edits by shells and by tools, checkpoints, rollbacks and redos in any order,
//! then apply: rollback restores exactly, the difference printed is the change made, the preview is
//! what happens, and the real tree becomes the sandbox's.
//!
//! A failing case names its seed; `CLEVERAGENTS_TEST_SEED` runs that one alone.

#![expect(clippy::print_stdout, reason = "the figures of a proof")]

mod edits;
mod real;
mod tree;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use cleveragents_application::{
    ApplyRequest, OpenSandbox, RollbackTarget, SandboxError, SandboxService,
};
use cleveragents_domain::{CheckpointReason, TreePath};
use cleveragents_sandbox::Source;
use cleveragents_testkit::{Dice, TestDatabase, proof_size};

use real::RealFolder;
use tree::{Entry, Tree, walk};

/// One sandbox, and its expected state.
struct Case<'a> {
    service: &'a SandboxService,
    open: OpenSandbox,
    root: std::path::PathBuf,
    base: Tree,
    /// Every checkpoint with the tree that it must restore.
    checkpoints: Vec<(String, Tree)>,
    /// The trees that redo must restore, and the tree at the last full scan.
    redo: Vec<Tree>,
    seen: Tree,
}

impl Case<'_> {
    /// The program scans the whole tree now: a change since the last scan ends all redo.
    fn look(&mut self) -> Tree {
        let now = walk(&self.root);
        if now != self.seen {
            self.redo.clear();
        }
        self.seen.clone_from(&now);
        now
    }

    fn checkpoint(&mut self) {
        let tree = self.look();
        let number = self
            .service
            .checkpoint(&mut self.open, CheckpointReason::Manual, None)
            .expect("a checkpoint is made");
        self.checkpoints.push((number.to_string(), tree));
    }

    fn rollback(&mut self, dice: &mut Dice) {
        let before = self.look();
        let (number, wanted) = dice.pick(&self.checkpoints).clone();
        let done = self
            .service
            .rollback(&mut self.open, &RollbackTarget::Checkpoint(number.clone()))
            .unwrap_or_else(|error| panic!("rollback to {number}: {error}"));
        assert_same(&walk(&self.root), &wanted, "after rollback");
        let kept = done.before.expect("the state before is kept");
        self.checkpoints.push((kept.to_string(), before.clone()));
        self.redo.push(before);
        self.seen = wanted;
    }

    fn redo(&mut self) {
        self.look();
        match (self.service.redo(&mut self.open), self.redo.pop()) {
            (Ok(_), Some(wanted)) => {
                assert_same(&walk(&self.root), &wanted, "after redo");
                self.seen = wanted;
            }
            (Err(SandboxError::NothingToRedo(_)), None) => {}
            (Ok(_), None) => panic!("redo without a rollback to undo"),
            (Err(error), _) => panic!("redo: {error}"),
        }
    }

    /// Edits by a tool, reported path by path, then a checkpoint of the reported paths.
    fn tools(&mut self, dice: &mut Dice) {
        self.look();
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
            self.seen = tree;
        }
    }

    fn preview(&mut self) {
        self.look();
        self.service
            .preview(&mut self.open, &ApplyRequest::default())
            .expect("a preview");
    }

    fn act(&mut self, dice: &mut Dice) {
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

fn assert_same(found: &Tree, wanted: &Tree, when: &str) {
    let paths: BTreeSet<&Vec<u8>> = found.keys().chain(wanted.keys()).collect();
    let wrong: Vec<String> = paths
        .into_iter()
        .filter(|path| found.get(*path) != wanted.get(*path))
        .map(|path| {
            format!(
                "{:?}: {:?} instead of {:?}",
                String::from_utf8_lossy(path),
                found.get(path),
                wanted.get(path)
            )
        })
        .collect();
    assert!(wrong.is_empty(), "{when}:\n{}", wrong.join("\n"));
}

/// The difference between two trees, in the terms of a preview.
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

/// The patch, applied by git to a copy of the base, gives the sandbox's files.
fn assert_patch(patch: &[u8], base: &Tree, wanted: &Tree, folder: &Path) {
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
        &plain(wanted.clone()),
        "after git apply",
    );
}

fn run(service: &SandboxService, home: &Path, seed: u64, source: Source) {
    let dice = &mut Dice::seeded(seed);
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("real");
    let real = if source == Source::Git {
        RealFolder::repository(place, dice)
    } else {
        RealFolder::directory(place, dice)
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
        seen: base.clone(),
        base,
    };
    for _ in 0..4 + dice.roll(16) {
        case.act(dice);
    }
    finish(case, &real, folder.path(), home);
    cleveragents_sandbox::remove_folder(&folder.keep()).expect("the folder can be removed");
}

/// The difference, the preview and the apply of a case.
fn finish(mut case: Case<'_>, real: &RealFolder, folder: &Path, home: &Path) {
    let wanted = walk(&case.root);
    let diff = case.service.diff(&mut case.open).expect("a difference");
    let part = &diff.parts[0];
    let mut listed: Vec<_> = part
        .changes
        .iter()
        .map(|change| (change.path.as_bytes().to_vec(), change.before, change.after))
        .collect();
    // The program orders by names, the test by bytes.
    listed.sort_by(|left, right| left.0.cmp(&right.0));
    let made: Vec<_> = operations(&case.base, &wanted)
        .into_iter()
        .map(|(path, _)| {
            let state = |tree: &Tree| tree.get(&path).map(Entry::state);
            (path.clone(), state(&case.base), state(&wanted))
        })
        .collect();
    assert_eq!(listed, made, "the changes listed are those made");
    let temporary = tempfile::tempdir().expect("a folder");
    let patch = diff.patch(part, temporary.path()).expect("a patch");
    assert_patch(&patch, &case.base, &wanted, &folder.join("patched"));

    let preview = case
        .service
        .preview(&mut case.open, &ApplyRequest::default())
        .expect("a preview");
    let before = walk(&real.place);
    let whole = case.open.view.folders().whole;
    let applied = case
        .service
        .apply(case.open, &ApplyRequest::default())
        .expect("it is applied");
    let received = |parts: &[cleveragents_sandbox::apply::MemberPreview]| -> BTreeSet<_> {
        parts
            .iter()
            .flat_map(|part| &part.files)
            .map(|file| (file.path.as_bytes().to_vec(), file.operation))
            .collect()
    };
    assert_eq!(
        received(&preview.parts),
        received(&applied.parts),
        "the preview is what happens"
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
        assert_same(&after, &wanted, "after apply");
    } else {
        let expected = real::expected(before.clone(), &case.base, &wanted, &left_out);
        assert_same(&after, &expected, "after apply");
    }
    let really = operations(&before, &after);
    assert_eq!(
        received(&applied.parts),
        really,
        "the reported changes are the real ones"
    );
    real.assert_settled(!really.is_empty(), &left_out);
    assert!(!whole.exists(), "the sandbox's folder is gone");
    let left = std::fs::read_dir(home).map_or(0, Iterator::count);
    assert_eq!(left, 0, "nothing is left of any sandbox");
}

/// Runs a number of cases, or the requested one.
fn run_cases(count: usize, source: Source) {
    let asked: Option<u64> = std::env::var("CLEVERAGENTS_TEST_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let first = Dice::default().roll(1 << 40);
    let seeds: Vec<u64> = match asked {
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
