//! Steps about leases, which have no command.

use std::sync::Arc;

use cleveragents_application::{
    ContextError, HeldLease, LeaseError, LeaseService, PlanExecutionContext, current_owner,
};
use cleveragents_domain::{Owner, ProcessId, Timestamp, Ttl};
use cleveragents_store::leases::DisplaceableHolder;
use cleveragents_store::{Error, leases};
use cleveragents_testkit::at_once;
use cucumber::{given, then, when};

use crate::world::{Run, World, change};

/// An owner on another machine. This machine cannot check whether it is alive.
fn remote_owner(host: &str) -> Owner {
    Owner {
        process: ProcessId::generate(),
        host: host.to_owned(),
        pid: 7,
        pid_started: 7,
    }
}

fn request_lease(run: &Run, owner: Owner) -> Result<HeldLease, LeaseError> {
    LeaseService::acting_for(Arc::clone(&run.engine), owner).acquire(run.subject(), Ttl::default())
}

#[when(expr = "{int} threads ask for the lease of the plan at the same instant")]
fn threads_ask(world: &mut World, threads: usize) {
    let run = world.run();
    let (engine, subject) = (&run.engine, &run.subject());
    let outcomes = at_once(threads, |thread| {
        let owner = remote_owner(&format!("machine {thread}"));
        let service = LeaseService::acting_for(Arc::clone(engine), owner.clone());
        (owner, service.acquire(subject.clone(), Ttl::default()))
    });
    for (owner, outcome) in outcomes {
        let reported = match outcome {
            Ok(lease) => {
                run.leases.push(lease);
                None
            }
            Err(LeaseError::Held { owner, .. }) => Some(owner.to_string()),
            Err(other) => panic!("{other}"),
        };
        run.reported.push((owner.to_string(), reported));
    }
}

#[then("exactly one of them gets it")]
fn one_gets_it(world: &mut World) {
    assert_eq!(world.run().leases.len(), 1);
}

#[then("all others receive the name of the owner")]
fn other_callers_are_notified(world: &mut World) {
    let run = world.run();
    let (winner, _) = run
        .reported
        .iter()
        .find(|(_, reported)| reported.is_none())
        .expect("one thread gets the lease");
    for (_, reported) in &run.reported {
        assert!(
            reported.as_ref().is_none_or(|reported| reported == winner),
            "{reported:?}"
        );
    }
}

#[given("the lease of the plan is held by a program that has died")]
fn held_by_a_dead_program(world: &mut World) {
    let mut child = std::process::Command::new("true")
        .spawn()
        .expect("a program starts");
    let pid = child.id();
    child.wait().expect("the program ends");
    let dead = Owner {
        process: ProcessId::generate(),
        host: current_owner().host,
        pid,
        pid_started: 1,
    };
    let run = world.run();
    let subject = run.subject();
    let acquired = run.engine.write(move |unit| {
        leases::acquire(
            unit,
            &subject,
            &dead,
            Ttl::default(),
            DisplaceableHolder::Nobody,
        )
    });
    run.old_token = Some(
        acquired
            .expect("the store answers")
            .expect("the lease is free")
            .token,
    );
}

#[when("another owner asks for it")]
fn another_owner_requests_it(world: &mut World) {
    let run = world.run();
    let lease = request_lease(run, current_owner()).expect("the lease is acquired");
    run.leases.push(lease);
}

#[then("it gets the lease with a higher token")]
fn with_a_higher_token(world: &mut World) {
    let run = world.run();
    assert!(Some(run.leases[0].token()) > run.old_token);
}

#[given("the lease of the plan is held")]
fn the_lease_is_held(world: &mut World) {
    let run = world.run();
    let lease = request_lease(run, remote_owner("the first machine")).expect("the lease is free");
    run.old_token = Some(lease.token());
    run.leases.push(lease);
}

#[given("an open changeset under that lease")]
fn an_open_changeset_under_the_lease(world: &mut World) {
    let run = world.run();
    let plan = run.context.plan();
    run.context = PlanExecutionContext::under_lease(Arc::clone(&run.engine), plan, &run.leases[0])
        .expect("the plan exists");
    let changeset = run.context.start_changeset().expect("the lease is held");
    run.ids.push(changeset.id());
    run.open.push(changeset);
}

#[when("another owner takes over the lease")]
fn it_is_taken_over(world: &mut World) {
    let past = Timestamp::now().plus_seconds(-1).as_micros();
    world
        .database()
        .execute_sql(&format!("UPDATE leases SET expires_at = {past}"));
    let run = world.run();
    let lease =
        request_lease(run, remote_owner("the second machine")).expect("the lease has expired");
    assert!(Some(lease.token()) > run.old_token);
    run.leases.push(lease);
}

#[then("a change recorded under the old lease is refused as lost")]
fn refused_as_lost(world: &mut World) {
    let run = world.run();
    let outcome = run.open[0].record(&change("too late"));
    assert!(
        matches!(outcome, Err(ContextError::Store(Error::LeaseLost { .. }))),
        "{outcome:?}"
    );
}

#[when("it is released")]
fn it_is_released(world: &mut World) {
    let lease = world.run().leases.pop().expect("a held lease");
    assert!(
        lease.release().expect("the store answers"),
        "the owner still held the lease"
    );
}

#[then("another owner gets it")]
fn another_owner_gets_it(world: &mut World) {
    let run = world.run();
    let lease = request_lease(run, remote_owner("the second machine")).expect("the lease is free");
    run.leases.push(lease);
}
