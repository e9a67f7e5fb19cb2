//! Measures child plans: forks and merges of sandboxes, many child plans in one process, and child plans that wait for
//! their models at the same time.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use cleveragents_application::{ForkToMerge, OpenSandbox};
use cleveragents_domain::{MergeStrategy, PlanId};
use cleveragents_sandbox::Source;
use cleveragents_testkit::plans::{new_plan, store};
use serde_json::{Value, json};

use super::calls::Home;
use crate::Row;
use crate::sandbox::{Place, paired, place, repository, timed};

/// Number of files that a child plan changes before its merge.
const CHANGED: usize = 10;

/// Number of child plans in the measurement of memory.
const MANY: usize = 24;

/// Number of child plans that wait for their models.
const WAITING: usize = 8;

/// Creates a sandbox of a repository, and measures forks of it and merges into it.
pub(super) fn forks(files: usize) -> anyhow::Result<Vec<Row>> {
    let source = tempfile::tempdir_in(std::env::current_dir()?)?;
    let checkout = source.path().join("repository");
    repository(&checkout, files)?;
    let place = place()?;
    let mut open = place.create(&checkout, Source::Git)?;
    let mut number = 0;
    let worktree = source.path().join("worktree");
    let (ours, other) = paired(
        || {
            number += 1;
            let name = format!("fork-{number}");
            let plan = new_child(&place, &name);
            let (time, view) = timed(|| Ok(place.service.fork(&mut open, plan, &name)?))?;
            place.service.discard(&view.sandbox.name)?;
            Ok(time)
        },
        || {
            let path = worktree.to_str().context("a path")?;
            let add = ["worktree", "add", "--quiet", "--detach", path];
            let (time, ()) = timed(|| git(&checkout, &add))?;
            git(&checkout, &["worktree", "remove", "--force", path])?;
            Ok(time)
        },
    )?;
    let spawn = Row {
        name: format!("spawn of a child plan, {files} files"),
        ours,
        other,
        ratio: ours / other,
        unit: "ms",
        note: "the fork of the sandbox; other: `git worktree add`; target ratio at most 0.15"
            .to_owned(),
    };
    let merge = merge(&place, &mut open)?;
    Ok(vec![spawn, merge])
}

fn new_child(place: &Place, name: &str) -> PlanId {
    store(&place.engine, &new_plan(name))
}

fn merge(place: &Place, open: &mut OpenSandbox) -> anyhow::Result<Row> {
    let mut best = f64::INFINITY;
    for round in 0..3 {
        let name = format!("merged-{round}");
        let view = place.service.fork(open, new_child(place, &name), &name)?;
        for number in 0..CHANGED {
            let path = view.members[0]
                .root
                .join(format!("new-{round}-{number}.rs"));
            std::fs::write(path, "pub fn added() {}\n")?;
        }
        let mut fork = place.service.open(&name)?;
        place.service.capture(&mut fork, None)?;
        let view = fork.view.clone();
        drop(fork);
        let (time, count) = timed(|| {
            let forks = [ForkToMerge {
                view: &view,
                resolutions: BTreeMap::new(),
            }];
            let merge = place
                .service
                .compute_merge(open, &forks, MergeStrategy::GitThreeWay)?;
            let (changes, ()) = place.service.write_merge(open, &merge, |_| Ok(()))?;
            Ok(changes.len())
        })?;
        ensure!(count == CHANGED, "{count} paths were merged");
        best = best.min(time);
        place.service.discard(&name)?;
    }
    Ok(Row {
        name: format!("merge of a child plan, {CHANGED} files"),
        ours: best,
        other: 100.0,
        ratio: best / 100.0,
        unit: "ms",
        note: "the other is the limit".to_owned(),
    })
}

fn git(folder: &Path, arguments: &[&str]) -> anyhow::Result<()> {
    let status = Command::new("git")
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .status()?;
    ensure!(status.success(), "git {arguments:?} failed");
    Ok(())
}

/// Creates a plan with `count` parts, each of which writes a file. The model waits before each of its two responses.
fn divided(
    home: &Home,
    agents: &Path,
    count: usize,
    delay_ms: u64,
    settings: &Value,
) -> anyhow::Result<String> {
    let titles: Vec<String> = (0..count)
        .map(|number| format!("Part {number:02}"))
        .collect();
    let mut answers: Vec<Value> = titles
        .iter()
        .map(|title| {
            let path = format!("{}.txt", title.replace(' ', "-"));
            json!({
                "when": format!("^Execute step 1 of 1: {title}"),
                "calls": [{"name": "builtin/file-write", "arguments": {"path": path, "content": "x\n"}}],
                "first_delay_ms": delay_ms,
            })
        })
        .collect();
    answers.push(json!({"text": "Done."}));
    let script = json!({"at_end": "repeat_last", "count": "turn", "answers": answers});
    std::fs::write(home.path("parts.yaml"), script.to_string())?;
    let actor = json!({
        "name": "local/parts", "type": "llm", "description": "writes a part",
        "model": "scripted/parts.yaml", "tools": ["builtin/*"],
    });
    let mut parts = settings.clone();
    parts["list"] = json!(titles);
    let action = json!({
        "name": "local/divided", "description": "parts", "definition_of_done": "all parts are written",
        "execution_actor": "local/parts", "strategy_actor": "local/parts", "parts": parts,
    });
    for (file, text, kind) in [
        ("actor.yaml", actor, "actor"),
        ("action.yaml", action, "action"),
    ] {
        let path = home.path(file);
        std::fs::write(&path, text.to_string())?;
        let path = path.to_str().context("a path")?;
        let verb = if kind == "actor" { "add" } else { "create" };
        home.run(agents, &[kind, verb, "--config", path])?;
    }
    let created = home.run(
        agents,
        &["plan", "use", "local/divided", "local/p", "--no-start"],
    )?;
    let id = created["plan_id"].as_str().context("an id")?;
    Ok(id.to_owned())
}

/// Peak memory of a process that runs [`MANY`] child plans at the same time.
pub(super) fn memory(agents: &Path) -> anyhow::Result<Row> {
    let home = Home::new(agents)?;
    let settings = json!({"max_parallel": MANY});
    let plan = divided(&home, agents, MANY, 200, &settings)?;
    let mut program = Command::new(agents)
        .args(["--format", "json", "plan", "execute", &plan])
        .env("CLEVERAGENTS_HOME", home.path("home"))
        .current_dir(home.folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let mut peak = 0.0_f64;
    let status = loop {
        if let Some(status) = program.try_wait()? {
            break status;
        }
        let text = std::fs::read_to_string(format!("/proc/{}/status", program.id()));
        let text = text.unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with("VmHWM:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
        peak = peak.max(kilobytes.unwrap_or_default() / 1024.0);
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    ensure!(status.success(), "the plan failed: {status}");
    Ok(Row {
        name: format!("{MANY} child plans at once"),
        ours: peak,
        other: 300.0,
        ratio: peak / 300.0,
        unit: "MiB",
        note: "the most memory of the process that runs them; the other is the limit".to_owned(),
    })
}

/// Compares [`WAITING`] child plans at the same time with one after the other. Their model takes a second per call.
pub(super) fn waiting(agents: &Path) -> anyhow::Result<Row> {
    let run = |settings: Value| -> anyhow::Result<f64> {
        let home = Home::new(agents)?;
        let plan = divided(&home, agents, WAITING, 1_000, &settings)?;
        let (time, _) = timed(|| home.run(agents, &["plan", "execute", &plan]))?;
        Ok(time)
    };
    let ours = run(json!({"max_parallel": WAITING}))?;
    let other = run(json!({"mode": "sequential"}))?;
    Ok(Row {
        name: format!("{WAITING} child plans, model of 1 s"),
        ours,
        other,
        ratio: ours / other,
        unit: "ms",
        note: "other: one after the other; target ratio at most 0.3".to_owned(),
    })
}
