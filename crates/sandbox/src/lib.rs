//! Copies of resources in which agents do what they like: what changed is found by looking, can be
//! taken back exactly, and reaches the real resources wholly or not at all.
//!
//! [`Folders::create_member`] makes a copy, [`Member::capture`] finds changes, [`Member::restore`]
//! goes back, [`apply::plan`] and [`apply::ApplyPlan::carry_out`] carry the result to the user. Nothing
//! here knows a database of the program's: `cleveragents-application` records what happens.

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
mod regular;
mod restore;
mod scan;
mod server;
mod state;
mod stop;

pub use beneath::{Existing, Root, Stat, is_own_temporary};
pub use by_products::is_by_product;
pub use capture::Change;
pub use diff::patch;
pub use error::Error;
pub use git::{Answer as GitAnswer, Git, GitBase, Landing, Streamed as GitStreamed};
pub use member::{Base, Capture, Folders, Member, Source};
pub use objects::LARGEST_KEPT;
pub use regular::{Links, read_regular};
pub use server::{Answer, Connection, SCRIPT, Servers, StatementRun};
pub use stop::Stop;

/// Removes a folder and all it holds, also where its folders may not be written; nothing there is fine.
pub fn remove_folder(folder: &std::path::Path) -> std::io::Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        // Folders that may not be written, or nested deeper than files can be open at once.
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
