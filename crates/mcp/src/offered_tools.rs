//! [`OfferedTools`]: the tools of all servers at one point in time.

use std::collections::BTreeSet;
use std::sync::Arc;

use cleveragents_tools::{SearchableTool, Tool, ToolName, ToolSearch};

use crate::error::McpError;
use crate::library;
use crate::naming;
use crate::server::Server;
use crate::servers::Servers;
use crate::tool::McpTool;

/// A tool that cannot be offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// Name of the server.
    pub server: String,
    /// The server's name for the tool.
    pub tool: String,
    /// Reason why it cannot be offered.
    pub why: String,
}

/// The tools of all servers at one point in time.
pub struct OfferedTools {
    /// Tools, by name.
    pub tools: Vec<Arc<dyn Tool>>,
    /// Tools that models find only through a search, because there are too many to declare.
    pub deferred: BTreeSet<ToolName>,
    /// Tools that cannot be offered.
    pub left_out: Vec<LeftOut>,
    /// Servers that could not be reached.
    pub failed: Vec<(String, McpError)>,
}

impl OfferedTools {
    /// Returns whether models find a tool only through a search.
    pub fn is_deferred(&self, name: &ToolName) -> bool {
        self.deferred.contains(name)
    }
}

impl Servers {
    /// Returns the tools of all servers. Connects concurrently to servers whose tools are not known yet.
    pub fn offer(&self) -> OfferedTools {
        self.offer_of(|_| true)
    }

    /// Like [`offer`](Self::offer), for the selected servers only.
    pub fn offer_of(&self, is_selected: impl Fn(&str) -> bool) -> OfferedTools {
        let failed = self.prepare(&is_selected);
        let mut tools: Vec<Arc<McpTool>> = Vec::new();
        let mut left_out = Vec::new();
        let mut servers = self.all();
        servers.retain(|server| is_selected(&server.definition.name));
        for server in &servers {
            let definition = &server.definition;
            let Some(listing) = server.listing() else {
                continue;
            };
            let raw_names: Vec<&str> = listing
                .tools
                .iter()
                .map(|tool| tool.name.as_str())
                .collect();
            let names = naming::names(&definition.name, &raw_names);
            let mut seen = BTreeSet::new();
            for listed in &listing.tools {
                let mut skip = |why: String| {
                    left_out.push(LeftOut {
                        server: definition.name.clone(),
                        tool: listed.name.chars().take(100).collect(),
                        why,
                    });
                };
                if !definition.tool_filter.selects(&listed.name) {
                    continue;
                }
                if !seen.insert(&listed.name) {
                    skip("the server lists it twice".to_owned());
                    continue;
                }
                let Some(name) = names.get(&listed.name) else {
                    skip("its name cannot be converted to a valid tool name".to_owned());
                    continue;
                };
                match McpTool::new(server, name.clone(), &listing, listed) {
                    Ok(tool) => tools.push(Arc::new(tool)),
                    Err(why) => skip(why),
                }
            }
        }
        self.assemble(&servers, tools, left_out, failed)
    }

    fn assemble(
        &self,
        servers: &[Arc<Server>],
        mut tools: Vec<Arc<McpTool>>,
        left_out: Vec<LeftOut>,
        failed: Vec<(String, McpError)>,
    ) -> OfferedTools {
        tools.sort_by(|left, right| left.spec().name.cmp(&right.spec().name));
        let deferred = if tools.len() > self.max_offered_tools() {
            tools.iter().map(|tool| tool.spec().name.clone()).collect()
        } else {
            BTreeSet::new()
        };
        let mut offered = library::tools(servers);
        if !deferred.is_empty() {
            let searchable = tools.iter().map(|tool| SearchableTool {
                spec: tool.spec().clone(),
                about: tool.description_alone().to_owned(),
            });
            let name = library::library_tool_name("search-tools");
            offered.push(Arc::new(ToolSearch::of_servers(name, searchable.collect())));
        }
        offered.extend(tools.into_iter().map(|tool| tool as Arc<dyn Tool>));
        offered.sort_by(|left, right| left.spec().name.cmp(&right.spec().name));
        OfferedTools {
            tools: offered,
            deferred,
            left_out,
            failed,
        }
    }
}
