//! The `agents` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    ExitCode::from(cleveragents_cli::run(&arguments))
}
