//! Outcome of transactions whose owning process has died, on a real server.

use cleveragents_store::{Server, database_identity};
use cleveragents_testkit::TestDatabase;

use super::{Outcome, ServerChange};
use crate::error::Error;
use crate::server::{Connection, SCRIPT, Script, Servers};

/// Connects to members by their address.
struct ByAddress;

impl Servers for ByAddress {
    fn connect(&self, alias: &str) -> Result<Connection, Error> {
        let mut client = Server::at(alias)
            .expect("an address")
            .connect()
            .expect("a server");
        Ok(Connection {
            identity: database_identity(&mut client).expect("an identity"),
            client,
            shown: alias.to_owned(),
        })
    }
}

/// A database with a table, and a change of the table that was run but not committed.
fn prepared() -> Option<(TestDatabase, ServerChange)> {
    let database = TestDatabase::postgres()?;
    database.execute_sql("CREATE TABLE t (v int)");
    let script = Script::parse(SCRIPT, b"INSERT INTO t VALUES (1), (2)").expect("a script");
    let mut change = ServerChange::new(&database.url, script);
    change.prepare(&ByAddress).expect("it runs");
    assert_eq!(change.done[0].rows, Some(2));
    Some((database, change))
}

/// The change as a later process reads it from the journal.
fn reloaded(change: &ServerChange) -> ServerChange {
    let text = serde_json::to_string(change).expect("it is stored");
    serde_json::from_str(&text).expect("it is read")
}

fn rows(database: &TestDatabase) -> u64 {
    database.count("SELECT count(*) FROM t")
}

#[test]
fn the_server_confirms_the_commit() {
    let Some((database, mut change)) = prepared() else {
        return;
    };
    assert_eq!(rows(&database), 0, "it is not committed yet");
    let stored = reloaded(&change);
    assert_eq!(
        change.commit(&ByAddress).expect("an answer"),
        Outcome::Committed
    );
    assert_eq!(rows(&database), 2);
    assert_eq!(
        stored.outcome(&ByAddress).expect("an answer"),
        Outcome::Committed
    );
}

#[test]
fn a_running_transaction_without_its_owner_is_terminated() {
    let Some((database, mut change)) = prepared() else {
        return;
    };
    // The connection is still open, as after a network failure that the server has not noticed.
    let stored = reloaded(&change);
    assert_eq!(
        stored.outcome(&ByAddress).expect("an answer"),
        Outcome::Aborted
    );
    // The process that was delayed cannot commit any more, and receives the same outcome.
    assert_eq!(
        change.commit(&ByAddress).expect("an answer"),
        Outcome::Aborted
    );
    assert_eq!(rows(&database), 0);
}

#[test]
fn a_server_process_that_dies_before_the_commit_leaves_no_rows() {
    let Some((database, mut change)) = prepared() else {
        return;
    };
    database.execute_sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'");
    assert_eq!(
        change.commit(&ByAddress).expect("an answer"),
        Outcome::Aborted
    );
    assert_eq!(rows(&database), 0);
}

#[test]
fn another_database_at_the_same_address_is_refused() {
    let (Some((_database, change)), Some(other)) = (prepared(), TestDatabase::postgres()) else {
        return;
    };
    let mut stored = reloaded(&change);
    stored.alias.clone_from(&other.url);
    let error = stored.outcome(&ByAddress).expect_err("another database");
    assert!(matches!(error, Error::Stuck(_)), "{error}");
}

#[test]
fn an_unknown_transaction_number_is_an_error() {
    let Some((_database, change)) = prepared() else {
        return;
    };
    let mut stored = reloaded(&change);
    let number = stored.number.as_mut().expect("a number");
    number.transaction = "9000000000000".to_owned();
    stored
        .outcome(&ByAddress)
        .expect_err("a number from the future");
}

#[test]
fn stored_errors_contain_no_address_or_statement() {
    let Some((_database, mut change)) = prepared() else {
        return;
    };
    change.alias = "shop".to_owned();
    let text = serde_json::to_string(&change).expect("it is stored");
    assert!(
        !text.contains("postgres:") && !text.contains("INSERT"),
        "{text}"
    );
    let shown = format!("{change:?}");
    assert!(!shown.contains("postgres:"), "{shown}");
}
