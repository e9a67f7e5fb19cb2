//! One engine per database and process, under any concurrency.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cleveragents_domain::{PlanId, Timestamp};
use cleveragents_store::{DatabaseUrl, Engine, EngineCache, Error, Migration, Options, plans};
use cleveragents_testkit::{TestDatabase, at_once};

const THREADS: usize = 64;

fn add_plan(engine: &Engine) -> PlanId {
    let id = PlanId::generate();
    engine
        .write(move |unit| {
            plans::insert(unit, &plans::NewPlan::empty(id))?;
            Ok::<_, Error>(id)
        })
        .expect("stored")
}

fn has_plan(engine: &Engine, id: PlanId) -> bool {
    engine
        .read(|reader| plans::get(reader, id))
        .expect("read")
        .is_some()
}

/// Checks all requirements of the original report (defect 7566) for one URL.
fn many_openers_share_one_engine(url: &DatabaseUrl) {
    let runs = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let progress: cleveragents_store::ProgressCallback = {
        let runs = Arc::clone(&runs);
        Arc::new(move |done, whole| {
            if done == whole {
                runs.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            }
        })
    };
    let cache = EngineCache::new(Options {
        progress: Some(progress),
        ..Options::default()
    });
    let opened = at_once(THREADS, |_| {
        let engine = cache.open(url).expect("opens");
        let written = add_plan(&engine);
        (engine, written)
    });
    let (first, _) = &opened[0];
    for (engine, _) in &opened {
        assert!(Arc::ptr_eq(engine, first), "one engine for all of {url}");
        for (_, written) in &opened {
            assert!(
                has_plan(engine, *written),
                "a row written through one handle is visible through all"
            );
        }
    }
    assert_eq!(
        runs.load(std::sync::atomic::Ordering::SeqCst),
        1,
        "the last migration ran once"
    );
    let applied = first.status().expect("status").applied;
    let versions: Vec<u64> = applied.iter().map(|migration| migration.version).collect();
    assert_eq!(versions, (1..=Migration::newest()).collect::<Vec<_>>());
}

#[test]
fn defect_7566_many_threads_opening_one_database_in_memory_get_the_same_engine() {
    for text in ["sqlite::memory:", "sqlite:file:shared?mode=memory"] {
        many_openers_share_one_engine(&DatabaseUrl::parse(text, Path::new("/")).expect("a URL"));
    }
}

#[test]
fn defect_7566_many_threads_opening_one_new_database_get_the_same_engine() {
    for database in TestDatabase::each() {
        many_openers_share_one_engine(&database.parsed_url());
        assert_eq!(
            database.count("SELECT COUNT(*) FROM schema_migrations"),
            Migration::newest()
        );
        assert_eq!(database.count("SELECT COUNT(*) FROM plans"), THREADS as u64);
    }
}

#[test]
fn two_spellings_of_one_file_are_one_engine() {
    let database = TestDatabase::sqlite();
    let folder = database.folder().expect("a folder");
    std::fs::create_dir(folder.join("sub")).expect("made");
    let cache = EngineCache::new(Options::default());
    let parse = |text: &str| DatabaseUrl::parse(text, folder).expect("a URL");
    let plain = cache.open(&parse(&database.url)).expect("opens");
    for text in [
        "sqlite:test.db",
        "sqlite:./test.db",
        "sqlite:sub/../test.db",
    ] {
        let other = cache.open(&parse(text)).expect("opens");
        assert!(Arc::ptr_eq(&plain, &other), "{text}");
    }
}

#[test]
fn a_url_that_failed_works_after_its_cause_is_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = folder.path().join("missing");
    let url = DatabaseUrl::file(&missing.join("x.db"), Path::new("/"));
    let cache = EngineCache::new(Options::default());
    for outcome in at_once(16, |_| cache.open(&url)) {
        assert!(
            matches!(outcome, Err(Error::Unavailable { .. })),
            "{outcome:?}"
        );
    }
    assert!(!missing.exists(), "a failure leaves nothing behind");
    std::fs::create_dir(&missing).expect("made");
    let opened = at_once(16, |_| cache.open(&url).expect("the cause is removed"));
    assert!(opened.iter().all(|engine| Arc::ptr_eq(engine, &opened[0])));
    assert!(has_plan(&opened[1], add_plan(&opened[0])));
}

/// The test locks the lock file of a new database, so that opening this database cannot finish. Meanwhile it opens
/// other URLs.
#[test]
fn two_urls_do_not_wait_for_each_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let locked_database = folder.path().join("held.db");
    let lock = std::fs::File::create(folder.path().join("held.db.lock")).expect("made");
    lock.lock().expect("locked");
    let cache = EngineCache::new(Options::default());
    let held_url = DatabaseUrl::file(&locked_database, Path::new("/"));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| cache.open(&held_url));
        // The test cannot observe whether the blocked thread has begun to open its database. Opening several other URLs
        // takes long enough.
        for number in 0..20 {
            let other = folder.path().join(format!("other-{number}.db"));
            let engine = cache
                .open(&DatabaseUrl::file(&other, Path::new("/")))
                .expect("opens");
            assert!(has_plan(&engine, add_plan(&engine)));
        }
        assert!(!waiting.is_finished(), "the locked database still waits");
        assert!(
            !locked_database.exists(),
            "no file is created without the lock"
        );
        drop(lock);
        let engine = waiting
            .join()
            .expect("no panic")
            .expect("opens after the lock is released");
        assert!(has_plan(&engine, add_plan(&engine)));
    });
}

#[test]
fn a_lock_that_is_never_released_results_in_busy() {
    let folder = tempfile::tempdir().expect("a folder");
    let lock = std::fs::File::create(folder.path().join("x.db.lock")).expect("made");
    lock.lock().expect("locked");
    let options = Options {
        busy_timeout: Duration::from_millis(50),
        ..Options::default()
    };
    let url = DatabaseUrl::file(&folder.path().join("x.db"), Path::new("/"));
    let outcome = EngineCache::new(options).open(&url);
    assert!(matches!(outcome, Err(Error::Busy { .. })), "{outcome:?}");
}

#[test]
fn the_last_handle_frees_a_database_in_memory() {
    let url = DatabaseUrl::memory("freed");
    let cache = EngineCache::new(Options::default());
    let engine = cache.open(&url).expect("opens");
    let second = Arc::clone(&engine);
    let id = add_plan(&engine);
    drop(engine);
    assert!(
        has_plan(&cache.open(&url).expect("opens"), id),
        "one handle still exists"
    );
    drop(second);
    assert!(
        !has_plan(&cache.open(&url).expect("opens"), id),
        "the last handle released it"
    );
}

#[test]
fn the_last_handle_closes_a_file_and_merges_its_log() {
    let database = TestDatabase::sqlite();
    let engine = database.open();
    let id = add_plan(&engine);
    assert!(
        database.file().with_extension("db-wal").exists(),
        "a log while it is open"
    );
    drop(engine);
    assert!(
        !database.file().with_extension("db-wal").exists(),
        "no log after it is closed"
    );
    assert!(has_plan(&database.open(), id));
}

/// A read that panics must not leave its transaction open on the connection.
#[test]
fn a_panic_in_a_read_does_not_affect_later_reads() {
    let memory = DatabaseUrl::memory("panics");
    let databases = TestDatabase::each();
    let urls = databases
        .iter()
        .map(TestDatabase::parsed_url)
        .chain([memory]);
    for url in urls {
        // A single connection, so that the next read uses the connection of the panic.
        let cache = EngineCache::new(Options {
            connections: 1,
            ..Options::default()
        });
        let engine = cache.open(&url).expect("opens");
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            engine.read(|reader| -> Result<(), Error> {
                plans::get(reader, PlanId::generate())?;
                panic!("a bug in a reader")
            })
        }));
        assert!(panicked.is_err());
        if let Some(database) = databases
            .iter()
            .find(|database| database.parsed_url() == url)
        {
            let id = add_plan(&database.open());
            assert!(has_plan(&engine, id), "{url} does not read an old snapshot");
        }
        let id = add_plan(&engine);
        assert!(has_plan(&engine, id), "{url} still works");
    }
}

#[test]
fn a_database_is_inspected_without_being_migrated() {
    let database = TestDatabase::sqlite();
    let cache = EngineCache::new(Options::default());
    let outcome = cache.inspect(&database.parsed_url());
    assert!(
        matches!(outcome, Err(Error::Unavailable { .. })),
        "{outcome:?}"
    );
    assert!(!database.file().exists(), "inspecting creates no file");
    for database in TestDatabase::each() {
        database.execute_sql("CREATE TABLE other (x INTEGER)");
        let status = cache
            .inspect(&database.parsed_url())
            .expect("opens")
            .status()
            .expect("read");
        assert_eq!(status.schema_version, 0);
        assert_eq!(
            status.pending,
            (1..=Migration::newest()).collect::<Vec<_>>()
        );
        assert!(status.applied.is_empty());
        drop(database.open());
        let status = cache
            .inspect(&database.parsed_url())
            .expect("opens")
            .status()
            .expect("read");
        assert_eq!(
            (status.schema_version, status.pending),
            (Migration::newest(), vec![])
        );
        assert!(
            status
                .applied
                .iter()
                .all(|migration| migration.applied_at <= Timestamp::now())
        );
    }
}

/// A write to a file that no later process can open must not be acknowledged.
#[test]
fn a_database_that_was_replaced_or_deleted_is_not_written_to() {
    use cleveragents_domain::Diagnose as _;
    for is_replaced in [false, true] {
        let database = TestDatabase::sqlite();
        let engine = database.open();
        let write =
            || engine.write(|unit| plans::insert(unit, &plans::NewPlan::empty(PlanId::generate())));
        write().expect("written");
        let file = database.file();
        let moved_file = file.with_extension("aside");
        std::fs::rename(&file, &moved_file).expect("renamed");
        if is_replaced {
            std::fs::copy(&moved_file, &file).expect("copied");
        }
        let code = cleveragents_domain::Code::DatabaseUnavailable;
        assert_eq!(write().expect_err("refused").code(), code);
        let read = engine.read(|reader| cleveragents_store::events::newest(reader));
        assert_eq!(read.expect_err("refused").code(), code);
        // The database is usable again after the file is restored.
        std::fs::rename(&moved_file, &file).expect("renamed");
        write().expect("written");
    }
}
