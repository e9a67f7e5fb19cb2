//! Servers that behave well and badly, over real pipes and sockets. The tests have their own `main`, because the
//! process crate starts this program again as the supervisor of a server.

mod hostile;
mod network;
mod peers;
mod protocol;
mod server_lifecycle;
mod support;
mod visible_paths;

use std::panic::catch_unwind;
use std::process::ExitCode;

/// A test and its name.
type Test = (&'static str, fn());

/// Lists functions as tests.
macro_rules! tests {
    ($($test:ident),+ $(,)?) => {
        /// The tests of this module.
        pub(crate) const TESTS: &[$crate::Test] = &[$((stringify!($test), $test)),+];
    };
}
use tests;

#[expect(clippy::print_stdout, reason = "a test runner prints its results")]
fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    if let Some(code) = cleveragents_process::stage_main(&arguments) {
        return code.into();
    }
    if let Some(code) = server_lifecycle::parent(&arguments) {
        return code;
    }
    let filters: Vec<String> = arguments[1..]
        .iter()
        .map(|argument| argument.to_string_lossy().into_owned())
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let mut failed = 0;
    for (name, test) in [
        protocol::TESTS,
        server_lifecycle::TESTS,
        hostile::TESTS,
        network::TESTS,
        visible_paths::TESTS,
        peers::TESTS,
    ]
    .concat()
    {
        if !filters.is_empty() && !filters.iter().any(|filter| name.contains(filter)) {
            continue;
        }
        if arguments.iter().any(|argument| argument == "--list") {
            println!("{name}: test");
            continue;
        }
        let outcome = catch_unwind(test);
        println!(
            "test {name} ... {}",
            if outcome.is_ok() { "ok" } else { "FAILED" }
        );
        failed += u32::from(outcome.is_err());
    }
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        println!("{failed} failed");
        ExitCode::FAILURE
    }
}
