//! Engines: one open database each, shared through the [`EngineCache`].

use std::any::Any;
use std::cell::Cell;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::cache::Cache;
use crate::dialect::Dialect;
use crate::error::Error;
use crate::migrate::Policy;
use crate::postgres::PostgresEngine;
use crate::sqlite::SqliteEngine;
use crate::transaction::{Reader, Transaction, Unit, UnitDecision, UnitOfWork};
use crate::url::{DatabaseUrl, Target};

/// Callback for the progress of long operations, called with (completed, total).
pub type ProgressCallback = Arc<dyn Fn(u64, u64) + Send + Sync>;

/// Settings for opening engines.
#[derive(Clone)]
pub struct Options {
    /// Maximum wait for other processes before failing with `busy`.
    pub busy_timeout: Duration,
    /// Maximum number of connections of an engine. SQLite's single writing connection does not count.
    pub connections: usize,
    /// Receives the progress of migrations.
    pub progress: Option<ProgressCallback>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            busy_timeout: Duration::from_secs(30),
            connections: 8,
            progress: None,
        }
    }
}

/// The engines of this process, one per database.
///
/// Any number of threads asking for one URL at the same moment get the same engine, opened and migrated once. Different
/// URLs do not wait for each other, a failure is not cached, and an engine is closed when its last user drops it.
pub struct EngineCache {
    engines: Cache<DatabaseUrl, Engine>,
    options: Options,
}

impl EngineCache {
    /// Creates an empty cache whose engines are opened with `options`.
    pub fn new(options: Options) -> Self {
        Self {
            engines: Cache::new(),
            options,
        }
    }

    /// Returns the engine of a database; the first caller opens and migrates it.
    pub fn open(&self, url: &DatabaseUrl) -> Result<Arc<Engine>, Error> {
        self.engines
            .get_or_build(url, || Engine::open(url, &self.options, Policy::Upgrade))
    }

    /// Opens the database for reading, without migrating or sharing it. Writes fail.
    pub fn read_only(&self, url: &DatabaseUrl) -> Result<Engine, Error> {
        Engine::open(url, &self.options, Policy::Read)
    }

    /// Opens the database without migrating or sharing it, to inspect its state.
    pub fn inspect(&self, url: &DatabaseUrl) -> Result<Engine, Error> {
        Engine::open(url, &self.options, Policy::Inspect)
    }
}

/// Hook that runs after each commit.
type WrittenHook = Box<dyn Fn() + Send + Sync>;

/// Identity recorded for writes when none was set.
const DEFAULT_IDENTITY: &str = "local user";

/// An open database together with the identity that uses it. Events and audit entries record that identity.
pub struct Engine {
    url: DatabaseUrl,
    backend: Arc<Backend>,
    identity: Arc<str>,
    /// Whether units of work are rolled back after they succeeded.
    is_rehearsal: bool,
    /// Hook that runs after each commit; set at most once.
    commit_hook: Arc<OnceLock<WrittenHook>>,
    /// The cached engine from which [`acting_as`](Self::acting_as) made this one. Holding it keeps the cache from
    /// opening the database a second time.
    _origin: Option<Arc<Self>>,
}

pub(crate) enum Backend {
    Sqlite(SqliteEngine),
    Postgres(PostgresEngine),
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Engine")
            .field("url", &self.url.to_string())
            .finish_non_exhaustive()
    }
}

impl Engine {
    fn open(url: &DatabaseUrl, options: &Options, policy: Policy) -> Result<Self, Error> {
        let backend = match url.target() {
            Target::Postgres(address) => Backend::Postgres(PostgresEngine::open(
                address,
                &url.to_string(),
                options,
                policy,
            )?),
            target => Backend::Sqlite(SqliteEngine::open(target, options, policy)?),
        };
        Ok(Self {
            url: url.clone(),
            backend: Arc::new(backend),
            identity: DEFAULT_IDENTITY.into(),
            is_rehearsal: false,
            commit_hook: Arc::default(),
            _origin: None,
        })
    }

    /// Returns a handle to the same open database for another identity.
    #[must_use]
    pub fn acting_as(self: &Arc<Self>, identity: &str) -> Arc<Self> {
        self.derived(identity.into(), self.is_rehearsal)
    }

    /// Returns a handle whose units of work run as usual, with all constraints, and are then rolled back: their outcome
    /// is that of a real run, and the database stays as it is. A unit does not see the writes of an earlier one.
    #[must_use]
    pub fn rehearsing(self: &Arc<Self>) -> Arc<Self> {
        self.derived(Arc::clone(&self.identity), true)
    }

    fn derived(self: &Arc<Self>, identity: Arc<str>, is_rehearsal: bool) -> Arc<Self> {
        Arc::new(Self {
            url: self.url.clone(),
            backend: Arc::clone(&self.backend),
            identity,
            is_rehearsal,
            commit_hook: Arc::clone(&self.commit_hook),
            _origin: Some(Arc::clone(self)),
        })
    }

    /// Calls `hook` after each unit of work that this process commits from now on. Only the first hook is kept; returns
    /// `false` for later ones.
    pub fn when_written(&self, hook: impl Fn() + Send + Sync + 'static) -> bool {
        self.commit_hook.set(Box::new(hook)).is_ok()
    }

    /// Identity recorded for writes through this engine.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// URL of the open database.
    pub const fn url(&self) -> &DatabaseUrl {
        &self.url
    }

    /// The kind of database.
    pub const fn dialect(&self) -> Dialect {
        self.url.dialect()
    }

    /// Name of the database on its server, as [`crate::database_identity`] computes it. `None` for SQLite.
    pub fn server_identity(&self) -> Result<Option<String>, Error> {
        match &*self.backend {
            Backend::Sqlite(_) => Ok(None),
            Backend::Postgres(engine) => engine
                .maintain(crate::postgres::PostgresConnection::identity)
                .map(Some),
        }
    }

    pub(crate) fn backend(&self) -> &Backend {
        &self.backend
    }

    /// Runs a unit of work: all of it becomes durable, or none of it.
    ///
    /// Returns once the commit is on disk. The closure may run more than once and on another caller's thread, so it
    /// must have no effects except through the unit. It must not use the engine.
    pub fn write<T, E, F>(&self, work: F) -> Result<T, E>
    where
        F: FnMut(&mut UnitOfWork<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let _guard = EngineGuard::enter()?;
        let mut unit: Box<dyn Unit> = Box::new(ClosureUnit {
            closure: work,
            identity: Arc::clone(&self.identity),
            is_rehearsal: self.is_rehearsal,
            outcome: None,
        });
        let unit = match &*self.backend {
            Backend::Sqlite(engine) => engine.write(unit),
            Backend::Postgres(engine) => {
                engine.write(unit.as_mut());
                unit
            }
        };
        let outcome = (unit as Box<dyn Any>)
            .downcast::<ClosureUnit<T, E, F>>()
            .ok()
            .and_then(|unit| unit.outcome)
            .unwrap_or_else(|| {
                Err(Error::Internal("a unit of work ended without an outcome".to_owned()).into())
            });
        if outcome.is_ok()
            && !self.is_rehearsal
            && let Some(hook) = self.commit_hook.get()
        {
            hook();
        }
        outcome
    }

    /// Reads from one consistent snapshot of the database, without waiting for writers.
    pub fn read<T, E: From<Error>>(
        &self,
        work: impl FnOnce(&mut dyn Reader) -> Result<T, E>,
    ) -> Result<T, E> {
        let _guard = EngineGuard::enter()?;
        // The backends take a trait object, so that they are compiled once and not for every closure.
        let (mut work, mut outcome) = (Some(work), None);
        let mut run_once = |reader: &mut dyn Reader| {
            outcome = work.take().map(|work| work(reader));
        };
        match &*self.backend {
            Backend::Sqlite(engine) => engine.read(&mut run_once),
            Backend::Postgres(engine) => engine.read(&mut run_once),
        }?;
        outcome.unwrap_or_else(|| {
            Err(Error::Internal("a read ended without an outcome".to_owned()).into())
        })
    }
}

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Marks that this thread is inside an engine. A closure that used the engine again would deadlock with itself, so the
/// nested call is refused.
struct EngineGuard;

impl EngineGuard {
    fn enter() -> Result<Self, Error> {
        if INSIDE.replace(true) {
            return Err(Error::Internal(
                "the engine was used inside one of its own units of work".to_owned(),
            ));
        }
        Ok(Self)
    }
}

impl Drop for EngineGuard {
    fn drop(&mut self) {
        INSIDE.set(false);
    }
}

/// A closure together with a slot for its outcome, which the caller reads.
struct ClosureUnit<T, E, F> {
    closure: F,
    identity: Arc<str>,
    is_rehearsal: bool,
    outcome: Option<Result<T, E>>,
}

impl<T, E, F> Unit for ClosureUnit<T, E, F>
where
    F: FnMut(&mut UnitOfWork<'_>) -> Result<T, E> + Send + 'static,
    T: Send + 'static,
    E: From<Error> + Send + 'static,
{
    fn run(&mut self, transaction: &mut dyn Transaction) -> UnitDecision {
        let mut unit = UnitOfWork::new(transaction, Arc::clone(&self.identity));
        let outcome = (self.closure)(&mut unit).and_then(|value| {
            unit.finish()?;
            Ok(value)
        });
        let decision = match (&outcome, unit.has_written()) {
            (Ok(_), _) if !self.is_rehearsal => UnitDecision::Commit,
            (_, true) => UnitDecision::RollBack,
            (_, false) => UnitDecision::Untouched,
        };
        self.outcome = Some(outcome);
        decision
    }

    fn fail(&mut self, error: Error) {
        // A unit that already failed keeps its first error.
        if !matches!(self.outcome, Some(Err(_))) {
            self.outcome = Some(Err(error.into()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{DatabaseUrl, EngineCache, Options};

    #[test]
    fn engines_of_different_identities_share_the_database() {
        let cache = EngineCache::new(Options::default());
        let url = DatabaseUrl::memory("shared");
        let acting = cache.open(&url).expect("opens").acting_as("ada");
        assert_eq!(acting.identity(), "ada");
        let other = cache.open(&url).expect("opens");
        assert!(std::ptr::eq(acting.backend(), other.backend()));
        assert_eq!(other.identity(), super::DEFAULT_IDENTITY);
    }

    #[test]
    fn the_cache_drops_unused_databases() {
        let cache = EngineCache::new(Options::default());
        let open_engine = cache.open(&DatabaseUrl::memory("kept")).expect("opens");
        for number in 0..20 {
            drop(
                cache
                    .open(&DatabaseUrl::memory(format!("passing {number}")))
                    .expect("opens"),
            );
        }
        assert!(
            cache.engines.slot_count() <= 2,
            "{}",
            cache.engines.slot_count()
        );
        drop(open_engine);
    }
}
