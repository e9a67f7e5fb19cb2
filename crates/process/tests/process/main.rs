//! Runs real commands, confined and not. The tests have a `main` of their own, because the stages
//! are this very program started again.

mod harness;
mod starting;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    if let Some(code) = cleveragents_process::stage_main(&arguments) {
        return code.into();
    }
    harness::run(&arguments, &[starting::TESTS])
}
