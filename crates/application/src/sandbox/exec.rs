//! Runs a command confined to a sandbox and then records its changes.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;

use cleveragents_domain::{CheckpointNumber, CheckpointReason};
use cleveragents_process::{
    Cancel, CommandResult, Input, Invocation, Limits, Output, Policy, ProcessError, WhenMissing,
    clean_environment, refusal, run, toolchain_environment,
};
use cleveragents_sandbox::Folders;

use super::error::SandboxError;
use super::history::CaptureReport;
use super::service::{OpenSandbox, SandboxService, SandboxView};

/// A command to run in a sandbox.
#[derive(Debug, Clone)]
pub struct ExecRequest {
    /// Path or name of the program.
    pub program: OsString,
    pub arguments: Vec<OsString>,
    /// The part to run in; by default the only part, or the folder of all parts.
    pub part: Option<String>,
    /// Variables passed in addition to the clean environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Folders outside the sandbox that the command may read and write.
    pub writable: Vec<PathBuf>,
    /// Files and folders outside the sandbox that the command may read.
    pub readable: Vec<PathBuf>,
    /// Whether the command may use the network.
    pub network: bool,
    /// Behaviour if the operating system cannot confine the command.
    pub when_missing: WhenMissing,
    /// Standard input.
    pub input: Input,
    /// Destination of the output.
    pub output: Output,
    /// Resource limits.
    pub limits: Limits,
}

impl ExecRequest {
    /// A request without input, network, or access outside the sandbox, whose output is captured.
    pub fn captured(
        program: impl Into<OsString>,
        arguments: impl IntoIterator<Item = impl Into<OsString>>,
        when_missing: WhenMissing,
    ) -> Self {
        Self {
            program: program.into(),
            arguments: arguments.into_iter().map(Into::into).collect(),
            part: None,
            environment: Vec::new(),
            writable: Vec::new(),
            readable: Vec::new(),
            network: false,
            when_missing,
            input: Input::Nothing,
            output: Output::Capture,
            limits: Limits::default(),
        }
    }
}

/// Result of a command in a sandbox.
#[derive(Debug)]
pub struct ExecReport {
    /// Exit status and confinement.
    pub finished: CommandResult,
    /// Checkpoint of the state before the command ran.
    pub checkpoint: CheckpointNumber,
    /// Changes of the command; `None` when recording was interrupted. The next command on the sandbox then records the
    /// changes.
    pub changes: Option<CaptureReport>,
}

impl SandboxService {
    /// Runs a command and records its changes. First creates a checkpoint. Calls `on_exit` with the result of the
    /// command before the changes are recorded.
    pub fn exec(
        &self,
        open: &mut OpenSandbox,
        request: &ExecRequest,
        cancel: &Cancel,
        on_exit: impl FnOnce(&CommandResult),
    ) -> Result<ExecReport, SandboxError> {
        for member in &open.view.members {
            member.protect()?;
        }
        let label = command_line(&request.program, &request.arguments);
        let checkpoint = self.checkpoint(open, CheckpointReason::BeforeExec, Some(&label))?;
        let invocation = invocation(&open.view, request)?;
        let stop = cancel.child();
        let finished = {
            let _guard = open.guard(&stop);
            run(&invocation, &stop)?
        };
        on_exit(&finished);
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

/// The command as one line of at most `MAX_CHARS` characters, for the label of a checkpoint.
fn command_line(program: &OsStr, arguments: &[OsString]) -> String {
    const MAX_CHARS: usize = 80;
    let words: Vec<_> = std::iter::once(program)
        .chain(arguments.iter().map(OsString::as_os_str))
        .map(|word| word.to_string_lossy().replace(char::is_control, " "))
        .collect();
    let line = words.join(" ");
    match line.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Environment variables and their folders in the private home, for settings, data and caches of programs.
const HOME_FOLDERS: [(&str, &str); 5] = [
    ("XDG_CONFIG_HOME", ".config"),
    ("XDG_CACHE_HOME", ".cache"),
    ("XDG_DATA_HOME", ".local/share"),
    ("XDG_STATE_HOME", ".local/state"),
    ("XDG_RUNTIME_DIR", RUNTIME_FOLDER),
];

/// Folder for sockets. Programs require it to be private.
const RUNTIME_FOLDER: &str = ".runtime";

/// Converts a request to a confined command.
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
        (None, _) => folders.work_dir(),
    };
    let temporary = folders.temporary();
    let home = prepare_home(&folders)?;
    let caches = view.caches();
    let cache_variables = caches.prepare(request.network)?;
    let mut writable = vec![temporary.clone(), home.clone(), caches.files()];
    let mut readable = vec![folders.work_dir()];
    writable.extend(view.members.iter().map(|member| member.root.clone()));
    let mut environment = clean_environment();
    let mut set = |name: &OsStr, value: &OsStr| {
        environment.retain(|(existing, _)| existing != name);
        environment.push((name.to_owned(), value.to_owned()));
    };
    for (name, value) in toolchain_environment() {
        set(&name, &value);
    }
    for (name, value) in cache_variables {
        set(&name, &value);
    }
    set("HOME".as_ref(), home.as_os_str());
    for (name, folder) in HOME_FOLDERS {
        set(name.as_ref(), home.join(folder).as_os_str());
    }
    set("TMPDIR".as_ref(), temporary.as_os_str());
    set("CLEVERAGENTS_SANDBOX".as_ref(), view.sandbox.name.as_ref());
    set(
        "CLEVERAGENTS_SANDBOX_FOLDER".as_ref(),
        folders.work_dir().as_os_str(),
    );
    for member in &view.members {
        writable.extend(member.prepare_git()?.map(PathBuf::from));
        readable.extend(member.external_git_files());
    }
    for (name, value) in &request.environment {
        set(name, value);
    }
    for path in request.writable.iter().chain(&request.readable) {
        if let Some(reason) = refusal(path) {
            return Err(ProcessError::InvalidPolicy {
                program: request.program.clone(),
                reason: format!("`{}` cannot be passed to it: {reason}", path.display()),
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
            temporary: Some(temporary),
            network: request.network,
            loopback: true,
            when_missing: request.when_missing,
            ..Policy::default()
        }),
    })
}

/// Creates the home folder for commands in a sandbox.
fn prepare_home(folders: &Folders) -> Result<PathBuf, SandboxError> {
    let home = folders.home();
    let prepared = cleveragents_process::prepare_home(&home).and_then(|()| {
        let runtime = home.join(RUNTIME_FOLDER);
        match std::fs::DirBuilder::new().mode(0o700).create(runtime) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    });
    prepared.map_err(|source| cleveragents_sandbox::Error::Files {
        action: "making",
        path: home.clone(),
        source,
    })?;
    Ok(home)
}
