//! Resolves paths from tool arguments to places in the sandbox.
//!
//! A sandbox has one or more parts: folders, each with an alias. If there are several, a path
//! starts with the alias of its part. An absolute path is accepted when it is inside a part. `..`
//! and symlinks are resolved here by name, so that permission rules see the actual place. Files are
//! opened afterwards relative to the part without following symlinks
//! ([`Root`](cleveragents_sandbox::Root)), so that a symlink created in between has no effect.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use cleveragents_domain::{FileKind, FileMode, TreePath};
use cleveragents_sandbox::{Root, Stat};

use crate::capability::Access;
use crate::ports::{Part, PartPath, Workspace};
use crate::tool::{Failure, PrepareContext, PrepareError, Subject};

/// Maximum number of symlinks to follow in one path.
const MAX_LINKS: usize = 40;

/// Handling of a symlink that is the last component of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LastLink {
    Follow,
    /// Operate on the symlink itself.
    Keep,
}

/// A place in a part, which may be its root.
#[derive(Debug, Clone)]
pub(super) struct Place<'a> {
    pub(super) part: &'a Part,
    /// `None` for the root of the part.
    pub(super) path: Option<TreePath>,
}

impl<'a> Place<'a> {
    pub(super) fn root(&self) -> &'a Root {
        &self.part.root
    }

    /// Requires a path below the root of the part.
    pub(super) fn into_target(self, given: &str) -> Result<Target<'a>, PrepareError> {
        match self.path {
            Some(path) => Ok(Target {
                part: self.part,
                path,
            }),
            None => Err(PrepareError::BadPath {
                path: given.to_owned(),
                why: "it is the root of a part; give a path inside it".to_owned(),
            }),
        }
    }

    pub(super) fn subject(&self, access: Access) -> Subject {
        match &self.path {
            Some(path) => Subject::Path {
                path: PartPath {
                    alias: self.part.alias.clone(),
                    path: path.clone(),
                },
                access,
            },
            None => Subject::Part {
                alias: self.part.alias.clone(),
                access,
            },
        }
    }
}

/// A place below the root of a part.
#[derive(Debug, Clone)]
pub(super) struct Target<'a> {
    pub(super) part: &'a Part,
    pub(super) path: TreePath,
}

impl<'a> Target<'a> {
    pub(super) fn root(&self) -> &'a Root {
        &self.part.root
    }

    pub(super) fn part_path(&self) -> PartPath {
        self.part_path_of(&self.path)
    }

    pub(super) fn part_path_of(&self, path: &TreePath) -> PartPath {
        PartPath {
            alias: self.part.alias.clone(),
            path: path.clone(),
        }
    }

    pub(super) fn subject(&self, access: Access) -> Subject {
        Subject::Path {
            path: self.part_path(),
            access,
        }
    }

    /// Metadata of the path; fails when it does not exist.
    pub(super) fn stat(&self) -> Result<Stat, Failure> {
        match self.root().stat(&self.path) {
            Ok(Some(stat)) => Ok(stat),
            Ok(None) => Err(Failure::new(format!("`{}` does not exist", self.path))),
            Err(error) => Err(self.failed("reading the metadata of", &error)),
        }
    }

    /// The file type; `None` when the path does not exist.
    pub(super) fn kind(&self) -> Result<Option<FileKind>, Failure> {
        let stat = self
            .root()
            .stat(&self.path)
            .map_err(|error| self.failed("reading the metadata of", &error))?;
        match stat {
            None => Ok(None),
            Some(stat) => match stat.mode {
                Some(mode) => Ok(Some(mode.kind())),
                None => Err(Failure::new(format!(
                    "`{}` is a device, socket or pipe",
                    self.path
                ))),
            },
        }
    }

    pub(super) fn failed(&self, action: &str, error: &std::io::Error) -> Failure {
        Failure::new(format!("{action} `{}` failed: {error}", self.path))
    }
}

/// The sandbox of a call.
pub(super) fn workspace(context: PrepareContext<'_>) -> Result<&dyn Workspace, PrepareError> {
    context.workspace.ok_or(PrepareError::NoWorkspace)
}

/// Resolves a path to a place.
pub(super) fn place<'a>(
    context: PrepareContext<'a>,
    given: &str,
    last: LastLink,
    access: Access,
) -> Result<Place<'a>, PrepareError> {
    let parts = workspace(context)?.parts();
    let (part, names) = find_part(parts, given)?;
    if access == Access::Writes && part.is_read_only {
        return Err(PrepareError::ReadOnlyPart(part.alias.clone()));
    }
    let path = resolve(part, names, given, last)?;
    Ok(Place { part, path })
}

/// Resolves a path to a place below the root of a part.
pub(super) fn target<'a>(
    context: PrepareContext<'a>,
    given: &str,
    last: LastLink,
    access: Access,
) -> Result<Target<'a>, PrepareError> {
    place(context, given, last, access)?.into_target(given)
}

/// A place in the sandbox, for tools that run as external processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxLocation {
    /// The place as permission rules match it.
    pub subject: Subject,
    /// Absolute path on this machine, without symlinks or `..` at the time of the call.
    pub real: PathBuf,
}

/// Resolves a path to a place in the sandbox, following symlinks.
pub fn locate(
    context: PrepareContext<'_>,
    given: &str,
    access: Access,
) -> Result<SandboxLocation, PrepareError> {
    let place = place(context, given, LastLink::Follow, access)?;
    let top = place.root().path();
    let real = match &place.path {
        Some(path) => top.join(OsStr::from_bytes(path.as_bytes())),
        None => top.to_owned(),
    };
    Ok(SandboxLocation {
        subject: place.subject(access),
        real,
    })
}

/// Returns whether a path means the whole sandbox.
pub(super) fn is_everything(given: Option<&str>) -> bool {
    given.is_none_or(|given| !given.starts_with('/') && names_of(given.as_bytes()).is_empty())
}

/// Resolves a path to its place. Without a path, returns the roots of all parts.
pub(super) fn places<'a>(
    context: PrepareContext<'a>,
    given: Option<&str>,
) -> Result<Vec<Place<'a>>, PrepareError> {
    match given {
        Some(given) if !is_everything(Some(given)) => Ok(vec![place(
            context,
            given,
            LastLink::Follow,
            Access::Reads,
        )?]),
        _ => Ok(workspace(context)?
            .parts()
            .iter()
            .map(|part| Place { part, path: None })
            .collect()),
    }
}

fn bad_path(given: &str, why: impl Into<String>) -> PrepareError {
    PrepareError::BadPath {
        path: given.chars().take(300).collect(),
        why: why.into(),
    }
}

type Names = VecDeque<Vec<u8>>;

fn names_of(bytes: &[u8]) -> Names {
    bytes
        .split(|byte| *byte == b'/')
        .filter(|name| !name.is_empty() && *name != b".")
        .map(<[u8]>::to_vec)
        .collect()
}

/// Splits a path into its part and the remaining components.
fn find_part<'a>(parts: &'a [Part], given: &str) -> Result<(&'a Part, Names), PrepareError> {
    if given.contains('\0') {
        return Err(bad_path(given, "it contains a NUL byte"));
    }
    if given.starts_with('/') {
        return parts
            .iter()
            .find_map(|part| Some((part, relative_names(part, Path::new(given))?)))
            .ok_or_else(|| bad_path(given, "it is an absolute path outside the sandbox"));
    }
    if given.starts_with('~') {
        return Err(bad_path(given, "it is outside the sandbox"));
    }
    let mut names = names_of(given.as_bytes());
    let alias_of = |part: &&Part| {
        names
            .front()
            .is_some_and(|name| name == part.alias.as_bytes())
    };
    if let [only] = parts {
        // With a single part, the alias prefix is optional. A path that exists in the part takes precedence.
        let exists = |names: &Names| {
            let path = Vec::from(names.clone()).join(&b'/');
            TreePath::from_bytes(path)
                .is_ok_and(|path| only.root.stat(&path).is_ok_and(|stat| stat.is_some()))
        };
        if alias_of(&only) {
            let inside: Names = names.iter().skip(1).cloned().collect();
            let alias: Names = names.iter().take(1).cloned().collect();
            // In the part `app`, `app/main.py` means `main.py` if the part has no entry `app`, or if only
            // `main.py` exists.
            if !exists(&alias) || (!exists(&names) && exists(&inside)) {
                names.pop_front();
            }
        }
        return Ok((only, names));
    }
    if let Some(part) = parts.iter().find(alias_of) {
        names.pop_front();
        return Ok((part, names));
    }
    let aliases: Vec<String> = parts
        .iter()
        .map(|part| format!("`{}/`", part.alias))
        .collect();
    let aliases = aliases.join(", ");
    Err(bad_path(
        given,
        format!("it must start with the name of a part: {aliases}"),
    ))
}

/// The components of an absolute path relative to a part; `None` when it is outside.
fn relative_names(part: &Part, path: &Path) -> Option<Names> {
    let root = part.root.path();
    let relative = path
        .strip_prefix(root)
        .ok()
        .map(Path::to_owned)
        .or_else(|| {
            let real = std::fs::canonicalize(root).ok()?;
            path.strip_prefix(real).ok().map(Path::to_owned)
        })?;
    Some(names_of(relative.as_os_str().as_bytes()))
}

/// Resolves components and symlinks from the root of a part. Rejects paths that leave the part.
fn resolve(
    part: &Part,
    mut remaining: Names,
    given: &str,
    last: LastLink,
) -> Result<Option<TreePath>, PrepareError> {
    let mut resolved: Vec<Vec<u8>> = Vec::new();
    let mut links = 0;
    while let Some(name) = remaining.pop_front() {
        if name == b".." {
            if resolved.pop().is_none() {
                return Err(bad_path(given, "it is outside the sandbox"));
            }
            continue;
        }
        resolved.push(name);
        if remaining.is_empty() && last == LastLink::Keep {
            break;
        }
        let current = joined(&resolved, given)?;
        let stat = part.root.stat(&current);
        let stat = stat.map_err(|error| bad_path(given, error.to_string()))?;
        let kind = stat.and_then(|stat| stat.mode).map(FileMode::kind);
        if kind != Some(FileKind::Symlink) {
            continue;
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(bad_path(given, "it contains a symlink loop"));
        }
        let link = part.root.read_link(&current);
        let link = link.map_err(|error| bad_path(given, error.to_string()))?;
        let mut next = if link.starts_with(b"/") {
            resolved.clear();
            let target = Path::new(OsStr::from_bytes(&link));
            relative_names(part, target).ok_or_else(|| {
                bad_path(
                    given,
                    format!("the symlink `{current}` points outside the sandbox"),
                )
            })?
        } else {
            resolved.pop();
            names_of(&link)
        };
        next.append(&mut remaining);
        remaining = next;
    }
    if resolved.is_empty() {
        return Ok(None);
    }
    joined(&resolved, given).map(Some)
}

fn joined(names: &[Vec<u8>], given: &str) -> Result<TreePath, PrepareError> {
    TreePath::from_bytes(names.join(&b'/')).map_err(|error| bad_path(given, error.to_string()))
}
