//! The runner of graphs, with hand-built graphs.

mod bench;
mod draft;
mod kinds;
mod limits;
mod resume;
mod shapes;
mod together;
mod trouble;
