//! Plans that meet models that behave badly, and commands that are given what they cannot take: each
//! ends with a reason, an exit code and a command that works, and what belongs to the user stays.

mod gates;
mod input;
mod invariants;
mod models;
mod removal;
mod states;
mod world;
