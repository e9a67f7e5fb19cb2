//! Tests of the graph runner, with graphs that the tests build.

mod concurrency;
mod draft;
mod failures;
mod fixtures;
mod kinds;
mod limits;
mod resume;
mod shapes;
