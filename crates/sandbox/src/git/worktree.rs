//! The worktree of a sandbox: made from a commit of the user's repository, removed without a trace.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::program::{Git, check_version};
use crate::beneath::path_of;
use crate::error::{During as _, Error};

/// The user's repository as it is now.
#[derive(Debug, Clone)]
pub(crate) struct Checkout {
    /// Git, started in it.
    pub(crate) git: Git,
    /// The folder of the user's files; the repository itself when it is bare.
    pub(crate) location: PathBuf,
    pub(crate) is_bare: bool,
    /// Its own git folder, which differs from the common one in a linked worktree.
    pub(crate) git_dir: PathBuf,
    pub(crate) common_dir: PathBuf,
    pub(crate) index: PathBuf,
}

/// What a worktree started from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitBase {
    /// The commit.
    pub commit: String,
    /// The branch that was checked out, `None` for a detached head.
    pub branch: Option<String>,
}

/// Looks at the repository whose root a folder is.
pub(crate) fn open_checkout(location: &Path) -> Result<Checkout, Error> {
    check_version()?;
    let git = Git::at(location);
    let answer = git.try_run(&[
        "rev-parse",
        "--path-format=absolute",
        "--is-bare-repository",
        "--git-dir",
        "--git-common-dir",
        "--git-path",
        "index",
    ])?;
    if answer.code != Some(0) {
        return Err(Error::CannotSandbox {
            what: format!("`{}`", location.display()),
            reason: answer.failure(&["rev-parse"]).to_string(),
            hint: Some("name the folder of a git repository".to_owned()),
        });
    }
    let mut lines = answer.stdout.split(|byte| *byte == b'\n');
    let mut path = || path_of(lines.next().unwrap_or_default().to_vec());
    let is_bare = path() == Path::new("true");
    Ok(Checkout {
        git_dir: path(),
        common_dir: path(),
        index: path(),
        git: git.disarmed()?,
        location: location.to_owned(),
        is_bare,
    })
}

impl Checkout {
    /// The commit at the head and the branch it is on.
    pub(crate) fn head(&self) -> Result<GitBase, Error> {
        let commit = self
            .git
            .try_run(&["rev-parse", "--verify", "--quiet", "HEAD^{commit}"])?;
        if commit.code != Some(0) {
            return Err(Error::CannotSandbox {
                what: format!("`{}`", self.location.display()),
                reason: "the repository has no commit yet".to_owned(),
                hint: Some("make a first commit: `git add -A && git commit`".to_owned()),
            });
        }
        let branch = self.git.try_run(&["symbolic-ref", "--quiet", "HEAD"])?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        Ok(GitBase {
            commit: text(&commit.stdout),
            branch: (branch.code == Some(0)).then(|| text(&branch.stdout)),
        })
    }

    /// Git with an index of our own and the files of a sandbox.
    pub(crate) fn scratch(&self, index: &Path, work_tree: &Path) -> Git {
        self.git
            .with("GIT_DIR", &self.git_dir)
            .with("GIT_COMMON_DIR", &self.common_dir)
            .with("GIT_INDEX_FILE", index)
            .with("GIT_WORK_TREE", work_tree)
    }

    /// Whether nothing stops a merge: one that the user began must be ended first.
    pub(crate) fn check_idle(&self) -> Result<(), Error> {
        for (file, work) in [
            ("MERGE_HEAD", "merge"),
            ("CHERRY_PICK_HEAD", "cherry-pick"),
            ("REVERT_HEAD", "revert"),
            ("rebase-merge", "rebase"),
            ("rebase-apply", "rebase"),
            ("BISECT_LOG", "bisect"),
        ] {
            if self.git_dir.join(file).exists() {
                return Err(Error::CannotSandbox {
                    what: format!("`{}`", self.location.display()),
                    reason: format!("a {work} is going on in it"),
                    hint: Some(format!(
                        "end it first: `git {work} --continue` or `--abort`, or reset the bisection"
                    )),
                });
            }
        }
        Ok(())
    }
}

/// The name under which the commit of a sandbox is kept alive.
fn keeper(id: &str, alias: &str) -> String {
    format!(
        "refs/cleveragents/sandboxes/{}/{alias}",
        id.to_ascii_lowercase()
    )
}

/// Makes the worktree of a sandbox at a folder that does not exist yet.
pub(crate) fn create_worktree(
    checkout: &Checkout,
    base: &GitBase,
    folder: &Path,
    id: &str,
    alias: &str,
) -> Result<(), Error> {
    let reason = format!("sandbox {id}");
    checkout
        .git
        .run(&["update-ref", "--no-deref", &keeper(id, alias), &base.commit])?;
    let git = checkout
        .git
        .set("checkout.workers=0")
        .set("checkout.thresholdForParallelism=500");
    let arguments = [
        "worktree".as_ref(),
        "add".as_ref(),
        "--quiet".as_ref(),
        "--detach".as_ref(),
        "--lock".as_ref(),
        "--reason".as_ref(),
        reason.as_ref(),
        folder.as_os_str(),
        base.commit.as_ref(),
    ];
    git.run(&arguments)?;
    Ok(())
}

/// Removes a worktree, its registration and the name that kept its commit, whatever is left of them.
pub(crate) fn remove_worktree(
    checkout: &Checkout,
    folder: &Path,
    id: &str,
    alias: &str,
) -> Result<(), Error> {
    let registration = registration_of(checkout, folder)?;
    crate::remove_folder(folder).during("removing", folder)?;
    if let Some(registration) = registration {
        crate::remove_folder(&registration).during("removing", &registration)?;
    }
    checkout
        .git
        .run(&["update-ref", "--no-deref", "-d", &keeper(id, alias)])?;
    Ok(())
}

/// The folder in which the repository keeps what it knows of a worktree.
pub(crate) fn registration_of(
    checkout: &Checkout,
    folder: &Path,
) -> Result<Option<PathBuf>, Error> {
    let all = checkout.common_dir.join("worktrees");
    let entries = match std::fs::read_dir(&all) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).during("reading", &all),
    };
    let wanted = folder.join(".git");
    for entry in entries {
        let place = entry.during("reading", &all)?.path();
        let Ok(mut target) = std::fs::read(place.join("gitdir")) else {
            continue;
        };
        while target.last() == Some(&b'\n') {
            target.pop();
        }
        if path_of(target) == wanted {
            return Ok(Some(place));
        }
    }
    Ok(None)
}
