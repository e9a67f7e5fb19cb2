//! Help of the program: the first page, the list of all commands, and hints for unknown commands.

use std::fmt::Write as _;

use clap::CommandFactory as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use cleveragents_domain::nearest;

use super::Arguments;
use crate::output::wrap;

/// Commands and examples of `agents --help`.
pub(super) const FIRST_HELP: &str =
    "  agents                Talk to a model that works in a copy of this folder
  agents 'TASK'         The same, starting with a task
  agents -p 'QUESTION'  Answer once and exit

Commands:
  do 'TASK'             Plan, execute, check and apply a task
  status                Show the current plan and what it waits for
  diff                  Show the changes of the current plan
  apply                 Apply the changes to your files
  undo                  Undo the last step, or the apply
  plan                  Create, run and inspect any plan
  sandbox               Run any program in an isolated copy of your files
  session               List, search, export and continue conversations
  setup                 Choose a model and store its key
  config                Read and change settings
  serve                 Serve a team over HTTP and A2A
  doctor                Check model, git, disk, configuration and database
  help                  `help --all` lists all commands, `help do` explains one

Examples:
  agents 'why does test_basket fail?'
  agents do 'make the failing test pass' --check 'make test'
  git diff | agents -p 'review this change'
  agents sandbox create fix --path . && agents sandbox exec fix -t -- bash
  agents demo           # a whole plan on an example, without a key

Exit codes: 0 done, 1 failed, 2 usage, 3 not found, 4 conflict,
5 user input required, 130 interrupted";

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

/// Joins the lines of each paragraph below the options of every command, so that they wrap at the width of the
/// terminal. Lists and examples, which are indented, keep their lines.
pub(super) fn with_flowing_notes(root: clap::Command) -> clap::Command {
    root.mut_subcommands(|command| {
        let notes = command
            .get_after_help()
            .map(|notes| flowing(&notes.to_string()));
        let command = match notes {
            Some(notes) => command.after_help(notes),
            None => command,
        };
        with_flowing_notes(command)
    })
}

fn flowing(notes: &str) -> String {
    let paragraphs = notes.split("\n\n").map(|paragraph| {
        if paragraph.lines().any(|line| line.starts_with(' ')) {
            paragraph.to_owned()
        } else {
            paragraph.split('\n').collect::<Vec<_>>().join(" ")
        }
    });
    paragraphs.collect::<Vec<_>>().join("\n\n")
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
            format!("did you mean `agents {name}`? `agents help --all` lists the commands")
        }
        (None, None) => format!(
            "`agents help --all` lists the commands; a task needs quotes: `agents '{} …'`",
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

#[cfg(test)]
mod tests {
    use clap::Command;

    use super::super::command_line;

    /// Width of a terminal in which every example can be copied.
    const WIDTH: usize = 80;

    /// Calls `each` with every command that can be run, and its full name.
    fn leaves(command: &Command, path: &str, each: &mut dyn FnMut(&str, &Command)) {
        if command.is_hide_set() {
            return;
        }
        if !command.has_subcommands() {
            each(path, command);
        }
        for subcommand in command.get_subcommands() {
            leaves(
                subcommand,
                &format!("{path} {}", subcommand.get_name()),
                each,
            );
        }
    }

    #[test]
    fn commands_with_arguments_have_an_example() {
        let mut without = Vec::new();
        leaves(&command_line(), "agents", &mut |path, command| {
            let has_arguments = command.get_arguments().next().is_some();
            let notes = command.get_after_help().map(ToString::to_string);
            if has_arguments && !notes.is_some_and(|notes| notes.contains("agents ")) {
                without.push(path.to_owned());
            }
        });
        assert!(without.is_empty(), "without an example: {without:#?}");
    }

    #[test]
    fn help_fits_eighty_columns_and_breaks_no_example() {
        let mut root = command_line().term_width(WIDTH);
        root.build();
        let mut problems = Vec::new();
        leaves(&root, "agents", &mut |path, command| {
            let notes = command
                .get_after_help()
                .map_or_else(String::new, ToString::to_string);
            let help = command.clone().term_width(WIDTH).render_help().to_string();
            for line in notes.lines().filter(|line| line.starts_with(' ')) {
                if line.chars().count() > WIDTH || !help.contains(line) {
                    problems.push(format!("{path}: {line}"));
                }
            }
            for line in help.lines().filter(|line| !line.starts_with("Usage")) {
                if line.chars().count() > WIDTH {
                    problems.push(format!("{path}: {line}"));
                }
            }
        });
        assert!(problems.is_empty(), "{problems:#?}");
    }
}
