//! Puts the values of `${NAME}` into a definition, for one connection. The result is never stored.

use std::path::PathBuf;
use std::sync::Arc;

use cleveragents_domain::yaml::Expand;
use reqwest::Url;

use crate::definition::ServerDefinition;
use crate::error::McpError;

/// Gives the value of a variable.
pub type Variables = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// How a server is reached, with everything put in. It has no `Debug`: it holds secrets.
pub(crate) enum Reached {
    /// By starting a program.
    Program {
        program: String,
        arguments: Vec<String>,
        environment: Vec<(String, String)>,
        folder: PathBuf,
    },
    /// Over HTTP.
    Http {
        url: Url,
        headers: Vec<(String, String)>,
    },
}

/// Puts the values of variables into one text.
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

/// Puts everything in. `folder` is where programs start that name none.
pub(crate) fn reached(
    definition: &ServerDefinition,
    variables: &Variables,
    folder: &std::path::Path,
) -> Result<Reached, McpError> {
    let value = |text: &str| value(definition, variables, text);
    let hidden = |entries: &std::collections::BTreeMap<String, crate::Hidden>| {
        entries
            .iter()
            .map(|(name, text)| Ok((name.clone(), value(text.expose())?)))
            .collect::<Result<Vec<_>, McpError>>()
    };
    if let Some(command) = &definition.command {
        let folder = match &definition.cwd {
            Some(cwd) => folder.join(value(cwd)?),
            None => folder.to_owned(),
        };
        let arguments: Result<_, McpError> =
            definition.args.iter().map(|text| value(text)).collect();
        return Ok(Reached::Program {
            program: value(command)?,
            arguments: arguments?,
            environment: hidden(&definition.env)?,
            folder,
        });
    }
    let url = value(definition.url.as_deref().unwrap_or_default())?;
    Ok(Reached::Http {
        url: safe_url(&definition.name, &url)?,
        headers: hidden(&definition.headers)?,
    })
}

/// An address to which secrets may be sent: `https`, or this very machine.
pub(crate) fn safe_url(server: &str, text: &str) -> Result<Url, McpError> {
    let wrong = |message: &str, fix: &str| McpError::Invalid {
        server: server.to_owned(),
        message: message.to_owned(),
        fix: fix.to_owned(),
    };
    let url = Url::parse(text)
        .map_err(|error| wrong(&format!("its `url` is none: {error}"), "write `https://…`"))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong(
            "its `url` holds a password",
            "put it into `headers`, as `${NAME}`",
        ));
    }
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_this_machine(&url) => Ok(url),
        "http" => Err(wrong(
            "its `url` is not encrypted and leads to another machine",
            "use `https://…`",
        )),
        _ => Err(wrong(
            "its `url` is not one of the web",
            "write `https://…`",
        )),
    }
}

/// Whether an address is on this machine.
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
