//! Model checking of the open changesets of a plan run.
//!
//! `src/plan/registry.rs` is compiled here a second time against primitives whose interleavings a
//! checker controls, with a ledger in memory in place of the store.

use cleveragents_testkit::proof_size;
use shuttle::sync::{Arc, Mutex};
use shuttle::thread;

/// The locks that `registry.rs` imports, from the model checker.
mod sync {
    pub(crate) use shuttle::sync::{Mutex, MutexGuard, PoisonError};
}

/// The folder of `registry.rs`.
#[path = "../src/plan"]
mod plan {
    pub(crate) mod registry;
}

use plan::registry::{Ledger, Registry};

fn explore(model: impl Fn() + Send + Sync + Clone + 'static) {
    shuttle::check_dfs(model.clone(), Some(proof_size(4_000, 400_000)));
    shuttle::check_random(model.clone(), proof_size(2_000, 200_000));
    shuttle::check_pct(model, proof_size(2_000, 200_000), 3);
}

/// A change and its author.
type Change = (&'static str, usize);

#[derive(Debug, Default)]
struct MemoryChangeset {
    entries: Vec<Change>,
    closed: bool,
}

/// Changesets in memory. Each call is one atomic step, like a unit of work in the store.
#[derive(Clone, Default)]
struct MemoryLedger(Arc<Mutex<Vec<MemoryChangeset>>>);

impl MemoryLedger {
    /// Closes a changeset; returns whether it was open.
    fn close(&self, id: usize) -> bool {
        let mut changesets = self.0.lock().expect("not poisoned");
        !std::mem::replace(&mut changesets[id].closed, true)
    }

    fn entries(&self, id: usize) -> Vec<Change> {
        self.0.lock().expect("not poisoned")[id].entries.clone()
    }

    fn all_entries(&self) -> usize {
        self.0
            .lock()
            .expect("not poisoned")
            .iter()
            .map(|changeset| changeset.entries.len())
            .sum()
    }
}

impl Ledger for MemoryLedger {
    type Id = usize;
    type Change = Change;
    type Number = usize;
    type Error = std::convert::Infallible;

    fn open(&self) -> Result<usize, Self::Error> {
        let mut changesets = self.0.lock().expect("not poisoned");
        changesets.push(MemoryChangeset::default());
        Ok(changesets.len() - 1)
    }

    fn record(&self, id: usize, change: &Change) -> Result<Option<usize>, Self::Error> {
        let mut changesets = self.0.lock().expect("not poisoned");
        let changeset = &mut changesets[id];
        if changeset.closed {
            return Ok(None);
        }
        changeset.entries.push(*change);
        Ok(Some(changeset.entries.len() - 1))
    }
}

fn registry() -> (Arc<Registry<MemoryLedger>>, MemoryLedger) {
    let ledger = MemoryLedger::default();
    (Arc::new(Registry::new(ledger.clone())), ledger)
}

/// Records a change through the handle of an open changeset.
fn record_through_handle(
    registry: &Registry<MemoryLedger>,
    id: usize,
    change: Change,
) -> Option<usize> {
    registry
        .ledger()
        .record(id, &change)
        .unwrap_or_else(|never| match never {})
}

fn record_without_handle(
    registry: &Registry<MemoryLedger>,
    change: Change,
) -> Option<(usize, usize)> {
    registry
        .record_in_most_recent(&change)
        .unwrap_or_else(|never| match never {})
}

fn start(registry: &Registry<MemoryLedger>) -> usize {
    registry.start().unwrap_or_else(|never| match never {})
}

fn close(registry: &Registry<MemoryLedger>, id: usize) -> bool {
    let closed = registry.ledger().close(id);
    registry.forget(id);
    closed
}

#[test]
fn defect_7120_each_opener_finds_its_own_changes_and_no_others() {
    explore(|| {
        let (registry, ledger) = registry();
        let running: Vec<_> = ["first", "second", "third"]
            .map(|opener| {
                let registry = Arc::clone(&registry);
                thread::spawn(move || {
                    let id = start(&registry);
                    for number in 0..2 {
                        let recorded = record_through_handle(&registry, id, (opener, number));
                        assert_eq!(recorded, Some(number), "numbered without gap");
                    }
                    assert!(close(&registry, id), "closed once");
                    (opener, id)
                })
            })
            .into_iter()
            .collect();
        for opener in running {
            let (opener, id) = opener.join().expect("no opener panics");
            assert_eq!(ledger.entries(id), [(opener, 0), (opener, 1)]);
        }
        assert!(
            registry.active().is_empty(),
            "closed changesets are not active"
        );
    });
}

/// Callers without a handle race with a caller that opens and closes a changeset. Another changeset stays open
/// throughout, so no change may be lost.
#[test]
fn a_change_without_a_handle_is_never_lost_and_never_lands_in_a_closed_changeset() {
    explore(|| {
        let (registry, ledger) = registry();
        let lasting = start(&registry);
        let temporary = {
            let registry = Arc::clone(&registry);
            thread::spawn(move || {
                let id = start(&registry);
                record_through_handle(&registry, id, ("opener", 0))
                    .expect("its own changeset is open");
                close(&registry, id);
                let sealed = registry.ledger().entries(id);
                (id, sealed)
            })
        };
        let callers: Vec<_> = [0, 1]
            .map(|caller| {
                let registry = Arc::clone(&registry);
                thread::spawn(move || {
                    let place = record_without_handle(&registry, ("caller", caller));
                    (caller, place.expect("a changeset is always open"))
                })
            })
            .into_iter()
            .collect();
        let (temporary_id, sealed) = temporary.join().expect("no panic");
        for caller in callers {
            let (caller, (id, number)) = caller.join().expect("no panic");
            assert!(id == lasting || id == temporary_id);
            assert_eq!(
                ledger.entries(id)[number],
                ("caller", caller),
                "the reported position"
            );
        }
        assert_eq!(ledger.all_entries(), 3, "none lost, none duplicated");
        assert_eq!(
            ledger.entries(temporary_id),
            sealed,
            "a closed changeset does not grow"
        );
        assert_eq!(registry.active(), [lasting]);
    });
}

/// A caller that records before the changeset is opened or after it is closed gets an error.
#[test]
fn a_change_without_a_handle_fails_only_when_nothing_is_open() {
    explore(|| {
        let (registry, ledger) = registry();
        let opener = {
            let registry = Arc::clone(&registry);
            thread::spawn(move || {
                let id = start(&registry);
                close(&registry, id);
            })
        };
        let caller = {
            let registry = Arc::clone(&registry);
            thread::spawn(move || record_without_handle(&registry, ("caller", 0)))
        };
        opener.join().expect("no panic");
        let recorded = caller.join().expect("no panic");
        assert_eq!(
            ledger.all_entries(),
            usize::from(recorded.is_some()),
            "a change is stored if and only if the call reports it"
        );
        assert_eq!(
            record_without_handle(&registry, ("late", 0)),
            None,
            "all are closed"
        );
        let id = start(&registry);
        assert_eq!(
            record_without_handle(&registry, ("late", 1)).map(|(id, _)| id),
            Some(id)
        );
    });
}

/// Another process, or another clone of the handle, closed the changeset without updating the list of open changesets.
#[test]
fn a_changeset_closed_elsewhere_is_skipped() {
    explore(|| {
        let (registry, _) = registry();
        let lasting = start(&registry);
        let closed_elsewhere = start(&registry);
        let closer = {
            let registry = Arc::clone(&registry);
            thread::spawn(move || registry.ledger().close(closed_elsewhere))
        };
        let (first, _) = record_without_handle(&registry, ("caller", 0)).expect("one is open");
        closer.join().expect("no panic");
        let (second, _) = record_without_handle(&registry, ("caller", 1)).expect("one is open");
        assert!(first == lasting || first == closed_elsewhere);
        assert_eq!(second, lasting);
        assert_eq!(registry.active(), [lasting]);
    });
}

/// The faulty design of report 7120: changes go to the last id of a shared list, and starting a changeset takes two
/// steps. Each operation on the list is thread-safe, but the two steps together are not.
#[derive(Default)]
struct ReportedContext {
    ledger: MemoryLedger,
    active: Mutex<Vec<usize>>,
}

impl ReportedContext {
    fn start(&self) {
        let id = self.ledger.open().unwrap_or_else(|never| match never {});
        self.active.lock().expect("not poisoned").push(id);
    }

    fn record(&self, change: Change) {
        let is_empty = self.active.lock().expect("not poisoned").is_empty();
        assert!(
            !is_empty,
            "No active changeset. Call start_changeset() first."
        );
        let id = *self
            .active
            .lock()
            .expect("not poisoned")
            .last()
            .expect("checked above");
        self.ledger
            .record(id, &change)
            .unwrap_or_else(|never| match never {});
    }
}

#[test]
#[should_panic(expected = "a change landed in a changeset its caller did not open")]
fn defect_7120_the_checker_finds_the_race_of_the_original_report() {
    explore(|| {
        let context = Arc::new(ReportedContext::default());
        let running: Vec<_> = ["first", "second"]
            .map(|opener| {
                let context = Arc::clone(&context);
                thread::spawn(move || {
                    context.start();
                    context.record((opener, 0));
                })
            })
            .into_iter()
            .collect();
        for opener in running {
            opener.join().expect("no opener panics");
        }
        let changesets = context.ledger.0.lock().expect("not poisoned");
        let each_has_one = changesets
            .iter()
            .all(|changeset| changeset.entries.len() == 1);
        assert!(
            each_has_one,
            "a change landed in a changeset its caller did not open"
        );
    });
}
