//! Many concurrent plans on one database and one repository, run by one worker or by one process
//! for each plan.

use std::collections::BTreeMap;
use std::process::Child;

use cleveragents_testkit::{Answer, Gate};
use rustix::process::Signal;

use super::world::{RunningProgram, World};

/// Creates plans of `local/named`, each with another name. Returns the names by plan id.
fn plans(world: &World, count: usize) -> BTreeMap<String, String> {
    world.named_action();
    (0..count)
        .map(|number| {
            let name = format!("p{number}x");
            let plan = world.plan("local/named", &["--arg", &format!("what={name}")]);
            (plan, name)
        })
        .collect()
}

/// Starts a worker before plans are queued, so that queueing starts no other worker.
fn worker(world: &World, options: &[&str]) -> RunningProgram {
    let child = world.start(&[&["worker"], options].concat());
    World::wait_until("a worker", || {
        let leases = world
            .ask("SELECT count(*) FROM leases WHERE kind = 'worker' AND owner_pid IS NOT NULL");
        leases[0][0] != "0"
    });
    child
}

fn queue(world: &World, plans: &BTreeMap<String, String>) {
    for plan in plans.keys() {
        let reported = world
            .agents
            .data(&["plan", "execute", plan, "--background"]);
        assert_eq!(reported["worker_begun"], false, "{reported}");
    }
}

/// Number of executed plans.
fn executed_plans(world: &World) -> usize {
    world
        .ask("SELECT plan_id FROM plans WHERE stage = 'execute/complete'")
        .len()
}

#[test]
fn sixteen_plans_in_one_worker() {
    let world = World::new();
    let plans = plans(&world, 16);
    let mut child = worker(&world, &["--concurrency", "16"]);
    queue(&world, &plans);
    World::wait_until("all plans", || executed_plans(&world) == plans.len());
    child.signal(Signal::TERM);
    let answer = child.answer();
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let tally = answer.json()["data"].clone();
    assert_eq!(
        (&tally["processed"], &tally["failed"]),
        (&16.into(), &0.into()),
        "{answer:?}"
    );
    assert!(!answer.err.contains("locked"), "{answer:?}");
    world.assert_apart(&plans);
}

#[test]
fn eight_processes_each_with_a_plan() {
    let world = World::new();
    let plans = plans(&world, 8);
    let gate = Gate::default();
    let racing: Vec<Child> = plans
        .keys()
        .map(|plan| {
            world
                .agents
                .behind(&gate, &["--format", "json", "plan", "execute", plan])
        })
        .collect();
    gate.open();
    for child in racing {
        let answer = Answer::from_output(&child.wait_with_output().expect("the program ends"));
        assert_eq!(answer.code, Some(0), "{answer:?}");
    }
    world.assert_apart(&plans);
}

#[test]
fn the_plans_of_a_dead_worker_are_resumed() {
    let world = World::new();
    let plans = plans(&world, 3);
    let first = worker(&world, &["--concurrency", "2"]);
    queue(&world, &plans);
    World::wait_until("a running plan", || {
        let done_steps = world
            .ask("SELECT count(*) FROM plan_steps WHERE path LIKE 'step/%' AND state = 'done'");
        done_steps[0][0] != "0"
    });
    first.kill();
    let answer = world.run(&["worker", "--until-idle", "--concurrency", "3"]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    // A plan with an interrupted call waits for input; the other plans are executed.
    for plan in plans
        .keys()
        .filter(|plan| world.stage(plan) != "execute/complete")
    {
        let answer = world.run(&["plan", "execute", plan]);
        assert_eq!(answer.code, Some(5), "{answer:?}");
        world.agents.data(&["plan", "execute", plan, "--redo"]);
    }
    world.assert_apart(&plans);
}
