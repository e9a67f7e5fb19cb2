//! Sandboxes of PostgreSQL databases, through the program: one sees the database as it will be, nothing
//! stays before an apply, and an apply is whole or nothing, whatever the script, the server or a
//! `kill -9` does.

mod apply;
mod disguise;
mod kill;
mod query;
mod refuse;
mod world;
