//! From the paths that a model writes to places in the sandbox.
//!
//! A path is plain when the sandbox has one part, and begins with the alias of its part when it has
//! several; an absolute path is taken when it lies in a part. `..` and links are followed by names
//! here, so that rules are asked about the place itself. What is opened afterwards is opened beneath
//! the part without following anything ([`Root`](cleveragents_sandbox::Root)): a link that appears in
//! between leads nowhere.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use cleveragents_domain::{FileKind, FileMode, TreePath};
use cleveragents_sandbox::{Root, Stat};

use crate::capability::Access;
use crate::ports::{Part, PartPath, Workspace};
use crate::tool::{Failure, Grounds, Subject, Unprepared};

/// Links are followed so many times at most.
const MOST_LINKS: usize = 40;

/// What to do with a link that is the last name of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Last {
    /// Follow it.
    Follow,
    /// It is meant itself.
    Keep,
}

/// A place in a part.
#[derive(Debug, Clone)]
pub(super) struct Place<'a> {
    pub(super) part: &'a Part,
    /// `None` for the top.
    pub(super) path: Option<TreePath>,
}

impl<'a> Place<'a> {
    pub(super) fn root(&self) -> &'a Root {
        &self.part.root
    }

    /// The path, which must not be the top of the part.
    pub(super) fn inner(self, given: &str) -> Result<Target<'a>, Unprepared> {
        match self.path {
            Some(path) => Ok(Target {
                part: self.part,
                path,
            }),
            None => Err(Unprepared::Outside {
                path: given.to_owned(),
                why: "it is the top of a part, and a path inside it is needed".to_owned(),
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

/// A place inside a part.
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

    /// What is there; nothing is a failure.
    pub(super) fn stat(&self) -> Result<Stat, Failure> {
        match self.root().stat(&self.path) {
            Ok(Some(stat)) => Ok(stat),
            Ok(None) => Err(Failure::new(format!("there is nothing at `{}`", self.path))),
            Err(error) => Err(self.failed("looking at", &error)),
        }
    }

    /// What kind of thing is there; `None` for nothing.
    pub(super) fn kind(&self) -> Result<Option<FileKind>, Failure> {
        let stat = self
            .root()
            .stat(&self.path)
            .map_err(|error| self.failed("looking at", &error))?;
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
pub(super) fn workspace(grounds: Grounds<'_>) -> Result<&dyn Workspace, Unprepared> {
    grounds.workspace.ok_or(Unprepared::NoWorkspace)
}

/// The place that a path means.
pub(super) fn place<'a>(
    grounds: Grounds<'a>,
    given: &str,
    last: Last,
    access: Access,
) -> Result<Place<'a>, Unprepared> {
    let parts = workspace(grounds)?.parts();
    let (part, names) = find_part(parts, given)?;
    if access == Access::Writes && part.is_read_only {
        return Err(Unprepared::ReadOnlyPart(part.alias.clone()));
    }
    let path = follow(part, names, given, last)?;
    Ok(Place { part, path })
}

/// The place inside a part that a path means.
pub(super) fn target<'a>(
    grounds: Grounds<'a>,
    given: &str,
    last: Last,
    access: Access,
) -> Result<Target<'a>, Unprepared> {
    place(grounds, given, last, access)?.inner(given)
}

/// A place in the sandbox, as a tool that is no part of the program needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// What rules can speak about.
    pub subject: Subject,
    /// Where it is on this machine, without a link or `..` in it at this moment.
    pub real: PathBuf,
}

/// Finds the place in the sandbox that a path means, by names alone; links are followed.
pub fn locate(grounds: Grounds<'_>, given: &str, access: Access) -> Result<Located, Unprepared> {
    let place = place(grounds, given, Last::Follow, access)?;
    let top = place.root().path();
    let real = match &place.path {
        Some(path) => top.join(OsStr::from_bytes(path.as_bytes())),
        None => top.to_owned(),
    };
    Ok(Located {
        subject: place.subject(access),
        real,
    })
}

/// Whether a path stands for the whole sandbox.
pub(super) fn is_everything(given: Option<&str>) -> bool {
    given.is_none_or(|given| !given.starts_with('/') && names_of(given.as_bytes()).is_empty())
}

/// The places to look at: the one named, or every part.
pub(super) fn places<'a>(
    grounds: Grounds<'a>,
    given: Option<&str>,
) -> Result<Vec<Place<'a>>, Unprepared> {
    match given {
        Some(given) if !is_everything(Some(given)) => {
            Ok(vec![place(grounds, given, Last::Follow, Access::Reads)?])
        }
        _ => Ok(workspace(grounds)?
            .parts()
            .iter()
            .map(|part| Place { part, path: None })
            .collect()),
    }
}

fn outside(given: &str, why: impl Into<String>) -> Unprepared {
    Unprepared::Outside {
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

/// The part that a path begins in, and the names that follow.
fn find_part<'a>(parts: &'a [Part], given: &str) -> Result<(&'a Part, Names), Unprepared> {
    if given.contains('\0') {
        return Err(outside(given, "it holds a zero byte"));
    }
    if given.starts_with('/') {
        return parts
            .iter()
            .find_map(|part| Some((part, beneath(part, Path::new(given))?)))
            .ok_or_else(|| outside(given, "it is absolute and leads out of the sandbox"));
    }
    if given.starts_with('~') {
        return Err(outside(given, "it leads out of the sandbox"));
    }
    let mut names = names_of(given.as_bytes());
    let alias_of = |part: &&Part| {
        names
            .front()
            .is_some_and(|name| name == part.alias.as_bytes())
    };
    if let [only] = parts {
        // The alias may stand in front here too, unless the part holds something at the whole path.
        let exists = |names: &Names| {
            let path = Vec::from(names.clone()).join(&b'/');
            TreePath::from_bytes(path)
                .is_ok_and(|path| only.root.stat(&path).is_ok_and(|found| found.is_some()))
        };
        if alias_of(&only) {
            let inside: Names = names.iter().skip(1).cloned().collect();
            let alias: Names = names.iter().take(1).cloned().collect();
            // `app/main.py` means `main.py` in the part `app` when its folder `app` has no such file.
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
    Err(outside(
        given,
        format!("it has to begin with a part: {aliases}"),
    ))
}

/// The names from the top of a part to an absolute path in it.
fn beneath(part: &Part, path: &Path) -> Option<Names> {
    let root = part.root.path();
    let rest = path
        .strip_prefix(root)
        .ok()
        .map(Path::to_owned)
        .or_else(|| {
            let real = std::fs::canonicalize(root).ok()?;
            path.strip_prefix(real).ok().map(Path::to_owned)
        })?;
    Some(names_of(rest.as_os_str().as_bytes()))
}

/// Follows names and links from the top of a part. Nothing that leads out of it is accepted.
fn follow(
    part: &Part,
    mut rest: Names,
    given: &str,
    last: Last,
) -> Result<Option<TreePath>, Unprepared> {
    let mut done: Vec<Vec<u8>> = Vec::new();
    let mut links = 0;
    while let Some(name) = rest.pop_front() {
        if name == b".." {
            if done.pop().is_none() {
                return Err(outside(given, "it leads out of the sandbox"));
            }
            continue;
        }
        done.push(name);
        if rest.is_empty() && last == Last::Keep {
            break;
        }
        let here = joined(&done, given)?;
        let found = part.root.stat(&here);
        let found = found.map_err(|error| outside(given, error.to_string()))?;
        let kind = found.and_then(|stat| stat.mode).map(FileMode::kind);
        if kind != Some(FileKind::Symlink) {
            continue;
        }
        links += 1;
        if links > MOST_LINKS {
            return Err(outside(given, "its links go in circles"));
        }
        let link = part.root.read_link(&here);
        let link = link.map_err(|error| outside(given, error.to_string()))?;
        let mut next = if link.starts_with(b"/") {
            done.clear();
            let target = Path::new(OsStr::from_bytes(&link));
            beneath(part, target).ok_or_else(|| {
                outside(given, format!("the link `{here}` leads out of the sandbox"))
            })?
        } else {
            done.pop();
            names_of(&link)
        };
        next.append(&mut rest);
        rest = next;
    }
    if done.is_empty() {
        return Ok(None);
    }
    joined(&done, given).map(Some)
}

fn joined(names: &[Vec<u8>], given: &str) -> Result<TreePath, Unprepared> {
    TreePath::from_bytes(names.join(&b'/')).map_err(|error| outside(given, error.to_string()))
}
