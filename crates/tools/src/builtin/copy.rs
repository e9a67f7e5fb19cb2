//! `builtin/file-move` and `builtin/file-copy`: files, links and whole folders.

use std::sync::Arc;

use cleveragents_domain::{FileKind, FileMode, TreePath};
use cleveragents_sandbox::Existing;
use schemars::JsonSchema;
use serde::Deserialize;

use super::paths::{Last, Target, target};
use super::walk::{self, Found};
use super::{Description, FILE_TIMEOUT, Preparing, builtin, ready, remove, write};
use crate::capability::{Access, Capability};
use crate::spec::{Category, Ground};
use crate::tool::{Answer, Call, Failure, Grounds, Tool, Touched};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// What to take: a file, a link, or a folder with all it holds.
    from: String,
    /// Where to put it: its whole new path. Folders on the way are made.
    to: String,
    /// Whether to replace a file that is there already. Folders are never replaced.
    overwrite: Option<bool>,
}

pub(super) fn move_tool() -> Arc<dyn Tool> {
    let description = Description {
        name: "file-move",
        about: "Moves or renames a file or a folder.",
        category: Category::FileOperations,
        ground: Ground::Workspace,
        capability: Capability::writes("file"),
        timeout: FILE_TIMEOUT,
    };
    builtin::<Arguments>(description, prepare_move)
}

pub(super) fn copy_tool() -> Arc<dyn Tool> {
    let description = Description {
        name: "file-copy",
        about: "Copies a file, or a folder with all it holds. Links are copied as links.",
        category: Category::FileOperations,
        ground: Ground::Workspace,
        capability: Capability::writes("file"),
        timeout: FILE_TIMEOUT,
    };
    builtin::<Arguments>(description, prepare_copy)
}

fn prepare_move(arguments: Arguments, grounds: Grounds<'_>) -> Preparing<'_> {
    let from = target(grounds, &arguments.from, Last::Keep, Access::Writes)?;
    let to = target(grounds, &arguments.to, Last::Keep, Access::Writes)?;
    let subjects = vec![from.subject(Access::Writes), to.subject(Access::Writes)];
    let existing = existing(&arguments);
    Ok(ready(subjects, move |call| {
        let pair = Pair::new(&from, &to, existing, call)?;
        for entry in &pair.inner {
            call.fence().check(&from.part_path_of(&entry.path))?;
            call.fence()
                .check(&to.part_path_of(&pair.moved(&entry.path)?))?;
        }
        pair.relocate(call)
    }))
}

fn prepare_copy(arguments: Arguments, grounds: Grounds<'_>) -> Preparing<'_> {
    let from = target(grounds, &arguments.from, Last::Keep, Access::Reads)?;
    let to = target(grounds, &arguments.to, Last::Keep, Access::Writes)?;
    let subjects = vec![from.subject(Access::Reads), to.subject(Access::Writes)];
    let existing = existing(&arguments);
    Ok(ready(subjects, move |call| {
        let pair = Pair::new(&from, &to, existing, call)?;
        for entry in &pair.inner {
            call.fence()
                .check(&to.part_path_of(&pair.moved(&entry.path)?))?;
            let path = from.part_path_of(&entry.path);
            if !call.fence().shows(&path) {
                return Err(Failure::new(format!("`{path}` may not be read")));
            }
        }
        pair.duplicate(call)
    }))
}

fn existing(arguments: &Arguments) -> Existing {
    if arguments.overwrite == Some(true) {
        Existing::Replace
    } else {
        Existing::Keep
    }
}

/// What is moved or copied, and where to.
struct Pair<'p, 'a> {
    from: &'p Target<'a>,
    to: &'p Target<'a>,
    mode: FileMode,
    existing: Existing,
    /// What a folder holds.
    inner: Vec<Found>,
}

impl<'p, 'a> Pair<'p, 'a> {
    fn new(
        from: &'p Target<'a>,
        to: &'p Target<'a>,
        existing: Existing,
        call: &Call<'_>,
    ) -> Result<Self, Failure> {
        let mode = from
            .stat()?
            .mode
            .ok_or_else(|| Failure::new(format!("`{}` is a device, socket or pipe", from.path)))?;
        let same_part = from.part.alias == to.part.alias;
        if same_part && to.path.is_within(&from.path) {
            return Err(Failure::new(format!(
                "`{}` is or lies in `{}`",
                to.path, from.path
            )));
        }
        match (to.kind()?, existing) {
            (Some(FileKind::Directory), _) => {
                let path = &to.path;
                return Err(Failure::new(format!(
                    "`{path}` is a folder; name the whole new path, inside it or elsewhere"
                )));
            }
            (Some(_), Existing::Keep) => {
                let path = &to.path;
                return Err(Failure::new(format!(
                    "`{path}` exists; set `overwrite` to replace it"
                )));
            }
            (Some(_), Existing::Replace) if mode.kind() == FileKind::Directory => {
                let path = &to.path;
                return Err(Failure::new(format!("`{path}` exists and is no folder")));
            }
            (None, _) | (Some(_), Existing::Replace) => {}
        }
        let inner = if mode.kind() == FileKind::Directory {
            walk::beneath(from, call)?
        } else {
            Vec::new()
        };
        Ok(Self {
            from,
            to,
            mode,
            existing,
            inner,
        })
    }

    /// Where something in the folder ends up.
    fn moved(&self, path: &TreePath) -> Result<TreePath, Failure> {
        let rest = &path.as_bytes()[self.from.path.as_bytes().len() + 1..];
        self.to
            .path
            .join(rest)
            .map_err(|error| Failure::new(error.to_string()))
    }

    /// Everything that ends up somewhere, as far as it can be listed.
    fn touched_target(&self) -> Result<Touched, Failure> {
        let moved = self
            .inner
            .iter()
            .map(|entry| {
                Ok(Found {
                    path: self.moved(&entry.path)?,
                    mode: entry.mode,
                })
            })
            .collect::<Result<Vec<_>, Failure>>()?;
        Ok(remove::touched(self.to, &moved))
    }

    fn relocate(self, call: &mut Call<'_>) -> Result<Answer, Failure> {
        let parents = write::make_parents(self.to)?;
        let touched = both(
            both(
                remove::touched(self.from, &self.inner),
                self.touched_target()?,
            ),
            Touched::Paths(parents),
        );
        let (from, to) = (self.from, self.to);
        from.root()
            .rename(&from.path, to.root(), &to.path, self.existing)
            .map_err(|error| from.failed("moving", &error).touching(touched.clone()))?;
        call.output
            .text(&format!("moved `{}` to `{}`", from.path, to.path));
        Ok(Answer {
            touched,
            ..Answer::written()
        })
    }

    fn duplicate(self, call: &mut Call<'_>) -> Result<Answer, Failure> {
        let parents = write::make_parents(self.to)?;
        let touched = both(self.touched_target()?, Touched::Paths(parents));
        let failed = |failure: Failure| failure.touching(touched.clone());
        self.copy_one(&self.from.path, &self.to.path, self.mode)
            .map_err(failed)?;
        let mut count = 1;
        for entry in &self.inner {
            call.keep_going().map_err(failed)?;
            // Devices, sockets and pipes are nothing that can be copied.
            let Some(mode) = entry.mode else { continue };
            let moved = self.moved(&entry.path)?;
            self.copy_one(&entry.path, &moved, mode).map_err(failed)?;
            count += 1;
        }
        // Only now: a folder that may not be written could not have been filled.
        let folders = self.inner.iter().rev().filter(|entry| entry.is_directory());
        for entry in folders {
            self.copy_mode(&self.moved(&entry.path)?, entry.mode)
                .map_err(failed)?;
        }
        if self.mode.kind() == FileKind::Directory {
            self.copy_mode(&self.to.path, Some(self.mode))
                .map_err(failed)?;
        }
        let (from, to) = (&self.from.path, &self.to.path);
        call.output
            .text(&format!("copied `{from}` to `{to}` ({count} things)"));
        Ok(Answer {
            touched,
            ..Answer::written()
        })
    }

    fn copy_one(&self, from: &TreePath, to: &TreePath, mode: FileMode) -> Result<(), Failure> {
        let (source, end) = (self.from.root(), self.to.root());
        let copied = match mode.kind() {
            FileKind::Directory => end.make_folder(to),
            FileKind::Symlink => source
                .read_link(from)
                .and_then(|link| end.write_link(to, &link)),
            FileKind::File => source
                .open_file(from)
                .and_then(|mut file| end.write_file(to, mode, &mut file)),
        };
        copied.map_err(|error| Failure::new(format!("copying `{from}` failed: {error}")))
    }
}

impl Pair<'_, '_> {
    fn copy_mode(&self, to: &TreePath, mode: Option<FileMode>) -> Result<(), Failure> {
        let Some(mode) = mode else { return Ok(()) };
        self.to
            .root()
            .set_mode(to, mode)
            .map_err(|error| Failure::new(format!("setting the mode of `{to}` failed: {error}")))
    }
}

/// What two things touched together.
fn both(left: Touched, right: Touched) -> Touched {
    match (left, right) {
        (Touched::Paths(mut left), Touched::Paths(right)) => {
            left.extend(right);
            Touched::Paths(left)
        }
        (Touched::Nothing, other) | (other, Touched::Nothing) => other,
        _ => Touched::Anything,
    }
}
