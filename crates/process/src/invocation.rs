//! [`Invocation`]: the command to run, its streams, limits and confinement. Values only; nothing here accesses the
//! system.

use crate::shared_network::SharedNetwork;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// A command to run.
#[derive(Debug, Clone)]
pub struct Invocation {
    /// Program: a path, or a name that is looked up in the `PATH` of `environment`.
    pub program: OsString,
    /// Arguments, without the program's own name.
    pub arguments: Vec<OsString>,
    /// Working directory.
    pub folder: PathBuf,
    /// Complete environment: nothing is inherited.
    pub environment: Vec<(OsString, OsString)>,
    /// Source of standard input.
    pub input: Input,
    /// Destination of the output.
    pub output: Output,
    /// Resource limits.
    pub limits: Limits,
    /// Confinement; `None` for trusted programs, such as our own use of `git`.
    pub confinement: Option<Policy>,
}

impl Invocation {
    /// Runs `program` in `folder` with the environment of [`clean_environment`], empty input, captured output, the
    /// default limits and no confinement.
    ///
    /// [`clean_environment`]: crate::clean_environment
    pub fn new(program: impl Into<OsString>, folder: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            folder: folder.into(),
            environment: crate::clean_environment(),
            input: Input::Nothing,
            output: Output::Capture,
            limits: Limits::default(),
            confinement: None,
        }
    }
}

/// Source of a command's standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// Empty: the command reads end-of-file at once.
    Nothing,
    /// These bytes, passed as an in-memory file, so that unread input blocks no writer.
    Bytes(Vec<u8>),
    /// Standard input of this process. If it is a file or device, a confined command gets a pipe instead, so that it
    /// cannot change the file.
    Inherit,
}

/// Destination of a command's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Output {
    /// Captured up to [`Limits::output_bytes`] per stream; further bytes are counted and dropped. The command has its
    /// own session without a terminal, so that no program in it can prompt for a password.
    Capture,
    /// The output streams of this process. If one is a file or device, a confined command gets a pipe instead. The
    /// command stays in our process group, so that terminal signals reach both.
    Inherit,
    /// Like `Inherit`, but the command becomes the foreground process group of the terminal until it ends; for
    /// interactive programs.
    Terminal,
}

/// Resource limits of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Wall-clock time until the whole process tree is killed.
    pub time: Option<Duration>,
    /// Maximum number of bytes kept per captured stream.
    pub output_bytes: u64,
    /// Maximum number of concurrent processes and threads.
    pub processes: Option<u64>,
    /// Maximum private writable memory of each process, in bytes.
    pub memory_bytes: Option<u64>,
    /// Maximum private memory of all processes of the command together, in bytes.
    pub total_memory_bytes: Option<u64>,
    /// Maximum size of a file that the command writes, in bytes.
    pub file_bytes: Option<u64>,
}

impl Limits {
    /// Default limits of untrusted commands: 2048 processes, half of the machine's memory but at least 2 GiB, files of
    /// 4 GiB.
    #[must_use]
    pub fn untrusted() -> Self {
        const MIN_MEMORY: u64 = 2 << 30;
        let machine = rustix::system::sysinfo();
        let memory = u64::from(machine.mem_unit) * machine.totalram as u64;
        Self {
            processes: Some(2048),
            total_memory_bytes: Some((memory / 2).max(MIN_MEMORY)),
            file_bytes: Some(4 << 30),
            ..Self::default()
        }
    }
}

impl Default for Limits {
    /// 1 MiB of output per stream, no other limit.
    fn default() -> Self {
        Self {
            time: None,
            output_bytes: 1 << 20,
            processes: None,
            memory_bytes: None,
            total_memory_bytes: None,
            file_bytes: None,
        }
    }
}

/// Confinement of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    /// The only directories below which the command may write. If `TMPDIR` is set, it must be one of them or lie below
    /// one. A directory listed inside another must not lead out of it through a symbolic link.
    pub writable: Vec<PathBuf>,
    /// Additional files and directories that the command may read, besides the writable ones, the system's directories
    /// and the user's toolchains. Credential files in them stay hidden.
    pub readable: Vec<PathBuf>,
    /// Exceptions: credential files and directories that the command may read, each listed with its own path.
    pub credentials: Vec<PathBuf>,
    /// Directory to mount at `/tmp` and `/var/tmp` if the command has its own root; it must be one of the writable
    /// directories or lie below one.
    pub temporary: Option<PathBuf>,
    /// Whether the command may use the network of the machine.
    pub network: bool,
    /// Whether a command without network gets the loopback interface of its own network namespace. Without such a
    /// namespace it gets no loopback.
    pub loopback: bool,
    /// The network that a command without network access shares with other commands; `None` for one of its own.
    pub shared_network: Option<SharedNetwork>,
    /// Behaviour on a machine that cannot enforce this policy.
    pub when_missing: WhenMissing,
    /// Layers to use: all of them, except in tests of single layers.
    #[doc(hidden)]
    pub layers: Layers,
}

impl Policy {
    /// Permits writing only below `folder`, and no network. On a machine that cannot enforce this, the command is
    /// refused.
    pub fn beneath(folder: impl Into<PathBuf>) -> Self {
        Self {
            writable: vec![folder.into()],
            ..Self::default()
        }
    }
}

/// Behaviour on a machine that cannot enforce a policy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum WhenMissing {
    /// Do not run the command.
    #[default]
    Refuse,
    /// Run it, and report the missing layers in [`Enforcement`](crate::Enforcement).
    Warn,
}

/// The layers of confinement that may be used, so that each can be tested without the others.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layers {
    /// Namespaces and read-only mounts.
    pub isolation: Isolation,
    pub landlock: bool,
    /// System call filter.
    pub seccomp: bool,
}

impl Default for Layers {
    fn default() -> Self {
        Self {
            isolation: Isolation::Whole,
            landlock: true,
            seccomp: true,
        }
    }
}

/// Extent of namespace isolation.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Isolation {
    None,
    /// All except the process namespace; for machines where `/proc` cannot be mounted again.
    WithoutProcesses,
    /// All namespaces.
    Whole,
}
