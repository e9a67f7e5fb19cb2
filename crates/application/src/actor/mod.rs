//! Registered actors, and the contexts that their runs continue.

mod contexts;
pub mod operations;
mod resolver;
mod service;

pub use contexts::{
    ContextMessage, ContextService, ContextServiceError, ExportedContext, read_context,
};
pub use resolver::{ActorBundle, ActorText, IsModel, ReferableNames};
pub use service::{ActorService, ActorWorld, FoundActor};
