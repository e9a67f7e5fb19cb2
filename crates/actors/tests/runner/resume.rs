//! Runs that are interrupted at any point and resumed: same result, and nothing finished is repeated.

use std::collections::BTreeSet;

use cleveragents_actors::ports::Step;
use cleveragents_actors::{Actor, Outcome, Run, RunError};
use cleveragents_process::Cancel;
use cleveragents_testkit::proof_size;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::bench::{CountingObserver, Echo, Memory, run, state};
use crate::shapes::{actor_of, by_hand, pieces};

struct UninterruptedRun {
    outcome: Outcome,
    steps: Vec<Step>,
    /// Paths of the received calls.
    asked: Vec<String>,
}

fn undisturbed(actor: &Actor, input: &Value) -> UninterruptedRun {
    let (echo, log) = (Echo::default(), Memory::default());
    let outcome = run(actor, &state(input.clone()), &echo, &log).expect("a run");
    UninterruptedRun {
        outcome,
        steps: log.into_steps(),
        asked: echo.paths(),
    }
}

/// Resumes with some finished steps, and compares the result.
fn resumes_after(
    name: &str,
    actor: &Actor,
    input: &Value,
    whole: &UninterruptedRun,
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

    assert_eq!(outcome.state, whole.outcome.state, "{name}");
    assert_eq!(outcome.output, whole.outcome.output, "{name}");
    assert_eq!(outcome.usage, whole.outcome.usage, "{name}");
    assert_eq!(outcome.steps, whole.outcome.steps, "{name}");
    assert_eq!(outcome.last, whole.outcome.last, "{name}");
    let mut expected = whole.asked.clone();
    expected.retain(|path| !known.contains(path.as_str()));
    assert_eq!(echo.paths(), expected, "{name}: what is left is done once");

    let written: BTreeSet<String> = log.into_steps().into_iter().map(|step| step.path).collect();
    let left: BTreeSet<String> = whole
        .steps
        .iter()
        .filter(|step| !known.contains(step.path.as_str()))
        .map(|step| step.path.clone())
        .collect();
    assert_eq!(written, left, "{name}: what is left is written once");
    let recalled = observer.recalled.into_inner().expect("not poisoned");
    assert_eq!(outcome.recalled, recalled.len() as u64);
    assert!(recalled.iter().all(|path| known.contains(path.as_str())));
    let started = observer.started.into_inner().expect("not poisoned");
    assert!(!started.iter().any(|path| known.contains(path.as_str())));
}

#[test]
fn every_prefix_of_a_log_leads_to_the_same_result() {
    for (name, actor, input) in by_hand() {
        let whole = undisturbed(&actor, &input);
        for finished in 0..=whole.steps.len() {
            resumes_after(name, &actor, &input, &whole, &whole.steps[..finished]);
        }
    }
}

/// Interrupts a run by an executor or a log that fails after a number of calls, until it completes. Compares the result
/// with that of an uninterrupted run; returns the calls that succeeded in all attempts together.
fn interrupted_everywhere(
    actor: &Actor,
    input: &Value,
    by: Interruption,
    whole: &UninterruptedRun,
) -> Vec<String> {
    let mut asked = Vec::new();
    let mut finished: Vec<Step> = Vec::new();
    for _ in 0..100_000 {
        let mut log = Memory::from_steps(&finished);
        let mut echo = Echo::default();
        match by {
            Interruption::Executor => echo.breaks_at = Some(1),
            Interruption::Log => log.full_at = Some(1),
        }
        let ended = run(actor, &state(input.clone()), &echo, &log);
        asked.extend(echo.paths());
        finished.extend(log.into_steps());
        match ended {
            Ok(outcome) => {
                assert_eq!(outcome.state, whole.outcome.state);
                assert_eq!(outcome.usage, whole.outcome.usage);
                assert_eq!(outcome.steps, whole.outcome.steps);
                asked.sort();
                return asked;
            }
            Err(RunError::Broken { .. } | RunError::Log(_)) => {}
            Err(error) => panic!("another error: {error}"),
        }
    }
    panic!("the run makes no progress");
}

#[derive(Clone, Copy)]
enum Interruption {
    /// Every second call of the executor finds the system broken.
    Executor,
    /// Only one step can be written in each attempt.
    Log,
}

#[test]
fn a_run_interrupted_at_every_call_makes_every_call_once() {
    for (name, actor, input) in by_hand() {
        let whole = undisturbed(&actor, &input);
        let asked = interrupted_everywhere(&actor, &input, Interruption::Executor, &whole);
        assert_eq!(asked, whole.asked, "{name}");
    }
}

#[test]
fn a_run_whose_log_fails_at_every_step_has_the_same_result() {
    for (name, actor, input) in by_hand() {
        let whole = undisturbed(&actor, &input);
        let asked = interrupted_everywhere(&actor, &input, Interruption::Log, &whole);
        // Work that was done but could not be stored is repeated, so some calls occur more than once.
        let once: BTreeSet<&String> = asked.iter().collect();
        let expected: BTreeSet<&String> = whole.asked.iter().collect();
        assert_eq!(once, expected, "{name}");
    }
}

#[test]
fn a_log_of_another_actor_is_refused() {
    let (_, actor, input) = by_hand().swap_remove(1);
    let whole = undisturbed(&actor, &input);
    let mut steps = whole.steps.clone();
    steps[1].kind = "agent".to_owned();
    let error = run(
        &actor,
        &state(input.clone()),
        &Echo::default(),
        &Memory::from_steps(&steps),
    )
    .expect_err("another kind");
    assert!(matches!(&error, RunError::Broken { path, .. } if *path == steps[1].path));

    let mut steps = whole.steps.clone();
    steps[0].next = Some("nobody".to_owned());
    let error = run(
        &actor,
        &state(input),
        &Echo::default(),
        &Memory::from_steps(&steps),
    )
    .expect_err("another way");
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
            error => panic!("another error: {error}"),
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
    fn any_graph_can_be_interrupted_anywhere(pieces in pieces(), dice in any::<u64>()) {
        let actor = actor_of(&pieces);
        let input = json!({});
        let whole = undisturbed(&actor, &input);
        let beginnings = whole.steps.len() + 1;
        for turn in 0..8_u64 {
            let finished = usize::try_from(dice.rotate_left(u32::try_from(turn * 7)?) % beginnings as u64)?;
            resumes_after("chance", &actor, &input, &whole, &whole.steps[..finished]);
        }
        if whole.asked.len() < 60 {
            let asked = interrupted_everywhere(&actor, &input, Interruption::Executor, &whole);
            prop_assert_eq!(asked, whole.asked);
        }
    }
}
