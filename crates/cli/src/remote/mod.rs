//! Commands that are sent to a server: the same command lines, the same output, the same exit codes. The table of
//! operations decides which; the parser is the one of the command line.

mod follow;
mod http;

use std::ffi::OsString;

use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory as _};
use cleveragents_application::plan_operations::ShowPlanStatus;
use cleveragents_domain::Code;
use cleveragents_domain::identity::{LOCAL_NAMESPACE, Scope};
use reqwest::Method;
use serde_json::{Map, Value, json};

use crate::arguments::Arguments;
use crate::commands;
use crate::commands::chat::{Away, run_away};
use crate::commands::session::{self, read_text};
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report, WireError, WireReport, visible_lines};
use crate::serve::{Offered, Part, STREAM, is_flag, is_many, operations};

pub(crate) use follow::{FAILURES, follow_events, is_temporary};
use http::Next;
pub(crate) use http::{Connection, token_file};

/// Where commands are sent to.
const CLI: &str = "/api/v1/cli";

/// The option of `plan execute` that leaves a plan to others.
const BACKGROUND: &str = "background";

/// Groups of commands that are about this machine and could mean nothing else.
const HERE: &[&str] = &[
    "completion",
    "config",
    "demo",
    "diagnostics",
    "info",
    "init",
    "schema",
    "serve",
    "server",
    "version",
];

/// Groups of commands that use the database of this machine, which is not the one of the server. They are run here,
/// and their report says so.
const HERE_NOTED: &[&str] = &[
    "audit",
    "cleanup",
    "db",
    "mcp",
    "permission",
    "safety",
    "sandbox",
    "token",
    "worker",
];

/// Commands that consist of typed operations, by group.
const OPERATIONS: &[&[&str]] = &[
    session::OPERATIONS,
    commands::plan::OPERATIONS,
    commands::project::OPERATIONS,
    commands::resource::OPERATIONS,
    commands::action::OPERATIONS,
    commands::invariant::OPERATIONS,
    commands::automation::OPERATIONS,
    commands::tool::OPERATIONS,
    commands::skill::OPERATIONS,
    commands::validation::OPERATIONS,
    commands::actor::OPERATIONS,
    commands::run::OPERATIONS,
    commands::model::OPERATIONS,
];

/// What becomes of a command when a server is configured.
pub(crate) enum Outcome {
    /// The server ran it.
    Sent(Box<Report>),
    /// Its operations are sent to the server one by one, and it is shown here.
    Operations,
    /// It is run on this machine. The note says that the server is not asked, where that could be expected.
    Here(Option<String>),
}

/// Sends a command to the server that is configured, unless there is none or the command is about this machine.
pub(crate) fn run(
    context: &Context,
    arguments: &[OsString],
    command: &'static str,
) -> Result<Outcome, CommandError> {
    let Some(connection) = &context.connection else {
        return Ok(Outcome::Here(None));
    };
    let matches = Arguments::command()
        .try_get_matches_from(arguments)
        .map_err(|error| crate::app::usage_error(&error))?;
    let (path, leaf) = leaf(&matches);
    if path.first().is_none_or(|group| HERE.contains(group)) {
        return Ok(Outcome::Here(None));
    }
    if path.first().is_some_and(|group| HERE_NOTED.contains(group)) {
        return Ok(Outcome::Here(Some(format!(
            "this command ran on this machine; the server {} was not asked",
            connection.url
        ))));
    }
    let path = path.join(" ");
    if OPERATIONS.concat().contains(&path.as_str()) {
        return Ok(Outcome::Operations);
    }
    send(context, connection, (&path, leaf), command).map(|report| Outcome::Sent(Box::new(report)))
}

fn send(
    context: &Context,
    connection: &Connection,
    (path, leaf): (&str, &ArgMatches),
    command: &'static str,
) -> Result<Report, CommandError> {
    let all = operations();
    if path == "chat" {
        return chat(context, connection, &all, leaf);
    }
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
    let body = json!({
        "operation": offered.row.name,
        "parameters": parameters,
        "namespace": context.server_namespace()?,
        "format": context.printer.format().as_str(),
    });
    if is_said(leaf, BACKGROUND) {
        return left(context, connection, &body, leaf);
    }
    let answer = if is_said(leaf, STREAM) {
        watched(context, connection, &body)?
    } else {
        connection.post(CLI, &body)?
    };
    reported(answer, command)
}

/// Leaves a plan to the server, which stores that before it answers and goes on by itself.
fn left(
    context: &Context,
    connection: &Connection,
    body: &Value,
    leaf: &ArgMatches,
) -> Result<Report, CommandError> {
    if is_said(leaf, "redo") || is_said(leaf, "skip") {
        let message = "what is to become of a call that was cut off cannot be left to a server";
        return Err(CommandError::new(Code::LocalOnly, message)
            .with_hint("repeat the command without --background"));
    }
    let reference = body["parameters"]["reference"].as_str().map(str::to_owned);
    let status = || {
        let reference = reference.clone();
        context.call(ShowPlanStatus { reference })
    };
    let plan = status()?.plan_id.to_string();
    connection.post(&format!("/api/v1/plans/{plan}/execute"), &json!({}))?;
    let status = status()?;
    Ok(Report::new("plan execute")
        .data(json!({
            "plan_id": plan, "phase": status.phase, "state": status.state,
            "queued": true, "worker_begun": false, "next_steps": status.next_steps,
        }))
        .panel(
            Panel::new("Execution")
                .row("Plan", Cell::Id(plan.clone()))
                .row("Queued", "for the server"),
        )
        .info(format!("watch it with `agents plan wait {plan}`"))
        .ok("Plan left to the server"))
}

/// Talks with the server. What a turn may be given is what `session tell` may be given there.
fn chat(
    context: &Context,
    connection: &Connection,
    all: &[Offered],
    leaf: &ArgMatches,
) -> Result<Report, CommandError> {
    let mut rows = all.iter();
    let tell = rows.find(|offered| offered.row.command == "session tell");
    let tell = tell.ok_or_else(|| CommandError::internal("`session tell` is not offered"))?;
    let mut options = parameters(context, tell, leaf)?;
    let session = options.remove("session").and_then(|session| match session {
        Value::String(session) => Some(session),
        _ => None,
    });
    let server = Talk {
        context,
        connection,
        namespace: context.server_namespace()?,
    };
    run_away(context, &server, session, options)
}

/// What a chat asks of the server.
struct Talk<'a> {
    context: &'a Context,
    connection: &'a Connection,
    namespace: Option<String>,
}

impl Away for Talk<'_> {
    fn run(
        &self,
        operation: &str,
        parameters: &Map<String, Value>,
    ) -> Result<Report, CommandError> {
        let body = json!({
            "operation": operation,
            "parameters": parameters,
            "namespace": self.namespace,
            "format": self.context.printer.format().as_str(),
        });
        let is_watched = operation == "session/tell" && self.context.printer.format().is_human();
        let answer = if is_watched {
            watched(self.context, self.connection, &body)?
        } else {
            self.connection.post(CLI, &body)?
        };
        reported(answer, "chat")
    }
}

/// The report in an answer, or the error.
fn reported(mut answer: Value, command: &'static str) -> Result<Report, CommandError> {
    if let Some(error) = answer.get_mut("error") {
        let error: WireError = read(error.take())?;
        return Err(error.into_error());
    }
    let report: WireReport = read(answer["report"].take())?;
    report.into_report(command)
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
    let is_ours = |id: &str| [STREAM, BACKGROUND].contains(&id);
    if let Some(id) = hidden.find(|id| !is_ours(id) && is_said(id)) {
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
            Some(Part::Name(_) | Part::Read(_)) => {
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
