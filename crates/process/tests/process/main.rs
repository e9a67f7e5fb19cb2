//! Tests with real commands, confined and unconfined. They have their own `main`, because the stages are copies of this
//! program.

mod background;
mod ending;
mod harness;
mod kernel;
mod network;
mod parent;
mod piped_programs;
mod policy;
mod private_places;
mod reading;
mod starting;
mod streams;
mod terminal;
mod tools;
mod writing;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    if let Some(code) = cleveragents_process::stage_main(&arguments) {
        return code.into();
    }
    if let Some(code) = parent::main(&arguments) {
        return code.into();
    }
    let modules = [
        starting::TESTS,
        streams::TESTS,
        ending::TESTS,
        background::TESTS,
        piped_programs::TESTS,
        writing::TESTS,
        reading::TESTS,
        network::TESTS,
        kernel::TESTS,
        policy::TESTS,
        private_places::TESTS,
        tools::TESTS,
        terminal::TESTS,
    ];
    harness::run(&arguments, &modules)
}
