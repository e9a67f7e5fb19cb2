//! What a sandbox is made of: paths as people type them, resources and projects.

use std::collections::HashSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use cleveragents_domain::Code;
use cleveragents_engine::Target;
use cleveragents_sandbox::Source;

use crate::arguments::SandboxCreate;
use crate::context::Context;
use crate::output::CommandError;

/// The resources named on the command line, and how the sandbox says what it was made from.
pub(super) fn of(
    context: &Context,
    arguments: &SandboxCreate,
) -> Result<(String, Vec<Target>), CommandError> {
    let mut origin = Vec::new();
    let mut targets = Vec::new();
    for path in &arguments.path {
        let place = absolute(context, path)?;
        origin.push(format!("path {}", place.display()));
        targets.push(of_path(&place)?);
    }
    if targets.is_empty() {
        return Err(
            CommandError::usage("nothing is named that the sandbox shall hold").with_hint(
                "name a folder with --path, a resource with --resource or a project with --project",
            ),
        );
    }
    make_distinct(&mut targets)?;
    Ok((origin.join(", "), targets))
}

fn absolute(context: &Context, path: &Path) -> Result<PathBuf, CommandError> {
    let base = context
        .environment
        .working_folder()
        .unwrap_or_else(|| Path::new("/"));
    let place = base.join(path);
    std::fs::canonicalize(&place).map_err(|error| {
        CommandError::new(
            Code::FileAccess,
            format!("`{}` cannot be read", place.display()),
        )
        .caused_by(&error)
        .with_hint("name something that exists")
    })
}

fn of_path(place: &Path) -> Result<Target, CommandError> {
    let (source, strategy) = if place.is_dir() {
        if place.join(".git").exists() || is_bare(place) {
            (Source::Git, "git_worktree")
        } else {
            (Source::Directory, "copy_on_write")
        }
    } else if is_sqlite(place) {
        (Source::Sqlite, "transaction_rollback")
    } else {
        (Source::File, "copy_on_write")
    };
    Ok(Target {
        alias: alias_of(place),
        resource: place.display().to_string(),
        strategy: strategy.to_owned(),
        source,
        location: place.to_owned(),
        is_read_only: false,
    })
}

fn is_bare(place: &Path) -> bool {
    place.join("HEAD").is_file() && place.join("objects").is_dir() && place.join("refs").is_dir()
}

fn is_sqlite(place: &Path) -> bool {
    let mut start = [0; 16];
    std::fs::File::open(place)
        .and_then(|mut file| file.read_exact(&mut start))
        .is_ok_and(|()| &start == b"SQLite format 3\0")
}

/// A plain word for the folder of a part.
fn alias_of(place: &Path) -> String {
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    let plain: String = name
        .chars()
        .map(|letter| {
            if letter.is_ascii_alphanumeric() || "._-".contains(letter) {
                letter
            } else {
                '-'
            }
        })
        .collect();
    let plain = plain.trim_matches(['.', '-']).to_owned();
    if plain.is_empty() {
        "part".to_owned()
    } else {
        plain
    }
}

/// Every part needs a name of its own, and nothing may be in the sandbox twice.
fn make_distinct(targets: &mut [Target]) -> Result<(), CommandError> {
    let mut places = HashSet::new();
    let mut names = HashSet::new();
    for target in targets {
        if !places.insert(target.location.clone()) {
            return Err(CommandError::usage(format!(
                "`{}` is named twice",
                target.location.display()
            ))
            .with_hint("name it once"));
        }
        let first = target.alias.clone();
        let mut count = 1;
        while !names.insert(target.alias.clone()) {
            count += 1;
            target.alias = format!("{first}-{count}");
        }
    }
    Ok(())
}
