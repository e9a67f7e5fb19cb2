//! The event log: reading it, and which namespace an event belongs to.

mod scope;
mod service;

pub use scope::EventScope;
pub use service::EventService;
