//! What can be said to the chat itself: everything that begins with `/`.

use std::path::PathBuf;

use cleveragents_domain::{Code, nearest};

use crate::output::CommandError;

/// A command of the chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
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

/// What was said, and to whom.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    Command(Command),
    Question(String),
}

/// Each command: its name, what may follow it, and what it does.
pub(super) const COMMANDS: [(&str, &str, &str); 16] = [
    ("help", "", "Show this list"),
    ("exit", "", "Leave; Ctrl-D does too"),
    (
        "new",
        "[NAME]",
        "Begin a new session with the next question",
    ),
    (
        "session",
        "[list | NAME]",
        "Show the session, list all, or go on with another one",
    ),
    (
        "model",
        "[NAME]",
        "Show who answers, or let another model answer",
    ),
    ("models", "", "List the models whose provider has a key"),
    ("tools", "", "List the tools"),
    ("history", "[N]", "Show the last N messages"),
    ("retry", "", "Ask the last question again"),
    ("resume", "", "Go on with the turn that was interrupted"),
    ("diff", "", "Show what changed in the sandbox"),
    (
        "undo",
        "",
        "Take the sandbox back to where it was before the last turn",
    ),
    (
        "apply",
        "[--yes]",
        "Carry the changes of the sandbox to your files",
    ),
    ("cost", "", "Show what the session took and cost"),
    ("save", "FILE", "Write the last answer to a new file"),
    (
        "multi",
        "",
        "Write a question of several lines, until a line /end",
    ),
];

/// How many messages `/history` shows when not told.
const HISTORY: u64 = 20;

/// Reads what was said. `//` at the beginning says that it is no command; neither is a path.
pub(super) fn parse(text: &str) -> Result<Heard, CommandError> {
    let trimmed = text.trim();
    let question = || Heard::Question(text.to_owned());
    let Some(rest) = trimmed.strip_prefix('/') else {
        return Ok(question());
    };
    if rest.starts_with('/') {
        return Ok(Heard::Question(rest.to_owned()));
    }
    let (name, argument) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    if name.contains(|letter: char| !letter.is_alphanumeric() && letter != '-')
        || trimmed.contains('\n')
    {
        return Ok(question());
    }
    let argument = argument.trim();
    let given = (!argument.is_empty()).then(|| argument.to_owned());
    let name = match name.to_lowercase().as_str() {
        "?" | "" => "help".to_owned(),
        "quit" => "exit".to_owned(),
        other => other.to_owned(),
    };
    let Some((name, takes, _)) = COMMANDS.iter().find(|(known, ..)| *known == name) else {
        return Err(unknown(&name));
    };
    if takes.is_empty() && given.is_some() {
        return Err(
            CommandError::usage(format!("/{name} takes nothing after it"))
                .with_hint(format!("say only `/{name}`")),
        );
    }
    Ok(Heard::Command(match *name {
        "exit" => Command::Exit,
        "new" => Command::New(given),
        "session" => Command::Session(given),
        "model" => Command::Model(given),
        "models" => Command::Models,
        "tools" => Command::Tools,
        "history" => Command::History(match given {
            None => HISTORY,
            Some(number) => number.parse().map_err(|_| {
                CommandError::usage(format!("`{number}` is not a number of messages"))
                    .with_hint("say for example `/history 10`")
            })?,
        }),
        "retry" => Command::Retry,
        "resume" => Command::Resume,
        "diff" => Command::Diff,
        "undo" => Command::Undo,
        "apply" => match given.as_deref() {
            None => Command::Apply { is_agreed: false },
            Some("--yes" | "-y") => Command::Apply { is_agreed: true },
            Some(other) => {
                return Err(
                    CommandError::usage(format!("/apply does not know `{other}`"))
                        .with_hint("say `/apply`, or `/apply --yes` to agree at once"),
                );
            }
        },
        "cost" => Command::Cost,
        "save" => Command::Save(PathBuf::from(given.ok_or_else(|| {
            CommandError::usage("/save needs the name of a file").with_hint("say `/save FILE`")
        })?)),
        "multi" => Command::Multi,
        _ => Command::Help,
    }))
}

fn unknown(name: &str) -> CommandError {
    let known = COMMANDS.iter().map(|(known, ..)| *known);
    let hint = match nearest::best(name, known) {
        Some(near) => format!("did you mean `/{near}`? `/help` lists all"),
        None => {
            "`/help` lists all; begin with `//` to ask something that begins with `/`".to_owned()
        }
    };
    CommandError::new(Code::Usage, format!("there is no command `/{name}`")).with_hint(hint)
}

#[cfg(test)]
mod tests {
    use super::{COMMANDS, Command, Heard, parse};

    fn command(text: &str) -> Command {
        match parse(text).expect("understood") {
            Heard::Command(command) => command,
            Heard::Question(question) => panic!("a question: {question}"),
        }
    }

    #[test]
    fn every_command_of_the_list_is_understood() {
        for (name, takes, _) in COMMANDS {
            let text = if takes == "FILE" {
                format!("/{name} x")
            } else {
                format!("/{name}")
            };
            let understood = command(&text);
            assert_eq!(understood == Command::Help, name == "help", "{text}");
        }
    }

    #[test]
    fn arguments_are_read() {
        assert_eq!(command(" /History  3 "), Command::History(3));
        assert_eq!(
            command("/new My plan"),
            Command::New(Some("My plan".to_owned()))
        );
        assert_eq!(command("/apply --yes"), Command::Apply { is_agreed: true });
        for wrong in ["/history many", "/apply now", "/save", "/diff x"] {
            assert_eq!(parse(wrong).expect_err(wrong).exit_code(), 2);
        }
    }

    #[test]
    fn paths_and_what_begins_with_two_slashes_are_questions() {
        for (text, question) in [
            ("/etc/hosts: what is it?", "/etc/hosts: what is it?"),
            ("//help me", "/help me"),
            ("/diff\nand more", "/diff\nand more"),
            ("no /help", "no /help"),
        ] {
            assert_eq!(
                parse(text).expect("understood"),
                Heard::Question(question.to_owned())
            );
        }
    }

    #[test]
    fn an_unknown_command_names_the_nearest() {
        let error = parse("/modle x").expect_err("unknown");
        assert!(
            error.hint().expect("a hint").contains("/model"),
            "{error:?}"
        );
        assert!(
            parse("/xyzzy")
                .expect_err("unknown")
                .hint()
                .expect("a hint")
                .contains("/help")
        );
    }
}
