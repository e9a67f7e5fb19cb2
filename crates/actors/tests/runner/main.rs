//! The runner of graphs, with hand-built graphs.

mod bench;
mod concurrency;
mod draft;
mod failures;
mod kinds;
mod limits;
mod resume;
mod shapes;
