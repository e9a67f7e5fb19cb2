//! Tests of the graph runner, with graphs that the tests build.

mod bench;
mod concurrency;
mod draft;
mod failures;
mod kinds;
mod limits;
mod resume;
mod shapes;
