//! The `agents` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(cleveragents_cli::run(std::env::args_os().collect()))
}
