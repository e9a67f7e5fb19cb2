//! The changes as a patch that `git apply` accepts.

use std::path::Path;

use cleveragents_domain::{FileKind, FileMode, FileState};

use crate::apply::MAX_PATH_BYTES;
use crate::capture::Change;
use crate::error::{Error, PathContext as _};
use crate::git::Git;
use crate::member::Member;
use crate::objects::Objects;
use crate::scoped_dir::Root;

/// The changes as a patch, including binary files. Folders, and permissions except the execute bit, are missing,
/// because the format cannot express them. `beneath` is a prefix for the paths.
pub fn patch(
    member: &Member,
    changes: &[Change],
    beneath: Option<&str>,
    temporary: &Path,
) -> Result<Vec<u8>, Error> {
    let folder = tempfile::tempdir_in(temporary).during("making a folder in", temporary)?;
    let (changes, too_long): (Vec<&Change>, Vec<&Change>) = changes
        .iter()
        .partition(|change| change.path.as_bytes().len() <= MAX_PATH_BYTES);
    let objects = member.open_objects()?;
    for side in ["a", "b"] {
        let place = folder.path().join(side).join(beneath.unwrap_or_default());
        std::fs::create_dir_all(&place).during("making", &place)?;
        let root = Root::open(&place).during("opening", &place)?;
        for change in &changes {
            let state = if side == "a" {
                change.before
            } else {
                change.after
            };
            if let Some(state) = state.filter(|state| state.kind() != FileKind::Directory) {
                write(member, &objects, &root, change, &state)?;
            }
        }
    }
    let arguments = [
        "diff",
        "--no-index",
        "--no-prefix",
        "--binary",
        "--no-color",
        "--no-ext-diff",
        "--no-textconv",
        "--no-renames",
        "a",
        "b",
    ];
    // Git must compare byte for byte, without line-ending conversion and without the settings of a repository around
    // the folder.
    let git = Git::at(folder.path())
        .with_commands_disabled()?
        .set("core.autocrlf=false")
        .set("core.attributesFile=/dev/null")
        .with("GIT_ATTR_NOSYSTEM", "1")
        .with("GIT_DIR", "/dev/null");
    let answer = git.try_run(&arguments)?;
    match answer.code {
        Some(0 | 1) => {
            let mut patch = answer.stdout;
            for change in too_long {
                // Programs that read a patch skip text between two files.
                let start: String = change.path.to_string().chars().take(100).collect();
                let line = format!(
                    "# not shown, its path has more than {MAX_PATH_BYTES} bytes: {start}…\n"
                );
                patch.extend_from_slice(line.as_bytes());
            }
            Ok(patch)
        }
        _ => Err(answer.failure(&arguments)),
    }
}

fn write(
    member: &Member,
    objects: &Objects,
    root: &Root,
    change: &Change,
    state: &FileState,
) -> Result<(), Error> {
    let place = root.path().join(change.path.as_path());
    let content = member
        .content(objects, state)?
        .ok_or_else(|| Error::ContentLost(vec![change.path.clone()]))?;
    root.make_parents(&change.path).during("making", &place)?;
    let mode = as_git_knows(state);
    match state.kind() {
        FileKind::Symlink => root.write_link(&change.path, &content),
        _ => root.write_file(&change.path, mode, &mut content.as_slice()),
    }
    .during("writing", &place)
}

/// Mode with only the execute bit, as git records it; always readable by the comparing process.
pub(crate) fn as_git_knows(state: &FileState) -> FileMode {
    let permissions = if state.mode.is_executable() {
        0o755
    } else {
        0o644
    };
    FileMode::new(state.kind(), permissions)
}
