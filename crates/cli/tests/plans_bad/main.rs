//! Misbehaving models, and commands with invalid input: each failure has a reason, an exit code and
//! a hint with a working command, and the user's data stays unchanged.

mod gates;
mod input;
mod invariants;
mod models;
mod removal;
mod states;
mod world;
