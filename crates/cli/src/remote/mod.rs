//! Commands that are sent to a server: the same command lines, the same output, the same exit codes. The table of
//! operations decides which; the parser is the one of the command line.

mod follow;
mod http;

use std::ffi::OsString;
use std::path::Path;

use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory as _};
use cleveragents_domain::Code;
use cleveragents_domain::identity::{LOCAL_NAMESPACE, Scope};
use reqwest::Method;
use serde_json::{Map, Value, json};

use crate::arguments::Arguments;
use crate::commands::read_definition;
use crate::commands::session::read_text;
use crate::config::keys;
use crate::context::Context;
use crate::output::{CommandError, Report, WireError, WireReport, visible_lines};
use crate::serve::{Offered, Part, STREAM, TEXT, is_flag, is_many, operations};

use http::Next;
pub(crate) use http::{Connection, token_file};

/// Where commands are sent to.
const CLI: &str = "/api/v1/cli";

/// The option of `plan log` that goes on as long as the plan does.
const FOLLOW: &str = "follow";

/// Groups of commands that are about this machine.
const HERE: &[&str] = &[
    "audit",
    "chat",
    "cleanup",
    "completion",
    "config",
    "db",
    "demo",
    "diagnostics",
    "do",
    "info",
    "init",
    "mcp",
    "permission",
    "safety",
    "sandbox",
    "schema",
    "serve",
    "server",
    "token",
    "version",
    "worker",
];

/// Sends a command to the server that is configured. `None` when there is none, or when the command is about this
/// machine.
pub(crate) fn run(
    context: &Context,
    arguments: &[OsString],
    command: &'static str,
) -> Result<Option<Report>, CommandError> {
    let Some(connection) = Connection::configured(context)? else {
        return Ok(None);
    };
    let matches = Arguments::command()
        .try_get_matches_from(arguments)
        .map_err(|error| crate::app::usage_error(&error))?;
    let (path, leaf) = leaf(&matches);
    if path.first().is_none_or(|group| HERE.contains(group)) {
        return Ok(None);
    }
    let path = path.join(" ");
    let all = operations();
    let mut fitting = all.iter();
    let offered = fitting
        .find(|offered| offered.row.command == path && offered.row.scope != Scope::Server)
        .ok_or_else(|| {
            CommandError::new(
                Code::LocalOnly,
                format!("`agents {path}` cannot be sent to a server"),
            )
            .with_hint("run it on this machine with --local")
        })?;
    let parameters = parameters(context, offered, leaf)?;
    let namespace = context
        .configuration
        .resolve_key(&keys::SERVER_NAMESPACE)?
        .value;
    let body = json!({
        "operation": offered.row.name,
        "parameters": parameters,
        "namespace": namespace.as_ref().and_then(|value| value.as_text()),
        "is_for_people": context.printer.format().is_human(),
    });
    if is_said(leaf, FOLLOW) {
        return follow::run(context, &connection, &body).map(Some);
    }
    let mut answer = if is_said(leaf, STREAM) {
        watched(context, &connection, &body)?
    } else {
        connection.post(CLI, &body)?
    };
    if let Some(error) = answer.get_mut("error") {
        let error: WireError = read(error.take())?;
        return Err(error.into_error());
    }
    let report: WireReport = read(answer["report"].take())?;
    Ok(Some(report.into_report(command)))
}

/// Sends a command, and shows what happens while it happens.
fn watched(
    context: &Context,
    connection: &Connection,
    body: &Value,
) -> Result<Value, CommandError> {
    let mut ended = None;
    connection.listen(Method::POST, CLI, Some(body), |event, data| {
        let text = || visible_lines(data["text"].as_str().unwrap_or_default());
        match event {
            "out" => context.live.out(&text()),
            "err" => context.live.err(&text()),
            "end" => ended = Some(Ok(data)),
            "problem" => ended = Some(Err(connection.problem(0, &data))),
            _ => {}
        }
        Ok(if ended.is_some() {
            Next::Stop
        } else {
            Next::More
        })
    })?;
    ended.unwrap_or_else(|| Err(connection.cut()))
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, CommandError> {
    serde_json::from_value(value).map_err(|error| {
        CommandError::new(
            Code::ServerProtocol,
            "the server answered something that cannot be read",
        )
        .caused_by(&error)
        .with_hint("`agents server status` compares the versions")
    })
}

/// The words of a command, and what was said to the last of them.
fn leaf(matches: &ArgMatches) -> (Vec<&str>, &ArgMatches) {
    let (mut words, mut at) = (Vec::new(), matches);
    while let Some((word, below)) = at.subcommand() {
        words.push(word);
        at = below;
    }
    (words, at)
}

/// Whether an argument was given on the command line.
fn is_said(matches: &ArgMatches, id: &str) -> bool {
    matches.try_contains_id(id).unwrap_or(false)
        && matches.value_source(id) == Some(ValueSource::CommandLine)
}

/// What was said on the command line, as parameters. Files are read here, and what is `local` stays here.
fn parameters(
    context: &Context,
    offered: &Offered,
    matches: &ArgMatches,
) -> Result<Map<String, Value>, CommandError> {
    let is_said = |id: &str| is_said(matches, id);
    let mut hidden = offered.row.without.iter().copied();
    // How it is shown is a matter of this side.
    if let Some(id) = hidden.find(|id| ![STREAM, FOLLOW].contains(id) && is_said(id)) {
        let option = id.replace('_', "-");
        let message = format!("`{option}` is not for commands that are sent to a server");
        return Err(CommandError::new(Code::LocalOnly, message)
            .with_hint("run the command on this machine with --local"));
    }
    let mut parameters = Map::new();
    for argument in offered.arguments() {
        let id = argument.get_id().as_str();
        if !is_said(id) {
            continue;
        }
        if is_flag(argument) {
            parameters.insert(id.to_owned(), json!(true));
            continue;
        }
        let raw = matches.get_raw(id).into_iter().flatten();
        let mut values: Vec<String> = raw
            .map(|value| value.to_string_lossy().into_owned())
            .collect();
        let mut parts = offered.row.parts.iter();
        let part = parts.find(|part| part.parameter() == id);
        match part {
            Some(Part::Definition(_)) => {
                let path = values.first().map_or("", String::as_str);
                let text = read_definition(Path::new(path), "a definition", Code::Usage)?;
                parameters.insert(TEXT.to_owned(), json!(text));
                continue;
            }
            Some(Part::Name(_) | Part::Read(_) | Part::Made(_)) => {
                if let Some(local) = values.iter().find(|value| is_local(value)) {
                    let message = format!("`{local}` is only on this machine");
                    return Err(CommandError::new(Code::LocalOnly, message).with_hint(
                        "name what is on the server, or run the command here with --local",
                    ));
                }
            }
            _ if values == ["-"] => values = vec![read_text(context)?],
            _ => {}
        }
        let value = match values.as_slice() {
            [one] if !is_many(argument) => json!(one),
            many => json!(many),
        };
        parameters.insert(id.to_owned(), value);
    }
    Ok(parameters)
}

fn is_local(name: &str) -> bool {
    let name = name.trim().to_lowercase();
    name == LOCAL_NAMESPACE || name.starts_with("local/")
}
