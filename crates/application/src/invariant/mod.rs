//! Invariants that people set, and which of them hold for a plan.

mod error;
pub mod operations;
mod service;

pub use error::InvariantError;
pub use service::{
    ActionRules, EffectiveQuery, InvariantQuery, InvariantService, InvariantTarget, NewInvariant,
};
