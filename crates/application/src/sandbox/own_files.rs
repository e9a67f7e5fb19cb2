//! Refuses to sandbox the program's own files.

use std::path::{Path, PathBuf};

use cleveragents_sandbox::{Error, Source};

use super::target::Target;

/// Refuses targets that overlap with the program's own files. `sandboxes` is the folder of all sandboxes;
/// `database` is the file of the program's database, if it is a file.
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

/// Refuses a path that is the root of the file system or overlaps with the program's own files.
pub(super) fn check_place(
    location: &Path,
    source: Source,
    sandboxes: &Path,
    database: Option<&Path>,
) -> Result<(), Error> {
    let sandboxes = resolved(sandboxes);
    let database = database.map(resolved);
    let place = resolved(location);
    // A repository is copied from its commits, so untracked files in its folder are not copied.
    let holds = |own: &Path| source == Source::Directory && own.starts_with(&place);
    if place.parent().is_none() {
        return Err(Error::CannotSandbox {
            what: format!("`{}`", location.display()),
            reason: "it is the root of the file system".to_owned(),
            hint: Some(
                "change to the folder of a project, or name the subfolders that you work on".into(),
            ),
        });
    }
    let reason = if database.as_deref() == Some(&*place) {
        "it is the database of the program"
    } else if database.as_deref().is_some_and(holds) {
        "it contains the database of the program"
    } else if place.starts_with(&sandboxes) || holds(&sandboxes) {
        "it contains the sandboxes of the program"
    } else {
        return Ok(());
    };
    Err(Error::CannotSandbox {
        what: format!("`{}`", location.display()),
        reason: reason.to_owned(),
        hint: Some(
            "change to the folder of a project, or name the subfolders that you work on; or set CLEVERAGENTS_HOME to a folder outside"
                .into(),
        ),
    })
}

/// Resolves the symbolic links of a path. Components that do not exist stay as they are.
fn resolved(path: &Path) -> PathBuf {
    match (std::fs::canonicalize(path), path.parent(), path.file_name()) {
        (Ok(resolved), _, _) => resolved,
        (Err(_), Some(parent), Some(name)) => resolved(parent).join(name),
        _ => path.to_owned(),
    }
}
