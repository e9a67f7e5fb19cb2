//! `chat`: a conversation at a terminal, or one that a program feeds line by line.
//!
//! Every question is a turn taken by [`Conversation`], as in `session tell`; what begins with `/` is said
//! to the chat itself ([`command`]) and mostly carried out by the command that does it elsewhere. Nothing
//! that goes wrong in a turn ends the chat.

mod act;
mod away;
mod command;
mod editor;
mod input;
mod screen;
mod signals;

use std::io::{IsTerminal as _, stderr, stdin, stdout};

use cleveragents_application::{
    Conversation, ConversationAnswer, ConversationTurn, SessionService,
};
use cleveragents_domain::{CheckpointNumber, Code, SandboxId, Session, SessionName};
use cleveragents_models::ModelName;

use self::editor::Editor;
use self::input::{Piped, Reading};
use self::screen::Screen;
use self::signals::Stopper;
use crate::arguments::Chat as Arguments;
use crate::commands::terminal::{self, Terminal};
use crate::commands::turn_view::{TurnView, short, turn_json};
use crate::context::Context;
use crate::output::{CommandError, Format, Report, Timing};

pub(crate) use self::away::{Away, run as run_away};

/// How many messages of a session are shown when it is gone on with.
const RECENT: u64 = 6;

/// The longest name that a question gives its session.
const LONGEST_NAME: usize = 60;

pub(crate) fn run(context: &Context, arguments: Arguments) -> Result<Report, CommandError> {
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
    let is_talk = stdin().is_terminal()
        && stdout().is_terminal()
        && context.printer.format().is_human()
        && !is_dumb;
    let stopper = Stopper::watch(is_talk)?;
    let mut chat = Chat {
        screen: Screen::new(context.printer),
        context,
        conversation,
        sessions,
        session,
        name: None,
        last: Last::default(),
        undo: None,
        failed: None,
        stopper,
        is_talk,
    };
    let mut source = if is_talk {
        let redactor = chat.conversation.runtime().redactor();
        Source::Editor(Box::new(Editor::new(context, redactor)?))
    } else {
        Source::Piped(Piped::new(context.settings.max_message_bytes()))
    };
    chat.greet()?;
    chat.talk(&mut source)?;
    chat.part();
    let code = chat.failed.filter(|_| !is_talk).unwrap_or(0);
    Ok(Report::written("chat", code))
}

/// Where questions come from.
enum Source {
    Editor(Box<Editor>),
    Piped(Piped),
}

/// What the chat does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    GoOn,
    /// The next question has several lines.
    Multi,
    Leave,
}

/// What was said last.
#[derive(Default)]
struct Last {
    question: Option<String>,
    answer: Option<String>,
}

/// A chat.
struct Chat<'c> {
    context: &'c Context,
    conversation: Conversation,
    sessions: SessionService,
    /// Made with the first question when none was named.
    session: Option<Session>,
    /// What the session is to be called that is not made yet.
    name: Option<SessionName>,
    last: Last,
    /// The sandbox and its state before the last turn that changed it.
    undo: Option<(String, CheckpointNumber)>,
    /// The exit code of the last failure.
    failed: Option<u8>,
    screen: Screen,
    stopper: Stopper,
    /// Whether a person talks, and not a program.
    is_talk: bool,
}

impl Chat<'_> {
    fn talk(&mut self, source: &mut Source) -> Result<(), CommandError> {
        let mut reading = Reading::Usual;
        let mut is_leaving = false;
        while !self.stopper.is_leaving() {
            let read = match source {
                Source::Piped(piped) => piped.next(reading),
                Source::Editor(editor) => {
                    editor.know_sessions(self.session_names());
                    editor.next(&self.prompt(reading), reading)
                }
            };
            reading = Reading::Usual;
            let text = match read {
                Ok(input::Said::Text(text)) => text,
                Ok(input::Said::Interrupted) if is_leaving => break,
                Ok(input::Said::Interrupted) => {
                    is_leaving = true;
                    self.screen.note("Ctrl-C again, Ctrl-D or /exit leaves");
                    continue;
                }
                Ok(input::Said::Kept(text, note)) => {
                    self.screen.note(note);
                    text
                }
                Ok(input::Said::End) => break,
                Err(error) if error.code() == Code::InvalidUtf8 => {
                    self.fail(&error);
                    continue;
                }
                Err(error) => return Err(error),
            };
            is_leaving = false;
            match self.heed(&text) {
                Ok(Flow::GoOn) => {}
                Ok(Flow::Multi) => {
                    self.screen
                        .note("write your question; a line that holds only /end ends it");
                    reading = Reading::Multi;
                }
                Ok(Flow::Leave) => break,
                Err(error) => self.fail(&error),
            }
        }
        Ok(())
    }

    fn heed(&mut self, text: &str) -> Result<Flow, CommandError> {
        if text.trim().is_empty() {
            return Ok(Flow::GoOn);
        }
        match command::parse(text)? {
            command::Heard::Command(command) => self.act(command),
            command::Heard::Question(question) => {
                self.ask(Some(&question))?;
                Ok(Flow::GoOn)
            }
        }
    }

    /// Takes a turn: with a question, or going on with the one that was interrupted.
    fn ask(&mut self, question: Option<&str>) -> Result<(), CommandError> {
        let timing = Timing::start();
        let session = self.session_for(question)?;
        let before = self.checkpoints(&session);
        if question.is_some() {
            self.last = Last {
                question: question.map(str::to_owned),
                answer: None,
            };
        }
        let running = self.stopper.begin();
        self.screen.begin();
        let terminal = Terminal::new(self.context, &running.cancel);
        let outcome = self.conversation.ask(&ConversationTurn {
            session: &session,
            prompt: question.map(str::to_owned),
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
        self.session = Some(self.sessions.get(session.id)?);
        let ConversationAnswer {
            report,
            prompt,
            sandbox,
        } = match outcome {
            Ok(answered) => answered,
            Err(error) if error.code() == Code::TurnStopped && self.is_talk => {
                self.screen
                    .note("stopped; the session and what was done until then are kept");
                return Ok(());
            }
            Err(error) if self.stopper.is_leaving() => return Err(error.interrupted()),
            Err(error) => return Err(error),
        };
        self.last.answer = Some(report.answer.clone());
        let told = TurnView {
            session: &session,
            prompt: prompt.as_deref(),
            report: &report,
            sandbox: sandbox.as_deref(),
            mode: "stream",
            elapsed: self.screen.elapsed(),
        };
        if self.context.printer.format().is_human() {
            self.screen.summary(&told);
        } else {
            let shown = Report::new("chat")
                .data(turn_json(&told))
                .ok("ConversationAnswer");
            self.print(&shown, timing);
        }
        Ok(())
    }

    /// The session to ask in. One that is new is made only when somebody can answer in it.
    fn session_for(&mut self, question: Option<&str>) -> Result<Session, CommandError> {
        if let Some(session) = &self.session {
            return Ok(session.clone());
        }
        let Some(question) = question else {
            return Err(CommandError::new(
                Code::NothingToResume,
                "there is no session yet, so nothing was interrupted",
            )
            .with_hint("ask something, or go on with another one: `/session NAME`"));
        };
        let model = self.conversation.model_name(None)?;
        self.conversation.open(&model)?;
        let name = self.name.take().or_else(|| self.name_of(question));
        let automation = self.context.settings.automation_profile();
        let session = self.sessions.create(name, None, automation)?;
        self.session = Some(session.clone());
        Ok(session)
    }

    /// What a session is called after its first question; nothing when that would tell a secret.
    fn name_of(&self, question: &str) -> Option<SessionName> {
        let line = question.lines().find(|line| !line.trim().is_empty())?;
        let redactor = self.conversation.runtime().redactor();
        if cleveragents_models::looks_secret(question) || redactor.text(question) != question {
            return None;
        }
        short(line, LONGEST_NAME).parse().ok()
    }

    /// The checkpoints of the session's sandbox; nothing when there is no sandbox yet.
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

    /// Keeps the state before the turn: the first checkpoint that it made.
    fn remember_undo(
        &mut self,
        session: &Session,
        before: Option<&[(SandboxId, CheckpointNumber)]>,
    ) {
        let before = before.unwrap_or_default();
        let after = self.checkpoints(session).unwrap_or_default();
        // Numbers start again in a new sandbox, so the sandbox belongs to each of them.
        let first = after.into_iter().find(|made| !before.contains(made));
        if let (Some(name), Some((_, first))) = (self.conversation.sandbox_name(session.id), first)
        {
            self.undo = Some((name, first));
        }
    }

    /// Shows what went wrong; the chat goes on.
    fn fail(&mut self, error: &CommandError) {
        self.failed = Some(error.exit_code());
        let (mut out, mut err) = (stdout().lock(), stderr().lock());
        let printer = self.context.printer;
        let _closed = apart(self.context, &mut out)
            .and_then(|()| printer.error("chat", error, Timing::start(), &mut out, &mut err));
    }

    fn print(&self, report: &Report, timing: Timing) {
        let (mut out, mut err) = (stdout().lock(), stderr().lock());
        let printer = self.context.printer;
        // Whoever closed the pipe does not want to see it.
        let _closed = apart(self.context, &mut out)
            .and_then(|()| printer.report(report, timing, &mut out, &mut err));
    }

    /// Says where the person is, and what was said last.
    fn greet(&mut self) -> Result<(), CommandError> {
        if !self.is_talk {
            return Ok(());
        }
        self.screen
            .note("/help tells what else can be said; Ctrl-C stops an answer, Ctrl-D leaves");
        let options = self.conversation.options();
        if options.sandbox.is_none() && options.project.is_none() {
            self.screen
                .note("without --project or --sandbox the model can talk, but not act");
        }
        if let Err(error) = self.conversation.model_name(self.session.as_ref()) {
            self.screen
                .note(&format!("{error}; /model PROVIDER/MODEL names one"));
        }
        self.look_back(RECENT)
    }

    /// Shows the last messages of the session, and what waits to be gone on with.
    fn look_back(&self, count: u64) -> Result<(), CommandError> {
        let Some(session) = &self.session else {
            return Ok(());
        };
        self.screen
            .messages(session, &self.sessions.view(session.id, count)?.recent);
        if let Some(turn) = self.conversation.interrupted(session.id)? {
            let note = format!(
                "the last turn ({}) was interrupted: /resume goes on with it",
                turn.model
            );
            self.screen.note(&note);
        }
        Ok(())
    }

    fn part(&self) {
        if let Some(session) = self.session.as_ref().filter(|_| self.is_talk) {
            let note = format!("kept; go on with `agents chat {}`", session.id);
            self.screen.note(&note);
        }
    }

    fn prompt(&self, reading: Reading) -> String {
        if reading == Reading::Multi {
            return "… ".to_owned();
        }
        let options = self.conversation.options();
        let place = options.sandbox.as_deref().or(options.project.as_deref());
        let model = self.conversation.model_name(self.session.as_ref());
        let model = model.as_ref().map_or("no model", ModelName::model);
        let place = place.map(|place| format!("{} · ", short(place, 24)));
        format!("{}{}> ", place.unwrap_or_default(), short(model, 28))
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

/// Sets one document apart from the next where they do not by themselves.
fn apart(context: &Context, out: &mut impl std::io::Write) -> std::io::Result<()> {
    match context.printer.format() {
        Format::Yaml => writeln!(out, "---"),
        _ => Ok(()),
    }
}

/// Asks the person at the terminal whether to go on.
fn agreed(stopper: &Stopper, question: &str) -> bool {
    let running = stopper.begin();
    let answer = terminal::ask(question, " [y/N]: ", &running.cancel);
    answer.is_some_and(|answer| matches!(answer.to_lowercase().as_str(), "y" | "yes"))
}
