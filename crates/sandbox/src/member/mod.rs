//! [`Member`]: one resource in a sandbox, its copy and its recorded state.

mod capture;
mod create;
mod original;

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use cleveragents_domain::TreePath;
use serde::{Deserialize, Serialize};

pub use capture::Capture;

use crate::error::{Error, PathContext as _};
use crate::git::{GitBase, included_edits, open_checkout, remove_worktree, write_link};
use crate::manifest::Manifest;
use crate::objects::Objects;
use crate::readable::open_own;
use crate::scan::Extent;
use crate::scoped_dir::Root;
use crate::server::SCRIPT;

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
    pub fn external_git_files(&self) -> Vec<PathBuf> {
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
                self.external_git_files(),
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
    pub fn interrupted_staging(&self, id: &str) -> Option<PathBuf> {
        let folder = match self.base {
            Base::File | Base::Sqlite { .. } => self.location.parent()?,
            Base::Git(_) | Base::Directory => &self.location,
            Base::Postgres => return None,
        };
        let place = folder.join(crate::apply::stage_name(id));
        place.is_dir().then_some(place)
    }
}
