//! Registered actors, and the contexts that their runs continue.

mod contexts;
pub mod operations;
mod resolver;
mod service;

pub use contexts::{
    ContextService, ContextServiceError, ExportedContext, ExportedMessage, read_context,
};
pub use resolver::{ActorText, Bundle, IsModel, Supplies};
pub use service::{ActorService, ActorWorld, FoundActor};
