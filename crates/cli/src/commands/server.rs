//! `server`: the connection to a server that runs the commands.

use std::io::Write as _;

use cleveragents_domain::Code;
use serde_json::{Value, json};

use crate::arguments::{Server, ServerConnect};
use crate::config::{ConfigFile, Key, keys};
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report};
use crate::remote::{Connection, token_file};

/// Configuration keys of a connection, set and unset together.
const KEYS: [&Key; 3] = [
    &keys::SERVER_URL,
    &keys::SERVER_NAMESPACE,
    &keys::SERVER_TLS_VERIFY,
];

pub(super) fn run(context: &Context, command: &Server) -> Result<Report, CommandError> {
    match command {
        Server::Connect(arguments) => connect(context, arguments),
        Server::Disconnect => disconnect(context),
        Server::Status => status(context),
    }
}

fn connect(context: &Context, arguments: &ServerConnect) -> Result<Report, CommandError> {
    let url = arguments.url.trim_end_matches('/');
    keys::SERVER_URL.parse(url)?;
    if let Some(namespace) = &arguments.namespace {
        keys::SERVER_NAMESPACE.parse(namespace)?;
    }
    let variable = context.environment.text("CLEVERAGENTS_SERVER_TOKEN");
    let token = arguments.token.clone().or(variable);
    let connection = Connection::new(url, token.clone(), !arguments.no_tls_verify);
    // Nothing is stored unless the server accepts the token.
    let caller = connection.get("/api/v1/caller")?;
    let grants = texts(&caller["grants"]);
    let has_role_on = |namespace: &str| {
        caller["is_local"] == true
            || grants.iter().any(|grant| {
                let granted = grant.split('=').next().unwrap_or_default();
                granted == "*" || granted == namespace
            })
    };
    if let Some(namespace) = arguments
        .namespace
        .as_deref()
        .filter(|name| !has_role_on(name))
    {
        let message = format!("the token has no role on `{namespace}`");
        return Err(CommandError::new(Code::Forbidden, message)
            .with_hint("choose a namespace that it has a role on, or omit --namespace"));
    }
    context.home.create()?;
    // The steps that need disk space run first, so that a full disk changes nothing; the final rename that replaces the
    // token needs none.
    let new_token = token
        .as_deref()
        .map(|token| write_token(context, token))
        .transpose()?;
    let file = ConfigFile::of_home(&context.home);
    let mut pairs = vec![(keys::SERVER_URL.name, url)];
    if let Some(namespace) = &arguments.namespace {
        pairs.push((keys::SERVER_NAMESPACE.name, namespace));
    }
    if arguments.no_tls_verify {
        pairs.push((keys::SERVER_TLS_VERIFY.name, "false"));
    }
    let set_keys: Vec<&str> = pairs.iter().map(|(name, _)| *name).collect();
    let unset_keys: Vec<&str> = KEYS
        .iter()
        .map(|key| key.name)
        .filter(|name| !set_keys.contains(name))
        .collect();
    file.exchange(&pairs, &unset_keys)?;
    match new_token {
        Some(new_token) => {
            let replaced = new_token.persist(token_file(context));
            replaced.map_err(|failed| token_write_error(&failed.error))?;
        }
        None => remove_token(context)?,
    }
    let report = Report::new("server connect")
        .data(json!({
            "url": url, "namespace": arguments.namespace, "tls_verify": !arguments.no_tls_verify,
            "identity": caller["identity"], "grants": grants, "version": caller["version"],
        }))
        .panel(panel(url, arguments.namespace.as_deref(), &caller))
        .ok("Connected: commands run on this server; --local runs a command on this machine");
    Ok(if arguments.no_tls_verify {
        report.warn(
            "The certificate of the server is not checked: attackers can read and change the traffic",
        )
    } else {
        report
    })
}

fn texts(value: &Value) -> Vec<String> {
    let all = value.as_array().into_iter().flatten();
    all.filter_map(|text| text.as_str().map(str::to_owned))
        .collect()
}

fn panel(url: &str, namespace: Option<&str>, caller: &Value) -> Panel {
    let grants = texts(&caller["grants"]);
    Panel::new("Server")
        .row("Address", url)
        .row("Namespace", namespace.map(str::to_owned))
        .row("Identity", caller["identity"].as_str().unwrap_or_default())
        .row("Roles", (!grants.is_empty()).then(|| grants.join(", ")))
        .row("Version", caller["version"].as_str().unwrap_or_default())
}

fn token_write_error(error: &std::io::Error) -> CommandError {
    CommandError::new(Code::FileAccess, "the token cannot be stored").caused_by(error)
}

/// Writes a token to a temporary file that only its owner can read. `persist` replaces the old
/// token; otherwise the file is removed on drop.
fn write_token(context: &Context, token: &str) -> Result<tempfile::NamedTempFile, CommandError> {
    let write = || {
        let mut file = tempfile::Builder::new()
            .prefix(".server-token")
            .tempfile_in(context.home.path())?;
        file.write_all(token.trim().as_bytes())?;
        file.as_file().sync_all()?;
        Ok(file)
    };
    write().map_err(|error: std::io::Error| token_write_error(&error))
}

fn remove_token(context: &Context) -> Result<(), CommandError> {
    match std::fs::remove_file(token_file(context)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(token_write_error(&error))
        }
        _ => Ok(()),
    }
}

fn disconnect(context: &Context) -> Result<Report, CommandError> {
    let names = KEYS.map(|key| key.name);
    let changes = ConfigFile::of_home(&context.home).unset(&names)?;
    remove_token(context)?;
    let was_connected = changes.iter().any(|change| change.before.is_some());
    let report = Report::new("server disconnect").data(json!({"was_connected": was_connected}));
    Ok(if was_connected {
        report.ok("Commands run on this machine again")
    } else {
        report.info("No server was connected")
    })
}

fn status(context: &Context) -> Result<Report, CommandError> {
    let report = Report::new("server status");
    let Some(connection) = Connection::configured(context)? else {
        return Ok(report
            .data(json!({"mode": "disabled", "client_version": env!("CARGO_PKG_VERSION")}))
            .panel(Panel::new("Server").row("Mode", "disabled"))
            .info("connect with `agents server connect URL --token TOKEN`"));
    };
    let namespace = context
        .configuration
        .resolve_key(&keys::SERVER_NAMESPACE)?
        .value;
    let namespace = namespace.and_then(|value| value.as_text().map(str::to_owned));
    let base = |mode: &str| {
        json!({
            "mode": mode, "url": connection.url, "namespace": namespace,
            "client_version": env!("CARGO_PKG_VERSION"),
        })
    };
    match connection.get("/api/v1/caller") {
        Ok(caller) => {
            let mut data = base("connected");
            for (name, field) in [
                ("identity", "identity"),
                ("grants", "grants"),
                ("scopes", "scopes"),
                ("server_version", "version"),
            ] {
                data[name] = caller[field].clone();
            }
            let report = report.data(data).panel(
                panel(&connection.url, namespace.as_deref(), &caller)
                    .row("Mode", Cell::Good("connected".to_owned())),
            );
            Ok(if caller["version"] == env!("CARGO_PKG_VERSION") {
                report.ok("The server responds")
            } else {
                report.warn("The server has a different version than this program")
            })
        }
        Err(error) if error.code() == Code::ServerUnreachable => {
            let mut data = base("unreachable");
            data["problem"] = json!(error.to_string());
            Ok(report
                .data(data)
                .panel(
                    Panel::new("Server")
                        .row("Address", connection.url.clone())
                        .row("Mode", Cell::Bad("unreachable".to_owned())),
                )
                .failed(
                    Code::ServerUnreachable,
                    error.message(),
                    "check that it runs, or `agents server disconnect`",
                ))
        }
        Err(error) => Err(error),
    }
}
