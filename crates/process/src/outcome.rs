//! What became of a command: how it ended, what it said, and what held it while it ran.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// A command that has ended, together with everything it started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// How it ended.
    pub ending: Ending,
    /// What it wrote to standard output, when captured.
    pub stdout: Captured,
    /// What it wrote to standard error, when captured.
    pub stderr: Captured,
    /// Time on the clock from start to end.
    pub elapsed: Duration,
    /// How many of the processes it had started were still alive at its end, and were killed.
    pub killed_leftovers: usize,
    /// The limit for which everything was killed.
    pub exceeded: Option<EnforcedLimit>,
    /// What held it.
    pub enforced: Enforced,
}

/// A captured stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captured {
    /// Its beginning, up to the limit.
    pub bytes: Vec<u8>,
    /// How many bytes came after that.
    pub dropped: u64,
}

/// A stream that a command writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Output,
    /// Standard error.
    Errors,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// It ended by itself with this code.
    Exited(i32),
    /// This signal ended it.
    Signalled(i32),
    /// It was killed at its time limit.
    TimedOut,
    /// It was killed because the caller cancelled it.
    Cancelled,
}

impl Ending {
    /// The exit code that tells the same: the command's own, 128 and the signal, 124 for the time
    /// limit, 130 for a cancellation.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Exited(code) => u8::try_from(*code & 0xff).unwrap_or(u8::MAX),
            Self::Signalled(signal) => u8::try_from(128 + (*signal & 0x7f)).unwrap_or(u8::MAX),
            Self::TimedOut => 124,
            Self::Cancelled => 130,
        }
    }

    /// Whether it ended by itself with code 0.
    pub fn is_success(&self) -> bool {
        *self == Self::Exited(0)
    }
}

/// What was really in force while the command ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enforced {
    /// What makes the whole tree end.
    pub tree: Tree,
    /// The namespaces it was in. With [`Namespace::Mount`] only readable folders existed, read-only
    /// except for the writable ones.
    pub namespaces: Layer<Vec<Namespace>>,
    /// Landlock, with the version of its interface that was used.
    pub landlock: Layer<i32>,
    /// The filter of system calls.
    pub seccomp: Layer<()>,
    /// Whether root's privileges were taken away.
    pub privileges_dropped: Layer<()>,
    /// The limits in force, and by which means.
    pub limits: Layer<Vec<EnforcedLimit>>,
}

impl Enforced {
    /// Nothing but an end of the tree by this means.
    pub(crate) fn nothing(tree: Tree) -> Self {
        Self {
            tree,
            namespaces: Layer::NotAsked,
            landlock: Layer::NotAsked,
            seccomp: Layer::NotAsked,
            privileges_dropped: Layer::NotAsked,
            limits: Layer::NotAsked,
        }
    }

    /// Whether writing outside was prevented. Landlock alone does it from version 3 on; before, a
    /// file outside could be truncated.
    pub fn writing_confined(&self) -> bool {
        matches!(&self.namespaces, Layer::InForce(all) if all.contains(&Namespace::Mount))
            || matches!(self.landlock, Layer::InForce(abi) if abi >= 3)
    }

    /// Whether reading was limited to the system's folders, the toolchains, and what the policy names.
    pub fn reading_confined(&self) -> bool {
        matches!(&self.namespaces, Layer::InForce(all) if all.contains(&Namespace::Mount))
            || matches!(self.landlock, Layer::InForce(_))
    }

    /// Whether the network was out of reach.
    pub fn network_confined(&self) -> bool {
        matches!(&self.namespaces, Layer::InForce(all) if all.contains(&Namespace::Network))
            || matches!(self.seccomp, Layer::InForce(()))
    }

    /// Why a layer that was asked for is missing, one reason per layer.
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

/// A limit that was really in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnforcedLimit {
    /// What is limited.
    pub resource: LimitedResource,
    /// The most of it: a number of processes, or bytes.
    pub most: u64,
    /// What enforces it.
    pub by: LimitMeans,
}

/// What a limit is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LimitedResource {
    /// Processes at a time; for ordinary users threads as well.
    Processes,
    /// Private memory of all processes together.
    TotalMemory,
    /// Private writable memory of one process.
    ProcessMemory,
    /// The size of one file.
    FileSize,
}

/// What enforces a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LimitMeans {
    /// The kernel, by a control group of all processes.
    ControlGroup,
    /// The kernel, by a resource limit of each process.
    ResourceLimit,
    /// The supervisor, which looks 50 times a second and kills everything.
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
    /// Nobody asked for it.
    NotAsked,
    /// In force.
    InForce(T),
    /// Asked for, but not or not wholly in force, for this reason.
    Missing(String),
}

impl<T> Layer<T> {
    /// Why it is missing.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Missing(reason) => Some(reason),
            Self::NotAsked | Self::InForce(_) => None,
        }
    }
}

/// What makes the whole tree of processes end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tree {
    /// A process namespace: the kernel kills what is in it.
    Namespace,
    /// A supervisor to which orphans return, and which kills them.
    Supervisor,
    /// The process group only: what left it survives. Where the program has no stages.
    ProcessGroup,
}

/// A kind of namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Namespace {
    /// Users: only the calling user exists in it.
    User,
    /// Mounts.
    Mount,
    /// Processes.
    Process,
    /// System V and POSIX message queues, semaphores and shared memory.
    Ipc,
    /// The host name.
    HostName,
    /// Network devices and addresses.
    Network,
}
