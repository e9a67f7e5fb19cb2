//! First content of a worktree: what git wrote from the commit, conversions included.

use std::path::Path;

use cleveragents_domain::{FileState, TreePath};

use super::joined;
use super::worktree::Checkout;
use crate::beneath::Root;
use crate::capture::BaseContent;
use crate::error::{During as _, Error};
use crate::manifest::Known;
use crate::objects::Objects;
use crate::state::read_state;

/// The commit a worktree was made from, as the index git made for it.
pub(crate) struct CommittedContent<'a> {
    pub(crate) checkout: &'a Checkout,
    /// A copy of that index.
    pub(crate) index: &'a Path,
    /// Where git may write files for a moment.
    pub(crate) temporary: &'a Path,
}

impl BaseContent for CommittedContent<'_> {
    fn keep(
        &self,
        paths: &[(TreePath, Known)],
        objects: &mut Objects,
    ) -> Result<Vec<Option<FileState>>, Error> {
        // An empty folder as work tree, so that attributes are those of the commit too.
        let folder =
            tempfile::tempdir_in(self.temporary).during("making a folder in", self.temporary)?;
        let git = self.checkout.scratch(self.index, folder.path());
        let input = joined(paths.iter().map(|(path, _)| path));
        // It also fails when a path is missing; the files that are there tell which.
        git.start_in(
            folder.path(),
            &["checkout-index", "-z", "--stdin", "--force", "--quiet"],
            &input,
        )?;
        let root = Root::open(folder.path()).during("opening", folder.path())?;
        paths
            .iter()
            .map(|(path, known)| {
                let found = read_state(&root, path, Some(objects))
                    .during("reading", &root.path().join(path.as_path()))?;
                Ok(found
                    .map(|(state, _)| state)
                    .filter(|state| state.kind() == known.mode.kind() && state.size == known.size)
                    .map(|state| FileState {
                        mode: known.mode,
                        ..state
                    }))
            })
            .collect()
    }
}
