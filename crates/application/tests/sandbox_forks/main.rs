//! Random trees with random uncommitted changes, forked and changed on each side, then merged in order: forks start
//! equal to their original, a merge without conflicts equals the merge of each path, a merge with conflicts writes
//! nothing, resolutions give the chosen side, and a rollback restores the tree before the merge.
//!
//! A failing case prints its seed; `CLEVERAGENTS_TEST_SEED` runs only that case.

#![expect(clippy::print_stdout, reason = "prints the number of cases")]

#[path = "../sandbox_random/edits.rs"]
mod edits;
mod model;
#[expect(dead_code, reason = "the checks of an apply are not used here")]
#[path = "../sandbox_random/real.rs"]
mod real;
#[path = "../sandbox_random/tree.rs"]
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cleveragents_application::{
    ComputedMerge, ForkToMerge, OpenSandbox, PlanExecutionContext, RollbackTarget, SandboxDiff,
    SandboxService, SandboxView, Target,
};
use cleveragents_domain::{
    CheckpointReason, FileState, MergeReason, MergeStrategy, PlanId, TreePath,
};
use cleveragents_sandbox::{MergeConflict, Resolutions, Source};
use cleveragents_testkit::{Dice, TestDatabase, proof_size};

use real::RealFolder;
use tree::{Entry, Tree, walk};

/// A text file in every tree, whose lines the forks change.
const TEXT: &[u8] = b"text of many lines";

/// Maximum number of rounds of resolutions: each round may reveal conflicts with the chosen sides.
const MAX_ROUNDS: usize = 12;

struct Fork {
    view: SandboxView,
    tree: Tree,
    resolutions: BTreeMap<String, Resolutions>,
}

/// The side that a case chooses for its conflicts.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Side {
    Ours,
    Theirs,
    Mixed,
}

struct Case<'a> {
    service: &'a SandboxService,
    open: OpenSandbox,
    root: PathBuf,
    /// The tree when the forks were made.
    base: Tree,
    forks: Vec<Fork>,
}

impl Case<'_> {
    fn merge(&mut self, strategy: MergeStrategy) -> ComputedMerge {
        let forks: Vec<ForkToMerge<'_>> = self
            .forks
            .iter()
            .map(|fork| ForkToMerge {
                view: &fork.view,
                resolutions: fork.resolutions.clone(),
            })
            .collect();
        let merge = self
            .service
            .compute_merge(&mut self.open, &forks, strategy)
            .expect("a merge is computed");
        assert_same(
            &walk(&self.root),
            &self.base,
            "after the merge was computed",
        );
        merge
    }

    /// Writes a merge, checks that its changes are recorded, and rolls it back.
    fn write(&mut self, merge: &ComputedMerge) -> Tree {
        let before = self
            .service
            .checkpoint(&mut self.open, CheckpointReason::Manual, None)
            .expect("a checkpoint is made");
        self.service
            .write_merge(&mut self.open, merge, |_| Ok(()))
            .expect("the merge is written");
        let merged = walk(&self.root);
        let report = self
            .service
            .capture(&mut self.open, None)
            .expect("the tree is scanned");
        assert!(
            report.changes.is_empty(),
            "the merge recorded what it wrote: {:?}",
            report.changes
        );
        let target = RollbackTarget::Checkpoint(before.to_string());
        self.service
            .rollback(&mut self.open, &target)
            .expect("rolled back");
        assert_same(&walk(&self.root), &self.base, "after the rollback");
        self.service.redo(&mut self.open).expect("redone");
        assert_same(&walk(&self.root), &merged, "after the redo");
        merged
    }

    fn trees(&self) -> Vec<&Tree> {
        self.forks.iter().map(|fork| &fork.tree).collect()
    }

    fn check_three_way(&mut self, dice: &mut Dice) {
        let merge = self.merge(MergeStrategy::GitThreeWay);
        let expected = model::merge(&self.base, &self.trees());
        let first = expected.first_conflict;
        assert_eq!(
            merge.conflicts.is_empty(),
            first.is_none(),
            "conflicts {:?} instead of {:?}",
            merge.conflicts,
            expected.conflicts
        );
        let Some(first) = first else {
            let merged = self.write(&merge);
            assert_same(&merged, &expected.tree, "after the merge");
            return;
        };
        // Conflicts change what later forks are merged with.
        let is_structural = |reason| {
            matches!(
                reason,
                MergeReason::FolderNotEmpty | MergeReason::ParentNotFolder
            )
        };
        let found: BTreeSet<Vec<u8>> = merge
            .conflicts
            .iter()
            .inspect(|(fork, _, _)| assert!(*fork >= first, "a conflict of fork {fork}"))
            .filter(|(fork, _, conflict)| *fork == first && !is_structural(conflict.reason))
            .map(|(_, _, conflict)| conflict.path.as_bytes().to_vec())
            .collect();
        assert_eq!(found, expected.conflicts, "the conflicts of fork {first}");
        let side = *dice.pick(&[Side::Ours, Side::Theirs, Side::Mixed]);
        self.resolve(merge, side, dice);
    }

    /// Resolves conflicts until none is left. Different sides for a file and a path inside it stay in conflict.
    fn resolve(&mut self, mut merge: ComputedMerge, side: Side, dice: &mut Dice) {
        let mut chosen: BTreeMap<(usize, TreePath), (Option<FileState>, MergeConflict)> =
            BTreeMap::new();
        for _ in 0..MAX_ROUNDS {
            if merge.conflicts.is_empty() {
                break;
            }
            for (fork, alias, conflict) in &merge.conflicts {
                let is_ours = side == Side::Ours || side == Side::Mixed && dice.once_in(2);
                let state = if is_ours {
                    conflict.ours
                } else {
                    conflict.theirs
                };
                self.forks[*fork]
                    .resolutions
                    .entry(alias.clone())
                    .or_default()
                    .insert(conflict.path.clone(), state);
                chosen.insert((*fork, conflict.path.clone()), (state, conflict.clone()));
            }
            merge = self.merge(MergeStrategy::GitThreeWay);
        }
        if side == Side::Mixed && !merge.conflicts.is_empty() {
            return;
        }
        assert!(
            merge.conflicts.is_empty(),
            "conflicts stay after {side:?}: {:?}",
            merge.conflicts
        );
        let merged = self.write(&merge);
        let last = self.forks.len() - 1;
        for ((fork, path), (state, conflict)) in chosen {
            let holds_more = state.is_none()
                && merged
                    .keys()
                    .any(|other| model::is_inside(other, path.as_bytes()));
            if fork == last && !holds_more {
                let found = merged.get(path.as_bytes()).map(Entry::state);
                assert_eq!(found, state, "{side:?} of {path}: {conflict:?}");
            }
        }
    }

    fn check_last_wins(&mut self) {
        let merge = self.merge(MergeStrategy::LastWins);
        assert!(merge.conflicts.is_empty(), "{:?}", merge.conflicts);
        let merged = self.write(&merge);
        let last = &self.forks.last().expect("a fork").tree;
        for (path, entry) in last {
            let (before, found) = (self.base.get(path), merged.get(path));
            let is_changed = !entry.is_folder()
                && before.is_none_or(|before| !before.state().same_content(&entry.state()));
            let is_kept = found.is_some_and(|found| found.state().same_content(&entry.state()));
            assert!(
                !is_changed || is_kept,
                "{}: {found:?} instead of {entry:?}",
                String::from_utf8_lossy(path)
            );
        }
    }

    fn check_fail_on_conflict(&mut self) {
        let merge = self.merge(MergeStrategy::FailOnConflict);
        if merge.conflicts.is_empty() {
            let expected = model::merge(&self.base, &self.trees());
            assert_eq!(expected.first_conflict, None);
            let merged = self.write(&merge);
            assert_same(&merged, &expected.tree, "after the merge");
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

/// Asserts that a fork recorded exactly its changes.
fn assert_recorded(diff: &SandboxDiff, base: &Tree, tree: &Tree) {
    let state = |tree: &Tree, path: &Vec<u8>| tree.get(path).map(Entry::state);
    let paths: BTreeSet<&Vec<u8>> = base.keys().chain(tree.keys()).collect();
    let made: BTreeMap<Vec<u8>, _> = paths
        .into_iter()
        .filter(|path| state(base, path) != state(tree, path))
        .map(|path| (path.clone(), (state(base, path), state(tree, path))))
        .collect();
    let recorded: BTreeMap<Vec<u8>, _> = diff
        .parts
        .iter()
        .flat_map(|part| &part.changes)
        .map(|change| {
            (
                change.path.as_bytes().to_vec(),
                (change.before, change.after),
            )
        })
        .collect();
    assert_eq!(recorded, made, "the changes of a fork");
}

/// Changes lines of the text file.
fn edit_text(root: &Path, dice: &mut Dice) {
    let place = tree::at(root, TEXT);
    let is_file = std::fs::symlink_metadata(&place).is_ok_and(|found| found.is_file());
    let Some(text) = std::fs::read(&place).ok().filter(|_| is_file) else {
        return;
    };
    let mut lines: Vec<Vec<u8>> = text
        .split(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    let index = usize::try_from(dice.roll(lines.len() as u64)).expect("an index");
    match dice.roll(3) {
        0 => lines[index] = format!("changed {}", dice.roll(3)).into_bytes(),
        1 => lines.insert(index, format!("added {}", dice.roll(3)).into_bytes()),
        _ => {
            lines.remove(index);
        }
    }
    tree::set_mode(&place, 0o644);
    std::fs::write(&place, lines.join(&b'\n')).expect("a file can be written");
}

fn edit(root: &Path, count: u64, dice: &mut Dice) {
    for _ in 0..count {
        match dice.roll(6) {
            0 | 1 => edit_text(root, dice),
            2 => drop(edits::tool(root, dice)),
            _ => edits::shell(root, dice),
        }
    }
}

fn run(service: &SandboxService, plan: PlanId, seed: u64, source: Source) {
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
    let mut open = service.open(&name).expect("it can be opened");
    if dice.once_in(2) {
        edit(&root, dice.roll(6), dice);
        service
            .checkpoint(&mut open, CheckpointReason::Manual, None)
            .expect("a checkpoint is made");
    }
    edit(&root, dice.roll(6), dice);
    let text: Vec<String> = (0..24).map(|line| format!("line {line}\n")).collect();
    let place = tree::at(&root, TEXT);
    std::fs::write(&place, text.concat()).expect("a file");
    let base = walk(&root);

    let names: Vec<String> = (0..2 + dice.roll(2))
        .map(|number| format!("{name}-fork-{number}"))
        .collect();
    let mut forks = Vec::new();
    for name in &names {
        let view = service.fork(&mut open, plan, name).expect("a fork is made");
        let root = view.members[0].root.clone();
        assert_same(&walk(&root), &base, "the fork");
        let mut fork = service.open(name).expect("it can be opened");
        let diff = service.diff(&mut fork).expect("a difference");
        let changes: Vec<_> = diff.parts.iter().flat_map(|part| &part.changes).collect();
        assert!(changes.is_empty(), "a new fork has changes: {changes:?}");
        edit(&root, dice.roll(7), dice);
        let diff = service.diff(&mut fork).expect("a difference");
        drop(fork);
        let mut tree = walk(&root);
        // New files that git ignores stay in the fork.
        for path in diff.parts.iter().flat_map(|part| &part.by_products) {
            match base.get(path.as_bytes()) {
                Some(entry) => tree.insert(path.as_bytes().to_vec(), entry.clone()),
                None => tree.remove(path.as_bytes()),
            };
        }
        assert_recorded(&diff, &base, &tree);
        forks.push(Fork {
            view: service.find(name).expect("it is there"),
            tree,
            resolutions: BTreeMap::new(),
        });
    }
    let mut case = Case {
        service,
        open,
        root,
        base,
        forks,
    };
    match dice.roll(6) {
        0 => case.check_last_wins(),
        1 => case.check_fail_on_conflict(),
        _ => case.check_three_way(dice),
    }
    drop(case);
    for name in names.iter().chain([&name]) {
        service.discard(name).expect("discarded");
    }
    let remaining = if source == Source::Git {
        real::git(&real.place, &["for-each-ref", "refs/cleveragents"])
    } else {
        Vec::new()
    };
    assert!(remaining.is_empty(), "no reference of a sandbox remains");
    cleveragents_sandbox::remove_folder(&folder.keep()).expect("the folder can be removed");
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
    let engine = database.open();
    let plan = PlanExecutionContext::create_plan(&engine).expect("stored");
    let service = SandboxService::new(engine, home.path().join("sandboxes"));
    for seed in seeds {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            run(&service, plan, seed, source);
        }));
        if let Err(panic) = outcome {
            println!("{source:?}: run again with CLEVERAGENTS_TEST_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
    let remaining = std::fs::read_dir(home.path().join("sandboxes")).map_or(0, Iterator::count);
    assert_eq!(remaining, 0, "no sandbox remains");
    println!("{source:?}: {count} random cases");
}

#[test]
fn random_forks_of_a_folder_are_merged_exactly() {
    run_cases(proof_size(60, 2_000), Source::Directory);
}

#[test]
fn random_forks_of_a_repository_are_merged_exactly() {
    run_cases(proof_size(30, 1_000), Source::Git);
}

#[test]
fn a_database_is_merged_as_a_whole() {
    let database = TestDatabase::sqlite();
    let engine = database.open();
    let plan = PlanExecutionContext::create_plan(&engine).expect("stored");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("shop.db");
    TestDatabase::write_file(&file, "CREATE TABLE prices (value INTEGER NOT NULL)");
    let service = SandboxService::new(Arc::clone(&engine), folder.path().join("sandboxes"));
    let target = Target {
        alias: "shop".to_owned(),
        resource: "shop".to_owned(),
        strategy: "test".to_owned(),
        source: Source::Sqlite,
        location: file,
        is_read_only: false,
    };
    let view = service.create("whole", "a test", &[target]).expect("made");
    let copy = view.members[0].root.join("shop.db");
    TestDatabase::write_file(&copy, "INSERT INTO prices VALUES (1)");
    let mut open = service.open("whole").expect("it can be opened");
    let prices = |file: &Path| TestDatabase::read_file(file, "SELECT value FROM prices ORDER BY 1");
    let fork = |open: &mut OpenSandbox, name: &str, price: Option<u64>| {
        let view = service.fork(open, plan, name).expect("a fork is made");
        let file = view.members[0].root.join("shop.db");
        assert_eq!(prices(&file), [["1"]], "the fork starts with the new rows");
        if let Some(price) = price {
            TestDatabase::write_file(&file, &format!("INSERT INTO prices VALUES ({price})"));
        }
        let mut fork = service.open(name).expect("it can be opened");
        service.capture(&mut fork, None).expect("scanned");
        service.find(name).expect("it is there")
    };
    let views = [
        fork(&mut open, "unchanged", None),
        fork(&mut open, "second", Some(2)),
        fork(&mut open, "third", Some(3)),
    ];
    let to_merge = |numbers: &[usize]| -> Vec<ForkToMerge<'_>> {
        let views = numbers.iter().map(|number| &views[*number]);
        views
            .map(|view| ForkToMerge {
                view,
                resolutions: BTreeMap::new(),
            })
            .collect()
    };
    let strategy = MergeStrategy::GitThreeWay;
    let both = service
        .compute_merge(&mut open, &to_merge(&[1, 2]), strategy)
        .expect("computed");
    assert_eq!(both.conflicts.len(), 1, "{:?}", both.conflicts);
    assert_eq!(both.conflicts[0].2.reason, MergeReason::Changed);
    assert_eq!(prices(&copy), [["1"]]);
    let one = service
        .compute_merge(&mut open, &to_merge(&[0, 2]), strategy)
        .expect("computed");
    assert_eq!(one.conflicts, []);
    service
        .write_merge(&mut open, &one, |_| Ok(()))
        .expect("written");
    assert_eq!(prices(&copy), [["1"], ["3"]]);
}
