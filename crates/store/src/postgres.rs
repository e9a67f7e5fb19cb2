//! The PostgreSQL engine: pooled connections, one transaction per unit of work.
//!
//! Units run at READ COMMITTED and rely on the row locks of their writing statements to resolve
//! races; a deadlock or serialization failure runs the unit again. Reads are repeatable and
//! read-only.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use ::postgres::error::SqlState;
use ::postgres::fallible_iterator::FallibleIterator;
use ::postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use ::postgres::{Client, Statement};

use crate::Options;
use crate::dialect::{Dialect, numbered_for_postgres};
use crate::error::Error;
use crate::migrate::{self, Policy};
use crate::pool::{Connect, Pool};
use crate::server::{Server, database_identity};
use crate::transaction::{Reader, Transaction, Unit, UnitDecision};
use crate::url::chain;
use crate::value::{Param, Row, Value};

/// Maximum number of attempts for a unit that conflicts with others.
const ATTEMPTS: u32 = 10;

/// An open PostgreSQL database.
pub(crate) struct PostgresEngine {
    pool: Pool<OpenConnection>,
}

impl PostgresEngine {
    pub(crate) fn open(
        address: &str,
        shown: &str,
        options: &Options,
        policy: Policy,
    ) -> Result<Self, Error> {
        let open = OpenConnection {
            server: Server::parse(address, shown)?,
        };
        let pool = Pool::new(open, options.connections, options.busy_timeout);
        migrate::postgres(&mut *pool.get()?, policy, options.progress.as_ref())?;
        Ok(Self { pool })
    }

    /// Runs a unit of work, and retries it when it conflicts with another one.
    pub(crate) fn write(&self, unit: &mut dyn Unit) {
        for attempt in 0..ATTEMPTS {
            match self.try_write(unit) {
                Ok(Attempt::Settled) => return,
                Ok(Attempt::Again(error)) if attempt + 1 == ATTEMPTS => unit.fail(error),
                Ok(Attempt::Again(error)) => {
                    tracing::debug!(attempt = attempt + 1, %error, "transaction retried");
                    let noise = u64::from(std::process::id() % 7) + u64::from(attempt);
                    std::thread::sleep(Duration::from_millis(noise << attempt.min(5)));
                }
                Err(error) => return unit.fail(error),
            }
        }
    }

    fn try_write(&self, unit: &mut dyn Unit) -> Result<Attempt, Error> {
        let mut connection = self.pool.get()?;
        if let Err(error) = connection.batch("BEGIN ISOLATION LEVEL READ COMMITTED") {
            // The pooled connection may have died while idle. Nothing was sent yet, so retry on
            // another one.
            connection.discard();
            return Ok(Attempt::Again(error));
        }
        connection.transient = None;
        let decision = catch_unwind(AssertUnwindSafe(|| unit.run(&mut *connection)))
            .unwrap_or_else(|_| {
                unit.fail(Error::Internal(
                    "a unit of work panicked and was rolled back".to_owned(),
                ));
                UnitDecision::RollBack
            });
        if decision == UnitDecision::Commit {
            // PostgreSQL rolls back at COMMIT if a statement of the transaction has failed. A unit with a failed
            // statement never gets here.
            if let Err(error) = connection.batch("COMMIT") {
                connection.discard();
                return Err(Error::unavailable(
                    "on the server",
                    format!(
                        "the connection broke during the commit; whether the changes were stored is unknown ({error})"
                    ),
                ));
            }
            return Ok(Attempt::Settled);
        }
        let transient = connection.transient.take();
        if connection.batch("ROLLBACK").is_err() {
            connection.discard();
        }
        Ok(transient.map_or(Attempt::Settled, Attempt::Again))
    }

    /// Reads from one consistent snapshot.
    pub(crate) fn read(&self, work: &mut dyn FnMut(&mut dyn Reader)) -> Result<(), Error> {
        const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        let mut connection = self.pool.get()?;
        if connection.batch(BEGIN).is_err() {
            connection.discard();
            connection = self.pool.get()?;
            connection.batch(BEGIN)?;
        }
        connection.reading = true;
        work(&mut *connection);
        connection.reading = false;
        if connection.batch("ROLLBACK").is_err() {
            connection.discard();
        }
        Ok(())
    }

    /// Uses a connection outside of any transaction, for maintenance.
    pub(crate) fn maintain<T>(
        &self,
        work: impl FnOnce(&mut PostgresConnection) -> Result<T, Error>,
    ) -> Result<T, Error> {
        work(&mut *self.pool.get()?)
    }
}

enum Attempt {
    Settled,
    Again(Error),
}

struct OpenConnection {
    server: Server,
}

impl Connect for OpenConnection {
    type Connection = PostgresConnection;

    fn connect(&self) -> Result<PostgresConnection, Error> {
        Ok(PostgresConnection {
            client: self.server.connect()?,
            statements: HashMap::new(),
            transient: None,
            reading: false,
        })
    }

    fn is_usable(&self, connection: &PostgresConnection) -> bool {
        !connection.client.is_closed() && !connection.reading
    }
}

/// A connection with its prepared statements.
pub(crate) struct PostgresConnection {
    client: Client,
    statements: HashMap<String, Statement>,
    /// Set when a statement lost a conflict with another transaction and the unit should run again.
    transient: Option<Error>,
    /// Set while a reader runs. It stays set when the reader panics, because the transaction is then still open.
    reading: bool,
}

impl PostgresConnection {
    /// Runs statements without parameters.
    pub(crate) fn batch(&mut self, sql: &str) -> Result<(), Error> {
        self.client
            .batch_execute(sql)
            .map_err(|error| translate(&error))
    }

    /// Returns a name that identifies the connected database.
    pub(crate) fn identity(&mut self) -> Result<String, Error> {
        database_identity(&mut self.client)
    }

    /// Runs a query that returns one count.
    pub(crate) fn count(&mut self, sql: &str) -> Result<u64, Error> {
        let row = self.query_first(sql, &[])?;
        row.ok_or_else(|| Error::stored("a count", "is missing"))?
            .take()
    }

    fn prepared(&mut self, sql: &str) -> Result<Statement, Error> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let outcome = self.client.prepare(&numbered_for_postgres(sql));
        let statement = outcome.map_err(|error| self.translate_and_note(&error))?;
        self.statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    fn translate_and_note(&mut self, error: &::postgres::Error) -> Error {
        let translated = translate(error);
        let retryable = [
            &SqlState::T_R_SERIALIZATION_FAILURE,
            &SqlState::T_R_DEADLOCK_DETECTED,
        ];
        if error.code().is_some_and(|code| retryable.contains(&code)) {
            self.transient = Some(translated.clone());
        }
        translated
    }
}

fn translate(error: &::postgres::Error) -> Error {
    let reason = error.as_db_error().map_or_else(
        || chain(error),
        |failure| match failure.detail() {
            Some(detail) => format!("{} ({detail})", failure.message()),
            None => failure.message().to_owned(),
        },
    );
    let class = error
        .code()
        .map_or("", |code| code.code().get(..2).unwrap_or(""));
    match (error.code(), class) {
        (Some(code), _) if *code == SqlState::DISK_FULL => Error::DiskFull,
        (Some(code), _)
            if *code == SqlState::READ_ONLY_SQL_TRANSACTION
                || *code == SqlState::INSUFFICIENT_PRIVILEGE =>
        {
            Error::ReadOnly {
                database: "on the server".to_owned(),
                reason,
            }
        }
        (Some(code), _) if *code == SqlState::LOCK_NOT_AVAILABLE => Error::Busy { seconds: 0 },
        (_, "23") => Error::Constraint(reason),
        (_, "08" | "57") | (None, _) => Error::unavailable("on the server", reason),
        _ => Error::Statement(reason),
    }
}

impl ToSql for Param<'_> {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut bytes::BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Param::Null => Ok(IsNull::Yes),
            Param::Integer(number) if *kind == Type::INT4 => {
                i32::try_from(*number)?.to_sql(kind, out)
            }
            Param::Integer(number) => number.to_sql(kind, out),
            Param::Text(text) => text.as_ref().to_sql(kind, out),
            Param::Blob(bytes) => bytes.as_ref().to_sql(kind, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

fn value(row: &::postgres::Row, column: usize) -> Result<Value, Error> {
    let failure = |error: ::postgres::Error| Error::stored("a column", chain(&error));
    let kind = row.columns()[column].type_();
    Ok(match *kind {
        Type::INT8 => row
            .try_get::<_, Option<i64>>(column)
            .map_err(failure)?
            .map_or(Value::Null, Value::Integer),
        Type::INT4 => row
            .try_get::<_, Option<i32>>(column)
            .map_err(failure)?
            .map_or(Value::Null, |number| Value::Integer(i64::from(number))),
        Type::BOOL => row
            .try_get::<_, Option<bool>>(column)
            .map_err(failure)?
            .map_or(Value::Null, |truth| Value::Integer(i64::from(truth))),
        Type::FLOAT4 => row
            .try_get::<_, Option<f32>>(column)
            .map_err(failure)?
            .map_or(Value::Null, |number| Value::Real(f64::from(number))),
        Type::FLOAT8 => row
            .try_get::<_, Option<f64>>(column)
            .map_err(failure)?
            .map_or(Value::Null, Value::Real),
        Type::BYTEA => row
            .try_get::<_, Option<Vec<u8>>>(column)
            .map_err(failure)?
            .map_or(Value::Null, Value::Blob),
        _ => row
            .try_get::<_, Option<String>>(column)
            .map_err(failure)?
            .map_or(Value::Null, Value::Text),
    })
}

impl Reader for PostgresConnection {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn query_each(
        &mut self,
        sql: &str,
        params: &[Param<'_>],
        each: &mut dyn FnMut(Row) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let statement = self.prepared(sql)?;
        let outcome = (|| -> Result<Result<(), Error>, ::postgres::Error> {
            let mut rows = self.client.query_raw(&statement, params)?;
            while let Some(row) = rows.next()? {
                let values = (0..row.len())
                    .map(|column| value(&row, column))
                    .collect::<Result<Vec<_>, _>>();
                if let Err(error) = values.map(Row::new).and_then(&mut *each) {
                    return Ok(Err(error));
                }
            }
            Ok(Ok(()))
        })();
        match outcome {
            Ok(rows) => rows,
            Err(error) => Err(self.translate_and_note(&error)),
        }
    }
}

impl Transaction for PostgresConnection {
    fn execute(&mut self, sql: &str, params: &[Param<'_>]) -> Result<u64, Error> {
        let statement = self.prepared(sql)?;
        let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|param| param as _).collect();
        let outcome = self.client.execute(&statement, &params);
        outcome.map_err(|error| self.translate_and_note(&error))
    }
}
