//! `session tell`: models behind real HTTP endpoints, crashes, concurrency, secrets and refusals.

mod concurrency;
mod corpus;
mod endpoint;
mod environment;
mod failures;
mod form;
mod images;
mod interrupt;
mod kill;
mod large;
mod leaks;
mod mcp;
mod providers;
mod refusals;
mod replayed;
mod secrets;
mod world;
