//! For tests only: a fresh database of each kind, and the size of long proofs.
//!
//! SQLite tests get a file in a temporary folder. PostgreSQL tests get a database of their own on
//! the server that `CLEVERAGENTS_TEST_POSTGRES_URL` names (`scripts/test` starts one); without it
//! they say so and pass, unless `CLEVERAGENTS_TEST_REQUIRE_ALL` is set.

#![expect(clippy::print_stderr, clippy::expect_used, reason = "test support")]

use std::sync::atomic::{AtomicU32, Ordering};

use postgres::{Client, NoTls};

/// A database that exists for one test.
#[derive(Debug)]
pub struct TestDatabase {
    /// Its URL.
    pub url: String,
    /// `sqlite` or `postgres`, for messages.
    pub kind: &'static str,
    guard: Guard,
}

#[derive(Debug)]
enum Guard {
    Folder(tempfile::TempDir),
    Server { address: String, database: String },
}

impl TestDatabase {
    /// A new SQLite file.
    pub fn sqlite() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let url = format!("sqlite://{}", folder.path().join("test.db").display());
        Self { url, kind: "sqlite", guard: Guard::Folder(folder) }
    }

    /// A new database on the test server, `None` when there is no server.
    pub fn postgres() -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let Ok(address) = std::env::var("CLEVERAGENTS_TEST_POSTGRES_URL") else {
            assert!(
                std::env::var_os("CLEVERAGENTS_TEST_REQUIRE_ALL").is_none(),
                "CLEVERAGENTS_TEST_POSTGRES_URL is not set, and every test must run"
            );
            eprintln!("NOT RUN on PostgreSQL: CLEVERAGENTS_TEST_POSTGRES_URL is not set");
            return None;
        };
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let database = format!("ca_test_{}_{number}", std::process::id());
        administer(&address, &format!("CREATE DATABASE {database}"));
        let (server, _) = address.rsplit_once('/').expect("the address names a database");
        let url = format!("{server}/{database}");
        Some(Self { url, kind: "postgres", guard: Guard::Server { address, database } })
    }

    /// One of each kind that can be had.
    pub fn each() -> Vec<Self> {
        std::iter::once(Self::sqlite()).chain(Self::postgres()).collect()
    }

    /// The folder of an SQLite file.
    pub fn folder(&self) -> Option<&std::path::Path> {
        match &self.guard {
            Guard::Folder(folder) => Some(folder.path()),
            Guard::Server { .. } => None,
        }
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        if let Guard::Server { address, database } = &self.guard {
            administer(address, &format!("DROP DATABASE IF EXISTS {database} WITH (FORCE)"));
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "makes and drops the databases of tests")]
fn administer(address: &str, sql: &str) {
    let mut client = Client::connect(address, NoTls).expect("the test server answers");
    client.batch_execute(sql).expect("the test server obeys");
}

/// How large a long proof should be: `small` in CI, `full` by `CLEVERAGENTS_PROOF=full`.
pub fn proof_size(small: usize, full: usize) -> usize {
    match std::env::var("CLEVERAGENTS_PROOF").as_deref() {
        Ok("full") => full,
        _ => small,
    }
}
