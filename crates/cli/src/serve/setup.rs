//! Server options from the command line and the configuration.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use cleveragents_server::{Conformance, Options, Tls};

use crate::arguments::{ConformanceProfile, Serve};
use crate::config::{Key, keys};
use crate::context::Context;
use crate::output::CommandError;

pub(super) fn options(context: &Context, arguments: &Serve) -> Result<Options, CommandError> {
    let value =
        |key: &'static Key| Ok::<_, CommandError>(context.configuration.resolve_key(key)?.value);
    let text = |key| {
        let setting = value(key)?;
        Ok::<_, CommandError>(setting.and_then(|setting| setting.as_text().map(str::to_owned)))
    };
    let number = |key| {
        let setting = value(key)?;
        Ok::<_, CommandError>(
            setting
                .and_then(|setting| setting.as_integer())
                .unwrap_or_default(),
        )
    };
    let size = |key| Ok::<_, CommandError>(usize::try_from(number(key)?).unwrap_or(usize::MAX));
    let host = text(&keys::SERVE_HOST)?.unwrap_or_default();
    let host: IpAddr = host
        .parse()
        .map_err(|_| CommandError::usage(format!("`{host}` is not an IP address")))?;
    if arguments.insecure_local && !host.is_loopback() {
        let message =
            format!("with --insecure-local the server must listen on loopback, not on {host}");
        return Err(CommandError::usage(message).with_hint(
            "omit --host, or omit --insecure-local and create tokens: `agents token create`",
        ));
    }
    let port = u16::try_from(number(&keys::SERVE_PORT)?).unwrap_or(u16::MAX);
    let tls = match (text(&keys::SERVE_TLS_CERT)?, text(&keys::SERVE_TLS_KEY)?) {
        (Some(certificates), Some(key)) => Some(Tls {
            certificates: PathBuf::from(certificates),
            key: PathBuf::from(key),
        }),
        (None, None) => None,
        _ => {
            return Err(CommandError::usage(
                "a TLS certificate needs its key, and a key its certificate",
            )
            .with_hint("use both --tls-cert FILE and --tls-key FILE"));
        }
    };
    let allows_private = value(&keys::SERVE_ALLOW_PRIVATE)?;
    Ok(Options {
        address: SocketAddr::new(host, port),
        public_url: text(&keys::SERVE_PUBLIC_URL)?,
        insecure_local: arguments.insecure_local,
        conformance: arguments.conformance.map(|profile| match profile {
            ConformanceProfile::Full => Conformance::Full,
            ConformanceProfile::Minimal => Conformance::Minimal,
            ConformanceProfile::Extension => Conformance::Extension,
        }),
        actor: arguments.actor.clone(),
        tls,
        max_body_bytes: size(&keys::SERVE_MAX_BODY_BYTES)?,
        max_message_bytes: context.settings.max_message_bytes(),
        max_connections: size(&keys::SERVE_MAX_CONNECTIONS)?,
        max_connections_per_address: size(&keys::SERVE_MAX_CONNECTIONS_PER_ADDRESS)?,
        requests_per_second: u32::try_from(number(&keys::SERVE_RATE)?).unwrap_or(u32::MAX),
        max_running: size(&keys::SERVE_MAX_RUNNING)?,
        allow_private_addresses: allows_private.is_some_and(|value| value.as_flag() == Some(true)),
        drain: Duration::from_secs(number(&keys::SERVE_DRAIN_SECONDS)?),
        ..Options::default()
    })
}
