//! Tools, resources and prompts of servers that speak the Model Context Protocol.
//!
//! A [`ServerDefinition`] says how a server is reached; [`read`] and [`import`] take it from files.
//! [`Servers`] holds any number of them with a runtime of its own, so that the rest of the program
//! stays synchronous. [`Servers::offer`] gives their tools for a
//! [`Registry`](cleveragents_tools::Registry): they run through the gate like all others, and in no
//! other way.
//!
//! Every server is hostile until shown otherwise: what it says is bounded before it is understood,
//! marked as its own words, and never changes a rule. Programs are supervised by the process crate;
//! nothing of them outlives us. Only this crate knows the SDK.

mod ask;
mod callers;
mod check;
mod content;
mod definition;
mod driver;
mod elicit;
mod error;
mod expand;
mod file;
mod handler;
mod http;
mod import;
mod library;
mod link;
mod listing;
mod naming;
mod oauth;
mod offer;
mod paths;
mod post;
mod private_folders;
mod schema;
mod server;
mod servers;
mod stdio;
mod tool;
mod view;

pub use check::Broken;
pub use definition::{
    Auth, Hidden, OAuth, Protocol, ServerDefinition, ToolFilter, ToolOverride, Transport,
};
pub use error::McpError;
pub use expand::Variables;
pub use file::{FileError, read};
pub use import::{Imported, import};
pub use listing::{Hints, Listed, Listing};
pub use naming::namespace;
pub use oauth::{FileTokens, TokenStore, login};
pub use offer::{LeftOut, Offer};
pub use schema::schema;
pub use servers::{MOST_OFFERED, Options, Servers, Status};
pub use tool::McpTool;
pub use view::ServerView;
