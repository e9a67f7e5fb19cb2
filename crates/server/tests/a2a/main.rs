//! The A2A agent over real sockets: the checks of the conformance kit, clients and servers that disappear, push
//! notifications, and the operations as methods.

mod card;
mod clients;
mod errors;
mod harness;
mod lists;
mod malformed_requests;
mod operations;
mod plans;
#[path = "../support/provider.rs"]
mod provider;
mod push;
mod restart;
mod send;
mod streams;
mod task_lifecycle;
mod versions;
