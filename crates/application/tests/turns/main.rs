//! Turns: the model answers, tools run through the gate, everything is stored as it happens.

mod compaction;
mod concurrency;
mod interrupted;
mod ledger;
mod loops;
mod money;
mod requests;
mod support;
