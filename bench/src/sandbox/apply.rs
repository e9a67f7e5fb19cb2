//! Measures applying many new files to a repository and to a plain directory, compared with copying them by hand.

use std::path::{Path, PathBuf};

use cleveragents_application::ApplyRequest;
use cleveragents_domain::CheckpointReason;
use cleveragents_sandbox::Source;

use super::{Place, paired, repository, row, run, sync_disk, timed};
use crate::Row;

/// Number of new files in each folder of the generated tree.
const PER_FOLDER: usize = 100;

/// Number of files of the repository or directory to which the new files are added.
const EXISTING: usize = 500;

/// Generates new files of 1 KiB each.
fn generate_new(folder: &Path, files: usize) -> anyhow::Result<()> {
    for number in 0..files {
        let parent = folder.join(format!("added/part_{:04}", number / PER_FOLDER));
        if number % PER_FOLDER == 0 {
            std::fs::create_dir_all(&parent)?;
        }
        let line = format!("pub const NUMBER_{number}: usize = {number};\n");
        let mut text = line.repeat(1024 / line.len() + 1);
        text.truncate(1024);
        std::fs::write(parent.join(format!("file_{number:06}.rs")), text)?;
    }
    Ok(())
}

/// Creates a repository or a directory with [`EXISTING`] files.
fn existing(base_folder: &Path, name: &str, source: Source) -> anyhow::Result<PathBuf> {
    let folder = base_folder.join(name);
    if source == Source::Git {
        repository(&folder, EXISTING)?;
    } else {
        super::generate(&folder, EXISTING)?;
    }
    Ok(folder)
}

fn copy_into(new: &Path, folder: &Path) -> anyhow::Result<()> {
    let (from, to) = (new.join("."), folder.to_string_lossy().into_owned());
    run("cp", folder, &["-a", &from.to_string_lossy(), &to])
}

/// Time to apply a sandbox with the new files to a repository or directory, in milliseconds.
fn apply_time(place: &Place, location: &Path, new: &Path, source: Source) -> anyhow::Result<f64> {
    let mut open = place.create(location, source)?;
    copy_into(new, &open.view.members[0].root)?;
    place
        .service
        .checkpoint(&mut open, CheckpointReason::Manual, None)?;
    sync_disk()?;
    let (time, _) = timed(|| Ok(place.service.apply(open, &ApplyRequest::default())?))?;
    Ok(time)
}

/// Time to copy the new files by hand, including the sync to disk, in milliseconds.
fn copy_time(location: &Path, new: &Path, source: Source) -> anyhow::Result<f64> {
    sync_disk()?;
    let (time, ()) = timed(|| {
        copy_into(new, location)?;
        if source == Source::Git {
            run("git", location, &["add", "-A"])?;
            run("git", location, &["commit", "--quiet", "-m", "added"])?;
        }
        run("sync", location, &["-f", "."])
    })?;
    Ok(time)
}

fn compare(
    place: &Place,
    base_folder: &Path,
    new: &Path,
    source: Source,
) -> anyhow::Result<(f64, f64)> {
    let (mut ours, mut others) = (0, 0);
    paired(
        || {
            ours += 1;
            let location = existing(base_folder, &format!("ours-{source:?}-{ours}"), source)?;
            apply_time(place, &location, new, source)
        },
        || {
            others += 1;
            let location = existing(base_folder, &format!("other-{source:?}-{others}"), source)?;
            copy_time(&location, new, source)
        },
    )
}

/// Measures applying and copying, for a repository and for a directory. Returns one row for each.
pub(super) fn rows(place: &Place, base_folder: &Path, files: usize) -> anyhow::Result<Vec<Row>> {
    let new = base_folder.join("new");
    generate_new(&new, files)?;
    Ok(vec![
        row(
            &format!("apply {files} new files, git"),
            compare(place, base_folder, &new, Source::Git)?,
            "cp -a, git add, git commit and sync; target ratio at most 1.5",
        ),
        row(
            &format!("apply {files} new files, directory"),
            compare(place, base_folder, &new, Source::Directory)?,
            "cp -a and sync; target ratio at most 2",
        ),
    ])
}
