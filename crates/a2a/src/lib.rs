//! The A2A protocol (Agent2Agent, versions 1.0 and 0.3), for the server that offers it and for the client that calls
//! other agents.
//!
//! Data types and their JSON only: no I/O, no store, no HTTP types. A server parses requests leniently with [`Fields`],
//! and reports invalid ones as an [`Error`]. It serializes responses from the types here. [`agent`] parses what other
//! agents send, in either version. Version 0.3 is converted to and from the JSON of 1.0 ([`v0_3`]).

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

/// Header with the protocol version of a request. A request without it uses 0.3.
pub const VERSION_HEADER: &str = "a2a-version";

/// Header with the extensions that a client requests, and that a server used.
pub const EXTENSIONS_HEADER: &str = "a2a-extensions";

/// Path of the agent card, below the URL of an agent.
pub const CARD_PATH: &str = "/.well-known/agent-card.json";

/// Path of the agent card in version 0.3.
pub const CARD_PATH_V0_3: &str = "/.well-known/agent.json";
