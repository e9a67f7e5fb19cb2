//! Help of the program: the first page, the list of all commands, and hints for unknown commands.

use std::fmt::Write as _;

use clap::CommandFactory as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use cleveragents_domain::nearest;

use super::Arguments;
use crate::output::wrap;

/// Commands and examples of `agents --help`.
pub(super) const FIRST_HELP: &str = "\
Every day:
  agents                   Talk to a model that works in a copy of this folder
  agents 'TASK'            The same, starting with a task
  agents -p 'QUESTION'     Answer once and exit
  do 'TASK'                Plan, execute, check and apply a task
  --mode MODE              Degree of automation: plan, ask, edit, auto
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
  setup                    Choose a model, store its key
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

/// Commands of similar programs, the equivalent command lines of this program, and what those do.
const FOREIGN_COMMANDS: [(&str, &str, &str); 31] = [
    ("login", "agents model key set PROVIDER", SETS_A_KEY),
    (
        "logout",
        "agents model key remove PROVIDER",
        "removes the key of a provider",
    ),
    ("auth", "agents model key set PROVIDER", SETS_A_KEY),
    (
        "connect",
        "agents server connect URL",
        "runs commands on a server",
    ),
    (
        "resume",
        "agents --resume",
        "chooses a conversation of this folder to continue",
    ),
    (
        "continue",
        "agents --continue",
        "continues the last conversation of this folder",
    ),
    ("exec", "agents -p 'QUESTION'", ANSWERS_ONCE),
    ("print", "agents -p 'QUESTION'", ANSWERS_ONCE),
    ("ask", "agents -p 'QUESTION'", ANSWERS_ONCE),
    (
        "review",
        "agents -p 'review the changes of this branch'",
        ANSWERS_ONCE,
    ),
    ("run-task", "agents do 'TASK'", DOES_A_TASK),
    ("fix", "agents do 'TASK'", DOES_A_TASK),
    ("edit", "agents do 'TASK'", DOES_A_TASK),
    ("task", "agents do 'TASK'", DOES_A_TASK),
    ("test", "agents do 'TASK' --check 'COMMAND'", DOES_A_TASK),
    (
        "commit",
        "agents apply",
        "applies the changes of the current plan to this folder",
    ),
    (
        "merge",
        "agents apply",
        "applies the changes of the current plan to this folder",
    ),
    ("tell", "agents 'TASK'", "starts a conversation"),
    ("rollback", "agents undo", UNDOES),
    ("revert", "agents undo", UNDOES),
    ("models", "agents model list", LISTS_MODELS),
    (
        "configure",
        "agents setup",
        "chooses the default model and stores its key",
    ),
    ("sessions", "agents session list", "lists conversations"),
    ("history", "agents session list", "lists conversations"),
    ("plans", "agents plan list", "lists plans"),
    (
        "agent",
        "agents actor list",
        "lists actors: models, tools and graphs of them",
    ),
    (
        "permissions",
        "agents permission list",
        "lists the permission rules of tool calls",
    ),
    (
        "cost",
        "agents status",
        "shows the cost of the current plan",
    ),
    (
        "compact",
        "agents --continue",
        "continues a conversation, in which `/compact` is a command",
    ),
    (
        "update",
        "cargo install --path crates/cli",
        "installs the program again from its source",
    ),
    (
        "mode",
        "agents config set core.mode ask",
        "sets the degree of automation: plan, ask, edit or auto",
    ),
];

const SETS_A_KEY: &str = "sets the key of a model provider";
const ANSWERS_ONCE: &str = "answers once and exits";
const DOES_A_TASK: &str = "plans, executes, checks and applies a task";
const UNDOES: &str = "undoes the last step, or the apply";
const LISTS_MODELS: &str = "lists models and the keys they need";

/// The command lines that replace commands of similar programs.
#[cfg(test)]
pub(super) fn foreign_hints() -> impl Iterator<Item = String> {
    let lines = FOREIGN_COMMANDS
        .iter()
        .map(|(_, line, _)| (*line).to_owned());
    lines.filter(|line| line.starts_with("agents "))
}

/// Width of the names in the list of all commands.
const NAME_WIDTH: usize = 26;

/// Every command with its subcommands, one line each if they fit the width.
pub(crate) fn all_commands(width: usize) -> String {
    let mut text = String::new();
    let root = Arguments::command();
    for command in root.get_subcommands() {
        append_command(&mut text, command, "", width);
    }
    text
}

fn append_command(text: &mut String, command: &clap::Command, parent: &str, width: usize) {
    if command.is_hide_set() || command.get_name() == "help" {
        return;
    }
    let name = format!("{parent}{}", command.get_name());
    let about = command.get_about().map(ToString::to_string);
    let mut subcommands = command.get_subcommands().peekable();
    if subcommands.peek().is_none() {
        let about = about.unwrap_or_default();
        let limit = width.saturating_sub(NAME_WIDTH + 3).max(20);
        let mut name = name.as_str();
        for line in wrap(&about, limit, usize::MAX) {
            let _never_fails = writeln!(text, "  {name:<NAME_WIDTH$} {line}");
            name = "";
        }
    }
    for subcommand in subcommands {
        append_command(text, subcommand, &format!("{name} "), width);
    }
}

/// Error for words that are neither a command nor a task in quotes.
pub(crate) fn unknown_command(words: &[String]) -> clap::Error {
    let word = words.first().map_or("", String::as_str);
    let command = Arguments::command();
    let equivalent = FOREIGN_COMMANDS.iter().find(|(known, ..)| *known == word);
    let names = command
        .get_subcommands()
        .flat_map(|command| std::iter::once(command.get_name()).chain(command.get_all_aliases()));
    let tip = match (equivalent, nearest::best(word, names)) {
        (Some((_, line, purpose)), _) => format!("`{line}` {purpose}"),
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
