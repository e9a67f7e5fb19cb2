//! Running a command in a sandbox: confined to it, with what it changed recorded afterwards.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use cleveragents_domain::{CheckpointNumber, CheckpointReason};
use cleveragents_process::{
    Cancel, Finished, Input, Invocation, Limits, Output, Policy, WhenMissing, clean_environment,
    run,
};

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
    /// Folders outside that it may write all the same.
    pub writable: Vec<PathBuf>,
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
    /// What it changed.
    pub changes: CaptureReport,
}

impl SandboxService {
    /// Runs a command and records what it changed. The state before is a checkpoint.
    pub fn exec(
        &self,
        open: &mut OpenSandbox,
        request: &ExecRequest,
        cancel: &Cancel,
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
        let changes = self.capture(open, Some("sandbox/exec".into()))?;
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
    let mut writable = vec![temporary.clone()];
    writable.extend(view.members.iter().map(|member| member.root.clone()));
    let mut environment = clean_environment();
    let mut set = |name: &str, value: &OsStr| {
        environment.retain(|(there, _)| there != name);
        environment.push((name.into(), value.to_owned()));
    };
    set("TMPDIR", temporary.as_os_str());
    set("CLEVERAGENTS_SANDBOX", OsStr::new(&view.sandbox.name));
    set("CLEVERAGENTS_SANDBOX_FOLDER", folders.work().as_os_str());
    for member in &view.members {
        writable.extend(member.prepare_git()?.map(PathBuf::from));
    }
    for (name, value) in &request.environment {
        environment.retain(|(there, _)| there != name);
        environment.push((name.clone(), value.clone()));
    }
    writable.extend(request.writable.iter().cloned());
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
            network: request.network,
            when_missing: request.when_missing,
            ..Policy::default()
        }),
    })
}
