//! [`Workspace`]: the sandbox that tools act in.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cleveragents_domain::{CheckpointNumber, ToolInvocationId, TreePath};
use cleveragents_process::{Cancel, Finished, Stream};
use cleveragents_sandbox::{Change, Git, Root};

use super::PortError;
use crate::capability::Access;
use crate::name::ToolName;
use crate::spec::Slot;

/// One part of a sandbox.
#[derive(Debug, Clone)]
pub struct Part {
    /// What it is called in the sandbox.
    pub alias: String,
    /// Its folder, opened; nothing outside can be reached through it.
    pub root: Arc<Root>,
    /// Whether nothing in it may be changed.
    pub is_read_only: bool,
}

/// A path in one part of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartPath {
    /// The part.
    pub alias: String,
    /// The path in it.
    pub path: TreePath,
}

impl fmt::Display for PartPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.alias, self.path)
    }
}

/// Whose doing changes are.
#[derive(Debug, Clone, Copy)]
pub struct Attribution<'a> {
    /// The tool.
    pub tool: &'a ToolName,
    /// The call.
    pub invocation: ToolInvocationId,
}

/// What a capture found.
#[derive(Debug, Clone, Default)]
pub struct Captured {
    /// Each changed path, with the alias of its part.
    pub changes: Vec<(String, Change)>,
    /// Devices, sockets and pipes that were found and not captured.
    pub special: Vec<String>,
}

/// A command to run in the sandbox.
#[derive(Debug, Clone)]
pub struct Command {
    /// The program.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// The part to run in; the only one, or the folder of all, when not given.
    pub part: Option<String>,
    /// The folder inside the part; its top when not given.
    pub folder: Option<TreePath>,
    /// Variables besides the clean environment.
    pub environment: Vec<(OsString, OsString)>,
    /// What it reads.
    pub input: Vec<u8>,
    /// How long it may take.
    pub time: Duration,
    /// Whether it may write in the sandbox. Its temporary folder it may always write.
    pub access: Access,
    /// Whether it may use the network.
    pub network: bool,
    /// Files and folders outside the sandbox that it may read: the code that the user registered.
    pub readable: Vec<PathBuf>,
}

/// The folders of a sandbox that a confined program may use for a call, such as an MCP server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkspaceFolders {
    /// The folder of each part.
    pub roots: Vec<PathBuf>,
    /// What it may read and write.
    pub writable: Vec<PathBuf>,
    /// What it may read besides.
    pub readable: Vec<PathBuf>,
}

impl WorkspaceFolders {
    /// The folders of these parts and nothing else.
    pub fn of(parts: &[Part]) -> Self {
        let mut folders = Self::default();
        for part in parts {
            let root = part.root.path().to_owned();
            folders.roots.push(root.clone());
            if part.is_read_only {
                folders.readable.push(root);
            } else {
                folders.writable.push(root);
            }
        }
        folders
    }
}

/// The sandbox that tools act in.
///
/// Calls may come from several threads at a time.
pub trait Workspace: Send + Sync {
    /// Its parts; at least one.
    fn parts(&self) -> &[Part];

    /// The folders that a program may use for calls in this sandbox, those of its repositories included.
    fn folders(&self) -> WorkspaceFolders {
        WorkspaceFolders::of(self.parts())
    }

    /// The part that fills a slot of a tool: the one named, or the one whose resource has the type of
    /// the slot or a type that inherits from it. `None` when there is none.
    fn bound(&self, slot: &Slot, named: Option<&str>) -> Result<Option<&Part>, PortError>;

    /// Whether [`checkpoint`](Self::checkpoint) can work here.
    fn has_checkpoints(&self) -> bool;

    /// Whether a checkpoint is to be made before every call that may change something.
    fn marks_before(&self) -> bool {
        true
    }

    /// Makes a state to which the sandbox can be taken back.
    fn checkpoint(&self, reason: &str) -> Result<CheckpointNumber, PortError>;

    /// Records what changed at these paths, with a checkpoint behind it where that is wanted. The cost
    /// must not grow with the tree.
    fn capture_paths(&self, by: Attribution<'_>, paths: &[PartPath])
    -> Result<Captured, PortError>;

    /// Finds and records everything that changed, in the same way.
    fn capture_all(&self, by: Attribution<'_>) -> Result<Captured, PortError>;

    /// Runs a command, confined to the sandbox: it can write in parts that are not read-only, and in
    /// none with [`Access::Reads`]. What it prints goes to `hear` as it comes and is not kept.
    /// Recording what it changed is not its business.
    fn exec(
        &self,
        command: &Command,
        hear: &dyn Fn(Stream, &[u8]),
        cancel: &Cancel,
    ) -> Result<Finished, PortError>;

    /// The commit that the copy of a part was made from; `None` for a part without a repository.
    fn base_commit(&self, _alias: &str) -> Option<String> {
        None
    }

    /// Git for the repository of a part, disarmed and unable to write outside the sandbox; `None`
    /// for a part that has none.
    fn git(&self, alias: &str) -> Result<Option<Git>, PortError>;
}
