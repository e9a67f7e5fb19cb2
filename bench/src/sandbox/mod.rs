//! Measures sandboxes of a large repository and a large directory, compared with git and cp.

mod apply;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context, ensure};
use cleveragents_application::{OpenSandbox, RollbackTarget, SandboxService, Target};
use cleveragents_domain::{CheckpointReason, TreePath};
use cleveragents_sandbox::Source;
use cleveragents_store::{DatabaseUrl, Engine, EngineCache, Options};
use serde_json::json;

use crate::{Findings, Row};

/// Number of measurements that are not paired. The best result counts, because noise can only make a run slower.
const ROUNDS: usize = 3;

/// Number of paired measurements of our program and the other tool, directly after each other. The pair with the median
/// ratio counts.
const PAIRS: usize = 5;

/// Number of files in each folder of the generated trees.
const PER_FOLDER: usize = 50;

/// Runs `work`; returns its duration in milliseconds and its result.
pub(crate) fn timed<T>(work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<(f64, T)> {
    let started = Instant::now();
    let result = work()?;
    Ok((started.elapsed().as_secs_f64() * 1000.0, result))
}

fn run(program: &str, folder: &Path, arguments: &[&str]) -> anyhow::Result<()> {
    let status = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .with_context(|| format!("{program} does not start"))?;
    ensure!(status.success(), "{program} {arguments:?} failed");
    Ok(())
}

/// Generates a tree of `files` small source files.
pub(crate) fn generate(folder: &Path, files: usize) -> anyhow::Result<()> {
    for number in 0..files {
        let place = folder.join(file(number));
        if number % PER_FOLDER == 0
            && let Some(parent) = place.parent()
        {
            std::fs::create_dir_all(parent)?;
        }
        let line = format!("pub fn function_{number}() -> usize {{ {number} }}\n");
        std::fs::write(&place, line.repeat(4 + number % 40))?;
    }
    Ok(())
}

fn file(number: usize) -> PathBuf {
    let folder = number / PER_FOLDER;
    PathBuf::from(format!(
        "module_{:02}/part_{folder:04}/file_{number:06}.rs",
        folder % 40
    ))
}

pub(crate) fn repository(folder: &Path, files: usize) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)?;
    generate(folder, files)?;
    run("git", folder, &["init", "--quiet"])?;
    run("git", folder, &["config", "user.name", "bench"])?;
    run("git", folder, &["config", "user.email", "bench@localhost"])?;
    run("git", folder, &["add", "-A"])?;
    run("git", folder, &["commit", "--quiet", "-m", "first"])?;
    Ok(())
}

pub(crate) struct Place {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) service: SandboxService,
    pub(crate) engine: Arc<Engine>,
}

pub(crate) fn place() -> anyhow::Result<Place> {
    let folder = tempfile::tempdir_in(std::env::current_dir()?)?;
    let url = DatabaseUrl::file(Path::new("bench.db"), folder.path());
    let engine = EngineCache::new(Options::default()).open(&url)?;
    let service = SandboxService::new(Arc::clone(&engine), folder.path().join("sandboxes"));
    Ok(Place {
        folder,
        service,
        engine,
    })
}

fn target(location: &Path, source: Source) -> Target {
    Target {
        alias: "code".to_owned(),
        resource: "local/code".to_owned(),
        strategy: "measured".to_owned(),
        source,
        location: location.to_owned(),
        is_read_only: false,
    }
}

impl Place {
    pub(crate) fn create(&self, location: &Path, source: Source) -> anyhow::Result<OpenSandbox> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("bench-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        self.service
            .create(&name, "bench", &[target(location, source)])?;
        Ok(self.service.open(&name)?)
    }

    pub(crate) fn discard(&self, open: OpenSandbox) -> anyhow::Result<()> {
        let name = open.view.sandbox.name.clone();
        drop(open);
        self.service.discard(&name)?;
        Ok(())
    }
}

/// Measures our program and the other tool directly after each other, because the speed of a machine changes within
/// minutes. Returns the pair with the median ratio.
pub(crate) fn paired(
    mut ours: impl FnMut() -> anyhow::Result<f64>,
    mut other: impl FnMut() -> anyhow::Result<f64>,
) -> anyhow::Result<(f64, f64)> {
    let mut pairs = Vec::with_capacity(PAIRS);
    for round in 0..PAIRS {
        // The order alternates, so that neither side is always second.
        let pair = if round % 2 == 0 {
            let first = ours()?;
            (first, other()?)
        } else {
            let first = other()?;
            (ours()?, first)
        };
        pairs.push(pair);
    }
    pairs.sort_by(|left, right| (left.0 / left.1).total_cmp(&(right.0 / right.1)));
    Ok(pairs[PAIRS / 2])
}

/// Flushes the disk, so that earlier writes do not slow down the next measurement.
fn sync_disk() -> anyhow::Result<()> {
    run("sync", Path::new("/"), &[])
}

fn row(name: &str, (ours, other): (f64, f64), note: &str) -> Row {
    Row {
        name: name.to_owned(),
        ours,
        other,
        ratio: ours / other,
        unit: "ms",
        note: note.to_owned(),
    }
}

fn creation(place: &Place, repository: &Path) -> anyhow::Result<Row> {
    let (mut created, mut compared) = (Vec::new(), Vec::new());
    // Hold all sandboxes and copies until the end, because a file system may create files slowly after a removal.
    let times = paired(
        || {
            sync_disk()?;
            let (time, open) = timed(|| place.create(repository, Source::Git))?;
            created.push(open);
            Ok(time)
        },
        || {
            let folder = place
                .folder
                .path()
                .join(format!("worktree-{}", compared.len()));
            let path = folder.to_string_lossy().into_owned();
            sync_disk()?;
            let add = ["worktree", "add", "--quiet", "--detach", &path];
            let (time, ()) = timed(|| run("git", repository, &add))?;
            compared.push(path);
            Ok(time)
        },
    )?;
    for open in created {
        place.discard(open)?;
    }
    for path in compared {
        run("git", repository, &["worktree", "remove", "--force", &path])?;
    }
    Ok(row(
        "create, git",
        times,
        "git worktree add; target ratio at most 1.15",
    ))
}

fn copying(place: &Place, directory: &Path) -> anyhow::Result<Row> {
    let (mut created, mut compared) = (Vec::new(), Vec::new());
    let times = paired(
        || {
            sync_disk()?;
            let (time, open) = timed(|| place.create(directory, Source::Directory))?;
            created.push(open);
            Ok(time)
        },
        || {
            let to = place.folder.path().join(format!("copy-{}", compared.len()));
            let (from, path) = (directory.to_string_lossy(), to.to_string_lossy());
            sync_disk()?;
            let copy = ["-a", "--reflink=auto", &from, &path];
            let (time, ()) = timed(|| run("cp", directory, &copy))?;
            compared.push(to);
            Ok(time)
        },
    )?;
    for open in created {
        place.discard(open)?;
    }
    for folder in compared {
        std::fs::remove_dir_all(folder)?;
    }
    Ok(row(
        "create, directory",
        times,
        "cp -a --reflink=auto; target ratio at most 1.15",
    ))
}

/// Time of the checkpoint after one edit by a file tool, in milliseconds.
fn tool_edit(place: &Place, open: &mut OpenSandbox, number: usize) -> anyhow::Result<f64> {
    let path = file(number);
    let inside = TreePath::from_bytes(path.to_string_lossy().as_bytes())?;
    let place_of = open.view.members[0].root.join(&path);
    std::fs::write(&place_of, format!("// edited {number}\n"))?;
    let (time, _) = timed(|| {
        place
            .service
            .capture_paths(open, &[("code", vec![inside])], Some("bench/edit".into()))?;
        Ok(place
            .service
            .checkpoint_recorded(open, CheckpointReason::Manual, None)?)
    })?;
    Ok(time)
}

fn checkpoints(
    place: &Place,
    large: &Path,
    small: &Path,
    files: usize,
) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut small_open = place.create(small, Source::Git)?;
    let mut best_small = f64::MAX;
    for number in 0..ROUNDS * 3 {
        best_small = best_small.min(tool_edit(place, &mut small_open, number)?);
    }
    place.discard(small_open)?;
    let mut open = place.create(large, Source::Git)?;
    let mut best_large = f64::MAX;
    for number in 0..ROUNDS * 3 {
        best_large = best_large.min(tool_edit(place, &mut open, number)?);
    }
    rows.push(row(
        "checkpoint after a file-tool edit",
        (best_large, best_small),
        "the same in a hundredth of the files; under 30 ms, not growing",
    ));
    place
        .service
        .checkpoint(&mut open, CheckpointReason::Manual, None)?;
    // A shell edits one file. For comparison, git adds the tree to a shadow repository outside the tree.
    let root = open.view.members[0].root.clone();
    let shadow = place.folder.path().join("shadow.git");
    let (git_dir, work_tree) = (
        shadow.to_string_lossy().into_owned(),
        root.to_string_lossy().into_owned(),
    );
    let git_options = ["--git-dir", &git_dir, "--work-tree", &work_tree];
    let shadow_add = [&git_options[..], &["add", "-A"]].concat();
    run("git", &root, &["init", "--quiet", "--bare", &git_dir])?;
    std::fs::write(shadow.join("info/exclude"), ".git\n")?;
    run("git", &root, &shadow_add)?;
    let mut number = files / 2;
    let mut edit = || {
        number += 1;
        std::fs::write(root.join(file(number)), format!("// by a shell {number}\n"))
    };
    let (mut best, mut best_other) = (f64::MAX, f64::MAX);
    for _ in 0..ROUNDS * 2 {
        edit()?;
        let (time, _) = timed(|| {
            Ok(place
                .service
                .checkpoint(&mut open, CheckpointReason::Manual, None)?)
        })?;
        best = best.min(time);
        let (time, ()) = timed(|| run("git", &root, &shadow_add))?;
        best_other = best_other.min(time);
    }
    rows.push(row(
        "checkpoint after a shell step",
        (best, best_other),
        "git add -A into a shadow repository; target ratio at most 0.5",
    ));
    edit()?;
    let (mut rollback_time, mut redo_time) = (f64::MAX, f64::MAX);
    for _ in 0..ROUNDS {
        let (time, _) = timed(|| {
            Ok(place
                .service
                .rollback(&mut open, &RollbackTarget::Previous)?)
        })?;
        rollback_time = rollback_time.min(time);
        let (time, _) = timed(|| Ok(place.service.redo(&mut open)?))?;
        redo_time = redo_time.min(time);
    }
    rows.push(row(
        "rollback of one file",
        (rollback_time, redo_time),
        "redo of the same; under 50 ms",
    ));
    place.discard(open)?;
    Ok(rows)
}

/// Peak memory of this process in MiB.
fn peak_memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = peak.and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
    kib.unwrap_or(0.0) / 1024.0
}

/// A group of measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    /// Creating a sandbox of a repository
    Git,
    /// Creating a sandbox of a directory
    Directory,
    /// Checkpoints and rollback
    Checkpoints,
    /// Applying new files
    Apply,
}

pub(crate) fn measure(files: usize, new: usize, only: &[Part]) -> anyhow::Result<Findings> {
    let is_selected = |part| only.is_empty() || only.contains(&part);
    let base_folder = tempfile::tempdir_in(std::env::current_dir()?)?;
    let (large, small, directory) = (
        base_folder.path().join("large"),
        base_folder.path().join("small"),
        base_folder.path().join("directory"),
    );
    let place = place()?;
    let mut rows = Vec::new();
    if is_selected(Part::Git) || is_selected(Part::Checkpoints) {
        repository(&large, files)?;
    }
    if is_selected(Part::Git) {
        rows.push(creation(&place, &large)?);
    }
    if is_selected(Part::Directory) {
        generate(&directory, files)?;
        rows.push(copying(&place, &directory)?);
    }
    if is_selected(Part::Checkpoints) {
        repository(&small, files / 100)?;
        rows.extend(checkpoints(&place, &large, &small, files)?);
    }
    if is_selected(Part::Apply) {
        rows.extend(apply::rows(&place, base_folder.path(), new)?);
    }
    let memory = peak_memory();
    rows.push(Row {
        name: "memory, all of the above".to_owned(),
        ours: memory,
        other: 150.0,
        ratio: memory / 150.0,
        unit: "MiB",
        note: "the most this process held; under 150".to_owned(),
    });
    Ok(Findings {
        rows,
        ours: serde_json::Map::new(),
        counts: json!({"files": files, "new": new}),
    })
}
