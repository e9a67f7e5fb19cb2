//! The `agents` program.

use std::process::ExitCode;

/// One thread reads requests and another thread stores them; allocation must not block either of them.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    // The program starts itself again to confine a command to its sandbox.
    if let Some(code) = cleveragents_process::stage_main(&arguments) {
        return ExitCode::from(code);
    }
    ExitCode::from(cleveragents_cli::run(&arguments))
}
