//! [`Servers`]: all servers there are, the runtime they live in, and what they offer together.

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
use crate::expand::Variables;
use crate::listing::Listing;
use crate::oauth::TokenStore;
use crate::server::{Server, Shared};

/// With more tools than this the others are found through a search.
pub const MOST_OFFERED: usize = 40;

/// What servers need of the rest of the program.
#[derive(Clone)]
pub struct Options {
    /// Gives the values of `${NAME}` in definitions.
    pub variables: Variables,
    /// What a relative `cwd` of a definition begins at.
    pub folder: PathBuf,
    /// Where programs have their private homes, each in a folder of its server's name. Without it their homes
    /// end with them.
    pub homes: Option<PathBuf>,
    /// Where tokens of servers over HTTP are kept.
    pub tokens: Option<Arc<dyn TokenStore>>,
    /// With more tools than this the others are found through a search.
    pub most_offered: usize,
}

impl Options {
    /// No variables, no tokens, homes that end with their programs.
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

/// How it stands with a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Whether there is a connection.
    pub is_connected: bool,
    /// How many connections were begun.
    pub starts: usize,
    /// The end of what its program wrote to standard error.
    pub log: String,
}

/// All servers there are. Dropping it ends them all.
pub struct Servers {
    by_name: RwLock<BTreeMap<String, Arc<Server>>>,
    shared: Shared,
    /// Dropped last: it drives the others.
    driver: Driver,
}

impl fmt::Debug for Servers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.names()).finish()
    }
}

impl Servers {
    /// No servers yet.
    pub fn new(options: Options) -> io::Result<Self> {
        let driver = Driver::new()?;
        Ok(Self {
            by_name: RwLock::default(),
            shared: Shared {
                options: Arc::new(options),
                runtime: driver.engine().handle().clone(),
                engine: Arc::downgrade(driver.engine()),
                tracker: TaskTracker::new(),
            },
            driver,
        })
    }

    /// Adds a server. With `known`, what it offered the last time, it is not started before one of
    /// its tools is called.
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

    /// Takes a server out and ends it. Its tools fail from now on.
    pub fn remove(&self, name: &str) -> Result<(), McpError> {
        let mut servers = self.by_name.write().unwrap_or_else(PoisonError::into_inner);
        let server = servers
            .remove(name)
            .ok_or_else(|| McpError::NotFound(name.to_owned()))?;
        server.close();
        Ok(())
    }

    /// The names of all, in order.
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

    /// How it stands with a server.
    pub fn status(&self, name: &str) -> Result<Status, McpError> {
        let server = self.get(name)?;
        Ok(Status {
            is_connected: server.is_connected(),
            starts: server.starts(),
            log: server.log(),
        })
    }

    /// What a server offers; asks it when it was never asked.
    pub fn listing(&self, name: &str) -> Result<Arc<Listing>, McpError> {
        let server = self.get(name)?;
        match server.listing() {
            Some(listing) => Ok(listing),
            None => self.connect(name),
        }
    }

    /// Connects to a server, unless there is a connection, and tells what it offers.
    pub fn connect(&self, name: &str) -> Result<Arc<Listing>, McpError> {
        let server = self.get(name)?;
        let mut outcome = self.wait_for_all(vec![server]);
        outcome
            .pop()
            .map_or_else(|| Err(McpError::NotFound(name.to_owned())), |(_, one)| one)
    }

    /// Connects to all servers at the same time and tells what each one offers, by name. It takes
    /// as long as the slowest.
    pub fn connect_all(&self) -> Vec<(String, Result<Arc<Listing>, McpError>)> {
        self.wait_for_all(self.all())
    }

    /// Connects to those servers, all at a time, whose tools are not known yet and to those that are
    /// not to be started only when needed. Tells which ones failed.
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

    /// Ends all servers and returns when nothing of them is left. What is in flight fails.
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
