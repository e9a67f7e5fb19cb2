//! [`Workspace`]: the sandbox in which tools run.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cleveragents_domain::{CheckpointNumber, ToolInvocationId, TreePath};
use cleveragents_process::{BackgroundCommands, Cancel, CommandResult, Stream};
use cleveragents_sandbox::{Change, Git, Root};

use super::PortError;
use crate::capability::Access;
use crate::name::ToolName;
use crate::spec::Slot;

/// One part of a sandbox.
#[derive(Debug, Clone)]
pub struct Part {
    /// Name of the part in the sandbox.
    pub alias: String,
    /// The opened directory of the part, through which no file outside it can be accessed.
    pub root: Arc<Root>,
    /// Whether changes in the part are forbidden.
    pub is_read_only: bool,
}

/// A path in one part of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartPath {
    pub alias: String,
    /// Path relative to the root of the part.
    pub path: TreePath,
}

impl fmt::Display for PartPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.alias, self.path)
    }
}

/// The call that made a change.
#[derive(Debug, Clone, Copy)]
pub struct Attribution<'a> {
    /// The tool that ran.
    pub tool: &'a ToolName,
    /// Id of the record of the call in the ledger.
    pub invocation: ToolInvocationId,
}

/// Changes in a sandbox that [`Workspace::capture_paths`] or [`Workspace::capture_all`] recorded.
#[derive(Debug, Clone, Default)]
pub struct CapturedChanges {
    /// Changes with the alias of their part.
    pub changes: Vec<(String, Change)>,
    /// Devices, sockets and pipes, which are not captured.
    pub special: Vec<String>,
}

/// A command to run in the sandbox.
#[derive(Debug, Clone)]
pub struct Command {
    /// A path, or a name to search in PATH.
    pub program: OsString,
    /// Arguments of the program.
    pub arguments: Vec<OsString>,
    /// The part to run in. Default: the only part, or the parent directory of all parts.
    pub part: Option<String>,
    /// The working directory inside the part. Default: its root.
    pub folder: Option<TreePath>,
    /// Variables to add to the clean environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Standard input.
    pub input: Vec<u8>,
    /// Time limit.
    pub time: Duration,
    /// Access to the sandbox. The temporary directory of the command is always writable.
    pub access: Access,
    /// Whether the command may use the network.
    pub network: bool,
    /// Files and directories outside the sandbox that the command may read: code that the user registered.
    pub readable: Vec<PathBuf>,
}

/// Directories of a sandbox that a confined program, such as an MCP server, may use for a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkspaceFolders {
    /// The root of each part.
    pub roots: Vec<PathBuf>,
    /// Readable and writable paths.
    pub writable: Vec<PathBuf>,
    /// Paths that are only readable.
    pub readable: Vec<PathBuf>,
}

impl WorkspaceFolders {
    /// The directories of these parts only.
    pub fn from_parts(parts: &[Part]) -> Self {
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

/// The sandbox in which tools run.
///
/// Methods may be called from several threads at the same time.
pub trait Workspace: Send + Sync {
    /// The parts of the sandbox; at least one.
    fn parts(&self) -> &[Part];

    /// Directories that a program may use for calls in this sandbox, including directories of its repositories.
    fn folders(&self) -> WorkspaceFolders {
        WorkspaceFolders::from_parts(self.parts())
    }

    /// Finds the part that fills a slot of a tool: the named part, or the part whose resource has the type of
    /// the slot or a type that inherits from it. `None` when no part matches.
    fn bound(&self, slot: &Slot, named: Option<&str>) -> Result<Option<&Part>, PortError>;

    /// Returns whether the sandbox supports [`checkpoint`](Self::checkpoint).
    fn has_checkpoints(&self) -> bool;

    /// Returns whether a checkpoint is required before every writing call.
    fn requires_checkpoint_before_writing(&self) -> bool {
        true
    }

    /// Creates a checkpoint to which the sandbox can be rolled back.
    fn checkpoint(&self, reason: &str) -> Result<CheckpointNumber, PortError>;

    /// Records changes at these paths, followed by a checkpoint if the sandbox is configured for it.
    /// The cost must not depend on the size of the tree.
    fn capture_paths(
        &self,
        by: Attribution<'_>,
        paths: &[PartPath],
    ) -> Result<CapturedChanges, PortError>;

    /// Finds all changes in the sandbox and records them like [`capture_paths`](Self::capture_paths).
    fn capture_all(&self, by: Attribution<'_>) -> Result<CapturedChanges, PortError>;

    /// Runs a command confined to the sandbox. The command can write in parts that are not read-only; with
    /// [`Access::Reads`], in no part. Passes its output to `on_output` without storing it. Does not record
    /// the changes of the command.
    fn exec(
        &self,
        command: &Command,
        on_output: &dyn Fn(Stream, &[u8]),
        cancel: &Cancel,
    ) -> Result<CommandResult, PortError>;

    /// Background commands in this sandbox; `None` if it supports none.
    fn background(&self) -> Option<&dyn BackgroundWorkspace> {
        None
    }

    /// The commit from which a part was copied; `None` for a part without a repository.
    fn base_commit(&self, _alias: &str) -> Option<String> {
        None
    }

    /// Git for the repository of a part. It runs no hooks and cannot write outside the sandbox. `None`
    /// for a part without a repository.
    fn git(&self, alias: &str) -> Result<Option<Git>, PortError>;
}

/// A sandbox that runs commands in the background.
pub trait BackgroundWorkspace: Send + Sync {
    /// Starts a command, confined like [`Workspace::exec`] confines it, and returns its number. The command and the
    /// later commands in the sandbox share a network. `cancel` kills it.
    fn start(&self, owner: &str, command: &Command, cancel: &Cancel) -> Result<u32, PortError>;

    /// The commands that were started.
    fn commands(&self) -> &BackgroundCommands;
}
