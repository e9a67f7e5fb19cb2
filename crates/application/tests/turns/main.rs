//! Turns: the model answers, tools run through the gate, everything is stored as it happens.

mod compaction;
mod interrupted;
mod ledger;
mod loops;
mod money;
mod requests;
mod support;
mod together;
