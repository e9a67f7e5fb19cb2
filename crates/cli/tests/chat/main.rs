//! `agents chat`, with input from a pipe and at a terminal.

mod folder;
mod piped;
mod terminal;
mod world;
