//! A bounded pool of connections: opened on demand, reused, returned on drop.

use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::Error;

/// Opens connections and checks whether they can be reused.
pub(crate) trait Connect {
    type Connection;

    /// Opens a new connection.
    fn connect(&self) -> Result<Self::Connection, Error>;

    /// Whether a returned connection can be handed out again.
    fn is_usable(&self, connection: &Self::Connection) -> bool;
}

/// Connections of one engine.
#[derive(Debug)]
pub(crate) struct Pool<C: Connect> {
    connect: C,
    maximum: usize,
    timeout: Duration,
    inner: Mutex<PoolState<C::Connection>>,
    returned: Condvar,
}

#[derive(Debug)]
struct PoolState<T> {
    idle: Vec<T>,
    open: usize,
}

impl<C: Connect> Pool<C> {
    pub(crate) fn new(connect: C, maximum: usize, timeout: Duration) -> Self {
        let inner = Mutex::new(PoolState {
            idle: Vec::new(),
            open: 0,
        });
        Self {
            connect,
            maximum: maximum.max(1),
            timeout,
            inner,
            returned: Condvar::new(),
        }
    }

    /// Hands out a connection, waiting for one to be returned when all are in use.
    pub(crate) fn get(&self) -> Result<PooledConnection<'_, C>, Error> {
        let deadline = Instant::now() + self.timeout;
        let mut inner = self.lock();
        loop {
            while let Some(connection) = inner.idle.pop() {
                if self.connect.is_usable(&connection) {
                    return Ok(PooledConnection {
                        pool: self,
                        connection: Some(connection),
                    });
                }
                inner.open -= 1;
            }
            if inner.open < self.maximum {
                inner.open += 1;
                drop(inner);
                return self.open();
            }
            let remaining = deadline.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                tracing::warn!(
                    connections = self.maximum,
                    "no database connection became available"
                );
                return Err(Error::Busy {
                    seconds: self.timeout.as_secs(),
                });
            }
            inner = self
                .returned
                .wait_timeout(inner, remaining)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    fn open(&self) -> Result<PooledConnection<'_, C>, Error> {
        // When opening fails, dropping this value frees the slot in the pool.
        let mut slot = PooledConnection {
            pool: self,
            connection: None,
        };
        slot.connection = Some(self.connect.connect()?);
        Ok(slot)
    }

    fn lock(&self) -> MutexGuard<'_, PoolState<C::Connection>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A borrowed connection, returned to the pool on drop.
#[derive(Debug)]
pub(crate) struct PooledConnection<'p, C: Connect> {
    pool: &'p Pool<C>,
    connection: Option<C::Connection>,
}

impl<C: Connect> PooledConnection<'_, C> {
    /// Closes the connection instead of returning it, because its state is unknown.
    pub(crate) fn discard(mut self) {
        drop(self.connection.take());
    }
}

impl<C: Connect> Deref for PooledConnection<'_, C> {
    type Target = C::Connection;

    fn deref(&self) -> &C::Connection {
        self.connection
            .as_ref()
            .expect("a borrowed connection stays until it is returned")
    }
}

impl<C: Connect> DerefMut for PooledConnection<'_, C> {
    fn deref_mut(&mut self) -> &mut C::Connection {
        self.connection
            .as_mut()
            .expect("a borrowed connection stays until it is returned")
    }
}

impl<C: Connect> Drop for PooledConnection<'_, C> {
    fn drop(&mut self) {
        let mut inner = self.pool.lock();
        match self.connection.take() {
            Some(connection) => inner.idle.push(connection),
            None => inner.open -= 1,
        }
        drop(inner);
        self.pool.returned.notify_one();
    }
}
