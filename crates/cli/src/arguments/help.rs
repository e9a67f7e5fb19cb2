//! Help of the program: the first page, the list of all commands, and hints for unknown commands.

use std::fmt::Write as _;

use clap::CommandFactory as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use cleveragents_domain::nearest;

use super::Arguments;

/// Commands and examples of `agents --help`.
pub(super) const FIRST_HELP: &str = "\
Every day:
  agents                   Talk to a model that works in a copy of this folder
  agents 'TASK'            The same, starting with a task
  agents -p 'QUESTION'     Answer once and exit
  do 'TASK'                Plan, execute, check and apply a task
  status, diff             Show the current plan of this folder, its changes
  apply, undo              Apply the changes; undo the last step or the apply
  log, tree, show          Show events, decisions and strategy of the plan
  approve, reject, prompt  Answer what the plan asks, or give it guidance
  execute                  Run the next phase of the current plan
Work on more:
  plan                     Create, run and inspect any plan
  sandbox                  Run any program in an isolated copy of your files
  session                  List, search, export and continue conversations
  model, config            Choose a model, set its key, change settings
  serve, worker            Serve a team over HTTP and A2A; run queued plans
Help:
  demo                     Watch a whole plan on an example, without a key
  doctor                   Check model, git, disk, configuration and database
  explain CA-0645          Explain an error code
  help --all               List all commands

Examples:
  agents 'why does test_basket fail?'
  agents do 'make the failing test pass' --check 'make test'
  git diff | agents -p 'review this change'
  agents sandbox create fix --path . && agents sandbox exec fix -t -- bash

Exit codes: 0 done, 1 failed, 2 usage, 3 not found, 4 conflict, 5 user input required,
130 interrupted";

/// Commands of similar programs, and the equivalent command lines of this program.
const FOREIGN_COMMANDS: [(&str, &str); 18] = [
    ("login", "agents model key set PROVIDER"),
    ("auth", "agents model key set PROVIDER"),
    ("connect", "agents server connect URL"),
    ("resume", "agents --resume"),
    ("continue", "agents --continue"),
    ("exec", "agents -p 'QUESTION'"),
    ("run-task", "agents do 'TASK'"),
    ("ask", "agents -p 'QUESTION'"),
    ("fix", "agents do 'TASK'"),
    ("tell", "agents 'TASK'"),
    ("rollback", "agents undo"),
    ("revert", "agents undo"),
    ("models", "agents model list"),
    ("sessions", "agents session list"),
    ("plans", "agents plan list"),
    ("update", "cargo install --path crates/cli"),
    ("setup", "agents model list"),
    ("mode", "agents automation-profile list"),
];

/// Every command with its subcommands, one line each.
pub(crate) fn all_commands() -> String {
    let mut text = String::new();
    let root = Arguments::command();
    for command in root.get_subcommands() {
        append_command(&mut text, command, "");
    }
    text
}

fn append_command(text: &mut String, command: &clap::Command, parent: &str) {
    if command.is_hide_set() || command.get_name() == "help" {
        return;
    }
    let name = format!("{parent}{}", command.get_name());
    let about = command.get_about().map(ToString::to_string);
    let mut subcommands = command.get_subcommands().peekable();
    if subcommands.peek().is_none() {
        let _never_fails = writeln!(text, "  {name:<30} {}", about.unwrap_or_default());
    }
    for subcommand in subcommands {
        append_command(text, subcommand, &format!("{name} "));
    }
}

/// Error for words that are neither a command nor a task in quotes.
pub(crate) fn unknown_command(words: &[String]) -> clap::Error {
    let word = words.first().map_or("", String::as_str);
    let command = Arguments::command();
    let equivalent = FOREIGN_COMMANDS.iter().find(|(known, _)| *known == word);
    let names = command
        .get_subcommands()
        .flat_map(|command| std::iter::once(command.get_name()).chain(command.get_all_aliases()));
    let tip = match (equivalent, nearest::best(word, names)) {
        (Some((_, line)), _) => format!("`{line}`"),
        (None, Some(name)) => {
            format!("did you mean `agents {name}`? `agents help` lists the commands")
        }
        (None, None) => format!(
            "`agents help` lists the commands; a task needs quotes: `agents '{} …'`",
            words.join(" ")
        ),
    };
    let mut error = clap::Error::new(ErrorKind::InvalidSubcommand).with_cmd(&command);
    error.insert(
        ContextKind::InvalidSubcommand,
        ContextValue::String(word.to_owned()),
    );
    error.insert(
        ContextKind::Suggested,
        ContextValue::StyledStrs(vec![tip.into()]),
    );
    error
}
