//! Starts a process: the first stage, or a trusted command directly where the program has no stages.

use crate::fork_server::{self, Stage};
use crate::invocation::{Input, Invocation, Output};
use crate::outcome::Stream;
use crate::pipes::{Capture, InputFeed, OutputCallback};
use crate::wire::{self, Plan};
use rustix::fs::{
    FileType, MemfdFlags, SealFlags, fcntl_add_seals, fstat, fstatfs, makedev, memfd_create,
};
use rustix::termios::isatty;
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::OnceLock;

/// First argument that turns a program into the fork server of its stages.
pub(crate) const STAGE: &str = "__process-stage";

static STAGE_PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Uses the stages of another program, which must call [`stage_main`](crate::stage_main) at the start of its `main`.
/// For tests, which do not control their own `main`. Later calls have no effect.
pub fn stages_from(program: impl Into<PathBuf>) {
    STAGE_PROGRAM.get_or_init(|| program.into());
}

/// The program whose stages are used; `None` if there is none.
pub(crate) fn stage_program() -> Option<&'static PathBuf> {
    STAGE_PROGRAM.get()
}

/// The command's ends of two pipes.
#[derive(Debug)]
pub(crate) struct PipeEnds {
    pub(crate) input: PipeReader,
    pub(crate) output: PipeWriter,
}

/// Standard streams of a command, and our ends of the captured streams.
pub(crate) struct Streams {
    child_ends: [OwnedFd; 3],
    stdout: Option<PipeReader>,
    stderr: Option<PipeReader>,
    /// Destinations of streams that are forwarded instead of captured.
    forward: [Option<File>; 2],
    /// Copies our own input to that of the command.
    pub(crate) feed: Option<InputFeed>,
}

/// Method of passing one of our streams to a confined command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StreamPassing {
    /// Directly: a terminal, an unnamed pipe or a socket, none of which gives access to a file.
    Direct,
    /// The null device.
    Null,
    /// Through a pipe: with the file itself, the command could change the file's mode, owner or content.
    Piped,
}

impl StreamPassing {
    fn for_stream(stream: BorrowedFd<'_>) -> Self {
        const PIPEFS_MAGIC: u64 = 0x5049_5045;
        let Ok(file) = fstat(stream) else {
            return Self::Piped;
        };
        let is_unnamed = || {
            fstatfs(stream).is_ok_and(|system| {
                u64::try_from(system.f_type).is_ok_and(|kind| kind == PIPEFS_MAGIC)
            })
        };
        match FileType::from_raw_mode(file.st_mode) {
            FileType::Socket => Self::Direct,
            FileType::Fifo if is_unnamed() => Self::Direct,
            FileType::CharacterDevice if isatty(stream) => Self::Direct,
            FileType::CharacterDevice if file.st_rdev == makedev(1, 3) => Self::Null,
            _ => Self::Piped,
        }
    }
}

/// Whether the command has no input.
pub(crate) fn reads_nothing(invocation: &Invocation) -> bool {
    match invocation.input {
        Input::Nothing => true,
        Input::Bytes(_) => false,
        Input::Inherit => StreamPassing::for_stream(io::stdin().as_fd()) == StreamPassing::Null,
    }
}

impl Streams {
    pub(crate) fn open(invocation: &Invocation) -> io::Result<Self> {
        let is_confined = invocation.confinement.is_some();
        let mut feed = None;
        let input = match &invocation.input {
            Input::Nothing => File::open("/dev/null")?.into(),
            Input::Bytes(bytes) => file_of(bytes)?,
            Input::Inherit => {
                let stdin = io::stdin();
                let own = stdin.as_fd().try_clone_to_owned()?;
                if is_confined && StreamPassing::for_stream(stdin.as_fd()) == StreamPassing::Piped {
                    let (input, sink) = io::pipe()?;
                    feed = Some(InputFeed::new(own.into(), sink)?);
                    input.into()
                } else {
                    own
                }
            }
        };
        let mut streams = if invocation.output == Output::Capture {
            let (stdout, output) = io::pipe()?;
            let (stderr, errors) = io::pipe()?;
            Self {
                child_ends: [input, output.into(), errors.into()],
                stdout: Some(stdout),
                stderr: Some(stderr),
                forward: [None, None],
                feed: None,
            }
        } else {
            Self::passing(input, is_confined)?
        };
        streams.feed = feed;
        Ok(streams)
    }

    /// Streams that pass on this process's own standard streams, where necessary through pipes.
    fn passing(input: OwnedFd, is_confined: bool) -> io::Result<Self> {
        let (stdout, stderr) = (io::stdout(), io::stderr());
        let output = stdout.as_fd().try_clone_to_owned()?;
        let errors = stderr.as_fd().try_clone_to_owned()?;
        let is_piped = |stream: &OwnedFd| {
            is_confined && StreamPassing::for_stream(stream.as_fd()) != StreamPassing::Direct
        };
        let (pipes_output, pipes_errors) = (is_piped(&output), is_piped(&errors));
        let is_same = pipes_output && pipes_errors && same_file(&output, &errors);
        let mut streams = Self {
            child_ends: [input, output, errors],
            stdout: None,
            stderr: None,
            forward: [None, None],
            feed: None,
        };
        if pipes_output {
            let (reader, writer) = io::pipe()?;
            if is_same {
                // One pipe for both, to preserve the order of writes.
                streams.child_ends[2] = writer.try_clone()?.into();
            }
            let own = std::mem::replace(&mut streams.child_ends[1], writer.into());
            streams.stdout = Some(reader);
            streams.forward[0] = Some(own.into());
        }
        if pipes_errors && !is_same {
            let (reader, writer) = io::pipe()?;
            let own = std::mem::replace(&mut streams.child_ends[2], writer.into());
            streams.stderr = Some(reader);
            streams.forward[1] = Some(own.into());
        }
        Ok(streams)
    }

    /// Streams of a command whose input and output are the caller's pipes, and whose standard error is captured.
    pub(crate) fn piped(piped: &PipeEnds) -> io::Result<Self> {
        let (stderr, errors) = io::pipe()?;
        Ok(Self {
            child_ends: [
                piped.input.try_clone()?.into(),
                piped.output.try_clone()?.into(),
                errors.into(),
            ],
            stdout: None,
            stderr: Some(stderr),
            forward: [None, None],
            feed: None,
        })
    }

    /// Takes our ends of the captured and forwarded streams.
    pub(crate) fn captures<'a>(
        &mut self,
        limit: u64,
        tap: Option<OutputCallback<'a>>,
    ) -> io::Result<(Capture<'a>, Capture<'a>)> {
        let [output, errors] = self.forward.each_mut().map(Option::take);
        let stdout = Capture::new(self.stdout.take(), limit, Stream::Output, tap, output)?;
        let stderr = Capture::new(self.stderr.take(), limit, Stream::Errors, tap, errors)?;
        Ok((stdout, stderr))
    }
}

fn same_file(first: &OwnedFd, second: &OwnedFd) -> bool {
    match (fstat(first), fstat(second)) {
        (Ok(first), Ok(second)) => (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino),
        _ => false,
    }
}

/// Creates a sealed in-memory file that contains `bytes`.
fn file_of(bytes: &[u8]) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut file = File::from(memfd_create("input", flags)?);
    file.write_all(bytes)?;
    file.rewind()?;
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    fcntl_add_seals(&file, seals)?;
    Ok(file.into())
}

/// Creates a first stage and sends it the plan, the streams, the namespaces to join, and the file through which the
/// command enters its control group.
pub(crate) fn stage(
    program: &Path,
    plan: &Plan,
    streams: &Streams,
    joined: &[OwnedFd],
    entrance: Option<&File>,
) -> io::Result<Stage> {
    let stage = fork_server::stage(program)?;
    let child_ends = streams.child_ends.iter().map(AsFd::as_fd);
    let joined = joined.iter().map(AsFd::as_fd);
    let entrance = entrance.map(AsFd::as_fd);
    let files: Vec<_> = child_ends.chain(joined).chain(entrance).collect();
    if let Err(error) = wire::send_with(&stage.control, plan, &files) {
        stage.kill();
        stage.wait()?;
        return Err(error);
    }
    Ok(stage)
}

/// Starts a trusted command without stages, in its own process group.
pub(crate) fn directly(invocation: &Invocation, streams: &Streams) -> io::Result<Child> {
    let [input, output, errors] = &streams.child_ends;
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
