//! [`Editor`]: line editor of the chat, with history and completion.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use cleveragents_domain::Code;
use cleveragents_models::{Redactor, looks_secret};
use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{
    Cmd, CompletionType, ConditionalEventHandler, Config, Event, EventContext, EventHandler,
    Helper, KeyCode, KeyEvent, Modifiers, Movement, Prompt, RepeatCount,
};

use super::command::COMMANDS;
use super::input::{ReadOutcome, Reading, is_complete, question};
use crate::commands::text_editor::TextEditor;
use crate::context::Context;
use crate::output::{CommandError, Paint, Tone, console, visible, visible_lines, write_err};

/// Maximum number of lines in the history.
const MAX_HISTORY_LINES: usize = 1_000;

/// Reads messages at a terminal.
pub(super) struct Editor {
    external: TextEditor,
    /// The line that Ctrl-G requested to open in the user's editor.
    to_edit: Arc<Mutex<Option<String>>>,
    line: rustyline::Editor<Completions, FileHistory>,
    history: PathBuf,
    redactor: Redactor,
    paint: Paint,
}

/// Completion candidates and prompt state of the editor.
struct Completions {
    reading: Reading,
    models: Vec<String>,
    sessions: Vec<String>,
    /// Folder whose files are completed after `@`.
    folder: PathBuf,
}

impl Editor {
    pub(super) fn new(context: &Context, redactor: Redactor) -> Result<Self, CommandError> {
        context.home.create()?;
        let config = Config::builder()
            .max_history_size(MAX_HISTORY_LINES)
            .and_then(|config| config.history_ignore_dups(true))
            .map_err(|error| terminal_error(&error))?
            .completion_type(CompletionType::List)
            .bracketed_paste(true)
            .build();
        let mut line =
            rustyline::Editor::with_config(config).map_err(|error| terminal_error(&error))?;
        let models = context.models(None)?;
        line.set_helper(Some(Completions {
            reading: Reading::Usual,
            models: models
                .list()
                .iter()
                .map(|entry| entry.name.to_string())
                .collect(),
            sessions: Vec::new(),
            folder: context
                .environment
                .working_folder()
                .map_or_else(|| PathBuf::from("."), PathBuf::from),
        }));
        let clear = EventHandler::Conditional(Box::new(ClearOrInterrupt));
        line.bind_sequence(KeyEvent::ctrl('C'), clear);
        let to_edit = Arc::default();
        let open = EventHandler::Conditional(Box::new(OpenInEditor {
            line: Arc::clone(&to_edit),
        }));
        line.bind_sequence(KeyEvent::ctrl('G'), open);
        line.bind_sequence(
            KeyEvent(KeyCode::Enter, Modifiers::ALT),
            EventHandler::Simple(Cmd::Newline),
        );
        let history = context.home.chat_history();
        // The chat also works without a history.
        let _missing = line.load_history(&history);
        Ok(Self {
            external: TextEditor::new(context),
            to_edit,
            line,
            history,
            redactor,
            paint: context.printer.canvas().0,
        })
    }

    /// Sets the session names that can be completed.
    pub(super) fn set_session_names(&mut self, names: Vec<String>) {
        if let Some(completions) = self.line.helper_mut() {
            completions.sessions = names;
        }
    }

    pub(super) fn next(
        &mut self,
        prompt: &str,
        reading: Reading,
    ) -> Result<ReadOutcome, CommandError> {
        if let Some(completions) = self.line.helper_mut() {
            completions.reading = reading;
        }
        let raw = visible(prompt).into_owned();
        let prompt = ColouredPrompt {
            styled: self.paint.text(Tone::Title, &raw),
            raw,
        };
        let console_guard = console::hold();
        let mut initial = String::new();
        let typed = loop {
            let typed = self.line.readline_with_initial(&prompt, (&initial, ""));
            match (typed, self.take_line_to_edit()) {
                (Ok(typed), _) => break typed,
                (Err(ReadlineError::Interrupted), Some(line)) => initial = self.edited(line),
                (Err(ReadlineError::Interrupted), None) => return Ok(ReadOutcome::Interrupted),
                (Err(ReadlineError::Eof), _) => return Ok(ReadOutcome::End),
                (Err(error), _) => return Err(terminal_error(&error)),
            }
        };
        drop(console_guard);
        let text = question(&typed, reading);
        Ok(match self.add_to_history(&typed) {
            None => ReadOutcome::Text(text),
            Some(note) => ReadOutcome::Kept(text, note),
        })
    }

    fn take_line_to_edit(&self) -> Option<String> {
        let mut line = self.to_edit.lock().unwrap_or_else(PoisonError::into_inner);
        line.take()
    }

    /// The line after the user changed it in an editor; the unchanged line if the editor fails.
    fn edited(&self, line: String) -> String {
        let hint = "write the message at the prompt";
        match self.external.edit(&format!("{line}\n"), "message.md", hint) {
            Ok(text) => text.trim_end_matches(['\r', '\n']).to_owned(),
            Err(error) => {
                let hint = error.hint_text().unwrap_or_default();
                write_err(&visible_lines(&format!("{error}; {hint}\n")));
                line
            }
        }
    }

    /// Adds the line to the history, unless it contains a secret. Returns a warning if it was not added.
    fn add_to_history(&mut self, typed: &str) -> Option<&'static str> {
        if typed.trim().is_empty() {
            return None;
        }
        if looks_secret(typed) || self.redactor.text(typed) != typed {
            return Some("not added to the line history: it seems to contain a secret");
        }
        let added = self
            .line
            .add_history_entry(typed)
            .and_then(|_| self.line.append_history(&self.history));
        added
            .err()
            .map(|_| "the line history in the home folder cannot be written")
    }
}

fn terminal_error(error: &ReadlineError) -> CommandError {
    CommandError::new(Code::FileAccess, "the terminal cannot be used").caused_by(error)
}

/// A prompt with and without colours.
struct ColouredPrompt {
    raw: String,
    styled: String,
}

impl Prompt for ColouredPrompt {
    fn raw(&self) -> &str {
        &self.raw
    }

    fn styled(&self) -> &str {
        &self.styled
    }
}

/// Handler of Ctrl-C: clears a line with text, and interrupts at an empty line.
struct ClearOrInterrupt;

impl ConditionalEventHandler for ClearOrInterrupt {
    fn handle(
        &self,
        _event: &Event,
        _count: RepeatCount,
        _is_positive: bool,
        context: &EventContext<'_>,
    ) -> Option<Cmd> {
        Some(if context.line().is_empty() {
            Cmd::Interrupt
        } else {
            Cmd::Kill(Movement::WholeBuffer)
        })
    }
}

/// Handler of Ctrl-G: ends the input, so that the line can be opened in the user's editor.
struct OpenInEditor {
    line: Arc<Mutex<Option<String>>>,
}

impl ConditionalEventHandler for OpenInEditor {
    fn handle(
        &self,
        _event: &Event,
        _count: RepeatCount,
        _is_positive: bool,
        context: &EventContext<'_>,
    ) -> Option<Cmd> {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        *line = Some(context.line().to_owned());
        Some(Cmd::Interrupt)
    }
}

impl Completer for Completions {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _context: &rustyline::Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        Ok(self.candidates(line.get(..position).unwrap_or(line)))
    }
}

impl Completions {
    /// Byte offset of the word to complete, and its completions.
    fn candidates(&self, typed: &str) -> (usize, Vec<Pair>) {
        let Some(rest) = typed.strip_prefix('/') else {
            return self.files(typed);
        };
        let Some((command, word)) = rest.split_once(' ') else {
            let names = COMMANDS.iter().map(|(name, takes, _)| {
                let space = if takes.is_empty() { "" } else { " " };
                format!("/{name}{space}")
            });
            return (0, matching(names, typed));
        };
        let start = typed.len() - word.len();
        let known = match command {
            "model" => &self.models,
            "session" => &self.sessions,
            _ => return (typed.len(), Vec::new()),
        };
        (start, matching(known.iter().cloned(), word))
    }
}

impl Completions {
    /// Completes a path after `@`, one folder at a time.
    fn files(&self, typed: &str) -> (usize, Vec<Pair>) {
        let start = typed.rfind(char::is_whitespace).map_or(0, |at| at + 1);
        let Some(path) = typed[start..].strip_prefix('@') else {
            return (typed.len(), Vec::new());
        };
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let prefix = if folder.is_empty() {
            String::new()
        } else {
            format!("{folder}/")
        };
        let entries = std::fs::read_dir(self.folder.join(folder));
        let entries = entries.into_iter().flatten().filter_map(Result::ok);
        let mut names: Vec<String> = entries
            .filter_map(|entry| {
                let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
                let name = entry.file_name().into_string().ok()?;
                // Hidden files only when the user starts to type one.
                let is_shown = !name.starts_with('.') || path.ends_with('.');
                let end = if is_folder { "/" } else { " " };
                is_shown.then(|| format!("@{prefix}{name}{end}"))
            })
            .collect();
        names.sort();
        (
            start,
            matching(names.into_iter(), &format!("@{prefix}{name}")),
        )
    }
}

fn matching(known: impl Iterator<Item = String>, word: &str) -> Vec<Pair> {
    known
        .filter(|name| name.starts_with(word))
        // Omits names with control characters, because the editor prints completions unescaped.
        .filter(|name| matches!(visible(name), Cow::Borrowed(_)))
        .map(|name| Pair {
            display: name.trim_end().to_owned(),
            replacement: name,
        })
        .collect()
}

impl Validator for Completions {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(if is_complete(context.input(), self.reading) {
            ValidationResult::Valid(None)
        } else {
            ValidationResult::Incomplete
        })
    }
}

impl Hinter for Completions {
    type Hint = String;
}

impl Highlighter for Completions {}

impl Helper for Completions {}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{Completions, Reading};

    #[test]
    fn commands_models_and_sessions_are_completed() {
        let completions = Completions {
            reading: Reading::Usual,
            models: vec!["openai/gpt-5.1".to_owned(), "groq/llama".to_owned()],
            sessions: vec!["weekly plan".to_owned(), "bad\u{1b}[2J".to_owned()],
            folder: PathBuf::new(),
        };
        let names = |typed: &str| {
            let (start, pairs) = completions.candidates(typed);
            let all: Vec<String> = pairs.into_iter().map(|pair| pair.replacement).collect();
            (start, all)
        };
        assert_eq!(
            names("/mod"),
            (0, vec!["/model ".to_owned(), "/models".to_owned()])
        );
        assert_eq!(names("/model op"), (7, vec!["openai/gpt-5.1".to_owned()]));
        assert_eq!(names("/session w"), (9, vec!["weekly plan".to_owned()]));
        assert_eq!(names("/session bad").1, Vec::<String>::new());
        assert_eq!(names("hello").1, Vec::<String>::new());
    }

    #[test]
    fn paths_after_an_at_sign_are_completed() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("src")).expect("a folder");
        for name in ["src/main.rs", "src/map.rs", "setup.py", ".env"] {
            std::fs::write(folder.path().join(name), "").expect("a file");
        }
        let completions = Completions {
            reading: Reading::Usual,
            models: Vec::new(),
            sessions: Vec::new(),
            folder: folder.path().to_owned(),
        };
        let names = |typed: &str| {
            let (start, pairs) = completions.candidates(typed);
            let all: Vec<String> = pairs.into_iter().map(|pair| pair.replacement).collect();
            (start, all.join(","))
        };
        assert_eq!(names("look at @s"), (8, "@setup.py ,@src/".to_owned()));
        assert_eq!(
            names("@src/ma"),
            (0, "@src/main.rs ,@src/map.rs ".to_owned())
        );
        assert_eq!(names("@."), (0, "@.env ".to_owned()));
        assert_eq!(names("me@x").1, "");
    }
}
