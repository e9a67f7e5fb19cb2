//! A chat with a server: each question is a turn that is taken there, and what begins with `/` is done there too, as
//! far as a server does it. An answer that the person does not wait for is finished there.

use std::io::{IsTerminal as _, stderr, stdin, stdout};

use cleveragents_application::model_operations::ListModels;
use cleveragents_application::session_operations::{
    CreateSession, ListSessions, SessionDetails, ShowSession,
};
use cleveragents_application::tool_operations::ListTools;
use cleveragents_domain::Code;
use serde_json::{Map, Value};

use super::act::{help, nothing_said, saved};
use super::command::{self, Command, Heard};
use super::editor::Editor;
use super::input::{Piped, Reading, Said};
use super::{Flow, LONGEST_NAME, RECENT, Source};
use crate::commands::model::list_report as list_models;
use crate::commands::session::{list_report, show_report};
use crate::commands::tool::list_report as list_tools;
use crate::commands::turn_view::short;
use crate::context::Context;
use crate::output::{CommandError, Report, Timing};

/// The server, as a chat sees it.
pub(crate) trait Away {
    /// Has an operation carried out, and shows what it tells meanwhile.
    fn run(&self, operation: &str, parameters: &Map<String, Value>)
    -> Result<Report, CommandError>;
}

/// Talks with a server. `options` are the parameters that every turn is given.
pub(crate) fn run(
    context: &Context,
    server: &dyn Away,
    session: Option<String>,
    options: Map<String, Value>,
) -> Result<Report, CommandError> {
    let is_dumb = context.environment.text("TERM").as_deref() == Some("dumb");
    let is_talk = stdin().is_terminal()
        && stdout().is_terminal()
        && context.printer.format().is_human()
        && !is_dumb;
    let mut source = if is_talk {
        let redactor = context.models(None)?.redactor();
        Source::Editor(Box::new(Editor::new(context, redactor)?))
    } else {
        Source::Piped(Piped::new(context.settings.max_message_bytes()))
    };
    let mut chat = Chat {
        context,
        server,
        session: None,
        name: None,
        options,
        question: None,
        answer: None,
        failed: None,
        is_talk,
    };
    chat.note("/help tells what else can be said; Ctrl-D leaves");
    if let Some(session) = session {
        chat.switch(&session)?;
    }
    chat.talk(&mut source)?;
    if let Some(session) = &chat.session {
        chat.note(&format!("kept; go on with `agents chat {session}`"));
    }
    let code = chat.failed.filter(|_| !is_talk).unwrap_or(0);
    Ok(Report::written("chat", code))
}

struct Chat<'c> {
    context: &'c Context,
    server: &'c dyn Away,
    /// The id of the session; made with the first question when none was named.
    session: Option<String>,
    /// What the session is to be called that is not made yet.
    name: Option<String>,
    options: Map<String, Value>,
    /// What was asked and answered last.
    question: Option<String>,
    answer: Option<String>,
    failed: Option<u8>,
    is_talk: bool,
}

impl Chat<'_> {
    fn talk(&mut self, source: &mut Source) -> Result<(), CommandError> {
        let mut reading = Reading::Usual;
        let mut is_leaving = false;
        loop {
            let prompt = if reading == Reading::Multi {
                "… "
            } else {
                "> "
            };
            let read = match source {
                Source::Piped(piped) => piped.next(reading),
                Source::Editor(editor) => editor.next(prompt, reading),
            };
            reading = Reading::Usual;
            let text = match read {
                Ok(Said::Text(text)) => text,
                Ok(Said::Kept(text, note)) => {
                    self.note(note);
                    text
                }
                Ok(Said::Interrupted) if !is_leaving => {
                    is_leaving = true;
                    self.note("Ctrl-C again, Ctrl-D or /exit leaves");
                    continue;
                }
                Ok(Said::Interrupted | Said::End) => return Ok(()),
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
                    self.note("write your question; a line that holds only /end ends it");
                    reading = Reading::Multi;
                }
                Ok(Flow::Leave) => return Ok(()),
                Err(error) => self.fail(&error),
            }
        }
    }

    fn heed(&mut self, text: &str) -> Result<Flow, CommandError> {
        if text.trim().is_empty() {
            return Ok(Flow::GoOn);
        }
        match command::parse(text)? {
            Heard::Command(command) => self.act(command),
            Heard::Question(question) => {
                self.ask(Some(question))?;
                Ok(Flow::GoOn)
            }
        }
    }

    fn act(&mut self, command: Command) -> Result<Flow, CommandError> {
        let ok = |text: &str| Report::new("chat").ok(text);
        match command {
            Command::Exit => return Ok(Flow::Leave),
            Command::Multi => return Ok(Flow::Multi),
            Command::Help => self.print(&help()),
            Command::New(name) => {
                (self.session, self.name) = (None, name);
                (self.question, self.answer) = (None, None);
                self.print(&ok("The next question begins a new session"));
            }
            Command::Session(Some(name)) if name == "list" => {
                let request = ListSessions {
                    limit: Some(20),
                    ..ListSessions::default()
                };
                let report = list_report(self.context, request)?;
                self.print(&report);
            }
            Command::Session(Some(name)) => self.switch(&name)?,
            Command::Session(None) | Command::Cost => {
                let details = self.show(self.begun()?, 0)?;
                self.print(&show_report(details));
            }
            Command::History(count) => {
                let details = self.show(self.begun()?, count)?;
                self.print(&show_report(details));
            }
            Command::Model(Some(name)) => {
                self.print(&ok(&format!("From now on {name} answers")));
                self.options.insert("actor".to_owned(), name.into());
            }
            Command::Model(None) => {
                let named = self.options.get("actor").and_then(Value::as_str);
                let answers = named.unwrap_or("the actor of the session or the server's default");
                self.print(&ok(&format!("{answers} answers")));
            }
            Command::Models => {
                let request = ListModels {
                    provider: None,
                    available: true,
                };
                self.print(&list_models(self.context, request)?);
            }
            Command::Tools => self.print(&list_tools(self.context, ListTools::default())?),
            Command::Retry => {
                let question = self.question.clone().ok_or_else(nothing_said)?;
                self.ask(Some(question))?;
            }
            Command::Resume => self.ask(None)?,
            Command::Save(file) => {
                self.print(&saved(self.context, &file, self.answer.as_deref())?);
            }
            Command::Diff | Command::Undo | Command::Apply { .. } => {
                return Err(CommandError::new(
                    Code::LocalOnly,
                    "the sandbox is at the machine of the server",
                )
                .with_hint("look at it there with `agents sandbox`, or work in plans"));
            }
        }
        Ok(Flow::GoOn)
    }

    /// Takes a turn: with a question, or going on with the one that was interrupted.
    fn ask(&mut self, question: Option<String>) -> Result<(), CommandError> {
        let session = self.session_for(question.as_deref())?;
        let mut parameters = self.options.clone();
        parameters.insert("session".to_owned(), session.into());
        match &question {
            Some(question) => parameters.insert("prompt".to_owned(), question.as_str().into()),
            None => parameters.insert("resume".to_owned(), true.into()),
        };
        if question.is_some() {
            (self.question, self.answer) = (question, None);
        }
        let report = self.server.run("session/tell", &parameters)?;
        if let Some(error) = &report.failure {
            return Err(error.clone());
        }
        let data = report.data.to_tree();
        self.answer = data["response"].as_str().map(str::to_owned);
        if !self.context.printer.format().is_human() {
            self.print(&Report::new("chat").data(data).ok("Answered"));
        }
        Ok(())
    }

    /// The session to ask in; one that is new is made with its first question.
    fn session_for(&mut self, question: Option<&str>) -> Result<String, CommandError> {
        let Some(question) = question.filter(|_| self.session.is_none()) else {
            return self.begun();
        };
        let line = question.lines().find(|line| !line.trim().is_empty());
        let redactor = self.context.models(None)?.redactor();
        // What a question tells that is secret is not in the name of its session.
        let is_open =
            !cleveragents_models::looks_secret(question) && redactor.text(question) == question;
        let named = line
            .filter(|_| is_open)
            .map(|line| short(line, LONGEST_NAME));
        let name = self.name.take().or(named);
        let has_name = name.is_some();
        let created = self.context.call(CreateSession {
            name,
            ..CreateSession::default()
        });
        let created = match created {
            // The line cannot be the name of a session.
            Err(error) if has_name && error.code() != Code::Forbidden => {
                self.context.call(CreateSession::default())?
            }
            created => created?,
        };
        self.session = Some(created.session.id.to_string());
        self.begun()
    }

    fn begun(&self) -> Result<String, CommandError> {
        self.session.clone().ok_or_else(|| {
            CommandError::new(Code::NothingToResume, "there is no session yet")
                .with_hint("ask something, or go on with another one: `/session NAME`")
        })
    }

    /// Goes on with another session, and shows what was said in it last.
    fn switch(&mut self, reference: &str) -> Result<(), CommandError> {
        let details = self.show(reference.to_owned(), RECENT)?;
        self.session = Some(details.session_summary.id.to_string());
        (self.name, self.question, self.answer) = (None, None, None);
        if self.is_talk || !self.context.printer.format().is_human() {
            self.print(&show_report(details));
        }
        Ok(())
    }

    fn show(&self, reference: String, recent: u64) -> Result<SessionDetails, CommandError> {
        self.context.call(ShowSession { reference, recent })
    }

    fn note(&self, text: &str) {
        if self.is_talk {
            self.context.live.err(&format!("{text}\n"));
        }
    }

    fn print(&self, report: &Report) {
        let (mut out, mut err) = (stdout().lock(), stderr().lock());
        // Whoever closed the pipe does not want to see it.
        let _closed = super::apart(self.context, &mut out).and_then(|()| {
            let printer = self.context.printer;
            printer.report(report, Timing::start(), &mut out, &mut err)
        });
    }

    /// Shows what went wrong; the chat goes on.
    fn fail(&mut self, error: &CommandError) {
        self.failed = Some(error.exit_code());
        let (mut out, mut err) = (stdout().lock(), stderr().lock());
        let _closed = super::apart(self.context, &mut out).and_then(|()| {
            let printer = self.context.printer;
            printer.error("chat", error, Timing::start(), &mut out, &mut err)
        });
    }
}
