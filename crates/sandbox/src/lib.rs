//! Copies of resources in which agents do what they like: what changed is found by looking, can be
//! taken back exactly, and reaches the real resources wholly or not at all.
//!
//! [`Folders::create_member`] makes a copy, [`Member::capture`] finds changes, [`Member::restore`]
//! goes back, [`apply::plan`] and [`apply::ApplyPlan::carry_out`] carry the result to the user. Nothing
//! here knows a database of the program's: `cleveragents-engine` records what happens.

pub mod apply;
mod beneath;
mod by_products;
mod capture;
mod copy;
mod database;
mod diff;
mod error;
mod fault;
mod git;
mod manifest;
mod member;
mod objects;
mod path_text;
mod readable;
mod restore;
mod scan;
mod server;
mod state;

pub use beneath::{Existing, Root, Stat, is_own_temporary};
pub use by_products::is_by_product;
pub use capture::Change;
pub use diff::patch;
pub use error::Error;
pub use git::{Answer as GitAnswer, Git, GitBase, Landing, Streamed as GitStreamed};
pub use member::{Base, Capture, Folders, Member, Source};
pub use server::{Answer, Connection, SCRIPT, Servers, StatementRun};

/// Removes a folder and all it holds, also where its folders may not be written; nothing there is fine.
pub fn remove_folder(folder: &std::path::Path) -> std::io::Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            loosen(folder)?;
            std::fs::remove_dir_all(folder)
        }
        other => other,
    }
}

/// Makes every folder in a folder writable.
fn loosen(folder: &std::path::Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700))?;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            loosen(&entry.path())?;
        }
    }
    Ok(())
}
