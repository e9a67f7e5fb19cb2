//! `chat`: a conversation at a terminal, or with a program that writes messages to standard input.
//!
//! Every message is a turn of [`Conversation`], as in `session tell`. Lines that start with `/` are
//! commands of the chat ([`command`]); most run the corresponding command of the program. A failed
//! turn does not end the chat.

mod command;
mod editor;
mod folder;
mod input;
mod remote;
mod run_command;
mod screen;
mod signals;

use std::io::{IsTerminal as _, stderr, stdin, stdout};
use std::ops::Range;
use std::path::PathBuf;

use cleveragents_application::session_operations::{TurnMode, TurnResult};
use cleveragents_application::{Conversation, ConversationTurn, SessionService};
use cleveragents_domain::{CheckpointNumber, Code, SandboxId, Session, SessionId, SessionName};
use cleveragents_models::ModelName;

use self::editor::Editor;
use self::folder::FolderStart;
use self::input::{PipeReader, Reading};
use self::screen::Screen;
use self::signals::Stopper;
use crate::arguments::Chat as Arguments;
use crate::commands::counted;
use crate::commands::images::{image_line, prompt_images};
use crate::commands::terminal::{self, Terminal};
use crate::commands::turn_view::short;
use crate::context::Context;
use crate::output::{CommandError, Format, Report, Timing};

/// Number of messages to show when a session is continued.
const RECENT: u64 = 6;

/// Maximum length of a session name that is derived from a message.
const MAX_NAME_LENGTH: usize = 60;

pub(crate) fn run(context: &Context, mut arguments: Arguments) -> Result<Report, CommandError> {
    let mut working_folder = None;
    let mut task = None;
    if let Some(folder) = arguments.folder.take() {
        match folder::start(context, arguments, folder)? {
            FolderStart::Ended(report) => return Ok(report),
            FolderStart::Ready(ready) => {
                arguments = ready.arguments;
                working_folder = Some(ready.folder);
                task = ready.task;
            }
        }
    } else if context.connection.is_some() {
        return remote::run(context, arguments);
    }
    let conversation = context.conversation(&arguments.turn)?;
    let sessions = conversation.sessions().clone();
    let session = arguments
        .session
        .map(|reference| sessions.get(sessions.resolve(&reference)?))
        .transpose()?;
    let is_dumb = context
        .environment
        .text("TERM")
        .is_some_and(|term| term == "dumb");
    let is_interactive = stdin().is_terminal()
        && stdout().is_terminal()
        && context.printer.format().is_human()
        && !is_dumb;
    let stopper = Stopper::watch(is_interactive)?;
    let mut chat = Chat {
        screen: Screen::new(context.printer),
        context,
        conversation,
        sessions,
        used: session.iter().map(|session| session.id).collect(),
        session,
        name: None,
        last: LastExchange::default(),
        undo: Vec::new(),
        undone: Vec::new(),
        pending_note: None,
        failed: None,
        folder: working_folder,
        stopper,
        is_interactive,
    };
    let mut source = if is_interactive {
        let redactor = chat.conversation.runtime().redactor();
        Source::Editor(Box::new(Editor::new(context, redactor)?))
    } else {
        Source::Pipe(PipeReader::new(context.settings.max_message_bytes()))
    };
    chat.greet()?;
    if let Some(task) = task {
        chat.screen.note(&format!("> {task}"));
        if let Err(error) = chat.ask(Some(&task)) {
            chat.fail(&error);
        }
    }
    let outcome = chat.read_messages(&mut source);
    chat.finish();
    outcome?;
    let code = chat.failed.filter(|_| !is_interactive).unwrap_or(0);
    Ok(Report::written("chat", code))
}

/// Source of messages.
enum Source {
    Editor(Box<Editor>),
    Pipe(PipeReader),
}

/// Next action of the chat loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    Continue,
    /// Read a message of several lines.
    Multi,
    Leave,
}

/// State before a turn that changed the sandbox.
#[derive(Clone)]
struct UndoPoint {
    checkpoint: CheckpointNumber,
    /// Numbers of the messages of the turn, and after `/undo` of those that it undid.
    messages: Range<u64>,
}

/// Last message and answer.
#[derive(Default)]
struct LastExchange {
    question: Option<String>,
    answer: Option<String>,
}

struct Chat<'c> {
    context: &'c Context,
    conversation: Conversation,
    sessions: SessionService,
    /// Created with the first message if no session was given.
    session: Option<Session>,
    /// The sessions of this chat; their unchanged sandboxes are closed when the chat ends.
    used: Vec<SessionId>,
    /// Name for a session that is not created yet.
    name: Option<SessionName>,
    last: LastExchange,
    /// The turns of this process that changed the sandbox, for `/undo`; the newest is last.
    undo: Vec<UndoPoint>,
    /// The turns that `/undo` undid, for `/redo`.
    undone: Vec<UndoPoint>,
    /// Note for the model, added to the next message: the user undid or restored its changes.
    pending_note: Option<&'static str>,
    /// Folder of the conversation, if it was started for a folder.
    folder: Option<PathBuf>,
    /// Exit code of the last failure.
    failed: Option<u8>,
    screen: Screen,
    stopper: Stopper,
    /// Whether the messages are typed at a terminal.
    is_interactive: bool,
}

impl Chat<'_> {
    fn read_messages(&mut self, source: &mut Source) -> Result<(), CommandError> {
        let mut reading = Reading::Usual;
        let mut is_leaving = false;
        while !self.stopper.is_leaving() {
            let read = match source {
                Source::Pipe(piped) => piped.next(reading),
                Source::Editor(editor) => {
                    editor.set_session_names(self.session_names());
                    editor.next(&self.prompt(reading), reading)
                }
            };
            reading = Reading::Usual;
            let text = match read {
                Ok(input::ReadOutcome::Text(text)) => text,
                Ok(input::ReadOutcome::Interrupted) if is_leaving => break,
                Ok(input::ReadOutcome::Interrupted) => {
                    is_leaving = true;
                    self.screen.note("Ctrl-C again, Ctrl-D or /exit leaves");
                    continue;
                }
                Ok(input::ReadOutcome::Kept(text, note)) => {
                    self.screen.note(note);
                    text
                }
                Ok(input::ReadOutcome::End) => break,
                Err(error) if error.code() == Code::InvalidUtf8 => {
                    self.fail(&error);
                    continue;
                }
                Err(error) => return Err(error),
            };
            is_leaving = false;
            match self.handle_input(&text) {
                Ok(Flow::Continue) => {}
                Ok(Flow::Multi) => {
                    self.screen
                        .note("write your message; end it with a line /end");
                    reading = Reading::Multi;
                }
                Ok(Flow::Leave) => break,
                Err(error) => self.fail(&error),
            }
        }
        Ok(())
    }

    fn handle_input(&mut self, text: &str) -> Result<Flow, CommandError> {
        if text.trim().is_empty() {
            return Ok(Flow::Continue);
        }
        if self.is_interactive
            && let Some(command) = command::shell_command(text)
        {
            return self.run_command(command);
        }
        match command::parse(text)? {
            command::ChatInput::Command(command) => self.run_command(command),
            command::ChatInput::Message(message) => {
                self.ask(Some(&message))?;
                Ok(Flow::Continue)
            }
        }
    }

    /// Runs a turn with a new message, or resumes the interrupted turn if `question` is `None`.
    fn ask(&mut self, question: Option<&str>) -> Result<(), CommandError> {
        let timing = Timing::start();
        let _notify = self.context.notify_when_done();
        let images = prompt_images(self.context, question)?;
        for image in &images {
            self.screen.note(&image_line(image));
        }
        let session = self.session_for(question)?;
        if !self.used.contains(&session.id) {
            self.used.push(session.id);
        }
        let before = self.checkpoints(&session);
        if question.is_some() {
            self.last = LastExchange {
                question: question.map(str::to_owned),
                answer: None,
            };
        }
        let running = self.stopper.begin();
        self.screen.begin();
        let terminal = Terminal::new(&running.cancel);
        let note = self.pending_note.take_if(|_| question.is_some());
        let prompt = question.map(|question| match note {
            Some(note) => format!("{question}\n\n{note}"),
            None => question.to_owned(),
        });
        let outcome = self.conversation.ask(&ConversationTurn {
            session: &session,
            prompt,
            images,
            observer: &self.screen,
            approver: &terminal,
            keeps_unfinished: false,
            cancel: &running.cancel,
            stop: &running.stop,
        });
        let outcome = outcome.map_err(CommandError::from);
        drop(running);
        self.screen.end();
        self.remember_undo(&session, before.as_deref());
        if question.is_some() {
            self.undone.clear();
        }
        self.session = Some(self.sessions.get(session.id)?);
        let answer = match outcome {
            Ok(answer) => answer,
            Err(error) if error.code() == Code::TurnStopped && self.is_interactive => {
                self.screen
                    .note("stopped; the session and finished tool calls are kept");
                self.note_pending();
                return Ok(());
            }
            Err(error) if self.stopper.is_leaving() => return Err(error.interrupted()),
            Err(error) => return Err(error),
        };
        let redactor = self.conversation.runtime().redactor();
        let elapsed = self.screen.elapsed();
        let mode = TurnMode::Stream;
        let result = TurnResult::new(&session, answer, mode, &redactor, elapsed);
        self.last.answer = Some(result.response.clone());
        if self.context.printer.format().is_human() {
            self.screen.summary(&result);
            // A resumed turn lists only the files that it changed since then.
            if question.is_none() && result.files_changed.is_empty() {
                self.note_pending();
            }
        } else {
            let shown = Report::new("chat").data(result).ok("Answered");
            self.print(&shown, timing);
        }
        Ok(())
    }

    /// Returns the session of the next turn. Creates a session only after the model was resolved.
    fn session_for(&mut self, question: Option<&str>) -> Result<Session, CommandError> {
        if let Some(session) = &self.session {
            return Ok(session.clone());
        }
        let Some(question) = question else {
            return Err(CommandError::new(
                Code::NothingToResume,
                "there is no session yet, so no turn was interrupted",
            )
            .with_hint("send a message, or switch to another session: `/session NAME`"));
        };
        let model = self.conversation.model_name(None)?;
        self.conversation.open(&model)?;
        let name = self.name.take().or_else(|| self.derive_name(question));
        let automation = self.context.settings.automation_profile();
        let session = self.sessions.create(name, None, automation)?;
        self.session = Some(session.clone());
        Ok(session)
    }

    /// Session name derived from the first message; none if it contains a secret.
    fn derive_name(&self, question: &str) -> Option<SessionName> {
        let line = question.lines().find(|line| !line.trim().is_empty())?;
        let redactor = self.conversation.runtime().redactor();
        if cleveragents_models::looks_secret(question) || redactor.text(question) != question {
            return None;
        }
        short(line, MAX_NAME_LENGTH).parse().ok()
    }

    /// Checkpoints of the session's sandbox; none if there is no sandbox yet.
    fn checkpoints(&self, session: &Session) -> Option<Vec<(SandboxId, CheckpointNumber)>> {
        let name = self.conversation.sandbox_name(session.id)?;
        let view = self.context.sandboxes().ok()?.find(&name).ok()?;
        Some(
            view.checkpoints
                .iter()
                .map(|checkpoint| (view.sandbox.id, checkpoint.number))
                .collect(),
        )
    }

    /// Stores the checkpoint for `/undo`: the first checkpoint that the turn created.
    fn remember_undo(
        &mut self,
        session: &Session,
        before: Option<&[(SandboxId, CheckpointNumber)]>,
    ) {
        let before = before.unwrap_or_default();
        let after = self.checkpoints(session).unwrap_or_default();
        // Checkpoint numbers restart when the sandbox is recreated, so the sandbox ids are compared.
        let is_recreated = before.first().map(|(id, _)| id) != after.first().map(|(id, _)| id);
        if is_recreated {
            self.undo.clear();
            self.undone.clear();
        }
        let created = after.into_iter().find(|made| !before.contains(made));
        if let Some((_, checkpoint)) = created {
            self.undo.push(UndoPoint {
                checkpoint,
                messages: session.message_count..session.message_count,
            });
        }
    }

    /// Prints the error; the chat continues.
    fn fail(&mut self, error: &CommandError) {
        self.failed = Some(error.exit_code());
        let (mut out, mut err) = (stdout().lock(), stderr().lock());
        let printer = self.context.printer;
        let _closed = write_separator(self.context, &mut out)
            .and_then(|()| printer.error("chat", error, Timing::start(), &mut out, &mut err));
    }

    fn print(&self, report: &Report, timing: Timing) {
        let (mut out, mut err) = (stdout().lock(), stderr().lock());
        let printer = self.context.printer;
        // Fails only if the reader closed the pipe.
        let _closed = write_separator(self.context, &mut out)
            .and_then(|()| printer.report(report, timing, &mut out, &mut err));
    }

    /// Shows the session and its last messages.
    fn greet(&mut self) -> Result<(), CommandError> {
        if !self.is_interactive {
            return Ok(());
        }
        self.screen
            .note("/help lists the commands; Ctrl-C stops an answer, Ctrl-D leaves");
        let options = self.conversation.options();
        if let Some(folder) = &self.folder {
            self.screen.note(&format!(
                "the model works in a copy of {}; /apply writes its changes to your files",
                folder.display()
            ));
        } else if options.sandbox.is_none() && options.project.is_none() {
            self.screen
                .note("without --project or --sandbox the model cannot read or change files");
        }
        if let Err(error) = self.conversation.model_name(self.session.as_ref()) {
            self.screen
                .note(&format!("{error}; choose one with /model PROVIDER/MODEL"));
        }
        self.show_recent(RECENT)
    }

    /// Shows the last messages of the session, and an interrupted turn.
    fn show_recent(&self, count: u64) -> Result<(), CommandError> {
        let Some(session) = &self.session else {
            return Ok(());
        };
        let interrupted = self.conversation.interrupted(session.id)?;
        let recent = self.sessions.view(session.id, count)?.recent;
        match &interrupted {
            Some(_) if recent.is_empty() => {
                let name = session.name.as_ref().map(|name| format!(" {name}"));
                let name = name.unwrap_or_default();
                self.screen.note(&format!(
                    "session{name} · {} · interrupted before the first answer",
                    session.id
                ));
            }
            _ => self.screen.messages(session, &recent),
        }
        if let Some(turn) = interrupted {
            let note = format!(
                "the last turn ({}) was interrupted: /resume continues it",
                turn.model
            );
            self.screen.note(&note);
        }
        self.note_pending();
        Ok(())
    }

    /// Notes the changes of the session that are not applied.
    fn note_pending(&self) {
        let Some(session) = &self.session else {
            return;
        };
        if self.conversation.options().sandbox.is_some() {
            return;
        }
        let pending = self
            .context
            .sandboxes()
            .and_then(|sandboxes| Ok(sandboxes.pending_changes(session.id)?));
        match pending {
            Ok(Some(changes)) => self.screen.note(&format!(
                "{} not applied: /diff shows the changes, /apply writes them to your files",
                counted(changes.files.len(), "changed file")
            )),
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "changes of the session not found"),
        }
    }

    /// Closes the unchanged sandboxes of the chat, and prints how to continue.
    fn finish(&self) {
        let is_own = self.conversation.options().sandbox.is_none();
        let mut pending = None;
        for session in self.used.iter().filter(|_| is_own) {
            let changes = folder::close_unchanged(self.context, *session);
            if self
                .session
                .as_ref()
                .is_some_and(|current| current.id == *session)
            {
                pending = changes;
            }
        }
        let Some(session) = &self.session else {
            return;
        };
        let next = match &self.folder {
            Some(_) => "agents --continue".to_owned(),
            None => format!("agents chat {}", session.id),
        };
        if let Some(changes) = pending {
            let count = counted(changes.files.len(), "changed file");
            self.screen
                .note(&format!("{count} not applied; continue with `{next}`"));
        } else if self.is_interactive {
            let here = self.folder.as_ref().map_or("", |_| " here");
            self.screen.note(&format!("continue{here} with `{next}`"));
        }
    }

    fn prompt(&self, reading: Reading) -> String {
        if reading == Reading::Multi {
            return "… ".to_owned();
        }
        let options = self.conversation.options();
        let folder = self.folder.as_deref().and_then(|folder| folder.file_name());
        let folder = folder.map(|name| name.to_string_lossy());
        let location = folder.as_deref();
        let location = location.or(options.sandbox.as_deref());
        let location = location.or(options.project.as_deref());
        let model = self.conversation.model_name(self.session.as_ref());
        let model = model.as_ref().map_or("no model", ModelName::model);
        let location = location.map(|location| format!("{} · ", short(location, 24)));
        format!("{}{}> ", location.unwrap_or_default(), short(model, 28))
    }

    fn session_names(&self) -> Vec<String> {
        let filter = cleveragents_store::sessions::SessionFilter {
            limit: Some(50),
            ..Default::default()
        };
        let page = self.sessions.list(&filter).map(|(page, _)| page.sessions);
        let names = page
            .unwrap_or_default()
            .into_iter()
            .filter_map(|session| session.name);
        names.map(SessionName::into_string).collect()
    }
}

/// Writes the separator between two documents if the format needs a separator.
fn write_separator(context: &Context, out: &mut impl std::io::Write) -> std::io::Result<()> {
    match context.printer.format() {
        Format::Yaml => writeln!(out, "---"),
        _ => Ok(()),
    }
}

/// Asks the user for confirmation.
fn is_confirmed(stopper: &Stopper, question: &str) -> bool {
    let running = stopper.begin();
    let answer = terminal::ask(question, " [y/N]: ", &running.cancel);
    answer.is_some_and(|answer| matches!(answer.to_lowercase().as_str(), "y" | "yes"))
}
