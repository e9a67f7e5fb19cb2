//! The tools that a request declares to the model, including deferred tools that the model found.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use cleveragents_models::{ChatMessage, ToolDefinition, ToolResult};
use cleveragents_tools::builtin::FETCH_TOOL;
use cleveragents_tools::{
    Declaration, EditTool, ToolName, ToolOffer, ToolSearch, ToolSpec, WorkspaceNeed, called_tool,
};

use super::report::ReportTool;
use super::request::TurnRequest;

/// The tool that searches among deferred tools of MCP servers.
pub(super) const SEARCH_TOOLS: &str = "mcp/search-tools";

/// Adds the deferred tools that a search listed or the model called, in the order of the
/// conversation.
pub(super) fn find_deferred<'a>(
    deferred: &BTreeSet<ToolName>,
    messages: impl Iterator<Item = &'a ChatMessage>,
    found_tools: &mut Vec<ToolName>,
) {
    if deferred.is_empty() {
        return;
    }
    let wire: Vec<(String, &ToolName)> = deferred
        .iter()
        .map(|name| (name.declared_name(), name))
        .collect();
    let mut add = |name: &ToolName| {
        if !found_tools.contains(name) {
            found_tools.push(name.clone());
        }
    };
    let mut searches: HashSet<&str> = HashSet::new();
    for message in messages {
        match message {
            ChatMessage::Assistant(answer) => {
                for call in &answer.calls {
                    let Some(name) = called_tool(&call.name, &call.arguments) else {
                        continue;
                    };
                    let is_search =
                        name == ToolSearch::builtin_name() || name.to_string() == SEARCH_TOOLS;
                    if is_search {
                        searches.insert(call.id.as_str());
                    } else if deferred.contains(&name) {
                        add(&name);
                    }
                }
            }
            ChatMessage::Tool { results } => {
                let is_search = |result: &&ToolResult| searches.contains(result.call_id.as_str());
                for result in results.iter().filter(is_search) {
                    let mut listed: Vec<(usize, &ToolName)> = wire
                        .iter()
                        .filter_map(|(wire, name)| {
                            let quoted = format!("\"{wire}\"");
                            Some((result.content.find(&quoted)?, *name))
                        })
                        .collect();
                    listed.sort_unstable();
                    for (_, name) in listed {
                        add(name);
                    }
                }
            }
            ChatMessage::User { .. } => {}
        }
    }
}

/// Size of the tool declarations in a request, in bytes.
pub(super) fn tool_bytes(tools: &[ToolDefinition]) -> usize {
    let bytes = tools
        .iter()
        .map(|tool| tool.description.len() + tool.input_schema.to_string().len());
    bytes.sum()
}

/// Whether the turn has the sandbox and the write permission that a tool needs. Requests do not
/// declare other tools.
pub(super) fn can_run(request: &TurnRequest<'_>, spec: &ToolSpec) -> bool {
    let tools = &request.tools;
    // A plan, which often has no user to ask, reads web pages only where a rule allows it.
    let is_offered = request.plan.is_none()
        || spec.name.to_string() != FETCH_TOOL
        || tools.rules.allows_some(&spec.name);
    let has_workspace = spec.workspace_need == WorkspaceNeed::None || tools.workspace.is_some();
    let may_write = tools.mode.offers_writing() || !spec.capability.is_writing();
    is_offered && has_workspace && may_write
}

pub(super) fn definition(declaration: Declaration) -> ToolDefinition {
    ToolDefinition {
        name: declaration.name,
        description: declaration.description,
        input_schema: declaration.input_schema,
    }
}

/// The selection of built-in tools for the model of a turn. Plans send many requests and therefore
/// declare the smallest set.
pub(super) fn offer(request: &TurnRequest<'_>) -> ToolOffer {
    ToolOffer {
        edit: if request.model.capabilities().apply_patch {
            EditTool::ApplyPatch
        } else {
            EditTool::EditFile
        },
        is_compact: request.plan.is_some(),
    }
}

/// The tools that every request declares: the tools that can run and are not deferred.
pub(super) fn definitions(request: &TurnRequest<'_>) -> Arc<[ToolDefinition]> {
    if !request.model.capabilities().tools {
        return Arc::default();
    }
    let is_declared =
        |spec: &ToolSpec| can_run(request, spec) && !request.tools.deferred.contains(&spec.name);
    let registry = request.tools.gate.registry();
    let declared = registry.declarations(is_declared, offer(request));
    let reports = request.reports.offered.iter().map(ReportTool::definition);
    declared
        .into_iter()
        .map(definition)
        .chain(reports)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use cleveragents_models::{AssistantMessage, ChatMessage, ToolCall, ToolResult};
    use cleveragents_tools::ToolName;

    use super::find_deferred;

    fn assistant_call(id: &str, name: &str) -> ChatMessage {
        ChatMessage::Assistant(AssistantMessage {
            calls: vec![ToolCall {
                id: id.to_owned(),
                name: name.to_owned(),
                arguments: "{}".to_owned(),
                signature: None,
            }],
            ..AssistantMessage::default()
        })
    }

    fn tool_result(id: &str, content: &str) -> ChatMessage {
        ChatMessage::Tool {
            results: vec![ToolResult {
                call_id: id.to_owned(),
                content: content.to_owned(),
                is_error: false,
                pictures: Vec::new(),
            }],
        }
    }

    #[test]
    fn deferred_tools_are_found_by_search_or_call_in_conversation_order() {
        let name = |text: &str| text.parse::<ToolName>().expect("a name");
        let deferred: BTreeSet<ToolName> =
            ["mcp/s-alpha", "mcp/s-beta", "mcp/s-gamma", "mcp/s-delta"]
                .map(name)
                .into();
        let messages = [
            ChatMessage::user("find \"mcp_S_s-delta\""),
            assistant_call("1", "mcp_S_search-tools"),
            tool_result(
                "1",
                r#"[{"name": "mcp_S_s-gamma"}, {"name": "mcp_S_s-alpha"}]"#,
            ),
            assistant_call("2", "builtin_S_file-read"),
            tool_result("2", r#""mcp_S_s-delta""#),
            assistant_call("3", "mcp_S_s-beta"),
        ];
        let mut found = Vec::new();
        find_deferred(&deferred, messages.iter(), &mut found);
        assert_eq!(
            found,
            ["mcp/s-gamma", "mcp/s-alpha", "mcp/s-beta"].map(name)
        );
        // Tools of a later search are added at the end, without duplicates.
        let later = [
            assistant_call("4", "mcp_S_search-tools"),
            tool_result(
                "4",
                r#"[{"name":"mcp_S_s-alpha"},{"name":"mcp_S_s-delta"}]"#,
            ),
        ];
        find_deferred(&deferred, later.iter(), &mut found);
        assert_eq!(
            found,
            ["mcp/s-gamma", "mcp/s-alpha", "mcp/s-beta", "mcp/s-delta"].map(name)
        );
    }
}
