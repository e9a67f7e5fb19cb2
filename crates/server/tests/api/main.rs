//! The HTTP API as its clients see it: a server on a real socket, and a client that sends exactly the given bytes.

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
#[expect(dead_code, reason = "the tests of A2A use the rest")]
#[path = "../support/provider.rs"]
mod provider;
mod sessions;
mod turns;
