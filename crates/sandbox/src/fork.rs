//! Forks: copies of the members of a sandbox in their current state, for a second sandbox whose result is merged back.

use std::collections::BTreeMap;

use cleveragents_domain::{FileState, TreePath};

use crate::copy::copy_tree;
use crate::error::{Error, PathContext as _};
use crate::git::{GitBase, exclude_dependencies, fork_worktree, open_checkout, write_list};
use crate::manifest::PathRecord;
use crate::member::{Base, Folders, Member};

impl Folders {
    /// Creates a copy of a member of another sandbox. `changed` contains the paths that differ from the base of that
    /// member, with their recorded states. No process may write to the member meanwhile.
    ///
    /// The history of the copy starts at the state of the member. The first capture reads the paths in `changed` and
    /// stores their content.
    pub fn fork_member(
        &self,
        id: &str,
        original: &Member,
        changed: &BTreeMap<TreePath, FileState>,
    ) -> Result<Member, Error> {
        let location = match original.base {
            // The copy must not read the user's folder, because its content may differ from the member's.
            Base::Directory => original.root.as_path(),
            _ => original.location.as_path(),
        };
        let base = original.base.clone();
        let mut member = self.member(&original.alias, location, original.is_read_only, base);
        std::fs::create_dir_all(&member.state).during("making", &member.state)?;
        member.base = match &original.base {
            Base::Git(base) => {
                member.fork_git(id, original, base)?;
                member.learn_states(changed)?;
                original.base.clone()
            }
            Base::Directory => member.create_directory()?,
            Base::File | Base::Sqlite { .. } | Base::Postgres => {
                std::fs::create_dir(&member.root).during("making", &member.root)?;
                copy_tree(
                    &original.work_root()?,
                    &member.work_root()?,
                    original.extent(),
                )?;
                member.record_file(original.base.clone())?
            }
        };
        Ok(member)
    }
}

impl Member {
    /// Copies the worktree of another sandbox into a worktree with a repository of its own. The repository starts at
    /// the base commit, so the changes of the other sandbox are uncommitted edits in it.
    fn fork_git(&self, id: &str, original: &Self, base: &GitBase) -> Result<(), Error> {
        let checkout = open_checkout(&self.location)?;
        checkout.check_base(base)?;
        std::fs::create_dir(&self.root).during("making", &self.root)?;
        copy_tree(
            &original.work_root()?,
            &self.work_root()?,
            original.extent(),
        )?;
        fork_worktree(
            &checkout,
            base,
            &self.root,
            &self.sandbox_git_dir,
            id,
            &self.alias,
        )?;
        let index = original.base_index();
        std::fs::copy(&index, self.base_index()).during("copying", &index)?;
        write_list(&self.base_index(), checkout.object_name_length())
            .during("reading", &self.base_index())?;
        exclude_dependencies(&self.sandbox_git_dir, &base.dependencies)?;
        self.write_first_manifest_of_copy()?;
        self.fork_dependencies(original)
    }

    /// Records paths whose content is not that of the base.
    fn learn_states(&self, changed: &BTreeMap<TreePath, FileState>) -> Result<(), Error> {
        let learned = changed
            .iter()
            .map(|(path, state)| {
                let record = PathRecord::recorded(state.mode, state.size, state.hash);
                (path.clone(), Some(record))
            })
            .collect();
        let place = self.manifest_path();
        crate::manifest::Manifest::learn_at(&place, learned, 0).during("writing", &place)
    }
}
