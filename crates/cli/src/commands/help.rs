//! `help`: the first page, all commands, or the help of one command.

use clap::CommandFactory as _;

use crate::app::usage_error;
use crate::arguments::{Arguments, all_commands, unknown_command};
use crate::output::{CommandError, Report, wrap_help};

pub(crate) fn run(width: usize, all: bool, words: &[String]) -> Result<Report, CommandError> {
    if all {
        let text = format!(
            "Commands, `agents COMMAND --help` explains each:\n{}",
            all_commands(width)
        );
        return Ok(Report::printed("help", text));
    }
    let mut command = Arguments::command();
    command.build();
    let mut selected = &mut command;
    for word in words {
        let Some(subcommand) = selected.find_subcommand_mut(word) else {
            return Err(usage_error(&unknown_command(std::slice::from_ref(word))));
        };
        selected = subcommand;
    }
    let help = if words.is_empty() {
        selected.render_help()
    } else {
        selected.render_long_help()
    };
    Ok(Report::printed("help", wrap_help(&help.to_string(), width)))
}
