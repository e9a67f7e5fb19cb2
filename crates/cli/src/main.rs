//! The `agents` program.

use std::process::ExitCode;

/// In a server, one thread reads requests and another thread stores them. With this allocator, they do not block each
/// other when they allocate memory.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    // To confine a command to its sandbox, the program starts itself a second time; `stage_main` is the main function
    // of that process.
    if let Some(code) = cleveragents_process::stage_main(&arguments) {
        return ExitCode::from(code);
    }
    ExitCode::from(cleveragents_cli::run(&arguments))
}
