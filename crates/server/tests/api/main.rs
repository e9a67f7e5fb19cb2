//! The HTTP API as its callers see it: a server on a real socket, and a client that says exactly what it is told to.

#![expect(clippy::expect_used, clippy::panic, reason = "tests")]

mod events;
mod fuzz;
mod harness;
mod keys;
mod limits;
mod methods;
mod metrics;
mod openapi;
mod operations;
mod permissions;
mod plans;
mod sessions;
mod turns;
