//! The way from a part of a sandbox to the database on a server that it stands for.
//!
//! The address, and the password that may be in it, stay in the resource: they are looked up again for
//! every connection, by the name of the resource.

use std::sync::Arc;

use cleveragents_domain::{Code, Diagnose as _};
use cleveragents_sandbox::{Base, Connection, Error, Member, Servers};
use cleveragents_store::{Server, database_identity};
use serde_json::Value;

use super::service::{SandboxService, SandboxView};
use crate::resource::ResourceService;

/// The servers of the parts of one sandbox.
pub(super) struct PartServers<'a> {
    service: &'a SandboxService,
    /// Parts with the resources that they stand for.
    resources: Vec<(String, String)>,
}

impl SandboxService {
    /// Connects to the databases of a sandbox.
    pub(super) fn servers(&self, view: &SandboxView) -> PartServers<'_> {
        let stored = view.stored.iter();
        PartServers {
            service: self,
            resources: stored
                .map(|part| (part.alias.clone(), part.resource.clone()))
                .collect(),
        }
    }

    /// Whether the real resource behind a part can no longer be reached by anybody.
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
        };
        let resources = ResourceService::new(Arc::clone(&self.engine));
        let found = resources.resolve(resource).map_err(|error| {
            let message = match error.hint() {
                Some(hint) => format!("{error}; {hint}"),
                None => error.to_string(),
            };
            unreachable(resource, message)
        })?;
        let address = found.properties.get("url").and_then(Value::as_str);
        let server = Server::at(address.unwrap_or_default())
            .map_err(|error| unreachable(resource, error.to_string()))?;
        let shown = server.shown().to_owned();
        // The message of the store names its own database; this is another one.
        let failed = |error: cleveragents_store::Error| {
            let message = match error {
                cleveragents_store::Error::Unavailable { reason, .. } => reason,
                other => other.to_string(),
            };
            unreachable(&shown, message)
        };
        let mut client = server.connect().map_err(failed)?;
        let identity = database_identity(&mut client).map_err(failed)?;
        let own = self.engine.server_identity().map_err(failed)?;
        if own.as_ref() == Some(&identity) {
            return Err(Error::CannotSandbox {
                what: format!("resource `{resource}`"),
                reason: "it is the database in which the program keeps its own records".to_owned(),
                hint: Some("name another database, or keep the records elsewhere: `agents config set core.database-url URL`".to_owned()),
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
            .ok_or_else(|| Error::Damaged(format!("its part `{alias}` is gone")))?;
        self.service.connect(resource)
    }
}
