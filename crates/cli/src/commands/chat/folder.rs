//! A conversation in the working folder: its project, its sessions, and the single answer of `agents -p`.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, stdin};
use std::path::PathBuf;
use std::sync::Arc;

use cleveragents_application::project_operations::ProjectOfFolder;
use cleveragents_application::session_operations::{CreateSession, TellSession, TurnResult};
use cleveragents_application::{AgentEvent, Observer};
use cleveragents_domain::{Code, Session};
use cleveragents_process::Cancel;
use serde_json::{Value, json};

use crate::arguments::{Chat, FolderChat, FolderSession, OutputFormat};
use crate::commands::session::read_text;
use crate::commands::turn_view::short;
use crate::commands::{counted, first_run, interactive, terminal};
use crate::context::Context;
use crate::output::{CommandError, Report, visible_lines, write_err, write_out};

use super::LONGEST_NAME;

/// Number of sessions that `--resume` lists.
const LISTED_SESSIONS: usize = 20;

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
    if folder.session != FolderSession::New {
        let conversation = context.conversation(&arguments.turn)?;
        let sessions = conversation.sessions_of_folder(&project.folder)?;
        let chosen = match folder.session {
            FolderSession::Choose => choose(&sessions)?,
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
fn choose(sessions: &[Session]) -> Result<Option<Session>, CommandError> {
    if sessions.is_empty() {
        return Ok(None);
    }
    let mut list = String::from("\nConversations in this folder, the last used first:\n");
    for (number, session) in sessions.iter().take(LISTED_SESSIONS).enumerate() {
        let name = session.name.as_ref().map_or("", |name| name.as_str());
        let _never_fails = writeln!(
            list,
            "  {:>2}  {}  {} ({})",
            number + 1,
            session.updated_at,
            short(name, 44),
            counted(session.message_count, "message"),
        );
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

/// Answers one question and prints only the answer.
fn answer_once(
    context: &Context,
    ready: FolderReady,
    format: OutputFormat,
) -> Result<Report, CommandError> {
    let mut question = ready.task.unwrap_or_default();
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
    let request = ready.arguments.turn.request();
    let session = if let Some(session) = ready.arguments.session {
        session
    } else {
        let redactor = context.models(None)?.redactor();
        let line = question.lines().find(|line| !line.trim().is_empty());
        let is_secret =
            cleveragents_models::looks_secret(&question) || redactor.text(&question) != question;
        let name = line.filter(|_| !is_secret);
        let created = context.call(CreateSession {
            name: name.map(|line| short(line, LONGEST_NAME)),
            ..CreateSession::default()
        })?;
        created.session.id.to_string()
    };
    let request = TellSession {
        session,
        prompt: Some(question),
        ..request
    };
    let watcher = Arc::new(JsonLinesWatcher {
        streams: format == OutputFormat::StreamJson,
    });
    let outcome = interactive::call(context, request, watcher);
    if format == OutputFormat::StreamJson {
        return Ok(stream_end(outcome));
    }
    let result = outcome?;
    if format == OutputFormat::Json {
        return Ok(Report::new("chat").data(result).ok("Answered"));
    }
    let ending = if result.response.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    write_out(&format!("{}{ending}", visible_lines(&result.response)));
    for caveat in &result.caveats {
        write_err(&visible_lines(&format!("warning: {caveat}\n")));
    }
    if let Some(sandbox) = result
        .sandbox
        .as_ref()
        .filter(|_| !result.files_changed.is_empty())
    {
        write_err(&visible_lines(&format!(
            "changed in a copy: {}; `agents sandbox diff {sandbox}` shows it, `agents sandbox apply {sandbox}` applies it, \
             `agents --continue` continues\n",
            result.files_changed.join(", ")
        )));
    }
    Ok(Report::written("chat", 0))
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

/// Writes the events of an answer as JSON lines if `streams` is set.
struct JsonLinesWatcher {
    streams: bool,
}

impl Observer for JsonLinesWatcher {
    fn event(&self, event: &AgentEvent) {
        if self.streams {
            write_out(&format!("{}\n", json!(event)));
        }
    }

    fn is_watching(&self) -> bool {
        self.streams
    }
}
