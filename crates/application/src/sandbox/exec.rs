//! Running a command in a sandbox: confined to it, with what it changed recorded afterwards.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use cleveragents_domain::{CheckpointNumber, CheckpointReason};
use cleveragents_process::{
    Cancel, Finished, Input, Invocation, Limits, Output, Policy, ProcessError, WhenMissing,
    clean_environment, refusal, run, toolchain_environment,
};
use cleveragents_sandbox::Folders;

use super::error::SandboxError;
use super::history::CaptureReport;
use super::service::{OpenSandbox, SandboxService, SandboxView};

/// What to run in a sandbox.
#[derive(Debug, Clone)]
pub struct ExecRequest {
    /// The program.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// The part to run in; the only one, or the folder of all, when not given.
    pub part: Option<String>,
    /// Variables to pass besides the clean environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Folders outside that it may write and read all the same.
    pub writable: Vec<PathBuf>,
    /// Files and folders outside that it may read all the same.
    pub readable: Vec<PathBuf>,
    /// Whether it may use the network.
    pub network: bool,
    /// What to do where it cannot be confined.
    pub when_missing: WhenMissing,
    /// What it reads.
    pub input: Input,
    /// Where its output goes.
    pub output: Output,
    /// Its bounds.
    pub limits: Limits,
}

/// What a command in a sandbox did.
#[derive(Debug)]
pub struct ExecReport {
    /// How it ended and what held it.
    pub finished: Finished,
    /// The state before it ran.
    pub checkpoint: CheckpointNumber,
    /// What it changed; `None` when recording it was interrupted. The next command on the sandbox records it.
    pub changes: Option<CaptureReport>,
}

impl SandboxService {
    /// Runs a command and records what it changed. The state before is a checkpoint. `ended` is told how the command
    /// ended, before its changes are recorded.
    pub fn exec(
        &self,
        open: &mut OpenSandbox,
        request: &ExecRequest,
        cancel: &Cancel,
        ended: impl FnOnce(&Finished),
    ) -> Result<ExecReport, SandboxError> {
        for member in &open.view.members {
            member.protect()?;
        }
        let shown = shown(&request.program, &request.arguments);
        let checkpoint = self.checkpoint(open, CheckpointReason::BeforeExec, Some(&shown))?;
        let invocation = invocation(&open.view, request)?;
        let stop = cancel.child();
        let finished = {
            let _guard = open.guard(&stop);
            run(&invocation, &stop)?
        };
        ended(&finished);
        let changes = match self.capture(open, Some("sandbox/exec".into())) {
            Ok(changes) => Some(changes),
            Err(SandboxError::Files(cleveragents_sandbox::Error::Interrupted)) => None,
            Err(error) => return Err(error),
        };
        Ok(ExecReport {
            finished,
            checkpoint,
            changes,
        })
    }
}

/// The command as one line, not too long.
fn shown(program: &OsStr, arguments: &[OsString]) -> String {
    const LONGEST: usize = 80;
    let words: Vec<_> = std::iter::once(program)
        .chain(arguments.iter().map(OsString::as_os_str))
        .map(|word| word.to_string_lossy().replace(char::is_control, " "))
        .collect();
    let line = words.join(" ");
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// The confined command that a request is.
pub(crate) fn invocation(
    view: &SandboxView,
    request: &ExecRequest,
) -> Result<Invocation, SandboxError> {
    let folders = view.folders();
    let folder = match (&request.part, view.members.as_slice()) {
        (Some(part), members) => members
            .iter()
            .find(|member| member.alias == *part)
            .map(|member| member.root.clone())
            .ok_or_else(|| SandboxError::PartNotFound {
                name: view.sandbox.name.clone(),
                part: part.to_owned(),
            })?,
        (None, [only]) => only.root.clone(),
        (None, _) => folders.work(),
    };
    let temporary = folders.temporary();
    let home = prepare_home(&folders)?;
    let mut writable = vec![temporary.clone(), home.clone()];
    let mut readable = vec![folders.work()];
    writable.extend(view.members.iter().map(|member| member.root.clone()));
    let mut environment = clean_environment();
    let mut set = |name: &OsStr, value: &OsStr| {
        environment.retain(|(there, _)| there != name);
        environment.push((name.to_owned(), value.to_owned()));
    };
    for (name, value) in toolchain_environment() {
        set(&name, &value);
    }
    set("HOME".as_ref(), home.as_os_str());
    set("TMPDIR".as_ref(), temporary.as_os_str());
    set("CLEVERAGENTS_SANDBOX".as_ref(), view.sandbox.name.as_ref());
    set(
        "CLEVERAGENTS_SANDBOX_FOLDER".as_ref(),
        folders.work().as_os_str(),
    );
    for member in &view.members {
        writable.extend(member.prepare_git()?.map(PathBuf::from));
        readable.extend(member.borrowed());
    }
    for (name, value) in &request.environment {
        set(name, value);
    }
    for path in request.writable.iter().chain(&request.readable) {
        if let Some(reason) = refusal(path) {
            return Err(ProcessError::InvalidPolicy {
                program: request.program.clone(),
                reason: format!("`{}` cannot be given to it: {reason}", path.display()),
            }
            .into());
        }
    }
    writable.extend(request.writable.iter().cloned());
    readable.extend(request.readable.iter().cloned());
    Ok(Invocation {
        program: request.program.clone(),
        arguments: request.arguments.clone(),
        folder,
        environment,
        input: request.input.clone(),
        output: request.output,
        limits: request.limits,
        confinement: Some(Policy {
            writable,
            readable,
            network: request.network,
            when_missing: request.when_missing,
            ..Policy::default()
        }),
    })
}

/// Makes the home folder of what runs in a sandbox.
fn prepare_home(folders: &Folders) -> Result<PathBuf, SandboxError> {
    let home = folders.home();
    cleveragents_process::prepare_home(&home).map_err(|source| {
        cleveragents_sandbox::Error::Files {
            action: "making",
            path: home.clone(),
            source,
        }
    })?;
    Ok(home)
}
