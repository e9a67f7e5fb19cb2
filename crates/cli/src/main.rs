//! The `agents` program.

use std::process::ExitCode;

/// Requests are read by one thread and stored by another: what takes and gives back memory must not make them wait.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    // Started again by ourselves, to hold a command in its sandbox.
    if let Some(code) = cleveragents_process::stage_main(&arguments) {
        return ExitCode::from(code);
    }
    ExitCode::from(cleveragents_cli::run(&arguments))
}
