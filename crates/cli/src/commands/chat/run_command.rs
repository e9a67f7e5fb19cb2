//! Implementation of the chat commands.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;

use cleveragents_application::session_operations::CompactedSession;
use cleveragents_application::{ConversationCompaction, SandboxError, SessionError};
use cleveragents_domain::{Code, Diagnose as _, Role, SandboxState};
use serde_json::json;

use super::command::{COMMANDS, ChatCommand, HELP, HELP_COLUMN};
use super::{Chat, Flow, LastExchange, RECENT, is_confirmed};
use crate::app::usage_error;
use crate::arguments::Invocation;
use crate::commands::plan::lifecycle::patch_preview;
use crate::commands::session::compact_report;
use crate::commands::{cost_cell, put_cost};
use crate::context::Context;
use crate::output::{
    Cell, CommandError, Level, Markdown, Panel, Report, Timing, path_text, write_err,
};

/// Note for the model after `/undo`, added to the next message.
const UNDONE: &str = "[The user undid the changes of your last turn in the files.]";

/// Note for the model after `/redo`.
const REDONE: &str = "[The user restored the changes that were undone before.]";

impl Chat<'_> {
    /// Runs a chat command and reports the result.
    pub(super) fn run_command(&mut self, command: ChatCommand) -> Result<Flow, CommandError> {
        let timing = Timing::start();
        match command {
            ChatCommand::Exit => return Ok(Flow::Leave),
            ChatCommand::Multi => return Ok(Flow::Multi),
            ChatCommand::Help => self.print(&help(), timing),
            ChatCommand::New(name) => {
                let name = name.map(|name| name.parse()).transpose();
                self.name = name.map_err(SessionError::Name)?;
                self.session = None;
                self.reset_history();
                self.print(
                    &Report::new("chat new").ok("The next message starts a new session"),
                    timing,
                );
            }
            ChatCommand::Session(None) => self.show_session(timing)?,
            ChatCommand::Session(Some(name)) if name == "list" => {
                self.run(&["session", "list", "--limit", "20"], timing)?;
            }
            ChatCommand::Session(Some(name)) => self.switch(&name, timing)?,
            ChatCommand::Model(name) => self.model(name.as_deref(), timing)?,
            ChatCommand::Models => self.run(&["model", "list", "--available"], timing)?,
            ChatCommand::Tools => self.run(&["tool", "list"], timing)?,
            ChatCommand::History(count) => self.history(count, timing)?,
            ChatCommand::Retry => {
                let question = self.last_question()?;
                self.ask(Some(&question))?;
            }
            ChatCommand::Resume => self.ask(None)?,
            ChatCommand::Diff => self.diff(timing)?,
            ChatCommand::Undo => self.undo_turn(timing)?,
            ChatCommand::Apply {
                skips_confirmation,
                branch,
            } => {
                self.apply(skips_confirmation, branch.as_deref(), timing)?;
            }
            ChatCommand::Redo => self.redo_turn(timing)?,
            ChatCommand::Cost => self.cost(timing)?,
            ChatCommand::Status => self.status(timing),
            ChatCommand::Plan => self.run(&["plan", "status"], timing)?,
            ChatCommand::Mcp => self.run(&["mcp", "list"], timing)?,
            ChatCommand::Permissions => self.run(&["permission", "list"], timing)?,
            ChatCommand::Prompt(prompt) => self.ask(Some(prompt))?,
            ChatCommand::Shell(line) => self.shell(&line, timing)?,
            ChatCommand::Compact(focus) => self.compact(focus.as_deref(), timing)?,
            ChatCommand::Export(file) => self.export(&file, timing)?,
            ChatCommand::Save(file) => self.save(&file, timing)?,
        }
        Ok(Flow::Continue)
    }

    fn reset_history(&mut self) {
        self.last = LastExchange::default();
        self.undo.clear();
        self.undone.clear();
    }

    /// Runs an `agents` command. Returns its report, or `None` if it wrote a document itself.
    fn report(&self, words: &[&str]) -> Result<Option<Report>, CommandError> {
        let line = std::iter::once("agents").chain(words.iter().copied());
        let parsed = Invocation::parse(line).map_err(|error| usage_error(&error))?;
        crate::commands::run(self.context, parsed.command, false)
    }

    /// Runs an `agents` command and prints its report.
    fn run(&mut self, words: &[&str], timing: Timing) -> Result<(), CommandError> {
        self.run_and_check(words, timing).map(|_| ())
    }

    /// Runs an `agents` command, prints its report, and returns whether the command succeeded.
    fn run_and_check(&mut self, words: &[&str], timing: Timing) -> Result<bool, CommandError> {
        let Some(report) = self.report(words)? else {
            return Ok(true);
        };
        self.print(&report, timing);
        let code = report.exit_code();
        if code != 0 {
            self.failed = Some(code);
        }
        Ok(code == 0)
    }

    fn show_session(&mut self, timing: Timing) -> Result<(), CommandError> {
        if let Some(session) = &self.session {
            let id = session.id.to_string();
            return self.run(&["session", "show", &id, "--recent", "0"], timing);
        }
        let report = Report::new("chat session").ok("No session yet; the next message starts one");
        self.print(&report, timing);
        Ok(())
    }

    fn switch(&mut self, name: &str, timing: Timing) -> Result<(), CommandError> {
        let session = self.sessions.get(self.sessions.resolve(name)?)?;
        let id = session.id.to_string();
        self.session = Some(session);
        self.name = None;
        self.reset_history();
        if self.context.printer.format().is_human() {
            return self.show_recent(RECENT);
        }
        self.run(&["session", "show", &id], timing)
    }

    fn model(&mut self, name: Option<&str>, timing: Timing) -> Result<(), CommandError> {
        let report = if let Some(name) = name {
            let name = self.conversation.use_actor(name)?;
            Report::new("chat model")
                .data(json!({"model": name}))
                .ok(format!("{name} answers from now on"))
        } else {
            let name = self.conversation.model_name(self.session.as_ref())?;
            Report::new("chat model")
                .data(json!({"model": name}))
                .ok(format!("{name} answers"))
        };
        self.print(&report, timing);
        Ok(())
    }

    fn history(&mut self, count: u64, timing: Timing) -> Result<(), CommandError> {
        let Some(session) = &self.session else {
            return Err(no_message());
        };
        if self.context.printer.format().is_human() {
            return self.show_recent(count);
        }
        let (id, count) = (session.id.to_string(), count.to_string());
        self.run(&["session", "show", &id, "--recent", &count], timing)
    }

    fn last_question(&self) -> Result<String, CommandError> {
        if let Some(question) = &self.last.question {
            return Ok(question.clone());
        }
        let session = self.session.as_ref().ok_or_else(no_message)?;
        let recent = self.sessions.view(session.id, 200)?.recent;
        let mut questions = recent
            .into_iter()
            .rev()
            .filter(|message| message.role == Role::User);
        questions
            .next()
            .map(|message| message.content)
            .ok_or_else(no_message)
    }

    /// Name of the session's sandbox.
    fn sandbox(&self) -> Result<String, CommandError> {
        let name = match &self.session {
            Some(session) => self.conversation.sandbox_name(session.id),
            None => self.conversation.options().sandbox.clone(),
        };
        name.ok_or_else(|| {
            CommandError::usage("this chat has no sandbox")
                .with_hint("start it with `agents chat --project PROJECT` or `--sandbox NAME`")
        })
    }

    /// Name of the session's sandbox. Fails if the sandbox does not exist yet, or was applied or discarded.
    fn open_sandbox(&self) -> Result<String, CommandError> {
        let name = self.sandbox()?;
        let state = match self.context.sandboxes()?.find(&name) {
            Ok(view) => view.sandbox.state,
            Err(SandboxError::NotFound(_)) => {
                return Err(CommandError::usage("this chat has no sandbox yet")
                    .with_hint("the next message creates it"));
            }
            Err(error) => return Err(error.into()),
        };
        match state {
            SandboxState::Applied => Err(CommandError::new(
                Code::SandboxNotReady,
                "the changes of this chat are applied to your files",
            )
            .with_hint(
                "the next message starts a new copy; `git revert` undoes the commit of the apply",
            )),
            SandboxState::Discarded => Err(CommandError::new(
                Code::SandboxNotReady,
                "this chat has no changes, and its sandbox is closed",
            )
            .with_hint("the next message starts a new copy")),
            _ => Ok(name),
        }
    }

    fn diff(&mut self, timing: Timing) -> Result<(), CommandError> {
        let sandbox = self.sandbox()?;
        // The sandbox of a chat without changes is closed when a process ends.
        let is_closed = match self.context.sandboxes()?.find(&sandbox) {
            Ok(view) => view.sandbox.state == SandboxState::Discarded,
            Err(SandboxError::NotFound(_)) => true,
            Err(error) => return Err(error.into()),
        };
        if is_closed && self.conversation.options().sandbox.is_none() {
            let report = Report::new("sandbox diff").data(json!({"parts": []}));
            self.print(&report.ok("No changes"), timing);
            return Ok(());
        }
        if !self.context.printer.draws() {
            return self.run(&["sandbox", "diff", &sandbox], timing);
        }
        let Some(report) = self.report(&["sandbox", "diff", &sandbox])? else {
            return Ok(());
        };
        let data = report.data.to_tree();
        let (paint, _) = self.context.printer.canvas();
        let parts = data["parts"].as_array().cloned().unwrap_or_default();
        let patches = parts.iter().filter_map(|part| part["patch"].as_str());
        let drawn: String = patches
            .map(|patch| Markdown::code(paint, "diff", patch))
            .collect();
        let mut out = std::io::stdout().lock();
        let _closed = out.write_all(drawn.as_bytes());
        drop(out);
        self.print(
            &Report {
                blocks: Vec::new(),
                ..report
            },
            timing,
        );
        Ok(())
    }

    fn undo_turn(&mut self, timing: Timing) -> Result<(), CommandError> {
        let sandbox = self.open_sandbox()?;
        let mut point = self.undo.last().cloned();
        let number = point.as_ref().map(|point| point.checkpoint.to_string());
        // Another program may have made the last change of a sandbox that the user named.
        let is_own = self.session.is_some() && self.conversation.options().sandbox.is_none();
        if number.is_none() && !is_own {
            return Err(
                CommandError::usage("no turn of this chat changed the sandbox").with_hint(format!(
                    "`agents sandbox rollback {sandbox}` rolls back further"
                )),
            );
        }
        let mut words = vec!["sandbox", "rollback", sandbox.as_str()];
        // Without the checkpoint of a turn of this process, the last change is rolled back.
        if let Some(number) = &number {
            words.extend(["--to", number.as_str()]);
        }
        let Some(mut report) = self.report(&words)? else {
            return Ok(());
        };
        for message in &mut report.messages {
            if message.level == Level::Info {
                "/redo restores the changes".clone_into(&mut message.text);
            }
        }
        if report.exit_code() != 0 {
            self.failed = Some(report.exit_code());
            self.print(&report, timing);
            return Ok(());
        }
        self.undo.pop();
        let hides_messages = match (&self.session, &mut point) {
            (Some(session), Some(point)) => {
                // A later turn that was undone before keeps its messages for its own `/redo`.
                let later = self.undone.last().map(|later| later.messages.start);
                point.messages.end = later.unwrap_or(session.message_count);
                self.sessions.undo_messages(session.id, &point.messages)?
            }
            _ => false,
        };
        if hides_messages {
            self.undone.extend(point);
            report = report.info("the model no longer sees the messages of that turn");
        } else {
            self.undone.clear();
            self.pending_note = Some(UNDONE);
        }
        self.print(&report, timing);
        Ok(())
    }

    fn redo_turn(&mut self, timing: Timing) -> Result<(), CommandError> {
        let sandbox = self.open_sandbox()?;
        if self.run_and_check(&["sandbox", "redo", &sandbox], timing)? {
            if let (Some(session), Some(point)) = (&self.session, self.undone.pop()) {
                self.sessions.redo_messages(session.id, &point.messages)?;
                self.undo.push(point);
                return Ok(());
            }
            self.pending_note = match self.pending_note {
                // The note about the undo was not sent yet: after the redo, neither note is needed.
                Some(UNDONE) => None,
                _ => Some(REDONE),
            };
        }
        Ok(())
    }

    /// Runs a command line of the user in the sandbox.
    fn shell(&mut self, line: &str, timing: Timing) -> Result<(), CommandError> {
        let sandbox = self.open_sandbox()?;
        self.run(
            &["sandbox", "exec", &sandbox, "--", "sh", "-c", line],
            timing,
        )
    }

    /// Summarizes the conversation, so that later requests contain the summary.
    fn compact(&self, focus: Option<&str>, timing: Timing) -> Result<(), CommandError> {
        let session = self.session.as_ref().ok_or_else(no_message)?;
        let running = self.stopper.begin();
        self.screen.begin();
        let compacted = self.conversation.compact(&ConversationCompaction {
            session,
            focus,
            observer: &self.screen,
            cancel: &running.cancel,
            stop: &running.stop,
        });
        drop(running);
        self.screen.end();
        match compacted {
            Ok(compacted) => {
                let compacted = CompactedSession::new(session.id, compacted);
                self.print(&compact_report("chat compact", compacted), timing);
                Ok(())
            }
            Err(error) if error.code() == Code::TurnStopped && self.is_interactive => {
                self.screen.note("stopped; the conversation is unchanged");
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    fn export(&mut self, file: &Path, timing: Timing) -> Result<(), CommandError> {
        let session = self.session.as_ref().ok_or_else(no_message)?;
        let (id, file) = (session.id.to_string(), file.to_string_lossy().into_owned());
        self.run(
            &[
                "session", "export", &id, "--as", "markdown", "--output", &file,
            ],
            timing,
        )
    }

    /// Shows model, folder, session and sandbox of the chat.
    fn status(&self, timing: Timing) {
        let model = self.conversation.model_name(self.session.as_ref());
        let model = model.map_or_else(|error| error.to_string(), |model| model.to_string());
        let session = self.session.as_ref().map(|session| session.id.to_string());
        let sandbox = self.sandbox().ok();
        let changed = sandbox.as_deref().and_then(|name| self.changed_files(name));
        let mut panel = Panel::new("Chat").row("Model", model.clone());
        if let Some(folder) = &self.folder {
            panel = panel.row("Folder", folder.display().to_string());
        }
        if let Some(session) = &session {
            panel = panel.row("Session", Cell::Id(session.clone()));
        }
        if let Some(sandbox) = &sandbox {
            panel = panel.row("Sandbox", sandbox.clone());
        }
        let files = changed.unwrap_or(0);
        let report = Report::new("chat status")
            .data(json!({
                "model": model,
                "folder": self.folder.as_deref().map(path_text),
                "session": session,
                "sandbox": sandbox,
                "changed_files": changed,
            }))
            .panel(panel.row("Changed files", files));
        let report = if files > 0 {
            report.info("/diff shows the changes, /apply writes them to your files")
        } else {
            report
        };
        self.print(&report, timing);
    }

    /// Number of changed files in a sandbox; `None` if it does not exist yet.
    fn changed_files(&self, sandbox: &str) -> Option<usize> {
        let sandboxes = self.context.sandboxes().ok()?;
        let mut open = sandboxes.open(sandbox).ok()?;
        Some(sandboxes.diff(&mut open).ok()?.path_count())
    }

    fn apply(
        &mut self,
        skips_confirmation: bool,
        branch: Option<&str>,
        timing: Timing,
    ) -> Result<(), CommandError> {
        let sandbox = self.sandbox()?;
        let option: Vec<&str> = branch.map_or_else(Vec::new, |branch| vec!["--branch", branch]);
        if !skips_confirmation && !self.is_interactive {
            return Err(CommandError::new(
                Code::ConfirmationNeeded,
                "confirmation needs a terminal",
            )
            .with_hint("use `/apply --yes`"));
        }
        if !skips_confirmation {
            self.preview(&sandbox)?;
            // If the dry run finds conflicts, nothing can be applied, so the user is not asked.
            let mut preview = vec!["sandbox", "apply", sandbox.as_str(), "--dry-run"];
            preview.extend(&option);
            if !self.run_and_check(&preview, timing)? {
                return Ok(());
            }
            let target = branch.map_or_else(
                || "to your files".to_owned(),
                |branch| format!("on the new branch {branch}"),
            );
            let question = format!("Apply these changes {target} and close sandbox {sandbox}?");
            if !is_confirmed(&self.stopper, &question) {
                self.print(
                    &Report::new("chat apply").ok("Not applied; nothing changed"),
                    timing,
                );
                return Ok(());
            }
        }
        let message = self.commit_message(&sandbox);
        let mut words = vec!["sandbox", "apply", sandbox.as_str()];
        if let Some(message) = &message {
            words.extend(["--message", message.as_str()]);
        }
        words.extend(&option);
        if self.run_and_check(&words, timing)? {
            self.undo.clear();
            self.undone.clear();
        }
        Ok(())
    }

    /// Commit message of `/apply`: the first line of the last question. None if the question contains a secret.
    fn commit_message(&self, sandbox: &str) -> Option<String> {
        let session = self.session.as_ref()?;
        let subject = self.derive_name(&self.last_question().ok()?)?;
        Some(format!(
            "{subject}\n\nSession: {}\nSandbox: {sandbox}\n",
            session.id
        ))
    }

    /// Shows the start of the patch that `/apply` would apply.
    fn preview(&self, sandbox: &str) -> Result<(), CommandError> {
        let sandboxes = self.context.sandboxes()?;
        let mut open = sandboxes.open(sandbox)?;
        let diff = sandboxes.diff(&mut open)?;
        let temporary = open.view.folders().state();
        let mut patch = Vec::new();
        for part in &diff.parts {
            patch.extend(diff.patch(part, &temporary)?);
        }
        drop(open);
        let text = patch_preview(self.context, &patch, "/diff");
        write_err(&text);
        Ok(())
    }

    fn cost(&self, timing: Timing) -> Result<(), CommandError> {
        let Some(session) = &self.session else {
            return Err(no_message());
        };
        let usage = self.sessions.get(session.id)?.usage;
        let is_known = self.sessions.is_cost_known(session.id)?;
        let mut data = json!({
            "session": session.id,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
        });
        put_cost(&mut data, "cost_usd", usage.cost_micro_usd, is_known);
        let report = Report::new("chat cost").data(data).panel(
            Panel::new("Session")
                .row("Id", Cell::Id(session.id.to_string()))
                .row("Input tokens", usage.input_tokens.0)
                .row("Output tokens", usage.output_tokens.0)
                .row("Cost", cost_cell(usage.cost_micro_usd, is_known)),
        );
        self.print(&report, timing);
        Ok(())
    }

    fn save(&self, file: &Path, timing: Timing) -> Result<(), CommandError> {
        let report = saved(self.context, file, self.last.answer.as_deref())?;
        self.print(&report, timing);
        Ok(())
    }
}

/// Writes the last answer to a new file.
pub(super) fn saved(
    context: &Context,
    file: &Path,
    answer: Option<&str>,
) -> Result<Report, CommandError> {
    let answer = answer.ok_or_else(|| {
        CommandError::usage("this chat has no answer yet").with_hint("send a message first")
    })?;
    let folder = context.environment.working_folder();
    let path = folder.map_or_else(|| file.to_owned(), |folder| folder.join(file));
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&path)
        .and_then(|mut output| output.write_all(format!("{answer}\n").as_bytes()))
        .map_err(|error| {
            CommandError::new(
                Code::FileAccess,
                format!("`{}` cannot be written", path.display()),
            )
            .caused_by(&error)
            .with_hint("choose a file that does not exist")
        })?;
    Ok(Report::new("chat save")
        .data(json!({"file": path_text(&path), "bytes": answer.len() + 1}))
        .ok(format!("Answer written to {}", path.display())))
}

pub(super) fn no_message() -> CommandError {
    CommandError::usage("this chat has no message yet").with_hint("send a message first")
}

pub(super) fn help() -> Report {
    let list = HELP.iter().fold(String::new(), |mut list, (keys, does)| {
        let _never_fails = writeln!(list, "{keys:HELP_COLUMN$}  {does}");
        list
    });
    let commands: Vec<_> = COMMANDS
        .iter()
        .map(|(name, takes, does)| json!({"command": format!("/{name}"), "takes": takes, "does": does}))
        .collect();
    let keys: Vec<_> = HELP
        .iter()
        .filter(|(keys, _)| !keys.starts_with('/') || keys.starts_with("//"))
        .map(|(keys, does)| json!({"keys": keys, "does": does}))
        .collect();
    Report::new("chat help")
        .data(json!({"commands": commands, "keys": keys}))
        .text(list)
}
