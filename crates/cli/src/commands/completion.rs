//! `completion`: a script with which a shell completes commands and options. It does not complete names of objects.

use clap::CommandFactory as _;

use crate::arguments::Arguments;
use crate::output::CommandError;

use super::write_document;

/// Writes the script for a shell to standard output.
pub(super) fn run(shell: clap_complete::Shell) -> Result<(), CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "agents", &mut script);
    write_document(&script)
}
