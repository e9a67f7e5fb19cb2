//! The gate and the tools as the engine uses them, on real folders and with real programs.

mod custom;
mod files;
mod gate;
mod programs;
mod support;
