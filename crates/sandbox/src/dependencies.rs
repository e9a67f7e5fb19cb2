//! Dependency folders of a repository: installed packages and build output that git does not track, without which a
//! project does not build or pass its tests.
//!
//! A copy of a repository contains them as copies (with shared blocks if the file system supports them) or, if they are
//! too large to copy, as links to the user's folders, which commands can only read. They are captured and rolled back
//! like other files, but are never part of a result.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{ErrorKind, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use cleveragents_domain::{FileKind, FileMode, FileState, TreePath};
use serde::{Deserialize, Serialize};

use crate::by_products::is_by_product;
use crate::capture::BaseContent;
use crate::copy::{CopyOriginal, copy_tree, shares_blocks, tree_size};
use crate::error::{Error, PathContext as _};
use crate::git::{Checkout, records};
use crate::manifest::{Manifest, PathRecord, write_original};
use crate::member::{Base, Member};
use crate::objects::Objects;
use crate::scan::Extent;
use crate::scoped_dir::Root;

/// A dependency folder of the user's checkout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DependencyFolder {
    /// Path within the checkout.
    pub path: TreePath,
    pub presence: DependencyPresence,
}

/// Form of a dependency folder in a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DependencyPresence {
    /// As a copy, which commands can change.
    Copied,
    /// As a link to the user's folder, which commands can only read.
    Linked,
}

/// Folders that commands of a package manager fill. They are useful without write access.
const PACKAGES: &[&str] = &[
    "node_modules",
    "bower_components",
    "vendor",
    ".bundle",
    ".yarn",
    "Pods",
    "elm-stuff",
];

/// Folders of packages that contain this file.
const MARKED_PACKAGES: &[(&str, &str)] = &[(".venv", "pyvenv.cfg"), ("venv", "pyvenv.cfg")];

/// Build output, useful only if the build can write to it.
const MARKED_OUTPUT: &[(&str, &str)] = &[("target", "CACHEDIR.TAG")];

/// Maximum size of the folders of one repository that are copied byte by byte.
const MAX_COPIED_BYTES: u64 = 1 << 30;

/// Maximum number of files of one repository that are copied byte by byte.
const MAX_COPIED_FILES: u64 = 60_000;

/// Maximum number of ignored paths that are listed.
const MAX_LISTED_PATHS: usize = 100;

/// Maximum size of a file of a virtual environment that may contain paths to replace.
const MAX_RELOCATED_BYTES: u64 = 256 << 10;

/// Untracked content of a checkout that is not a part of its snapshot.
#[derive(Debug, Default)]
pub(crate) struct UntrackedContent {
    /// Dependency folders.
    pub(crate) dependencies: Vec<TreePath>,
    /// Other ignored files and folders, except well-known by-products; a folder ends with `/`.
    pub(crate) ignored: Vec<String>,
}

impl Checkout {
    /// Finds dependency folders and other ignored paths, without reading the folders.
    pub(crate) fn untracked_content(&self) -> Result<UntrackedContent, Error> {
        if self.is_bare {
            return Ok(UntrackedContent::default());
        }
        let list = ["ls-files", "-z", "--others", "--directory"];
        let by_rules = ["--exclude-standard", "--no-empty-directory"];
        let ignored = self
            .git
            .run(&[&list[..], &by_rules, &["--ignored"]].concat())?;
        let untracked = self.git.run(&[&list[..], &by_rules].concat())?;
        let mut dependencies = BTreeSet::new();
        let mut others = Vec::new();
        let ignored = records(&ignored).map(|record| (record, true));
        let untracked = records(&untracked).map(|record| (record, false));
        for (record, is_ignored) in ignored.chain(untracked) {
            let is_folder = record.ends_with(b"/");
            let path = record.strip_suffix(b"/").unwrap_or(record);
            let Ok(path) = TreePath::from_bytes(path) else {
                continue;
            };
            if let Some(folder) = self.dependency_folder(&path) {
                dependencies.insert(folder);
            } else if is_ignored && !is_by_product(&path, |mark| self.exists(mark)) {
                let end = if is_folder { "/" } else { "" };
                others.push(format!("{path}{end}"));
            }
        }
        others.sort();
        others.truncate(MAX_LISTED_PATHS);
        Ok(UntrackedContent {
            dependencies: dependencies.into_iter().collect(),
            ignored: others,
        })
    }

    /// The dependency folder that is or contains a path.
    fn dependency_folder(&self, path: &TreePath) -> Option<TreePath> {
        let mut folders = vec![path.clone()];
        while let Some(parent) = folders.last().and_then(TreePath::parent) {
            folders.push(parent);
        }
        let is_dependency = |folder: &TreePath| {
            let is = |name: &str| folder.name() == name.as_bytes();
            let is_marked = |&(name, mark): &(&str, &str)| {
                is(name)
                    && folder
                        .join(mark.as_bytes())
                        .is_ok_and(|mark| self.exists(&mark))
            };
            let is_named = PACKAGES.iter().any(|name| is(name))
                || MARKED_PACKAGES.iter().any(is_marked)
                || MARKED_OUTPUT.iter().any(is_marked);
            let place = self.location.join(folder.as_path());
            is_named && std::fs::symlink_metadata(place).is_ok_and(|found| found.is_dir())
        };
        folders.into_iter().rev().find(is_dependency)
    }

    fn exists(&self, path: &TreePath) -> bool {
        std::fs::symlink_metadata(self.location.join(path.as_path())).is_ok()
    }
}

/// Result of [`Member::add_dependencies`].
#[derive(Debug, Default)]
pub(crate) struct AddedDependencies {
    pub(crate) folders: Vec<DependencyFolder>,
    /// Folders that the copy lacks; each ends with `/`.
    pub(crate) left_out: Vec<String>,
    /// Paths whose content differs from that of the user's folders.
    own_paths: Vec<TreePath>,
}

/// Part of [`MAX_COPIED_BYTES`] and [`MAX_COPIED_FILES`] that is left.
struct CopyBudget {
    files: u64,
    bytes: u64,
}

impl Member {
    /// Adds dependency folders to a new copy of a repository.
    pub(crate) fn add_dependencies(&self, found: &[TreePath]) -> Result<AddedDependencies, Error> {
        let mut added = AddedDependencies::default();
        let mut budget = CopyBudget {
            files: MAX_COPIED_FILES,
            bytes: MAX_COPIED_BYTES,
        };
        let copy = self.work_root()?;
        for path in found {
            let place = self.root.join(path.as_path());
            // The folder contains tracked files.
            let is_taken = copy.stat(path).during("reading", &place)?.is_some();
            let presence = if is_taken {
                None
            } else {
                let number = added.folders.len();
                if let Ok(presence) = self.add_dependency(&copy, path, number, &mut budget) {
                    presence
                } else {
                    // The copy works without the folder, for example if a server keeps writing to it.
                    copy.remove_all(Some(path)).during("removing", &place)?;
                    None
                }
            };
            match presence {
                Some((presence, own_paths)) => {
                    let path = path.clone();
                    added.folders.push(DependencyFolder { path, presence });
                    added.own_paths.extend(own_paths);
                }
                None => added.left_out.push(format!("{path}/")),
            }
        }
        Ok(added)
    }

    /// Adds one folder. Returns `None` if it is too large, else also the paths whose content differs from the user's.
    fn add_dependency(
        &self,
        copy: &Root,
        path: &TreePath,
        number: usize,
        budget: &mut CopyBudget,
    ) -> Result<Option<(DependencyPresence, Vec<TreePath>)>, Error> {
        let source = self.location.join(path.as_path());
        let place = self.root.join(path.as_path());
        let from = Root::open(&source).during("opening", &source)?;
        let (files, bytes) = tree_size(&from).during("walking", &source)?;
        let is_small = files <= budget.files && bytes <= budget.bytes;
        if !is_small && !shares_blocks(&from, &self.temporary) {
            let is_output = MARKED_OUTPUT
                .iter()
                .any(|(name, _)| path.name() == name.as_bytes());
            if is_output {
                return Ok(None);
            }
            copy.make_parents(path)
                .and_then(|()| copy.create_link(path, source.as_os_str().as_bytes()))
                .during("making", &place)?;
            return Ok(Some((DependencyPresence::Linked, vec![path.clone()])));
        }
        copy.make_parents(path)
            .and_then(|()| copy.make_folder(path))
            .during("making", &place)?;
        let to = Root::open(&place).during("opening", &place)?;
        let copied = copy_tree(&from, &to, Extent::default())?;
        let manifest = self.dependency_manifest(number);
        std::fs::create_dir_all(manifest.parent().unwrap_or(&manifest))
            .during("making", &manifest)?;
        let unsettled = write_original(&manifest, &copied).during("writing", &manifest)?;
        let mut own_paths = Vec::new();
        for inner in unsettled {
            own_paths.push(join_paths(path, &inner)?);
        }
        own_paths.extend(self.relocate(copy, path, &self.location)?);
        if is_small {
            budget.files -= files;
            budget.bytes -= bytes;
        }
        Ok(Some((DependencyPresence::Copied, own_paths)))
    }

    /// Replaces paths of another folder by those of this copy in a virtual environment, so that its commands and
    /// editable packages use the copy. Returns the changed files.
    pub(crate) fn relocate(
        &self,
        copy: &Root,
        path: &TreePath,
        from: &Path,
    ) -> Result<Vec<TreePath>, Error> {
        let place = self.root.join(path.as_path());
        let mark = path.join(b"pyvenv.cfg");
        if !mark.is_ok_and(|mark| matches!(copy.open_regular(&mark), Ok(Some(_)))) {
            return Ok(Vec::new());
        }
        let old = from.as_os_str().as_bytes();
        let new = self.root.as_os_str().as_bytes();
        let mut changed = Vec::new();
        for file in files_with_paths(copy, path).during("reading", &place)? {
            let content = small_content(copy, &file).during("reading", &place)?;
            let Some((mode, content)) = content else {
                continue;
            };
            if let Some(content) = replace_folder(&content, old, new) {
                copy.write_file(&file, mode, &mut content.as_slice())
                    .during("writing", &place)?;
                changed.push(file);
            }
        }
        Ok(changed)
    }

    /// Manifest of a copied dependency folder when it was copied.
    fn dependency_manifest(&self, number: usize) -> PathBuf {
        self.state.join("dependencies").join(number.to_string())
    }

    /// The dependency folders of the copy.
    pub fn dependencies(&self) -> &[DependencyFolder] {
        match &self.base {
            Base::Git(base) => &base.dependencies,
            _ => &[],
        }
    }

    /// The dependency folder that is or contains a path, with its number.
    fn dependency_of(&self, path: &TreePath) -> Option<(usize, &DependencyFolder)> {
        let folders = self.dependencies().iter().enumerate();
        let mut containing = folders.filter(|(_, folder)| path.is_within(&folder.path));
        containing.next()
    }

    /// Whether a path is or lies in a dependency folder, whose changes are not part of a result.
    pub fn is_in_dependencies(&self, path: &TreePath) -> bool {
        self.dependency_of(path).is_some()
    }

    /// The user's folders that links of the copy refer to.
    pub(crate) fn linked_dependencies(&self) -> impl Iterator<Item = PathBuf> {
        let folders = self.dependencies().iter();
        folders
            .filter(|folder| folder.presence == DependencyPresence::Linked)
            .map(|folder| self.location.join(folder.path.as_path()))
    }

    /// Stores the content of paths of new dependency folders that differ from the user's folders. Call it after the
    /// first manifest is written.
    pub(crate) fn keep_own_dependency_paths(&self, added: &AddedDependencies) -> Result<(), Error> {
        self.keep_pristine_paths(&added.own_paths)
    }

    /// Takes over the dependency folders of the sandbox from which this one was forked. The files are already copied.
    pub(crate) fn fork_dependencies(&self, original: &Self) -> Result<(), Error> {
        let copy = self.work_root()?;
        let mut own_paths = Vec::new();
        for (number, folder) in self.dependencies().iter().enumerate() {
            match folder.presence {
                DependencyPresence::Linked => own_paths.push(folder.path.clone()),
                DependencyPresence::Copied => {
                    let manifest = self.dependency_manifest(number);
                    std::fs::create_dir_all(manifest.parent().unwrap_or(&manifest))
                        .and_then(|()| {
                            std::fs::copy(original.dependency_manifest(number), &manifest)
                        })
                        .during("writing", &manifest)?;
                    own_paths.extend(self.relocate(&copy, &folder.path, &original.root)?);
                }
            }
        }
        self.keep_pristine_paths(&own_paths)
    }

    /// Paths in copied dependency folders that the user has changed since.
    pub(crate) fn changed_dependency_paths(&self) -> Result<Vec<TreePath>, Error> {
        let mut changed = Vec::new();
        for (number, folder) in self.dependencies().iter().enumerate() {
            if folder.presence == DependencyPresence::Linked {
                continue;
            }
            let manifest = self.dependency_manifest(number);
            let inner_paths = match self.copied_source(folder)? {
                Some(root) => CopyOriginal {
                    root: &root,
                    manifest: &manifest,
                }
                .changed(Extent::default())?,
                // The user removed the folder.
                None => Manifest::load(&manifest)
                    .and_then(|manifest| manifest.entries())
                    .during("reading", &manifest)?
                    .into_iter()
                    .map(|(path, _)| path)
                    .collect(),
            };
            for inner in inner_paths {
                changed.push(join_paths(&folder.path, &inner)?);
            }
        }
        Ok(changed)
    }

    /// The user's folder of which the copy has a copy; `None` for links, and if the folder does not exist any more.
    fn copied_source(&self, folder: &DependencyFolder) -> Result<Option<Root>, Error> {
        if folder.presence == DependencyPresence::Linked {
            return Ok(None);
        }
        let source = self.location.join(folder.path.as_path());
        match Root::open(&source) {
            Ok(root) => Ok(Some(root)),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(error).during("opening", &source),
        }
    }

    /// Stores the original content of paths in dependency folders. `None` if the user has changed it since.
    pub(crate) fn keep_dependency_content(
        &self,
        paths: &[(TreePath, PathRecord)],
        objects: &mut Objects,
    ) -> Result<Vec<Option<FileState>>, Error> {
        let mut states = Vec::with_capacity(paths.len());
        for (path, known) in paths {
            let found = self.dependency_of(path);
            let inner = found.and_then(|(_, folder)| inside_of(path, &folder.path));
            let state = match (found, inner) {
                (Some((number, folder)), Some(inner)) => match self.copied_source(folder)? {
                    Some(root) => CopyOriginal {
                        root: &root,
                        manifest: &self.dependency_manifest(number),
                    }
                    .store_original(&[(inner, *known)], objects)?
                    .pop()
                    .flatten(),
                    None => None,
                },
                _ => None,
            };
            states.push(state);
        }
        Ok(states)
    }
}

fn is_missing(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// The files of a virtual environment that contain its own path or that of an editable package.
fn files_with_paths(copy: &Root, environment: &TreePath) -> std::io::Result<Vec<TreePath>> {
    let inside = |folder: &TreePath, name: &[u8]| folder.join(name).map_err(std::io::Error::other);
    let entries = |folder: &TreePath| match copy.entries(Some(folder)) {
        Err(error) if is_missing(&error) => Ok(Vec::new()),
        found => found,
    };
    let is = |mode: Option<FileMode>, kind: FileKind| mode.is_some_and(|mode| mode.kind() == kind);
    let mut files = Vec::new();
    let commands = inside(environment, b"bin")?;
    for (name, stat) in entries(&commands)? {
        if is(stat.mode, FileKind::File) {
            files.push(inside(&commands, &name)?);
        }
    }
    let libraries = inside(environment, b"lib")?;
    for (name, _) in entries(&libraries)? {
        let packages = inside(&inside(&libraries, &name)?, b"site-packages")?;
        for (name, stat) in entries(&packages)? {
            let extension = Path::new(OsStr::from_bytes(&name)).extension();
            let has_paths = extension.is_some_and(|end| end == "pth" || end == "egg-link")
                || name.starts_with(b"__editable__");
            if has_paths && is(stat.mode, FileKind::File) {
                files.push(inside(&packages, &name)?);
            }
        }
    }
    Ok(files)
}

/// Mode and content of a regular file of at most [`MAX_RELOCATED_BYTES`].
fn small_content(copy: &Root, file: &TreePath) -> std::io::Result<Option<(FileMode, Vec<u8>)>> {
    let mode = copy.stat(file)?.and_then(|stat| stat.mode);
    let (Some(mode), Some(opened)) = (mode, copy.open_regular(file)?) else {
        return Ok(None);
    };
    let mut content = Vec::new();
    opened
        .take(MAX_RELOCATED_BYTES + 1)
        .read_to_end(&mut content)?;
    let is_small = content.len() as u64 <= MAX_RELOCATED_BYTES;
    Ok(is_small.then_some((mode, content)))
}

/// Replaces a folder in paths of a text; `None` if the text does not contain it.
fn replace_folder(text: &[u8], old: &[u8], new: &[u8]) -> Option<Vec<u8>> {
    let mut replaced = Vec::with_capacity(text.len());
    let mut at = 0;
    let mut is_changed = false;
    while at < text.len() {
        let rest = &text[at..];
        let is_found = rest.starts_with(old)
            && rest
                .get(old.len())
                .is_none_or(|next| !(next.is_ascii_alphanumeric() || b"_-.".contains(next)));
        if is_found {
            replaced.extend_from_slice(new);
            at += old.len();
            is_changed = true;
        } else {
            replaced.push(rest[0]);
            at += 1;
        }
    }
    is_changed.then_some(replaced)
}

fn join_paths(folder: &TreePath, inner: &TreePath) -> Result<TreePath, Error> {
    TreePath::from_bytes([folder.as_bytes(), b"/", inner.as_bytes()].concat())
        .map_err(|error| Error::Damaged(error.to_string()))
}

/// A path relative to a folder; `None` for the folder itself.
fn inside_of(path: &TreePath, folder: &TreePath) -> Option<TreePath> {
    let inner = path.as_bytes().strip_prefix(folder.as_bytes())?;
    TreePath::from_bytes(inner.strip_prefix(b"/")?).ok()
}

#[cfg(test)]
mod tests {
    use super::replace_folder;

    #[test]
    fn only_whole_folder_names_are_replaced() {
        let replace = |text: &str| {
            let replaced = replace_folder(text.as_bytes(), b"/home/me/shop", b"/copy");
            replaced.map(|text| String::from_utf8(text).expect("a text"))
        };
        assert_eq!(
            replace("#!/home/me/shop/.venv/bin/python\n").as_deref(),
            Some("#!/copy/.venv/bin/python\n")
        );
        assert_eq!(replace("/home/me/shop").as_deref(), Some("/copy"));
        assert_eq!(replace("'/home/me/shop'\n").as_deref(), Some("'/copy'\n"));
        assert_eq!(replace("/home/me/shop2/src\n"), None);
        assert_eq!(replace("import os\n"), None);
    }
}
