//! Connections to PostgreSQL servers: for the program's own database, and for databases that are resources of users. No
//! other module connects to a server.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use ::postgres::error::SqlState;
use ::postgres::{Client, Config};

use crate::error::Error;
use crate::url::{DatabaseUrl, Target, chain};

/// A database on a PostgreSQL server, to connect to. Its password is never shown.
#[derive(Clone)]
pub struct Server {
    config: Config,
    shown: String,
}

impl fmt::Debug for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Server")
            .field("address", &self.shown)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// Parses an address such as `postgres://user@host/database`.
    pub fn at(address: &str) -> Result<Self, Error> {
        let url = DatabaseUrl::parse(address, Path::new("/"))?;
        match url.target() {
            Target::Postgres(address) => Self::parse(address, &url.to_string()),
            _ => Err(Error::InvalidUrl {
                url: url.to_string(),
                reason: "the URL of a server has the form postgres://user@host/database".to_owned(),
            }),
        }
    }

    /// Parses an already validated address; `shown` is the address without its password.
    pub(crate) fn parse(address: &str, shown: &str) -> Result<Self, Error> {
        let mut config: Config =
            address
                .parse()
                .map_err(|error: ::postgres::Error| Error::InvalidUrl {
                    url: shown.to_owned(),
                    reason: chain(&error),
                })?;
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(Duration::from_secs(10));
        }
        if config.get_application_name().is_none() {
            config.application_name("cleveragents");
        }
        Ok(Self {
            config,
            shown: shown.to_owned(),
        })
    }

    /// Address without its password.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Connects, over TLS when the server offers it and the address does not forbid it.
    #[expect(
        clippy::disallowed_methods,
        reason = "the only place that connects to a server"
    )]
    pub fn connect(&self) -> Result<Client, Error> {
        match self.config.get_ssl_mode() {
            ::postgres::config::SslMode::Disable => self.config.connect(::postgres::NoTls),
            _ => self.config.connect(tls()?),
        }
        .map_err(|error| Error::unavailable(&self.shown, chain(&error)))
    }
}

/// Identifies the database that a connection reached, independent of its address: two connections with the same
/// identity use the same database. The identity survives restarts of the server.
pub fn database_identity(client: &mut Client) -> Result<String, Error> {
    const DATABASE: &str = "SELECT d.oid::pg_catalog.text || '/' || d.datname::pg_catalog.text
        FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database()";
    const CLUSTER: &str = "SELECT system_identifier::pg_catalog.text
        FROM pg_catalog.pg_control_system()";
    const PLACE: &str = "SELECT COALESCE(pg_catalog.inet_server_addr()::pg_catalog.text, 'local')
        || ':' || COALESCE(pg_catalog.inet_server_port(), 0)::pg_catalog.text";
    let failed = |error: ::postgres::Error| Error::unavailable("on the server", chain(&error));
    let cluster: String = match client.query_one(CLUSTER, &[]) {
        Ok(row) => row.get(0),
        // Some servers do not permit reading the system identifier; fall back to the server's location.
        Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
            client.query_one(PLACE, &[]).map_err(failed)?.get(0)
        }
        Err(error) => return Err(failed(error)),
    };
    let database: String = client.query_one(DATABASE, &[]).map_err(failed)?.get(0);
    Ok(format!("{cluster}/{database}"))
}

/// TLS with the system's certificates, always fully verified.
fn tls() -> Result<tokio_postgres_rustls::MakeRustlsConnect, Error> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Internal(format!("the TLS provider lacks a protocol: {error}")))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(tokio_postgres_rustls::MakeRustlsConnect::new(config))
}
