//! Updates a separate index to the captured content of a sandbox.
//!
//! The committed content comes from the history, not from the sandbox's folder, so changes in the folder after the
//! capture have no effect.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use cleveragents_domain::{FileKind, FileState, TreePath};

use super::import::Import;
use super::program::Git;
use super::result::{Blob, GitRequest, MAX_LOOSE_OBJECTS, entry, is_content, refuse, succeed};
use super::{joined, records};
use crate::diff::as_git_knows;
use crate::error::{Error, PathContext as _};
use crate::scoped_dir::Root;

/// Maximum size of content that is loaded completely, in bytes. Larger content is written to a file for git to read.
const MAX_IMPORTED_BYTES: u64 = 1 << 20;

/// Puts the captured content of paths into the index of `git`, and removes deleted paths.
pub(super) fn stage(
    request: &GitRequest<'_>,
    git: &Git,
    paths: &[TreePath],
    objects: &Path,
) -> Result<(), Error> {
    let folder = request.scratch.join("files");
    std::fs::create_dir_all(&folder).during("making", &folder)?;
    let root = Root::open(&folder).during("opening", &folder)?;
    let git = &git.with("GIT_WORK_TREE", &folder).moved_to(&folder);
    let present: HashMap<&TreePath, FileState> = request
        .changes
        .iter()
        .filter_map(|change| Some((&change.path, change.after.filter(is_content)?)))
        .collect();
    let mut files = Vec::with_capacity(paths.len());
    let mut removed = Vec::new();
    for path in paths {
        match present.get(path) {
            Some(state) => files.push((path, *state)),
            None => removed.push(path),
        }
    }
    // Removes the index entries by name, without looking at the files: a link in place of a parent folder may lead
    // elsewhere.
    let arguments = ["update-index", "-z", "--force-remove", "--stdin"];
    git.run_with(&arguments, &joined(removed))?;
    // The attribute files come first, because they determine how all other files are stored. Unchanged attribute files
    // are already in the index.
    let (attributes, files): (Vec<_>, Vec<_>) = files
        .into_iter()
        .partition(|(path, _)| path.name() == b".gitattributes");
    write_files(request, &root, &attributes)?;
    let attributes_set = AttributesSet::query(git, paths)?;
    check_paths(request, git, paths, &attributes_set)?;
    let mut split = IndexSplit::default();
    if files.len() > MAX_LOOSE_OBJECTS && stores_bytes_unchanged(git)? {
        split = import(request, &files, &attributes_set, objects)?;
        let arguments = ["update-index", "-z", "--add", "--replace", "--index-info"];
        if git.start_with(&arguments, &split.entries)?.code != Some(0) {
            // Git rejected a name. Adding the files the slower way, below, reports which one.
            split.remaining = files;
        }
    } else {
        split.remaining = files;
    }
    let mut files = split.remaining;
    write_files(request, &root, &files)?;
    files.extend(attributes);
    add_files(request, git, files.iter().map(|(path, _)| *path))
}

/// Writes captured files for git to read.
fn write_files(
    request: &GitRequest<'_>,
    root: &Root,
    files: &[(&TreePath, FileState)],
) -> Result<(), Error> {
    for (path, state) in files {
        let write = || -> std::io::Result<bool> {
            root.make_parents(path)?;
            let Some(mut content) = request.content.open_object(state.hash)? else {
                return Ok(false);
            };
            if state.kind() == FileKind::Symlink {
                let mut target = Vec::new();
                std::io::Read::read_to_end(&mut content, &mut target)?;
                root.write_link(path, &target)?;
            } else {
                root.write_file(path, as_git_knows(state), &mut content)?;
            }
            Ok(true)
        };
        match write() {
            Ok(true) => {}
            Err(error) if request.content.is_sound(state.hash) => {
                return Err(error).during("writing", &root.path().join(path.as_path()));
            }
            Ok(false) | Err(_) => return Err(Error::ContentLost(vec![(*path).clone()])),
        }
    }
    Ok(())
}

/// Makes git read files and add them to the index.
fn add_files<'a>(
    request: &GitRequest<'_>,
    git: &Git,
    paths: impl IntoIterator<Item = &'a TreePath>,
) -> Result<(), Error> {
    let arguments = ["update-index", "-z", "--add", "--replace", "--stdin"];
    let answer = git.start_with(&arguments, &joined(paths))?;
    // Git reports rejected names only on stderr.
    let errors = answer.stderr.clone();
    succeed(answer, &arguments)?;
    let problems: Vec<_> = errors
        .split(|byte| *byte == b'\n')
        .filter_map(|line| line.strip_prefix(b"Ignoring path "))
        .filter_map(|path| TreePath::from_bytes(path).ok())
        .map(|path| (path, "git does not allow this name".to_owned()))
        .collect();
    refuse(request, problems)
}

/// The attributes of paths.
struct AttributesSet {
    /// Path, attribute and value, each followed by a zero.
    printed: Vec<u8>,
}

impl AttributesSet {
    fn query(git: &Git, paths: &[TreePath]) -> Result<Self, Error> {
        let arguments = ["check-attr", "-z", "--stdin", "--all"];
        let printed = git.run_with(&arguments, &joined(paths))?;
        Ok(Self { printed })
    }

    /// Each path with an attribute and its value.
    fn iter(&self) -> impl Iterator<Item = [&[u8]; 3]> {
        let mut fields = self.printed.split(|byte| *byte == 0);
        std::iter::from_fn(move || Some([fields.next()?, fields.next()?, fields.next()?]))
    }
}

/// Refuses content that git cannot commit: files in nested repositories, and files with filters that run commands.
fn check_paths(
    request: &GitRequest<'_>,
    git: &Git,
    paths: &[TreePath],
    set: &AttributesSet,
) -> Result<(), Error> {
    let mut problems: Vec<_> = paths
        .iter()
        .filter(|path| path.names().any(|name| name.eq_ignore_ascii_case(b".git")))
        .map(|path| {
            (
                path.clone(),
                "it belongs to another git repository".to_owned(),
            )
        })
        .collect();
    for [path, attribute, value] in set.iter() {
        if attribute == b"filter"
            && git.has_filter(value)
            && let Ok(path) = TreePath::from_bytes(path)
        {
            let name = String::from_utf8_lossy(value);
            problems.push((
                path,
                format!("its git filter `{name}` would have to run a command"),
            ));
        }
    }
    refuse(request, problems)
}

/// Whether the settings make git store the bytes of files unchanged, and their permissions and links as in the file
/// system. Files with carriage returns or converting attributes are exceptions.
fn stores_bytes_unchanged(git: &Git) -> Result<bool, Error> {
    let names = "^core\\.(autocrlf|eol|filemode|symlinks|ignorecase)$";
    let answer = git.try_run(&["config", "-z", "--get-regexp", names])?;
    let mut is_plain = HashMap::new();
    for setting in records(&answer.stdout) {
        // Name, line feed and value. A setting without a line feed is a boolean with the value true.
        let mut parts = setting.splitn(2, |byte| *byte == b'\n');
        let name = parts.next().unwrap_or_default();
        let value = parts.next().unwrap_or(b"true").to_ascii_lowercase();
        let is_off = matches!(value.as_slice(), b"false" | b"no" | b"off" | b"0" | b"");
        let plain = match name {
            b"core.autocrlf" => is_off || value == b"input",
            b"core.eol" => value != b"crlf",
            b"core.ignorecase" => is_off,
            _ => !is_off,
        };
        // The last value wins.
        is_plain.insert(name, plain);
    }
    Ok(is_plain.into_values().all(|plain| plain))
}

/// Paths whose attributes may convert files that contain no carriage return.
fn converted(set: &AttributesSet) -> HashSet<&[u8]> {
    let is_converting = |attribute: &[u8], value: &[u8]| match attribute {
        b"eol" => value == b"crlf",
        b"ident" | b"filter" | b"working-tree-encoding" => value != b"unset",
        _ => false,
    };
    set.iter()
        .filter(|[_, attribute, value]| is_converting(attribute, value))
        .map(|[path, _, _]| path)
        .collect()
}

/// Index entries of the stored files, and the remaining files.
#[derive(Default)]
struct IndexSplit<'a> {
    entries: Vec<u8>,
    remaining: Vec<(&'a TreePath, FileState)>,
}

/// Stores the files whose content git would not convert, in batches.
fn import<'a>(
    request: &GitRequest<'_>,
    files: &[(&'a TreePath, FileState)],
    set: &AttributesSet,
    objects: &Path,
) -> Result<IndexSplit<'a>, Error> {
    let converted = converted(set);
    let mut split = IndexSplit::default();
    let mut import = Import::new(request.scratch, &request.checkout.object_format, objects)?;
    let mut names = Vec::with_capacity(files.len());
    for (path, state) in files {
        if state.size > MAX_IMPORTED_BYTES || converted.contains(path.as_bytes()) {
            split.remaining.push((path, *state));
            continue;
        }
        let lost = || Error::ContentLost(vec![(*path).clone()]);
        let content = match request.content.read(state.hash) {
            Err(_) if !request.content.is_sound(state.hash) => return Err(lost()),
            other => other.during("reading", objects)?.ok_or_else(lost)?,
        };
        // Git itself must decide whether the carriage return is a line ending.
        if state.kind() == FileKind::File && content.contains(&b'\r') {
            split.remaining.push((path, *state));
            continue;
        }
        import.add(&content)?;
        names.push((*path, *state));
    }
    for ((path, state), oid) in names.into_iter().zip(import.finish()?) {
        let mode = match (state.kind(), state.mode.is_executable()) {
            (FileKind::Symlink, _) => "120000",
            (_, true) => "100755",
            _ => "100644",
        };
        let blob = Blob {
            mode: mode.to_owned(),
            oid,
        };
        split.entries.extend(entry(path, &blob));
    }
    Ok(split)
}
