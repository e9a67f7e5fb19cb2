//! Measures listing and drawing plans, as durations of whole commands compared with limits, and the overhead of running
//! plans.

mod calls;
mod children;

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::ensure;
use cleveragents_domain::{DecisionType, NewDecision};
use cleveragents_store::{DatabaseUrl, Engine, EngineCache, Options};
use cleveragents_testkit::plans::{decide, decision, new_plan, store, store_example_strategy};
use serde_json::json;

use crate::sandbox::timed;
use crate::{Findings, Row};

/// Number of measurements. The best result counts, because noise can only make a run slower.
const ROUNDS: usize = 5;

/// Number of calls of the measured plan.
const CALLS: usize = 200;

/// Number of plans that run concurrently.
const AT_ONCE: usize = 16;

/// Number of children of each decision in the wide tree.
const WIDTH: usize = 10;

/// Measures with `plans` plans, `decisions` decisions, and child plans in a repository of `files` files.
pub(crate) fn measure(
    agents: &Path,
    plans: usize,
    decisions: usize,
    files: usize,
) -> anyhow::Result<Findings> {
    let folder = tempfile::tempdir_in(std::env::current_dir()?)?;
    let home = folder.path().join("home");
    run(agents, &home, &["plan", "list"])?;
    let url = DatabaseUrl::file(&home.join("cleveragents.db"), Path::new("/"));
    let engine = EngineCache::new(Options::default()).open(&url)?;
    for number in 0..plans {
        let plan = store(&engine, &new_plan(&format!("plan-{number}")));
        store_example_strategy(&engine, plan);
    }
    tree(&engine, "wide", decisions, |number| (number - 1) / WIDTH);
    let corrected = tree(&engine, "chain", decisions, |number| number - 1);
    let mut rows = Vec::new();
    let dry_run = vec![
        "plan",
        "correct",
        &corrected,
        "--guidance",
        "better",
        "--dry-run",
    ];
    for (name, arguments, limit) in [
        ("dry run of a correction", dry_run, 200.0),
        ("list of plans", vec!["plan", "list"], 50.0),
        (
            "tree of decisions, wide",
            vec!["plan", "tree", "wide"],
            200.0,
        ),
        (
            "tree of decisions, one chain",
            vec!["plan", "tree", "chain"],
            200.0,
        ),
        (
            "tree of decisions as a picture",
            vec!["plan", "tree", "wide", "--as", "svg"],
            200.0,
        ),
    ] {
        let mut best = f64::INFINITY;
        for _ in 0..ROUNDS {
            best = best.min(timed(|| run(agents, &home, &arguments))?.0);
        }
        rows.push(Row {
            name: name.to_owned(),
            ours: best,
            other: limit,
            ratio: best / limit,
            unit: "ms",
            note: format!(
                "`agents {}`, its start included; the other is the limit",
                arguments.join(" ")
            ),
        });
    }
    rows.push(calls::overhead(agents, CALLS)?);
    rows.push(calls::memory(agents, AT_ONCE)?);
    rows.extend(children::forks(files)?);
    rows.push(children::memory(agents)?);
    rows.push(children::waiting(agents)?);
    Ok(Findings {
        rows,
        ours: serde_json::Map::new(),
        counts: json!({"plans": plans, "decisions": decisions, "files": files}),
    })
}

/// Stores a plan with a tree of decisions; `above` returns the number of the parent. Returns the id of the first
/// decision below the root.
fn tree(engine: &Arc<Engine>, name: &str, count: usize, above: impl Fn(usize) -> usize) -> String {
    let plan = store(engine, &new_plan(name));
    let mut all: Vec<NewDecision> = Vec::with_capacity(count);
    for number in 0..count {
        let text = format!("Decision {number}: what is to be done here, in some words");
        all.push(if number == 0 {
            decision(DecisionType::PromptDefinition, None, &text)
        } else {
            let parent = all[above(number)].id;
            decision(DecisionType::StrategyChoice, Some(parent), &text)
        });
    }
    decide(engine, plan, &all);
    all.get(1)
        .map_or_else(String::new, |decision| decision.id.to_string())
}

fn run(agents: &Path, home: &Path, arguments: &[&str]) -> anyhow::Result<()> {
    let status = Command::new(agents)
        .args(["--format", "rich"])
        .args(arguments)
        .env("CLEVERAGENTS_HOME", home)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()?;
    ensure!(status.success(), "agents {arguments:?} failed");
    Ok(())
}
