//! `mcp show` and `mcp test`.

use std::path::PathBuf;
use std::time::Instant;

use cleveragents_application::McpService;
use cleveragents_domain::Code;
use cleveragents_mcp::{Listing, ServerDefinition, ServerView, Servers, Transport};
use cleveragents_store::definitions::StoredDefinition;
use serde_json::{Value, json};

use crate::commands::turn_view::short;
use crate::commands::{counted, yes_no};
use crate::context::Context;
use crate::output::{Align, Cell, CommandError, Panel, Report, Table};

/// JSON summary of a server. It contains the names of variables and headers, never their values.
pub(super) fn summary(definition: &ServerDefinition, stored: &StoredDefinition) -> Value {
    json!({
        "name": definition.name,
        "description": definition.description,
        "transport": transport(definition),
        "command": definition.command,
        "args": definition.args,
        "env": definition.env.keys().collect::<Vec<_>>(),
        "cwd": definition.cwd,
        "read": definition.read,
        "write": definition.write,
        "credentials": definition.credentials,
        "url": definition.url,
        "headers": definition.headers.keys().collect::<Vec<_>>(),
        "tool_filter": definition.tool_filter,
        "overrides": definition.overrides,
        "lazy_start": definition.lazy_start,
        "auto_restart": definition.auto_restart,
        "idle_timeout_seconds": definition.idle_timeout_seconds,
        "timeout_seconds": definition.timeout_seconds,
        "config": stored.source,
        "created": stored.created_at,
        "updated": stored.updated_at,
        "version": stored.version,
    })
}

/// Paths that the program of a server can access, as JSON.
pub(super) fn view_json(view: &ServerView) -> Value {
    let hidden = view.hidden.iter();
    json!({
        "read": view.read,
        "write": view.write,
        "credentials": view.credentials,
        "hidden": hidden.map(|(path, reason)| json!({"path": path, "why": reason})).collect::<Vec<_>>(),
    })
}

/// Adds rows for the paths that the program of a server can access.
pub(super) fn with_view_rows(
    panel: Panel,
    definition: &ServerDefinition,
    view: &ServerView,
) -> Panel {
    if definition.transport() != Transport::Stdio {
        return panel;
    }
    let paths = |paths: &[PathBuf]| -> Option<String> {
        let paths: Vec<String> = paths
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        (!paths.is_empty()).then(|| paths.join(", "))
    };
    let reads = paths(&view.read).unwrap_or_else(|| "no declared folder".to_owned());
    panel
        .row("Reads", reads)
        .row("Writes", paths(&view.write))
        .row("Credentials", paths(&view.credentials))
}

pub(super) fn transport(definition: &ServerDefinition) -> &'static str {
    match definition.transport() {
        Transport::Stdio => "stdio",
        Transport::Sse => "sse",
        Transport::StreamableHttp => "streamable-http",
    }
}

/// Location of a server: program with arguments, or URL.
pub(super) fn place(definition: &ServerDefinition) -> String {
    match (&definition.command, &definition.url) {
        (Some(command), _) => {
            let words = std::iter::once(command).chain(&definition.args);
            words.map(String::as_str).collect::<Vec<_>>().join(" ")
        }
        (None, url) => url.clone().unwrap_or_default(),
    }
}

/// Definition of a registered server.
pub(super) fn definition(
    service: &McpService,
    name: &str,
) -> Result<ServerDefinition, CommandError> {
    let server = service.get(name)?;
    server.definition.map_err(|error| {
        let reason = error.message;
        CommandError::new(
            Code::MalformedMcp,
            format!("the stored definition of `{name}` cannot be read: {reason}"),
        )
        .with_hint("register it again with `agents mcp add --update`")
    })
}

/// MCP client whose only server is the given one.
pub(super) fn servers_of(
    context: &Context,
    definition: &ServerDefinition,
) -> Result<Servers, CommandError> {
    let servers = Servers::new(context.mcp_server_options()).map_err(|error| {
        CommandError::internal("the MCP client cannot be created").caused_by(&error)
    })?;
    servers.add(definition.clone(), None)?;
    Ok(servers)
}

pub(super) fn show(
    context: &Context,
    service: &McpService,
    name: &str,
    is_offline: bool,
) -> Result<Report, CommandError> {
    let registered = service.get(name)?;
    let definition = definition(service, name)?;
    let options = context.mcp_server_options();
    let mut server = summary(&definition, &registered.stored);
    let mut report = Report::new("mcp show");
    match definition.view(&*options.variables, &options.folder) {
        Ok(view) => {
            server["sees"] = view_json(&view);
            report = report.panel(with_view_rows(panel(&definition), &definition, &view));
        }
        Err(broken) => {
            server["problem"] = json!(broken.message);
            report = report.panel(panel(&definition)).warn(broken.message);
        }
    }
    if is_offline {
        return Ok(report
            .data(json!({"mcp_server": server, "tools": Value::Null}))
            .ok("Server loaded"));
    }
    let servers = servers_of(context, &definition)?;
    let listing = servers.connect(name)?;
    let tools = offered(&definition, &listing);
    Ok(report
        .data(json!({"mcp_server": server, "about": about(&listing), "tools": tools}))
        .table(table(&definition, &listing))
        .ok("Server loaded"))
}

pub(super) fn test(
    context: &Context,
    service: &McpService,
    name: &str,
) -> Result<Report, CommandError> {
    let definition = definition(service, name)?;
    let servers = servers_of(context, &definition)?;
    let start_time = Instant::now();
    let listing = servers.connect(name)?;
    let seconds = start_time.elapsed().as_secs_f64();
    let offer = servers.offer();
    let log = servers.status(name)?.log;
    servers.shutdown();
    let left_out: Vec<Value> = offer
        .left_out
        .iter()
        .map(|tool| json!({"tool": tool.tool, "why": tool.why}))
        .collect();
    let mut report = Report::new("mcp test")
        .data(json!({
            "server": name,
            "is_reachable": true,
            "about": about(&listing),
            "seconds": seconds,
            "tools": offered(&definition, &listing),
            "left_out": left_out,
            "log": log,
        }))
        .panel(
            Panel::new("MCP Server")
                .row("Name", name.to_owned())
                .row(
                    "Reported name",
                    format!("{} {}", listing.title, listing.version),
                )
                .row("Protocol", listing.protocol.clone())
                .row("Tools", listing.tools.len())
                .row("Resources", yes_no(listing.has_resources))
                .row("Prompts", yes_no(listing.has_prompts))
                .row("Started in", Cell::Seconds(seconds)),
        )
        .table(table(&definition, &listing));
    for tool in &offer.left_out {
        report = report.warn(format!("`{}` is not offered: {}", tool.tool, tool.why));
    }
    Ok(report.ok(format!(
        "The server responds and offers {}",
        counted(listing.tools.len(), "tool")
    )))
}

fn panel(definition: &ServerDefinition) -> Panel {
    let names = |names: Vec<&String>| {
        let names: Vec<&str> = names.into_iter().map(String::as_str).collect();
        (!names.is_empty()).then(|| names.join(", "))
    };
    Panel::new("MCP Server")
        .row("Name", definition.name.clone())
        .row("Description", definition.description.clone())
        .row("Transport", transport(definition))
        .row("Location", place(definition))
        .row("Variables", names(definition.env.keys().collect()))
        .row("Headers", names(definition.headers.keys().collect()))
        .row("Lazy start", yes_no(definition.lazy_start))
        .row("Restart after a crash", yes_no(definition.auto_restart))
}

fn about(listing: &Listing) -> Value {
    json!({
        "title": listing.title,
        "version": listing.version,
        "protocol": listing.protocol,
        "has_resources": listing.has_resources,
        "has_prompts": listing.has_prompts,
    })
}

fn offered(definition: &ServerDefinition, listing: &Listing) -> Vec<Value> {
    let tools = listing.tools.iter().map(|tool| {
        json!({
            "name": tool.name,
            "description": tool.description,
            "is_offered": definition.tool_filter.selects(&tool.name),
            "hints": tool.hints,
            "input_schema": tool.input_schema,
        })
    });
    tools.collect()
}

fn table(definition: &ServerDefinition, listing: &Listing) -> Table {
    Table::new("Tools")
        .column("Tool", Align::Left)
        .column("Access", Align::Left)
        .column("Offered", Align::Left)
        .column("Description", Align::Left)
        .empty("The server offers no tool")
        .rows(listing.tools.iter().map(|tool| {
            let change = definition.override_for(&tool.name);
            let is_read_only = change.read_only.unwrap_or(tool.hints.read_only);
            vec![
                tool.name.as_str().into(),
                if is_read_only {
                    Cell::Good("reads".to_owned())
                } else {
                    Cell::Warn("writes".to_owned())
                },
                yes_no(definition.tool_filter.selects(&tool.name)).into(),
                short(&tool.description, 80).into(),
            ]
        }))
}
