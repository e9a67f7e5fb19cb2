//! Tools, resources and prompts of servers that speak the Model Context Protocol.

mod callers;
mod content;
mod definition;
mod elicit;
mod error;
mod expand;
mod file;
mod handler;
mod http;
mod library;
mod link;
mod listing;
mod naming;
mod oauth;
mod offer;
mod paths;
mod post;
mod server;
mod servers;
mod stdio;
mod tool;

pub use definition::{
    Auth, Broken, Hidden, OAuth, Protocol, ServerDefinition, ToolFilter, ToolOverride, Transport,
};
pub use error::McpError;
pub use expand::Variables;
pub use file::{FileError, Imported, import, read, schema};
pub use listing::{Hints, Listed, Listing};
pub use naming::namespace;
pub use oauth::{FileTokens, TokenStore, login};
pub use offer::{LeftOut, Offer};
pub use servers::{MOST_OFFERED, Options, Servers, Status};
pub use tool::McpTool;
