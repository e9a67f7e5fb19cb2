//! Connects a part of a sandbox to its database on a server.
//!
//! The sandbox does not store the address, which may contain a password: every connection looks up the
//! address in the resource, by the name of the resource.

use std::sync::Arc;

use cleveragents_domain::{Code, Diagnose as _, Placeholder, hint, suggest};
use cleveragents_sandbox::{Base, Connection, Error, Member, Servers};
use cleveragents_store::{Server, database_identity};
use serde_json::Value;

use super::service::{SandboxService, SandboxView};
use crate::resource::ResourceService;

/// The database servers of one sandbox.
pub(super) struct PartServers<'a> {
    service: &'a SandboxService,
    /// Alias of each part, and the name of its resource.
    resources: Vec<(String, String)>,
}

impl SandboxService {
    /// Connections to the databases of a sandbox.
    pub(super) fn servers(&self, view: &SandboxView) -> PartServers<'_> {
        let stored = view.stored.iter();
        PartServers {
            service: self,
            resources: stored
                .map(|part| (part.alias.clone(), part.resource.clone()))
                .collect(),
        }
    }

    /// Whether the real resource of a part no longer exists.
    pub(super) fn is_lost(&self, view: &SandboxView, part: &Member) -> bool {
        if part.base != Base::Postgres {
            return !part.location.exists();
        }
        let stored = view.stored.iter().find(|stored| stored.alias == part.alias);
        let resources = ResourceService::new(Arc::clone(&self.engine));
        stored.is_none_or(|stored| {
            let found = resources.resolve(&stored.resource);
            found.is_err_and(|error| error.code() == Code::ResourceNotFound)
        })
    }

    /// Connects to the database of a resource.
    pub(super) fn connect(&self, resource: &str) -> Result<Connection, Error> {
        let unreachable = |address: &str, message: String| Error::Unreachable {
            address: address.to_owned(),
            message,
            hint: None,
        };
        let resources = ResourceService::new(Arc::clone(&self.engine));
        let registered = resources
            .resolve(resource)
            .map_err(|error| Error::Unreachable {
                address: resource.to_owned(),
                message: error.to_string(),
                hint: error.hint(),
            })?;
        let address = registered.properties.get("url").and_then(Value::as_str);
        let server = Server::at(address.unwrap_or_default())
            .map_err(|error| unreachable(resource, error.to_string()))?;
        let shown = server.shown().to_owned();
        // The error messages of the store are about the program's own database, so use only the reason.
        let failed = |error: cleveragents_store::Error| {
            let message = match error {
                cleveragents_store::Error::Unavailable { reason, .. } => reason,
                other => other.to_string(),
            };
            unreachable(&shown, message)
        };
        let mut client = server.connect().map_err(failed)?;
        let identity = database_identity(&mut client).map_err(failed)?;
        let own_identity = self.engine.server_identity().map_err(failed)?;
        if own_identity.as_ref() == Some(&identity) {
            return Err(Error::CannotSandbox {
                what: format!("resource `{resource}`"),
                reason: "it is the database of the program".to_owned(),
                hint: Some(hint!(
                    "name another database, or move the database of the program: {}",
                    suggest::config_set("core.database-url", Placeholder("URL"))
                )),
            });
        }
        let mut connection = Connection {
            client,
            identity,
            shown,
        };
        connection.check()?;
        Ok(connection)
    }
}

impl Servers for PartServers<'_> {
    fn connect(&self, alias: &str) -> Result<Connection, Error> {
        let mut resources = self.resources.iter();
        let (_, resource) = resources
            .find(|(part, _)| part == alias)
            .ok_or_else(|| Error::Damaged(format!("its part `{alias}` does not exist")))?;
        self.service.connect(resource)
    }
}
