//! Turns: the model answers, tool calls pass the gate, and all messages and calls are stored immediately.

mod compaction;
mod concurrency;
mod interrupted;
mod ledger;
mod loops;
mod money;
mod requests;
mod support;
