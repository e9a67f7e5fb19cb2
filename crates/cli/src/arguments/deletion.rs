//! Options of commands that delete.

use clap::Args;

/// Options of every command that deletes.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct Deletion {
    /// Do not ask for confirmation
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) rehearsal: Rehearsal,
}

/// Option of commands that delete without asking.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct Rehearsal {
    /// Only show what would be removed
    #[arg(long)]
    pub(crate) dry_run: bool,
}
