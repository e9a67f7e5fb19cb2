//! Result of a command: how it ended, its output, and the confinement that was in force.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// A command that has ended, together with all its descendants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandResult {
    /// Exit code, signal, timeout or cancellation.
    pub ending: Ending,
    /// Standard output, when captured.
    pub stdout: CapturedStream,
    /// Standard error, when captured.
    pub stderr: CapturedStream,
    /// Wall-clock time from start to end.
    pub elapsed: Duration,
    /// Number of descendants that were still alive when the command ended, and were killed.
    pub killed_leftovers: usize,
    /// The exceeded limit for which the command was killed, if any.
    pub exceeded: Option<EnforcedLimit>,
    /// Supervision and confinement that were in force.
    pub enforced: Enforcement,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CapturedStream {
    /// Beginning of the stream, up to the limit.
    pub bytes: Vec<u8>,
    /// Number of bytes beyond the limit, which were dropped.
    pub dropped: u64,
}

/// An output stream of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Output,
    /// Standard error.
    Errors,
}

/// End of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// It exited with this code.
    Exited(i32),
    /// It was terminated by this signal.
    Signalled(i32),
    /// It was killed at its time limit.
    TimedOut,
    /// It was killed because the caller cancelled it.
    Cancelled,
}

impl Ending {
    /// The equivalent exit code, as in a shell: the command's own, 128 plus the signal number, 124 after the time
    /// limit, 130 after a cancellation.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Exited(code) => u8::try_from(*code & 0xff).unwrap_or(u8::MAX),
            Self::Signalled(signal) => u8::try_from(128 + (*signal & 0x7f)).unwrap_or(u8::MAX),
            Self::TimedOut => 124,
            Self::Cancelled => 130,
        }
    }

    /// Whether the command exited with code 0.
    pub fn is_success(&self) -> bool {
        *self == Self::Exited(0)
    }
}

/// Supervision, confinement and limits that were actually in force while the command ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enforcement {
    /// Means of killing the whole process tree.
    pub tree: Tree,
    /// Namespaces of the command. With [`Namespace::Mount`], only readable paths exist for it, mounted read-only except
    /// for the writable directories.
    pub namespaces: Layer<Vec<Namespace>>,
    /// Landlock, with the version of its interface that was used.
    pub landlock: Layer<i32>,
    /// The loopback interface of the command's own network namespace, which has no other interface. Only for commands
    /// without network.
    pub loopback: Layer<()>,
    /// The filter of system calls.
    pub seccomp: Layer<()>,
    /// Whether root's privileges were dropped.
    pub privileges_dropped: Layer<()>,
    /// Limits in force, and how they are enforced.
    pub limits: Layer<Vec<EnforcedLimit>>,
}

impl Enforcement {
    /// No confinement is in force; only the process tree is killed at the end, by means of `tree`.
    pub(crate) fn unconfined(tree: Tree) -> Self {
        Self {
            tree,
            namespaces: Layer::NotRequested,
            landlock: Layer::NotRequested,
            loopback: Layer::NotRequested,
            seccomp: Layer::NotRequested,
            privileges_dropped: Layer::NotRequested,
            limits: Layer::NotRequested,
        }
    }

    /// Whether writing outside the writable directories was prevented. Landlock alone prevents it from version 3 on;
    /// earlier versions permit truncating other files.
    pub fn writing_confined(&self) -> bool {
        matches!(&self.namespaces, Layer::InForce(all) if all.contains(&Namespace::Mount))
            || matches!(self.landlock, Layer::InForce(abi) if abi >= 3)
    }

    /// Whether reading was limited to the system's directories, the toolchains, and the paths of the policy.
    pub fn reading_confined(&self) -> bool {
        matches!(&self.namespaces, Layer::InForce(all) if all.contains(&Namespace::Mount))
            || matches!(self.landlock, Layer::InForce(_))
    }

    /// Whether the network was unreachable.
    pub fn network_confined(&self) -> bool {
        matches!(&self.namespaces, Layer::InForce(all) if all.contains(&Namespace::Network))
            || matches!(self.seccomp, Layer::InForce(()))
    }

    /// Reasons why requested layers are missing, one per layer.
    pub fn missing(&self) -> Vec<String> {
        [
            ("namespaces", self.namespaces.reason()),
            ("Landlock", self.landlock.reason()),
            ("seccomp", self.seccomp.reason()),
            ("dropping privileges", self.privileges_dropped.reason()),
            ("limits", self.limits.reason()),
        ]
        .into_iter()
        .filter_map(|(layer, reason)| Some(format!("{layer}: {}", reason?)))
        .collect()
    }
}

/// A limit that was actually in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnforcedLimit {
    pub resource: LimitedResource,
    /// The maximum: a number of processes, or bytes.
    pub most: u64,
    /// Means of enforcement.
    pub by: LimitMeans,
}

/// A resource that can be limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LimitedResource {
    /// Concurrent processes; for users other than root, threads count as well.
    Processes,
    /// Private memory of all processes together.
    TotalMemory,
    /// Private writable memory of one process.
    ProcessMemory,
    /// Size of one file.
    FileSize,
}

/// Means by which a limit is enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LimitMeans {
    /// By the kernel, with one control group for all processes.
    ControlGroup,
    /// By the kernel, with a resource limit (`setrlimit`) on each process.
    ResourceLimit,
    /// By the supervisor, which checks 50 times a second and kills all processes on excess.
    Supervisor,
}

impl fmt::Display for EnforcedLimit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = self.most;
        match self.resource {
            LimitedResource::Processes => write!(formatter, "{most} processes"),
            LimitedResource::TotalMemory => write!(formatter, "{} MiB of memory", most >> 20),
            LimitedResource::ProcessMemory => {
                write!(formatter, "{} MiB of memory per process", most >> 20)
            }
            LimitedResource::FileSize => write!(formatter, "{} MiB per file", most >> 20),
        }
    }
}

/// One layer of confinement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Layer<T> {
    /// Not requested.
    NotRequested,
    InForce(T),
    /// Requested, but missing or only partly in force, for this reason.
    Missing(String),
}

impl<T> Layer<T> {
    /// Reason why the layer is missing; `None` if it is in force or was not requested.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Missing(reason) => Some(reason),
            Self::NotRequested | Self::InForce(_) => None,
        }
    }
}

/// Means of killing a whole process tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tree {
    /// A process namespace: the kernel kills everything in it.
    Namespace,
    /// A supervisor that adopts orphans and kills them.
    Supervisor,
    /// Only the process group: processes that left it survive. Used by programs without stages.
    ProcessGroup,
}

/// A kind of namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Namespace {
    /// User namespace: it contains only the calling user.
    User,
    Mount,
    /// Processes.
    Process,
    /// System V and POSIX message queues, semaphores and shared memory.
    Ipc,
    HostName,
    /// Network devices and addresses.
    Network,
}
