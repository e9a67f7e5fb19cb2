//! `agents sandbox`: copies to work in, and the way of the work to the real files.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

#[derive(Debug, Subcommand)]
pub(crate) enum Sandbox {
    /// Make a sandbox: a copy of folders, repositories or databases to work in
    Create(SandboxCreate),
    /// List sandboxes
    List {
        /// Those that were applied or discarded too
        #[arg(long)]
        all: bool,
    },
    /// Show a sandbox, its parts and its checkpoints
    Show {
        #[command(flatten)]
        sandbox: SandboxReference,
    },
    /// Run a command in a sandbox, confined to it, and record what it changes
    Exec(SandboxExec),
    /// Ask a PostgreSQL database as it will be, and take everything back
    Query(SandboxQuery),
    /// Show what a sandbox changed, as a patch
    Diff(SandboxDiff),
    /// Remember the state of a sandbox, to return to it
    Checkpoint {
        #[command(flatten)]
        sandbox: SandboxReference,
        /// What to call it
        #[arg(long)]
        label: Option<String>,
    },
    /// Take a sandbox back to a checkpoint
    Rollback(SandboxRollback),
    /// Take the last rollback back
    Redo {
        #[command(flatten)]
        sandbox: SandboxReference,
    },
    /// Carry the changes to the real files, all of them or none
    Apply(SandboxApply),
    /// Throw a sandbox and its changes away
    Discard {
        #[command(flatten)]
        sandbox: SandboxReference,
        /// Do not ask for confirmation
        #[arg(long, short = 'y')]
        yes: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct SandboxReference {
    /// The sandbox: its name or id
    #[arg(value_name = "SANDBOX")]
    pub(crate) reference: String,
}

#[derive(Debug, Args)]
#[command(
    after_help = "A git repository becomes a worktree of its last commit, a folder or file a copy, an SQLite
database a copy of its content, a PostgreSQL database a file of SQL that runs in one transaction
when it is applied. The real ones are not touched before `agents sandbox apply`.

Examples:
  agents sandbox create fix --path .
  agents sandbox create fix --path ~/code/app --path ~/data/app.db
  agents sandbox create fix --project local/shop"
)]
pub(crate) struct SandboxCreate {
    /// What to call it: letters, digits, `.`, `_` and `-`
    pub(crate) name: String,
    /// A repository, folder, file or database; may be repeated
    #[arg(long, value_name = "PATH")]
    pub(crate) path: Vec<PathBuf>,
    /// A registered resource; may be repeated
    #[arg(long, value_name = "RESOURCE")]
    pub(crate) resource: Vec<String>,
    /// All resources of a project
    #[arg(long, value_name = "PROJECT")]
    pub(crate) project: Option<String>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "The command may write in the sandbox, its temporary folder and its private home only. It reads those, the
system's folders and the toolchains of your home. Options allow more: `--read` and `--writable` for folders,
`--network` for the network, `--env` for variables, since it starts with a clean environment. All
that it started ends with it. The exit code is the command's own; 124 means that it ran out of time.

Examples:
  agents sandbox exec fix -- cargo test
  agents sandbox exec fix -t -- bash
  agents sandbox exec fix --read ~/data -- ./analyze ~/data
  agents sandbox exec fix --network --env CODEX_API_KEY -- \\
      codex exec --dangerously-bypass-approvals-and-sandbox 'fix the tests'

The last example switches off the inner sandbox of Codex, which cannot start inside this one. To use your Codex
login instead of a key, give its folder: --writable ~/.codex --env CODEX_HOME=$HOME/.codex"
)]
pub(crate) struct SandboxExec {
    #[command(flatten)]
    pub(crate) sandbox: SandboxReference,
    /// Run in this part of the sandbox
    #[arg(long = "in", value_name = "PART")]
    pub(crate) part: Option<String>,
    /// Give the command the terminal, for programs that talk to a person
    #[arg(long, short = 't')]
    pub(crate) tty: bool,
    /// Allow the network
    #[arg(long)]
    pub(crate) network: bool,
    /// Pass on a variable, or set one with NAME=VALUE; may be repeated
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<OsString>,
    /// Allow reading and writing in a folder outside; may be repeated
    #[arg(long, value_name = "DIR")]
    pub(crate) writable: Vec<PathBuf>,
    /// Allow reading a file or folder outside; may be repeated
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
    /// End the command after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) timeout: Option<u64>,
    /// Run it even on a machine that cannot confine it
    #[arg(long)]
    pub(crate) unconfined: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "One transaction is begun on the real database, `changes.sql` runs, then this SQL, and everything
is rolled back. With --record the SQL is added to `changes.sql` if it ran well. Others may have to
wait for the locks of a statement until the command ends. Without SQL, standard input is read.

Examples:
  agents sandbox query fix 'SELECT count(*) FROM orders'
  agents sandbox query fix --record \"UPDATE orders SET state = 'new' WHERE state IS NULL\"
  agents sandbox query fix --record < migration.sql"
)]
pub(crate) struct SandboxQuery {
    #[command(flatten)]
    pub(crate) sandbox: SandboxReference,
    /// Ask the database of this part
    #[arg(long, value_name = "PART")]
    pub(crate) part: Option<String>,
    /// Add the SQL to what will be applied
    #[arg(long)]
    pub(crate) record: bool,
    /// Show so many rows at most
    #[arg(long, value_name = "ROWS", default_value_t = 1000)]
    pub(crate) limit: usize,
    /// The statements; the rows of the last one are shown
    #[arg(value_name = "SQL")]
    pub(crate) sql: Vec<String>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Into a file or a pipe the patch alone is written, for `git apply`.

Examples:
  agents sandbox diff fix
  agents sandbox diff fix --stat
  agents sandbox diff fix > fix.patch"
)]
pub(crate) struct SandboxDiff {
    #[command(flatten)]
    pub(crate) sandbox: SandboxReference,
    /// Only the names of what changed
    #[arg(long)]
    pub(crate) stat: bool,
    /// Only this part
    #[arg(long, value_name = "PART")]
    pub(crate) part: Option<String>,
    /// Only what changed since this checkpoint, by number or label
    #[arg(long, value_name = "CHECKPOINT")]
    pub(crate) since: Option<String>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Without --to it goes to the last checkpoint that differs. The state before is kept as a
checkpoint too, so nothing is lost: `agents sandbox redo` returns to it.

Examples:
  agents sandbox rollback fix
  agents sandbox rollback fix --to 3 --dry-run"
)]
pub(crate) struct SandboxRollback {
    #[command(flatten)]
    pub(crate) sandbox: SandboxReference,
    /// The checkpoint, by number or label
    #[arg(long, value_name = "CHECKPOINT")]
    pub(crate) to: Option<String>,
    /// Only show what would change
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Your own changes that are not committed stay. Where both sides changed the same file nothing is
applied and the conflicts are listed (exit code 4). If the machine stops halfway, the next sandbox
command finishes or undoes it.

Examples:
  agents sandbox apply fix --dry-run
  agents sandbox apply fix --message 'Fix the race in the cache'
  agents sandbox apply fix --as merge"
)]
pub(crate) struct SandboxApply {
    #[command(flatten)]
    pub(crate) sandbox: SandboxReference,
    /// Only show what would happen
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// How the result arrives on a git branch
    #[arg(long = "as", value_enum, default_value_t = ApplyAs::Commit, value_name = "FORM")]
    pub(crate) form: ApplyAs,
    /// The message of the git commit
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
