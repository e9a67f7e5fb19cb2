//! Sandboxes of PostgreSQL databases: queries see the pending changes, nothing is stored before an
//! apply, and an apply is atomic, even if the script misbehaves, the server fails or the program is
//! killed.

mod apply;
mod early_commits;
mod kill;
mod query;
mod refuse;
mod world;
