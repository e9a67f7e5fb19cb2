//! What a plan run works with.

mod context;
mod registry;

pub use context::{ContextError, OpenChangeset, PlanExecutionContext};
