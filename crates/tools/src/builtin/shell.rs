//! `builtin/shell`: runs a command, confined to the sandbox. `builtin/shell-network` also gives it the network.
//!
//! Rules, profiles and guards treat a call of `builtin/shell-network` like a call of `builtin/shell`. In addition, the
//! user approves it, unless a rule names `builtin/shell-network` and allows the command.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use cleveragents_domain::{Code, Diagnose as _};
use cleveragents_process::CommandResult;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::paths::{LastLink, Place, is_everything, place, workspace};
use super::{Description, PrepareResult, builtin, ready};
use crate::capability::{Access, Capability};
use crate::gate::Permit;
use crate::name::ToolName;
use crate::ports::Command;
use crate::run_command::{Streams, check_ending, exec};
use crate::spec::{Category, ToolSpec, WorkspaceNeed};
use crate::tool::{
    Answer, Call, Failure, PrepareContext, PrepareError, PreparedCall, Subject, Tool, TouchedPaths,
};

/// Default and maximum of `timeout_seconds`.
const DEFAULT_SECONDS: u64 = 120;
const MAX_SECONDS: u64 = 600;

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
    /// Time limit in seconds. Default: 120.
    #[schemars(range(min = 1, max = 600))]
    timeout_seconds: Option<u64>,
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
    /// Time limit in seconds. Default: 120.
    #[schemars(range(min = 1, max = 600))]
    timeout_seconds: Option<u64>,
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
        let seconds = arguments.timeout_seconds.unwrap_or(DEFAULT_SECONDS);
        let time = Duration::from_secs(seconds).min(call.time_left());
        let request = ShellCommand {
            command: &arguments.command,
            folder: folder.as_ref(),
            access,
            time,
            network,
        };
        let finished = run(&request, call)?;
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

/// Runs a command with the first available shell.
fn run(request: &ShellCommand<'_>, call: &mut Call<'_>) -> Result<CommandResult, Failure> {
    let folder = request.folder;
    let workspace = call.workspace()?;
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
        match exec(workspace, &command, Streams::Together, call) {
            Err(error) if error.code() == Code::ProgramNotFound => not_found = Some(error),
            other => {
                return other
                    .map_err(|error| Failure::from(error).touching(TouchedPaths::Anything));
            }
        }
    }
    Err(not_found.map_or_else(|| Failure::new("no shell is installed"), Failure::from))
}
