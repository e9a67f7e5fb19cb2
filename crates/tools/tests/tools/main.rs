//! Tests of the gate and the tools through their public interface, on real directories and with real programs.

mod custom;
mod files;
mod gate;
mod model_calls;
mod programs;
mod support;
