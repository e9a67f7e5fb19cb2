//! `builtin/shell`: runs a command, confined to the sandbox. `builtin/shell-network` also gives it the network.
//! `builtin/shell-job` reads the output of a command that runs in the background, waits for its end, or stops it.
//!
//! A background command belongs to the conversation that started it, and is killed at the end of its turn.
//!
//! Rules, profiles and guards treat a call of `builtin/shell-network` like a call of `builtin/shell`. In addition, the
//! user approves it, unless a rule names `builtin/shell-network` and allows the command.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use cleveragents_domain::{Code, Diagnose as _, SessionId};
use cleveragents_process::Ending;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::paths::{LastLink, Place, is_everything, place, workspace};
use super::{Description, PrepareResult, builtin, ready};
use crate::capability::{Access, Capability};
use crate::gate::Permit;
use crate::name::ToolName;
use crate::ports::{BackgroundWorkspace, Command, PortError};
use crate::run_command::{Streams, check_ending, exec};
use crate::spec::{Category, ToolSpec, WorkspaceNeed};
use crate::tool::{
    Answer, Call, Failure, PrepareContext, PrepareError, PreparedCall, Subject, Tool, TouchedPaths,
};

/// Default and maximum of `timeout_seconds`.
const DEFAULT_SECONDS: u64 = 120;
const MAX_SECONDS: u64 = 600;

/// Time limit of a background command without `timeout_seconds`.
const LONGEST_BACKGROUND: Duration = Duration::from_hours(1);

/// How long the call that starts a background command waits for the command to end. The call returns the output until
/// then.
const FIRST_OUTPUT: Duration = Duration::from_secs(1);

/// Shells to run commands with, in order of preference.
const SHELLS: [(&str, &[&str]); 2] = [("bash", &["--noprofile", "--norc", "-c"]), ("sh", &["-c"])];

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ShellArguments {
    /// The shell command line.
    #[schemars(length(min = 1))]
    command: String,
    /// The working directory. Default: the root of the sandbox.
    folder: Option<String>,
    /// Time limit in seconds. Default: 120; 3600 in the background.
    #[schemars(range(min = 1, max = 600))]
    timeout_seconds: Option<u64>,
    /// Whether the command continues in the background after the call, until the turn ends. Default: false.
    #[serde(default)]
    background: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct JobArguments {
    /// Number of the background command.
    job: u32,
    /// The first byte of its output to read, from 0. Default: the end of the last read.
    offset: Option<u64>,
    /// How long to wait for the end of the command, in seconds. Default: 0.
    #[schemars(range(min = 0, max = 600))]
    timeout_seconds: Option<u64>,
    /// Whether to stop the command first. Default: false.
    #[serde(default)]
    stop: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NetworkArguments {
    /// The shell command line.
    #[schemars(length(min = 1))]
    command: String,
    /// Reason for network access, shown to the user.
    #[schemars(length(min = 1))]
    reason: String,
    /// The working directory. Default: the root of the sandbox.
    folder: Option<String>,
    /// Time limit in seconds. Default: 120; 3600 in the background.
    #[schemars(range(min = 1, max = 600))]
    timeout_seconds: Option<u64>,
    /// Whether the command continues in the background after the call, until the turn ends. Default: false.
    #[serde(default)]
    background: bool,
}

pub(super) fn tool() -> Arc<dyn Tool> {
    let description = Description {
        name: "shell",
        about: "Runs a shell command in the sandbox, without network access and without a terminal. It can write \
                      only inside the sandbox. Returns its output and exit code.",
        category: Category::ShellOperations,
        workspace_need: WorkspaceNeed::Required,
        capability: Capability::writes("snapshot"),
        timeout: Duration::from_secs(MAX_SECONDS),
    };
    builtin::<ShellArguments>(description, prepare)
}

pub(super) fn job_tool() -> Arc<dyn Tool> {
    let description = Description {
        name: "shell-job",
        about: "Returns new output of a background command of `builtin/shell`, waits for its end, or stops it.",
        category: Category::ShellOperations,
        workspace_need: WorkspaceNeed::Required,
        // The changes were allowed when the command was started.
        capability: Capability::reads(),
        timeout: Duration::from_secs(MAX_SECONDS + 60),
    };
    Arc::new(JobShell(builtin::<JobArguments>(description, prepare_job)))
}

/// `builtin/shell-job`. Lists of tools that contain `builtin/shell` apply to it too.
struct JobShell(Arc<dyn Tool>);

impl Tool for JobShell {
    fn spec(&self) -> &ToolSpec {
        self.0.spec()
    }

    fn prepare<'a>(&'a self, arguments: Value, context: PrepareContext<'a>) -> PrepareResult<'a> {
        self.0.prepare(arguments, context)
    }

    fn acts_as(&self, _arguments: &Value) -> Vec<ToolName> {
        vec![ToolName::builtin("shell")]
    }
}

/// `builtin/shell-network`.
struct NetworkShell(Arc<dyn Tool>);

pub(super) fn network_tool() -> Arc<dyn Tool> {
    let description = Description {
        name: "shell-network",
        about: "Runs a shell command in the sandbox with network access, after the user approved it. Like \
                      `builtin/shell`, it can write only inside the sandbox.",
        category: Category::ShellOperations,
        workspace_need: WorkspaceNeed::Required,
        capability: Capability {
            side_effects: vec!["network".to_owned()],
            needs_approval: true,
            ..Capability::writes("snapshot")
        },
        timeout: Duration::from_secs(MAX_SECONDS),
    };
    Arc::new(NetworkShell(builtin::<NetworkArguments>(
        description,
        prepare_network,
    )))
}

impl Tool for NetworkShell {
    fn spec(&self) -> &ToolSpec {
        self.0.spec()
    }

    fn prepare<'a>(&'a self, arguments: Value, context: PrepareContext<'a>) -> PrepareResult<'a> {
        let prepared = self.0.prepare(arguments, context)?;
        Ok(Box::new(PreparedNetworkCall(prepared)))
    }

    fn acts_as(&self, _arguments: &Value) -> Vec<ToolName> {
        vec![ToolName::builtin("shell")]
    }
}

struct PreparedNetworkCall<'a>(Box<dyn PreparedCall + 'a>);

impl PreparedCall for PreparedNetworkCall<'_> {
    fn subjects(&self) -> Vec<Subject> {
        self.0.subjects()
    }

    fn subjects_by_tool(&self) -> Vec<(ToolName, Subject)> {
        let subjects = self.0.subjects().into_iter();
        subjects
            .map(|subject| (ToolName::builtin("shell"), subject))
            .collect()
    }

    fn run(self: Box<Self>, permit: Permit, call: &mut Call<'_>) -> Result<Answer, Failure> {
        self.0.run(permit, call)
    }
}

fn prepare_network(arguments: NetworkArguments, context: PrepareContext<'_>) -> PrepareResult<'_> {
    if arguments.reason.trim().is_empty() {
        return Err(PrepareError::Arguments(
            "the reason for network access is empty".to_owned(),
        ));
    }
    let shell = ShellArguments {
        command: arguments.command,
        folder: arguments.folder,
        timeout_seconds: arguments.timeout_seconds,
        background: arguments.background,
    };
    prepare_command(shell, true, context)
}

fn prepare(arguments: ShellArguments, context: PrepareContext<'_>) -> PrepareResult<'_> {
    prepare_command(arguments, false, context)
}

fn prepare_command(
    arguments: ShellArguments,
    network: bool,
    context: PrepareContext<'_>,
) -> PrepareResult<'_> {
    if arguments.command.contains('\0') {
        return Err(PrepareError::Arguments(
            "the command contains a NUL byte".to_owned(),
        ));
    }
    let folder = match arguments.folder.as_deref() {
        Some(folder) if !is_everything(Some(folder)) => {
            Some(place(context, folder, LastLink::Follow, Access::Reads)?)
        }
        _ => None,
    };
    let access = if workspace(context)?
        .parts()
        .iter()
        .all(|part| part.is_read_only)
    {
        Access::Reads
    } else {
        Access::Writes
    };
    let subjects = vec![Subject::Command(arguments.command.clone())];
    Ok(ready(subjects, move |call| {
        let time = match (arguments.timeout_seconds, arguments.background) {
            (Some(seconds), true) => Duration::from_secs(seconds),
            (None, true) => LONGEST_BACKGROUND,
            (seconds, false) => {
                let seconds = seconds.unwrap_or(DEFAULT_SECONDS);
                Duration::from_secs(seconds).min(call.time_left())
            }
        };
        let request = ShellCommand {
            command: &arguments.command,
            folder: folder.as_ref(),
            access,
            time,
            network,
        };
        if arguments.background {
            let background = background(call)?;
            let owner = owner(call);
            let cancel = call.cancel().clone();
            let start =
                |command: &Command, _: &mut Call<'_>| background.start(&owner, command, &cancel);
            let job = run(&request, call, start)?;
            return report_job(background, job, None, FIRST_OUTPUT, false, call);
        }
        let workspace = call.workspace()?;
        let finished = run(&request, call, |command, call| {
            exec(workspace, command, Streams::Together, call)
        })?;
        check_ending(&finished, time)?;
        Ok(Answer {
            touched: TouchedPaths::Anything,
            ..Answer::written().with_note(Some("Exit code 0.".to_owned()))
        })
    }))
}

/// A command to run with a shell.
struct ShellCommand<'a> {
    command: &'a str,
    folder: Option<&'a Place<'a>>,
    access: Access,
    time: Duration,
    network: bool,
}

/// The background commands of the sandbox.
fn background<'a>(call: &Call<'a>) -> Result<&'a dyn BackgroundWorkspace, Failure> {
    call.workspace()?
        .background()
        .ok_or_else(|| Failure::new("this sandbox runs no commands in the background"))
}

/// The owner of the background commands that a call starts or reads.
fn owner(call: &Call<'_>) -> String {
    background_owner(call.scope().session)
}

/// The owner of the background commands of a conversation.
pub fn background_owner(session: Option<SessionId>) -> String {
    session.map_or_else(String::new, |session| session.to_string())
}

fn prepare_job(arguments: JobArguments, context: PrepareContext<'_>) -> PrepareResult<'_> {
    workspace(context)?;
    Ok(ready(Vec::new(), move |call| {
        let background = background(call)?;
        let wait = Duration::from_secs(arguments.timeout_seconds.unwrap_or(0));
        let stopped = arguments.stop && background.commands().stop(&owner(call), arguments.job);
        let wait = wait.min(call.time_left());
        report_job(
            background,
            arguments.job,
            arguments.offset,
            wait,
            stopped,
            call,
        )
    }))
}

/// Writes the new output of a background command to the output of the call, and describes its state.
fn report_job(
    background: &dyn BackgroundWorkspace,
    job: u32,
    offset: Option<u64>,
    wait: Duration,
    is_stopped: bool,
    call: &mut Call<'_>,
) -> Result<Answer, Failure> {
    let (commands, owner) = (background.commands(), owner(call));
    let Some(read) = commands.read(&owner, job, offset, wait, call.cancel()) else {
        let known: Vec<String> = commands
            .numbers(&owner)
            .iter()
            .map(u32::to_string)
            .collect();
        let known = if known.is_empty() {
            "this conversation has none; they end with the turn that started them".to_owned()
        } else {
            format!("the jobs of this conversation: {}", known.join(", "))
        };
        return Err(Failure::new(format!("there is no job {job}: {known}")));
    };
    if read.lost > 0 {
        call.output.line(&format!(
            "[… {} bytes before byte {} are no longer kept …]",
            read.lost, read.from
        ));
    }
    call.output.bytes(&read.bytes);
    let (end, seconds) = (read.from + read.bytes.len() as u64, read.elapsed.as_secs());
    let note = match read.result {
        None => format!(
            "Job {job} has been running for {seconds} s; its output has {end} bytes so far. A call with `job`: {job} \
             returns new output."
        ),
        Some(Err(error)) => {
            let failure = Failure::new(format!("job {job} failed: {error}"));
            return Err(failure.touching(TouchedPaths::Anything));
        }
        Some(Ok(finished)) if is_stopped && finished.ending == Ending::Cancelled => {
            format!("Job {job} was stopped after {seconds} s.")
        }
        Some(Ok(finished)) => {
            check_ending(&finished, finished.elapsed)?;
            format!("Job {job} ended after {seconds} s. Exit code 0.")
        }
    };
    Ok(Answer {
        touched: TouchedPaths::Anything,
        ..Answer::written().with_note(Some(note))
    })
}

/// Runs or starts a command with the first available shell.
fn run<T>(
    request: &ShellCommand<'_>,
    call: &mut Call<'_>,
    mut run: impl FnMut(&Command, &mut Call<'_>) -> Result<T, PortError>,
) -> Result<T, Failure> {
    let folder = request.folder;
    let mut not_found = None;
    for (shell, options) in SHELLS {
        let arguments = options
            .iter()
            .map(OsString::from)
            .chain([request.command.into()]);
        let command = Command {
            program: shell.into(),
            arguments: arguments.collect(),
            part: folder.map(|place| place.part.alias.clone()),
            folder: folder.and_then(|place| place.path.clone()),
            environment: Vec::new(),
            input: Vec::new(),
            time: request.time,
            access: request.access,
            network: request.network,
            readable: Vec::new(),
        };
        match run(&command, call) {
            Err(error) if error.code() == Code::ProgramNotFound => not_found = Some(error),
            other => {
                return other
                    .map_err(|error| Failure::from(error).touching(TouchedPaths::Anything));
            }
        }
    }
    Err(not_found.map_or_else(|| Failure::new("no shell is installed"), Failure::from))
}
