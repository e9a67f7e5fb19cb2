//! `mcp add` and `mcp import`.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use cleveragents_application::{McpService, Outcome, Register, hide_secrets};
use cleveragents_domain::Code;
use cleveragents_mcp::{HiddenText, McpError, ServerDefinition, ToolFilter, ToolOverride};
use serde_json::{Value, json};

use super::show;
use crate::arguments::McpAdd;
use crate::commands::{counted, read_definition};
use crate::context::Context;
use crate::output::{CommandError, Panel, Report};

pub(super) fn add(
    context: &Context,
    service: &McpService,
    arguments: &McpAdd,
) -> Result<Report, CommandError> {
    let (servers, source) = match &arguments.config {
        Some(config) => {
            let (text, path) = read_file(context, config)?;
            (cleveragents_mcp::read(&text, Path::new(&path))?, path)
        }
        None => (
            vec![from_flags(context, service, arguments)?],
            "command line".to_owned(),
        ),
    };
    let registration = Registration {
        command: "mcp add",
        servers: &servers,
        source: &source,
        is_update: arguments.update,
        warnings: &[],
    };
    registration.register(context, service)
}

pub(super) fn import(
    context: &Context,
    service: &McpService,
    file: &Path,
    is_update: bool,
) -> Result<Report, CommandError> {
    let (text, source) = read_file(context, file)?;
    let imported = cleveragents_mcp::import(&text, Path::new(&source))?;
    let redactor = context.models(None)?.redactor();
    let mut warnings = imported.warnings;
    let mut servers = imported.servers;
    for server in &mut servers {
        for name in hide_secrets(server, &redactor) {
            warnings.push(format!(
                "a secret of `{}` is not stored: set the variable `{name}` before you use the server",
                server.name
            ));
        }
    }
    let registration = Registration {
        command: "mcp import",
        servers: &servers,
        source: &source,
        is_update,
        warnings: &warnings,
    };
    registration.register(context, service)
}

/// Reads a file. Returns its text and its absolute path.
fn read_file(context: &Context, file: &Path) -> Result<(String, String), CommandError> {
    let text = read_definition(file, "the file of servers", Code::MalformedMcp)?;
    let base = context.environment.working_folder();
    let path = base.unwrap_or_else(|| Path::new("/")).join(file);
    Ok((text, path.display().to_string()))
}

fn from_flags(
    context: &Context,
    service: &McpService,
    arguments: &McpAdd,
) -> Result<ServerDefinition, CommandError> {
    let name = arguments.name.clone().unwrap_or_default();
    let mut definition = match (&arguments.url, arguments.command.split_first()) {
        (None, None) if arguments.update => show::definition(service, &name)?,
        (Some(url), _) => ServerDefinition::http(&name, url),
        (None, Some((program, rest))) => {
            let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
            ServerDefinition::stdio(&name, program, &rest)
        }
        (None, None) => {
            return Err(
                CommandError::usage("a server needs a program or a URL").with_hint(
                    "use `agents mcp add NAME -- COMMAND …`, or `agents mcp add NAME --url URL`",
                ),
            );
        }
    };
    definition.env.extend(pairs(&arguments.env, "--env")?);
    definition
        .headers
        .extend(pairs(&arguments.header, "--header")?);
    let filter: &mut ToolFilter = &mut definition.tool_filter;
    extend(&mut filter.include, arguments.include.iter().cloned());
    extend(&mut filter.exclude, arguments.exclude.iter().cloned());
    let paths = |relative: &[PathBuf]| -> Vec<String> {
        relative
            .iter()
            .map(|path| absolute_path(context, path))
            .collect()
    };
    extend(&mut definition.read, paths(&arguments.read));
    extend(&mut definition.write, paths(&arguments.write));
    extend(&mut definition.credentials, paths(&arguments.credentials));
    if arguments.read_only {
        let tool_override = ToolOverride {
            read_only: Some(true),
            ..ToolOverride::default()
        };
        definition.overrides.insert("*".to_owned(), tool_override);
    }
    definition.checked().map_err(|broken| {
        let error = McpError::Invalid {
            server: name,
            message: broken.message,
            fix: broken.fix.into(),
        };
        error.into()
    })
}

/// Appends the items that the list does not contain yet.
fn extend(list: &mut Vec<String>, more: impl IntoIterator<Item = String>) {
    for item in more {
        if !list.contains(&item) {
            list.push(item);
        }
    }
}

/// Makes a path absolute, unless it starts with `~` or a variable.
fn absolute_path(context: &Context, path: &Path) -> String {
    let text = path.display().to_string();
    if text.starts_with('~') || text.starts_with("${") {
        return text;
    }
    let base = context.environment.working_folder();
    let path = base.unwrap_or_else(|| Path::new("/")).join(path);
    let parts = path
        .components()
        .fold(PathBuf::new(), |mut absolute, part| {
            match part {
                Component::ParentDir => drop(absolute.pop()),
                Component::CurDir => {}
                part => absolute.push(part),
            }
            absolute
        });
    parts.display().to_string()
}

fn pairs(texts: &[String], option: &str) -> Result<BTreeMap<String, HiddenText>, CommandError> {
    texts
        .iter()
        .map(|pair| match pair.split_once('=') {
            Some((name, value)) if !name.is_empty() => {
                Ok((name.to_owned(), HiddenText::new(value)))
            }
            // The value may be a secret, so the error does not repeat it.
            _ => Err(CommandError::usage(format!("{option} needs NAME=VALUE"))
                .with_hint(format!("use for example {option} 'TOKEN=${{MY_TOKEN}}'"))),
        })
        .collect()
}

/// Servers to register.
struct Registration<'a> {
    command: &'static str,
    servers: &'a [ServerDefinition],
    source: &'a str,
    is_update: bool,
    warnings: &'a [String],
}

impl Registration<'_> {
    fn register(&self, context: &Context, service: &McpService) -> Result<Report, CommandError> {
        let register = if self.is_update {
            Register::Update
        } else {
            Register::New
        };
        let options = context.mcp_server_options();
        let mut views = Vec::new();
        for server in self.servers {
            let view = server.view(&*options.variables, &options.folder);
            views.push(view.map_err(|broken| McpError::Invalid {
                server: server.name.clone(),
                message: broken.message,
                fix: broken.fix.into(),
            })?);
        }
        let redactor = context.models(None)?.redactor();
        let added = service.add(self.servers, self.source, register, &redactor)?;
        let entries: Vec<Value> = added
            .iter()
            .zip(&views)
            .map(|(added, view)| {
                let mut entry = show::summary(&added.definition, &added.stored);
                entry["outcome"] = json!(added.outcome);
                entry["sees"] = show::view_json(view);
                entry
            })
            .collect();
        let data = json!({"mcp_servers": entries, "warnings": self.warnings});
        let mut report = Report::new(self.command).data(data);
        for (added, view) in added.iter().zip(&views) {
            let panel = Panel::new("MCP Server")
                .row("Name", added.definition.name.clone())
                .row("Transport", show::transport(&added.definition))
                .row("Location", show::place(&added.definition));
            report = report.panel(show::with_view_rows(panel, &added.definition, view).row(
                "Outcome",
                if added.outcome == Outcome::Updated {
                    "replaced"
                } else {
                    "new"
                },
            ));
            for (path, reason) in &view.hidden {
                report = report.warn(format!(
                    "`{}` cannot read {}, which is one of its arguments: it {reason}",
                    added.definition.name,
                    path.display()
                ));
            }
        }
        for warning in self.warnings {
            report = report.warn(warning.clone());
        }
        if let [only] = self.servers {
            report = report.info(format!("test it with `agents mcp test {}`", only.name));
        }
        Ok(report.ok(format!("{} registered", counted(added.len(), "server"))))
    }
}
