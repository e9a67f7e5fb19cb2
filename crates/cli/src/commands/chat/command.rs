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
    Apply { is_agreed: bool },
    Cost,
    Save(PathBuf),
    Multi,
}

/// A line of input: a chat command, or a message for the model.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ChatInput {
    Command(ChatCommand),
    Question(String),
}

/// Name, arguments and description of each command.
pub(super) const COMMANDS: [(&str, &str, &str); 16] = [
    ("help", "", "Show this list"),
    ("exit", "", "Leave; Ctrl-D does too"),
    ("new", "[NAME]", "Start a new session with the next message"),
    (
        "session",
        "[list | NAME]",
        "Show the session, list all, or switch to another one",
    ),
    ("model", "[NAME]", "Show or change the model"),
    ("models", "", "List the models whose provider has a key"),
    ("tools", "", "List the tools"),
    ("history", "[N]", "Show the last N messages"),
    ("retry", "", "Send the last message again"),
    ("resume", "", "Resume the interrupted turn"),
    ("diff", "", "Show the changes in the sandbox"),
    (
        "undo",
        "",
        "Roll the sandbox back to the state before the last turn",
    ),
    (
        "apply",
        "[--yes]",
        "Apply the changes of the sandbox to your files",
    ),
    ("cost", "", "Show usage and cost of the session"),
    ("save", "FILE", "Write the last answer to a new file"),
    (
        "multi",
        "",
        "Write a message of several lines, ended by a line /end",
    ),
];

/// Default number of messages of `/history`.
const DEFAULT_HISTORY: u64 = 20;

/// Parses a message. Paths and text that starts with `//` are questions, not commands.
pub(super) fn parse(text: &str) -> Result<ChatInput, CommandError> {
    let trimmed = text.trim();
    let question = || ChatInput::Question(text.to_owned());
    let Some(rest) = trimmed.strip_prefix('/') else {
        return Ok(question());
    };
    if rest.starts_with('/') {
        return Ok(ChatInput::Question(rest.to_owned()));
    }
    let (name, argument) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    if name.contains(|letter: char| !letter.is_alphanumeric() && letter != '-')
        || trimmed.contains('\n')
    {
        return Ok(question());
    }
    let argument = argument.trim();
    let value = (!argument.is_empty()).then(|| argument.to_owned());
    let name = match name.to_lowercase().as_str() {
        "?" | "" => "help".to_owned(),
        "quit" => "exit".to_owned(),
        other => other.to_owned(),
    };
    let Some((name, takes, _)) = COMMANDS.iter().find(|(known, ..)| *known == name) else {
        return Err(unknown(&name));
    };
    if takes.is_empty() && value.is_some() {
        return Err(CommandError::usage(format!("/{name} takes no argument"))
            .with_hint(format!("use `/{name}` alone")));
    }
    Ok(ChatInput::Command(match *name {
        "exit" => ChatCommand::Exit,
        "new" => ChatCommand::New(value),
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
        "apply" => match value.as_deref() {
            None => ChatCommand::Apply { is_agreed: false },
            Some("--yes" | "-y") => ChatCommand::Apply { is_agreed: true },
            Some(other) => {
                return Err(
                    CommandError::usage(format!("/apply has no option `{other}`"))
                        .with_hint("use `/apply`, or `/apply --yes` to skip the confirmation"),
                );
            }
        },
        "cost" => ChatCommand::Cost,
        "save" => ChatCommand::Save(PathBuf::from(value.ok_or_else(|| {
            CommandError::usage("/save needs a file name").with_hint("use `/save FILE`")
        })?)),
        "multi" => ChatCommand::Multi,
        _ => ChatCommand::Help,
    }))
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
    use super::{COMMANDS, ChatCommand, ChatInput, parse};

    fn command(text: &str) -> ChatCommand {
        match parse(text).expect("a valid line") {
            ChatInput::Command(command) => command,
            ChatInput::Question(question) => panic!("a message: {question}"),
        }
    }

    #[test]
    fn every_listed_command_is_parsed() {
        for (name, takes, _) in COMMANDS {
            let text = if takes == "FILE" {
                format!("/{name} x")
            } else {
                format!("/{name}")
            };
            let parsed = command(&text);
            assert_eq!(parsed == ChatCommand::Help, name == "help", "{text}");
        }
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
            ChatCommand::Apply { is_agreed: true }
        );
        for wrong in ["/history many", "/apply now", "/save", "/diff x"] {
            assert_eq!(parse(wrong).expect_err(wrong).exit_code(), 2);
        }
    }

    #[test]
    fn paths_and_lines_with_two_slashes_are_messages() {
        for (text, question) in [
            ("/etc/hosts: what is it?", "/etc/hosts: what is it?"),
            ("//help me", "/help me"),
            ("/diff\nand more", "/diff\nand more"),
            ("no /help", "no /help"),
        ] {
            assert_eq!(
                parse(text).expect("a valid line"),
                ChatInput::Question(question.to_owned())
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
