//! Output while a command runs, before its report is printed.

use std::io::Write as _;

use super::console;

/// Writes to standard output. A closed pipe is not an error.
pub(crate) fn write_out(text: &str) {
    let mut out = std::io::stdout().lock();
    let _closed = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    console::wrote(text);
}

/// Writes to standard error.
pub(crate) fn write_err(text: &str) {
    let mut err = std::io::stderr().lock();
    let _closed = err.write_all(text.as_bytes()).and_then(|()| err.flush());
    console::wrote(text);
}
