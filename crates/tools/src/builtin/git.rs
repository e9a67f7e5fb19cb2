//! `builtin/git-status`, `git-diff`, `git-log`, `git-show`, `git-commit`: the sandbox's own
//! repository.

use std::cell::RefCell;
use std::sync::Arc;

use cleveragents_domain::{Diagnose as _, TreePath};
use cleveragents_process::Ending;
use cleveragents_sandbox::{Git, StreamedOutput};
use schemars::JsonSchema;
use serde::Deserialize;

use super::paths::{LastLink, Place, place, target, workspace};
use super::{Description, FILE_TIMEOUT, PrepareResult, builtin, ready};
use crate::capability::{Access, Capability};
use crate::ports::{Part, PartPath};
use crate::spec::{Category, WorkspaceNeed};
use crate::tool::{
    Answer, Call, Failure, FailureKind, PrepareContext, PrepareError, Subject, Tool,
};

/// Default of `limit`.
const DEFAULT_COMMITS: u32 = 20;

/// Author and committer when git has no `user.email` configured.
const FALLBACK_IDENTITY: [&str; 4] = [
    "-c",
    "user.name=CleverAgents",
    "-c",
    "user.email=agents@localhost",
];

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StatusArguments {
    /// The part of the sandbox; required only if there are several parts.
    part: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DiffArguments {
    /// The part of the sandbox; required only if there are several parts and no path is given.
    part: Option<String>,
    /// Show changes of this file or directory only.
    path: Option<String>,
    /// Whether to show staged changes instead of unstaged ones. Default: false.
    staged: Option<bool>,
    /// The commit to compare with, such as HEAD. Default: the state from which the sandbox was created.
    from: Option<String>,
    /// The commit to compare `from` with. Default: the current files.
    to: Option<String>,
    /// Whether to list only the changed files, without their lines. Default: false.
    summary: Option<bool>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LogArguments {
    /// The part of the sandbox; required only if there are several parts and no path is given.
    part: Option<String>,
    /// List only commits that changed this file or directory.
    path: Option<String>,
    /// The branch or commit to start at. Default: HEAD.
    from: Option<String>,
    /// Maximum number of commits. Default: 20.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<u32>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ShowArguments {
    /// The part of the sandbox; required only if there are several parts and no path is given.
    part: Option<String>,
    /// The commit to show. Default: HEAD.
    commit: Option<String>,
    /// Show this file as of the commit, instead of the commit itself.
    path: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CommitArguments {
    /// The part of the sandbox; required only if there are several parts.
    part: Option<String>,
    /// The commit message.
    #[schemars(length(min = 1))]
    message: String,
    /// The files and directories to commit. Default: everything that changed.
    paths: Option<Vec<String>>,
}

fn description(name: &'static str, about: &'static str, capability: Capability) -> Description {
    Description {
        name,
        about,
        category: Category::GitOperations,
        workspace_need: WorkspaceNeed::Required,
        capability,
        timeout: FILE_TIMEOUT,
    }
}

pub(super) fn status_tool() -> Arc<dyn Tool> {
    let about = "Shows the current branch and the files changed since the last commit.";
    builtin::<StatusArguments>(
        description("git-status", about, Capability::reads()),
        prepare_status,
    )
}

pub(super) fn diff_tool() -> Arc<dyn Tool> {
    let about = "Shows changed lines: since the sandbox was created, since a commit (`from`), or between two commits. Leaves out uncommitted new files; builtin/git-status lists them.";
    builtin::<DiffArguments>(
        description("git-diff", about, Capability::reads()),
        prepare_diff,
    )
}

pub(super) fn log_tool() -> Arc<dyn Tool> {
    let about = "Lists commits, newest first.";
    builtin::<LogArguments>(
        description("git-log", about, Capability::reads()),
        prepare_log,
    )
}

pub(super) fn show_tool() -> Arc<dyn Tool> {
    let about = "Shows a commit with its changes, or a file as of a commit.";
    builtin::<ShowArguments>(
        description("git-show", about, Capability::reads()),
        prepare_show,
    )
}

pub(super) fn commit_tool() -> Arc<dyn Tool> {
    let about = "Commits changed files in the sandbox's own repository. The user's repository is not changed.";
    let capability = Capability::writes("snapshot");
    builtin::<CommitArguments>(description("git-commit", about, capability), prepare_commit)
}

/// Resolves the part, and the path inside it if the call names one.
fn place_of<'a>(
    context: PrepareContext<'a>,
    part: Option<&str>,
    path: Option<&str>,
    access: Access,
) -> Result<Place<'a>, PrepareError> {
    if let Some(path) = path {
        return place(context, path, LastLink::Keep, access);
    }
    let parts = workspace(context)?.parts();
    let part = match (part, parts) {
        (Some(alias), parts) => find(parts, alias)?,
        (None, [only]) => only,
        (None, parts) => {
            let aliases: Vec<&str> = parts.iter().map(|part| part.alias.as_str()).collect();
            let aliases = aliases.join("`, `");
            return Err(PrepareError::Arguments(format!(
                "`part` is required; the parts are `{aliases}`"
            )));
        }
    };
    if access == Access::Writes && part.is_read_only {
        return Err(PrepareError::ReadOnlyPart(part.alias.clone()));
    }
    Ok(Place { part, path: None })
}

pub(super) fn find<'a>(parts: &'a [Part], alias: &str) -> Result<&'a Part, PrepareError> {
    parts
        .iter()
        .find(|part| part.alias == alias)
        .ok_or_else(|| {
            let aliases: Vec<&str> = parts.iter().map(|part| part.alias.as_str()).collect();
            let aliases = aliases.join("`, `");
            PrepareError::Arguments(format!(
                "there is no part `{alias}`; the parts are `{aliases}`"
            ))
        })
}

/// Rejects a commit name that git would parse as an option, or as a file in a commit (`HEAD:path`), because permission
/// rules may hide that file.
fn commit_name(name: Option<String>) -> Result<Option<String>, PrepareError> {
    match name {
        Some(name) if name.contains(':') => Err(PrepareError::Arguments(format!(
            "`{name}` is not the name of a commit; name a file with `path`"
        ))),
        Some(name) if name.starts_with('-') || name.trim().is_empty() || name.contains('\0') => {
            Err(PrepareError::Arguments(format!(
                "`{name}` is not the name of a commit"
            )))
        }
        other => Ok(other),
    }
}

fn repository(place: &Place<'_>, call: &Call<'_>) -> Result<Git, Failure> {
    let alias = &place.part.alias;
    call.workspace()?
        .git(alias)?
        .ok_or_else(|| Failure::new(format!("the part `{alias}` is not a git repository")))
}

/// Runs git and copies its standard output to the output of the call.
fn run(git: &Git, arguments: &[String], call: &mut Call<'_>) -> Result<(), Failure> {
    let (time, cancel) = (call.time_left(), call.cancel());
    let output = RefCell::new(&mut call.output);
    let streamed = git.stream(arguments, time, cancel, &|bytes| {
        output.borrow_mut().bytes(bytes);
    });
    check_end(streamed, call)
}

/// Runs git and returns its standard output.
fn capture(git: &Git, arguments: &[String], call: &Call<'_>) -> Result<Vec<u8>, Failure> {
    let output = RefCell::new(Vec::new());
    let streamed = git.stream(arguments, call.time_left(), call.cancel(), &|bytes| {
        output.borrow_mut().extend_from_slice(bytes);
    });
    check_end(streamed, call)?;
    Ok(output.into_inner())
}

fn check_end(
    streamed: Result<StreamedOutput, cleveragents_sandbox::Error>,
    call: &Call<'_>,
) -> Result<(), Failure> {
    let streamed = streamed.map_err(|error| {
        let hint = error
            .hint()
            .map(|hint| format!(" ({})", hint.neutral()))
            .unwrap_or_default();
        Failure::new(format!("{error}{hint}"))
    })?;
    match streamed.ending {
        Ending::Exited(0) => Ok(()),
        Ending::TimedOut => Err(call.timed_out()),
        Ending::Cancelled => Err(Failure::with_kind(
            FailureKind::Cancelled,
            "the call was cancelled",
        )),
        Ending::Exited(_) | Ending::Signalled(_) => {
            let message = String::from_utf8_lossy(&streamed.complaints)
                .trim()
                .to_owned();
            Err(Failure::new(format!("git failed: {message}")))
        }
    }
}

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Appends `--` and the path of a place, so that git cannot parse the path as an option.
fn with_path(mut arguments: Vec<String>, place: &Place<'_>) -> Result<Vec<String>, Failure> {
    arguments.push("--".to_owned());
    if let Some(path) = &place.path {
        let path = path.as_path().to_str();
        arguments.push(
            path.ok_or_else(|| Failure::new("the path is not UTF-8"))?
                .to_owned(),
        );
    }
    Ok(arguments)
}

fn prepare_status(arguments: StatusArguments, context: PrepareContext<'_>) -> PrepareResult<'_> {
    let place = place_of(context, arguments.part.as_deref(), None, Access::Reads)?;
    let subjects = vec![place.subject(Access::Reads)];
    Ok(ready(subjects, move |call| {
        let git = repository(&place, call)?;
        run(
            &git,
            &strings(&["status", "--porcelain=v1", "--branch"]),
            call,
        )?;
        Ok(Answer::written())
    }))
}

fn prepare_diff(arguments: DiffArguments, context: PrepareContext<'_>) -> PrepareResult<'_> {
    let place = place_of(
        context,
        arguments.part.as_deref(),
        arguments.path.as_deref(),
        Access::Reads,
    )?;
    let (from, to) = (commit_name(arguments.from)?, commit_name(arguments.to)?);
    if from.is_none() && to.is_some() {
        return Err(PrepareError::Arguments("`to` requires `from`".to_owned()));
    }
    let subjects = vec![place.subject(Access::Reads)];
    Ok(ready(subjects, move |call| {
        check_readable(&place, call)?;
        let git = repository(&place, call)?;
        let mut command = strings(&[
            "--literal-pathspecs",
            "diff",
            "--no-color",
            "--no-ext-diff",
            "--no-textconv",
        ]);
        if arguments.staged == Some(true) {
            command.push("--cached".to_owned());
        }
        let mut commits = vec!["--end-of-options".to_owned()];
        // Compared with this commit, the diff includes commits made in the sandbox.
        let base = || call.workspace().ok()?.base_commit(&place.part.alias);
        let from = from.or_else(|| base().filter(|_| arguments.staged != Some(true)));
        commits.extend(from.into_iter().chain(to));
        let list = [command.as_slice(), &strings(&LIST_NAMES), &commits].concat();
        let paths = readable_paths(&git, &with_path(list, &place)?, &place, call)?;
        if arguments.summary == Some(true) {
            command.push("--stat".to_owned());
        }
        show_paths(&git, [command, commits].concat(), paths, &place, call)
    }))
}

fn prepare_log(arguments: LogArguments, context: PrepareContext<'_>) -> PrepareResult<'_> {
    let place = place_of(
        context,
        arguments.part.as_deref(),
        arguments.path.as_deref(),
        Access::Reads,
    )?;
    let from = commit_name(arguments.from)?;
    let subjects = vec![place.subject(Access::Reads)];
    Ok(ready(subjects, move |call| {
        let git = repository(&place, call)?;
        let count = arguments.limit.unwrap_or(DEFAULT_COMMITS);
        let mut command = strings(&[
            "--literal-pathspecs",
            "log",
            "--no-color",
            "--date=iso-strict",
        ]);
        command.push("--format=%h %ad %an: %s".to_owned());
        command.push(format!("--max-count={count}"));
        command.push("--end-of-options".to_owned());
        command.extend(from);
        run(&git, &with_path(command, &place)?, call)?;
        Ok(Answer::written())
    }))
}

fn prepare_show(arguments: ShowArguments, context: PrepareContext<'_>) -> PrepareResult<'_> {
    let place = place_of(
        context,
        arguments.part.as_deref(),
        arguments.path.as_deref(),
        Access::Reads,
    )?;
    let commit = commit_name(arguments.commit)?.unwrap_or_else(|| "HEAD".to_owned());
    let subjects = vec![place.subject(Access::Reads)];
    Ok(ready(subjects, move |call| {
        check_readable(&place, call)?;
        let git = repository(&place, call)?;
        let options = strings(&[
            "--literal-pathspecs",
            "show",
            "--no-color",
            "--no-ext-diff",
            "--no-textconv",
        ]);
        let end = strings(&["--end-of-options"]);
        if let Some(path) = &place.path {
            let path = path.as_path().to_str();
            let path = path.ok_or_else(|| Failure::new("the path is not UTF-8"))?;
            let file = format!("{commit}:{path}");
            run(&git, &[options, end, vec![file]].concat(), call)?;
            return Ok(Answer::written());
        }
        let names = [strings(&LIST_NAMES), strings(&["--format="])].concat();
        let commit = vec![commit];
        let list = [options.clone(), names, end.clone(), commit.clone()].concat();
        let paths = readable_paths(&git, &with_path(list, &place)?, &place, call)?;
        show_paths(&git, [options, end, commit].concat(), paths, &place, call)
    }))
}

/// Options that list the changed files of a diff, separated by NUL.
const LIST_NAMES: [&str; 3] = ["--name-only", "--no-renames", "-z"];

/// Returns the listed files that permission rules do not hide; `None` if they hide none.
fn readable_paths(
    git: &Git,
    list: &[String],
    place: &Place<'_>,
    call: &Call<'_>,
) -> Result<Option<Vec<String>>, Failure> {
    let listed = capture(git, list, call)?;
    let names = listed.split(|byte| *byte == 0);
    let (mut readable, mut hides_any) = (Vec::new(), false);
    for name in names.filter(|name| !name.is_empty()) {
        let path = TreePath::from_bytes(name);
        let path = path.map_err(|error| Failure::new(error.to_string()))?;
        let path = PartPath {
            alias: place.part.alias.clone(),
            path,
        };
        match std::str::from_utf8(name) {
            Ok(name) if call.path_permissions().shows(&path) => readable.push(name.to_owned()),
            Ok(_) => hides_any = true,
            Err(_) => hides_any |= !call.path_permissions().shows(&path),
        }
    }
    Ok(hides_any.then_some(readable))
}

/// Runs a command that shows changes, limited to `paths` if they are given.
fn show_paths(
    git: &Git,
    command: Vec<String>,
    paths: Option<Vec<String>>,
    place: &Place<'_>,
    call: &mut Call<'_>,
) -> Result<Answer, Failure> {
    let Some(paths) = paths else {
        run(git, &with_path(command, place)?, call)?;
        return Ok(Answer::written());
    };
    if !paths.is_empty() {
        let separator = vec!["--".to_owned()];
        run(git, &[command, separator, paths].concat(), call)?;
    }
    call.output
        .bytes(b"\n[files that may not be read are left out]\n");
    Ok(Answer::written())
}

/// Refuses paths that permission rules hide: the repository must not reveal them either.
fn check_readable(place: &Place<'_>, call: &Call<'_>) -> Result<(), Failure> {
    let Subject::Path { path, .. } = place.subject(Access::Reads) else {
        return Ok(());
    };
    if call.path_permissions().shows(&path) {
        Ok(())
    } else {
        Err(Failure::new(format!("`{path}` may not be read")))
    }
}

fn prepare_commit(arguments: CommitArguments, context: PrepareContext<'_>) -> PrepareResult<'_> {
    let targets = arguments
        .paths
        .unwrap_or_default()
        .iter()
        .map(|path| target(context, path, LastLink::Keep, Access::Writes))
        .collect::<Result<Vec<_>, _>>()?;
    let place = match (targets.first(), &arguments.part) {
        (Some(first), None) => Place {
            part: first.part,
            path: None,
        },
        _ => place_of(context, arguments.part.as_deref(), None, Access::Writes)?,
    };
    if targets
        .iter()
        .any(|target| target.part.alias != place.part.alias)
    {
        return Err(PrepareError::Arguments(
            "the paths belong to different parts".to_owned(),
        ));
    }
    let subjects = std::iter::once(place.subject(Access::Writes))
        .chain(targets.iter().map(|target| target.subject(Access::Writes)))
        .collect();
    Ok(ready(subjects, move |call| {
        let git = repository(&place, call)?;
        let mut paths = vec!["--".to_owned()];
        for target in &targets {
            let path = target.path.as_path().to_str();
            paths.push(
                path.ok_or_else(|| Failure::new("a path is not UTF-8"))?
                    .to_owned(),
            );
        }
        let mut add = strings(&["--literal-pathspecs", "add", "--all"]);
        add.extend(paths.iter().cloned());
        run(&git, &add, call)?;
        let mut commit = Vec::new();
        let email = git.try_run(&["config", "user.email"]);
        if email.is_ok_and(|answer| answer.code != Some(0)) {
            commit.extend(strings(&FALLBACK_IDENTITY));
        }
        commit.extend(strings(&[
            "--literal-pathspecs",
            "commit",
            "--no-verify",
            "--no-gpg-sign",
        ]));
        commit.extend(["--message".to_owned(), arguments.message]);
        commit.extend(paths);
        run(&git, &commit, call)?;
        Ok(Answer::written())
    }))
}
