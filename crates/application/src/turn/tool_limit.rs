//! [`LimitedTools`]: fewer declared tools where a provider accepts fewer than there are.
//!
//! Providers refuse a request that declares too many tools (`OpenAI`: 128). What is too much is deferred: requests do not
//! declare it until the model finds it with `builtin/search-tools` or calls it.

use std::collections::BTreeSet;
use std::sync::Arc;

use cleveragents_tools::{Gate, Source, ToolName, ToolSpec};

use super::ask::{SEARCH_TOOLS, can_run};
use super::request::{TurnRequest, TurnTools};

/// The tools of a turn whose model accepts fewer than there are.
pub(super) struct LimitedTools {
    gate: Gate,
    deferred: BTreeSet<ToolName>,
}

/// The part of a limit that is kept for tools that are found later.
fn room_for_found(most: usize) -> usize {
    most / 4
}

impl LimitedTools {
    /// Nothing when all tools can be declared.
    pub(super) fn new(request: &TurnRequest<'_>) -> Option<Self> {
        let capabilities = request.model.capabilities();
        let most = usize::try_from(capabilities.max_tools?).unwrap_or(usize::MAX);
        if !capabilities.tools {
            return None;
        }
        let registry = request.tools.gate.registry();
        let known = request.tools.deferred;
        let declared = registry
            .list()
            .filter(|spec| can_run(request, spec) && !known.contains(&spec.name));
        let mut declared: Vec<&ToolSpec> = declared.collect();
        let most_declared = if known.is_empty() {
            most
        } else {
            most - room_for_found(most)
        };
        if declared.len() <= most_declared {
            return None;
        }
        // The search itself is declared too, and replaces that of the MCP servers.
        declared.retain(|spec| spec.name.to_string() != SEARCH_TOOLS);
        declared.sort_by_key(|spec| (rank(spec.source), spec.name.clone()));
        let kept = (most - room_for_found(most)).saturating_sub(1);
        let mut deferred = known.clone();
        deferred.extend(declared.iter().skip(kept).map(|spec| spec.name.clone()));
        let registry = registry
            .narrowed(|spec| spec.name.to_string() != SEARCH_TOOLS)
            .with_search(|spec| deferred.contains(&spec.name) && can_run(request, spec));
        Some(Self {
            gate: Gate::new(Arc::new(registry)),
            deferred,
        })
    }

    /// The request with these tools instead of its own.
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

/// Which tools are declared first: those of the program, then the user's, then those of others.
fn rank(source: Source) -> u8 {
    match source {
        Source::Builtin => 0,
        Source::Custom | Source::Wrapped => 1,
        Source::AgentSkill => 2,
        Source::Mcp => 3,
    }
}
