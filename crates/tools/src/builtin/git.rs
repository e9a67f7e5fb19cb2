//! `builtin/git-status`, `git-diff`, `git-log`, `git-show`, `git-commit`: the repository that the
//! sandbox has of its own.

use std::cell::RefCell;
use std::sync::Arc;

use cleveragents_domain::Diagnose as _;
use cleveragents_process::Ending;
use cleveragents_sandbox::Git;
use schemars::JsonSchema;
use serde::Deserialize;

use super::paths::{Last, Place, place, target, workspace};
use super::{Description, FILE_TIMEOUT, Preparing, builtin, ready};
use crate::capability::{Access, Capability};
use crate::ports::Part;
use crate::spec::{Category, Ground};
use crate::tool::{Answer, Call, Failure, FailureKind, Grounds, Subject, Tool, Unprepared};

/// So many commits are listed when the call does not say.
const DEFAULT_COMMITS: u32 = 20;

/// Who commits where the user has told git no name.
const FALLBACK_NAME: [&str; 4] = [
    "-c",
    "user.name=CleverAgents",
    "-c",
    "user.email=agents@localhost",
];

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StatusArguments {
    /// The part of the sandbox; not needed when there is only one.
    part: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DiffArguments {
    /// The part of the sandbox; not needed when there is only one, or when a path is given.
    part: Option<String>,
    /// Only this file or folder.
    path: Option<String>,
    /// Whether to show what is staged instead of what is not.
    staged: Option<bool>,
    /// The commit to compare with, such as HEAD; the state from which the sandbox was made when not given.
    from: Option<String>,
    /// The commit to compare `from` with, instead of the files as they are.
    to: Option<String>,
    /// Whether to list the changed files only.
    summary: Option<bool>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LogArguments {
    /// The part of the sandbox; not needed when there is only one, or when a path is given.
    part: Option<String>,
    /// Only commits that changed this file or folder.
    path: Option<String>,
    /// The branch or commit to begin at.
    from: Option<String>,
    /// How many commits to list; 20 when not given.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<u32>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ShowArguments {
    /// The part of the sandbox; not needed when there is only one, or when a path is given.
    part: Option<String>,
    /// The commit; the newest when not given.
    commit: Option<String>,
    /// Show this file as it was in the commit, instead of the commit.
    path: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CommitArguments {
    /// The part of the sandbox; not needed when there is only one.
    part: Option<String>,
    /// The message of the commit.
    #[schemars(length(min = 1))]
    message: String,
    /// Only these files and folders; everything that changed when not given.
    paths: Option<Vec<String>>,
}

fn description(name: &'static str, about: &'static str, capability: Capability) -> Description {
    Description {
        name,
        about,
        category: Category::GitOperations,
        ground: Ground::Workspace,
        capability,
        timeout: FILE_TIMEOUT,
    }
}

pub(super) fn status_tool() -> Arc<dyn Tool> {
    let about = "Tells the branch and which files changed since the last commit.";
    builtin::<StatusArguments>(
        description("git-status", about, Capability::reads()),
        prepare_status,
    )
}

pub(super) fn diff_tool() -> Arc<dyn Tool> {
    let about = "Shows what changed, line by line: since the sandbox was made, since a commit (`from`), or between two commits. New files that are not committed are not in it: see builtin/git-status.";
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
    let about = "Shows a commit with its changes, or a file as it was in a commit.";
    builtin::<ShowArguments>(
        description("git-show", about, Capability::reads()),
        prepare_show,
    )
}

pub(super) fn commit_tool() -> Arc<dyn Tool> {
    let about = "Commits changed files in the sandbox's own repository. The user's repository is not touched.";
    let capability = Capability::writes("snapshot");
    builtin::<CommitArguments>(description("git-commit", about, capability), prepare_commit)
}

/// The part that is meant, and the path in it when one is given.
fn place_of<'a>(
    grounds: Grounds<'a>,
    part: Option<&str>,
    path: Option<&str>,
    access: Access,
) -> Result<Place<'a>, Unprepared> {
    if let Some(path) = path {
        return place(grounds, path, Last::Keep, access);
    }
    let parts = workspace(grounds)?.parts();
    let part = match (part, parts) {
        (Some(alias), parts) => find(parts, alias)?,
        (None, [only]) => only,
        (None, parts) => {
            let aliases: Vec<&str> = parts.iter().map(|part| part.alias.as_str()).collect();
            let aliases = aliases.join("`, `");
            return Err(Unprepared::Arguments(format!(
                "say which `part`: `{aliases}`"
            )));
        }
    };
    if access == Access::Writes && part.is_read_only {
        return Err(Unprepared::ReadOnlyPart(part.alias.clone()));
    }
    Ok(Place { part, path: None })
}

pub(super) fn find<'a>(parts: &'a [Part], alias: &str) -> Result<&'a Part, Unprepared> {
    parts
        .iter()
        .find(|part| part.alias == alias)
        .ok_or_else(|| {
            let aliases: Vec<&str> = parts.iter().map(|part| part.alias.as_str()).collect();
            let aliases = aliases.join("`, `");
            Unprepared::Arguments(format!(
                "there is no part `{alias}`; the parts are `{aliases}`"
            ))
        })
}

/// A name of a commit that git cannot take for an option.
fn commit_name(name: Option<String>) -> Result<Option<String>, Unprepared> {
    match name {
        Some(name) if name.starts_with('-') || name.trim().is_empty() || name.contains('\0') => {
            Err(Unprepared::Arguments(format!(
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
        .ok_or_else(|| Failure::new(format!("the part `{alias}` is no git repository")))
}

/// Runs git and passes on what it says.
fn run(git: &Git, arguments: &[String], call: &mut Call<'_>) -> Result<(), Failure> {
    let time = call.time_left();
    let cancel = call.cancel();
    let output = RefCell::new(&mut call.output);
    let streamed = git.stream(arguments, time, cancel, &|bytes| {
        output.borrow_mut().bytes(bytes);
    });
    let streamed = streamed.map_err(|error| {
        let hint = error
            .hint()
            .map(|hint| format!(" ({hint})"))
            .unwrap_or_default();
        Failure::new(format!("{error}{hint}"))
    })?;
    match streamed.ending {
        Ending::Exited(0) => Ok(()),
        Ending::TimedOut => Err(call.timed_out()),
        Ending::Cancelled => Err(Failure::of(
            FailureKind::Cancelled,
            "the call was cancelled",
        )),
        Ending::Exited(_) | Ending::Signalled(_) => {
            let told = String::from_utf8_lossy(&streamed.complaints)
                .trim()
                .to_owned();
            Err(Failure::new(format!("git says: {told}")))
        }
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Adds the path of a place, as nothing but a path.
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

fn prepare_status(arguments: StatusArguments, grounds: Grounds<'_>) -> Preparing<'_> {
    let place = place_of(grounds, arguments.part.as_deref(), None, Access::Reads)?;
    let subjects = vec![place.subject(Access::Reads)];
    Ok(ready(subjects, move |call| {
        let git = repository(&place, call)?;
        run(
            &git,
            &words(&["status", "--porcelain=v1", "--branch"]),
            call,
        )?;
        Ok(Answer::written())
    }))
}

fn prepare_diff(arguments: DiffArguments, grounds: Grounds<'_>) -> Preparing<'_> {
    let place = place_of(
        grounds,
        arguments.part.as_deref(),
        arguments.path.as_deref(),
        Access::Reads,
    )?;
    let (from, to) = (commit_name(arguments.from)?, commit_name(arguments.to)?);
    if from.is_none() && to.is_some() {
        return Err(Unprepared::Arguments("`to` needs a `from`".to_owned()));
    }
    let subjects = vec![place.subject(Access::Reads)];
    Ok(ready(subjects, move |call| {
        check_readable(&place, call)?;
        let git = repository(&place, call)?;
        let mut line = words(&[
            "--literal-pathspecs",
            "diff",
            "--no-color",
            "--no-ext-diff",
            "--no-textconv",
        ]);
        if arguments.staged == Some(true) {
            line.push("--cached".to_owned());
        }
        if arguments.summary == Some(true) {
            line.push("--stat".to_owned());
        }
        line.push("--end-of-options".to_owned());
        // Commits in the sandbox are part of what changed.
        let base = || call.workspace().ok()?.base_commit(&place.part.alias);
        let from = from.or_else(|| base().filter(|_| arguments.staged != Some(true)));
        line.extend(from.into_iter().chain(to));
        run(&git, &with_path(line, &place)?, call)?;
        Ok(Answer::written())
    }))
}

fn prepare_log(arguments: LogArguments, grounds: Grounds<'_>) -> Preparing<'_> {
    let place = place_of(
        grounds,
        arguments.part.as_deref(),
        arguments.path.as_deref(),
        Access::Reads,
    )?;
    let from = commit_name(arguments.from)?;
    let subjects = vec![place.subject(Access::Reads)];
    Ok(ready(subjects, move |call| {
        let git = repository(&place, call)?;
        let count = arguments.limit.unwrap_or(DEFAULT_COMMITS);
        let mut line = words(&[
            "--literal-pathspecs",
            "log",
            "--no-color",
            "--date=iso-strict",
        ]);
        line.push("--format=%h %ad %an: %s".to_owned());
        line.push(format!("--max-count={count}"));
        line.push("--end-of-options".to_owned());
        line.extend(from);
        run(&git, &with_path(line, &place)?, call)?;
        Ok(Answer::written())
    }))
}

fn prepare_show(arguments: ShowArguments, grounds: Grounds<'_>) -> Preparing<'_> {
    let place = place_of(
        grounds,
        arguments.part.as_deref(),
        arguments.path.as_deref(),
        Access::Reads,
    )?;
    let commit = commit_name(arguments.commit)?.unwrap_or_else(|| "HEAD".to_owned());
    let subjects = vec![place.subject(Access::Reads)];
    Ok(ready(subjects, move |call| {
        check_readable(&place, call)?;
        let git = repository(&place, call)?;
        let mut line = words(&[
            "show",
            "--no-color",
            "--no-ext-diff",
            "--no-textconv",
            "--end-of-options",
        ]);
        line.push(
            match place.path.as_ref().map(|path| path.as_path().to_str()) {
                None => commit,
                Some(Some(path)) => format!("{commit}:{path}"),
                Some(None) => return Err(Failure::new("the path is not UTF-8")),
            },
        );
        run(&git, &line, call)?;
        Ok(Answer::written())
    }))
}

/// What may not be read as a file may not be read from the repository either.
fn check_readable(place: &Place<'_>, call: &Call<'_>) -> Result<(), Failure> {
    let Subject::Path { path, .. } = place.subject(Access::Reads) else {
        return Ok(());
    };
    if call.fence().shows(&path) {
        Ok(())
    } else {
        Err(Failure::new(format!("`{path}` may not be read")))
    }
}

fn prepare_commit(arguments: CommitArguments, grounds: Grounds<'_>) -> Preparing<'_> {
    let targets = arguments
        .paths
        .unwrap_or_default()
        .iter()
        .map(|path| target(grounds, path, Last::Keep, Access::Writes))
        .collect::<Result<Vec<_>, _>>()?;
    let place = match (targets.first(), &arguments.part) {
        (Some(first), None) => Place {
            part: first.part,
            path: None,
        },
        _ => place_of(grounds, arguments.part.as_deref(), None, Access::Writes)?,
    };
    if targets
        .iter()
        .any(|target| target.part.alias != place.part.alias)
    {
        return Err(Unprepared::Arguments(
            "the paths are in different parts".to_owned(),
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
        let mut add = words(&["--literal-pathspecs", "add", "--all"]);
        add.extend(paths.iter().cloned());
        run(&git, &add, call)?;
        let mut commit = Vec::new();
        let known = git.try_run(&["config", "user.email"]);
        if known.is_ok_and(|answer| answer.code != Some(0)) {
            commit.extend(words(&FALLBACK_NAME));
        }
        commit.extend(words(&[
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
