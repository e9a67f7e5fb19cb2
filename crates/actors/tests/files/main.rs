//! Actor files: parsed, compiled, drawn, refused.

mod broken;
mod drawings;
mod examples;
mod good;
mod runs;
mod support;
