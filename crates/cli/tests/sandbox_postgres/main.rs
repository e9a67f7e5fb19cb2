//! Sandboxes of PostgreSQL databases: queries see the pending changes, nothing is stored before an
//! apply, and an apply is atomic, whatever the script, the server or a `kill -9` does.

mod apply;
mod early_commits;
mod kill;
mod query;
mod refuse;
mod world;
