//! Pools: the dispatch loop with scripted roles. Claims race, roles fail, processes die; the rules hold.

mod dispatching;
mod loop_proof;
mod mirroring;
mod planning;
mod report_table;
mod support;
mod watching;
