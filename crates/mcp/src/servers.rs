//! [`Servers`]: all servers, their runtime, and the tools they offer together.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use reqwest::Url;
use tokio_util::task::TaskTracker;

use crate::definition::ServerDefinition;
use crate::driver::Driver;
use crate::error::McpError;
use crate::listing::Listing;
use crate::oauth::TokenStore;
use crate::resolve::Variables;
use crate::server::{Server, ServerContext};

/// Default for [`Options::most_offered`].
pub const MOST_OFFERED: usize = 40;

/// Settings of all servers.
#[derive(Clone)]
pub struct Options {
    /// Returns the values of `${NAME}` in definitions.
    pub variables: Variables,
    /// Base directory for a relative `cwd` of a definition.
    pub folder: PathBuf,
    /// Parent directory of the programs' private homes, each named like its server. Without it, homes are removed with
    /// their programs.
    pub homes: Option<PathBuf>,
    /// Storage for tokens of servers over HTTP.
    pub tokens: Option<Arc<dyn TokenStore>>,
    /// Maximum number of tools offered directly; with more, the others are found through a search.
    pub most_offered: usize,
}

impl Options {
    /// No variables, no tokens, temporary homes.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            variables: Arc::new(|_| None),
            folder: folder.into(),
            homes: None,
            tokens: None,
            most_offered: MOST_OFFERED,
        }
    }
}

/// Status of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Whether there is a connection.
    pub is_connected: bool,
    /// Number of connections started so far.
    pub starts: usize,
    /// End of its program's standard error.
    pub log: String,
}

/// All servers. Dropping it ends them all.
pub struct Servers {
    by_name: RwLock<BTreeMap<String, Arc<Server>>>,
    shared: ServerContext,
    /// Dropped last, because it runs the tasks of the others.
    driver: Driver,
}

impl fmt::Debug for Servers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.names()).finish()
    }
}

impl Servers {
    /// Creates an empty set of servers.
    pub fn new(options: Options) -> io::Result<Self> {
        let driver = Driver::new()?;
        Ok(Self {
            by_name: RwLock::default(),
            shared: ServerContext {
                options: Arc::new(options),
                runtime: driver.engine().handle().clone(),
                engine: Arc::downgrade(driver.engine()),
                tracker: TaskTracker::new(),
            },
            driver,
        })
    }

    /// Adds a server. With `known`, its last listing, it is not started before one of its tools is called.
    pub fn add(
        &self,
        definition: ServerDefinition,
        known: Option<Listing>,
    ) -> Result<(), McpError> {
        let unchecked = definition.clone();
        let definition = definition
            .checked()
            .map_err(|broken| unchecked.invalid(broken))?;
        let name = definition.name.clone();
        let mut servers = self.by_name.write().unwrap_or_else(PoisonError::into_inner);
        if servers.contains_key(&name) {
            return Err(McpError::Exists(name));
        }
        let server = Server::new(definition, known, self.shared.clone());
        servers.insert(name, server);
        Ok(())
    }

    /// Removes a server and ends it. Its tools fail from now on.
    pub fn remove(&self, name: &str) -> Result<(), McpError> {
        let mut servers = self.by_name.write().unwrap_or_else(PoisonError::into_inner);
        let server = servers
            .remove(name)
            .ok_or_else(|| McpError::NotFound(name.to_owned()))?;
        server.close();
        Ok(())
    }

    /// Names of all servers, sorted.
    pub fn names(&self) -> Vec<String> {
        let servers = self.by_name.read().unwrap_or_else(PoisonError::into_inner);
        servers.keys().cloned().collect()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Server>> {
        let servers = self.by_name.read().unwrap_or_else(PoisonError::into_inner);
        servers.values().cloned().collect()
    }

    pub(crate) fn get(&self, name: &str) -> Result<Arc<Server>, McpError> {
        let servers = self.by_name.read().unwrap_or_else(PoisonError::into_inner);
        let found = servers.get(name).cloned();
        found.ok_or_else(|| McpError::NotFound(name.to_owned()))
    }

    pub(crate) fn most_offered(&self) -> usize {
        self.shared.options.most_offered
    }

    /// Status of a server.
    pub fn status(&self, name: &str) -> Result<Status, McpError> {
        let server = self.get(name)?;
        Ok(Status {
            is_connected: server.is_connected(),
            starts: server.starts(),
            log: server.log(),
        })
    }

    /// Returns the listing of a server; fetches it if necessary.
    pub fn listing(&self, name: &str) -> Result<Arc<Listing>, McpError> {
        let server = self.get(name)?;
        match server.listing() {
            Some(listing) => Ok(listing),
            None => self.connect(name),
        }
    }

    /// Connects to a server, unless there is a connection, and returns what it offers.
    pub fn connect(&self, name: &str) -> Result<Arc<Listing>, McpError> {
        let server = self.get(name)?;
        let mut outcome = self.wait_for_all(vec![server]);
        outcome
            .pop()
            .map_or_else(|| Err(McpError::NotFound(name.to_owned())), |(_, one)| one)
    }

    /// Connects to all servers concurrently and returns what each one offers, by name. It takes as long as the slowest.
    pub fn connect_all(&self) -> Vec<(String, Result<Arc<Listing>, McpError>)> {
        self.wait_for_all(self.all())
    }

    /// Connects concurrently to the servers whose tools are not known yet and to those without lazy start. Returns the
    /// ones that failed.
    pub(crate) fn prepare(&self, wanted: impl Fn(&str) -> bool) -> Vec<(String, McpError)> {
        let needed = self
            .all()
            .into_iter()
            .filter(|server| wanted(&server.definition.name))
            .filter(|server| !server.definition.lazy_start || server.listing().is_none())
            .collect();
        self.wait_for_all(needed)
            .into_iter()
            .filter_map(|(name, outcome)| Some((name, outcome.err()?)))
            .collect()
    }

    fn wait_for_all(
        &self,
        servers: Vec<Arc<Server>>,
    ) -> Vec<(String, Result<Arc<Listing>, McpError>)> {
        let waits: Vec<_> = servers
            .into_iter()
            .map(|server| {
                let name = server.definition.name.clone();
                let work = async move { server.connect().await };
                let tracker = &self.shared.tracker;
                (name, tracker.spawn_on(work, &self.shared.runtime))
            })
            .collect();
        self.driver.engine().wait(async {
            let mut outcomes = Vec::with_capacity(waits.len());
            for (name, wait) in waits {
                let outcome = wait.await.unwrap_or_else(|_| {
                    Err(McpError::Unreachable {
                        server: name.clone(),
                        why: "it was shut down".to_owned(),
                        log: String::new(),
                    })
                });
                outcomes.push((name, outcome));
            }
            outcomes
        })
    }

    /// Signs in to a server over HTTP; see [`login`](crate::login). The next call uses the new token.
    pub fn login(&self, name: &str, open: impl Fn(&Url)) -> Result<(), McpError> {
        let server = self.get(name)?;
        let challenge = server.challenge();
        let options = &self.shared.options;
        crate::login(&server.definition, options, challenge.as_deref(), open)?;
        server.reconnect();
        Ok(())
    }

    /// Ends all servers and returns when they are completely gone. Requests in flight fail.
    pub fn shutdown(&self) {
        for server in self.all() {
            server.close();
        }
        self.shared.tracker.close();
        self.driver.engine().wait(self.shared.tracker.wait());
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.shutdown();
    }
}
