//! What to run, and within which bounds: [`Invocation`] and its parts. Values only; nothing here
//! touches the system.

use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// What to run.
#[derive(Debug, Clone)]
pub struct Invocation {
    /// The program: a path, or a name that is looked up in the `PATH` of `environment`.
    pub program: OsString,
    /// Its arguments, without the program's own name.
    pub arguments: Vec<OsString>,
    /// The working folder.
    pub folder: PathBuf,
    /// The complete environment: nothing is inherited.
    pub environment: Vec<(OsString, OsString)>,
    /// What it reads from standard input.
    pub input: Input,
    /// Where its output goes.
    pub output: Output,
    /// Its bounds.
    pub limits: Limits,
    /// How it is confined; `None` for programs that are trusted, such as our own use of `git`.
    pub confinement: Option<Policy>,
}

impl Invocation {
    /// Runs `program` in `folder` with the environment of [`clean_environment`], nothing to read,
    /// captured output, the default limits and no confinement.
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

/// What the command reads from standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// Nothing: it sees the end at once.
    Nothing,
    /// These bytes, as a file, so that input nobody reads holds up nobody.
    Bytes(Vec<u8>),
    /// What we read ourselves. A confined command reads files and devices through a pipe, so that it
    /// can change nothing about them.
    Inherit,
}

/// Where the command's output goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Output {
    /// Captured up to [`Limits::output_bytes`] per stream, the rest counted and dropped. The
    /// command has a session of its own, without a terminal: nothing in it can ask for a password.
    Capture,
    /// Passes straight through, for a confined command by a pipe where it leads to a file or device.
    /// The command stays in our process group, so that the keys of the
    /// terminal reach it together with us.
    Inherit,
    /// Like `Inherit`, but the command becomes the foreground process group of the terminal until
    /// it ends. For interactive programs.
    Terminal,
}

/// Bounds of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Time on the clock until the whole tree is killed.
    pub time: Option<Duration>,
    /// Bytes kept of each captured stream.
    pub output_bytes: u64,
    /// Processes and threads at a time.
    pub processes: Option<u64>,
    /// Private writable memory of each process.
    pub memory_bytes: Option<u64>,
    /// Private memory in use by all processes together.
    pub total_memory_bytes: Option<u64>,
    /// Size of a file it writes.
    pub file_bytes: Option<u64>,
}

impl Limits {
    /// The bounds of commands that are not trusted, unless a user chooses others: 2048 processes, half of
    /// the machine's memory but at least 2 GiB, files of 4 GiB.
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
    /// A mebibyte of each stream, no other bound.
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

/// How a command is confined.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    /// The only folders beneath which it may write. `TMPDIR`, when set, must be among or beneath
    /// them. One inside another must not lead out of it by a symbolic link.
    pub writable: Vec<PathBuf>,
    /// Files and folders that it may read besides those, the system's folders and the user's
    /// toolchains. Credential files in them stay hidden.
    pub readable: Vec<PathBuf>,
    /// Credential files and folders that it may read all the same, each by its own path.
    pub credentials: Vec<PathBuf>,
    /// Whether it may use the network.
    pub network: bool,
    /// What to do on a machine that cannot enforce this.
    pub when_missing: WhenMissing,
    /// Which layers to use. All of them, except in tests of the others.
    #[doc(hidden)]
    pub layers: Layers,
}

impl Policy {
    /// Writing beneath `folder` only, no network, refused where that cannot be enforced.
    pub fn beneath(folder: impl Into<PathBuf>) -> Self {
        Self {
            writable: vec![folder.into()],
            ..Self::default()
        }
    }
}

/// What to do on a machine that cannot enforce a policy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum WhenMissing {
    /// Do not run the command.
    #[default]
    Refuse,
    /// Run it and say so in [`Enforced`](crate::Enforced).
    Warn,
}

/// The layers of confinement that may be used, so that each can be tested without the others.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layers {
    /// Namespaces and read-only mounts.
    pub isolation: Isolation,
    /// Landlock.
    pub landlock: bool,
    /// The filter of system calls.
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

/// How much of the namespaces to use.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Isolation {
    /// None.
    None,
    /// All but the one of processes, where `/proc` cannot be mounted anew.
    WithoutProcesses,
    /// All of them.
    Whole,
}
