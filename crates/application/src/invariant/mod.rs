//! Invariants that users set, and those that apply to a plan.

mod error;
pub mod operations;
mod service;

pub use error::InvariantError;
pub use service::{
    ActionRules, EffectiveQuery, InvariantQuery, InvariantService, InvariantTarget, NewInvariant,
};
