//! [`Invocation`]: what to run, and within which limits. Values only; nothing here accesses the system.

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
    /// Empty: it sees the end at once.
    Nothing,
    /// These bytes, as a file, so that unread input does not block the writer.
    Bytes(Vec<u8>),
    /// Our own standard input. A confined command reads files and devices through a pipe, so that it cannot change
    /// them.
    Inherit,
}

/// Destination of a command's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Output {
    /// CapturedStream up to [`Limits::output_bytes`] per stream; the rest is counted and dropped. The command has its own
    /// session without a terminal, so that nothing in it can ask for a password.
    Capture,
    /// Passed through directly, or for a confined command by a pipe where it leads to a file or device. The command
    /// stays in our process group, so that terminal signals reach it together with us.
    Inherit,
    /// Like `Inherit`, but the command becomes the foreground process group of the terminal until it ends. For
    /// interactive programs.
    Terminal,
}

/// Resource limits of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Wall-clock time until the whole process tree is killed.
    pub time: Option<Duration>,
    /// Maximum number of bytes kept of each captured stream.
    pub output_bytes: u64,
    /// Maximum number of concurrent processes and threads.
    pub processes: Option<u64>,
    /// Maximum private writable memory of each process.
    pub memory_bytes: Option<u64>,
    /// Maximum private memory of all processes together.
    pub total_memory_bytes: Option<u64>,
    /// Maximum size of a file it writes.
    pub file_bytes: Option<u64>,
}

impl Limits {
    /// Default limits of untrusted commands: 2048 processes, half of the machine's memory but at least 2 GiB, files of
    /// 4 GiB.
    #[must_use]
    pub fn untrusted() -> Self {
        const LEAST_MEMORY: u64 = 2 << 30;
        let machine = rustix::system::sysinfo();
        let memory = u64::from(machine.mem_unit) * machine.totalram as u64;
        Self {
            processes: Some(2048),
            total_memory_bytes: Some((memory / 2).max(LEAST_MEMORY)),
            file_bytes: Some(4 << 30),
            ..Self::default()
        }
    }
}

impl Default for Limits {
    /// One mebibyte of each stream, no other limit.
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
    /// The only directories below which it may write. `TMPDIR`, when set, must be one of them or below one. One inside
    /// another must not lead out of it by a symbolic link.
    pub writable: Vec<PathBuf>,
    /// Files and directories that it may read in addition to those, the system's directories and the user's toolchains.
    /// Credential files in them stay hidden.
    pub readable: Vec<PathBuf>,
    /// Credential files and directories that it may read nevertheless, each by its own path.
    pub credentials: Vec<PathBuf>,
    /// A folder among or beneath the writable ones that it also finds at `/tmp` and `/var/tmp`, where it
    /// has a root of its own.
    pub temporary: Option<PathBuf>,
    /// Whether it may use the network.
    pub network: bool,
    /// Whether it may use the loopback interface of a network of its own while it may not use the
    /// machine's. Where it cannot have its own network, it has no loopback either.
    pub loopback: bool,
    /// Behaviour on a machine that cannot enforce this.
    pub when_missing: WhenMissing,
    /// Layers to use. All of them, except in tests of single layers.
    #[doc(hidden)]
    pub layers: Layers,
}

impl Policy {
    /// Writing only below `folder`, no network, refused where that cannot be enforced.
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
    /// Run it and report that in [`Enforcement`](crate::Enforcement).
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
    /// All except the process namespace, where `/proc` cannot be mounted again.
    WithoutProcesses,
    /// All of them.
    Whole,
}
