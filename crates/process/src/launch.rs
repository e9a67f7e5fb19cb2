//! Starts a process from here: the first stage, or a trusted command directly where the program
//! has no stages.

use crate::invocation::{Input, Invocation, Output};
use crate::nursery::{self, Stage};
use crate::outcome::Stream;
use crate::pipes::{Capture, Tap};
use crate::wire::{self, Plan};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::OnceLock;

/// The first argument that makes a program the nursery of its stages.
pub(crate) const STAGE: &str = "__process-stage";

static STAGE_PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Takes the stages from another program, one that calls [`stage_main`](crate::stage_main) first
/// thing in its `main`. For tests, whose own `main` is not theirs. The first call counts.
pub fn stages_from(program: impl Into<PathBuf>) {
    STAGE_PROGRAM.get_or_init(|| program.into());
}

/// The program that has the stages.
pub(crate) fn stage_program() -> Option<&'static PathBuf> {
    STAGE_PROGRAM.get()
}

/// The ends that a command gets of two pipes.
#[derive(Debug)]
pub(crate) struct Piped {
    pub(crate) input: PipeReader,
    pub(crate) output: PipeWriter,
}

/// The standard streams of a command, and our ends of those that are captured.
#[derive(Debug)]
pub(crate) struct Streams {
    given: [OwnedFd; 3],
    stdout: Option<PipeReader>,
    stderr: Option<PipeReader>,
}

impl Streams {
    pub(crate) fn open(invocation: &Invocation) -> io::Result<Self> {
        let input = match &invocation.input {
            Input::Nothing => File::open("/dev/null")?.into(),
            Input::Bytes(bytes) => file_of(bytes)?,
            Input::Inherit => io::stdin().as_fd().try_clone_to_owned()?,
        };
        if invocation.output != Output::Capture {
            let output = io::stdout().as_fd().try_clone_to_owned()?;
            let errors = io::stderr().as_fd().try_clone_to_owned()?;
            return Ok(Self {
                given: [input, output, errors],
                stdout: None,
                stderr: None,
            });
        }
        let (stdout, output) = io::pipe()?;
        let (stderr, errors) = io::pipe()?;
        Ok(Self {
            given: [input, output.into(), errors.into()],
            stdout: Some(stdout),
            stderr: Some(stderr),
        })
    }

    /// The command's ends of pipes that others hold, and a captured standard error.
    pub(crate) fn piped(piped: &Piped) -> io::Result<Self> {
        let (stderr, errors) = io::pipe()?;
        Ok(Self {
            given: [
                piped.input.try_clone()?.into(),
                piped.output.try_clone()?.into(),
                errors.into(),
            ],
            stdout: None,
            stderr: Some(stderr),
        })
    }

    /// Takes our ends.
    pub(crate) fn captures<'a>(
        &mut self,
        limit: u64,
        tap: Option<Tap<'a>>,
    ) -> io::Result<(Capture<'a>, Capture<'a>)> {
        let stdout = Capture::new(self.stdout.take(), limit, Stream::Output, tap)?;
        let stderr = Capture::new(self.stderr.take(), limit, Stream::Errors, tap)?;
        Ok((stdout, stderr))
    }
}

/// A file in memory that holds `bytes` and cannot be changed.
fn file_of(bytes: &[u8]) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut file = File::from(memfd_create("input", flags)?);
    file.write_all(bytes)?;
    file.rewind()?;
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    fcntl_add_seals(&file, seals)?;
    Ok(file.into())
}

/// Makes a first stage and hands it the plan and the streams.
pub(crate) fn stage(program: &Path, plan: &Plan, streams: &Streams) -> io::Result<Stage> {
    let stage = nursery::stage(program)?;
    let files = streams.given.each_ref().map(AsFd::as_fd);
    if let Err(error) = wire::tell_with(&stage.control, plan, &files) {
        stage.kill();
        stage.wait()?;
        return Err(error);
    }
    Ok(stage)
}

/// Starts a trusted command without stages, in a process group of its own.
pub(crate) fn directly(invocation: &Invocation, streams: &Streams) -> io::Result<Child> {
    let [input, output, errors] = &streams.given;
    let mut command = Command::new(&invocation.program);
    command
        .args(&invocation.arguments)
        .env_clear()
        .envs(
            invocation
                .environment
                .iter()
                .map(|(name, value)| (name, value)),
        )
        .current_dir(&invocation.folder)
        .stdin(input.try_clone()?)
        .stdout(output.try_clone()?)
        .stderr(errors.try_clone()?);
    if invocation.output == Output::Capture {
        command.process_group(0);
    }
    command.spawn()
}
