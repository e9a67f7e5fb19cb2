//! [`Listing`]: the description and tools of a server, as it last reported them. A stored listing makes the tools known
//! without starting the server.

use rmcp::model::PaginatedRequestParams;
use rmcp::service::{Peer, RoleClient, ServiceError};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Maximum number of tools per server. Further tools are ignored.
pub(crate) const MAX_TOOLS: usize = 10_000;
/// Maximum number of pages to request of one list.
const MAX_PAGES: usize = 1_000;

/// Effects that a server declares for a tool. They are not verified.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent properties of the protocol"
)]
pub struct Hints {
    #[serde(default)]
    pub read_only: bool,
    /// Changes of the tool may be irreversible.
    #[serde(default)]
    pub destructive: bool,
    /// Repeating a call has no further effect.
    #[serde(default)]
    pub idempotent: bool,
    /// The tool interacts with the outside world.
    #[serde(default)]
    pub open_world: bool,
}

/// A tool as its server describes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ListedTool {
    /// The server's name for the tool.
    pub name: String,
    /// Description, in the server's words.
    #[serde(default)]
    pub description: String,
    /// JSON schema of the arguments.
    pub input_schema: Value,
    /// JSON schema of the structured result.
    #[serde(default)]
    pub output_schema: Option<Value>,
    /// Declared effects.
    #[serde(default)]
    pub hints: Hints,
}

/// Description and tools of a server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Listing {
    /// Name that the server reports.
    #[serde(default)]
    pub title: String,
    /// Version of the server.
    #[serde(default)]
    pub version: String,
    /// Protocol version that the server uses.
    #[serde(default)]
    pub protocol: String,
    /// Whether the server has resources.
    #[serde(default)]
    pub has_resources: bool,
    /// Whether the server has prompts.
    #[serde(default)]
    pub has_prompts: bool,
    /// Tools of the server.
    pub tools: Vec<ListedTool>,
    /// Whether the server has more tools than `tools` contains.
    #[serde(default)]
    pub cut: bool,
}

impl Listing {
    /// Returns a tool by the server's name for it.
    pub fn tool(&self, name: &str) -> Option<&ListedTool> {
        self.tools.iter().find(|tool| tool.name == name)
    }
}

/// Fetches the listing of a server.
pub(crate) async fn ask(peer: &Peer<RoleClient>) -> Result<Listing, ServiceError> {
    let mut listing = Listing::default();
    let mut has_tools = true;
    if let Some(info) = peer.peer_info() {
        if let Some(server) = &info.server_info {
            listing.title.clone_from(&server.name);
            listing.version.clone_from(&server.version);
        }
        listing.protocol = info.protocol_version.to_string();
        listing.has_resources = info.capabilities.resources.is_some();
        listing.has_prompts = info.capabilities.prompts.is_some();
        has_tools = info.capabilities.tools.is_some();
    }
    if !has_tools {
        return Ok(listing);
    }
    let mut cursor = None;
    for _ in 0..MAX_PAGES {
        let params = PaginatedRequestParams::default().with_cursor(cursor.clone());
        let page = peer.list_tools(Some(params)).await?;
        for tool in page.tools {
            if listing.tools.len() == MAX_TOOLS {
                listing.cut = true;
                return Ok(listing);
            }
            listing.tools.push(listed(tool));
        }
        // A repeated cursor would cause an endless loop.
        if page.next_cursor.is_none() || page.next_cursor == cursor {
            return Ok(listing);
        }
        cursor = page.next_cursor;
    }
    listing.cut = true;
    Ok(listing)
}

fn listed(tool: rmcp::model::Tool) -> ListedTool {
    let hints = tool.annotations.unwrap_or_default();
    ListedTool {
        name: tool.name.into_owned(),
        description: tool
            .description
            .map(std::borrow::Cow::into_owned)
            .or(tool.title)
            .unwrap_or_default(),
        input_schema: Value::Object((*tool.input_schema).clone()),
        output_schema: tool
            .output_schema
            .map(|schema| Value::Object((*schema).clone())),
        hints: Hints {
            read_only: hints.read_only_hint.unwrap_or(false),
            destructive: hints.destructive_hint.unwrap_or(true),
            idempotent: hints.idempotent_hint.unwrap_or(false),
            open_world: hints.open_world_hint.unwrap_or(true),
        },
    }
}
