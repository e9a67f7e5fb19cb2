//! Work items: commands of people on them. Pools change them only through the engine of pools.

mod error;
pub mod operations;
mod service;

pub use error::WorkItemError;
pub use service::{EditWorkItem, WorkItemDetails, WorkItemService};
