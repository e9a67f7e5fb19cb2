//! A server for one test, what it is lent, and a client.

mod client;
mod double;
mod server;

pub(crate) use client::{Answer, Client, Stream};
pub(crate) use double::{Double, application};
pub(crate) use server::{Server, options, wait_until};
