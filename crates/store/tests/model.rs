//! Model checks of the engine cache and of the group commit.
//!
//! This test compiles `src/cache.rs` and `src/group.rs` again, with synchronization primitives whose interleavings a
//! checker controls: depth-first, at random, and with few but badly timed switches (PCT). A test fails if a schedule
//! violates an assertion or deadlocks.

use std::collections::HashMap;

use cleveragents_testkit::proof_size;
use shuttle::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use shuttle::sync::{Arc, Mutex, mpsc};
use shuttle::thread;

#[path = "../src/cache.rs"]
mod cache;
#[path = "../src/group.rs"]
mod group;

/// The primitives that `cache.rs` and `group.rs` import.
mod sync {
    pub(crate) use shuttle::sync::atomic::{AtomicUsize, Ordering};
    pub(crate) use shuttle::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
}

use cache::Cache;
use group::{GroupCommit, LingerPolicy, Writer};

/// Runs a model under many interleavings.
fn explore(model: impl Fn() + Send + Sync + Clone + 'static) {
    shuttle::check_dfs(model.clone(), Some(proof_size(4_000, 400_000)));
    shuttle::check_random(model.clone(), proof_size(2_000, 200_000));
    shuttle::check_pct(model, proof_size(2_000, 200_000), 3);
}

/// Runs a model under all possible interleavings. Only for very small models.
fn exhaust(model: impl Fn() + Send + Sync + 'static) {
    shuttle::check_dfs(model, None);
}

/// A shared value that counts how often it was built and freed.
struct CountedValue {
    freed: Arc<AtomicUsize>,
}

impl Drop for CountedValue {
    fn drop(&mut self) {
        self.freed.fetch_add(1, Ordering::SeqCst);
    }
}

#[derive(Clone, Default)]
struct BuildCounts {
    built: Arc<AtomicUsize>,
    freed: Arc<AtomicUsize>,
}

impl BuildCounts {
    fn build(&self) -> CountedValue {
        self.built.fetch_add(1, Ordering::SeqCst);
        // Lets another thread run during the build.
        thread::yield_now();
        CountedValue {
            freed: Arc::clone(&self.freed),
        }
    }

    #[expect(
        clippy::unnecessary_wraps,
        reason = "the signature of a build function"
    )]
    fn try_build(&self) -> Result<CountedValue, &'static str> {
        Ok(self.build())
    }

    fn built(&self) -> usize {
        self.built.load(Ordering::SeqCst)
    }

    fn freed(&self) -> usize {
        self.freed.load(Ordering::SeqCst)
    }
}

type Engines = Arc<Cache<&'static str, CountedValue>>;

fn engines() -> Engines {
    Arc::new(Cache::new())
}

/// Concurrent callers of one key share one build.
fn callers_share_one_build(callers: usize) {
    let (cache, count) = (engines(), BuildCounts::default());
    let running: Vec<_> = (0..callers)
        .map(|_| {
            let (cache, count) = (Arc::clone(&cache), count.clone());
            thread::spawn(move || {
                cache
                    .get_or_build(&"memory", || count.try_build())
                    .expect("built")
            })
        })
        .collect();
    let values: Vec<_> = running
        .into_iter()
        .map(|caller| caller.join().expect("no caller panics"))
        .collect();
    assert!(
        values.iter().all(|value| Arc::ptr_eq(value, &values[0])),
        "one value for all"
    );
    assert_eq!(count.built(), 1, "built once");
    assert_eq!(count.freed(), 0, "alive while a handle exists");
}

#[test]
fn defect_7566_two_callers_share_one_build_in_every_interleaving() {
    exhaust(|| callers_share_one_build(2));
}

#[test]
fn defect_7566_three_callers_share_one_build() {
    explore(|| callers_share_one_build(3));
}

#[test]
fn a_failed_build_is_not_cached() {
    explore(|| {
        let (cache, count) = (engines(), BuildCounts::default());
        let failing = {
            let cache = Arc::clone(&cache);
            thread::spawn(move || {
                cache.get_or_build(&"memory", || {
                    thread::yield_now();
                    Err::<CountedValue, _>("build failed")
                })
            })
        };
        let succeeding = {
            let (cache, count) = (Arc::clone(&cache), count.clone());
            thread::spawn(move || cache.get_or_build(&"memory", || count.try_build()))
        };
        let failed = failing.join().expect("no panic");
        let value = succeeding
            .join()
            .expect("no panic")
            .expect("another caller's failure has no effect");
        // The caller with the failing build either got its error, or came later and got the value of the other caller.
        if let Ok(shared) = failed {
            assert!(Arc::ptr_eq(&shared, &value));
        }
        let reused = cache
            .get_or_build(&"memory", || count.try_build())
            .expect("alive");
        assert!(Arc::ptr_eq(&reused, &value));
        assert_eq!(count.built(), 1);
    });
}

/// The cache interface that [`build_interdependent_keys`] needs.
trait GetOrBuild: Send + Sync + 'static {
    fn get(&self, key: &'static str, build: &mut dyn FnMut());
}

impl GetOrBuild for Cache<&'static str, ()> {
    fn get(&self, key: &'static str, build: &mut dyn FnMut()) {
        self.get_or_build(&key, || {
            build();
            Ok::<_, ()>(())
        })
        .expect("built");
    }
}

/// The build of the first key waits for the build of the second. If keys waited for each other, both would deadlock.
fn build_interdependent_keys(cache: &Arc<impl GetOrBuild>) {
    let (done, wait) = mpsc::channel();
    let first = {
        let cache = Arc::clone(cache);
        thread::spawn(move || cache.get("first", &mut || wait.recv().expect("the other is built")))
    };
    cache.get("second", &mut || {
        done.send(()).expect("the receiver waits for this");
    });
    first.join().expect("both are built");
}

#[test]
fn different_keys_never_wait_for_each_other() {
    explore(|| build_interdependent_keys(&Arc::new(Cache::new())));
}

/// A cache with a single lock for all keys.
struct SingleLock(Mutex<()>);

impl GetOrBuild for SingleLock {
    fn get(&self, _: &'static str, build: &mut dyn FnMut()) {
        let _all = self.0.lock().expect("not poisoned");
        build();
    }
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_checker_finds_keys_that_wait_for_each_other() {
    explore(|| build_interdependent_keys(&Arc::new(SingleLock(Mutex::new(())))));
}

#[test]
fn the_last_user_frees_the_value_and_its_slot() {
    explore(|| {
        let (cache, count) = (engines(), BuildCounts::default());
        let running: Vec<_> = (0..3)
            .map(|_| {
                let (cache, count) = (Arc::clone(&cache), count.clone());
                thread::spawn(move || drop(cache.get_or_build(&"memory", || count.try_build())))
            })
            .collect();
        for user in running {
            user.join().expect("no user panics");
        }
        assert!(count.built() >= 1);
        assert_eq!(
            count.freed(),
            count.built(),
            "the cache keeps nothing alive"
        );
        let other = cache
            .get_or_build(&"other", || count.try_build())
            .expect("built");
        assert_eq!(cache.slot_count(), 1, "the unused slot is removed");
        drop(other);
        assert_eq!(count.freed(), count.built());
    });
}

#[test]
fn forgetting_slots_never_splits_a_key() {
    explore(|| {
        let (cache, count) = (engines(), BuildCounts::default());
        let get_in_thread = |key: &'static str| {
            let (cache, count) = (Arc::clone(&cache), count.clone());
            thread::spawn(move || {
                cache
                    .get_or_build(&key, || count.try_build())
                    .expect("built")
            })
        };
        let (early, other, late) = (
            get_in_thread("memory"),
            get_in_thread("other"),
            get_in_thread("memory"),
        );
        let early = early.join().expect("no panic");
        let late = late.join().expect("no panic");
        let other = other.join().expect("no panic");
        assert!(Arc::ptr_eq(&early, &late) && !Arc::ptr_eq(&early, &other));
        assert_eq!(count.built(), 2);
    });
}

/// The design that the original report of defect 7566 describes: check, build and insert, each step thread-safe only
/// on its own.
#[derive(Default)]
struct ReportedCache {
    engines: Mutex<HashMap<&'static str, Arc<CountedValue>>>,
}

impl ReportedCache {
    fn get_or_build(&self, url: &'static str, count: &BuildCounts) -> Arc<CountedValue> {
        let is_missing = !self.engines.lock().expect("not poisoned").contains_key(url);
        if is_missing {
            let built = Arc::new(count.build());
            self.engines
                .lock()
                .expect("not poisoned")
                .insert(url, built);
        }
        Arc::clone(&self.engines.lock().expect("not poisoned")[url])
    }
}

#[test]
#[should_panic(expected = "two engines for one URL")]
fn defect_7566_the_checker_finds_the_race_of_the_original_report() {
    explore(|| {
        let (cache, count) = (Arc::new(ReportedCache::default()), BuildCounts::default());
        let other = {
            let (cache, count) = (Arc::clone(&cache), count.clone());
            thread::spawn(move || cache.get_or_build("memory", &count))
        };
        let first = cache.get_or_build("memory", &count);
        let second = other.join().expect("no panic");
        assert!(Arc::ptr_eq(&first, &second), "two engines for one URL");
    });
}

/// A unit of work that records its runs and outcome.
#[derive(Debug, PartialEq)]
struct Unit {
    caller: usize,
    number: usize,
    runs: usize,
    outcome: Option<(usize, usize)>,
}

/// A writer that records the units it runs and detects concurrent use.
#[derive(Clone, Default)]
struct RecordingWriter {
    busy: Arc<AtomicBool>,
    asks: bool,
    ran: Arc<Mutex<Vec<(usize, usize)>>>,
}

impl RecordingWriter {
    fn exclusively<T>(&self, work: impl FnOnce() -> T) -> T {
        assert!(
            !self.busy.swap(true, Ordering::SeqCst),
            "concurrent use of the writer"
        );
        let outcome = work();
        thread::yield_now();
        self.busy.store(false, Ordering::SeqCst);
        outcome
    }
}

impl Writer for RecordingWriter {
    type Unit = Unit;

    fn run(&mut self, units: &mut Vec<Unit>, more: &mut dyn FnMut(&mut Vec<Unit>) -> bool) {
        assert!(!units.is_empty(), "a batch without a unit");
        self.exclusively(|| {
            let mut done = 0;
            loop {
                for unit in &mut units[done..] {
                    self.ran
                        .lock()
                        .expect("not poisoned")
                        .push((unit.caller, unit.number));
                    unit.runs += 1;
                    unit.outcome = Some((unit.caller, unit.number));
                }
                let before = std::mem::replace(&mut done, units.len());
                assert!(before < done, "asked for more units and got none");
                if !self.asks || !more(units) {
                    break;
                }
            }
        });
    }
}

/// Does not wait for more units.
#[derive(Clone, Copy)]
struct NoLinger;

impl LingerPolicy for NoLinger {
    type WaitState = ();

    fn wait(&self, (): &mut (), _: &dyn Fn() -> usize) {}
}

/// Waits a few turns for more units.
#[derive(Clone, Copy)]
struct FewTurns;

impl LingerPolicy for FewTurns {
    /// Number of turns waited in this batch.
    type WaitState = usize;

    fn wait(&self, turns: &mut usize, queued: &dyn Fn() -> usize) {
        while *turns < 3 && queued() == 0 {
            *turns += 1;
            thread::yield_now();
        }
    }
}

/// Number of callers and units, and settings of the queue.
#[derive(Clone, Copy)]
struct Model<L> {
    callers: usize,
    /// Number of units that each caller submits, one after another.
    units: usize,
    linger: L,
    /// Maximum number of units in a batch.
    maximum: usize,
    /// Whether the writer asks for units that arrived meanwhile. A writer that retries a batch does not.
    asks: bool,
}

fn callers_submit<L: LingerPolicy + Send + Sync + 'static>(model: Model<L>) {
    let Model {
        callers,
        units,
        linger,
        maximum,
        asks,
    } = model;
    let notes = RecordingWriter {
        asks,
        ..RecordingWriter::default()
    };
    let commit = Arc::new(GroupCommit::new(notes.clone(), linger, maximum));
    let running: Vec<_> = (0..callers)
        .map(|caller| {
            let commit = Arc::clone(&commit);
            thread::spawn(move || {
                for number in 0..units {
                    let unit = Unit {
                        caller,
                        number,
                        runs: 0,
                        outcome: None,
                    };
                    let returned = commit.submit(unit);
                    let outcome = Some((caller, number));
                    assert_eq!(
                        returned,
                        Unit {
                            caller,
                            number,
                            runs: 1,
                            outcome
                        },
                        "the caller's own unit, run once"
                    );
                }
            })
        })
        .collect();
    // Maintenance uses the writer between two batches, never during one.
    commit.with_writer(|writer| writer.exclusively(|| ()));
    for caller in running {
        caller.join().expect("no caller panics");
    }
    let ran = notes.ran.lock().expect("not poisoned");
    assert_eq!(ran.len(), callers * units, "every unit ran exactly once");
    for caller in 0..callers {
        let own: Vec<usize> = ran
            .iter()
            .filter(|(by, _)| *by == caller)
            .map(|(_, number)| *number)
            .collect();
        assert_eq!(
            own,
            (0..units).collect::<Vec<_>>(),
            "in the order of its caller"
        );
    }
}

const LARGE_BATCH: usize = 1024;

fn explore_callers<L: LingerPolicy + Copy + Send + Sync + 'static>(model: Model<L>) {
    explore(move || callers_submit(model));
}

#[test]
fn two_callers_of_the_group_commit_get_their_own_units_back() {
    explore_callers(Model {
        callers: 2,
        units: 1,
        linger: NoLinger,
        maximum: LARGE_BATCH,
        asks: true,
    });
}

#[test]
fn many_callers_of_the_group_commit_get_their_own_units_back() {
    explore_callers(Model {
        callers: 4,
        units: 2,
        linger: NoLinger,
        maximum: LARGE_BATCH,
        asks: true,
    });
}

#[test]
fn a_lingering_leader_loses_and_blocks_no_unit() {
    explore_callers(Model {
        callers: 3,
        units: 3,
        linger: FewTurns,
        maximum: LARGE_BATCH,
        asks: true,
    });
}

#[test]
fn units_beyond_the_maximum_run_in_the_next_batch() {
    for asks in [true, false] {
        explore_callers(Model {
            callers: 4,
            units: 2,
            linger: FewTurns,
            maximum: 2,
            asks,
        });
    }
}

#[test]
fn a_leader_whose_unit_is_not_in_its_batch_gets_it_back() {
    explore_callers(Model {
        callers: 3,
        units: 2,
        linger: NoLinger,
        maximum: 1,
        asks: true,
    });
}

#[test]
fn units_submitted_during_a_retry_run_in_the_next_batch() {
    explore_callers(Model {
        callers: 3,
        units: 2,
        linger: NoLinger,
        maximum: LARGE_BATCH,
        asks: false,
    });
}

/// A group commit with a race: it enqueues a unit and then checks for a leader in two steps. `group.rs` does both under
/// the lock of its queue.
#[derive(Default)]
struct RacyCommit {
    queue: Mutex<Vec<usize>>,
    has_leader: AtomicBool,
    ran: AtomicUsize,
}

impl RacyCommit {
    fn submit(&self, unit: usize) {
        self.queue.lock().expect("not poisoned").push(unit);
        if self.has_leader.swap(true, Ordering::SeqCst) {
            return;
        }
        let batch = std::mem::take(&mut *self.queue.lock().expect("not poisoned"));
        self.ran.fetch_add(batch.len(), Ordering::SeqCst);
        self.has_leader.store(false, Ordering::SeqCst);
    }
}

#[test]
#[should_panic(expected = "a unit was left in the queue")]
fn the_checker_finds_a_unit_without_leader() {
    explore(|| {
        let commit = Arc::new(RacyCommit::default());
        let other = {
            let commit = Arc::clone(&commit);
            thread::spawn(move || commit.submit(1))
        };
        commit.submit(2);
        other.join().expect("no panic");
        assert_eq!(
            commit.ran.load(Ordering::SeqCst),
            2,
            "a unit was left in the queue"
        );
    });
}
