//! [`Server`]: the lifecycle of one server: started when needed, by a single task however many callers there are,
//! stopped when idle, restarted after a crash.
//!
//! A server over HTTP has one connection. A program has one for each sandbox in which its tools are called, since it
//! sees only that sandbox; the connection without a sandbox ends when the first one with a sandbox is made.
//!
//! The state is behind a lock that is held for a few instructions only, never across an await. A request counts as in
//! flight from before its connection is looked up until its answer arrives, under the same lock that decides on
//! idleness: a busy server is never stopped. Every task belongs to the tracker of the [`Servers`](crate::Servers) and
//! ends with it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use cleveragents_tools::ports::WorkspaceFolders;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::callers::Callers;
use crate::connection::{ConnectionParameters, ServerConnection};
use crate::definition::{ServerDefinition, Transport};
use crate::driver::Engine;
use crate::error::{McpError, STARTING};
use crate::handler::ListChanges;
use crate::listing::Listing;
use crate::resolve::{self, Secrets};
use crate::servers::Options;

/// Interval at which a connection is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// Notifications of changed lists within this time are handled together.
const DEBOUNCE: Duration = Duration::from_millis(200);

pub(crate) type ConnectResult = Result<Arc<ServerConnection>, McpError>;

/// A connection that exists or is being made.
#[derive(Clone)]
pub(crate) struct Attempt {
    number: usize,
    outcome: watch::Receiver<Option<ConnectResult>>,
}

/// A connection and the sandbox it is for.
struct Connection {
    attempt: Attempt,
    /// Directories that the program sees in addition to those of its definition; none for servers over HTTP.
    folders: WorkspaceFolders,
    in_flight: usize,
    used: Instant,
}

impl Attempt {
    /// Whether the connection was established and then lost.
    fn has_crashed(&self) -> bool {
        matches!(&*self.outcome.borrow(), Some(Ok(link)) if link.is_dead())
    }

    /// Ends the connection: the task that supervises it sees it closed.
    fn cancel(&self) {
        if let Some(Ok(link)) = &*self.outcome.borrow() {
            link.service.cancellation_token().cancel();
        }
    }

    /// Whether a new connection is needed.
    fn is_over(&self) -> bool {
        match &*self.outcome.borrow() {
            None => false,
            Some(Ok(link)) => link.is_dead(),
            Some(Err(_)) => true,
        }
    }
}

struct ServerState {
    connections: Vec<Connection>,
    listing: Option<Arc<Listing>>,
    has_crashed: bool,
    challenge: Option<String>,
    secrets: Secrets,
}

/// State shared by all servers.
#[derive(Clone)]
pub(crate) struct ServerContext {
    pub(crate) options: Arc<Options>,
    pub(crate) runtime: Handle,
    /// Callers that wait for a server run this engine. Tasks do not keep it alive: it ends with
    /// [`Servers`](crate::Servers).
    pub(crate) engine: Weak<Engine>,
    pub(crate) tracker: TaskTracker,
}

/// One server.
pub(crate) struct Server {
    pub(crate) definition: Arc<ServerDefinition>,
    pub(crate) shared: ServerContext,
    pub(crate) callers: Arc<Callers>,
    news: Arc<ListChanges>,
    closing: CancellationToken,
    starts: AtomicUsize,
    state: Mutex<ServerState>,
}

impl ServerState {
    fn connection(&mut self, number: usize) -> Option<&mut Connection> {
        let mut connections = self.connections.iter_mut();
        connections.find(|connection| connection.attempt.number == number)
    }
}

/// A request in flight on the connection with this number, until it is dropped.
pub(crate) struct InFlight(Arc<Server>, usize);

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        if let Some(connection) = state.connection(self.1) {
            connection.in_flight -= 1;
            connection.used = Instant::now();
        }
    }
}

impl Server {
    pub(crate) fn new(
        definition: ServerDefinition,
        known: Option<Listing>,
        shared: ServerContext,
    ) -> Arc<Self> {
        Arc::new(Self {
            definition: Arc::new(definition),
            shared,
            callers: Arc::default(),
            news: Arc::default(),
            closing: CancellationToken::new(),
            starts: AtomicUsize::new(0),
            state: Mutex::new(ServerState {
                connections: Vec::new(),
                listing: known.map(Arc::new),
                has_crashed: false,
                challenge: None,
                secrets: Secrets::default(),
            }),
        })
    }

    fn lock(&self) -> MutexGuard<'_, ServerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of connections started so far.
    pub(crate) fn starts(&self) -> usize {
        self.starts.load(Ordering::SeqCst)
    }

    /// Last listing of the server, if any.
    pub(crate) fn listing(&self) -> Option<Arc<Listing>> {
        self.lock().listing.clone()
    }

    /// Whether there is a live connection.
    pub(crate) fn is_connected(&self) -> bool {
        self.current().is_some()
    }

    /// The newest live connection.
    fn current(&self) -> Option<Arc<ServerConnection>> {
        let state = self.lock();
        let mut connections = state.connections.iter().rev();
        connections.find_map(|connection| match &*connection.attempt.outcome.borrow() {
            Some(Ok(link)) if !link.is_dead() => Some(Arc::clone(link)),
            _ => None,
        })
    }

    /// End of the running server's standard error.
    pub(crate) fn log(&self) -> String {
        self.current().map(|link| link.log()).unwrap_or_default()
    }

    pub(crate) fn closed(&self) -> McpError {
        McpError::Unreachable {
            server: self.definition.name.clone(),
            why: "it was shut down".to_owned(),
            log: String::new(),
        }
    }

    /// Starts a request in a sandbox: finds its connection, or starts one, and counts as in flight.
    pub(crate) fn enter(
        self: &Arc<Self>,
        folders: WorkspaceFolders,
    ) -> Result<(InFlight, Attempt), McpError> {
        let folders = match self.definition.transport() {
            Transport::Stdio => folders,
            // A remote server sees nothing of this machine.
            Transport::Sse | Transport::StreamableHttp => WorkspaceFolders::default(),
        };
        let mut state = self.lock();
        if self.closing.is_cancelled() {
            return Err(self.closed());
        }
        let is_over = |connection: &Connection| connection.attempt.is_over();
        let crashed = state.connections.iter();
        let has_crashed = crashed.map(|one| &one.attempt).any(Attempt::has_crashed);
        state.has_crashed |= has_crashed;
        let (over, left): (Vec<_>, Vec<_>) = state.connections.drain(..).partition(is_over);
        drop(over);
        state.connections = left;
        let mut there = state.connections.iter();
        if let Some(place) = there.position(|connection| connection.folders == folders) {
            let connection = &mut state.connections[place];
            connection.in_flight += 1;
            let attempt = connection.attempt.clone();
            return Ok((InFlight(Arc::clone(self), attempt.number), attempt));
        }
        if state.has_crashed && !self.definition.auto_restart {
            return Err(McpError::Unreachable {
                server: self.definition.name.clone(),
                why: "it crashed, and `auto_restart` is off".to_owned(),
                log: String::new(),
            });
        }
        if !folders.roots.is_empty() {
            retire(&mut state);
        }
        let attempt = self.begin(folders.clone());
        state.connections.push(Connection {
            attempt: attempt.clone(),
            folders,
            in_flight: 1,
            used: Instant::now(),
        });
        Ok((InFlight(Arc::clone(self), attempt.number), attempt))
    }

    /// Starts a request that any connection can answer.
    fn enter_any(self: &Arc<Self>) -> Result<(InFlight, Attempt), McpError> {
        let folders = {
            let state = self.lock();
            let mut living = state.connections.iter().rev();
            living
                .find(|connection| !connection.attempt.is_over())
                .map(|connection| connection.folders.clone())
        };
        self.enter(folders.unwrap_or_default())
    }

    /// Connects in a separate task, so that the connection survives a caller that leaves.
    fn begin(self: &Arc<Self>, folders: WorkspaceFolders) -> Attempt {
        let number = self.starts.fetch_add(1, Ordering::SeqCst);
        let (tell, outcome) = watch::channel(None);
        let this = Arc::clone(self);
        let task = async move {
            let opened = tokio::select! {
                () = this.closing.cancelled() => Err(this.closed()),
                opened = this.open(folders) => opened,
            };
            let server = this.definition.name.as_str();
            match &opened {
                Ok(_) if number == 0 => tracing::info!(server, "MCP server started"),
                Ok(_) => tracing::info!(server, starts = number + 1, "MCP server restarted"),
                Err(error) => tracing::warn!(server, %error, "MCP server not started"),
            }
            let link = opened.as_ref().ok().cloned();
            // No caller may be waiting for it any more.
            let _unless_gone = tell.send(Some(opened));
            if let Some(link) = link {
                this.supervise(number, &link).await;
            }
        };
        self.shared.tracker.spawn_on(task, &self.shared.runtime);
        Attempt { number, outcome }
    }

    async fn open(&self, folders: WorkspaceFolders) -> ConnectResult {
        let options = &self.shared.options;
        let resolved = resolve::resolve(&self.definition, &options.variables, &options.folder)?;
        self.lock().secrets = Secrets::from_server(&resolved);
        // Notifications of an earlier connection do not concern this one.
        self.news.take();
        let making = ConnectionParameters {
            definition: Arc::clone(&self.definition),
            resolved,
            callers: Arc::clone(&self.callers),
            news: Arc::clone(&self.news),
            tokens: options.tokens.clone(),
            folders,
            homes: options.homes.clone(),
        };
        let time = self.definition.startup_timeout();
        let opening = async {
            let link = ServerConnection::open(making).await?;
            match link.list().await {
                Ok(listing) => {
                    self.lock().listing = Some(Arc::new(listing));
                    Ok(Arc::new(link))
                }
                Err(error) => {
                    link.close().await;
                    Err(error)
                }
            }
        };
        let opened = timeout(time, Box::pin(opening)).await;
        opened.unwrap_or_else(|_| {
            Err(McpError::Timeout {
                server: self.definition.name.clone(),
                what: STARTING,
                seconds: time.as_secs_f64(),
            })
        })
    }

    /// Supervises a connection until its end: idleness, notifications, crashes, shutdown.
    async fn supervise(&self, number: usize, link: &Arc<ServerConnection>) {
        let hearing = Arc::clone(link);
        let ended = CancellationToken::new();
        let heard = ended.clone();
        self.shared.tracker.spawn_on(
            async move {
                tokio::select! {
                    () = heard.cancelled() => {}
                    () = hearing.subscribe_to_changes() => {}
                }
            },
            &self.shared.runtime,
        );
        loop {
            tokio::select! {
                () = self.closing.cancelled() => break,
                () = sleep(CHECK_INTERVAL) => {}
                () = self.news.bell.notified() => {
                    tokio::select! {
                        () = self.closing.cancelled() => break,
                        () = sleep(DEBOUNCE) => {}
                    }
                    self.refresh_if_stale(link).await;
                }
            }
            if self.should_end(number, link) {
                break;
            }
        }
        ended.cancel();
        link.close().await;
    }

    /// Whether a connection is dead or idle. If so, no further request gets it.
    fn should_end(&self, number: usize, link: &ServerConnection) -> bool {
        let mut state = self.lock();
        let is_dead = link.is_dead();
        // A connection that is not in the list gets no further requests.
        let Some(connection) = state.connection(number) else {
            return true;
        };
        let is_idle = connection.in_flight == 0
            && self
                .definition
                .idle_timeout()
                .is_some_and(|most| connection.used.elapsed() >= most);
        if !is_dead && !is_idle {
            return false;
        }
        state.has_crashed |= is_dead;
        let server = self.definition.name.as_str();
        if is_dead {
            tracing::warn!(server, "MCP server exited");
        } else {
            tracing::debug!(server, "idle MCP server stopped");
        }
        let is_other = |connection: &Connection| connection.attempt.number != number;
        state.connections.retain(is_other);
        true
    }

    async fn refresh_if_stale(&self, link: &ServerConnection) {
        if !self.news.take() {
            return;
        }
        // If the list cannot be fetched, the old one stays; calls of changed tools fail by themselves.
        if let Ok(Ok(listing)) = timeout(self.definition.timeout(), link.list()).await {
            self.lock().listing = Some(Arc::new(listing));
        }
    }

    /// Returns the connection of an attempt, after refreshing an outdated list of tools.
    pub(crate) async fn link(&self, mut attempt: Attempt) -> ConnectResult {
        let outcome = attempt.outcome.wait_for(Option::is_some).await;
        let outcome = outcome.map_or_else(|_| None, |outcome| outcome.clone());
        let link = outcome.unwrap_or_else(|| Err(self.closed()))?;
        self.refresh_if_stale(&link).await;
        Ok(link)
    }

    /// Connects, unless there is a connection.
    pub(crate) async fn connect(self: &Arc<Self>) -> Result<Arc<Listing>, McpError> {
        let (_in_flight, attempt) = self.enter_any()?;
        let linked = self.link(attempt).await;
        if let Err(error) = &linked {
            self.remember_challenge(error);
        }
        linked?;
        Ok(self.listing().unwrap_or_default())
    }

    /// Values that must not appear in its texts.
    pub(crate) fn secrets(&self) -> Secrets {
        self.lock().secrets.clone()
    }

    pub(crate) fn remember_challenge(&self, error: &McpError) {
        if let McpError::Authorization { challenge, .. } = error {
            self.lock().challenge.clone_from(challenge);
        }
    }

    /// The challenge with which it last required a sign-in.
    pub(crate) fn challenge(&self) -> Option<String> {
        self.lock().challenge.clone()
    }

    /// Drops the connection; the next request makes a new one.
    pub(crate) fn reconnect(&self) {
        let mut state = self.lock();
        state.challenge = None;
        for connection in state.connections.drain(..) {
            connection.attempt.cancel();
        }
    }

    /// Ends all connections; requests in flight fail.
    pub(crate) fn close(&self) {
        let _state = self.lock();
        self.closing.cancel();
    }
}

/// Ends unused connections without a sandbox: calls in a sandbox need another one.
fn retire(state: &mut ServerState) {
    let (retired, left): (Vec<_>, Vec<_>) = state
        .connections
        .drain(..)
        .partition(|one| one.folders.roots.is_empty() && one.in_flight == 0);
    state.connections = left;
    for connection in retired {
        connection.attempt.cancel();
    }
}
