//! Measures the dispatch of pools: one decision over many items, items through five stages with instant roles, and
//! claims of many schedulers.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::ensure;
use cleveragents_application::{
    Dispatch, OperationError, PoolRunSummary, PoolService, PoolSnapshot, Reconciler,
    ReconcilerOptions, Register, RoleFailure, RoleReport, RoleRunner, WorkItemService,
    plan_dispatches,
};
use cleveragents_domain::{
    AttemptEvidence, GateResult, MergeOutcome, MicroUsd, NewWorkItem, PoolDefinition, PoolRole,
    ReasonedValue, RegressionProof, ReviewDecision, ReviewVerdict, TriageDecision, TriageVerdict,
    WorkItemKind, WorkItemState,
};
use cleveragents_process::Cancel;
use cleveragents_store::{DatabaseUrl, Engine, EngineCache, Options, work_items};
use cleveragents_testkit::at_once;
use serde_json::json;

use crate::{Findings, Row};

/// Number of schedulers that claim at the same time.
const SCHEDULERS: usize = 64;

/// Number of measurements of a decision; the best counts.
const ROUNDS: usize = 5;

/// Measures with `decided` items for one decision and `passed` items through the stages.
pub(crate) fn measure(decided: usize, passed: usize) -> anyhow::Result<Findings> {
    let folder = tempfile::tempdir_in(std::env::current_dir()?)?;
    let mut rows = vec![decision(&folder.path().join("decision.db"), decided)?];
    let (throughput, summary) = stages(&folder.path().join("stages.db"), passed)?;
    rows.push(throughput);
    let (contention, claims) = contention(&folder.path().join("claims.db"), passed)?;
    rows.push(contention);
    Ok(Findings {
        rows,
        ours: serde_json::Map::new(),
        counts: json!({
            "attempts": summary.started, "succeeded": summary.succeeded,
            "contended_attempts": claims.started, "wasted_claims": claims.wasted_claims,
        }),
    })
}

fn open(path: &Path) -> anyhow::Result<Arc<Engine>> {
    let url = DatabaseUrl::file(path, Path::new("/"));
    Ok(EngineCache::new(Options::default()).open(&url)?)
}

fn register(engine: &Arc<Engine>) -> anyhow::Result<Vec<Arc<PoolDefinition>>> {
    let service = PoolService::new(Arc::clone(engine));
    for (role, tiers) in [
        ("triage", "tiers: [{name: cheap, actor: local/cheap}]"),
        ("capture", "tiers: [{name: cheap, actor: local/cheap}]"),
        (
            "fix",
            "tiers: [{name: cheap, actor: local/cheap}]\nstates: [captured, in_progress]",
        ),
        ("review", "tiers: [{name: reviewer, actor: local/reviewer}]"),
        ("merge", ""),
    ] {
        let file = format!(
            "name: {role}\nrole: {role}\nproject: shop\n{tiers}\nlimits: {{workers: 64}}\n"
        );
        service.add(&file, "bench", Register::New, &|_| None)?;
    }
    let registered = service.list_registered(&|_| None)?;
    registered
        .into_iter()
        .map(|pool| Ok(Arc::new(pool.definition.map_err(|error| *error)?)))
        .collect()
}

/// Stores items, many per unit of work.
fn add_items(engine: &Engine, count: usize, state: WorkItemState) -> anyhow::Result<()> {
    for begin in (0..count).step_by(1_000) {
        let end = count.min(begin + 1_000);
        engine.write(move |unit| {
            for number in begin..end {
                let new = NewWorkItem {
                    state,
                    milestone: Some(format!("v1.{}", number % 12)),
                    ..NewWorkItem::new("local/shop", WorkItemKind::Bug, format!("bug {number}"))
                };
                let cause = cleveragents_domain::TransitionCause::Person;
                work_items::insert(unit, &new, &work_items::ChangeOrigin::new(cause, "bench"))?;
            }
            Ok::<_, cleveragents_store::Error>(())
        })?;
    }
    Ok(())
}

fn decision(path: &Path, count: usize) -> anyhow::Result<Row> {
    let engine = open(path)?;
    let definitions = register(&engine)?;
    add_items(&engine, count / 2, WorkItemState::Unverified)?;
    add_items(&engine, count - count / 2, WorkItemState::Verified)?;
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        let snapshot = engine.read(|reader| PoolSnapshot::read(reader, &definitions, 32))?;
        let plan = plan_dispatches(&snapshot);
        best = best.min(begin.elapsed().as_secs_f64() * 1_000.0);
        ensure!(plan.dispatches.len() == 32, "32 attempts start");
        ensure!(plan.waits.len() + 32 == count, "each item has its reason");
    }
    Ok(Row {
        name: format!("decision over {count} items"),
        ours: best,
        other: 100.0,
        ratio: best / 100.0,
        unit: "ms",
        note: "the other value is the limit".to_owned(),
    })
}

/// Answers at once, always with a success.
struct InstantRole;

impl RoleRunner for InstantRole {
    fn run(&self, dispatch: &Dispatch, _: &Cancel) -> Result<RoleReport, OperationError> {
        let (cost, plan) = (MicroUsd(100), None);
        let head = format!("head-{}", dispatch.attempt.id);
        Ok(match dispatch.role() {
            PoolRole::Triage => RoleReport::Triage {
                decision: TriageDecision {
                    verdict: ReasonedValue {
                        value: TriageVerdict::Accept,
                        reason: "real".to_owned(),
                    },
                    kind: None,
                    priority: None,
                    milestone: None,
                    points: None,
                    moscow: None,
                    labels: None,
                },
                cost,
                plan,
            },
            PoolRole::Capture | PoolRole::Fix => RoleReport::Change {
                evidence: AttemptEvidence {
                    gates: vec![GateResult {
                        name: "unit".to_owned(),
                        command: "run-tests".to_owned(),
                        scope: "all".to_owned(),
                        required: true,
                        exit_code: Some(0),
                        commit_or_sandbox_state: head.clone(),
                        output_tail: String::new(),
                    }],
                    changed_paths: vec!["cart.py".to_owned()],
                    changes_behavior: true,
                    regression: Some(RegressionProof {
                        test: "test_cart".to_owned(),
                        base_runs: 1,
                        base_failures: 1,
                        head_runs: 1,
                        head_failures: 0,
                    }),
                    ..AttemptEvidence::without_gates(head)
                },
                plan,
            },
            PoolRole::Review => RoleReport::Review {
                verdict: ReviewVerdict {
                    decision: ReviewDecision::Approve,
                    findings: Vec::new(),
                    summary: String::new(),
                },
                head: dispatch
                    .item
                    .change
                    .as_ref()
                    .and_then(|change| change.head.clone())
                    .unwrap_or_default(),
                cost,
                plan,
            },
            PoolRole::Merge => RoleReport::Merge {
                outcome: MergeOutcome::Merged { commit: head },
                cost,
                plan,
            },
            PoolRole::Hunt | PoolRole::Watch => RoleReport::Failed {
                failure: RoleFailure::NoResult("not measured".to_owned()),
                cost,
                plan,
            },
        })
    }
}

fn run_loop(
    engine: &Arc<Engine>,
    definitions: &[Arc<PoolDefinition>],
    capacity: u64,
) -> Result<PoolRunSummary, OperationError> {
    let (read, cancel) = (|| Ok(definitions.to_vec()), Cancel::new());
    let options = ReconcilerOptions {
        capacity,
        own_limit: None,
        until_idle: true,
        only: Vec::new(),
        observer: &|_| {},
        cancel: &cancel,
    };
    Reconciler::new(Arc::clone(engine), &read, &InstantRole, options).run()
}

#[expect(clippy::cast_precision_loss, reason = "small numbers for display")]
fn stages(path: &Path, count: usize) -> anyhow::Result<(Row, PoolRunSummary)> {
    let engine = open(path)?;
    let definitions = register(&engine)?;
    add_items(&engine, count, WorkItemState::Unverified)?;
    let begin = Instant::now();
    let summary = run_loop(&engine, &definitions, 32)?;
    let rate = count as f64 / begin.elapsed().as_secs_f64();
    ensure!(
        summary.succeeded == 5 * count as u64,
        "every stage succeeds: {summary:?}"
    );
    let row = Row {
        name: format!("{count} items through five stages"),
        ours: rate,
        other: 20.0,
        ratio: rate / 20.0,
        unit: "items/s",
        note: "the other value is the limit; more is better".to_owned(),
    };
    Ok((row, summary))
}

#[expect(clippy::cast_precision_loss, reason = "small numbers for display")]
fn contention(path: &Path, count: usize) -> anyhow::Result<(Row, PoolRunSummary)> {
    let engine = open(path)?;
    let definitions = register(&engine)?;
    add_items(&engine, count, WorkItemState::Unverified)?;
    let (started, wasted) = (AtomicU64::new(0), AtomicU64::new(0));
    let results = at_once(SCHEDULERS, |_| run_loop(&engine, &definitions, 64));
    for result in results {
        let summary = result?;
        started.fetch_add(summary.started, Ordering::Relaxed);
        wasted.fetch_add(summary.wasted_claims, Ordering::Relaxed);
    }
    let summary = PoolRunSummary {
        started: started.into_inner(),
        wasted_claims: wasted.into_inner(),
        ..PoolRunSummary::default()
    };
    ensure!(
        summary.started == 5 * count as u64,
        "no attempt is lost or doubled: {summary:?}"
    );
    let completed = WorkItemService::new(Arc::clone(&engine)).list(
        &work_items::ItemFilter {
            states: vec![WorkItemState::Completed],
            ..work_items::ItemFilter::default()
        },
        None,
        1,
    )?;
    ensure!(completed.1 == count as u64, "every item is completed");
    let claims = (summary.started + summary.wasted_claims) as f64;
    let share = 100.0 * summary.wasted_claims as f64 / claims;
    let row = Row {
        name: format!("wasted claims of {SCHEDULERS} schedulers"),
        ours: share,
        other: 5.0,
        ratio: share / 5.0,
        unit: "%",
        note: "the other value is the limit".to_owned(),
    };
    Ok((row, summary))
}
