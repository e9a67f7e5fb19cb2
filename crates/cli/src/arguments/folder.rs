//! `agents` without a command: a conversation in this folder.

use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _, ValueEnum};
use cleveragents_application::Mode;

use super::{Arguments, Chat, TurnOptions};

/// Options of `agents` without a command.
#[derive(Debug, Args)]
pub(crate) struct FolderConversation {
    /// Task or question that starts a conversation in this folder
    #[arg(value_name = "TASK", num_args = 0..)]
    pub(crate) task: Vec<String>,
    /// Answer once and exit; appends standard input to the question unless it is a terminal
    #[arg(long, short = 'p')]
    pub(crate) print: bool,
    /// Continue the last conversation of this folder
    #[arg(long = "continue", short = 'c', conflicts_with = "resume")]
    pub(crate) continues: bool,
    /// Resume a conversation: id, prefix or name; choose one of this folder when not given
    #[arg(long, value_name = "SESSION", num_args = 0..=1, default_missing_value = "")]
    pub(crate) resume: Option<String>,
    /// Model that answers, PROVIDER/MODEL
    #[arg(long, short = 'm', value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Refuse tools that write
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Degree of automation: `plan` refuses tools that write
    #[arg(long, value_name = "MODE", value_parser = super::automation::modes())]
    pub(crate) mode: Option<Mode>,
    /// Output of -p
    #[arg(long, value_enum, value_name = "FORMAT", requires = "print")]
    pub(crate) output_format: Option<OutputFormat>,
}

/// Formats of the answer of `agents -p`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// The answer only
    Text,
    /// One JSON document with answer, usage and changed files
    Json,
    /// One JSON object per event, then the result
    StreamJson,
}

/// Session of a conversation in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FolderSession {
    New,
    /// The most recent session of the folder.
    Last,
    /// A session of the folder that the user chooses.
    Choose,
}

/// A conversation in the working folder.
#[derive(Debug)]
pub(crate) struct FolderChat {
    pub(crate) session: FolderSession,
    /// First message.
    pub(crate) task: Option<String>,
    /// Format of the answer of `agents -p`; `None` for a conversation.
    pub(crate) print: Option<OutputFormat>,
    /// Mode; by default the configured one.
    pub(crate) mode: Option<Mode>,
}

impl FolderChat {
    /// Whether this starts a new conversation without a first message.
    pub(crate) fn is_bare(&self) -> bool {
        self.session == FolderSession::New && self.task.is_none() && self.print.is_none()
    }
}

impl FolderConversation {
    pub(crate) const fn is_empty(&self) -> bool {
        self.task.is_empty()
            && !self.print
            && !self.continues
            && self.resume.is_none()
            && self.model.is_none()
            && !self.read_only
            && self.mode.is_none()
            && self.output_format.is_none()
    }

    /// Converts the options to arguments of `chat`. Refuses a task of a single word, which is probably a
    /// misspelled command.
    pub(crate) fn into_chat(self) -> Result<Chat, clap::Error> {
        let task = match self.task.as_slice() {
            [] => None,
            words if self.print => Some(words.join(" ")),
            [task] if task.trim().contains(char::is_whitespace) => Some(task.clone()),
            // Most likely a misspelt command. A task in quotes is one argument.
            words => return Err(super::help::unknown_command(words)),
        };
        let (session, folder_session) = match self.resume {
            Some(name) if name.is_empty() => (None, FolderSession::Choose),
            Some(name) => (Some(name), FolderSession::New),
            None if self.continues => (None, FolderSession::Last),
            None => (None, FolderSession::New),
        };
        let format = self.output_format.unwrap_or(OutputFormat::Text);
        Ok(Chat {
            session,
            turn: TurnOptions {
                actor: self.model,
                read_only: self.read_only,
                ..TurnOptions::default()
            },
            folder: Some(FolderChat {
                session: folder_session,
                task,
                print: self.print.then_some(format),
                mode: self.mode,
            }),
        })
    }
}

/// Error for conversation options, such as `-p`, that precede a command.
pub(crate) fn misplaced_conversation_options() -> clap::Error {
    Arguments::command().error(
        ErrorKind::ArgumentConflict,
        "-p, -c, --resume, --model, --mode and --read-only before a command start a conversation and take no command; \
         put options of a command after its name",
    )
}
