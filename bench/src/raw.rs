//! Raw SQLite, the upper limit for our store: one thread with prepared statements writes the same rows into the same
//! schema, with the same durability and one commit per batch of rows.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use rusqlite::{Connection, params};

/// Opens the database file of an engine directly with SQLite.
#[expect(
    clippy::disallowed_methods,
    reason = "the raw limit that engines are compared with"
)]
pub(crate) fn open(path: &Path) -> anyhow::Result<Connection> {
    let connection = Connection::open(path).context("open the raw database")?;
    connection.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA cache_size = -8000; PRAGMA temp_store = MEMORY;",
    )?;
    Ok(connection)
}

/// Appends messages to a session for `time` and returns the rate per second.
pub(crate) fn append_rate(
    connection: &mut Connection,
    session: &str,
    content: &str,
    rows_per_commit: u64,
    time: Duration,
) -> anyhow::Result<f64> {
    let started = Instant::now();
    let mut stored: u64 = 0;
    while started.elapsed() < time {
        let transaction =
            connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        {
            let mut allocate = transaction.prepare_cached(
                "UPDATE sessions SET next_sequence = next_sequence + 1, content_bytes = content_bytes + ?2, \
                 updated_at = ?3 WHERE session_id = ?1",
            )?;
            let mut number = transaction
                .prepare_cached("SELECT next_sequence FROM sessions WHERE session_id = ?1")?;
            let mut insert = transaction.prepare_cached(
                "INSERT INTO messages (message_id, session_id, sequence, role, state, content, metadata, created_at) \
                 VALUES (?1, ?2, ?3, 'user', 'complete', ?4, '{}', ?5)",
            )?;
            let mut event = transaction.prepare_cached(
                "INSERT INTO events (kind, subject, payload, occurred_at) VALUES ('session.message_appended', ?1, ?2, ?3)",
            )?;
            for _ in 0..rows_per_commit {
                let id = cleveragents_domain::MessageId::generate().to_string();
                let now = cleveragents_domain::Timestamp::now().as_micros();
                allocate.execute(params![session, 64, now])?;
                let next: i64 = number.query_row([session], |row| row.get(0))?;
                insert.execute(params![id, session, next - 1, content, now])?;
                let payload = format!(
                    "{{\"sequence\":{},\"message_id\":\"{id}\",\"role\":\"user\"}}",
                    next - 1
                );
                event.execute(params![session, payload, now])?;
            }
        }
        transaction.commit()?;
        stored += rows_per_commit;
    }
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    Ok(stored as f64 / started.elapsed().as_secs_f64())
}

/// Commits `rows` steps of a run, one row per commit, and returns the rate per second.
pub(crate) fn commit_rate(
    connection: &mut Connection,
    run: &str,
    step: &str,
    rows: u32,
) -> anyhow::Result<f64> {
    let started = Instant::now();
    for number in 0..rows {
        let transaction =
            connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        transaction
            .prepare_cached(
                "INSERT INTO run_steps (run_id, number, path, step, stored_at) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![run, number, format!("raw#{number}"), step, number])?;
        transaction.commit()?;
    }
    Ok(f64::from(rows) / started.elapsed().as_secs_f64())
}
