//! Reads a git repository with the `git` program.
//!
//! Git runs with the same restrictions as in sandboxes, so that the configuration of a repository cannot start a
//! command. This module never changes a repository.

use std::path::{Path, PathBuf};

use cleveragents_sandbox::{Error, Git, GitOutput, check_repository_files};

/// Repository that a folder belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitProbe {
    /// The root of the working tree, if one exists and contains the folder.
    pub root: Option<PathBuf>,
    /// The folder that contains objects and refs.
    pub common_dir: PathBuf,
    /// Whether the repository has no working tree.
    pub is_bare: bool,
}

/// Reason why a folder could not be read as a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GitProblem {
    /// Git reports that the folder is not in a repository, or refuses to read it.
    NotARepository(String),
    /// Git cannot be started.
    Unavailable(String),
}

/// The state of a repository.
#[derive(
    Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
pub struct GitState {
    /// The checked-out branch; `null` when a commit is checked out.
    pub branch: Option<String>,
    /// The checked-out commit; `null` before the first commit.
    pub commit: Option<String>,
    /// Number of paths that differ from the commit, including untracked ones; `null` in a bare
    /// repository.
    pub dirty: Option<u64>,
}

fn unavailable(error: &Error) -> GitProblem {
    GitProblem::Unavailable(error.to_string())
}

fn run(path: &Path, arguments: &[&str]) -> Result<GitOutput, GitProblem> {
    Git::at(path)
        .try_run(arguments)
        .map_err(|error| unavailable(&error))
}

/// The first line of git's error output.
fn first_error_line(output: &GitOutput) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().next().unwrap_or("git gave no reason");
    line.strip_prefix("fatal: ").unwrap_or(line).to_owned()
}

/// Determines the repository that a folder belongs to.
pub fn git_probe(path: &Path) -> Result<GitProbe, GitProblem> {
    check_repository_files(path).map_err(|error| GitProblem::NotARepository(error.to_string()))?;
    // The root comes last: without a working tree, git prints the other values and then fails.
    let output = run(
        path,
        &[
            "rev-parse",
            "--path-format=absolute",
            "--is-bare-repository",
            "--git-common-dir",
            "--show-toplevel",
        ],
    )?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut lines = text.lines();
    match (lines.next(), lines.next(), lines.next()) {
        (Some(is_bare @ ("true" | "false")), Some(common_dir), root) => Ok(GitProbe {
            root: root.map(PathBuf::from),
            common_dir: PathBuf::from(common_dir),
            is_bare: is_bare == "true",
        }),
        _ => Err(GitProblem::NotARepository(first_error_line(&output))),
    }
}

/// Whether a repository has a branch.
pub(super) fn has_branch(path: &Path, branch: &str) -> Result<bool, GitProblem> {
    let reference = format!("refs/heads/{branch}");
    let output = run(
        path,
        &[
            "rev-parse",
            "--verify",
            "--quiet",
            "--end-of-options",
            &reference,
        ],
    )?;
    Ok(output.code == Some(0))
}

fn line(output: &GitOutput) -> Option<String> {
    let text = String::from_utf8_lossy(&output.stdout);
    (output.code == Some(0))
        .then(|| text.trim().to_owned())
        .filter(|text| !text.is_empty())
}

/// The checked-out branch and commit, and the number of changed paths.
pub(super) fn state(path: &Path, probe: &GitProbe) -> Result<GitState, GitProblem> {
    let branch = line(&run(path, &["symbolic-ref", "--quiet", "--short", "HEAD"])?);
    let commit = line(&run(path, &["rev-parse", "--verify", "--quiet", "HEAD"])?);
    let dirty = if probe.is_bare {
        None
    } else {
        // To compare a file, git may run a filter program of the repository, so filters are disabled.
        let git = Git::at(path)
            .with_commands_disabled()
            .map_err(|error| unavailable(&error))?;
        let output = git
            .try_run(&["status", "--porcelain=v1", "-z", "--no-renames"])
            .map_err(|error| unavailable(&error))?;
        if output.code != Some(0) {
            return Err(GitProblem::NotARepository(first_error_line(&output)));
        }
        // Every entry ends with a zero byte.
        let entries = output.stdout.split(|byte| *byte == 0).count() - 1;
        Some(entries as u64)
    };
    Ok(GitState {
        branch,
        commit,
        dirty,
    })
}
