//! The A2A protocol (Agent2Agent, versions 1.0 and 0.3), for the server that offers it and for the client that calls
//! other agents.
//!
//! Data and its JSON only: no I/O, no store, no HTTP types. What a server accepts is read leniently and reported as an
//! [`Error`] when it is wrong ([`Fields`]); what it sends is serialized from the types here. What other agents send is
//! read by [`agent`], in either version. Version 0.3 is JSON made into 1.0 and back ([`v0_3`]).

pub mod agent;
mod card;
mod error;
mod fields;
pub mod http_json;
pub mod json_rpc;
mod message;
mod method;
mod push;
mod task;
pub mod v0_3;

pub use card::{
    AgentCapabilities, AgentCard, AgentExtension, AgentInterface, AgentSkill, Binding,
    SecurityRequirement, SecurityScheme,
};
pub use error::{Error, ErrorReason};
pub use fields::Fields;
pub use message::{Message, Part, PartContent, Role};
pub use method::{Method, ProtocolVersion};
pub use push::{Authentication, PushNotificationConfig};
pub use task::{
    Artifact, ArtifactUpdate, StatusUpdate, StreamResponse, Task, TaskStatus, read_task_state,
    task_state_name,
};

/// The header with the protocol version of a request. A request without it speaks 0.3.
pub const VERSION_HEADER: &str = "a2a-version";

/// The header with the extensions that a client asks for, and that a server used.
pub const EXTENSIONS_HEADER: &str = "a2a-extensions";

/// Where the agent card is, below the address of an agent.
pub const CARD_PATH: &str = "/.well-known/agent-card.json";

/// Where agents of 0.3 have their card.
pub const CARD_PATH_V0_3: &str = "/.well-known/agent.json";
