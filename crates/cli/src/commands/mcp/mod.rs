//! `mcp`: MCP servers.

mod add;
mod show;

use cleveragents_application::{McpService, mcp_server_homes};
use serde_json::{Value, json};

use crate::arguments::{Deletion, Mcp};
use crate::commands::counted;
use crate::context::Context;
use crate::output::{Align, Cell, CommandError, Panel, Report, Table};

pub(super) fn run(context: &Context, command: Mcp) -> Result<Report, CommandError> {
    let service = McpService::new(context.engine()?);
    match command {
        Mcp::Add(arguments) => add::add(context, &service, &arguments),
        Mcp::Import { file, update } => add::import(context, &service, &file, update),
        Mcp::List => list(&service),
        Mcp::Show { server, offline } => show::show(context, &service, &server.name, offline),
        Mcp::Test { server } => show::test(context, &service, &server.name),
        Mcp::Login { server } => login(context, &service, &server.name),
        Mcp::Remove { server, deletion } => remove(context, &server.name, deletion),
    }
}

fn list(service: &McpService) -> Result<Report, CommandError> {
    let all = service.list()?;
    let table = Table::new("MCP Servers")
        .column("Name", Align::Left)
        .column("Transport", Align::Left)
        .column("Location", Align::Left)
        .column("Registered", Align::Left)
        .keep(["Name"])
        .drop_first(["Registered"])
        .empty("No servers. Register one with `agents mcp add`")
        .rows(all.iter().map(|server| {
            let (transport, location) = match &server.definition {
                Ok(definition) => (
                    show::transport(definition).into(),
                    show::place(definition).into(),
                ),
                Err(error) => (
                    Cell::Bad("broken".to_owned()),
                    error.message.as_str().into(),
                ),
            };
            vec![
                server.stored.name.as_str().into(),
                transport,
                location,
                server.stored.updated_at.into(),
            ]
        }));
    let entries: Vec<Value> = all
        .iter()
        .map(|server| match &server.definition {
            Ok(definition) => show::summary(definition, &server.stored),
            Err(error) => json!({"name": server.stored.name, "problem": error.message}),
        })
        .collect();
    Ok(Report::new("mcp list")
        .data(json!({"mcp_servers": entries, "summary": {"total": all.len()}}))
        .table(table)
        .ok(format!("{} listed", counted(all.len(), "server"))))
}

fn remove(context: &Context, name: &str, deletion: Deletion) -> Result<Report, CommandError> {
    let service = McpService::new(deletion.rehearsal.engine(context)?);
    let server = service.get(name)?;
    deletion.confirm(&format!("Remove server {}?", server.stored.name))?;
    let removed = service.remove(name)?;
    if !deletion.dry_run() {
        remove_home(&mcp_server_homes(context.home.path()).join(&removed.name));
    }
    let report = Report::new("mcp remove")
        .data(json!({"removed": removed.name}))
        .panel(Panel::new("Removal Summary").row("Server", removed.name));
    Ok(deletion.conclude(report, "Server removed"))
}

/// Removes the home folder that only the program of this server uses.
fn remove_home(folder: &std::path::Path) {
    // Fails if the program has no such folder. Other failures are ignored too, because the folder contains only caches.
    let _left = std::fs::remove_dir_all(folder);
}

/// Prints the sign-in URL and waits until the user has signed in.
fn login(context: &Context, service: &McpService, name: &str) -> Result<Report, CommandError> {
    let definition = show::definition(service, name)?;
    let servers = show::servers_of(context, &definition)?;
    // Without a token the server refuses this request; its response names the authorization server to sign in at.
    let _refused = servers.connect(name);
    servers.login(name, |address| {
        use std::io::Write as _;
        let prompt = format!("Open this URL in your browser to sign in:\n\n  {address}\n\n");
        let _closed = std::io::stderr().write_all(prompt.as_bytes());
    })?;
    let listing = servers.connect(name)?;
    Ok(Report::new("mcp login")
        .data(json!({"server": name, "tools": listing.tools.len()}))
        .panel(
            Panel::new("Signed In")
                .row("Server", name.to_owned())
                .row("Tools", listing.tools.len()),
        )
        .ok("Signed in"))
}
