//! [`Server`]: the lifecycle of one server. It is started when needed, by one task regardless of the number of callers,
//! stopped when idle, and restarted after a crash.
//!
//! A server over HTTP has one connection. A program has one connection for each sandbox in which its tools are called,
//! because it sees only that sandbox. The connection without a sandbox ends when the first connection with a sandbox is
//! made.
//!
//! The state is behind a lock that is held for a few instructions only, never across an await. A request counts as in
//! flight from the moment when its connection is looked up until its response arrives. The lock also guards the
//! decision that a server is idle, so a busy server is never stopped. Every task belongs to the tracker of the
//! [`Servers`](crate::Servers) and ends with it.

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
use crate::listing::Listing;
use crate::notifications::ListChanges;
use crate::resolve::{self, Secrets};
use crate::servers::Options;

/// Interval at which a connection is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// Delay before a changed list is fetched. Further notifications within this time cause no further request.
const DEBOUNCE: Duration = Duration::from_millis(200);

pub(crate) type ConnectResult = Result<Arc<ServerConnection>, McpError>;

/// A connection that is established or being established.
#[derive(Clone)]
pub(crate) struct Attempt {
    number: usize,
    outcome: watch::Receiver<Option<ConnectResult>>,
}

/// A connection and its sandbox.
struct Connection {
    attempt: Attempt,
    /// Directories that the program can access in addition to its definition; empty for servers over HTTP.
    folders: WorkspaceFolders,
    in_flight: usize,
    last_used: Instant,
}

impl Attempt {
    /// Returns whether the connection was established and then lost.
    fn has_crashed(&self) -> bool {
        matches!(&*self.outcome.borrow(), Some(Ok(link)) if link.is_dead())
    }

    /// Closes the connection. The task that supervises it then releases its resources.
    fn cancel(&self) {
        if let Some(Ok(link)) = &*self.outcome.borrow() {
            link.service.cancellation_token().cancel();
        }
    }

    /// Returns whether the connection failed or was lost, so that a new one is needed.
    fn has_ended(&self) -> bool {
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
    list_changes: Arc<ListChanges>,
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

/// Marks a request as in flight on the connection with this number. The mark is removed when the value is dropped.
pub(crate) struct InFlight(Arc<Server>, usize);

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        if let Some(connection) = state.connection(self.1) {
            connection.in_flight -= 1;
            connection.last_used = Instant::now();
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
            list_changes: Arc::default(),
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

    /// Returns whether there is a live connection.
    pub(crate) fn is_connected(&self) -> bool {
        self.newest_connection().is_some()
    }

    /// The newest live connection.
    fn newest_connection(&self) -> Option<Arc<ServerConnection>> {
        let state = self.lock();
        let mut connections = state.connections.iter().rev();
        connections.find_map(|connection| match &*connection.attempt.outcome.borrow() {
            Some(Ok(link)) if !link.is_dead() => Some(Arc::clone(link)),
            _ => None,
        })
    }

    /// End of the running server's standard error.
    pub(crate) fn log(&self) -> String {
        self.newest_connection()
            .map(|link| link.log())
            .unwrap_or_default()
    }

    pub(crate) fn closed(&self) -> McpError {
        McpError::Unreachable {
            server: self.definition.name.clone(),
            why: "it was shut down".to_owned(),
            log: String::new(),
        }
    }

    /// Starts a request in a sandbox: finds or starts the connection of the sandbox, and counts the request as in
    /// flight.
    pub(crate) fn enter(
        self: &Arc<Self>,
        folders: WorkspaceFolders,
    ) -> Result<(InFlight, Attempt), McpError> {
        let folders = match self.definition.transport() {
            Transport::Stdio => folders,
            // A remote server has no access to the files of this machine.
            Transport::Sse | Transport::StreamableHttp => WorkspaceFolders::default(),
        };
        let mut state = self.lock();
        if self.closing.is_cancelled() {
            return Err(self.closed());
        }
        let has_ended = |connection: &Connection| connection.attempt.has_ended();
        let mut attempts = state
            .connections
            .iter()
            .map(|connection| &connection.attempt);
        let has_crashed = attempts.any(Attempt::has_crashed);
        state.has_crashed |= has_crashed;
        let (ended, live): (Vec<_>, Vec<_>) = state.connections.drain(..).partition(has_ended);
        drop(ended);
        state.connections = live;
        let mut connections = state.connections.iter();
        if let Some(index) = connections.position(|connection| connection.folders == folders) {
            let connection = &mut state.connections[index];
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
        let attempt = self.start_connection(folders.clone());
        state.connections.push(Connection {
            attempt: attempt.clone(),
            folders,
            in_flight: 1,
            last_used: Instant::now(),
        });
        Ok((InFlight(Arc::clone(self), attempt.number), attempt))
    }

    /// Starts a request that any connection can answer.
    fn enter_any(self: &Arc<Self>) -> Result<(InFlight, Attempt), McpError> {
        let folders = {
            let state = self.lock();
            let mut live = state.connections.iter().rev();
            live.find(|connection| !connection.attempt.has_ended())
                .map(|connection| connection.folders.clone())
        };
        self.enter(folders.unwrap_or_default())
    }

    /// Connects in a separate task, so that the connection continues if the caller stops waiting.
    fn start_connection(self: &Arc<Self>, folders: WorkspaceFolders) -> Attempt {
        let number = self.starts.fetch_add(1, Ordering::SeqCst);
        let (sender, outcome) = watch::channel(None);
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
            // All callers may have stopped waiting.
            let _unless_gone = sender.send(Some(opened));
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
        self.list_changes.take_stale();
        let parameters = ConnectionParameters {
            definition: Arc::clone(&self.definition),
            resolved,
            callers: Arc::clone(&self.callers),
            list_changes: Arc::clone(&self.list_changes),
            tokens: options.tokens.clone(),
            folders,
            homes: options.homes.clone(),
        };
        let time = self.definition.startup_timeout();
        let opening = async {
            let link = ServerConnection::open(parameters).await?;
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

    /// Supervises a connection: handles notifications, and closes it when it is idle or lost, or on shutdown.
    async fn supervise(&self, number: usize, link: &Arc<ServerConnection>) {
        let subscribed = Arc::clone(link);
        let ended = CancellationToken::new();
        let stopped = ended.clone();
        self.shared.tracker.spawn_on(
            async move {
                tokio::select! {
                    () = stopped.cancelled() => {}
                    () = subscribed.subscribe_to_changes() => {}
                }
            },
            &self.shared.runtime,
        );
        loop {
            tokio::select! {
                () = self.closing.cancelled() => break,
                () = sleep(CHECK_INTERVAL) => {}
                () = self.list_changes.became_stale.notified() => {
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

    /// Returns whether a connection is dead or idle, and removes it, so that no further request uses it.
    fn should_end(&self, number: usize, link: &ServerConnection) -> bool {
        let mut state = self.lock();
        let is_dead = link.is_dead();
        // No request uses a connection that is not in the list.
        let Some(connection) = state.connection(number) else {
            return true;
        };
        let is_idle = connection.in_flight == 0
            && self
                .definition
                .idle_timeout()
                .is_some_and(|limit| connection.last_used.elapsed() >= limit);
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
        if !self.list_changes.take_stale() {
            return;
        }
        // If the list cannot be fetched, keep the old one. Calls of changed tools then fail on the server.
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

    /// Returns the listing of the server, after connecting if there is no connection.
    pub(crate) async fn connect(self: &Arc<Self>) -> Result<Arc<Listing>, McpError> {
        let (_in_flight, attempt) = self.enter_any()?;
        let linked = self.link(attempt).await;
        if let Err(error) = &linked {
            self.remember_challenge(error);
        }
        linked?;
        Ok(self.listing().unwrap_or_default())
    }

    /// Secret values that are hidden in all texts of the server.
    pub(crate) fn secrets(&self) -> Secrets {
        self.lock().secrets.clone()
    }

    pub(crate) fn remember_challenge(&self, error: &McpError) {
        if let McpError::Authorization { challenge, .. } = error {
            self.lock().challenge.clone_from(challenge);
        }
    }

    /// The authentication challenge that the server sent when it last required a sign-in.
    pub(crate) fn challenge(&self) -> Option<String> {
        self.lock().challenge.clone()
    }

    /// Closes all connections. The next request opens a new connection.
    pub(crate) fn reconnect(&self) {
        let mut state = self.lock();
        state.challenge = None;
        for connection in state.connections.drain(..) {
            connection.attempt.cancel();
        }
    }

    /// Shuts the server down. Requests in flight fail.
    pub(crate) fn close(&self) {
        let _state = self.lock();
        self.closing.cancel();
    }
}

/// Closes unused connections without a sandbox. They are no longer needed once there is a connection with a sandbox.
fn retire(state: &mut ServerState) {
    let (retired, remaining): (Vec<_>, Vec<_>) = state
        .connections
        .drain(..)
        .partition(|connection| connection.folders.roots.is_empty() && connection.in_flight == 0);
    state.connections = remaining;
    for connection in retired {
        connection.attempt.cancel();
    }
}
