//! Tests of runs that are interrupted at any point and resumed: the result is the same, and no finished step is
//! repeated.

use std::collections::BTreeSet;

use cleveragents_actors::ports::Step;
use cleveragents_actors::{Actor, Outcome, Run, RunError};
use cleveragents_process::Cancel;
use cleveragents_testkit::proof_size;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::fixtures::{CountingObserver, Echo, Memory, run, state};
use crate::shapes::{actor_of, hand_written, parts};

struct UninterruptedRun {
    outcome: Outcome,
    steps: Vec<Step>,
    /// Paths of the received calls.
    calls: Vec<String>,
}

fn run_uninterrupted(actor: &Actor, input: &Value) -> UninterruptedRun {
    let (echo, log) = (Echo::default(), Memory::default());
    let outcome = run(actor, &state(input.clone()), &echo, &log).expect("a run");
    UninterruptedRun {
        outcome,
        steps: log.into_steps(),
        calls: echo.paths(),
    }
}

/// Resumes a run with some finished steps, and compares the result with an uninterrupted run.
fn assert_resumes_after(
    name: &str,
    actor: &Actor,
    input: &Value,
    uninterrupted: &UninterruptedRun,
    finished: &[Step],
) {
    let (echo, log, observer) = (
        Echo::default(),
        Memory::from_steps(finished),
        CountingObserver::default(),
    );
    let outcome = Run {
        actor,
        input: state(input.clone()),
        context: Map::new(),
        limits: None,
        executor: &echo,
        log: &log,
        observer: &observer,
        cancel: &Cancel::new(),
    }
    .execute()
    .unwrap_or_else(|error| panic!("{name} after {} steps: {error}", finished.len()));
    let known: BTreeSet<&str> = finished.iter().map(|step| step.path.as_str()).collect();

    assert_eq!(outcome.state, uninterrupted.outcome.state, "{name}");
    assert_eq!(outcome.output, uninterrupted.outcome.output, "{name}");
    assert_eq!(outcome.usage, uninterrupted.outcome.usage, "{name}");
    assert_eq!(outcome.steps, uninterrupted.outcome.steps, "{name}");
    assert_eq!(outcome.last, uninterrupted.outcome.last, "{name}");
    let mut expected = uninterrupted.calls.clone();
    expected.retain(|path| !known.contains(path.as_str()));
    assert_eq!(
        echo.paths(),
        expected,
        "{name}: every remaining call is made once"
    );

    let written: BTreeSet<String> = log.into_steps().into_iter().map(|step| step.path).collect();
    let remaining: BTreeSet<String> = uninterrupted
        .steps
        .iter()
        .filter(|step| !known.contains(step.path.as_str()))
        .map(|step| step.path.clone())
        .collect();
    assert_eq!(
        written, remaining,
        "{name}: every remaining step is written once"
    );
    let recalled = observer.recalled.into_inner().expect("not poisoned");
    assert_eq!(outcome.recalled, recalled.len() as u64);
    assert!(recalled.iter().all(|path| known.contains(path.as_str())));
    let started = observer.started.into_inner().expect("not poisoned");
    assert!(!started.iter().any(|path| known.contains(path.as_str())));
}

#[test]
fn every_prefix_of_a_log_leads_to_the_same_result() {
    for (name, actor, input) in hand_written() {
        let uninterrupted = run_uninterrupted(&actor, &input);
        for finished in 0..=uninterrupted.steps.len() {
            assert_resumes_after(
                name,
                &actor,
                &input,
                &uninterrupted,
                &uninterrupted.steps[..finished],
            );
        }
    }
}

/// Interrupts and resumes a run until it completes. Compares the result with an uninterrupted run; returns the
/// successful calls of all attempts together.
fn interrupt_repeatedly(
    actor: &Actor,
    input: &Value,
    by: Interruption,
    uninterrupted: &UninterruptedRun,
) -> Vec<String> {
    let mut calls = Vec::new();
    let mut finished: Vec<Step> = Vec::new();
    for _ in 0..100_000 {
        let mut log = Memory::from_steps(&finished);
        let mut echo = Echo::default();
        match by {
            Interruption::Executor => echo.breaks_at = Some(1),
            Interruption::Log => log.full_at = Some(1),
        }
        let result = run(actor, &state(input.clone()), &echo, &log);
        calls.extend(echo.paths());
        finished.extend(log.into_steps());
        match result {
            Ok(outcome) => {
                assert_eq!(outcome.state, uninterrupted.outcome.state);
                assert_eq!(outcome.usage, uninterrupted.outcome.usage);
                assert_eq!(outcome.steps, uninterrupted.outcome.steps);
                calls.sort();
                return calls;
            }
            Err(RunError::Broken { .. } | RunError::Log(_)) => {}
            Err(error) => panic!("unexpected error: {error}"),
        }
    }
    panic!("the run makes no progress");
}

#[derive(Clone, Copy)]
enum Interruption {
    /// The second call of each attempt fails as broken.
    Executor,
    /// Only one step can be written in each attempt.
    Log,
}

#[test]
fn a_run_interrupted_at_every_call_makes_every_call_once() {
    for (name, actor, input) in hand_written() {
        let uninterrupted = run_uninterrupted(&actor, &input);
        let asked = interrupt_repeatedly(&actor, &input, Interruption::Executor, &uninterrupted);
        assert_eq!(asked, uninterrupted.calls, "{name}");
    }
}

#[test]
fn a_run_whose_log_fails_at_every_step_has_the_same_result() {
    for (name, actor, input) in hand_written() {
        let uninterrupted = run_uninterrupted(&actor, &input);
        let asked = interrupt_repeatedly(&actor, &input, Interruption::Log, &uninterrupted);
        // A call whose step could not be stored is repeated, so some calls occur more than once.
        let distinct_calls: BTreeSet<&String> = asked.iter().collect();
        let expected: BTreeSet<&String> = uninterrupted.calls.iter().collect();
        assert_eq!(distinct_calls, expected, "{name}");
    }
}

#[test]
fn a_log_of_another_actor_is_refused() {
    let (_, actor, input) = hand_written().swap_remove(1);
    let uninterrupted = run_uninterrupted(&actor, &input);
    let mut steps = uninterrupted.steps.clone();
    steps[1].kind = "agent".to_owned();
    let error = run(
        &actor,
        &state(input.clone()),
        &Echo::default(),
        &Memory::from_steps(&steps),
    )
    .expect_err("another kind");
    assert!(matches!(&error, RunError::Broken { path, .. } if *path == steps[1].path));

    let mut steps = uninterrupted.steps.clone();
    steps[0].next = Some("nobody".to_owned());
    let error = run(
        &actor,
        &state(input),
        &Echo::default(),
        &Memory::from_steps(&steps),
    )
    .expect_err("an unknown next node");
    assert!(error.to_string().contains("`nobody`"), "{error}");
}

#[test]
fn limits_apply_across_all_attempts() {
    let mut actor = crate::shapes::counting_loop(50);
    actor.graph.limits.max_tool_calls = Some(7);
    let mut finished = Vec::new();
    let mut calls = 0;
    for _ in 0..100 {
        let log = Memory {
            full_at: Some(2),
            ..Memory::from_steps(&finished)
        };
        let echo = Echo::default();
        let error = run(&actor, &state(json!({})), &echo, &log).expect_err("no end");
        finished.extend(log.into_steps());
        calls = finished.iter().map(|step| step.usage.tool_calls).sum();
        match error {
            RunError::Log(_) => {}
            RunError::Limit { limit, .. } => {
                assert_eq!((limit, calls), (7, 7));
                return;
            }
            error => panic!("unexpected error: {error}"),
        }
    }
    panic!("{calls} calls and no limit");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: u32::try_from(proof_size(24, 2_000)).unwrap_or(24),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_graph_can_be_interrupted_anywhere(parts in parts(), dice in any::<u64>()) {
        let actor = actor_of(&parts);
        let input = json!({});
        let uninterrupted = run_uninterrupted(&actor, &input);
        let beginnings = uninterrupted.steps.len() + 1;
        for turn in 0..8_u64 {
            let finished = usize::try_from(dice.rotate_left(u32::try_from(turn * 7)?) % beginnings as u64)?;
            assert_resumes_after("random graph", &actor, &input, &uninterrupted, &uninterrupted.steps[..finished]);
        }
        if uninterrupted.calls.len() < 60 {
            let asked = interrupt_repeatedly(&actor, &input, Interruption::Executor, &uninterrupted);
            prop_assert_eq!(asked, uninterrupted.calls);
        }
    }
}
