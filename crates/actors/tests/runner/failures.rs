//! Tests of failures, limits, timeouts and cancellation.

use std::time::Duration;

use cleveragents_actors::graph::Limits;
use cleveragents_actors::ports::{
    AgentCall, Answer, Failure, FailureKind, NoLog, NoObserver, StepUsage, ToolStep,
};
use cleveragents_actors::{Actor, Executor, LimitKind, NodeKind, Outcome, Reducer, Run, RunError};
use cleveragents_domain::{Code, Diagnose, MicroUsd};
use cleveragents_process::Cancel;
use serde_json::{Map, Value, json};

use crate::draft::{Draft, agent, function, map, subgraph, tool};
use crate::fixtures::{Echo, Memory, failure, model_call, run, run_failing, run_new, state};
use crate::shapes::counting_loop;

fn single_node(kind: NodeKind) -> Draft {
    Draft::new(&["node"]).does("node", kind).exit("node")
}

#[test]
fn a_failed_attempt_is_retried_up_to_the_limit_of_the_node() {
    let failures = |kind, number| vec![failure(kind, "no luck"); number];
    let actor = |retries| {
        single_node(agent("?", "x"))
            .retries("node", retries)
            .actor()
    };
    for (retries, kind, number, succeeds) in [
        (2, FailureKind::Failed, 2, true),
        (2, FailureKind::Timeout, 2, true),
        (2, FailureKind::Failed, 3, false),
        (2, FailureKind::Refused, 1, false),
        (0, FailureKind::Failed, 1, false),
    ] {
        let echo = Echo::failing("node#0", failures(kind, number));
        let result = run(&actor(retries), &state(json!({})), &echo, &NoLog);
        assert_eq!(result.is_ok(), succeeds, "{retries} {kind:?} {number}");
        if succeeds {
            let calls = echo.calls.lock().expect("not poisoned").clone();
            assert_eq!(calls, [("node#0".to_owned(), 0, retries)]);
        }
    }
}

#[test]
fn usage_of_failed_attempts_counts() {
    let actor = single_node(agent("?", "x")).retries("node", 1).actor();
    let echo = Echo::failing(
        "node#0",
        vec![Failure {
            usage: model_call(),
            ..failure(FailureKind::Failed, "no luck")
        }],
    );
    let log = Memory::default();
    let outcome = run(&actor, &state(json!({})), &echo, &log).expect("a run");
    assert_eq!(outcome.usage, model_call().plus(model_call()));
    assert_eq!(log.into_steps()[0].usage, outcome.usage);
}

#[test]
fn a_failure_continues_with_on_error() {
    let actor = Draft::new(&["try", "rescue"])
        .does("try", agent("?", "x"))
        .exit("try")
        .on_error("try", "rescue")
        .does("rescue", function(&[("output", "error.message")]))
        .exit("rescue")
        .actor();
    let echo = Echo::failing("try#0", vec![failure(FailureKind::Refused, "not you")]);
    let log = Memory::default();
    let outcome = run(&actor, &state(json!({})), &echo, &log).expect("rescued");
    assert_eq!(outcome.output, json!("not you"));
    assert_eq!(
        outcome.state.get("error"),
        Some(&json!({"node": "try", "message": "not you", "kind": "refused"}))
    );
    let steps = log.into_steps();
    assert_eq!(steps[0].error.as_deref(), Some("not you"));
    assert_eq!(steps[0].next.as_deref(), Some("rescue"));

    let second_echo = Echo::default();
    let resumed = run(
        &actor,
        &state(json!({})),
        &second_echo,
        &Memory::from_steps(&steps),
    )
    .expect("resumed");
    assert_eq!(resumed.state, outcome.state);
    assert!(
        second_echo.paths().is_empty(),
        "the failed step is not executed again"
    );
}

#[test]
fn errors_of_a_node_can_be_handled() {
    let inner = Draft::new(&["deep"])
        .does("deep", function(&[("x", "missing + 1")]))
        .exit("deep")
        .limit(|limits| limits.max_steps = 5)
        .actor();
    let endless = Draft::new(&["round"])
        .edge("round", "round")
        .limit(|limits| limits.max_steps = 5)
        .actor();
    for (kind, expected) in [
        (function(&[("x", "missing")]), "missing"),
        (function(&[("context", "1")]), "read-only"),
        (function(&[("list", "1")]), "`list`"),
        (subgraph(inner), "try#0/deep#0"),
        (subgraph(endless), "5 finished nodes"),
        (map("1", function(&[]), "y", 1), "a number"),
    ] {
        let actor = Draft::new(&["try", "rescue"])
            .does("try", kind)
            .exit("try")
            .on_error("try", "rescue")
            .exit("rescue")
            .key("list", Reducer::Append, Value::Null)
            .actor();
        let (outcome, _) = run_new(&actor, json!({"list": "no list"}));
        let error = outcome.state.get("error").expect("an error").to_string();
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

#[test]
fn a_mismatched_update_names_the_step_and_the_key() {
    for (reducer, before, update) in [
        (Reducer::Append, json!("text"), "1"),
        (Reducer::Merge, json!([1]), "{'a': 1}"),
        (Reducer::Merge, json!({}), "3"),
        (Reducer::Sum, json!("1"), "1"),
        (Reducer::Sum, json!(1), "'1'"),
        (Reducer::Sum, json!(u64::MAX), "1"),
        (Reducer::Sum, json!(1.7e308), "1.7e308"),
    ] {
        let actor = single_node(function(&[("key", update)]))
            .key("key", reducer, Value::Null)
            .actor();
        let error = run_failing(&actor, json!({ "key": before }), &Echo::default());
        let text = error.to_string();
        assert!(
            text.contains("`node#0`") && text.contains("`key`"),
            "{text}"
        );
        assert_eq!(error.code(), Code::RunFailed);
    }
}

#[test]
fn integers_stay_integers() {
    for (before, update, after) in [
        (json!(1), "2", json!(3)),
        (json!(i64::MAX), "1", json!(i64::MAX as u64 + 1)),
        (json!(-5), "5", json!(0)),
        (json!(1), "0.5", json!(1.5)),
        (Value::Null, "4", json!(4)),
    ] {
        let actor = single_node(function(&[("key", update)]))
            .key("key", Reducer::Sum, Value::Null)
            .actor();
        let (outcome, _) = run_new(&actor, json!({ "key": before }));
        assert_eq!(outcome.state.get("key"), Some(&after));
    }
}

#[test]
fn a_retried_subgraph_starts_over_under_new_paths() {
    let inner = Draft::new(&["count", "ask"])
        .does("count", function(&[("n", "n + 1")]))
        .edge("count", "ask")
        .does("ask", agent("{{ n }}", "x"))
        .exit("ask")
        .actor();
    let actor = single_node(subgraph(inner)).retries("node", 1).actor();
    let echo = Echo::failing(
        "node#0/ask#0",
        vec![failure(FailureKind::Failed, "no luck")],
    );
    let log = Memory::default();
    let outcome = run(&actor, &state(json!({"n": 0})), &echo, &log).expect("a run");
    assert_eq!(outcome.state.get("n"), Some(&json!(1)));
    let steps = log.into_steps();
    assert_eq!(
        crate::fixtures::paths(&steps),
        [
            "node#0/count#0",
            "node#0~1/count#0",
            "node#0~1/ask#0",
            "node#0"
        ]
    );
}

pub(crate) fn limit_of(error: &RunError) -> (LimitKind, u64) {
    match error {
        RunError::Limit { kind, limit } => (*kind, *limit),
        error => panic!("unexpected error: {error}"),
    }
}

#[test]
fn a_loop_ends_at_the_limit_of_steps() {
    let mut actor = counting_loop(1_000);
    actor.graph.limits.max_steps = 10;
    let log = Memory::default();
    let error = run(&actor, &state(json!({})), &Echo::default(), &log).expect_err("a limit");
    assert_eq!(limit_of(&error), (LimitKind::Steps, 10));
    assert_eq!(log.into_steps().len(), 10, "no further step starts");
    assert_eq!(error.code(), Code::RunLimit);
    assert!(
        error
            .hint()
            .expect("a hint")
            .neutral()
            .contains("max_steps")
    );
}

#[test]
fn nested_subgraphs_end_at_the_depth_limit() {
    let mut actor = crate::shapes::three_deep();
    actor.graph.limits.max_depth = 2;
    let error = run_failing(&actor, json!({"input": ""}), &Echo::default());
    assert_eq!(limit_of(&error), (LimitKind::Depth, 2));
    actor.graph.limits.max_depth = 3;
    run_new(&actor, json!({"input": ""}));
}

/// Runs an actor with the limits that `narrow` sets.
fn limited(actor: &Actor, narrow: impl FnOnce(&mut Limits)) -> Result<Outcome, RunError> {
    let mut limits = Limits::of_nodes(1);
    narrow(&mut limits);
    Run {
        actor,
        input: state(json!({})),
        context: Map::new(),
        limits: Some(limits),
        executor: &Echo::default(),
        log: &NoLog,
        observer: &NoObserver,
        cancel: &Cancel::new(),
    }
    .execute()
}

#[test]
fn calls_and_cost_end_at_their_limits() {
    let asking = Draft::new(&["ask", "again", "done"])
        .does("ask", agent("?", "x"))
        .edge("ask", "again")
        .does("again", function(&[("n", "1")]))
        .edge_if("again", "n < 3", "ask")
        .edge("again", "done")
        .exit("done")
        .key("n", Reducer::Sum, json!(0))
        .actor();
    assert!(limited(&asking, |limits| limits.max_model_calls = Some(3)).is_ok());
    let error = limited(&asking, |limits| limits.max_model_calls = Some(2)).expect_err("a limit");
    assert_eq!(limit_of(&error), (LimitKind::ModelCalls, 2));
    // Three model calls cost 21.
    assert!(limited(&asking, |limits| limits.max_cost = Some(MicroUsd(21))).is_ok());
    for cost in [20, 14, 1, 0] {
        let error = limited(&asking, |limits| limits.max_cost = Some(MicroUsd(cost)));
        assert_eq!(
            limit_of(&error.expect_err("a limit")),
            (LimitKind::Cost, cost)
        );
    }
    let calling = counting_loop(4);
    assert!(limited(&calling, |limits| limits.max_tool_calls = Some(4)).is_ok());
    let error = limited(&calling, |limits| limits.max_tool_calls = Some(3)).expect_err("a limit");
    assert_eq!(limit_of(&error), (LimitKind::ToolCalls, 3));
}

#[test]
fn a_limit_of_the_whole_run_cannot_be_handled() {
    let actor = Draft::new(&["try", "rescue"])
        .does("try", subgraph(counting_loop(100)))
        .exit("try")
        .on_error("try", "rescue")
        .exit("rescue")
        .limit(|limits| limits.max_steps = 20)
        .actor();
    let error = run_failing(&actor, json!({}), &Echo::default());
    assert_eq!(limit_of(&error), (LimitKind::Steps, 20));
}

/// Does not answer until it is cancelled.
struct WaitingExecutor;

impl WaitingExecutor {
    fn wait(cancel: &Cancel, has_deadline: bool) -> Failure {
        assert!(
            has_deadline || cancel.is_cancelled(),
            "the call would never end"
        );
        while !cancel.is_cancelled() {
            std::thread::yield_now();
        }
        failure(FailureKind::Cancelled, "stopped")
    }
}

impl Executor for WaitingExecutor {
    fn agent(&self, call: &AgentCall<'_>) -> Result<Answer, Failure> {
        Err(Self::wait(call.cancel, call.deadline.is_some()))
    }

    fn tool(&self, step: &ToolStep<'_>) -> Result<Answer, Failure> {
        Err(Self::wait(step.cancel, step.deadline.is_some()))
    }
}

#[test]
fn timeouts_cancel_running_calls() {
    let timeout = Some(Duration::from_millis(1));
    let mut node = single_node(agent("?", "x")).actor();
    node.graph.nodes[0].timeout = timeout;
    let error = run(&node, &state(json!({})), &WaitingExecutor, &NoLog).expect_err("too late");
    assert!(
        matches!(&error, RunError::Node { failure, .. } if failure.kind == FailureKind::Timeout),
        "{error}"
    );

    let mut limited_run = single_node(tool("local/t", &[], "x")).actor();
    limited_run.graph.limits.timeout = timeout;
    let error =
        run(&limited_run, &state(json!({})), &WaitingExecutor, &NoLog).expect_err("too late");
    assert_eq!(limit_of(&error), (LimitKind::Timeout, 1));

    let mut items = single_node(map("[1, 2, 3]", agent("?", "x"), "y", 2)).actor();
    items.graph.limits.timeout = timeout;
    let error = run(&items, &state(json!({})), &WaitingExecutor, &NoLog).expect_err("too late");
    assert_eq!(limit_of(&error), (LimitKind::Timeout, 1));

    let mut inner = single_node(agent("?", "x")).actor();
    inner.graph.limits.timeout = timeout;
    let outer = Draft::new(&["try", "rescue"])
        .does("try", subgraph(inner))
        .exit("try")
        .on_error("try", "rescue")
        .exit("rescue")
        .actor();
    let outcome = run(&outer, &state(json!({})), &WaitingExecutor, &NoLog).expect("rescued");
    assert_eq!(
        outcome.state.get("error").expect("an error")["kind"],
        json!("timeout")
    );
}

#[test]
fn an_endless_loop_without_calls_ends_at_its_timeout() {
    let actor = Draft::new(&["round"])
        .edge("round", "round")
        .limit(|limits| {
            limits.max_steps = u64::MAX;
            limits.timeout = Some(Duration::from_millis(1));
        })
        .actor();
    let error = run_failing(&actor, json!({}), &Echo::default());
    assert_eq!(limit_of(&error), (LimitKind::Timeout, 1));
}

/// Cancels the run in its first call.
struct CancellingExecutor<'a>(&'a Cancel);

impl Executor for CancellingExecutor<'_> {
    fn agent(&self, call: &AgentCall<'_>) -> Result<Answer, Failure> {
        self.0.cancel();
        Err(WaitingExecutor::wait(call.cancel, false))
    }

    fn tool(&self, _step: &ToolStep<'_>) -> Result<Answer, Failure> {
        self.0.cancel();
        Ok(Answer {
            value: json!("done all the same"),
            usage: StepUsage::default(),
        })
    }
}

#[test]
fn a_cancelled_run_keeps_finished_steps() {
    for (kind, finished) in [
        (agent("?", "x"), 0),
        (tool("local/t", &[], "x"), 1),
        (map("[1, 2]", agent("?", "x"), "y", 2), 0),
    ] {
        let cancel = Cancel::new();
        let log = Memory::default();
        let actor = Draft::new(&["node", "rescue"])
            .does("node", kind)
            .edge("node", "rescue")
            .on_error("node", "rescue")
            .exit("rescue")
            .retries("node", 5)
            .actor();
        let error = Run {
            actor: &actor,
            input: state(json!({})),
            context: Map::new(),
            limits: None,
            executor: &CancellingExecutor(&cancel),
            log: &log,
            observer: &NoObserver,
            cancel: &cancel,
        }
        .execute()
        .expect_err("cancelled");
        assert!(matches!(error, RunError::Cancelled), "{error}");
        assert_eq!(log.into_steps().len(), finished);
    }
}

#[test]
fn a_run_that_waits_for_the_user_names_the_step() {
    let actor = single_node(agent("?", "x"))
        .on_error("node", "node")
        .actor();
    let echo = Echo::failing("node#0", vec![failure(FailureKind::HumanNeeded, "may I?")]);
    let error = run_failing(&actor, json!({}), &echo);
    assert_eq!(error.code(), Code::RunWaiting);
    assert_eq!(
        error.to_string(),
        "step `node#0` waits for the user: may I?"
    );
}

#[test]
fn the_context_of_the_run_overrides_that_of_the_actor() {
    let mut draft = single_node(function(&[("seen", "context.a ~ context.b")]));
    draft.context = Map::from_iter([("a".to_owned(), json!(1)), ("b".to_owned(), json!(2))]);
    let outcome = Run {
        actor: &draft.actor(),
        input: state(json!({})),
        context: Map::from_iter([("b".to_owned(), json!(3))]),
        limits: None,
        executor: &Echo::default(),
        log: &NoLog,
        observer: &NoObserver,
        cancel: &Cancel::new(),
    }
    .execute()
    .expect("a run");
    assert_eq!(outcome.state.get("seen"), Some(&json!("13")));
}
