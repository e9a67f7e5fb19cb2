//! Git repositories: worktrees of sandboxes, their original content, and the result as a commit.
//!
//! An apply is computed in the user's repository with a separate index. The git files of the worktree are never
//! trusted, because any command in the sandbox can write them.

mod base;
mod base_index;
mod blocking_files;
mod import;
mod lock;
mod program;
mod result;
mod shared_objects;
mod snapshot;
mod staging;
mod updates;
mod worktree;

pub(crate) use base::CommittedContent;
pub(crate) use base_index::write_list;
pub use blocking_files::check_repository_files;
pub(crate) use lock::{IndexLock, hash_file};
pub(crate) use program::object_folder;
pub use program::{Git, GitOutput, StreamedOutput};
pub use result::BranchUpdate;
pub(crate) use result::{Blob, GitPlan, GitRequest, plan_result};
pub(crate) use shared_objects::{shared_config, shared_objects};
pub(crate) use snapshot::included_edits;
pub(crate) use updates::Update;
pub use worktree::GitBase;
pub(crate) use worktree::{
    Checkout, create_worktree, exclude_dependencies, fork_worktree, is_read_by_git, open_checkout,
    remove_worktree, unstage_edits, write_link,
};

/// Splits the output of git with `-z`.
pub(crate) fn records(printed: &[u8]) -> impl Iterator<Item = &[u8]> {
    printed
        .split(|byte| *byte == 0)
        .filter(|record| !record.is_empty())
}

/// Joins paths as input of git with `-z`.
pub(crate) fn joined<'a>(
    paths: impl IntoIterator<Item = &'a cleveragents_domain::TreePath>,
) -> Vec<u8> {
    let mut input = Vec::new();
    for path in paths {
        input.extend_from_slice(path.as_bytes());
        input.push(0);
    }
    input
}
