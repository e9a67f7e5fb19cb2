//! Many items, many workers, failures at every stage, and processes that are killed at random.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cleveragents_domain::{
    AttemptOutcome, MergeEvidence, PoolRole, Severity, WorkItemId, WorkItemState,
};
use cleveragents_store::{Engine, attempts, budgets, work_items};
use cleveragents_testkit::{Child, TestDatabase, child_input, proof_size, send_line};

use super::support::{
    LIMITS, ScriptedRole, add_bugs, definitions, item, pool_files, register, run_until_idle,
};

/// Checks everything that must hold after a run, for all items.
fn assert_rules(engine: &Arc<Engine>, items: &[WorkItemId]) -> HashMap<WorkItemState, usize> {
    let mut states: HashMap<WorkItemState, usize> = HashMap::new();
    for id in items {
        let found = item(engine, *id);
        *states.entry(found.state).or_default() += 1;
        assert!(
            found.state.is_terminal() || found.state == WorkItemState::NeedsPerson,
            "{id} is {}: {:?}",
            found.state,
            found.reason
        );
        let past = engine
            .read(|reader| attempts::of_item(reader, *id))
            .expect("read");
        // No two attempts at the same time.
        for pair in past.windows(2) {
            let end = pair[0].finished_at.expect("ended");
            assert!(
                end <= pair[1].started_at,
                "{id}: attempts overlap: {pair:?}"
            );
        }
        for attempt in &past {
            let outcome = attempt.outcome.expect("ended");
            assert_eq!(
                attempt.reason.is_none(),
                outcome == AttemptOutcome::Succeeded
            );
            assert!(attempt.cost <= attempt.reserved);
        }
        if found.state == WorkItemState::Completed {
            assert_merged_by_the_rules(engine, *id);
        }
    }
    states
}

/// A completed item had every gate and an approval on exactly the state that was merged.
fn assert_merged_by_the_rules(engine: &Arc<Engine>, id: WorkItemId) {
    let (past, reviews) = engine
        .read(|reader| {
            Ok::<_, cleveragents_store::Error>((
                attempts::of_item(reader, id)?,
                attempts::reviews(reader, id)?,
            ))
        })
        .expect("read");
    let fix = past
        .iter()
        .rev()
        .find(|attempt| {
            attempt.role == PoolRole::Fix && attempt.outcome == Some(AttemptOutcome::Succeeded)
        })
        .expect("a successful attempt");
    let head = fix.head.as_deref().expect("a state");
    let evidence = MergeEvidence {
        head,
        required_gates: &["unit".to_owned()],
        attempts: &past,
        reviews: &reviews,
        blocking: Severity::High,
        is_captured: true,
        dependencies_completed: true,
        is_base_green: true,
        fixes_base: false,
    };
    assert_eq!(evidence.failing(), [], "{id}");
    let heads: Vec<&str> = reviews.iter().map(|review| review.head.as_str()).collect();
    let mut distinct = heads.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(heads.len(), distinct.len(), "one review per state");
}

/// Runs `work` while the caps on open changes and cost are sampled.
fn while_caps_hold<T>(engine: &Arc<Engine>, work: impl FnOnce() -> T) -> T {
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut samples = 0;
            while !is_done.load(Ordering::SeqCst) {
                engine
                    .read(|reader| {
                        let open = attempts::count_open_changes(reader, "local/fix")?;
                        assert!(open <= 20, "{open} open changes");
                        let (running, _) = attempts::count_running(reader, "local/fix")?;
                        assert!(running <= 32, "{running} attempts run");
                        for pool in ["triage", "capture", "fix", "review"] {
                            let used = budgets::used(reader, &format!("pool local/{pool}"))?;
                            assert!(used.spent.0 + used.reserved.0 <= 1_000_000_000);
                        }
                        Ok::<_, cleveragents_store::Error>(())
                    })
                    .expect("read");
                samples += 1;
                std::thread::sleep(Duration::from_millis(5));
            }
            samples
        });
        let result = work();
        is_done.store(true, Ordering::SeqCst);
        assert!(watcher.join().expect("the caps hold") > 0);
        result
    })
}

#[test]
fn every_item_ends_when_a_tenth_fails_at_each_stage() {
    for database in TestDatabase::each() {
        let engine = database.open();
        register(&engine, &pool_files(LIMITS));
        let items = add_bugs(&engine, proof_size(60, 1_000));
        let runner = ScriptedRole::new(10, Duration::ZERO);
        let begin = Instant::now();
        let summary = while_caps_hold(&engine, || run_until_idle(&engine, &runner, 32, &|_| {}));
        let states = assert_rules(&engine, &items);
        let completed = states.get(&WorkItemState::Completed).copied();
        println!(
            "{}: {} items in {:?}: {summary:?}, {states:?}",
            database.kind,
            items.len(),
            begin.elapsed()
        );
        assert!(
            completed.unwrap_or_default() * 10 > items.len() * 7,
            "{states:?}"
        );
        assert_eq!(summary.started, runner.calls.load(Ordering::SeqCst));
        assert_eq!(
            summary.started,
            summary.succeeded + summary.failed + summary.interrupted
        );
        assert_eq!(
            database.count("SELECT count(*) FROM attempts WHERE outcome IS NULL"),
            0
        );
        assert_eq!(database.count("SELECT count(*) FROM reservations"), 0);
    }
}

/// A worker process: works until it is idle or killed.
fn work_in_child(url: &str) {
    let url =
        cleveragents_store::DatabaseUrl::parse(url, std::path::Path::new("/")).expect("a URL");
    let engine = cleveragents_store::EngineCache::new(cleveragents_store::Options::default())
        .open(&url)
        .expect("opened");
    let runner = ScriptedRole::new(10, Duration::from_millis(8));
    send_line("ready");
    let summary = run_until_idle(&engine, &runner, 32, &|_| {});
    send_line(format!("done {}", summary.started));
}

#[test]
fn killed_worker_processes_lose_nothing() {
    if let Some(url) = child_input() {
        return work_in_child(&url);
    }
    let test = "loop_proof::killed_worker_processes_lose_nothing";
    for database in TestDatabase::each() {
        let engine = database.open();
        register(&engine, &pool_files(LIMITS));
        let items = add_bugs(&engine, proof_size(40, 1_000));
        let rounds = proof_size(4, 25);
        let mut killed = 0;
        while_caps_hold(&engine, || {
            for round in 0..rounds {
                let mut children: Vec<Child> =
                    (0..3).map(|_| Child::start(test, &database.url)).collect();
                for child in &mut children {
                    assert_eq!(child.read_line().as_deref(), Some("ready"));
                }
                std::thread::sleep(Duration::from_millis(40 + 37 * (round as u64 % 7)));
                for child in children {
                    child.kill();
                    killed += 1;
                }
            }
            let mut last = Child::start(test, &database.url);
            assert_eq!(last.read_line().as_deref(), Some("ready"));
            let answer = last.read_line().expect("the last worker finishes");
            assert!(answer.starts_with("done "), "{answer}");
        });
        let states = assert_rules(&engine, &items);
        let interrupted =
            database.count("SELECT count(*) FROM attempts WHERE outcome = 'interrupted'");
        println!(
            "{}: {killed} killed, {interrupted} interrupted, {states:?}",
            database.kind
        );
        assert_eq!(definitions(&engine).len(), 5);
        assert_eq!(
            database.count("SELECT count(*) FROM attempts WHERE outcome IS NULL"),
            0
        );
        assert_eq!(database.count("SELECT count(*) FROM reservations"), 0);
        let transitions = items
            .iter()
            .map(|id| engine.read(|reader| work_items::transitions(reader, *id)));
        for transitions in transitions {
            let transitions = transitions.expect("read");
            for pair in transitions.windows(2) {
                assert_eq!(pair[1].from, Some(pair[0].to), "the history has no gap");
            }
        }
    }
}
