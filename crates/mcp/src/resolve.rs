//! Inserts the values of `${NAME}` into a definition, for one connection. The result is never
//! stored.

use std::path::PathBuf;
use std::sync::Arc;

use cleveragents_domain::yaml::Expand;
use reqwest::Url;

use crate::definition::ServerDefinition;
use crate::error::McpError;
use crate::visible_paths::{DeclaredPaths, ServerView};

/// Returns the value of a variable.
pub type Variables = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// A resolved definition, with the data to connect to a server. It has no `Debug` because it contains secrets.
pub(crate) enum ResolvedServer {
    /// A program to start.
    Program {
        program: String,
        arguments: Vec<String>,
        environment: Vec<(String, String)>,
        /// Working directory, when the definition sets one.
        folder: Option<PathBuf>,
        /// Paths that are visible to the program.
        view: ServerView,
    },
    /// A server over HTTP.
    Http {
        url: Url,
        headers: Vec<(String, String)>,
    },
}

/// Minimum length of a hidden value, in bytes. Shorter values may occur in any text.
const MIN_SECRET_LENGTH: usize = 6;

/// Secret values that are hidden in all texts of a server.
#[derive(Clone, Default)]
pub(crate) struct Secrets(Vec<String>);

impl Secrets {
    /// The values of `env` and `headers`, longest first.
    pub(crate) fn from_server(resolved: &ResolvedServer) -> Self {
        let entries = match resolved {
            ResolvedServer::Program { environment, .. } => environment,
            ResolvedServer::Http { headers, .. } => headers,
        };
        let values = entries.iter().flat_map(|(_, value)| {
            // A header often consists of a scheme, such as `Bearer`, and the secret.
            let word = value.rsplit(' ').next().unwrap_or_default();
            [value.clone(), word.to_owned()]
        });
        let mut values: Vec<String> = values
            .filter(|value| value.len() >= MIN_SECRET_LENGTH)
            .collect();
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        values.dedup();
        Self(values)
    }

    /// Replaces the values in a text by `[HIDDEN]`.
    pub(crate) fn hide(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, secret| {
            if text.contains(secret.as_str()) {
                text.replace(secret.as_str(), "[HIDDEN]")
            } else {
                text
            }
        })
    }
}

/// Inserts the values of variables into one text.
pub(crate) fn value(
    definition: &ServerDefinition,
    variables: &Variables,
    text: &str,
) -> Result<String, McpError> {
    let expand = Expand {
        text: "",
        variables: &**variables,
    };
    let mut text = text.to_owned();
    expand.text(&mut text).map_err(|fault| McpError::Invalid {
        server: definition.name.clone(),
        message: fault.message,
        fix: fault.fix.unwrap_or_default(),
    })?;
    Ok(text)
}

/// Resolves a definition. A relative `cwd` is resolved against `folder`.
pub(crate) fn resolve(
    definition: &ServerDefinition,
    variables: &Variables,
    folder: &std::path::Path,
) -> Result<ResolvedServer, McpError> {
    let value = |text: &str| value(definition, variables, text);
    let resolve_entries = |entries: &std::collections::BTreeMap<String, crate::HiddenText>| {
        entries
            .iter()
            .map(|(name, text)| Ok((name.clone(), value(text.expose())?)))
            .collect::<Result<Vec<_>, McpError>>()
    };
    if let Some(command) = &definition.command {
        let cwd = definition.cwd.as_deref().map(value).transpose()?;
        let resolve_all = |texts: &[String]| -> Result<Vec<String>, McpError> {
            texts.iter().map(|text| value(text)).collect()
        };
        let declared = DeclaredPaths {
            command: value(command)?,
            arguments: resolve_all(&definition.args)?,
            cwd: cwd.map(|cwd| folder.join(in_home(&cwd))),
            read: resolve_all(&definition.read)?,
            write: resolve_all(&definition.write)?,
            credentials: resolve_all(&definition.credentials)?,
        };
        let view = declared
            .view()
            .map_err(|broken| definition.invalid(broken))?;
        return Ok(ResolvedServer::Program {
            program: declared.command,
            arguments: declared.arguments,
            environment: resolve_entries(&definition.env)?,
            folder: declared.cwd,
            view,
        });
    }
    let url = value(definition.url.as_deref().unwrap_or_default())?;
    Ok(ResolvedServer::Http {
        url: safe_url(&definition.name, &url)?,
        headers: resolve_entries(&definition.headers)?,
    })
}

/// Replaces `~` at the start of a path by the home directory.
pub(crate) fn in_home(text: &str) -> PathBuf {
    let inside = text
        .strip_prefix("~/")
        .or_else(|| (text == "~").then_some(""));
    match (inside, std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => PathBuf::from(home).join(rest),
        _ => PathBuf::from(text),
    }
}

/// Parses a URL to which secrets may be sent: `https`, or this machine.
pub(crate) fn safe_url(server: &str, text: &str) -> Result<Url, McpError> {
    let invalid = |message: &str, fix: &str| McpError::Invalid {
        server: server.to_owned(),
        message: message.to_owned(),
        fix: fix.into(),
    };
    let url = Url::parse(text).map_err(|error| {
        invalid(
            &format!("its `url` is invalid: {error}"),
            "write `https://…`",
        )
    })?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid(
            "its `url` contains a password",
            "move it to `headers`, as `${NAME}`",
        ));
    }
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_this_machine(&url) => Ok(url),
        "http" => Err(invalid(
            "its `url` is not encrypted and points to another machine",
            "use `https://…`",
        )),
        _ => Err(invalid("its `url` is not an HTTP URL", "write `https://…`")),
    }
}

/// Returns whether the host of a URL is this machine.
pub(crate) fn is_this_machine(url: &Url) -> bool {
    let Some(host) = url.host_str() else {
        return false;
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || host
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}
