//! Tools, resources and prompts of MCP (Model Context Protocol) servers.
//!
//! A [`ServerDefinition`] describes how a server is reached; [`read`] and [`import`] parse it from
//! files. [`Servers`] manages any number of servers with its own runtime, so that the rest of the
//! program stays synchronous. [`Servers::offer`] returns their tools for a
//! [`Registry`](cleveragents_tools::Registry). Like all other tools, they run only through the gate.
//!
//! Every server is treated as hostile: its messages are bounded before they are parsed, marked as
//! untrusted content, and never change a rule. The process crate supervises the programs and ends them
//! with this process. Only this crate depends on the MCP SDK.

mod callers;
mod check;
mod connection;
mod content;
mod definition;
mod driver;
mod elicit;
mod error;
mod file;
mod handler;
mod http;
mod import;
mod library;
mod listing;
mod naming;
mod notifications;
mod oauth;
mod offered_tools;
mod paths;
mod post;
mod private_folders;
mod request;
mod resolve;
mod schema;
mod server;
mod servers;
mod stdio;
mod tool;
mod visible_paths;

pub use check::BrokenRule;
pub use definition::{
    Auth, HiddenText, OAuth, Protocol, ServerDefinition, ToolFilter, ToolOverride, Transport,
};
pub use error::McpError;
pub use file::read;
pub use import::{ImportResult, import};
pub use listing::{Hints, ListedTool, Listing};
pub use naming::namespace;
pub use oauth::{FileTokens, TokenStore, login};
pub use offered_tools::{LeftOut, OfferedTools};
pub use resolve::Variables;
pub use schema::schema;
pub use servers::{MAX_OFFERED_TOOLS, Options, Servers, Status};
pub use tool::McpTool;
pub use visible_paths::ServerView;
