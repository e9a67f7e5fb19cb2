//! Chat commands: lines that start with `/`.

use std::path::PathBuf;

use cleveragents_domain::{Code, nearest};

use crate::output::CommandError;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ChatCommand {
    Help,
    Exit,
    New(Option<String>),
    Session(Option<String>),
    Model(Option<String>),
    Models,
    Tools,
    History(u64),
    Retry,
    Resume,
    Diff,
    Undo,
    Redo,
    Apply {
        skips_confirmation: bool,
        /// A new branch that receives the changes instead of the files.
        branch: Option<String>,
    },
    Cost,
    Status,
    Plan,
    Mcp,
    Permissions,
    /// A predefined message to the model, which `/init` and `/review` send.
    Prompt(&'static str),
    /// A command line to run in the sandbox.
    Shell(String),
    /// Summarize the conversation; the text names what the summary must keep in detail.
    Compact(Option<String>),
    Export(PathBuf),
    Save(PathBuf),
    Multi,
}

/// A line of input: a chat command, or a message for the model.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ChatInput {
    Command(ChatCommand),
    Message(String),
}

/// Name, arguments and description of each command.
pub(super) const COMMANDS: [(&str, &str, &str); 26] = [
    ("help", "", "Show this list"),
    ("exit", "", "Leave the chat, as Ctrl-D does"),
    ("new", "[NAME]", "Start a new session with the next message"),
    ("clear", "", "Same as /new"),
    ("status", "", "Show model, session, sandbox and its changes"),
    (
        "init",
        "",
        "Let the model write an AGENTS.md for this folder",
    ),
    ("review", "", "Let the model review the uncommitted changes"),
    (
        "session",
        "[list | NAME]",
        "Show the session, list all, or switch to another one",
    ),
    ("model", "[NAME]", "Show or change the model"),
    ("models", "", "List the models whose provider has a key"),
    ("tools", "", "List the tools"),
    ("history", "[N]", "Show the last N messages"),
    (
        "compact",
        "[FOCUS]",
        "Summarize the conversation so far, to save tokens",
    ),
    ("retry", "", "Send the last message again"),
    ("resume", "", "Resume the interrupted turn"),
    ("diff", "", "Show the changes in the sandbox"),
    (
        "undo",
        "",
        "Roll the sandbox back to the state before the last turn",
    ),
    ("redo", "", "Undo the last /undo"),
    (
        "apply",
        "[--branch NAME] [--yes]",
        "Apply the changes to your files, or on a new branch",
    ),
    ("cost", "", "Show usage and cost of the session"),
    ("plan", "", "Show the current plan of this folder"),
    ("mcp", "", "List the MCP servers"),
    ("permissions", "", "List the permission rules of tool calls"),
    (
        "export",
        "FILE",
        "Write the session to a new file, as Markdown",
    ),
    ("save", "FILE", "Write the last answer to a new file"),
    (
        "multi",
        "",
        "Write a message of several lines, ended by a line /end",
    ),
];

/// Width of the first column of `/help`.
pub(super) const HELP_COLUMN: usize = 30;

/// The lines of `/help`: commands and keys, with their effect.
pub(super) const HELP: [(&str, &str); 22] = [
    (
        "/status, /cost",
        "Show model, session and sandbox; usage and cost",
    ),
    (
        "/new [NAME], /clear",
        "Start a new session with the next message",
    ),
    (
        "/session [list | NAME]",
        "Show the session, list all, or switch to another",
    ),
    (
        "/model [NAME], /models",
        "Show or change the model; list the models",
    ),
    (
        "/history [N], /compact [FOCUS]",
        "Show messages; summarize the conversation",
    ),
    (
        "/diff, /apply [--branch NAME]",
        "Show the changes; apply them to files or branch",
    ),
    (
        "/undo, /redo",
        "Roll back the last turn; restore its changes",
    ),
    (
        "/retry, /resume",
        "Repeat the last message; the interrupted turn",
    ),
    (
        "/init, /review",
        "Write an AGENTS.md; review uncommitted changes",
    ),
    (
        "/plan, /tools",
        "Show the plan of this folder; list the tools",
    ),
    ("/mcp, /permissions", "List MCP servers; permission rules"),
    (
        "/save FILE, /export FILE",
        "Write the last answer; the session as Markdown",
    ),
    ("/multi", "Write several lines, ended by a line /end"),
    ("/help, /exit, Ctrl-D", "Show this list; leave"),
    ("!COMMAND", "Run a command line in the sandbox"),
    ("@FILE", "Mention a file (Tab completes); attach an image"),
    ("Ctrl-G", "Open the message in $VISUAL or $EDITOR"),
    (
        "Ctrl-R, Up",
        "Search the earlier lines; recall the last one",
    ),
    ("Alt-Enter, \\ at the line end", "Continue on the next line"),
    (
        "``` … ```, pasted lines",
        "Send several lines as one message",
    ),
    ("Ctrl-C", "Stop the answer; clear the line"),
    ("//TEXT", "Send a message that starts with /"),
];

/// Default number of messages of `/history`.
const DEFAULT_HISTORY: u64 = 20;

/// Message that `/init` sends to the model.
const INIT_PROMPT: &str = "\
Write the file AGENTS.md in the root folder of this repository, for coding agents that work on it. Read the build \
files, the documents and a few source files first. State in at most 60 lines: what the project is, its layout, the \
exact commands to build, test, lint and format it (run those that are fast, and only name commands that exist), the \
conventions that the code follows, and what to avoid. If AGENTS.md exists, correct and complete it instead of \
replacing it.";

/// Message that `/review` sends to the model.
const REVIEW_PROMPT: &str = "\
Review the uncommitted changes of this repository; git status and git diff show them. Do not change any file. Report \
defects first, the most severe first: file and line, what goes wrong and with which input, and a fix. Then list \
missing tests. If you find no defect, state that.";

/// Parses `!COMMAND`, which runs a command line in the sandbox. Called only for input that was typed at a terminal.
pub(super) fn shell_command(text: &str) -> Option<ChatCommand> {
    let line = text.trim().strip_prefix('!')?.trim();
    (!line.is_empty()).then(|| ChatCommand::Shell(line.to_owned()))
}

/// Parses a line of input. Paths, such as `/etc/hosts`, and text that starts with `//` are messages, not commands.
pub(super) fn parse(text: &str) -> Result<ChatInput, CommandError> {
    let trimmed = text.trim();
    let message = || ChatInput::Message(text.to_owned());
    let Some(rest) = trimmed.strip_prefix('/') else {
        return Ok(message());
    };
    if rest.starts_with('/') {
        return Ok(ChatInput::Message(rest.to_owned()));
    }
    let (name, argument) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    if name.contains(|letter: char| !letter.is_alphanumeric() && letter != '-')
        || trimmed.contains('\n')
    {
        return Ok(message());
    }
    let argument = argument.trim();
    let value = (!argument.is_empty()).then(|| argument.to_owned());
    let name = match name.to_lowercase().as_str() {
        "?" | "" => "help".to_owned(),
        "quit" => "exit".to_owned(),
        other => other.to_owned(),
    };
    let file = |value: Option<String>| {
        value.map(PathBuf::from).ok_or_else(|| {
            CommandError::usage(format!("/{name} needs a file name"))
                .with_hint(format!("use `/{name} FILE`"))
        })
    };
    let Some((known_name, parameters, _)) = COMMANDS.iter().find(|(known, ..)| *known == name)
    else {
        return Err(unknown(&name));
    };
    if parameters.is_empty() && value.is_some() {
        return Err(CommandError::usage(format!("/{name} takes no argument"))
            .with_hint(format!("use `/{name}` without an argument")));
    }
    Ok(ChatInput::Command(match *known_name {
        "exit" => ChatCommand::Exit,
        "new" | "clear" => ChatCommand::New(value),
        "status" => ChatCommand::Status,
        "init" => ChatCommand::Prompt(INIT_PROMPT),
        "review" => ChatCommand::Prompt(REVIEW_PROMPT),
        "redo" => ChatCommand::Redo,
        "plan" => ChatCommand::Plan,
        "mcp" => ChatCommand::Mcp,
        "permissions" => ChatCommand::Permissions,
        "compact" => ChatCommand::Compact(value),
        "export" => ChatCommand::Export(file(value)?),
        "session" => ChatCommand::Session(value),
        "model" => ChatCommand::Model(value),
        "models" => ChatCommand::Models,
        "tools" => ChatCommand::Tools,
        "history" => ChatCommand::History(match value {
            None => DEFAULT_HISTORY,
            Some(number) => number.parse().map_err(|_| {
                CommandError::usage(format!("`{number}` is not a number of messages"))
                    .with_hint("use for example `/history 10`")
            })?,
        }),
        "retry" => ChatCommand::Retry,
        "resume" => ChatCommand::Resume,
        "diff" => ChatCommand::Diff,
        "undo" => ChatCommand::Undo,
        "apply" => apply_options(value.as_deref().unwrap_or_default())?,
        "cost" => ChatCommand::Cost,
        "save" => ChatCommand::Save(file(value)?),
        "multi" => ChatCommand::Multi,
        _ => ChatCommand::Help,
    }))
}

/// Parses the options of `/apply`.
fn apply_options(options: &str) -> Result<ChatCommand, CommandError> {
    let (mut skips_confirmation, mut branch) = (false, None);
    let mut words = options.split_whitespace();
    while let Some(word) = words.next() {
        match (word, word.strip_prefix("--branch=")) {
            ("--yes" | "-y", _) => skips_confirmation = true,
            ("--branch", _) if branch.is_none() => match words.next() {
                Some(name) => branch = Some(name.to_owned()),
                None => {
                    return Err(
                        CommandError::usage("--branch needs the name of a new branch")
                            .with_hint("use for example `/apply --branch fix/parser`"),
                    );
                }
            },
            (_, Some(name)) if branch.is_none() => branch = Some(name.to_owned()),
            (other, _) => {
                return Err(
                    CommandError::usage(format!("/apply has no option `{other}`")).with_hint(
                        "use `/apply`, `/apply --branch NAME`, or `/apply --yes` to skip the confirmation",
                    ),
                );
            }
        }
    }
    Ok(ChatCommand::Apply {
        skips_confirmation,
        branch,
    })
}

fn unknown(name: &str) -> CommandError {
    let known = COMMANDS.iter().map(|(known, ..)| *known);
    let hint = match nearest::best(name, known) {
        Some(similar) => format!("did you mean `/{similar}`? `/help` lists all"),
        None => {
            "`/help` lists all; start with `//` to send a message that starts with `/`".to_owned()
        }
    };
    CommandError::new(Code::Usage, format!("there is no command `/{name}`")).with_hint(hint)
}

#[cfg(test)]
mod tests {
    use super::{COMMANDS, ChatCommand, ChatInput, HELP, HELP_COLUMN, parse, shell_command};

    fn command(text: &str) -> ChatCommand {
        match parse(text).expect("a valid line") {
            ChatInput::Command(command) => command,
            ChatInput::Message(message) => panic!("a message: {message}"),
        }
    }

    #[test]
    fn every_listed_command_is_parsed() {
        for (name, parameters, _) in COMMANDS {
            let text = if parameters == "FILE" {
                format!("/{name} x")
            } else {
                format!("/{name}")
            };
            let parsed = command(&text);
            assert_eq!(parsed == ChatCommand::Help, name == "help", "{text}");
        }
    }

    #[test]
    fn the_help_names_every_command_in_24_lines_of_80_columns() {
        // A line before and after the list.
        assert!(HELP.len() <= 22);
        for (keys, effect) in HELP {
            assert!(keys.chars().count() <= HELP_COLUMN, "{keys}");
            assert!(
                HELP_COLUMN + 2 + effect.chars().count() <= 80,
                "{keys}: {effect}"
            );
        }
        for (name, ..) in COMMANDS {
            let command = format!("/{name}");
            let is_listed = HELP.iter().any(|(keys, _)| {
                let mut words = keys.split([' ', ',']);
                words.any(|word| word == command)
            });
            assert!(is_listed, "{command}");
        }
    }

    #[test]
    fn a_line_after_an_exclamation_mark_is_a_shell_command() {
        let command = shell_command(" !git status ");
        assert_eq!(command, Some(ChatCommand::Shell("git status".to_owned())));
        assert_eq!(shell_command("!"), None);
        assert_eq!(shell_command("wow!"), None);
    }

    #[test]
    fn arguments_are_parsed() {
        assert_eq!(command(" /History  3 "), ChatCommand::History(3));
        assert_eq!(
            command("/new My plan"),
            ChatCommand::New(Some("My plan".to_owned()))
        );
        assert_eq!(
            command("/apply --yes"),
            ChatCommand::Apply {
                skips_confirmation: true,
                branch: None
            }
        );
        for line in ["/apply --branch fix/it -y", "/apply --yes --branch=fix/it"] {
            let expected = ChatCommand::Apply {
                skips_confirmation: true,
                branch: Some("fix/it".to_owned()),
            };
            assert_eq!(command(line), expected);
        }
        for wrong in [
            "/history many",
            "/apply now",
            "/apply --branch",
            "/apply --branch a --branch b",
            "/save",
            "/diff x",
        ] {
            assert_eq!(parse(wrong).expect_err(wrong).exit_code(), 2);
        }
    }

    #[test]
    fn paths_and_lines_with_two_slashes_are_messages() {
        for (text, message) in [
            ("/etc/hosts: what is it?", "/etc/hosts: what is it?"),
            ("//help me", "/help me"),
            ("/diff\nand more", "/diff\nand more"),
            ("no /help", "no /help"),
        ] {
            assert_eq!(
                parse(text).expect("a valid line"),
                ChatInput::Message(message.to_owned())
            );
        }
    }

    #[test]
    fn an_unknown_command_names_the_nearest() {
        let error = parse("/modle x").expect_err("unknown");
        assert!(
            error.hint_text().expect("a hint").contains("/model"),
            "{error:?}"
        );
        assert!(
            parse("/xyzzy")
                .expect_err("unknown")
                .hint_text()
                .expect("a hint")
                .contains("/help")
        );
    }
}
