//! Tests of actor files: reading, compiling, drawing and errors.

mod broken;
mod drawings;
mod examples;
mod good;
mod runs;
mod support;
