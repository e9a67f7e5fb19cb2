//! `agents sandbox`: isolated copies, and applying their changes.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::Deletion;

#[derive(Debug, Subcommand)]
pub(crate) enum Sandbox {
    /// Create a sandbox: an isolated copy of folders, repositories or databases
    Create(SandboxCreate),
    /// List sandboxes
    #[command(after_help = "Examples:
  agents sandbox list
  agents sandbox list --all")]
    List {
        /// Also list applied and discarded sandboxes
        #[arg(long)]
        all: bool,
    },
    /// Show a sandbox, its parts and checkpoints
    #[command(after_help = "Example:
  agents sandbox show fix")]
    Show {
        #[command(flatten)]
        sandbox: SandboxReference,
    },
    /// Run a command confined to a sandbox, and record its changes
    Exec(SandboxExec),
    /// Query a PostgreSQL database with the pending changes, then roll back
    Query(SandboxQuery),
    /// Show the changes of a sandbox as a patch
    Diff(SandboxDiff),
    /// Create a checkpoint of a sandbox
    #[command(after_help = "Example:
  agents sandbox checkpoint fix --label 'before the rename'")]
    Checkpoint {
        #[command(flatten)]
        sandbox: SandboxReference,
        /// Label of the checkpoint
        #[arg(long)]
        label: Option<String>,
    },
    /// Roll a sandbox back to a checkpoint
    Rollback(SandboxRollback),
    /// Undo the last rollback
    #[command(after_help = "Example:
  agents sandbox redo fix")]
    Redo {
        #[command(flatten)]
        sandbox: SandboxReference,
    },
    /// Apply the changes to the real files atomically
    Apply(SandboxApply),
    /// Discard a sandbox and its changes
    #[command(after_help = "Examples:
  agents sandbox discard fix --dry-run
  agents sandbox discard fix --yes")]
    Discard {
        #[command(flatten)]
        sandbox: SandboxReference,
        #[command(flatten)]
        deletion: Deletion,
    },
}

#[derive(Debug, Args)]
pub(crate) struct SandboxReference {
    /// Sandbox: name or id
    #[arg(value_name = "SANDBOX")]
    pub(crate) reference: String,
}

#[derive(Debug, Args)]
#[command(
    after_help = "A git repository becomes a copy of your working tree with its own git folder, a folder or file
a copy, an SQLite database a copy of its content, a PostgreSQL database a file of SQL that runs in
one transaction when it is applied. The originals stay unchanged until `agents sandbox apply`.

Examples:
  agents sandbox create fix --path .
  agents sandbox create fix --path ~/code/app --path ~/data/app.db
  agents sandbox create fix --project local/shop"
)]
pub(crate) struct SandboxCreate {
    /// Name: letters, digits, `.`, `_` and `-`
    pub(crate) name: String,
    /// Repository, folder, file or database; may be repeated
    #[arg(long, value_name = "PATH")]
    pub(crate) path: Vec<PathBuf>,
    /// Registered resource; may be repeated
    #[arg(long, value_name = "RESOURCE")]
    pub(crate) resource: Vec<String>,
    /// All resources of a project
    #[arg(long, value_name = "PROJECT")]
    pub(crate) project: Option<String>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "The command can write only to the sandbox and its private folders (temporary files, home,
package caches). It can also read the system folders and the toolchains in your home. Options allow
more: `--read` and `--writable` for folders, `--network` for the network, `--env` for variables; it
starts with a clean environment. Its child processes end with it. The exit code is that of the
command; 124 means timeout.

Examples:
  agents sandbox exec fix -- cargo test
  agents sandbox exec fix -t -- bash
  agents sandbox exec fix --read ~/data -- ./analyze ~/data
  agents sandbox exec fix --network --env CODEX_API_KEY -- \\
      codex exec --dangerously-bypass-approvals-and-sandbox 'fix the tests'

The last example disables the inner sandbox of Codex, which cannot start inside this one. To use your Codex
login instead of a key, allow its folder: --writable ~/.codex --env CODEX_HOME=$HOME/.codex"
)]
pub(crate) struct SandboxExec {
    #[command(flatten)]
    pub(crate) sandbox: SandboxReference,
    /// Run in this part of the sandbox
    #[arg(long = "in", value_name = "PART")]
    pub(crate) part: Option<String>,
    /// Attach the terminal to the command, for interactive programs
    #[arg(long, short = 't')]
    pub(crate) tty: bool,
    /// Allow the network
    #[arg(long)]
    pub(crate) network: bool,
    /// Pass an environment variable, or set one with NAME=VALUE; may be repeated
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<OsString>,
    /// Allow reading and writing a folder outside the sandbox; may be repeated
    #[arg(long, value_name = "DIR")]
    pub(crate) writable: Vec<PathBuf>,
    /// Allow reading a file or folder outside the sandbox; may be repeated
    #[arg(long, value_name = "PATH")]
    pub(crate) read: Vec<PathBuf>,
    /// Maximum number of processes [default: 2048]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_processes: Option<u64>,
    /// Maximum memory of all processes in MiB [default: half of the machine's]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    pub(crate) max_memory: Option<u64>,
    /// Maximum size of a file in MiB [default: 4096]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    pub(crate) max_file: Option<u64>,
    /// Timeout in seconds
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) timeout: Option<u64>,
    /// Run even on a machine that cannot confine the command
    #[arg(long)]
    pub(crate) unconfined: bool,
    /// Command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Opens a transaction on the real database, runs `changes.sql`, then this SQL, and rolls
everything back. --record appends the SQL to `changes.sql` if it succeeded. Other clients may
wait for the locks of a statement until the command ends. Without SQL, reads standard input.

Examples:
  agents sandbox query fix 'SELECT count(*) FROM orders'
  agents sandbox query fix --record \"UPDATE orders SET state = 'new'\"
  agents sandbox query fix --record < migration.sql"
)]
pub(crate) struct SandboxQuery {
    #[command(flatten)]
    pub(crate) sandbox: SandboxReference,
    /// Query the database of this part
    #[arg(long, value_name = "PART")]
    pub(crate) part: Option<String>,
    /// Add the SQL to `changes.sql`, the changes to apply
    #[arg(long)]
    pub(crate) record: bool,
    /// Maximum number of rows to show
    #[arg(long, value_name = "ROWS", default_value_t = 1000)]
    pub(crate) limit: usize,
    /// SQL statements; the rows of the last one are shown
    #[arg(value_name = "SQL")]
    pub(crate) sql: Vec<String>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "To a file or a pipe, writes only the patch, for `git apply`.

Examples:
  agents sandbox diff fix
  agents sandbox diff fix --stat
  agents sandbox diff fix > fix.patch"
)]
pub(crate) struct SandboxDiff {
    #[command(flatten)]
    pub(crate) sandbox: SandboxReference,
    /// Only names of changed files
    #[arg(long)]
    pub(crate) stat: bool,
    /// Only this part
    #[arg(long, value_name = "PART")]
    pub(crate) part: Option<String>,
    /// Only changes since this checkpoint, number or label
    #[arg(long, value_name = "CHECKPOINT")]
    pub(crate) since: Option<String>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Without --to, rolls back to the last checkpoint that differs. The previous state is kept as a
checkpoint: `agents sandbox redo` returns to it.

Examples:
  agents sandbox rollback fix
  agents sandbox rollback fix --to 3 --dry-run"
)]
pub(crate) struct SandboxRollback {
    #[command(flatten)]
    pub(crate) sandbox: SandboxReference,
    /// Checkpoint, number or label
    #[arg(long, value_name = "CHECKPOINT")]
    pub(crate) to: Option<String>,
    /// Only show what would change
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Your uncommitted changes stay. If both sides changed the same place, nothing is
applied and the conflicts are listed (exit code 4). If the machine stops during the apply, the next
sandbox command finishes or undoes it.

Examples:
  agents sandbox apply fix --dry-run
  agents sandbox apply fix --message 'Fix the race in the cache'
  agents sandbox apply fix --as merge
  agents sandbox apply fix --branch fix/parser"
)]
pub(crate) struct SandboxApply {
    #[command(flatten)]
    pub(crate) sandbox: SandboxReference,
    /// Only show what would happen
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Form of the result on a git branch
    #[arg(long = "as", value_enum, default_value_t = ApplyAs::Commit, value_name = "FORM")]
    pub(crate) form: ApplyAs,
    /// Commit on a new branch; your files and current branch stay unchanged
    #[arg(long, value_name = "NAME", conflicts_with = "form")]
    pub(crate) branch: Option<String>,
    /// Commit message
    #[arg(long, short = 'm')]
    pub(crate) message: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ApplyAs {
    /// One commit on top of the branch
    Commit,
    /// A merge commit
    Merge,
}
