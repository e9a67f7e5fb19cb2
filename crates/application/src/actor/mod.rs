//! Actors as they are registered, and the contexts that their runs go on with.

mod contexts;
mod error;
pub mod operations;
mod service;
mod shelf;

pub use contexts::{
    ContextService, ContextServiceError, ExportedContext, ExportedMessage, read_context,
};
pub use error::ActorError;
pub use service::{ActorService, ActorWorld, AddedActor, FoundActor, RegisteredActor};
pub use shelf::{ActorText, Bundle, IsModel, Supplies};
