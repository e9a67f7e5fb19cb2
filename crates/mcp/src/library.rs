//! Built-in tools for the resources and prompts of servers.

use std::sync::{Arc, Weak};

use cleveragents_domain::MicroUsd;
use cleveragents_tools::ports::WorkspaceFolders;
use cleveragents_tools::{
    Answer, Call, Capability, Category, Failure, Permit, PrepareContext, PrepareError,
    PreparedCall, Source, Subject, Tool, ToolName, ToolSpec, WorkspaceNeed,
};
use rmcp::model::{GetPromptRequestParams, PaginatedRequestParams, ReadResourceRequestParams};
use serde_json::{Map, Value, json};

use crate::connection::bounded;
use crate::content;
use crate::naming::OWN;
use crate::request::RequestError;
use crate::server::Server;
use crate::tool::{CallAsker, failure, folders_of};

/// Maximum number of entries in a result.
const MAX_LISTED: usize = 200;
/// Maximum number of pages to request of one list.
const MAX_PAGES: usize = 20;

/// Operation of a built-in tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LibraryAction {
    ListResources,
    ReadResource,
    ListPrompts,
    GetPrompt,
}

/// A built-in tool for the resources and prompts of servers.
struct LibraryTool {
    spec: ToolSpec,
    action: LibraryAction,
    servers: Vec<Weak<Server>>,
}

/// The tools for resources and for prompts, if any of these servers has resources or prompts.
pub(crate) fn tools(servers: &[Arc<Server>]) -> Vec<Arc<dyn Tool>> {
    let servers_with = |has_feature: fn(&crate::Listing) -> bool| -> Vec<&Arc<Server>> {
        servers
            .iter()
            .filter(|server| {
                server
                    .listing()
                    .is_some_and(|listing| has_feature(&listing))
            })
            .collect()
    };
    let resources = servers_with(|listing| listing.has_resources);
    let prompts = servers_with(|listing| listing.has_prompts);
    let all = [
        (LibraryAction::ListResources, &resources),
        (LibraryAction::ReadResource, &resources),
        (LibraryAction::ListPrompts, &prompts),
        (LibraryAction::GetPrompt, &prompts),
    ];
    all.into_iter()
        .filter(|(_, servers)| !servers.is_empty())
        .map(|(action, servers)| Arc::new(LibraryTool::new(action, servers)) as Arc<dyn Tool>)
        .collect()
}

pub(crate) fn library_tool_name(short: &str) -> ToolName {
    format!("{OWN}/{short}")
        .parse()
        .expect("the names of these tools are valid")
}

fn spec(short: &str, description: &str, input_schema: Value) -> ToolSpec {
    ToolSpec {
        name: library_tool_name(short),
        description: description.to_owned(),
        source: Source::Mcp,
        category: Category::External,
        workspace_need: WorkspaceNeed::None,
        input_schema,
        output_schema: None,
        capability: Capability::reads(),
        resources: Vec::new(),
        timeout: cleveragents_tools::DEFAULT_TIMEOUT,
        cost: MicroUsd(0),
    }
}

impl LibraryTool {
    fn new(action: LibraryAction, servers: &[&Arc<Server>]) -> Self {
        let names: Vec<&str> = servers
            .iter()
            .map(|server| server.definition.name.as_str())
            .collect();
        let (short, description, field) = match action {
            LibraryAction::ListResources => (
                "list-resources",
                "Lists the resources of an MCP server and its resource URI templates.",
                None,
            ),
            LibraryAction::ReadResource => (
                "read-resource",
                "Reads a resource of an MCP server by its `uri`.",
                Some(("uri", json!({"type": "string", "minLength": 1}))),
            ),
            LibraryAction::ListPrompts => (
                "list-prompts",
                "Lists the prompts of an MCP server and their arguments.",
                None,
            ),
            LibraryAction::GetPrompt => (
                "get-prompt",
                "Returns a prompt of an MCP server, filled with arguments.",
                Some(("name", json!({"type": "string", "minLength": 1}))),
            ),
        };
        let mut properties = Map::new();
        properties.insert(
            "server".to_owned(),
            json!({"type": "string", "enum": names}),
        );
        let mut required = vec!["server"];
        if let Some((name, schema)) = field {
            properties.insert(name.to_owned(), schema);
            required.push(name);
        }
        if action == LibraryAction::GetPrompt {
            let schema = json!({"type": "object", "additionalProperties": {"type": "string"}});
            properties.insert("arguments".to_owned(), schema);
        }
        let schema = json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        });
        Self {
            spec: spec(short, description, schema),
            action,
            servers: servers
                .iter()
                .map(|server| Arc::downgrade(server))
                .collect(),
        }
    }
}

impl Tool for LibraryTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn prepare<'a>(
        &'a self,
        arguments: Value,
        context: PrepareContext<'a>,
    ) -> Result<Box<dyn PreparedCall + 'a>, PrepareError> {
        let text = |name: &str| {
            let value = arguments.get(name).and_then(Value::as_str);
            value.unwrap_or_default().to_owned()
        };
        let server_name = text("server");
        let server = self
            .servers
            .iter()
            .filter_map(Weak::upgrade)
            .find(|server| server.definition.name == server_name)
            .ok_or_else(|| {
                PrepareError::Arguments(format!("server `{server_name}` does not exist"))
            })?;
        let item = match self.action {
            LibraryAction::ReadResource => text("uri"),
            LibraryAction::GetPrompt => text("name"),
            LibraryAction::ListResources | LibraryAction::ListPrompts => String::new(),
        };
        let given = arguments.get("arguments").and_then(Value::as_object);
        Ok(Box::new(PreparedRequest {
            action: self.action,
            server,
            item,
            arguments: given.cloned().unwrap_or_default(),
            folders: folders_of(context),
        }))
    }
}

/// A prepared call.
struct PreparedRequest {
    action: LibraryAction,
    server: Arc<Server>,
    /// URI of a resource or name of a prompt; empty for lists.
    item: String,
    arguments: Map<String, Value>,
    folders: WorkspaceFolders,
}

impl PreparedCall for PreparedRequest {
    fn subjects(&self) -> Vec<Subject> {
        let server = &self.server.definition.name;
        vec![Subject::Text(format!("{server} {}", self.item))]
    }

    fn run(self: Box<Self>, _permit: Permit, call: &mut Call<'_>) -> Result<Answer, Failure> {
        let name = self.server.definition.name.clone();
        let Self {
            action,
            server,
            item,
            arguments,
            folders,
        } = *self;
        let text = {
            let mut caller = CallAsker::new(call, &name, &folders);
            server.ask(&mut caller, move |_, link| async move {
                match action {
                    LibraryAction::ListResources => resources(&link.service).await,
                    LibraryAction::ReadResource => {
                        let params = ReadResourceRequestParams::new(item);
                        let read = link.service.read_resource(params).await?;
                        let parts: Vec<String> =
                            read.contents.iter().map(content::resource).collect();
                        Ok(parts.join("\n"))
                    }
                    LibraryAction::ListPrompts => prompts(&link.service).await,
                    LibraryAction::GetPrompt => {
                        let params = GetPromptRequestParams::new(item).with_arguments(arguments);
                        let prompt = link.service.get_prompt(params).await?;
                        let parts = prompt.messages.iter().map(|message| {
                            let text = content::described(&message.content);
                            format!("[{:?}]\n{text}", message.role)
                        });
                        Ok(parts.collect::<Vec<_>>().join("\n"))
                    }
                }
            })
        };
        let text: String = text.map_err(|why| failure(&name, why))?;
        call.output.text(&text);
        Ok(Answer::written())
    }
}

type McpService = crate::connection::McpService;

async fn resources(service: &McpService) -> Result<String, RequestError> {
    let mut lines = Vec::new();
    let mut cursor = None;
    for _ in 0..MAX_PAGES {
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        let page = service.list_resources(Some(params)).await?;
        lines.extend(
            page.resources
                .iter()
                .map(|resource| bounded(&content::linked(resource))),
        );
        cursor = page.next_cursor;
        if cursor.is_none() || lines.len() > MAX_LISTED {
            break;
        }
    }
    // Servers need not support resource templates.
    if let Ok(page) = service.list_resource_templates(None).await {
        lines.extend(page.resource_templates.iter().map(|template| {
            let about = template.description.as_deref().unwrap_or_default();
            bounded(&format!(
                "[URI template {} `{}`] {about}",
                template.uri_template, template.name
            ))
        }));
    }
    Ok(join_lines(lines))
}

async fn prompts(service: &McpService) -> Result<String, RequestError> {
    let mut lines = Vec::new();
    let mut cursor = None;
    for _ in 0..MAX_PAGES {
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        let page = service.list_prompts(Some(params)).await?;
        lines.extend(page.prompts.iter().map(|prompt| {
            let arguments = prompt.arguments.iter().flatten().map(|argument| {
                let optional = if argument.required == Some(true) {
                    ""
                } else {
                    "?"
                };
                format!("{}{optional}", argument.name)
            });
            let arguments = arguments.collect::<Vec<_>>().join(", ");
            let about = prompt.description.as_deref().unwrap_or_default();
            bounded(&format!("`{}` ({arguments}) {about}", prompt.name))
        }));
        cursor = page.next_cursor;
        if cursor.is_none() || lines.len() > MAX_LISTED {
            break;
        }
    }
    Ok(join_lines(lines))
}

fn join_lines(mut lines: Vec<String>) -> String {
    let count = lines.len();
    lines.truncate(MAX_LISTED);
    if count > MAX_LISTED {
        lines.push(format!("… and {} more", count - MAX_LISTED));
    }
    if lines.is_empty() {
        return "nothing".to_owned();
    }
    lines.join("\n")
}
