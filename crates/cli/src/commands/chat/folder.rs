//! A conversation in the working folder: its project, its sessions, and the single answer of `agents -p`.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, stdin};
use std::path::PathBuf;
use std::sync::Arc;

use cleveragents_application::project_operations::ProjectOfFolder;
use cleveragents_application::session_operations::{
    CreateSession, ShowSession, TellSession, TurnResult,
};
use cleveragents_application::{AgentEvent, Mode, Observer, PendingChanges};
use cleveragents_domain::{Code, Session, SessionId, Timestamp};
use cleveragents_process::Cancel;
use serde_json::{Value, json};

use crate::arguments::{Chat, FolderChat, FolderSession, OutputFormat};
use crate::commands::images::prompt_images;
use crate::commands::session::read_text;
use crate::commands::turn_view::{short, time_to_minute};
use crate::commands::unfinished::{self, AnnouncedWork};
use crate::commands::{counted, first_run, interactive, terminal};
use crate::context::Context;
use crate::output::{CommandError, Progress, Report, visible_lines, write_err, write_out};

use super::MAX_NAME_LENGTH;

/// Number of sessions that `--resume` lists.
const LISTED_SESSIONS: usize = 20;

/// Maximum number of changed files that `agents -p` lists.
const LISTED_FILES: usize = 5;

/// Maximum number of characters of the first question in the list of `--resume`.
const LISTED_WORDS: usize = 44;

/// A conversation in a folder that is ready to start.
pub(super) struct FolderReady {
    /// The arguments with the project of the folder, and the session to continue.
    pub(super) arguments: Chat,
    pub(super) folder: PathBuf,
    pub(super) task: Option<String>,
}

/// Result of preparing a conversation in a folder.
pub(super) enum FolderStart {
    Ready(Box<FolderReady>),
    /// The command ends with this report.
    Ended(Report),
}

/// Looks up the project and the session of the working folder. Stores nothing if no model is set.
pub(super) fn start(
    context: &Context,
    mut arguments: Chat,
    folder: FolderChat,
) -> Result<FolderStart, CommandError> {
    if context.connection.is_some() {
        return Err(CommandError::new(
            Code::LocalOnly,
            "a conversation in a folder runs on the machine of the folder, and a server is connected",
        )
        .with_hint("add --local, or use `agents chat --project PROJECT` for a project of the server"));
    }
    if arguments.session.is_none()
        && let Some(screen) = first_run::screen(context, "chat", arguments.turn.actor.as_deref())?
    {
        return Ok(FolderStart::Ended(screen));
    }
    let working_folder = context.environment.working_folder().map(PathBuf::from);
    let working_folder =
        working_folder.ok_or_else(|| CommandError::usage("there is no working folder"))?;
    let project = context.call(ProjectOfFolder {
        folder: working_folder,
        whole_repository: true,
    })?;
    arguments.turn.project = Some(project.name);
    arguments.turn.follows_files = true;
    let mode = folder.mode.or_else(|| context.settings.mode());
    arguments.turn.read_only |= mode.is_some_and(Mode::is_read_only);
    if folder.session != FolderSession::New {
        let conversation = context.conversation(&arguments.turn)?;
        let sessions = conversation.sessions_of_folder(&project.folder)?;
        let chosen = match folder.session {
            FolderSession::Choose => choose(context, &sessions)?,
            _ => sessions.into_iter().next(),
        };
        if chosen.is_none() {
            let message = format!(
                "no conversation in {} yet; this one is new\n",
                project.folder.display()
            );
            write_err(&visible_lines(&message));
        }
        arguments.session = chosen.map(|session| session.id.to_string());
    }
    if folder.print.is_none() {
        let announced = match arguments.session {
            None => AnnouncedWork::All,
            Some(_) => AnnouncedWork::Plan,
        };
        unfinished::announce(context, &project.folder, announced);
    }
    let ready = FolderReady {
        arguments,
        folder: project.folder,
        task: folder.task,
    };
    match folder.print {
        None => Ok(FolderStart::Ready(Box::new(ready))),
        Some(format) => answer_once(context, ready, format).map(FolderStart::Ended),
    }
}

/// Lets the user choose a session.
fn choose(context: &Context, sessions: &[Session]) -> Result<Option<Session>, CommandError> {
    if sessions.is_empty() {
        return Ok(None);
    }
    if !stdin().is_terminal() {
        return Err(CommandError::new(
            Code::ConfirmationNeeded,
            "choosing a conversation needs a terminal",
        )
        .with_hint(
            "name it: `agents --resume SESSION`, or take the last one: `agents --continue`",
        ));
    }
    let mut list = String::from("\nConversations in this folder, the last used first:\n");
    for (number, session) in sessions.iter().take(LISTED_SESSIONS).enumerate() {
        let line = session_line(context, session)?;
        let _never_fails = writeln!(list, "  {:>2}  {line}", number + 1);
    }
    let answer = terminal::ask(&list, "Number: ", &Cancel::new());
    let number: Option<usize> = answer.as_deref().and_then(|answer| answer.parse().ok());
    let chosen = number
        .and_then(|number| number.checked_sub(1))
        .and_then(|index| sessions.get(index));
    match chosen {
        Some(session) => Ok(Some(session.clone())),
        None => Err(
            CommandError::new(Code::ConfirmationNeeded, "no conversation was chosen").with_hint(
                "type a number of the list, or run `agents` to start a new conversation",
            ),
        ),
    }
}

/// A session in the list of `--resume`: its time, first words, turns and changes.
fn session_line(context: &Context, session: &Session) -> Result<String, CommandError> {
    let overview = context.sessions()?.overview(session.id)?;
    let name = session.name.as_ref().map(|name| name.as_str().to_owned());
    let words = overview.first_question.or(name).unwrap_or_default();
    let changes = context.sandboxes()?.pending_changes(session.id)?;
    let changes = changes.map_or_else(String::new, |changes| {
        let count = counted(changes.files.len(), "changed file");
        format!(", {count} not applied")
    });
    let time = time_to_minute(session.updated_at, Timestamp::now());
    Ok(format!(
        "{time:<16}  {} ({}{changes})",
        short(&words, LISTED_WORDS),
        counted(overview.turns, "turn"),
    ))
}

/// Answers one question and prints only the answer.
fn answer_once(
    context: &Context,
    ready: FolderReady,
    format: OutputFormat,
) -> Result<Report, CommandError> {
    let mut question = ready.task.unwrap_or_default();
    // Standard input is data: names in it are text.
    let images = prompt_images(context, Some(&question))?;
    if !stdin().is_terminal() {
        let input = read_text(context)?;
        if !input.trim().is_empty() {
            if !question.is_empty() {
                question.push_str("\n\n");
            }
            question.push_str(&input);
        }
    }
    if question.trim().is_empty() {
        return Err(CommandError::usage("there is no question")
            .with_hint("agents -p 'what does this project do?'"));
    }
    let mut request = ready.arguments.turn.request();
    request.local.images = images;
    let session = if let Some(reference) = ready.arguments.session {
        let shown = context.call(ShowSession {
            reference,
            recent: 0,
        })?;
        shown.session_summary.id
    } else {
        let redactor = context.models(None)?.redactor();
        let line = question.lines().find(|line| !line.trim().is_empty());
        let is_secret =
            cleveragents_models::looks_secret(&question) || redactor.text(&question) != question;
        let name = line.filter(|_| !is_secret);
        let created = context.call(CreateSession {
            name: name.map(|line| short(line, MAX_NAME_LENGTH)),
            ..CreateSession::default()
        })?;
        created.session.id
    };
    let request = TellSession {
        session: session.to_string(),
        prompt: Some(question),
        ..request
    };
    let streams = format == OutputFormat::StreamJson;
    let progress = if streams {
        Progress::silent()
    } else {
        Progress::spinner(&context.printer, THINKING)
    };
    let watcher = Arc::new(AnswerWatcher {
        streams,
        progress: progress.clone(),
    });
    let outcome = interactive::call_with_progress(context, request, watcher, &progress);
    progress.finish();
    // A failed or interrupted turn may have changed files too.
    let changes = close_unchanged(context, session);
    let report = match format {
        OutputFormat::StreamJson => Ok(stream_end(outcome)),
        OutputFormat::Json => outcome.map(|result| Report::new("chat").data(result).ok("Answered")),
        OutputFormat::Text => outcome.map(|result| print_answer(&result)),
    };
    if let Some(changes) = changes {
        write_err(&visible_lines(&pending_line(&changes)));
    }
    report
}

/// Label of the status line before the first tool call.
const THINKING: &str = "Thinking";

fn print_answer(result: &TurnResult) -> Report {
    let ending = if result.response.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    write_out(&format!("{}{ending}", visible_lines(&result.response)));
    for caveat in &result.caveats {
        write_err(&visible_lines(&format!("warning: {caveat}\n")));
    }
    Report::written("chat", 0)
}

fn pending_line(changes: &PendingChanges) -> String {
    let sandbox = &changes.sandbox;
    let shown = changes.files.iter().take(LISTED_FILES);
    let mut files: Vec<&str> = shown.map(String::as_str).collect();
    let more = changes.files.len().saturating_sub(LISTED_FILES);
    let more = format!("and {more} more");
    if changes.files.len() > LISTED_FILES {
        files.push(&more);
    }
    format!(
        "changes wait in sandbox {sandbox}: {}\n  show:     `agents sandbox diff {sandbox}`\n  apply:    `agents \
         sandbox apply {sandbox}`\n  continue: `agents --continue`\n",
        files.join(", ")
    )
}

/// Closes the sandbox of a conversation that ends, if it is unchanged; otherwise returns its changes.
pub(super) fn close_unchanged(context: &Context, session: SessionId) -> Option<PendingChanges> {
    let closed = context
        .sandboxes()
        .and_then(|sandboxes| Ok(sandboxes.close_unchanged(session)?));
    closed.unwrap_or_else(|error| {
        let text = format!("warning: the sandbox of the conversation stays: {error}\n");
        write_err(&visible_lines(&text));
        None
    })
}

/// Writes the last line of `--output-format stream-json`.
fn stream_end(outcome: Result<TurnResult, CommandError>) -> Report {
    let (line, code) = match outcome {
        Ok(result) => (tagged("result", json!(result)), 0),
        Err(error) => {
            let fields = json!({
                "code": error.code().as_str(),
                "message": error.to_string(),
                "hint": error.hint_text(),
            });
            (json!({"type": "error", "error": fields}), error.exit_code())
        }
    };
    write_out(&format!("{line}\n"));
    Report::written("chat", code)
}

/// Adds the field `type` to an object, as its first field.
fn tagged(kind: &str, mut value: Value) -> Value {
    let mut object = serde_json::Map::new();
    object.insert("type".to_owned(), kind.into());
    if let Some(fields) = value.as_object_mut() {
        object.append(fields);
    }
    Value::Object(object)
}

/// Writes the events of an answer as JSON lines if `streams` is set; otherwise shows the current tool call.
struct AnswerWatcher {
    streams: bool,
    progress: Progress,
}

impl Observer for AnswerWatcher {
    fn event(&self, event: &AgentEvent) {
        if self.streams {
            write_out(&format!("{}\n", json!(event)));
            return;
        }
        match event {
            AgentEvent::ToolCallStarted { tool, .. } => self.progress.label(tool),
            AgentEvent::ModelCall { .. } => self.progress.label(THINKING),
            _ => {}
        }
    }

    fn is_watching(&self) -> bool {
        self.streams
    }
}
