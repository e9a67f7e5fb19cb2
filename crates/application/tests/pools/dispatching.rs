//! Single rules of the loop.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cleveragents_application::{
    Dispatch, OperationError, PoolEvent, PoolService, PoolSnapshot, Reconciler, ReconcilerOptions,
    Register, RoleReport, RoleRunner, WaitReason, WorkItemService, plan_dispatches, record_base,
};
use cleveragents_domain::identity::Namespaces;
use cleveragents_domain::{
    AttemptOutcome, CodeLocation, Finding, MicroUsd, NewWorkItem, PoolRole, PoolState, ProcessId,
    ReviewDecision, Severity, Timestamp, TransitionCause, WorkItemKind, WorkItemState,
};
use cleveragents_process::Cancel;
use cleveragents_store::work_items::{ChangeOrigin, FiledFinding};
use cleveragents_store::{Engine, attempts, pools, work_items};
use cleveragents_testkit::{TestDatabase, at_once, proof_size};

use super::support::{
    LIMITS, PROJECT, Script, ScriptedRole, add_verified, change, definitions, item, pool_files,
    register, run_until_idle, set_state, verdict,
};

fn fix_pool(limits: &str) -> Vec<String> {
    vec![format!(
        "name: fix\nrole: fix\nproject: shop\ntiers: [{{name: cheap, actor: local/cheap}}]\n{limits}\n"
    )]
}

fn plan(engine: &Arc<Engine>) -> cleveragents_application::DispatchPlan {
    let definitions = definitions(engine);
    let snapshot = engine
        .read(|reader| PoolSnapshot::read(reader, &definitions, 8))
        .expect("read");
    plan_dispatches(&snapshot)
}

#[test]
fn one_of_many_starters_runs_an_item_and_the_others_call_no_model() {
    for database in TestDatabase::each() {
        let engine = database.open();
        register(&engine, &fix_pool(LIMITS));
        let bug = add_verified(&engine, "one bug");
        let starters = proof_size(20, 100);
        let runner = ScriptedRole::new(0, Duration::from_millis(20));
        // Each has its own scheduler and sees the item as free.
        at_once(starters, |_| {
            run_until_idle(&engine, &runner, 1_000, &|_| {})
        });
        assert_eq!(
            runner.calls.load(Ordering::SeqCst),
            1,
            "on {}",
            database.kind
        );
        assert_eq!(item(&engine, bug.id).state, WorkItemState::InReview);
        assert_eq!(database.count("SELECT count(*) FROM attempts"), 1);
    }
}

#[test]
fn a_full_queue_an_open_change_limit_and_a_dependency_stop_the_start() {
    let database = TestDatabase::sqlite();
    let engine = database.open();
    register(
        &engine,
        &fix_pool("limits: {workers: 8, open_changes: 2, downstream: {in_review: 3}}"),
    );
    let items: Vec<_> = (0..5)
        .map(|n| add_verified(&engine, &format!("bug {n}")))
        .collect();
    let service = WorkItemService::new(Arc::clone(&engine));
    service
        .link(items[0].id, items[4].id, false)
        .expect("linked");
    let refused = service.link(items[4].id, items[0].id, false);
    assert!(refused.is_err(), "a cycle is refused");
    let decided = plan(&engine);
    let started: Vec<_> = decided
        .dispatches
        .iter()
        .map(|dispatch| dispatch.item)
        .collect();
    assert_eq!(
        started,
        [items[1].id, items[2].id],
        "two open changes at most"
    );
    let why = |id| {
        decided
            .waits
            .iter()
            .find(|(item, _)| *item == id)
            .map(|(_, why)| why.clone())
    };
    assert!(matches!(
        why(items[0].id),
        Some(WaitReason::Dependencies { .. })
    ));
    assert!(matches!(
        why(items[3].id),
        Some(WaitReason::OpenChanges { limit: 2, .. })
    ));
    // The loop makes the two planned attempts and stops.
    let runner = ScriptedRole::new(0, Duration::ZERO);
    run_until_idle(&engine, &runner, 8, &|_| {});
    assert_eq!(runner.calls.load(Ordering::SeqCst), 2);
    assert_eq!(
        database.count("SELECT count(*) FROM work_items WHERE state = 'in_review'"),
        2
    );
}

#[test]
fn a_red_base_stops_all_work_except_its_fix_and_charges_no_attempt() {
    for database in TestDatabase::each() {
        let engine = database.open();
        register(&engine, &fix_pool("limits: {workers: 8}"));
        let bug = add_verified(&engine, "ordinary bug");
        let red = Script(|dispatch: &Dispatch| {
            let mut report = change(dispatch, true);
            if let RoleReport::Change { evidence, .. } = &mut report {
                evidence.failing_on_base = vec!["unit".to_owned()];
            }
            report
        });
        run_until_idle(&engine, &red, 8, &|_| {});
        let past = engine
            .read(|reader| attempts::of_item(reader, bug.id))
            .expect("read");
        assert_eq!(past.len(), 1, "the base stops the next attempt");
        assert_eq!(past[0].outcome, Some(AttemptOutcome::RedBase));
        // One blocker, however often the red base is found.
        let blockers = "SELECT count(*) FROM work_items WHERE priority = 'ci_blocker'";
        assert_eq!(database.count(blockers), 1);
        engine
            .write(|unit| record_base(unit, PROJECT, Some("base"), &["unit".to_owned()], "test"))
            .expect("recorded");
        assert_eq!(database.count(blockers), 1);
        let decided = plan(&engine);
        let why = decided
            .waits
            .iter()
            .find(|(id, _)| *id == bug.id)
            .map(|(_, why)| why);
        assert!(matches!(why, Some(WaitReason::RedBase { .. })), "{why:?}");
        engine
            .write(|unit| record_base(unit, PROJECT, Some("next"), &[], "test"))
            .expect("recorded");
        assert!(
            plan(&engine)
                .dispatches
                .iter()
                .any(|dispatch| dispatch.item == bug.id)
        );
    }
}

/// Stops its pool, and waits until the stop reaches it.
struct Waiting(Arc<Engine>);
impl RoleRunner for Waiting {
    fn run(&self, dispatch: &Dispatch, cancel: &Cancel) -> Result<RoleReport, OperationError> {
        set_state(&self.0, "local/fix", PoolState::Stopped);
        let checked = self.0.write({
            let dispatch = dispatch.clone();
            move |unit| cleveragents_application::require_may_apply(unit, &dispatch)
        });
        assert!(checked.is_err(), "no apply starts after a stop");
        for _ in 0..500 {
            if cancel.is_cancelled() {
                break;
            }
            std::thread::sleep(Duration::from_millis(30));
        }
        assert!(cancel.is_cancelled(), "the stop reaches the attempt");
        Err(OperationError::usage("stopped"))
    }
}

#[test]
fn a_stopped_pool_starts_nothing_and_cancels_what_runs() {
    let database = TestDatabase::sqlite();
    let engine = database.open();
    register(&engine, &fix_pool("limits: {workers: 2}"));
    let bug = add_verified(&engine, "bug");
    for state in [PoolState::Paused, PoolState::Stopped, PoolState::Draining] {
        set_state(&engine, "local/fix", state);
        assert!(plan(&engine).dispatches.is_empty(), "{state}");
    }
    set_state(&engine, "local/fix", PoolState::Active);
    run_until_idle(&engine, &Waiting(Arc::clone(&engine)), 4, &|_| {});
    let past = engine
        .read(|reader| attempts::of_item(reader, bug.id))
        .expect("read");
    assert_eq!(past.len(), 1);
    assert_eq!(past[0].outcome, Some(AttemptOutcome::Cancelled));
}

/// Counts the attempts that run at the same time.
#[derive(Default)]
struct AttemptCounter {
    running: AtomicU64,
    highest: AtomicU64,
}

impl RoleRunner for AttemptCounter {
    fn run(&self, dispatch: &Dispatch, _: &Cancel) -> Result<RoleReport, OperationError> {
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.highest.fetch_max(running, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(10));
        self.running.fetch_sub(1, Ordering::SeqCst);
        Ok(change(dispatch, false))
    }
}

#[test]
fn limits_hold_for_any_number_of_schedulers() {
    for database in TestDatabase::each() {
        for (limits, capacity) in [("limits: {workers: 2}", 100), ("limits: {workers: 50}", 2)] {
            let engine = database.open();
            let pools = fix_pool(limits);
            PoolService::new(Arc::clone(&engine))
                .add(&pools[0], "test", Register::Update, &|_| None)
                .expect("a valid pool");
            for number in 0..12 {
                add_verified(&engine, &format!("{limits} {number}"));
            }
            let counting = AttemptCounter::default();
            // Each scheduler plans from its own snapshot.
            at_once(6, |_| run_until_idle(&engine, &counting, capacity, &|_| {}));
            let highest = counting.highest.load(Ordering::SeqCst);
            assert!(
                (1..=2).contains(&highest),
                "{highest} at once: {limits} on {}",
                database.kind
            );
        }
        let open = "SELECT count(*) FROM work_items WHERE state <> 'in_review'";
        assert_eq!(database.count(open), 0);
    }
}

#[test]
fn a_blocking_finding_sends_the_change_back() {
    let database = TestDatabase::sqlite();
    let engine = database.open();
    register(&engine, &pool_files(LIMITS)[2..4]);
    let bug = add_verified(&engine, "bug");
    database.execute_sql("UPDATE work_items SET state = 'captured'");
    let reviews = AtomicU64::new(0);
    let script = Script(|dispatch: &Dispatch| {
        if dispatch.role() == PoolRole::Fix {
            return change(dispatch, false);
        }
        let severities: &[Severity] = match reviews.fetch_add(1, Ordering::SeqCst) {
            0 => &[Severity::High],
            _ => &[Severity::Low],
        };
        let head = dispatch
            .item
            .change
            .as_ref()
            .and_then(|change| change.head.clone());
        RoleReport::Review {
            verdict: verdict(ReviewDecision::Approve, severities),
            head: head.expect("a state"),
            cost: MicroUsd(0),
            plan: None,
        }
    });
    let states = Mutex::new(Vec::new());
    run_until_idle(&engine, &script, 8, &|event| {
        if let PoolEvent::Settled { settled, .. } = event {
            states.lock().expect("no panic").push(settled.state);
        }
    });
    let states = states.into_inner().expect("no panic");
    assert_eq!(
        states,
        [
            WorkItemState::InReview,
            WorkItemState::InProgress,
            WorkItemState::InReview,
            WorkItemState::Approved
        ]
    );
    assert_eq!(item(&engine, bug.id).state, WorkItemState::Approved);
}

#[test]
fn words_of_a_model_move_nothing() {
    let database = TestDatabase::sqlite();
    let engine = database.open();
    register(&engine, &pool_files(LIMITS));
    let bug = add_verified(&engine, "bug");
    // The role answers every dispatch with the verdict of a review, whatever its role is.
    let liar = Script(|_: &Dispatch| RoleReport::Review {
        verdict: verdict(ReviewDecision::Approve, &[]),
        head: "head".to_owned(),
        cost: MicroUsd(0),
        plan: None,
    });
    run_until_idle(&engine, &liar, 8, &|_| {});
    let found = item(&engine, bug.id);
    assert_eq!(
        found.state,
        WorkItemState::NeedsPerson,
        "{:?}",
        found.reason
    );
    let past = engine
        .read(|reader| attempts::of_item(reader, bug.id))
        .expect("read");
    assert_eq!(past.len(), 4, "two attempts per tier");
    assert!(
        past.iter()
            .all(|attempt| attempt.outcome == Some(AttemptOutcome::FailedGates))
    );
    let post_mortems = "SELECT count(*) FROM work_items WHERE kind = 'post_mortem'";
    assert_eq!(database.count(post_mortems), 1);
}

#[test]
fn a_claim_of_a_dead_process_is_ended_as_interrupted_and_not_charged() {
    for database in TestDatabase::each() {
        let engine = database.open();
        register(&engine, &fix_pool(LIMITS));
        let bug = add_verified(&engine, "bug");
        let read = || Ok(definitions(&engine));
        let cancel = Cancel::new();
        let vanish = Script(|dispatch: &Dispatch| {
            // The lease now belongs to a machine that vanished, and has expired.
            let moment = Timestamp::now().plus_seconds(-1).as_micros();
            let process = ProcessId::generate();
            database.execute_sql(&format!(
                "UPDATE leases SET expires_at = {moment}, owner_host = 'gone', owner_process = '{process}' \
                 WHERE kind = 'work-item'"
            ));
            cancel.cancel();
            // The late result of an owner that lost its lease.
            let other = Arc::clone(&engine);
            let rescued = ScriptedRole::new(0, Duration::ZERO);
            let recovered = std::sync::atomic::AtomicBool::new(false);
            run_until_idle(&other, &rescued, 8, &|event| {
                if matches!(event, PoolEvent::Recovered(_)) {
                    recovered.store(true, Ordering::SeqCst);
                }
            });
            assert!(recovered.load(Ordering::SeqCst));
            change(dispatch, false)
        });
        let lost = std::sync::atomic::AtomicBool::new(false);
        let observer = |event: &PoolEvent<'_>| {
            if matches!(event, PoolEvent::LostLease(_)) {
                lost.store(true, Ordering::SeqCst);
            }
        };
        let options = ReconcilerOptions {
            capacity: 8,
            own_limit: None,
            until_idle: true,
            only: Vec::new(),
            observer: &observer,
            cancel: &cancel,
        };
        let summary = Reconciler::new(Arc::clone(&engine), &read, &vanish, options)
            .run()
            .expect("it ends");
        assert_eq!((summary.started, summary.interrupted), (1, 1));
        assert!(lost.load(Ordering::SeqCst), "the late result is refused");
        let past = engine
            .read(|reader| attempts::of_item(reader, bug.id))
            .expect("read");
        let outcomes: Vec<_> = past.iter().map(|attempt| attempt.outcome).collect();
        assert_eq!(
            outcomes,
            [
                Some(AttemptOutcome::Interrupted),
                Some(AttemptOutcome::Succeeded)
            ]
        );
        assert_eq!(item(&engine, bug.id).state, WorkItemState::InReview);
        assert_eq!(database.count("SELECT count(*) FROM reservations"), 0);
    }
}

fn finding(cause: &str, wording: &str) -> Finding {
    Finding {
        title: wording.to_owned(),
        category: "concurrency".to_owned(),
        cause: cause.to_owned(),
        severity: Severity::High,
        location: CodeLocation {
            path: "cart.py".to_owned(),
            symbol: Some("Cart.add".to_owned()),
            line_start: 3,
            line_end: 4,
            commit: Some("base".to_owned()),
            quote: "total = read()\nwrite(total + x)".to_owned(),
        },
        description: wording.to_owned(),
        evidence: wording.to_owned(),
        expected: None,
        actual: None,
        suggested_fix: None,
        confidence: 90,
    }
}

fn file(engine: &Engine, finding: Finding) -> FiledFinding {
    let filed = engine.write(move |unit| {
        let new = NewWorkItem::new(PROJECT, WorkItemKind::Bug, &finding.title);
        let origin = ChangeOrigin::new(TransitionCause::Role, "local/hunt");
        work_items::file_finding(unit, &new, &finding, None, &origin)
    });
    filed.expect("filed")
}

#[test]
fn a_defect_that_is_reported_many_times_is_one_item_with_its_sightings() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let reports = proof_size(16, 64);
        let filed = at_once(reports, |index| {
            file(&engine, finding("lost update", &format!("wording {index}")))
        });
        let new = filed
            .iter()
            .filter(|filed| matches!(filed, FiledFinding::New(_)));
        assert_eq!(new.count(), 1, "on {}", database.kind);
        let id = filed[0].item();
        assert!(filed.iter().all(|filed| filed.item() == id));
        let sightings = engine
            .read(|reader| work_items::sightings(reader, id))
            .expect("read");
        assert_eq!(sightings.len(), reports);
        assert!(matches!(
            file(&engine, finding("other cause", "x")),
            FiledFinding::New(_)
        ));
        // A rejected finding stays rejected until its evidence changes.
        let service = WorkItemService::new(Arc::clone(&engine));
        service
            .close(
                id,
                WorkItemState::WontDo,
                None,
                Some("by design".to_owned()),
            )
            .expect("closed");
        assert_eq!(
            file(&engine, finding("lost update", "again")),
            FiledFinding::Rejected(id)
        );
        let mut changed = finding("lost update", "again");
        changed.location.quote = "write(read() + x)".to_owned();
        assert!(matches!(file(&engine, changed), FiledFinding::New(_)));
    }
}

#[test]
fn an_anomaly_raises_one_alert_that_is_resolved_when_it_is_gone() {
    let database = TestDatabase::sqlite();
    let engine = database.open();
    register(&engine, &pool_files(LIMITS)[4..]);
    let bug = add_verified(&engine, "no pool takes verified items");
    let runner = ScriptedRole::new(0, Duration::ZERO);
    let open = || {
        let alerts = engine.read(|reader| pools::open_alerts(reader, &Namespaces::All));
        alerts.expect("read")
    };
    for _ in 0..3 {
        run_until_idle(&engine, &runner, 8, &|_| {});
        let kinds: Vec<String> = open().into_iter().map(|alert| alert.kind).collect();
        assert_eq!(kinds, ["ownerless-item"]);
    }
    WorkItemService::new(Arc::clone(&engine))
        .close(bug.id, WorkItemState::Completed, None, None)
        .expect("closed");
    run_until_idle(&engine, &runner, 8, &|_| {});
    assert_eq!(open(), []);
    assert_eq!(database.count("SELECT count(*) FROM pool_alerts"), 1);
}

#[test]
fn full_text_search_finds_items_on_both_databases() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let service = WorkItemService::new(Arc::clone(&engine));
        let bug = add_verified(&engine, "The cart forgets a concurrent update");
        add_verified(&engine, "Invoices are rounded");
        let found = |words: &str| {
            let hits = service
                .search(words, Some(PROJECT), &Namespaces::All, 10)
                .expect("searched");
            hits.into_iter().map(|hit| hit.item.id).collect::<Vec<_>>()
        };
        assert_eq!(found("concurrent cart"), [bug.id], "on {}", database.kind);
        assert_eq!(found("nothing"), []);
        service
            .edit(
                bug.id,
                cleveragents_application::WorkItemEdit {
                    title: Some("The basket forgets an update".to_owned()),
                    ..Default::default()
                },
            )
            .expect("edited");
        assert_eq!(found("basket"), [bug.id]);
        assert_eq!(found("concurrent"), []);
    }
}
