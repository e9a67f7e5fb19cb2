//! Misbehaving models, and commands with invalid input: each ends with a reason, an exit code and a
//! working command, and the user's data stays.

mod gates;
mod input;
mod invariants;
mod models;
mod removal;
mod states;
mod world;
