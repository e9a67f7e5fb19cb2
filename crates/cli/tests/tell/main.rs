//! `session tell` through the program: models behind real HTTP endpoints, crashes, crowds, secrets and
//! refusals.

mod corpus;
mod endpoint;
mod failures;
mod form;
mod interrupt;
mod kill;
mod large;
mod leaks;
mod mcp;
mod pictures;
mod providers;
mod refusals;
mod replayed;
mod secrets;
mod together;
mod world;
