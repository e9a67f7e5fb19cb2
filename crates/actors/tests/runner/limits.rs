//! Tests of limits on model and tool calls: several nodes share them, and they apply to each call
//! inside a node.

use std::sync::atomic::{AtomicU64, Ordering};

use cleveragents_actors::graph::Limits;
use cleveragents_actors::ports::{
    AgentCall, Answer, Failure, FailureKind, NoLog, NoObserver, StepUsage, ToolStep,
};
use cleveragents_actors::{Actor, Executor, LimitKind, Outcome, Run, RunError};
use cleveragents_process::Cancel;
use serde_json::{Map, json};

use crate::draft::{Draft, agent, map};
use crate::failures::limit_of;
use crate::fixtures::{failure, state};

/// Makes as many calls as the limits allow, like a model that never stops calling tools.
#[derive(Default)]
struct RepeatingExecutor {
    asked: AtomicU64,
    called: AtomicU64,
    /// Number of model calls after which a node finishes; `None` for unlimited.
    calls_per_node: Option<u64>,
}

impl Executor for RepeatingExecutor {
    fn agent(&self, call: &AgentCall<'_>) -> Result<Answer, Failure> {
        let mut usage = StepUsage::default();
        while self
            .calls_per_node
            .is_none_or(|calls_per_node| usage.model_calls < calls_per_node)
        {
            if !call.allowance.ask() {
                return Err(Failure {
                    usage,
                    ..failure(FailureKind::Failed, "nothing is left")
                });
            }
            self.asked.fetch_add(1, Ordering::SeqCst);
            usage.model_calls += 1;
            std::thread::yield_now();
            if self.calls_per_node.is_none() && !call.allowance.call(2) {
                return Err(Failure {
                    usage,
                    ..failure(FailureKind::Failed, "nothing is left")
                });
            }
            self.called.fetch_add(2, Ordering::SeqCst);
        }
        Ok(Answer {
            value: json!("done"),
            usage,
        })
    }

    fn tool(&self, _step: &ToolStep<'_>) -> Result<Answer, Failure> {
        Err(failure(FailureKind::Refused, "there are no tools"))
    }
}

fn run_limited(
    actor: &Actor,
    limits: Limits,
    executor: &RepeatingExecutor,
) -> Result<Outcome, RunError> {
    Run {
        actor,
        input: state(json!({"items": (0..40).collect::<Vec<_>>()})),
        context: Map::new(),
        limits: Some(limits),
        executor,
        log: &NoLog,
        observer: &NoObserver,
        cancel: &Cancel::new(),
    }
    .execute()
}

#[test]
fn concurrent_nodes_do_not_exceed_a_limit_together() {
    let actor = Draft::new(&["all"])
        .does("all", map("items", agent("{{ item }}", "x"), "answers", 8))
        .exit("all")
        .actor();
    let mut limits = Limits::of_nodes(1);
    limits.max_model_calls = Some(5);
    let executor = RepeatingExecutor {
        calls_per_node: Some(2),
        ..RepeatingExecutor::default()
    };
    let error = run_limited(&actor, limits, &executor).expect_err("a limit");
    assert_eq!(limit_of(&error), (LimitKind::ModelCalls, 5));
    assert!(executor.asked.load(Ordering::SeqCst) <= 5);
    limits.max_model_calls = Some(80);
    let executor = RepeatingExecutor {
        calls_per_node: Some(2),
        ..RepeatingExecutor::default()
    };
    let outcome = run_limited(&actor, limits, &executor).expect("all of them fit");
    assert_eq!(outcome.usage.model_calls, 80);
}

#[test]
fn a_limit_ends_a_node_that_calls_endlessly() {
    let actor = Draft::new(&["ask"])
        .does("ask", agent("?", "x"))
        .exit("ask")
        .actor();
    let mut limits = Limits::of_nodes(1);
    limits.max_model_calls = Some(7);
    let executor = RepeatingExecutor::default();
    let error = run_limited(&actor, limits, &executor).expect_err("a limit");
    assert_eq!(limit_of(&error), (LimitKind::ModelCalls, 7));
    assert_eq!(executor.asked.load(Ordering::SeqCst), 7);
    limits.max_tool_calls = Some(5);
    let executor = RepeatingExecutor::default();
    let error = run_limited(&actor, limits, &executor).expect_err("a limit");
    assert_eq!(limit_of(&error), (LimitKind::ToolCalls, 5));
    assert_eq!(executor.called.load(Ordering::SeqCst), 4, "two at a time");
}
