//! The `agents` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    // Started again by ourselves, to hold a command in its sandbox.
    if let Some(code) = cleveragents_process::stage_main(&arguments) {
        return ExitCode::from(code);
    }
    ExitCode::from(cleveragents_cli::run(&arguments))
}
