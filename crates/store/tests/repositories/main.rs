//! Tests of the repositories on both databases. A single program, because linking one program per file takes minutes.

mod blobs;
mod changesets;
mod invariants;
mod invocations;
mod resources;
mod retention;
mod runs;
mod search;
mod shared_counters;
mod tasks;
mod unit_of_work;
mod validations;
