//! Invariants of the loop: alerts, and the items of the role `watch`.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cleveragents_application::{
    LeaseService, PoolService, Register, RoleReport, WorkItemService, item_lease, record_base,
};
use cleveragents_domain::identity::Namespaces;
use cleveragents_domain::{
    AttemptOutcome, PoolRole, PoolState, Priority, Ttl, WorkItem, WorkItemKind, WorkItemState,
};
use cleveragents_store::{Engine, pools, work_items};
use cleveragents_testkit::TestDatabase;

use super::support::{
    LIMITS, PROJECT, Script, ScriptedRole, add_bugs, add_verified, change, item, pool_files,
    register, run_until_idle, set_state,
};

const WATCH: &str = "name: watch\nrole: watch\nproject: shop\n";

fn watched(engine: &Engine) -> Vec<WorkItem> {
    let items = engine.read(|reader| work_items::open_with_label(reader, PROJECT, "watch"));
    items.expect("read")
}

fn alerts(engine: &Engine) -> Vec<String> {
    let alerts = engine.read(|reader| pools::open_alerts(reader, &Namespaces::All));
    let alerts = alerts.expect("read").into_iter();
    alerts.map(|alert| alert.kind).collect()
}

#[test]
fn an_anomaly_is_one_item_that_is_closed_when_it_is_gone_and_reopened_when_it_returns() {
    for database in TestDatabase::each() {
        let engine = database.open();
        // Nothing takes verified items, and nothing takes reports.
        register(&engine, &[pool_files(LIMITS)[4].clone(), WATCH.to_owned()]);
        let runner = ScriptedRole::new(0, Duration::ZERO);
        run_until_idle(&engine, &runner, 8, &|_| {});
        assert_eq!(watched(&engine), [], "no anomaly, no item");
        let bug = add_verified(&engine, "no pool takes it");
        for _ in 0..3 {
            run_until_idle(&engine, &runner, 8, &|_| {});
        }
        let filed = watched(&engine);
        assert_eq!(filed.len(), 1, "{filed:?}");
        assert_eq!(
            filed[0].state,
            WorkItemState::NeedsPerson,
            "no triage takes it"
        );
        assert_eq!(filed[0].kind, WorkItemKind::Task);
        assert!(filed[0].title.contains("verified"), "{}", filed[0].title);
        let service = WorkItemService::new(Arc::clone(&engine));
        let closed = service.close(bug.id, WorkItemState::Completed, None, None);
        closed.expect("closed");
        run_until_idle(&engine, &runner, 8, &|_| {});
        let gone = item(&engine, filed[0].id);
        assert_eq!(gone.state, WorkItemState::Completed);
        assert_eq!(gone.reason.as_deref(), Some("the anomaly is gone"));
        let again = add_verified(&engine, "no pool takes it either");
        run_until_idle(&engine, &runner, 8, &|_| {});
        assert_eq!(item(&engine, filed[0].id).state, WorkItemState::NeedsPerson);
        assert_eq!(watched(&engine).len(), 1, "it was reopened");
        // An anomaly that the user rejects stays rejected.
        let rejected = service.close(filed[0].id, WorkItemState::WontDo, None, None);
        rejected.expect("closed");
        run_until_idle(&engine, &runner, 8, &|_| {});
        assert_eq!(item(&engine, filed[0].id).state, WorkItemState::WontDo);
        assert_eq!(watched(&engine), []);
        assert_eq!(item(&engine, again.id).state, WorkItemState::Verified);
        assert_eq!(runner.calls.load(Ordering::SeqCst), 0, "no model ran");
    }
}

#[test]
fn a_model_looks_at_an_anomaly_and_only_then() {
    let database = TestDatabase::sqlite();
    let engine = database.open();
    register(&engine, &[pool_files(LIMITS)[0].clone(), WATCH.to_owned()]);
    let runner = ScriptedRole::new(0, Duration::ZERO);
    run_until_idle(&engine, &runner, 8, &|_| {});
    assert_eq!(runner.calls.load(Ordering::SeqCst), 0);
    engine
        .write(|unit| record_base(unit, PROJECT, Some("base"), &["unit".to_owned()], "test"))
        .expect("recorded");
    run_until_idle(&engine, &runner, 8, &|_| {});
    let red = watched(&engine);
    assert!(
        red.iter()
            .any(|item| item.title.contains("its gates since")),
        "{red:?}"
    );
    assert!(red.iter().all(|item| item.state == WorkItemState::Verified));
    assert_eq!(runner.calls.load(Ordering::SeqCst), red.len() as u64);
    // A paused pool files nothing.
    set_state(&engine, "local/watch", PoolState::Paused);
    let before = database.count("SELECT count(*) FROM work_items");
    add_verified(&engine, "another anomaly");
    run_until_idle(&engine, &runner, 8, &|_| {});
    assert_eq!(
        database.count("SELECT count(*) FROM work_items"),
        before + 1
    );
}

#[test]
fn a_merge_without_its_gate_is_found() {
    for database in TestDatabase::each() {
        let engine = database.open();
        register(&engine, &pool_files(LIMITS));
        let bug = add_bugs(&engine, 1)[0];
        let runner = ScriptedRole::new(0, Duration::ZERO);
        run_until_idle(&engine, &runner, 8, &|_| {});
        assert_eq!(item(&engine, bug).state, WorkItemState::Completed);
        run_until_idle(&engine, &runner, 8, &|_| {});
        assert_eq!(alerts(&engine), Vec::<String>::new());
        database.execute_sql("UPDATE attempts SET gates = '[]' WHERE role = 'fix'");
        run_until_idle(&engine, &runner, 8, &|_| {});
        assert_eq!(alerts(&engine), ["unproven-merge"], "on {}", database.kind);
    }
}

#[test]
fn a_lowered_limit_that_is_exceeded_raises_an_alert() {
    let database = TestDatabase::sqlite();
    let engine = database.open();
    register(&engine, &pool_files(LIMITS)[2..3]);
    for number in 0..3 {
        add_verified(&engine, &format!("bug {number}"));
    }
    database.execute_sql("UPDATE work_items SET state = 'in_review', change_pool = 'local/fix'");
    let runner = ScriptedRole::new(0, Duration::ZERO);
    run_until_idle(&engine, &runner, 8, &|_| {});
    assert!(!alerts(&engine).contains(&"exceeded-limit".to_owned()));
    let lower = LIMITS.replace("open_changes: 20", "open_changes: 2");
    PoolService::new(Arc::clone(&engine))
        .add(&pool_files(&lower)[2], "test", Register::Update, &|_| None)
        .expect("replaced");
    run_until_idle(&engine, &runner, 8, &|_| {});
    assert!(alerts(&engine).contains(&"exceeded-limit".to_owned()));
}

#[test]
fn planned_attempts_that_do_not_start_raise_an_alert() {
    let database = TestDatabase::sqlite();
    let engine = database.open();
    register(&engine, &pool_files(LIMITS)[2..3]);
    let bug = add_verified(&engine, "bug");
    database.execute_sql("UPDATE work_items SET state = 'captured'");
    // A live process holds the item, but runs no attempt.
    let lease = LeaseService::new(Arc::clone(&engine))
        .acquire(item_lease(bug.id, PoolRole::Fix), Ttl::default())
        .expect("the lease");
    let runner = ScriptedRole::new(0, Duration::ZERO);
    std::thread::scope(|scope| {
        let run = scope.spawn(|| run_until_idle(&engine, &runner, 8, &|_| {}));
        let is_raised = (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            alerts(&engine).contains(&"stalled-pool".to_owned())
        });
        assert!(is_raised);
        assert_eq!(runner.calls.load(Ordering::SeqCst), 0);
        lease.release().expect("released");
        run.join().expect("the loop ends");
    });
    assert_eq!(item(&engine, bug.id).state, WorkItemState::InReview);
    run_until_idle(&engine, &runner, 8, &|_| {});
    assert!(!alerts(&engine).contains(&"stalled-pool".to_owned()));
}

#[test]
fn checks_that_do_not_run_raise_an_alert_and_succeed_never() {
    let database = TestDatabase::sqlite();
    let engine = database.open();
    register(&engine, &pool_files(LIMITS)[2..3]);
    let bug = add_verified(&engine, "bug");
    database.execute_sql("UPDATE work_items SET state = 'captured'");
    let absent = Script(|dispatch: &cleveragents_application::Dispatch| {
        let mut report = change(dispatch, false);
        if let RoleReport::Change { evidence, .. } = &mut report {
            // The gate of the pool is missing, and another one passes.
            evidence.gates[0].name = "lint".to_owned();
            evidence.required_gates = vec!["lint".to_owned()];
        }
        report
    });
    let seen = std::sync::Mutex::new(Vec::new());
    run_until_idle(&engine, &absent, 8, &|_| {
        seen.lock().expect("no panic").extend(alerts(&engine));
    });
    assert!(
        seen.into_inner()
            .expect("no panic")
            .contains(&"repeated-failure".to_owned()),
        "absent results are reported"
    );
    let past = engine.read(|reader| cleveragents_store::attempts::of_item(reader, bug.id));
    let past = past.expect("read");
    assert!(!past.is_empty());
    assert!(
        past.iter()
            .all(|attempt| attempt.outcome == Some(AttemptOutcome::FailedGates))
    );
    assert_eq!(item(&engine, bug.id).state, WorkItemState::NeedsPerson);
}

#[test]
fn a_base_that_fails_names_the_last_merge() {
    let database = TestDatabase::sqlite();
    let engine = database.open();
    register(&engine, &pool_files(LIMITS));
    let merged = add_bugs(&engine, 1)[0];
    run_until_idle(&engine, &ScriptedRole::new(0, Duration::ZERO), 8, &|_| {});
    let record = |gate: &str| {
        let gate = gate.to_owned();
        engine
            .write(move |unit| {
                record_base(
                    unit,
                    PROJECT,
                    Some("base"),
                    std::slice::from_ref(&gate),
                    "test",
                )
            })
            .expect("recorded");
    };
    // A threshold that the base misses is a gate that fails; it opens one item, however often it is found.
    record("coverage");
    record("coverage");
    let blockers = engine.read(|reader| {
        work_items::page(
            reader,
            &work_items::ItemFilter {
                priorities: vec![Priority::CiBlocker],
                visible: Namespaces::All,
                ..Default::default()
            },
            None,
            10,
        )
    });
    let blockers = blockers.expect("read");
    assert_eq!(blockers.len(), 1);
    let body = &blockers[0].body;
    assert!(body.contains(&merged.to_string()), "{body}");
    assert!(body.contains("merge-"), "the commit: {body}");
}
