//! Sandboxes: copies of resources in which agents work without restriction. Changes are found by comparing the copy
//! with its recorded state. They can be undone exactly, and are applied to the real resources atomically.
//!
//! [`Folders::create_member`] creates a copy, [`Member::capture`] finds changes, [`Member::restore`] returns to an
//! earlier state. [`apply::plan`] and [`apply::ApplyPlan::execute`] apply the result. This crate does not access
//! the program's database: `cleveragents-application` records sandboxes and their histories.

pub mod apply;
mod by_products;
mod caches;
mod capture;
mod copy;
mod database;
mod dependencies;
mod diff;
mod error;
mod fork;
mod git;
mod kill_points;
mod manifest;
mod member;
mod merge;
mod objects;
mod own_temporary;
mod path_text;
mod readable;
mod regular_file;
mod restore;
mod scan;
mod scan_cancel;
mod scoped_dir;
mod server;
mod state;

pub use by_products::is_by_product;
pub use caches::{CacheUsage, ProjectCaches, UNUSED_AFTER, folder_bytes};
pub use capture::Change;
pub use dependencies::{DependencyFolder, DependencyPresence};
pub use diff::patch;
pub use error::Error;
pub use git::{BranchUpdate, Git, GitBase, GitOutput, StreamedOutput, check_repository_files};
pub use member::{Base, Capture, Folders, Member, Source};
pub use merge::{ForkMerge, MergeConflict, MergeTargets, Merger, Resolutions};
pub use objects::MAX_CONTENT_BYTES;
pub use own_temporary::is_own_temporary;
pub use regular_file::{Links, read_regular};
pub use scan_cancel::ScanCancel;
pub use scoped_dir::{ExistingTarget, Root, Stat};
pub use server::{Connection, QueryResult, SCRIPT, Servers, StatementRun};

/// Removes a folder with its content, even if its folders are not writable. Succeeds if the folder does
/// not exist.
pub fn remove_folder(folder: &std::path::Path) -> std::io::Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        // Happens with folders that are not writable, or nested deeper than the limit of open files.
        Err(error) => {
            if !std::fs::symlink_metadata(folder)?.is_dir() {
                return Err(error);
            }
            readable::open_own(folder)?.remove_all(None)?;
            std::fs::remove_dir(folder)
        }
        Ok(()) => Ok(()),
    }
}
