//! [`Member`]: one resource in a sandbox, its copy and its recorded state.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use cleveragents_domain::{FileState, TreePath};
use serde::{Deserialize, Serialize};

use crate::capture::{
    BaseContent, CaptureResult, Change, capture, capture_paths, write_first_manifest,
};
use crate::copy::{CopyOriginal, copy_tree, split_file};
use crate::database;
use crate::error::{Error, PathContext as _};
use crate::git::{
    CommittedContent, GitBase, create_worktree, exclude_dependencies, included_edits,
    is_read_by_git, open_checkout, remove_worktree, unstage_edits, write_link, write_list,
};
use crate::manifest::{Manifest, PathRecord, write_original};
use crate::objects::Objects;
use crate::readable::open_own;
use crate::restore::{restore, wanted};
use crate::scan::Extent;
use crate::scan_cancel::ScanCancel;
use crate::scoped_dir::Root;
use crate::server::SCRIPT;
use crate::state::read_state;

/// Starting point of the copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Base {
    /// A commit of a git repository.
    Git(GitBase),
    /// State of a directory.
    Directory,
    /// State of a single file.
    File,
    /// The content of an SQLite database.
    Sqlite {
        /// Hash of the content.
        digest: String,
    },
    /// A PostgreSQL database. It is not copied: the member contains a script for it.
    Postgres,
}

/// Kind of a resource, which determines how it is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The root of a git repository.
    Git,
    Directory,
    /// A single file.
    File,
    /// An SQLite database file.
    Sqlite,
    /// A database on a PostgreSQL server.
    Postgres,
}

/// One resource in a sandbox.
#[derive(Debug, Clone)]
pub struct Member {
    /// Name in the sandbox.
    pub alias: String,
    /// Location of the real resource; for a database on a server, its address without the password.
    pub location: PathBuf,
    /// Whether applying its changes is forbidden.
    pub is_read_only: bool,
    /// Starting point of the copy.
    pub base: Base,
    /// Folder of the copy, in which agents work.
    pub root: PathBuf,
    /// Folder of the member's manifests.
    pub(crate) state: PathBuf,
    /// The repository of a worktree. It is untrusted, because git commands in the sandbox write it.
    pub(crate) sandbox_git_dir: PathBuf,
    objects: PathBuf,
    pub(crate) temporary: PathBuf,
}

/// The folders of one sandbox.
#[derive(Debug, Clone)]
pub struct Folders {
    /// The folder that contains the others.
    pub whole: PathBuf,
}

impl Folders {
    /// Folder of the copies, in which agents work.
    pub fn work_dir(&self) -> PathBuf {
        self.whole.join("work")
    }

    /// Manifests, stored content and journals. Commands in the sandbox cannot write here.
    pub fn state(&self) -> PathBuf {
        self.whole.join("state")
    }

    /// Temporary files of commands in the sandbox.
    pub fn temporary(&self) -> PathBuf {
        self.whole.join("tmp")
    }

    /// Home folder of commands in the sandbox, created at first use.
    pub fn home(&self) -> PathBuf {
        self.whole.join("home")
    }

    /// The folder for the package caches of all projects, next to the folder of the sandboxes.
    pub fn caches(&self) -> PathBuf {
        let sandboxes = self.whole.parent().unwrap_or(&self.whole);
        sandboxes.with_file_name("caches")
    }

    /// Content of the sandbox's history.
    pub fn objects(&self) -> PathBuf {
        self.state().join("objects")
    }

    fn git_dirs(&self) -> PathBuf {
        self.whole.join("git")
    }

    fn scratch(&self) -> PathBuf {
        self.state().join("scratch")
    }

    /// Creates all folders.
    pub fn create(&self) -> Result<(), Error> {
        use std::os::unix::fs::DirBuilderExt as _;
        for folder in [
            &self.whole,
            &self.work_dir(),
            &self.state(),
            &self.temporary(),
            &self.git_dirs(),
            &self.scratch(),
            &self.objects(),
        ] {
            std::fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)
                .during("making", folder)?;
        }
        Ok(())
    }

    /// One member of the sandbox.
    pub fn member(&self, alias: &str, location: &Path, is_read_only: bool, base: Base) -> Member {
        Member {
            alias: alias.to_owned(),
            location: location.to_owned(),
            is_read_only,
            base,
            root: self.work_dir().join(alias),
            state: self.state().join("parts").join(alias),
            sandbox_git_dir: self.git_dirs().join(alias),
            objects: self.objects(),
            temporary: self.scratch(),
        }
    }

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
    pub(crate) fn manifest_path(&self) -> PathBuf {
        self.state.join("manifest")
    }

    fn original_path(&self) -> PathBuf {
        self.state.join("original")
    }

    /// The index that git wrote for the worktree.
    pub(crate) fn base_index(&self) -> PathBuf {
        self.state.join("base.index")
    }

    pub(crate) fn open_objects(&self) -> Result<Objects, Error> {
        Objects::open(&self.objects).during("opening", &self.objects)
    }

    fn load_manifest(&self) -> Result<Manifest, Error> {
        let place = self.manifest_path();
        Manifest::load(&place)
            .map_err(|error| Error::Damaged(format!("`{}`: {error}", place.display())))
    }

    /// The folder of the copy. Writes through it are atomic.
    pub fn work_root(&self) -> Result<Root, Error> {
        open_own(&self.root)
            .and_then(|root| root.with_scratch(&self.temporary))
            .map_err(|error| {
                Error::Damaged(format!("its folder `{}`: {error}", self.root.display()))
            })
    }

    /// The folder of the real files.
    pub(crate) fn real_root(&self) -> Result<Root, Error> {
        let folder = match self.base {
            Base::File | Base::Sqlite { .. } => self.location.parent().unwrap_or(&self.location),
            Base::Git(_) | Base::Directory => &self.location,
            Base::Postgres => {
                let place = self.location.display();
                return Err(Error::Damaged(format!(
                    "`{place}` is not a folder of files"
                )));
            }
        };
        Root::open(folder).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => {
                let place = folder.display();
                Error::Damaged(format!("the original `{place}` does not exist any more"))
            }
            _ => Error::Files {
                action: "opening",
                path: folder.to_owned(),
                source: error,
            },
        })
    }

    fn file_name(&self) -> &[u8] {
        if self.base == Base::Postgres {
            return SCRIPT.as_bytes();
        }
        self.location.file_name().unwrap_or_default().as_bytes()
    }

    pub(crate) fn extent(&self) -> Extent<'_> {
        match self.base {
            Base::Git(_) => Extent {
                only: None,
                without: Some(b".git"),
            },
            Base::Directory => Extent::default(),
            Base::File | Base::Sqlite { .. } | Base::Postgres => Extent {
                only: Some(self.file_name()),
                without: None,
            },
        }
    }

    /// The path of a single file or database in its folder.
    fn file_path(&self) -> Result<TreePath, Error> {
        TreePath::from_bytes(self.file_name()).map_err(|error| Error::Damaged(error.to_string()))
    }

    /// Merges the write-ahead log or rollback journal next to the database into the database file.
    fn fold_database(&self, root: &Root) -> Result<(), Error> {
        let name = self.file_path()?;
        let Some(mut folded) = database::fold(root, &name, &self.temporary)? else {
            return Ok(());
        };
        let place = self.root.join(name.as_path());
        let found = root.stat(&name).during("reading", &place)?;
        let Some((mode, stat)) = found.and_then(|stat| Some((stat.mode?, stat))) else {
            return Ok(());
        };
        // The file is written before the log is removed: after a crash in between, replaying the log on the complete
        // file changes nothing.
        root.write_file(&name, mode, &mut folded.file)
            .and_then(|()| crate::copy::keep_owner(&root.parent(&name)?, name.name(), &stat))
            .during("writing", &place)?;
        self.remove_companions(root)
    }

    /// Removes the files that SQLite keeps next to the database, even if they are folders or links.
    fn remove_companions(&self, root: &Root) -> Result<(), Error> {
        let name = self.file_path()?;
        for suffix in database::BESIDE {
            let path = database::with_suffix(&name, suffix)?;
            let place = self.root.join(path.as_path());
            root.remove_all(Some(&path)).during("removing", &place)?;
        }
        Ok(())
    }

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

    /// Stores the original content of paths that the user has changed since the copy was made. The content is read from
    /// the copy, so call this before the copy can change.
    pub fn protect(&self) -> Result<(), Error> {
        if self.base != Base::Directory {
            return self.keep_pristine_paths(&self.changed_dependency_paths()?);
        }
        let real = self.real_root()?;
        let original = CopyOriginal {
            root: &real,
            manifest: &self.original_path(),
        };
        let changed = original.changed(self.extent())?;
        self.keep_pristine_paths(&changed)
    }

    /// Stores the content of the given paths that are still unchanged in the copy.
    pub(crate) fn keep_pristine_paths(&self, paths: &[TreePath]) -> Result<(), Error> {
        if paths.is_empty() {
            return Ok(());
        }
        let mut objects = self.open_objects()?;
        let mut manifest = self.load_manifest()?;
        self.keep_pristine(&mut manifest, Some(paths), &mut objects)
    }

    /// Paths of the user's files that have changed since the copy was created. Always empty for single files and
    /// databases.
    pub fn changed_at_source(&self) -> Result<Vec<TreePath>, Error> {
        match &self.base {
            Base::Git(base) => {
                let checkout = open_checkout(&self.location)?;
                let now = checkout.snapshot(checkout.head()?, &self.temporary)?;
                let mut changed = checkout.changed_between(base.start(), now.start())?;
                // Packages that the user installed since.
                let found = checkout.untracked_content()?.dependencies.into_iter();
                let is_left_out = |path: &TreePath| base.ignored.contains(&format!("{path}/"));
                changed.extend(
                    found.filter(|path| !self.is_in_dependencies(path) && !is_left_out(path)),
                );
                Ok(changed)
            }
            Base::Directory => {
                let real = self.real_root()?;
                let original = CopyOriginal {
                    root: &real,
                    manifest: &self.original_path(),
                };
                let mut changed = Vec::new();
                for (path, first) in original.pending(self.extent())? {
                    let is_unchanged = match first {
                        Some(first) => self.is_at_source(&real, &path, &first)?,
                        None => false,
                    };
                    if !is_unchanged {
                        changed.push(path);
                    }
                }
                Ok(changed)
            }
            Base::File | Base::Sqlite { .. } | Base::Postgres => Ok(Vec::new()),
        }
    }

    /// Whether the user's file at a path is still as it was copied. The change time alone does not decide, because it
    /// is not recorded for files that were written just before the copy was made.
    fn is_at_source(
        &self,
        real: &Root,
        path: &TreePath,
        first: &PathRecord,
    ) -> Result<bool, Error> {
        let place = self.location.join(path.as_path());
        let Some((source, stat)) = read_state(real, path, None).during("reading", &place)? else {
            return Ok(false);
        };
        let place = self.root.join(path.as_path());
        let copy = read_state(&self.work_root()?, path, None).during("reading", &place)?;
        Ok(first.has_same_modification(&stat) || copy.is_some_and(|(copy, _)| copy == source))
    }

    /// Stores the content of paths that are still unchanged in the copy.
    fn keep_pristine(
        &self,
        manifest: &mut Manifest,
        paths: Option<&[TreePath]>,
        objects: &mut Objects,
    ) -> Result<(), Error> {
        let root = self.work_root()?;
        let moment = crate::capture::now();
        let selected: Vec<TreePath> = if let Some(paths) = paths {
            paths.to_vec()
        } else {
            let entries = manifest.entries();
            let entries = entries.during("reading", &self.manifest_path())?;
            entries.into_iter().map(|(path, _)| path).collect()
        };
        for path in selected {
            let saved = manifest.get(&path);
            let Some(known) = saved.during("reading", &self.manifest_path())? else {
                continue;
            };
            if known.hash.is_some() || known.mode.kind() == cleveragents_domain::FileKind::Directory
            {
                continue;
            }
            let place = self.root.join(path.as_path());
            let current = read_state(&root, &path, Some(objects)).during("reading", &place)?;
            if let Some((state, stat)) = current
                && known.is_unchanged(&stat)
            {
                let record = PathRecord::seen(&stat, state.mode, Some(state.hash), moment);
                manifest.learn(path, Some(record));
            }
        }
        objects.sync().during("writing", &self.objects)?;
        manifest
            .save(&self.manifest_path())
            .during("writing", &self.manifest_path())
    }

    /// Number of history entries that the manifest includes.
    pub fn known_position(&self) -> Result<u64, Error> {
        let place = self.manifest_path();
        Manifest::position_at(&place)
            .map_err(|error| Error::Damaged(format!("`{}`: {error}", place.display())))
    }

    /// Finds all changes since the manifest was saved. `recent` contains the history entries that the manifest does not
    /// include yet. `stop` may cancel the scan; then nothing is recorded.
    pub fn capture(&self, recent: &[Change], stop: &ScanCancel) -> Result<Capture, Error> {
        let found = self.capture_changes(recent, stop);
        // A cancellation makes the current file operation fail; report it as an interruption.
        found.map_err(|error| match error {
            Error::Files { .. } if stop.is_due() => Error::Interrupted,
            other => other,
        })
    }

    fn capture_changes(&self, recent: &[Change], stop: &ScanCancel) -> Result<Capture, Error> {
        let root = self.work_root()?;
        if let Base::Sqlite { .. } = self.base {
            self.fold_database(&root)?;
        }
        let mut manifest = self.load_manifest()?;
        for change in recent {
            let record = change
                .after
                .map(|state| PathRecord::recorded(state.mode, state.size, state.hash));
            manifest.learn(change.path.clone(), record);
        }
        let mut objects = self.open_objects()?.stopping(stop);
        let first = BaseReader(self);
        let captured = capture(&root, self.extent(), manifest, &first, &mut objects, stop)?;
        if let Base::Git(_) = self.base {
            // Git opens files of these names without checking their kind, and a pipe would block it forever.
            for path in captured
                .special
                .iter()
                .filter(|path| is_read_by_git(path.name()))
            {
                let place = self.root.join(path.as_path());
                root.remove_special_file(path).during("removing", &place)?;
            }
        }
        Ok(Capture {
            changes: captured.changes.clone(),
            special: captured.special.clone(),
            captured,
        })
    }

    /// Finds the changes of single paths, at a cost that does not depend on the size of the tree. Includes the parent
    /// folders of the paths, because undoing or restoring a path needs them.
    pub fn capture_paths(
        &self,
        paths: &[TreePath],
        recent: &[Change],
    ) -> Result<Vec<Change>, Error> {
        let root = self.work_root()?;
        let place = self.manifest_path();
        let paths: Vec<TreePath> = with_folders(paths).into_iter().collect();
        let saved = Manifest::look_up(&place, &paths).during("reading", &place)?;
        let known = paths.into_iter().zip(saved).map(|(path, saved)| {
            let last = recent.iter().rev().find(|change| change.path == path);
            let record = match last {
                Some(change) => change
                    .after
                    .map(|state| PathRecord::recorded(state.mode, state.size, state.hash)),
                None => saved,
            };
            (path, record)
        });
        let known: HashMap<_, _> = known.collect();
        let mut objects = self.open_objects()?;
        capture_paths(&root, known, &BaseReader(self), &mut objects)
    }

    /// Records the result of a capture in the manifest. Call it after the history includes the result, up to
    /// `position`.
    pub fn remember(&self, capture: Capture, position: u64) -> Result<(), Error> {
        let mut manifest = capture.captured.manifest;
        if !capture.captured.is_news && manifest.position == position {
            return Ok(());
        }
        manifest.position = position;
        manifest
            .save(&self.manifest_path())
            .during("writing", &self.manifest_path())
    }

    /// Checks whether paths can be restored to earlier states, without changing them.
    pub fn check_restore(
        &self,
        targets: &BTreeMap<TreePath, Option<FileState>>,
    ) -> Result<(), Error> {
        wanted(&self.work_root()?, targets, &self.open_objects()?)?;
        Ok(())
    }

    /// Restores paths to earlier states and returns the changes.
    pub fn restore(
        &self,
        targets: &BTreeMap<TreePath, Option<FileState>>,
    ) -> Result<Vec<Change>, Error> {
        if let Base::Sqlite { .. } = self.base {
            // SQLite must not apply a log of the current content to the restored content.
            self.remove_companions(&self.work_root()?)?;
        }
        restore(&self.work_root()?, targets, &self.open_objects()?)
    }

    /// Records restored paths in the manifest. Call it after the history includes the changes, up to `position`. Their
    /// metadata is left to a later scan, when the file clock has advanced.
    pub fn remember_restored(&self, changes: &[Change], position: u64) -> Result<(), Error> {
        let to_record = |state: FileState| PathRecord::recorded(state.mode, state.size, state.hash);
        let learned = changes
            .iter()
            .map(|change| (change.path.clone(), change.after.map(to_record)))
            .collect();
        let place = self.manifest_path();
        Manifest::learn_at(&place, learned, position).during("writing", &place)
    }

    /// The content of a state of the history, from [`Self::open_objects`]. `None` if it is lost or damaged.
    pub(crate) fn content(
        &self,
        objects: &Objects,
        state: &FileState,
    ) -> Result<Option<Vec<u8>>, Error> {
        match objects.read(state.hash) {
            Err(_) if !objects.is_sound(state.hash) => Ok(None),
            other => other.during("reading", &self.objects),
        }
    }

    /// The content of a file in the history of the member. `None` if it is lost or damaged.
    pub fn file_content(&self, state: &FileState) -> Result<Option<Vec<u8>>, Error> {
        self.content(&self.open_objects()?, state)
    }

    /// Prepares the copy for git commands in it. Returns the additional folder that they write to; `None` if the member
    /// is not a worktree, or if its repository is missing.
    pub fn prepare_git(&self) -> Result<Option<&Path>, Error> {
        let Base::Git(_) = self.base else {
            return Ok(None);
        };
        if !self.sandbox_git_dir.is_dir() {
            return Ok(None);
        }
        write_link(&self.root, &self.sandbox_git_dir)?;
        Ok(Some(&self.sandbox_git_dir))
    }

    /// Files outside the sandbox that git in the sandbox must be able to read: the objects of the user's repository,
    /// and its configuration if it contains no secret.
    pub fn borrowed(&self) -> Vec<PathBuf> {
        match self.base {
            Base::Git(_) => {
                let mut paths = crate::git::shared_objects(&self.location);
                paths.extend(crate::git::shared_config(&self.location));
                paths.extend(self.linked_dependencies());
                paths
            }
            _ => Vec::new(),
        }
    }

    /// Git for the member's own repository: with configured commands disabled, bound to that repository, and unable to
    /// write outside the member. `None` if the member has no repository.
    pub fn git(&self) -> Result<Option<crate::Git>, Error> {
        let Some(sandbox_git_dir) = self.prepare_git()? else {
            return Ok(None);
        };
        let git = crate::Git::at(&self.root)
            .confined_to(
                vec![self.root.clone(), sandbox_git_dir.to_owned()],
                self.borrowed(),
            )
            .with("GIT_DIR", sandbox_git_dir)
            .with("GIT_COMMON_DIR", sandbox_git_dir)
            .with("GIT_WORK_TREE", &self.root)
            .with_commands_disabled()?;
        Ok(Some(git))
    }

    /// Paths with uncommitted edits of the user that the copy started with.
    pub fn included_edits(&self) -> Result<Vec<TreePath>, Error> {
        match &self.base {
            Base::Git(base) if base.snapshot.is_some() => {
                included_edits(&open_checkout(&self.location)?.git, base)
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Removes the copy and every trace of it in the user's repository.
    pub fn remove(&self, id: &str) -> Result<(), Error> {
        if let Base::Git(_) = self.base
            && self.location.exists()
        {
            match open_checkout(&self.location) {
                Ok(checkout) => return remove_worktree(&checkout, &self.root, id, &self.alias),
                // The repository is missing, and so is the reference that protected the commit.
                Err(Error::CannotSandbox { .. } | Error::Damaged(_)) => {}
                Err(error) => return Err(error),
            }
        }
        crate::remove_folder(&self.root).during("removing", &self.root)
    }

    /// Staging folder of an interrupted apply next to the real files, if it exists.
    pub fn left_staged(&self, id: &str) -> Option<PathBuf> {
        let folder = match self.base {
            Base::File | Base::Sqlite { .. } => self.location.parent()?,
            Base::Git(_) | Base::Directory => &self.location,
            Base::Postgres => return None,
        };
        let place = folder.join(crate::apply::stage_name(id));
        place.is_dir().then_some(place)
    }
}

impl Member {
    /// Stores the original content of paths of a repository: of tracked files and of dependency folders.
    fn keep_git_content(
        &self,
        paths: &[(TreePath, PathRecord)],
        objects: &mut Objects,
    ) -> Result<Vec<Option<FileState>>, Error> {
        let committed = CommittedContent {
            location: &self.location,
            repository: &self.state.join("base.git"),
            index: &self.base_index(),
            temporary: &self.temporary,
        };
        if self.dependencies().is_empty() {
            return committed.keep(paths, objects);
        }
        let is_dependency: Vec<bool> = paths
            .iter()
            .map(|(path, _)| self.is_in_dependencies(path))
            .collect();
        let of_kind = |wanted: bool| -> Vec<(TreePath, PathRecord)> {
            let chosen = paths.iter().zip(&is_dependency);
            chosen
                .filter(|(_, is_dependency)| **is_dependency == wanted)
                .map(|(path, _)| path.clone())
                .collect()
        };
        let (tracked, dependencies) = (of_kind(false), of_kind(true));
        let mut tracked = match tracked.as_slice() {
            [] => Vec::new(),
            tracked => committed.keep(tracked, objects)?,
        }
        .into_iter();
        let dependencies = self.keep_dependency_content(&dependencies, objects)?;
        let mut dependencies = dependencies.into_iter();
        Ok(is_dependency
            .iter()
            .map(|is_dependency| {
                let states = if *is_dependency {
                    &mut dependencies
                } else {
                    &mut tracked
                };
                states.next().flatten()
            })
            .collect())
    }
}

/// Paths with all their parent folders.
fn with_folders(paths: &[TreePath]) -> BTreeSet<TreePath> {
    let mut all = BTreeSet::new();
    for path in paths {
        let mut ancestor = Some(path.clone());
        while let Some(path) = ancestor {
            ancestor = path.parent();
            all.insert(path);
        }
    }
    all
}

/// Result of a capture.
#[derive(Debug)]
pub struct Capture {
    /// One change per path.
    pub changes: Vec<Change>,
    /// Devices, sockets and pipes, which are not captured.
    pub special: Vec<TreePath>,
    captured: CaptureResult,
}

/// Source of the original content of a copy, opened when needed.
struct BaseReader<'a>(&'a Member);

impl BaseContent for BaseReader<'_> {
    fn keep(
        &self,
        paths: &[(TreePath, PathRecord)],
        objects: &mut Objects,
    ) -> Result<Vec<Option<FileState>>, Error> {
        let member = self.0;
        match &member.base {
            Base::Git(_) => member.keep_git_content(paths, objects),
            Base::Directory => CopyOriginal {
                root: &member.real_root()?,
                manifest: &member.original_path(),
            }
            .keep(paths, objects),
            // Stored when the copy was created.
            Base::File | Base::Sqlite { .. } | Base::Postgres => Ok(vec![None; paths.len()]),
        }
    }
}
