//! `builtin/shell`: runs a command, confined to the sandbox.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use cleveragents_domain::{Code, Diagnose as _};
use cleveragents_process::CommandResult;
use schemars::JsonSchema;
use serde::Deserialize;

use super::paths::{LastLink, Place, is_everything, place, workspace};
use super::{Description, PrepareResult, builtin, ready};
use crate::capability::{Access, Capability};
use crate::ports::Command;
use crate::run_command::{Streams, check_ending, exec};
use crate::spec::{Category, WorkspaceNeed};
use crate::tool::{
    Answer, Call, Failure, PrepareContext, PrepareError, Subject, Tool, TouchedPaths,
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

fn prepare(arguments: ShellArguments, context: PrepareContext<'_>) -> PrepareResult<'_> {
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
        let finished = run(&arguments.command, folder.as_ref(), access, time, call)?;
        check_ending(&finished, time)?;
        Ok(Answer {
            touched: TouchedPaths::Anything,
            ..Answer::written().noting(Some("Exit code 0.".to_owned()))
        })
    }))
}

/// Runs a command with the first available shell.
fn run(
    command: &str,
    folder: Option<&Place<'_>>,
    access: Access,
    time: Duration,
    call: &mut Call<'_>,
) -> Result<CommandResult, Failure> {
    let workspace = call.workspace()?;
    let mut not_found = None;
    for (shell, options) in SHELLS {
        let arguments = options.iter().map(OsString::from).chain([command.into()]);
        let command = Command {
            program: shell.into(),
            arguments: arguments.collect(),
            part: folder.map(|place| place.part.alias.clone()),
            folder: folder.and_then(|place| place.path.clone()),
            environment: Vec::new(),
            input: Vec::new(),
            time,
            access,
            network: false,
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
