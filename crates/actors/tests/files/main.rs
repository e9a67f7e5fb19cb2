//! Actor files: read, compiled, drawn, refused.

mod good;
mod support;
