//! [`TestDatabase`]: a database for one test, opened through the store, or directly to damage or inspect it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use cleveragents_store::{DatabaseUrl, Engine, EngineCache, Options};
use postgres::{Client, NoTls, SimpleQueryMessage};

/// A database that exists for one test.
#[derive(Debug)]
pub struct TestDatabase {
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
    /// Creates a new SQLite file.
    pub fn sqlite() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let url = format!("sqlite://{}", folder.path().join("test.db").display());
        Self {
            url,
            kind: "sqlite",
            guard: Guard::Folder(folder),
        }
    }

    /// Creates a new database on the test server; `None` without a test server.
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
        connect(&address)
            .batch_execute(&format!("CREATE DATABASE {database}"))
            .expect("the test server makes a database");
        let (server, _) = address
            .rsplit_once('/')
            .expect("the address names a database");
        let url = format!("{server}/{database}");
        Some(Self {
            url,
            kind: "postgres",
            guard: Guard::Server { address, database },
        })
    }

    /// One database of each available kind.
    pub fn each() -> Vec<Self> {
        std::iter::once(Self::sqlite())
            .chain(Self::postgres())
            .collect()
    }

    /// Directory of the SQLite file.
    pub fn folder(&self) -> Option<&Path> {
        match &self.guard {
            Guard::Folder(folder) => Some(folder.path()),
            Guard::Server { .. } => None,
        }
    }

    /// Path of the SQLite file.
    pub fn file(&self) -> PathBuf {
        self.folder()
            .expect("an SQLite database is in a folder")
            .join("test.db")
    }

    pub fn parsed_url(&self) -> DatabaseUrl {
        DatabaseUrl::parse(&self.url, Path::new("/")).expect("test databases have valid URLs")
    }

    /// Opens a separate engine, as another process would.
    pub fn open(&self) -> Arc<Engine> {
        EngineCache::new(Options::default())
            .open(&self.parsed_url())
            .expect("test databases can be opened")
    }

    /// Changes the database directly, bypassing the store.
    pub fn execute_sql(&self, sql: &str) {
        self.try_execute_sql(sql)
            .expect("the direct statement runs");
    }

    /// Tries to change the database directly; returns the error of the database.
    pub fn try_execute_sql(&self, sql: &str) -> Result<(), String> {
        match &self.guard {
            Guard::Folder(_) => connect_file(&self.file())
                .execute_batch(sql)
                .map_err(|error| error.to_string()),
            Guard::Server { .. } => connect(&self.url).batch_execute(sql).map_err(|error| {
                error
                    .as_db_error()
                    .map_or_else(|| error.to_string(), ToString::to_string)
            }),
        }
    }

    /// Changes any SQLite file, creating it if needed.
    pub fn write_file(path: &Path, sql: &str) {
        connect_file(path)
            .execute_batch(sql)
            .expect("the statement runs");
    }

    /// Opens a read transaction on any SQLite file. No process can write until the returned value is dropped.
    pub fn keep_reading(path: &Path) -> impl Drop + use<> {
        let connection = connect_file(path);
        connection
            .execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema;")
            .expect("the file can be read");
        connection
    }

    /// Queries any SQLite file.
    pub fn read_file(path: &Path, sql: &str) -> Vec<Vec<String>> {
        ask_file(&connect_file(path), sql).expect("the query runs")
    }

    /// Queries the database directly. Returns rows of columns as text; NULL is empty.
    pub fn ask(&self, sql: &str) -> Vec<Vec<String>> {
        match &self.guard {
            Guard::Folder(_) => ask_file(&connect_file(&self.file()), sql).expect("the query runs"),
            Guard::Server { .. } => connect(&self.url)
                .simple_query(sql)
                .expect("the query runs")
                .into_iter()
                .filter_map(|message| match message {
                    SimpleQueryMessage::Row(row) => Some(
                        (0..row.len())
                            .map(|column| row.get(column).unwrap_or_default().to_owned())
                            .collect(),
                    ),
                    _ => None,
                })
                .collect(),
        }
    }

    /// The single number that a query returns.
    pub fn count(&self, sql: &str) -> u64 {
        match self.ask(sql).as_slice() {
            [row] => row[0].parse().expect("a count"),
            rows => panic!("{sql} returned {} rows", rows.len()),
        }
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        if let Guard::Server { address, database } = &self.guard {
            connect(address)
                .batch_execute(&format!("DROP DATABASE IF EXISTS {database} WITH (FORCE)"))
                .expect("the test server drops a database");
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "tests access the database directly"
)]
fn connect(address: &str) -> Client {
    Client::connect(address, NoTls).expect("a connection to the test server")
}

#[expect(
    clippy::disallowed_methods,
    reason = "tests access the database directly"
)]
fn connect_file(path: &Path) -> rusqlite::Connection {
    let connection = rusqlite::Connection::open(path).expect("the file opens");
    connection
        .busy_timeout(std::time::Duration::from_secs(30))
        .expect("a busy timeout can be set");
    connection
}

fn ask_file(connection: &rusqlite::Connection, sql: &str) -> rusqlite::Result<Vec<Vec<String>>> {
    use rusqlite::types::Value;
    let mut statement = connection.prepare(sql)?;
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| {
        (0..columns)
            .map(|column| {
                Ok(match row.get(column)? {
                    Value::Null => String::new(),
                    Value::Integer(number) => number.to_string(),
                    Value::Real(number) => number.to_string(),
                    Value::Text(text) => text,
                    Value::Blob(bytes) => format!("{bytes:02x?}"),
                })
            })
            .collect::<rusqlite::Result<Vec<_>>>()
    })?;
    rows.collect()
}
