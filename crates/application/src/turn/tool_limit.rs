//! [`LimitedTools`]: declares fewer tools when a provider limits their number.
//!
//! Providers refuse a request that declares too many tools (`OpenAI`: 128). Tools over the limit
//! are deferred: requests do not declare them until the model finds them with
//! `builtin/search-tools` or calls them.

use std::collections::BTreeSet;
use std::sync::Arc;

use cleveragents_tools::{Gate, Source, ToolName, ToolSpec};

use super::request::{TurnRequest, TurnTools};
use super::tool_declarations::{SEARCH_TOOLS, can_run, offer};

/// The tools of a turn whose model accepts fewer tools than the turn has.
pub(super) struct LimitedTools {
    gate: Gate,
    deferred: BTreeSet<ToolName>,
}

/// Number of declarations, out of `limit`, that are reserved for tools found later.
fn room_for_found(limit: usize) -> usize {
    limit / 4
}

impl LimitedTools {
    /// `None` when all tools can be declared.
    pub(super) fn new(request: &TurnRequest<'_>) -> Option<Self> {
        let capabilities = request.model.capabilities();
        let limit = usize::try_from(capabilities.max_tools?).unwrap_or(usize::MAX);
        let limit = limit.saturating_sub(request.reports.offered.len());
        if !capabilities.tools {
            return None;
        }
        let registry = request.tools.gate.registry();
        let known = request.tools.deferred;
        let declared = registry
            .list()
            .filter(|spec| can_run(request, spec) && !known.contains(&spec.name));
        let mut declared: Vec<&ToolSpec> = declared.collect();
        let is_declared = |spec: &ToolSpec| declared.iter().any(|known| known.name == spec.name);
        let count = registry.declarations(is_declared, offer(request)).len();
        let max_declared = if known.is_empty() {
            limit
        } else {
            limit - room_for_found(limit)
        };
        if count <= max_declared {
            return None;
        }
        // The built-in search tool replaces the search tool of the MCP servers and is declared too.
        declared.retain(|spec| spec.name.to_string() != SEARCH_TOOLS);
        declared.sort_by_key(|spec| (rank(spec.source), spec.name.clone()));
        let kept = (limit - room_for_found(limit)).saturating_sub(1);
        let mut deferred = known.clone();
        // Several built-in tools are declared as one tool.
        let is_builtin = |spec: &&&ToolSpec| spec.source == Source::Builtin;
        let builtin_tools: Vec<&&ToolSpec> = declared.iter().filter(is_builtin).collect();
        let is_declared =
            |spec: &ToolSpec| builtin_tools.iter().any(|known| known.name == spec.name);
        let merged = registry.declarations(is_declared, offer(request)).len();
        let skipped = if merged <= kept {
            builtin_tools.len() + kept - merged
        } else {
            kept
        };
        deferred.extend(declared.iter().skip(skipped).map(|spec| spec.name.clone()));
        let registry = registry
            .narrowed(|spec| spec.name.to_string() != SEARCH_TOOLS)
            .with_search(|spec| deferred.contains(&spec.name) && can_run(request, spec));
        Some(Self {
            gate: Gate::new(Arc::new(registry)),
            deferred,
        })
    }

    /// Returns the request with the limited tools.
    pub(super) fn apply<'a>(&'a self, request: &TurnRequest<'a>) -> TurnRequest<'a> {
        TurnRequest {
            tools: TurnTools {
                gate: &self.gate,
                deferred: &self.deferred,
                ..request.tools.clone()
            },
            ..request.clone()
        }
    }
}

/// Declaration order: built-in tools, then tools of the user, then tools of skills and MCP servers.
fn rank(source: Source) -> u8 {
    match source {
        Source::Builtin => 0,
        Source::Custom | Source::Wrapped => 1,
        Source::AgentSkill => 2,
        Source::Mcp => 3,
    }
}
