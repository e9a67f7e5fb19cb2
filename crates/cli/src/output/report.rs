//! The result of a command: data for programs, blocks for users, messages for both.

use std::fmt;
use std::sync::Arc;

use cleveragents_domain::{Code, Hint};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::block::{Block, Entry, Panel, Table};
use super::cell::Cell;
use super::document::{Document, Target};
use super::error::CommandError;
use super::suggestion::write_commands;

/// Importance of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Information.
    Info,
    /// Confirmation of a completed operation.
    Ok,
    Warn,
    /// Failure.
    Error,
}

/// Result of the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Success.
    Ok,
    /// Success with warnings.
    Warn,
    /// Failure.
    Error,
}

/// A message for the user or program that ran the command.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Message {
    pub(crate) level: Level,
    pub(crate) text: String,
}

/// Data for programs.
#[derive(Clone)]
pub(crate) enum Data {
    /// A tree in memory.
    Tree(Value),
    /// Many records, serialized one after the other when they are printed.
    Records(Arc<dyn erased_serde::Serialize + Send + Sync>),
}

impl Data {
    pub(crate) fn to_tree(&self) -> Value {
        match self {
            Self::Tree(tree) => tree.clone(),
            Self::Records(records) => serde_json::to_value(records.as_ref()).unwrap_or(Value::Null),
        }
    }
}

impl fmt::Debug for Data {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_tree().fmt(formatter)
    }
}

impl Serialize for Data {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Tree(tree) => tree.serialize(serializer),
            Self::Records(records) => erased_serde::serialize(records.as_ref(), serializer),
        }
    }
}

/// The result of a command, for all output formats.
#[derive(Debug, Clone)]
pub struct Report {
    pub(crate) command: &'static str,
    pub(crate) data: Data,
    pub(crate) blocks: Vec<Block>,
    pub(crate) messages: Vec<Message>,
    pub(crate) failure: Option<CommandError>,
    /// Exit code of a program that the command ran for the user; becomes the exit code of the process.
    pub(crate) program_exit_code: Option<u8>,
    /// True if the command has already written all its output.
    pub(crate) is_written: bool,
    /// Bytes to output unchanged: on standard output instead of the report, or in a file that the
    /// report mentions.
    pub(crate) document: Option<Document>,
}

impl Report {
    /// An empty report; `command` is the short name, such as `session create`.
    pub fn new(command: &'static str) -> Self {
        Self {
            command,
            data: Data::Tree(Value::Object(Map::new())),
            blocks: Vec::new(),
            messages: Vec::new(),
            failure: None,
            program_exit_code: None,
            is_written: false,
            document: None,
        }
    }

    /// The report of a command that has written all its output, with its exit code.
    pub(crate) fn written(command: &'static str, code: u8) -> Self {
        Self {
            program_exit_code: Some(code),
            is_written: true,
            ..Self::new(command)
        }
    }

    /// A report that prints only a document.
    pub(crate) fn printed(command: &'static str, content: impl Into<Vec<u8>>) -> Self {
        Self {
            document: Some(Document::printed(content.into())),
            ..Self::new(command)
        }
    }

    /// Adds a document for a file; the process that prints the report writes the file.
    pub(crate) fn with_file(mut self, content: impl Into<Vec<u8>>, target: Target) -> Self {
        self.document = Some(Document {
            content: content.into(),
            file: Some(target),
        });
        self
    }

    /// Writes the file that the report mentions.
    pub(crate) fn place_document(&self) -> Result<(), CommandError> {
        self.document.as_ref().map_or(Ok(()), Document::place)
    }

    /// Sets the data for programs.
    ///
    /// A value that JSON cannot represent, such as a map whose keys are not text, is a bug and
    /// makes the report a failure.
    #[must_use]
    pub fn data(mut self, value: impl Serialize) -> Self {
        match serde_json::to_value(value) {
            Ok(value) => self.data = Data::Tree(value),
            Err(error) => {
                self.failure = Some(
                    CommandError::new(Code::Internal, "the result cannot be written as JSON")
                        .caused_by(&error),
                );
            }
        }
        self
    }

    /// Sets data for programs that may be long: it is not copied into a tree first.
    #[must_use]
    pub fn records(mut self, records: impl Serialize + Send + Sync + 'static) -> Self {
        self.data = Data::Records(Arc::new(records));
        self
    }

    /// Adds a panel.
    #[must_use]
    pub fn panel(self, panel: Panel) -> Self {
        self.block(Block::Panel(panel))
    }

    /// Adds a table.
    #[must_use]
    pub fn table(self, table: Table) -> Self {
        self.block(Block::Table(table))
    }

    /// Adds a text that keeps its lines.
    #[must_use]
    pub fn text(self, text: impl Into<String>) -> Self {
        self.block(Block::Text(text.into()))
    }

    /// Adds lines of cells, each in the tone of its value. No space is added between cells.
    #[must_use]
    pub fn lines(self, lines: Vec<Vec<Cell>>) -> Self {
        self.block(Block::Lines(lines))
    }

    /// Adds a transcript: a heading and a body for each entry.
    #[must_use]
    pub fn transcript(self, entries: Vec<Entry>) -> Self {
        self.block(Block::Transcript(entries))
    }

    /// Adds the confirmation of a completed operation.
    #[must_use]
    pub fn ok(self, text: impl Into<String>) -> Self {
        self.message(Level::Ok, text)
    }

    /// Adds a warning; the status becomes [`Status::Warn`].
    #[must_use]
    pub fn warn(self, text: impl Into<String>) -> Self {
        self.message(Level::Warn, text)
    }

    /// Adds information.
    #[must_use]
    pub fn info(self, text: impl Into<String>) -> Self {
        self.message(Level::Info, text)
    }

    /// Converts the suggestions at these pointers of the data, such as `/next_steps`, to commands.
    #[must_use]
    pub(crate) fn commands_at(mut self, pointers: &[&str]) -> Self {
        if let Data::Tree(tree) = &mut self.data {
            for pointer in pointers {
                tree.pointer_mut(pointer).map(write_commands);
            }
        }
        self
    }

    /// Marks the data as that of a rehearsal, which changed nothing.
    #[must_use]
    pub(crate) fn rehearsed(mut self) -> Self {
        let mut tree = self.data.to_tree();
        if let Value::Object(fields) = &mut tree {
            fields.insert("dry_run".to_owned(), true.into());
        }
        self.data = Data::Tree(tree);
        self
    }

    /// Marks the report as failed; its data stays.
    #[must_use]
    pub fn failed(mut self, code: Code, message: impl Into<String>, hint: impl Into<Hint>) -> Self {
        self.failure = Some(CommandError::new(code, message).with_hint(hint));
        self
    }

    /// Marks a failure as caused by a signal; the report of a successful command stays unchanged.
    #[must_use]
    pub(crate) fn interrupted(mut self) -> Self {
        self.failure = self.failure.map(CommandError::interrupted);
        self
    }

    /// Marks the report of a command that ran a program for the user: only that program writes to standard output,
    /// messages go to standard error, and the process exits with `code`.
    #[must_use]
    pub fn exit_with(mut self, code: u8) -> Self {
        self.program_exit_code = Some(code);
        self
    }

    /// Result of the command.
    pub fn status(&self) -> Status {
        if self.failure.is_some() {
            Status::Error
        } else if self
            .messages
            .iter()
            .any(|message| message.level == Level::Warn)
        {
            Status::Warn
        } else {
            Status::Ok
        }
    }

    /// The exit code of the process.
    pub fn exit_code(&self) -> u8 {
        let failure = self.failure.as_ref().map(CommandError::exit_code);
        failure.or(self.program_exit_code).unwrap_or(0)
    }

    fn block(mut self, block: Block) -> Self {
        self.blocks.push(block);
        self
    }

    fn message(mut self, level: Level, text: impl Into<String>) -> Self {
        self.messages.push(Message {
            level,
            text: text.into(),
        });
        self
    }
}

#[cfg(test)]
mod tests {
    use super::{Report, Status};
    use cleveragents_domain::Code;
    use std::collections::BTreeMap;

    #[test]
    fn a_warning_changes_the_status_but_not_the_exit_code() {
        let report = Report::new("session list")
            .ok("2 sessions")
            .warn("1 is damaged");
        assert_eq!((report.status(), report.exit_code()), (Status::Warn, 0));
    }

    #[test]
    fn a_failed_report_ends_with_the_exit_code_of_its_kind() {
        let report = Report::new("diagnostics").failed(Code::SessionNotFound, "gone", "look");
        assert_eq!((report.status(), report.exit_code()), (Status::Error, 3));
    }

    #[test]
    fn data_that_json_cannot_hold_makes_the_report_fail() {
        let report = Report::new("x").data(BTreeMap::from([((1, 2), 3)]));
        assert_eq!((report.status(), report.exit_code()), (Status::Error, 1));
    }
}
