//! Support for tests: databases, racing threads and processes, model servers, plans, and the real program.
//!
//! SQLite tests get a file in a temporary directory. PostgreSQL tests get their own database on the server in
//! `CLEVERAGENTS_TEST_POSTGRES_URL` (`scripts/test` starts one); without a server they report that they did not run and
//! pass, unless `CLEVERAGENTS_TEST_REQUIRE_ALL` is set.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::expect_used,
    reason = "test support"
)]

mod child;
mod database;
mod forge_server;
pub mod model_server;
pub mod plans;
mod program;
mod terminal;
mod tracker_server;

pub use child::{Child, child_input, send_line, wait_for_release};
pub use database::TestDatabase;
pub use forge_server::{ForgeApi, ForgeServer};
pub use program::{Agents, Answer, Dice, Gate, not_run};
pub use terminal::PAUSE;
pub use tracker_server::{TrackerFault, TrackerServer, TrackerToken};

use std::sync::Barrier;

/// Size of a long test: `small` in CI, `full` with `CLEVERAGENTS_PROOF=full`.
pub fn proof_size(small: usize, full: usize) -> usize {
    match std::env::var("CLEVERAGENTS_PROOF").as_deref() {
        Ok("full") => full,
        _ => small,
    }
}

/// Runs `work` on `threads` threads, all released at the same instant, and returns their results.
pub fn at_once<T: Send>(threads: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let gate = Barrier::new(threads);
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|index| {
                let (gate, work) = (&gate, &work);
                scope.spawn(move || {
                    gate.wait();
                    work(index)
                })
            })
            .collect();
        running
            .into_iter()
            .map(|thread| thread.join().expect("no racing thread panics"))
            .collect()
    })
}
