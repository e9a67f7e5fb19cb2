//! The original content of a copy: what the user has changed since, and what is stored of it before the copy changes.

use cleveragents_domain::{FileState, TreePath};

use super::{Base, Member};
use crate::capture::BaseContent;
use crate::copy::CopyOriginal;
use crate::error::{Error, PathContext as _};
use crate::git::{CommittedContent, open_checkout};
use crate::manifest::{Manifest, PathRecord};
use crate::objects::Objects;
use crate::scoped_dir::Root;
use crate::state::read_state;

impl Member {
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
    pub(super) fn keep_pristine(
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
                let record = PathRecord::from_scan(&stat, state.mode, Some(state.hash), moment);
                manifest.learn(path, Some(record));
            }
        }
        objects.sync().during("writing", &self.objects)?;
        manifest
            .save(&self.manifest_path())
            .during("writing", &self.manifest_path())
    }

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
            return committed.store_original(paths, objects);
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
            tracked => committed.store_original(tracked, objects)?,
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

/// Source of the original content of a copy, opened when needed.
pub(super) struct BaseReader<'a>(pub(super) &'a Member);

impl BaseContent for BaseReader<'_> {
    fn store_original(
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
            .store_original(paths, objects),
            // Stored when the copy was created.
            Base::File | Base::Sqlite { .. } | Base::Postgres => Ok(vec![None; paths.len()]),
        }
    }
}
