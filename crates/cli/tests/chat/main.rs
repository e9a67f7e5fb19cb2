//! `agents chat` through the program: fed by a pipe, and at a terminal.

mod folder;
mod piped;
mod terminal;
mod world;
