//! Tests of concurrent work: results do not depend on the order of execution, and a failure stops the other jobs.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use cleveragents_actors::ports::{
    AgentCall, Answer, Failure, FailureKind, NoLog, StepUsage, ToolStep,
};
use cleveragents_actors::{Actor, Executor, NodeKind, Reducer, RunError};
use cleveragents_testkit::proof_size;
use serde_json::{Value, json};

use crate::draft::{Draft, agent, function, map};
use crate::fixtures::{Echo, Memory, failure, run, state};

/// Builds branches that all update one key after a model call. Returns the actor and the expected value of the key.
fn updating_branches(reducer: Reducer) -> (Actor, Value) {
    let branches = ["a", "b", "c", "d"];
    let ids: Vec<String> = ["fan".to_owned(), "join".to_owned()]
        .into_iter()
        .chain(
            branches
                .iter()
                .flat_map(|id| [(*id).to_owned(), format!("{id}2")]),
        )
        .collect();
    let mut draft = Draft::new(&ids)
        .parallel("fan", &branches, "join")
        .exit("join")
        .key("key", reducer, Value::Null);
    for (number, id) in branches.iter().enumerate() {
        let update = match reducer {
            Reducer::Replace | Reducer::Append => format!("'{id}'"),
            Reducer::Merge => format!("{{'{id}': 1, 'last': '{id}', 'in': {{'{id}': {number}}}}}"),
            // The sum of these depends on the order of addition.
            Reducer::Sum => ["1e16", "1.0", "-1e16", "0.3"][number].to_owned(),
        };
        draft = draft
            .does(id, agent("?", "answer"))
            .edge(id, &format!("{id}2"))
            .does(&format!("{id}2"), function(&[("key", &update)]))
            .edge(&format!("{id}2"), "join");
    }
    let expected = match reducer {
        Reducer::Replace => json!("d"),
        Reducer::Append => json!(["a", "b", "c", "d"]),
        Reducer::Merge => json!({
            "a": 1, "b": 1, "c": 1, "d": 1, "last": "d",
            "in": {"a": 0, "b": 1, "c": 2, "d": 3},
        }),
        // Rounding loses the 1.0 when it is added to 1e16; another order of addition would keep it.
        Reducer::Sum => json!(0.3),
    };
    (draft.actor(), expected)
}

/// Delays each call for a random time, and sometimes yields to another thread.
fn randomly_delayed() -> Echo {
    let seed = AtomicU64::new(0x9e37_79b9_7f4a_7c15);
    Echo {
        before: Some(Box::new(move |_| {
            let random = seed.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
            let random = (random ^ (random >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 52;
            for _ in 0..random {
                std::hint::spin_loop();
            }
            if random.is_multiple_of(64) {
                std::thread::yield_now();
            }
        })),
        ..Echo::default()
    }
}

#[test]
fn branches_that_update_one_key_always_have_the_same_result() {
    let runs = proof_size(500, 10_000);
    for reducer in [
        Reducer::Replace,
        Reducer::Append,
        Reducer::Merge,
        Reducer::Sum,
    ] {
        let (actor, expected) = updating_branches(reducer);
        let echo = randomly_delayed();
        for _ in 0..runs {
            let outcome = run(&actor, &state(json!({})), &echo, &NoLog).expect("a run");
            assert_eq!(outcome.state.get("key"), Some(&expected), "{reducer:?}");
        }
    }
}

/// Answers only when the expected number of calls are in progress.
struct CallBarrier {
    inside: Mutex<usize>,
    changed: Condvar,
    expected_calls: usize,
    most: AtomicUsize,
}

impl Executor for CallBarrier {
    fn agent(&self, _call: &AgentCall<'_>) -> Result<Answer, Failure> {
        let mut inside = self.inside.lock().expect("not poisoned");
        *inside += 1;
        self.most.fetch_max(*inside, Ordering::SeqCst);
        self.changed.notify_all();
        while *inside < self.expected_calls {
            inside = self.changed.wait(inside).expect("not poisoned");
        }
        Ok(Answer {
            value: json!("met"),
            usage: StepUsage::default(),
        })
    }

    fn tool(&self, _step: &ToolStep<'_>) -> Result<Answer, Failure> {
        Err(failure(FailureKind::Refused, "there are no tools"))
    }
}

#[test]
fn branches_and_items_run_concurrently() {
    let barrier = |expected_calls| CallBarrier {
        inside: Mutex::new(0),
        changed: Condvar::new(),
        expected_calls,
        most: AtomicUsize::new(0),
    };
    let (branches, _) = updating_branches(Reducer::Append);
    run(&branches, &state(json!({})), &barrier(4), &NoLog).expect("all four meet");
    let items = Draft::new(&["all"])
        .does("all", map("range(3) | list", agent("?", "x"), "answers", 3))
        .exit("all")
        .actor();
    run(&items, &state(json!({})), &barrier(3), &NoLog).expect("all three meet");
}

#[test]
fn the_concurrency_limit_is_enforced() {
    let now = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let actor = Draft::new(&["all"])
        .does(
            "all",
            map("range(500) | list", agent("?", "x"), "answers", 3),
        )
        .exit("all")
        .actor();
    let (seen, seen_most) = (Arc::clone(&now), Arc::clone(&most));
    let echo = Echo {
        before: Some(Box::new(move |_| {
            seen_most.fetch_max(seen.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::yield_now();
            seen.fetch_sub(1, Ordering::SeqCst);
        })),
        ..Echo::default()
    };
    run(&actor, &state(json!({})), &echo, &NoLog).expect("a run");
    let most = most.load(Ordering::SeqCst);
    assert!((1..=3).contains(&most), "{most} at the same time");
    assert_eq!(echo.paths().len(), 500);
}

/// One item fails immediately; the others wait until they are cancelled.
struct OneFails;

impl Executor for OneFails {
    fn agent(&self, call: &AgentCall<'_>) -> Result<Answer, Failure> {
        if call.prompt == "2" {
            return Err(failure(FailureKind::Failed, "no luck"));
        }
        while !call.cancel.is_cancelled() {
            std::thread::yield_now();
        }
        Err(failure(FailureKind::Cancelled, "stopped"))
    }

    fn tool(&self, _step: &ToolStep<'_>) -> Result<Answer, Failure> {
        Err(failure(FailureKind::Refused, "there are no tools"))
    }
}

#[test]
fn the_first_failure_stops_the_others_and_is_reported() {
    let actor = Draft::new(&["all"])
        .does(
            "all",
            map("[0, 1, 2, 3, 4, 5]", agent("{{ item }}", "x"), "answers", 4),
        )
        .exit("all")
        .actor();
    let error = run(&actor, &state(json!({})), &OneFails, &NoLog).expect_err("one fails");
    assert!(
        matches!(&error, RunError::Node { path, failure }
            if path == "all#0[2]" && failure.message == "no luck"),
        "{error}"
    );
}

#[test]
fn the_first_of_several_failures_is_reported() {
    let barrier = Arc::new(std::sync::Barrier::new(3));
    let actor = Draft::new(&["all"])
        .does(
            "all",
            map("[0, 1, 2]", agent("{{ item }}", "x"), "answers", 3),
        )
        .exit("all")
        .actor();
    for _ in 0..20 {
        let echo = Echo {
            before: Some(Box::new({
                let barrier = Arc::clone(&barrier);
                move |_| {
                    barrier.wait();
                }
            })),
            ..Echo::default()
        };
        for (path, kind) in [
            ("all#0[0]", FailureKind::HumanNeeded),
            ("all#0[1]", FailureKind::Failed),
            ("all#0[2]", FailureKind::Refused),
        ] {
            let waiting = vec![failure(kind, path)];
            echo.failures
                .lock()
                .expect("not poisoned")
                .insert(path.to_owned(), waiting);
        }
        let error = run(&actor, &state(json!({})), &echo, &NoLog).expect_err("all fail");
        assert!(
            matches!(&error, RunError::Node { path, .. } if path == "all#0[1]"),
            "{error}"
        );
    }
}

#[test]
fn an_item_that_waits_for_the_user_lets_the_others_finish() {
    let actor = Draft::new(&["all"])
        .does(
            "all",
            map("[0, 1, 2, 3]", agent("{{ item }}", "x"), "answers", 1),
        )
        .exit("all")
        .actor();
    let log = Memory::default();
    let echo = Echo::failing(
        "all#0[1]",
        vec![failure(FailureKind::HumanNeeded, "may I?")],
    );
    let error = run(&actor, &state(json!({})), &echo, &log).expect_err("it waits");
    assert!(
        matches!(&error, RunError::HumanNeeded { path, message }
            if path == "all#0[1]" && message == "may I?"),
        "{error}"
    );
    let finished: Vec<String> = log.into_steps().into_iter().map(|step| step.path).collect();
    assert_eq!(finished, ["all#0[0]", "all#0[2]", "all#0[3]"]);
}

#[test]
fn a_parallel_node_fails_at_its_timeout() {
    let mut draft = Draft::new(&["fan", "slow", "join", "rescue"])
        .parallel("fan", &["slow", "slow"], "join")
        .does("slow", agent("wait", "x"))
        .edge("slow", "join")
        .exit("join")
        .on_error("fan", "rescue")
        .exit("rescue");
    draft.node("fan").timeout = Some(Duration::from_millis(1));
    let outcome = run(&draft.actor(), &state(json!({})), &OneFails, &NoLog).expect("rescued");
    let error = outcome.state.get("error").expect("an error");
    assert_eq!(error["node"], json!("fan"));
    assert_eq!(error["kind"], json!("timeout"));
    assert_eq!(outcome.last.as_deref(), Some("rescue#0"));
}

#[test]
fn only_some_kinds_can_run_for_each_item() {
    let actor = Draft::new(&["all"])
        .does(
            "all",
            map(
                "[1]",
                NodeKind::Conditional(cleveragents_actors::graph::ConditionalNode {
                    conditions: Vec::new(),
                    otherwise: None,
                }),
                "answers",
                1,
            ),
        )
        .exit("all")
        .actor();
    let error = run(&actor, &state(json!({})), &Echo::default(), &NoLog).expect_err("refused");
    assert!(matches!(error, RunError::Node { .. }));
}
