//! Creates the copy of a resource.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::{Base, Folders, Member, Source};
use crate::capture::write_first_manifest;
use crate::copy::{copy_tree, split_file};
use crate::database;
use crate::error::{Error, PathContext as _};
use crate::git::{
    GitBase, create_worktree, exclude_dependencies, open_checkout, unstage_edits, write_list,
};
use crate::manifest::write_original;
use crate::scan::Extent;

impl Folders {
    /// Creates the copy of a resource.
    pub fn create_member(
        &self,
        id: &str,
        alias: &str,
        source: Source,
        location: &Path,
        is_read_only: bool,
    ) -> Result<Member, Error> {
        let mut member = self.member(alias, location, is_read_only, Base::Directory);
        std::fs::create_dir_all(&member.state).during("making", &member.state)?;
        member.base = match source {
            Source::Git => member.create_git(id)?,
            Source::Directory => member.create_directory()?,
            Source::File | Source::Sqlite => member.create_file(source)?,
            Source::Postgres => member.create_server()?,
        };
        Ok(member)
    }
}

impl Member {
    fn create_git(&self, id: &str) -> Result<Base, Error> {
        let checkout = open_checkout(&self.location)?;
        checkout.check_readable()?;
        let base = checkout.snapshot(checkout.head()?, &self.temporary)?;
        create_worktree(
            &checkout,
            &base,
            &self.root,
            &self.sandbox_git_dir,
            id,
            &self.alias,
        )?;
        let index = self.sandbox_git_dir.join("index");
        std::fs::copy(&index, self.base_index()).during("copying", &index)?;
        write_list(&self.base_index(), checkout.object_name_length())
            .during("reading", &self.base_index())?;
        if base.snapshot.is_some() {
            unstage_edits(&self.root)?;
        }
        let untracked = checkout.untracked_content()?;
        let added = self.add_dependencies(&untracked.dependencies)?;
        exclude_dependencies(&self.sandbox_git_dir, &added.folders)?;
        let mut ignored = untracked.ignored;
        ignored.extend(added.left_out.iter().cloned());
        let base = GitBase {
            dependencies: added.folders.clone(),
            ignored,
            ..base
        };
        let git = Self {
            base: Base::Git(base.clone()),
            ..self.clone()
        };
        git.write_first_manifest_of_copy()?;
        git.keep_own_dependency_paths(&added)?;
        Ok(Base::Git(base))
    }

    pub(crate) fn create_directory(&self) -> Result<Base, Error> {
        std::fs::create_dir(&self.root).during("making", &self.root)?;
        let real = self.real_root()?;
        let copied = copy_tree(&real, &self.work_root()?, Extent::default())?;
        let unsettled = write_original(&self.original_path(), &copied)
            .during("writing", &self.original_path())?;
        self.write_first_manifest_of_copy()?;
        // For paths that changed shortly before the copy, the times of the original may not show a further change, so
        // their content is stored now.
        if !unsettled.is_empty() {
            let mut manifest = self.load_manifest()?;
            self.keep_pristine(&mut manifest, Some(&unsettled), &mut self.open_objects()?)?;
        }
        Ok(Base::Directory)
    }

    fn create_file(&self, source: Source) -> Result<Base, Error> {
        let what = || format!("`{}`", self.location.display());
        let Some((_, name)) = split_file(&self.location) else {
            return Err(Error::CannotSandbox {
                what: what(),
                reason: "it is not a file".to_owned(),
                hint: None,
            });
        };
        std::fs::create_dir(&self.root).during("making", &self.root)?;
        let copy = self.root.join(OsStr::from_bytes(name));
        let base = if source == Source::Sqlite {
            database::copy(&self.location, &copy)?;
            Base::Sqlite {
                digest: database::digest(&self.location, &self.temporary)?.to_string(),
            }
        } else {
            let original = Self {
                base: Base::File,
                ..self.clone()
            };
            copy_tree(
                &original.real_root()?,
                &self.work_root()?,
                original.extent(),
            )?;
            Base::File
        };
        self.record_file(base)
    }

    fn create_server(&self) -> Result<Base, Error> {
        std::fs::create_dir(&self.root).during("making", &self.root)?;
        self.create_script()?;
        self.record_file(Base::Postgres)
    }

    /// Records the single file of a member, with its content.
    pub(crate) fn record_file(&self, base: Base) -> Result<Base, Error> {
        let file = Self {
            base: base.clone(),
            ..self.clone()
        };
        file.write_first_manifest_of_copy()?;
        // The content of a single file is stored immediately.
        let mut objects = self.open_objects()?;
        let mut manifest = file.load_manifest()?;
        file.keep_pristine(&mut manifest, None, &mut objects)?;
        Ok(base)
    }

    pub(crate) fn write_first_manifest_of_copy(&self) -> Result<(), Error> {
        write_first_manifest(&self.manifest_path(), &self.work_root()?, self.extent())
            .during("walking", &self.root)
    }
}
