//! A lease has one owner at a time: threads and processes race for it, owners die, and suspended owners resume late.

use std::path::Path;
use std::sync::Arc;

use cleveragents_application::{
    ContextError, HeldLease, LeaseError, LeaseService, PlanExecutionContext, current_owner,
};
use cleveragents_domain::{
    ContentHash, Diagnose, EventKind, FileMode, FileState, Lease, LeaseSubject, LeaseToken,
    NewChange, Operation, Owner, Position, ProcessId, Timestamp, Ttl,
};
use cleveragents_process::Cancel;
use cleveragents_store::leases::DisplaceableHolder;
use cleveragents_store::{DatabaseUrl, Engine, EngineCache, Error, Options, events, leases};
use cleveragents_testkit::{
    Child, TestDatabase, at_once, child_input, proof_size, send_line, wait_for_release,
};

fn subject() -> LeaseSubject {
    LeaseSubject::new("plan", "01J9ZC5V7Q8W9E0R1T2Y3V4X5Z")
}

/// An owner on another machine. This machine cannot check whether it is alive.
fn remote_owner(name: &str) -> Owner {
    Owner {
        process: ProcessId::generate(),
        host: name.to_owned(),
        pid: 7,
        pid_started: 7,
    }
}

fn service(engine: &Arc<Engine>, owner: Owner) -> LeaseService {
    LeaseService::acting_for(Arc::clone(engine), owner)
}

/// Acquires a lease without a heartbeat, like an owner whose machine then fails.
fn acquire_without_heartbeat(engine: &Engine, owner: &Owner) -> Lease {
    let owner = owner.clone();
    engine
        .write(move |unit| {
            leases::acquire(
                unit,
                &subject(),
                &owner,
                Ttl::default(),
                DisplaceableHolder::Nobody,
            )
        })
        .expect("answered")
        .expect("free")
}

fn expire(database: &TestDatabase) {
    let moment = Timestamp::now().plus_seconds(-1).as_micros();
    database.execute_sql(&format!("UPDATE leases SET expires_at = {moment}"));
}

/// A release can fail, for example because the disk is full.
#[test]
fn an_unreleased_lease_is_free_only_for_its_former_owner() {
    let database = TestDatabase::sqlite();
    let engine = database.open();
    let mine = service(&engine, current_owner());
    let held = mine.acquire(subject(), Ttl::default()).expect("free");
    let token = held.token();
    database.execute_sql(
        "CREATE TRIGGER broken BEFORE UPDATE ON leases BEGIN SELECT RAISE(ABORT, 'no room'); END",
    );
    assert!(held.release().is_err(), "the release cannot be stored");
    let refused = mine.acquire(subject(), Ttl::default());
    assert!(
        !matches!(refused, Err(LeaseError::Held { .. })),
        "the error reports that it cannot be stored"
    );
    database.execute_sql("DROP TRIGGER broken");
    let others = service(&engine, current_owner());
    let refused = others.acquire(subject(), Ttl::default());
    assert!(
        matches!(refused, Err(LeaseError::Held { .. })),
        "another service does not know that the lease is free"
    );
    let again = mine.acquire(subject(), Ttl::default()).expect("free");
    assert!(again.token() > token);
    // A held lease is not free.
    let refused = mine.acquire(subject(), Ttl::default());
    assert!(matches!(refused, Err(LeaseError::Held { .. })));
}

/// Threads race for a lease. One acquires it, and the errors of the others name its owner.
fn race_for_lease(database: &TestDatabase, engines: &[Arc<Engine>]) -> HeldLease {
    let mut outcomes = at_once(16, |thread| {
        let owner = remote_owner(&format!("machine {thread}"));
        let service = service(&engines[thread % engines.len()], owner.clone());
        (owner, service.acquire(subject(), Ttl::default()))
    });
    let won: Vec<usize> = (0..outcomes.len())
        .filter(|index| outcomes[*index].1.is_ok())
        .collect();
    assert_eq!(won.len(), 1, "exactly one wins on {}", database.kind);
    let (winner, lease) = outcomes.swap_remove(won[0]);
    for (_, outcome) in outcomes {
        match outcome.err() {
            Some(error @ LeaseError::Held { .. }) => {
                assert_eq!(error.code().as_str(), "CA-0411");
                assert_eq!(
                    error.details()["owner"]["process"],
                    winner.process.to_string()
                );
                assert!(
                    error.to_string().contains(&winner.process.to_string()),
                    "{error}"
                );
            }
            other => panic!("a loser receives the owner, not {other:?}"),
        }
    }
    lease.expect("it won")
}

#[test]
fn defect_7406_of_many_threads_racing_for_a_free_lease_one_wins() {
    for database in TestDatabase::each() {
        let engines = [database.open(), database.open()];
        for round in 1..=proof_size(10, 200) as u64 {
            let lease = race_for_lease(&database, &engines);
            assert_eq!(lease.token(), LeaseToken(round), "tokens only grow");
            assert!(
                lease.release().expect("answered"),
                "the lease was still held"
            );
        }
    }
}

#[test]
fn defect_7406_of_many_threads_racing_for_an_expired_lease_one_wins() {
    for database in TestDatabase::each() {
        let engines = [database.open(), database.open()];
        let expired =
            acquire_without_heartbeat(&engines[0], &remote_owner("a machine that vanished"));
        for round in 1..=proof_size(10, 200) as u64 {
            expire(&database);
            let lease = race_for_lease(&database, &engines);
            assert_eq!(lease.token(), LeaseToken(expired.token.0 + round));
            // This owner fails as well: it does not release the lease, and its next heartbeat is far away.
            std::mem::forget(lease);
        }
    }
}

/// A child process that tries to acquire the lease, prints the result, and holds the lease until its parent closes its
/// input.
fn compete_in_child(url: &str) {
    let url = DatabaseUrl::parse(url, Path::new("/")).expect("a URL");
    let engine = EngineCache::new(Options::default())
        .open(&url)
        .expect("opens");
    wait_for_release();
    let held = match LeaseService::new(engine).acquire(subject(), Ttl::default()) {
        Ok(lease) => {
            send_line(format!("won {} {}", lease.token(), current_owner().process));
            Some(lease)
        }
        Err(LeaseError::Held { owner, .. }) => {
            send_line(format!("held {}", owner.process));
            None
        }
        Err(error) => panic!("a raw error instead of an answer: {error}"),
    };
    let mut end = String::new();
    std::io::stdin()
        .read_line(&mut end)
        .expect("the parent closes the input");
    drop(held);
}

/// One of eight racing processes wins; returns the winner's token.
fn one_process_wins(database: &TestDatabase, test: &str) -> u64 {
    let mut children: Vec<Child> = (0..8).map(|_| Child::start(test, &database.url)).collect();
    for child in &mut children {
        assert_eq!(child.read_line().as_deref(), Some("ready"));
    }
    for child in &mut children {
        child.release();
    }
    let messages: Vec<String> = children
        .iter_mut()
        .map(|child| child.read_line().expect("an answer"))
        .collect();
    let winners: Vec<&String> = messages
        .iter()
        .filter(|line| line.starts_with("won "))
        .collect();
    assert_eq!(
        winners.len(),
        1,
        "exactly one wins on {}: {messages:?}",
        database.kind
    );
    let mut words = winners[0].split(' ').skip(1);
    let token = words.next().expect("a token").parse().expect("a number");
    let owner = words.next().expect("an owner");
    let losers = messages
        .iter()
        .filter(|line| **line == format!("held {owner}"))
        .count();
    assert_eq!(losers, 7, "each loser names the winner: {messages:?}");
    for child in children {
        child.finish();
    }
    token
}

#[test]
fn defect_9638_of_eight_processes_racing_for_a_lease_one_wins_and_the_others_name_it() {
    if let Some(url) = child_input() {
        return compete_in_child(&url);
    }
    let test = "defect_9638_of_eight_processes_racing_for_a_lease_one_wins_and_the_others_name_it";
    for database in TestDatabase::each() {
        let engine = database.open();
        let token = one_process_wins(&database, test);
        assert_eq!(token, 1, "a lease without an owner");
        let token = one_process_wins(&database, test);
        assert_eq!(token, 2, "a released lease");
        let expired = acquire_without_heartbeat(&engine, &remote_owner("a machine that vanished"));
        expire(&database);
        let token = one_process_wins(&database, test);
        assert_eq!(token, expired.token.0 + 1, "an expired lease");
        let late = engine.write(move |unit| leases::require(unit, &subject(), expired.token));
        assert!(matches!(late, Err(Error::LeaseLost { .. })), "{late:?}");
    }
}

fn change(path: &str) -> NewChange {
    let after = FileState {
        hash: ContentHash::of_bytes(b""),
        size: 0,
        mode: FileMode::REGULAR,
    };
    NewChange::new("code", path, Operation::Create { after }).expect("a change")
}

fn is_lost<T>(outcome: &Result<T, ContextError>) -> bool {
    matches!(outcome, Err(ContextError::Store(Error::LeaseLost { .. })))
}

#[test]
fn a_displaced_owner_that_resumes_late_cannot_write() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let plan = PlanExecutionContext::create_plan(&engine).expect("stored");
        let acquire = |name: &str| {
            let lease = service(&engine, remote_owner(name)).acquire(subject(), Ttl::default());
            lease.expect("free or expired")
        };
        let old = acquire("the old machine");
        let old_context =
            PlanExecutionContext::under_lease(Arc::clone(&engine), plan, &old).expect("there");
        let changeset = old_context.start_changeset().expect("it holds the lease");
        let second = old_context.start_changeset().expect("it holds the lease");
        changeset
            .record(&change("in time"))
            .expect("it holds the lease");

        expire(&database);
        // The lease has expired, but no other owner has taken it over: the token is still the newest.
        changeset
            .record(&change("late"))
            .expect("no other owner has it");
        let new = acquire("the new machine");
        assert!(new.token() > old.token());
        let before = [
            database.ask("SELECT * FROM changesets ORDER BY changeset_id"),
            database.ask("SELECT * FROM change_entries ORDER BY changeset_id, number"),
            database.ask("SELECT * FROM events ORDER BY position"),
            database.ask("SELECT * FROM leases"),
        ];
        assert!(is_lost(&changeset.record(&change("too late"))));
        assert!(is_lost(&old_context.record_change(&change("too late"))));
        assert!(is_lost(&old_context.start_changeset()));
        assert!(is_lost(&second.close()));
        assert!(!old.release().expect("answered"), "another owner has it");
        let after = [
            database.ask("SELECT * FROM changesets ORDER BY changeset_id"),
            database.ask("SELECT * FROM change_entries ORDER BY changeset_id, number"),
            database.ask("SELECT * FROM events ORDER BY position"),
            database.ask("SELECT * FROM leases"),
        ];
        assert_eq!(
            before, after,
            "a refused write changes nothing on {}",
            database.kind
        );

        let new_context =
            PlanExecutionContext::under_lease(Arc::clone(&engine), plan, &new).expect("there");
        let changeset = new_context.start_changeset().expect("it holds the lease");
        changeset
            .record(&change("by the new owner"))
            .expect("it holds the lease");
        changeset.close().expect("it holds the lease");
    }
}

/// The takeover races with writes of the old owner: earlier writes remain, and later writes are refused.
#[test]
fn a_write_is_either_before_the_take_over_or_refused() {
    for database in TestDatabase::each() {
        let engines = [database.open(), database.open()];
        let plan = PlanExecutionContext::create_plan(&engines[0]).expect("stored");
        for round in 0..proof_size(5, 100) {
            let old = service(&engines[0], remote_owner("old")).acquire(subject(), Ttl::default());
            let old = old.expect("free");
            let token = old.token();
            let context = PlanExecutionContext::under_lease(Arc::clone(&engines[0]), plan, &old);
            let changeset = context.expect("there").start_changeset().expect("opened");
            expire(&database);
            let outcomes = at_once(2, |thread| {
                if thread == 1 {
                    // Counts the changes in the unit of work that takes over the lease. No change may be added
                    // afterwards.
                    let id = changeset.id();
                    let seen = engines[1].write(move |unit| {
                        let owner = remote_owner("new");
                        let lease = leases::acquire(
                            unit,
                            &subject(),
                            &owner,
                            Ttl::default(),
                            DisplaceableHolder::Expired(token),
                        )?;
                        let stored = cleveragents_store::changesets::get(unit, id)?;
                        Ok::<_, Error>((
                            lease.expect("expired").token,
                            stored.expect("there").entry_count,
                        ))
                    });
                    return seen.map_err(ContextError::from);
                }
                let written = (0..50)
                    .map_while(|_| changeset.record(&change("x")).ok())
                    .count();
                Ok((LeaseToken(0), written as u64))
            });
            let written = outcomes[0].as_ref().expect("counted").1;
            let (token, seen) = *outcomes[1].as_ref().expect("taken over");
            assert_eq!(written, seen, "round {round} on {}", database.kind);
            engines[1]
                .write(move |unit| leases::release(unit, &subject(), token))
                .expect("free");
            drop(old);
        }
    }
}

/// A child process that takes the lease and never releases it.
fn hold_until_killed(url: &str) {
    hold_as(url, current_owner());
}

fn hold_as(url: &str, owner: Owner) {
    let url = DatabaseUrl::parse(url, Path::new("/")).expect("a URL");
    let engine = EngineCache::new(Options::default())
        .open(&url)
        .expect("opens");
    let lease = LeaseService::acting_for(engine, owner)
        .acquire(subject(), Ttl::default())
        .expect("free");
    send_line(lease.token());
    let mut end = String::new();
    std::io::stdin()
        .read_line(&mut end)
        .expect("the process is killed before this returns");
}

#[test]
fn the_lease_of_a_killed_owner_is_taken_over_immediately() {
    if let Some(url) = child_input() {
        return hold_until_killed(&url);
    }
    for database in TestDatabase::each() {
        let engine = database.open();
        let service = LeaseService::new(Arc::clone(&engine));
        let mut child = Child::start(
            "the_lease_of_a_killed_owner_is_taken_over_immediately",
            &database.url,
        );
        let token = LeaseToken(
            child
                .read_line()
                .expect("the child has the lease")
                .parse()
                .expect("a token"),
        );
        match service.acquire(subject(), Ttl::default()) {
            Err(LeaseError::Held { owner, .. }) => assert_eq!(owner.pid, child.pid()),
            other => panic!(
                "the live child holds it: {:?}",
                other.map(|lease| lease.token())
            ),
        }
        assert!(service.stale().expect("read").is_empty());
        child.kill();
        let stale = service.stale().expect("read");
        assert_eq!(
            stale.iter().map(|lease| lease.token).collect::<Vec<_>>(),
            [token]
        );
        let lease = service
            .acquire(subject(), Ttl::default())
            .expect("its owner is dead");
        assert_eq!(lease.token(), LeaseToken(token.0 + 1));
        let late = engine.write(move |unit| leases::require(unit, &subject(), token));
        assert!(matches!(late, Err(Error::LeaseLost { .. })), "{late:?}");
        let log = engine
            .read(|reader| events::after(reader, Position(0), 100))
            .expect("read");
        assert_eq!(
            log.last().map(|event| event.kind),
            Some(EventKind::LeaseTakenOver)
        );
    }
}

/// Acquires the lease in a child process, suspends the child and lets the lease expire, as after a suspension of the
/// machine or a change of its clock. The parent can acquire the lease only after the child is dead.
fn live_owner_keeps_its_expired_lease(database: &TestDatabase, test: &str) {
    let engine = database.open();
    let service = LeaseService::new(Arc::clone(&engine));
    let mut child = Child::start(test, &database.url);
    let token = LeaseToken(
        child
            .read_line()
            .expect("the child has the lease")
            .parse()
            .expect("a token"),
    );
    signal(child.pid(), "STOP");
    expire(database);
    match service.acquire(subject(), Ttl::default()) {
        Err(LeaseError::Held { owner, .. }) => assert_eq!(owner.pid, child.pid()),
        other => panic!(
            "a live owner was displaced on {}: {:?}",
            database.kind,
            other.map(|lease| lease.token())
        ),
    }
    assert_eq!(
        service.release_stale(),
        Ok(Vec::new()),
        "its lease is not released either"
    );
    let worker = service.worker(&subject()).expect("read");
    assert_eq!(
        worker.map(|lease| lease.token),
        Some(token),
        "the owner is reported as running"
    );
    engine
        .write(move |unit| leases::require(unit, &subject(), token))
        .expect("its writes are accepted");
    signal(child.pid(), "CONT");
    child.kill();
    let lease = service
        .acquire(subject(), Ttl::default())
        .expect("its owner is dead");
    assert_eq!(lease.token(), LeaseToken(token.0 + 1));
}

fn signal(pid: u32, name: &str) {
    let sent = std::process::Command::new("kill")
        .args([format!("-{name}"), pid.to_string()])
        .status();
    assert!(sent.expect("kill runs").success());
}

#[test]
fn a_suspended_owner_on_this_machine_keeps_its_expired_lease() {
    if let Some(url) = child_input() {
        return hold_until_killed(&url);
    }
    let test = "a_suspended_owner_on_this_machine_keeps_its_expired_lease";
    for database in TestDatabase::each() {
        live_owner_keeps_its_expired_lease(&database, test);
    }
}

/// The pid of a process in another container is meaningless, so the lock file next to the database decides.
#[test]
fn an_owner_in_another_container_keeps_its_lease_while_it_is_alive() {
    if let Some(url) = child_input() {
        return hold_as(
            &url,
            Owner {
                host: "container/boot/pid:[1]".to_owned(),
                ..current_owner()
            },
        );
    }
    let test = "an_owner_in_another_container_keeps_its_lease_while_it_is_alive";
    live_owner_keeps_its_expired_lease(&TestDatabase::sqlite(), test);
}

#[test]
fn work_under_a_lease_is_cancelled_when_another_owner_has_it() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let ttl = Ttl::seconds(Ttl::MINIMUM).expect("in range");
        let old = service(&engine, remote_owner("the old machine"))
            .acquire(subject(), ttl)
            .expect("free");
        let (work, done, unrelated) = (Cancel::new(), Cancel::new(), Cancel::new());
        let _guard = old.guard(&work);
        drop(old.guard(&done));
        let others = service(&engine, remote_owner("the new machine"));
        // The heartbeat of the old owner may renew the lease in between.
        let new = loop {
            expire(&database);
            if let Ok(lease) = others.acquire(subject(), Ttl::default()) {
                break lease;
            }
        };
        while !work.is_cancelled() {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        assert!(old.is_lost());
        assert!(!done.is_cancelled(), "that work was finished");
        assert!(!unrelated.is_cancelled());
        let late = Cancel::new();
        let _guard = old.guard(&late);
        assert!(
            late.is_cancelled(),
            "new work under a lost lease is cancelled"
        );
        assert_eq!(
            old.check()
                .map_err(|error| error.code().as_str().to_owned()),
            Err("CA-0412".to_owned())
        );
        assert!(!new.is_lost());
    }
}

#[test]
fn work_under_a_lease_is_cancelled_when_it_cannot_be_renewed_for_its_duration() {
    let database = TestDatabase::sqlite();
    let engine = database.open();
    let ttl = Ttl::seconds(Ttl::MINIMUM).expect("in range");
    let lease = service(&engine, remote_owner("a machine"))
        .acquire(subject(), ttl)
        .expect("free");
    database.execute_sql(
        "CREATE TRIGGER broken BEFORE UPDATE ON leases BEGIN SELECT RAISE(ABORT, 'no room'); END",
    );
    let work = Cancel::new();
    let _guard = lease.guard(&work);
    while !work.is_cancelled() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(lease.is_lost());
}

/// Many threads detect the dead owner at the same time.
#[test]
fn one_of_many_threads_takes_over_from_a_dead_owner() {
    if let Some(url) = child_input() {
        return hold_until_killed(&url);
    }
    for database in TestDatabase::each() {
        let engine = database.open();
        let mut child = Child::start(
            "one_of_many_threads_takes_over_from_a_dead_owner",
            &database.url,
        );
        child.read_line().expect("the child has the lease");
        child.kill();
        let lease = race_for_lease(&database, &[engine]);
        assert_eq!(lease.token(), LeaseToken(2));
    }
}

#[test]
fn a_released_lease_is_free_and_tokens_only_grow() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let service = LeaseService::new(Arc::clone(&engine));
        assert_eq!(service.holder(&subject()), Ok(None));
        for token in 1..=10 {
            let lease = service.acquire(subject(), Ttl::default()).expect("free");
            assert_eq!(lease.token(), LeaseToken(token));
            let holder = service.holder(&subject()).expect("read").expect("held");
            assert_eq!(
                (holder.owner, holder.token),
                (current_owner(), lease.token())
            );
            assert!(!lease.is_lost());
            // Release the lease explicitly or by dropping it.
            if token % 2 == 0 {
                assert_eq!(lease.release(), Ok(true));
            } else {
                drop(lease);
            }
            assert_eq!(service.holder(&subject()), Ok(None));
            let stale =
                engine.write(move |unit| leases::require(unit, &subject(), LeaseToken(token)));
            assert!(matches!(stale, Err(Error::LeaseLost { .. })), "{stale:?}");
        }
        let kinds: Vec<EventKind> = engine
            .read(|reader| events::after(reader, Position(0), 100))
            .expect("read")
            .iter()
            .map(|event| event.kind)
            .collect();
        let expected = [EventKind::LeaseAcquired, EventKind::LeaseReleased].repeat(10);
        assert_eq!(kinds, expected);
        // Leases of different subjects are independent.
        let other = LeaseSubject::new("project", subject().id);
        let first = service.acquire(subject(), Ttl::default()).expect("free");
        let second = service
            .acquire(other, Ttl::default())
            .expect("another subject");
        assert_eq!(
            (first.token(), second.token()),
            (LeaseToken(11), LeaseToken(1))
        );
    }
}

#[test]
fn a_process_cannot_acquire_its_own_lease_twice() {
    for database in TestDatabase::each() {
        let service = LeaseService::new(database.open());
        let lease = service.acquire(subject(), Ttl::default()).expect("free");
        let again = service.acquire(subject(), Ttl::default()).err();
        assert!(matches!(again, Some(LeaseError::Held { .. })), "{again:?}");
        drop(lease);
    }
}

#[test]
fn only_the_holder_of_a_lease_can_renew_it() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let lease = acquire_without_heartbeat(&engine, &remote_owner("a machine"));
        let renew = |token| {
            let ttl = Ttl::seconds(3600).expect("in range");
            engine.write(move |unit| leases::renew(unit, &subject(), token, ttl))
        };
        let until = renew(lease.token).expect("the holder");
        assert!(until > lease.expires_at.plus_seconds(3000));
        let holder = engine
            .read(|reader| leases::holder(reader, &subject()))
            .expect("read");
        assert_eq!(holder.map(|lease| lease.expires_at), Some(until));
        for wrong in [0, lease.token.0 + 1] {
            let outcome = renew(LeaseToken(wrong));
            assert!(
                matches!(outcome, Err(Error::LeaseLost { .. })),
                "{outcome:?}"
            );
        }
        // An expired lease that no other owner took can still be renewed by its holder.
        expire(&database);
        renew(lease.token).expect("no other owner has it");
        let others = service(&engine, remote_owner("another"))
            .acquire(subject(), Ttl::default())
            .err();
        assert!(
            matches!(others, Some(LeaseError::Held { .. })),
            "{others:?}"
        );
    }
}

/// Instants in different time zones are compared as instants, although their texts sort in the reverse order.
#[test]
fn defect_3951_expiry_compares_instants() {
    let hour = |shift: i64| {
        let instant = Timestamp::now().plus_seconds(shift * 3600);
        (instant, instant.as_micros())
    };
    let zoned: Timestamp = "2026-06-01T12:00:00+14:00".parse().expect("a time");
    let utc: Timestamp = "2026-05-31T22:00:00Z".parse().expect("a time");
    assert_eq!(zoned, utc, "an offset does not change an instant");
    let earlier: Timestamp = "2026-06-01T01:00:00+14:00".parse().expect("a time");
    let later: Timestamp = "2026-05-31T23:00:00-12:00".parse().expect("a time");
    assert!(earlier < later, "though its text sorts after");
    for database in TestDatabase::each() {
        let engine = database.open();
        for (shift, is_free) in [(-1, true), (1, false), (-24 * 365, true), (24 * 365, false)] {
            database.execute_sql("DELETE FROM leases");
            acquire_without_heartbeat(&engine, &remote_owner("a machine"));
            let (instant, micros) = hour(shift);
            database.execute_sql(&format!("UPDATE leases SET expires_at = {micros}"));
            let holder = engine
                .read(|reader| leases::holder(reader, &subject()))
                .expect("read");
            assert_eq!(holder.map(|lease| lease.expires_at), Some(instant));
            let outcome =
                service(&engine, remote_owner("another")).acquire(subject(), Ttl::default());
            assert_eq!(
                outcome.is_ok(),
                is_free,
                "{shift} hours from now on {}",
                database.kind
            );
        }
    }
}

#[test]
fn stale_leases_are_released_and_live_ones_are_not() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let mine = LeaseService::new(Arc::clone(&engine));
        let living = mine
            .acquire(LeaseSubject::new("plan", "living"), Ttl::default())
            .expect("free");
        let remote = service(&engine, remote_owner("another machine"));
        let remote_lease = remote
            .acquire(LeaseSubject::new("plan", "remote"), Ttl::default())
            .expect("free");
        acquire_without_heartbeat(&engine, &remote_owner("a machine that vanished"));
        assert!(
            mine.release_stale().expect("answered").is_empty(),
            "none is stale"
        );
        database.execute_sql(&format!(
            "UPDATE leases SET expires_at = 1 WHERE subject_id = '{}'",
            subject().id
        ));
        let released = mine.release_stale().expect("answered");
        assert_eq!(
            released
                .iter()
                .map(|lease| &lease.subject)
                .collect::<Vec<_>>(),
            [&subject()]
        );
        assert_eq!(mine.holder(&subject()), Ok(None));
        assert_eq!(living.release(), Ok(true), "untouched");
        assert_eq!(remote_lease.release(), Ok(true), "untouched");
    }
}

/// A process searches for stale leases while a late owner renews its lease.
#[test]
fn a_lease_that_was_renewed_meanwhile_is_not_released_as_stale() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let lease = acquire_without_heartbeat(&engine, &remote_owner("a slow machine"));
        expire(&database);
        let seen = LeaseService::new(Arc::clone(&engine))
            .stale()
            .expect("read")
            .remove(0);
        assert_eq!(seen.token, lease.token);
        engine
            .write(move |unit| leases::renew(unit, &subject(), seen.token, Ttl::default()))
            .expect("renewed");
        let released = engine.write(move |unit| leases::release_unrenewed(unit, &seen));
        assert_eq!(released, Ok(false), "on {}", database.kind);
        engine
            .write(move |unit| leases::require(unit, &subject(), lease.token))
            .expect("the slow machine still has it");
    }
}

/// Runs longer than the duration of the lease, so it runs only with full proofs.
#[test]
fn a_heartbeat_renews_a_lease_and_detects_its_loss() {
    if proof_size(0, 1) == 0 {
        return;
    }
    let database = TestDatabase::sqlite();
    let engine = database.open();
    let ttl = Ttl::seconds(Ttl::MINIMUM).expect("in range");
    let lease = service(&engine, remote_owner("a machine"))
        .acquire(subject(), ttl)
        .expect("free");
    let others = service(&engine, remote_owner("another"));
    let first = others
        .holder(&subject())
        .expect("read")
        .expect("held")
        .expires_at;
    while Timestamp::now() < first.plus_seconds(1) {
        let outcome = others.acquire(subject(), ttl).err();
        assert!(
            matches!(outcome, Some(LeaseError::Held { .. })),
            "{outcome:?}"
        );
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    assert!(!lease.is_lost());
    expire(&database);
    let taken = others.acquire(subject(), Ttl::default());
    // The heartbeat may have renewed the lease in between; then the lease is not lost.
    if taken.is_ok() {
        while !lease.is_lost() {
            std::thread::yield_now();
        }
        assert_eq!(lease.release(), Ok(false));
    }
}
