//! What no sandbox may hold: the files in which the program keeps its own records.

use std::path::{Path, PathBuf};

use cleveragents_sandbox::{Error, Source};

use super::target::Target;

/// Refuses targets that are, hold or lie in the program's own files. `sandboxes` is the folder of
/// all sandboxes, `database` the file of the records, if they are in one.
pub(super) fn check(
    targets: &[Target],
    sandboxes: &Path,
    database: Option<&Path>,
) -> Result<(), Error> {
    for target in targets
        .iter()
        .filter(|target| target.source != Source::Postgres)
    {
        check_place(&target.location, target.source, sandboxes, database)?;
    }
    Ok(())
}

/// Refuses a place that is the root of the file system, or that is, holds or lies in the program's own files.
pub(super) fn check_place(
    location: &Path,
    source: Source,
    sandboxes: &Path,
    database: Option<&Path>,
) -> Result<(), Error> {
    let sandboxes = resolved(sandboxes);
    let database = database.map(resolved);
    let place = resolved(location);
    // A repository is copied from its commits, so what else lies in its folder does not matter.
    let holds = |own: &Path| source == Source::Directory && own.starts_with(&place);
    if place.parent().is_none() {
        return Err(Error::CannotSandbox {
            what: format!("`{}`", location.display()),
            reason: "it is the root of the file system".to_owned(),
            hint: Some("name the folders in it that you work on".to_owned()),
        });
    }
    let reason = if database.as_deref() == Some(&*place) {
        "it is the database in which the program keeps its own records"
    } else if database.as_deref().is_some_and(holds) {
        "the program keeps its own records in it"
    } else if place.starts_with(&sandboxes) || holds(&sandboxes) {
        "the program keeps its sandboxes in it"
    } else {
        return Ok(());
    };
    Err(Error::CannotSandbox {
        what: format!("`{}`", location.display()),
        reason: reason.to_owned(),
        hint: Some(
            "name the folders in it that you work on, or set CLEVERAGENTS_HOME to a folder outside"
                .to_owned(),
        ),
    })
}

/// The path without links, as far as it exists.
fn resolved(path: &Path) -> PathBuf {
    match (std::fs::canonicalize(path), path.parent(), path.file_name()) {
        (Ok(resolved), _, _) => resolved,
        (Err(_), Some(parent), Some(name)) => resolved(parent).join(name),
        _ => path.to_owned(),
    }
}
