//! The runner of graphs, with graphs put together by hand.

mod bench;
mod draft;
mod kinds;
mod limits;
mod resume;
mod shapes;
mod together;
mod trouble;
