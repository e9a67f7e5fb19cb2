//! [`Listing`]: what a server offers, as it was when it was asked. It can be stored and given back,
//! so that a server need not be started to know its tools.

use rmcp::model::PaginatedRequestParams;
use rmcp::service::{Peer, RoleClient, ServiceError};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// So many tools of one server are looked at.
pub(crate) const MOST_TOOLS: usize = 10_000;
/// So many pages of a list are asked for.
const MOST_PAGES: usize = 1_000;

/// What a server says its tool does to the world. Nothing of it is certain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent answers of the protocol"
)]
pub struct Hints {
    /// It only looks.
    #[serde(default)]
    pub read_only: bool,
    /// What it changes may be lost for good.
    #[serde(default)]
    pub destructive: bool,
    /// Calling it twice does the same as once.
    #[serde(default)]
    pub idempotent: bool,
    /// It reaches beyond a closed world.
    #[serde(default)]
    pub open_world: bool,
}

/// A tool as its server describes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Listed {
    /// What the server calls it.
    pub name: String,
    /// What it does, in the server's words.
    #[serde(default)]
    pub description: String,
    /// The JSON schema of its arguments.
    pub input_schema: Value,
    /// The JSON schema of its structured answer.
    #[serde(default)]
    pub output_schema: Option<Value>,
    /// What it does to the world.
    #[serde(default)]
    pub hints: Hints,
}

/// What a server offers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Listing {
    /// What the server calls itself.
    #[serde(default)]
    pub title: String,
    /// Its version.
    #[serde(default)]
    pub version: String,
    /// The version of the protocol that it speaks.
    #[serde(default)]
    pub protocol: String,
    /// Whether it has resources.
    #[serde(default)]
    pub has_resources: bool,
    /// Whether it has prompts.
    #[serde(default)]
    pub has_prompts: bool,
    /// Its tools.
    pub tools: Vec<Listed>,
    /// Whether it has more tools than those that are looked at.
    #[serde(default)]
    pub cut: bool,
}

impl Listing {
    /// A tool, by what the server calls it.
    pub fn tool(&self, name: &str) -> Option<&Listed> {
        self.tools.iter().find(|tool| tool.name == name)
    }
}

/// Asks a server what it offers.
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
    for _ in 0..MOST_PAGES {
        let params = PaginatedRequestParams::default().with_cursor(cursor.clone());
        let page = peer.list_tools(Some(params)).await?;
        for tool in page.tools {
            if listing.tools.len() == MOST_TOOLS {
                listing.cut = true;
                return Ok(listing);
            }
            listing.tools.push(listed(tool));
        }
        // The same cursor again would never end.
        if page.next_cursor.is_none() || page.next_cursor == cursor {
            return Ok(listing);
        }
        cursor = page.next_cursor;
    }
    listing.cut = true;
    Ok(listing)
}

fn listed(tool: rmcp::model::Tool) -> Listed {
    let hints = tool.annotations.unwrap_or_default();
    Listed {
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
