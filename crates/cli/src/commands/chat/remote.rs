//! A chat whose turns and most commands run on a server. If the user stops waiting, the server
//! finishes the answer.

use std::io::{IsTerminal as _, stderr, stdin, stdout};
use std::sync::Arc;

use cleveragents_application::model_operations::ListModels;
use cleveragents_application::session_operations::{
    CompactSession, CreateSession, ListSessions, SessionDetails, ShowSession, TellSession, TurnMode,
};
use cleveragents_application::tool_operations::ListTools;
use cleveragents_application::{FrontEnd, check_sendable};
use cleveragents_domain::Code;

use super::command::{self, ChatCommand, ChatInput};
use super::editor::Editor;
use super::input::{PipeReader, ReadOutcome, Reading};
use super::run_command::{help, no_message, saved};
use super::screen::Screen;
use super::signals::Stopper;
use super::{Flow, MAX_NAME_LENGTH, RECENT, Source};
use crate::arguments::Chat as Arguments;
use crate::commands::images::prompt_images;
use crate::commands::model::list_report as list_models;
use crate::commands::session::{compact_report, list_report, show_report};
use crate::commands::tool::list_report as list_tools;
use crate::commands::turn_view::short;
use crate::context::Context;
use crate::output::{CommandError, Report, Timing, write_err};

/// Runs a chat whose turns run on the configured server.
pub(super) fn run(context: &Context, arguments: Arguments) -> Result<Report, CommandError> {
    let mut options = arguments.turn.request();
    // Options that work only on this machine are refused before anything is stored.
    check_sendable(&mut options)?;
    let is_dumb = context.environment.text("TERM").as_deref() == Some("dumb");
    let is_interactive = stdin().is_terminal()
        && stdout().is_terminal()
        && context.printer.format().is_human()
        && !is_dumb;
    let mut source = if is_interactive {
        let redactor = context.models(None)?.redactor();
        Source::Editor(Box::new(Editor::new(context, redactor)?))
    } else {
        Source::Pipe(PipeReader::new(context.settings.max_message_bytes()))
    };
    let mut chat = RemoteChat {
        context,
        session: None,
        name: None,
        options,
        screen: Arc::new(Screen::new(context.printer)),
        stopper: Stopper::watch(is_interactive)?,
        question: None,
        answer: None,
        failed: None,
        is_interactive,
    };
    chat.note("/help lists the commands; Ctrl-D leaves");
    if let Some(session) = arguments.session {
        chat.switch(&session)?;
    }
    chat.read_messages(&mut source)?;
    if let Some(session) = &chat.session {
        chat.note(&format!("continue with `agents chat {session}`"));
    }
    let code = chat.failed.filter(|_| !is_interactive).unwrap_or(0);
    Ok(Report::written("chat", code))
}

struct RemoteChat<'c> {
    context: &'c Context,
    /// Session id; the session is created with the first message if none was given.
    session: Option<String>,
    /// Name for a session that is not created yet.
    name: Option<String>,
    /// Options of every turn.
    options: TellSession,
    screen: Arc<Screen>,
    stopper: Stopper,
    /// Last message and answer.
    question: Option<String>,
    answer: Option<String>,
    failed: Option<u8>,
    is_interactive: bool,
}

impl RemoteChat<'_> {
    fn read_messages(&mut self, source: &mut Source) -> Result<(), CommandError> {
        let mut reading = Reading::Usual;
        let mut is_leaving = false;
        while !self.stopper.is_leaving() {
            let prompt = if reading == Reading::Multi {
                "… "
            } else {
                "> "
            };
            let read = match source {
                Source::Pipe(piped) => piped.next(reading),
                Source::Editor(editor) => editor.next(prompt, reading),
            };
            reading = Reading::Usual;
            let text = match read {
                Ok(ReadOutcome::Text(text)) => text,
                Ok(ReadOutcome::Kept(text, note)) => {
                    self.note(note);
                    text
                }
                Ok(ReadOutcome::Interrupted) if !is_leaving => {
                    is_leaving = true;
                    self.note("Ctrl-C again, Ctrl-D or /exit leaves");
                    continue;
                }
                Ok(ReadOutcome::Interrupted | ReadOutcome::End) => return Ok(()),
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
                    self.note("write your message; end it with a line /end");
                    reading = Reading::Multi;
                }
                Ok(Flow::Leave) => return Ok(()),
                Err(error) => self.fail(&error),
            }
        }
        Ok(())
    }

    fn handle_input(&mut self, text: &str) -> Result<Flow, CommandError> {
        if text.trim().is_empty() {
            return Ok(Flow::Continue);
        }
        match command::parse(text)? {
            ChatInput::Command(command) => self.run_command(command),
            ChatInput::Message(message) => {
                self.ask(Some(message))?;
                Ok(Flow::Continue)
            }
        }
    }

    fn run_command(&mut self, command: ChatCommand) -> Result<Flow, CommandError> {
        let ok = |text: &str| Report::new("chat").ok(text);
        match command {
            ChatCommand::Exit => return Ok(Flow::Leave),
            ChatCommand::Multi => return Ok(Flow::Multi),
            ChatCommand::Help => self.print(&help()),
            ChatCommand::New(name) => {
                (self.session, self.name) = (None, name);
                (self.question, self.answer) = (None, None);
                self.print(&ok("The next message starts a new session"));
            }
            ChatCommand::Session(Some(name)) if name == "list" => {
                let request = ListSessions {
                    limit: Some(20),
                    ..ListSessions::default()
                };
                let report = list_report(self.context, request)?;
                self.print(&report);
            }
            ChatCommand::Session(Some(name)) => self.switch(&name)?,
            ChatCommand::Session(None) | ChatCommand::Cost => {
                let details = self.show(self.require_session()?, 0)?;
                self.print(&show_report(details));
            }
            ChatCommand::History(count) => {
                let details = self.show(self.require_session()?, count)?;
                self.print(&show_report(details));
            }
            ChatCommand::Model(Some(name)) => {
                self.print(&ok(&format!("{name} answers from now on")));
                self.options.actor = Some(name);
            }
            ChatCommand::Model(None) => {
                let model = self.options.actor.as_deref();
                let answerer = model.unwrap_or("the actor of the session or the server's default");
                self.print(&ok(&format!("{answerer} answers")));
            }
            ChatCommand::Models => {
                let request = ListModels {
                    provider: None,
                    available: true,
                };
                self.print(&list_models(self.context, request)?);
            }
            ChatCommand::Tools => self.print(&list_tools(self.context, ListTools::default())?),
            ChatCommand::Retry => {
                let question = self.question.clone().ok_or_else(no_message)?;
                self.ask(Some(question))?;
            }
            ChatCommand::Resume => self.ask(None)?,
            ChatCommand::Save(file) => {
                self.print(&saved(self.context, &file, self.answer.as_deref())?);
            }
            ChatCommand::Compact(focus) => self.compact(focus)?,
            ChatCommand::Prompt(prompt) => self.ask(Some(prompt.to_owned()))?,
            ChatCommand::Diff
            | ChatCommand::Undo
            | ChatCommand::Redo
            | ChatCommand::Shell(_)
            | ChatCommand::Apply { .. } => {
                return Err(
                    CommandError::new(Code::LocalOnly, "the sandbox is on the server")
                        .with_hint("run `agents sandbox` there, or use plans"),
                );
            }
            ChatCommand::Status
            | ChatCommand::Plan
            | ChatCommand::Mcp
            | ChatCommand::Permissions
            | ChatCommand::Export(_) => {
                return Err(CommandError::new(
                    Code::LocalOnly,
                    "this chat command is only for conversations on this machine",
                )
                .with_hint("leave the chat and run the command of the same name"));
            }
        }
        Ok(Flow::Continue)
    }

    /// Runs a turn with a new message, or resumes the interrupted turn if `question` is `None`.
    fn ask(&mut self, question: Option<String>) -> Result<(), CommandError> {
        let _notify = self.context.notify_when_done();
        let mut options = self.options.clone();
        options.local.images = prompt_images(self.context, question.as_deref())?;
        check_sendable(&mut options)?;
        let request = TellSession {
            session: self.session_for(question.as_deref())?,
            resume: question.is_none(),
            prompt: question.clone(),
            ..options
        };
        if question.is_some() {
            (self.question, self.answer) = (question, None);
        }
        let running = self.stopper.begin();
        self.screen.begin();
        let front_end = FrontEnd {
            observer: Arc::clone(&self.screen) as _,
            ..FrontEnd::default()
        };
        let result = self
            .context
            .call_observed(request, &front_end, &running.cancel);
        let is_stopped = running.cancel.is_cancelled();
        drop(running);
        self.screen.end();
        let mut result = match result {
            Ok(result) => result,
            Err(_) if is_stopped && self.is_interactive => {
                self.note("the server finishes the answer; /history shows it");
                return Ok(());
            }
            Err(error) if is_stopped => return Err(error.interrupted()),
            Err(error) => return Err(error),
        };
        self.answer = Some(result.response.clone());
        if self.context.printer.format().is_human() {
            self.screen.summary(&result);
        } else {
            result.session.mode = TurnMode::Stream;
            self.print(&Report::new("chat").data(result).ok("Answered"));
        }
        Ok(())
    }

    /// Lets the server summarize the conversation.
    fn compact(&self, focus: Option<String>) -> Result<(), CommandError> {
        let request = CompactSession {
            session: self.require_session()?,
            focus,
            actor: self.options.actor.clone(),
            max_cost: self.options.max_cost.clone(),
        };
        let running = self.stopper.begin();
        let front_end = FrontEnd {
            observer: Arc::clone(&self.screen) as _,
            ..FrontEnd::default()
        };
        self.screen.begin();
        let compacted = self
            .context
            .call_observed(request, &front_end, &running.cancel);
        drop(running);
        self.screen.end();
        self.print(&compact_report("chat compact", compacted?));
        Ok(())
    }

    /// Returns the session of the next turn. Creates a session for the first message.
    fn session_for(&mut self, question: Option<&str>) -> Result<String, CommandError> {
        let Some(question) = question.filter(|_| self.session.is_none()) else {
            return self.require_session();
        };
        let line = question.lines().find(|line| !line.trim().is_empty());
        let redactor = self.context.models(None)?.redactor();
        // A message with a secret does not become the session name.
        let has_no_secret =
            !cleveragents_models::looks_secret(question) && redactor.text(question) == question;
        let derived_name = line
            .filter(|_| has_no_secret)
            .map(|line| short(line, MAX_NAME_LENGTH));
        let name = self.name.take().or(derived_name);
        let has_name = name.is_some();
        let created = self.context.call(CreateSession {
            name,
            ..CreateSession::default()
        });
        let created = match created {
            // The server rejected the name: create the session without one.
            Err(error) if has_name && error.code() != Code::Forbidden => {
                self.context.call(CreateSession::default())?
            }
            created => created?,
        };
        self.session = Some(created.session.id.to_string());
        self.require_session()
    }

    fn require_session(&self) -> Result<String, CommandError> {
        self.session.clone().ok_or_else(|| {
            CommandError::new(Code::NothingToResume, "there is no session yet")
                .with_hint("send a message, or switch to another session: `/session NAME`")
        })
    }

    /// Switches to another session and shows its last messages.
    fn switch(&mut self, reference: &str) -> Result<(), CommandError> {
        let details = self.show(reference.to_owned(), RECENT)?;
        self.session = Some(details.session_summary.id.to_string());
        (self.name, self.question, self.answer) = (None, None, None);
        if self.is_interactive || !self.context.printer.format().is_human() {
            self.print(&show_report(details));
        }
        Ok(())
    }

    fn show(&self, reference: String, recent: u64) -> Result<SessionDetails, CommandError> {
        self.context.call(ShowSession { reference, recent })
    }

    fn note(&self, text: &str) {
        if self.is_interactive {
            write_err(&format!("{text}\n"));
        }
    }

    fn print(&self, report: &Report) {
        let (mut out, mut err) = (stdout().lock(), stderr().lock());
        // Fails only if the reader closed the pipe.
        let _closed = super::write_separator(self.context, &mut out).and_then(|()| {
            let printer = self.context.printer;
            printer.report(report, Timing::start(), &mut out, &mut err)
        });
    }

    /// Prints the error; the chat continues.
    fn fail(&mut self, error: &CommandError) {
        self.failed = Some(error.exit_code());
        let (mut out, mut err) = (stdout().lock(), stderr().lock());
        let _closed = super::write_separator(self.context, &mut out).and_then(|()| {
            let printer = self.context.printer;
            printer.error("chat", error, Timing::start(), &mut out, &mut err)
        });
    }
}
