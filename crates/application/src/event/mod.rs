//! Reads the event log and determines the namespace of each event.

mod scope;
mod service;

pub use scope::EventScope;
pub use service::EventService;
