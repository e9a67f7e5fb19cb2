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

/// Default for [`Options::max_offered_tools`].
pub const MAX_OFFERED_TOOLS: usize = 40;

/// Settings of all servers.
#[derive(Clone)]
pub struct Options {
    /// Returns the values of `${NAME}` in definitions.
    pub variables: Variables,
    /// Base directory for a relative `cwd` of a definition.
    pub folder: PathBuf,
    /// Parent directory of the programs' private homes, which are named like their servers. Without it, each home is
    /// removed when its program ends.
    pub homes: Option<PathBuf>,
    /// Storage for tokens of servers over HTTP.
    pub tokens: Option<Arc<dyn TokenStore>>,
    /// Maximum number of tools that are declared to models. If there are more, models find all of them through a
    /// search.
    pub max_offered_tools: usize,
}

impl Options {
    /// Creates options without variables and tokens, with temporary homes.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            variables: Arc::new(|_| None),
            folder: folder.into(),
            homes: None,
            tokens: None,
            max_offered_tools: MAX_OFFERED_TOOLS,
        }
    }
}

/// Status of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Whether the server is connected.
    pub is_connected: bool,
    /// Number of connections started so far.
    pub starts: usize,
    /// The end of the program's standard error.
    pub log: String,
}

/// All servers. Dropping this value stops them.
pub struct Servers {
    by_name: RwLock<BTreeMap<String, Arc<Server>>>,
    shared: ServerContext,
    /// Dropped last, because it runs the tasks of the servers.
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

    /// Adds a server. If its last listing is given as `known`, the server is not started before one of its tools is
    /// called.
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

    /// Removes and stops a server. Calls of its tools fail afterwards.
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
        let server = servers.get(name).cloned();
        server.ok_or_else(|| McpError::NotFound(name.to_owned()))
    }

    pub(crate) fn max_offered_tools(&self) -> usize {
        self.shared.options.max_offered_tools
    }

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

    /// Connects to a server, unless there is a connection, and returns its listing.
    pub fn connect(&self, name: &str) -> Result<Arc<Listing>, McpError> {
        let server = self.get(name)?;
        let mut outcome = self.wait_for_all(vec![server]);
        outcome.pop().map_or_else(
            || Err(McpError::NotFound(name.to_owned())),
            |(_, result)| result,
        )
    }

    /// Connects to all servers concurrently and returns their listings, by name. Takes as long as the slowest server.
    pub fn connect_all(&self) -> Vec<(String, Result<Arc<Listing>, McpError>)> {
        self.wait_for_all(self.all())
    }

    /// Connects concurrently to the selected servers whose tools are not known yet or whose `lazy_start` is off.
    /// Returns the servers that failed.
    pub(crate) fn prepare(&self, is_selected: impl Fn(&str) -> bool) -> Vec<(String, McpError)> {
        let needed = self
            .all()
            .into_iter()
            .filter(|server| is_selected(&server.definition.name))
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
        let tasks: Vec<_> = servers
            .into_iter()
            .map(|server| {
                let name = server.definition.name.clone();
                let task = async move { server.connect().await };
                let tracker = &self.shared.tracker;
                (name, tracker.spawn_on(task, &self.shared.runtime))
            })
            .collect();
        self.driver.engine().wait(async {
            let mut outcomes = Vec::with_capacity(tasks.len());
            for (name, task) in tasks {
                let outcome = task.await.unwrap_or_else(|_| {
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

    /// Stops all servers and waits until all their resources are released. Requests in flight fail.
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
