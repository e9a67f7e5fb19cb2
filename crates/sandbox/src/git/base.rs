//! Original content of a worktree: the files as git checked them out from the commit, with conversions such as line
//! endings.
//!
//! Nearly every capture needs this content. Git reads it through a small repository in the sandbox, which refers to the
//! user's objects and contains only those of the user's settings that affect the content of files. Git reads no other
//! settings, so no commands in them have to be disabled.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use cleveragents_domain::{FileState, TreePath};

use super::base_index;
use super::program::Git;
use super::worktree::{Checkout, open_checkout, quoted};
use super::{joined, records};
use crate::capture::BaseContent;
use crate::error::{Error, PathContext as _};
use crate::manifest::PathRecord;
use crate::objects::Objects;
use crate::scoped_dir::Root;
use crate::state::read_state;

/// The commit from which a worktree was created, represented by the index that git wrote for the worktree.
pub(crate) struct CommittedContent<'a> {
    /// The user's repository.
    pub(crate) location: &'a Path,
    /// The small repository; created if it is missing.
    pub(crate) repository: &'a Path,
    /// A copy of the index that git wrote for the worktree, next to a list of its entries if [`super::write_list`]
    /// wrote one.
    pub(crate) index: &'a Path,
    /// Folder for short-lived files of git.
    pub(crate) temporary: &'a Path,
}

impl BaseContent for CommittedContent<'_> {
    fn store_original(
        &self,
        paths: &[(TreePath, PathRecord)],
        objects: &mut Objects,
    ) -> Result<Vec<Option<FileState>>, Error> {
        let folder =
            tempfile::tempdir_in(self.temporary).during("making a folder in", self.temporary)?;
        // The work tree is an empty folder, so that git reads attributes from the commit too.
        let files = folder.path().join("files");
        std::fs::create_dir(&files).during("making", &files)?;
        if !self.repository.is_dir() {
            make_repository(&open_checkout(self.location)?, self.repository)?;
        } else if !self.location.is_dir() {
            let place = self.location.display();
            return Err(Error::Damaged(format!(
                "the repository `{place}` does not exist any more"
            )));
        }
        // Git always reads the complete index, so it gets a small index with only these paths. If single entries cannot
        // be looked up, git gets the whole index.
        let small = folder.path().join("index");
        let index = match base_index::filter_index(self.index, paths.iter().map(|(path, _)| path)) {
            Ok(Some(entries)) => {
                std::fs::write(&small, entries).during("writing", &small)?;
                small.as_path()
            }
            Ok(None) | Err(_) => self.index,
        };
        let git = Git::at(&files)
            .with("GIT_DIR", self.repository)
            .with("GIT_INDEX_FILE", index)
            .with("GIT_WORK_TREE", &files)
            .with("GIT_CONFIG_NOSYSTEM", "1")
            .with("GIT_CONFIG_GLOBAL", "/dev/null");
        let input = joined(paths.iter().map(|(path, _)| path));
        // Git also fails if a path is missing. The files that it wrote show which paths exist.
        git.start_with(
            &["checkout-index", "-z", "--stdin", "--force", "--quiet"],
            &input,
        )?;
        let root = Root::open(&files).during("opening", &files)?;
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

/// Settings that affect the content that git writes to files.
const CONVERSIONS: &str = "^core\\.(attributesfile|autocrlf|checkroundtripencoding|eol|filemode|\
     ignorecase|precomposeunicode|protecthfs|protectntfs|safecrlf|symlinks)$";

/// Creates the small repository atomically.
fn make_repository(checkout: &Checkout, place: &Path) -> Result<(), Error> {
    let settings = checkout
        .git
        .try_run(&["config", "-z", "--get-regexp", CONVERSIONS])?
        .stdout;
    let above = place.parent().unwrap_or(place);
    let folder = tempfile::tempdir_in(above).during("making a folder in", above)?;
    write_repository(checkout, folder.path(), &settings).during("writing", folder.path())?;
    std::fs::rename(folder.path(), place).during("making", place)?;
    Ok(())
}

fn write_repository(checkout: &Checkout, place: &Path, settings: &[u8]) -> std::io::Result<()> {
    for folder in ["objects/info", "refs", "info"] {
        std::fs::create_dir_all(place.join(folder))?;
    }
    std::fs::write(place.join("HEAD"), "ref: refs/heads/none\n")?;
    let objects = checkout.common_dir.join("objects");
    let line = [objects.as_os_str().as_bytes(), b"\n"].concat();
    std::fs::write(place.join("objects/info/alternates"), line)?;
    let attributes = checkout.common_dir.join("info/attributes");
    match std::fs::copy(attributes, place.join("info/attributes")) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut config = format!(
        "[core]\n\trepositoryformatversion = 1\n\tbare = false\n\
         [extensions]\n\tobjectFormat = {}\n[core]\n",
        checkout.object_format
    )
    .into_bytes();
    for setting in records(settings) {
        // Name, line feed and value. A setting without a line feed is a boolean with the value true.
        let mut parts = setting.splitn(2, |byte| *byte == b'\n');
        let name = parts.next().unwrap_or_default();
        let Some(name) = name.strip_prefix(b"core.") else {
            continue;
        };
        config.push(b'\t');
        config.extend_from_slice(name);
        if let Some(value) = parts.next() {
            config.extend_from_slice(b" = ");
            config.extend(quoted(value));
        }
        config.push(b'\n');
    }
    std::fs::write(place.join("config"), config)
}
