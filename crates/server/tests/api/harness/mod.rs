//! A server for one test, its runtime of agents, and a client.

mod client;
mod double;
mod server;

pub(crate) use client::{Answer, Client, Stream};
pub(crate) use double::{TestRuntime, application};
pub(crate) use server::{Server, options, plan_request, wait_until};
