//! The A2A agent over real sockets: what the conformance kit checks, what happens when clients and servers go away,
//! push notifications, and the operations as methods.

mod card;
mod clients;
mod errors;
mod harness;
mod life;
mod lists;
mod odd;
mod operations;
mod plans;
mod push;
mod restart;
mod send;
mod streams;
mod versions;
