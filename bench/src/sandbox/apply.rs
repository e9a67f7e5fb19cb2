//! Applying many new files to a repository and to a plain directory, next to copying them by hand.

use std::path::{Path, PathBuf};

use cleveragents_application::ApplyRequest;
use cleveragents_domain::CheckpointReason;
use cleveragents_sandbox::Source;

use super::{Place, paired, repository, rest, row, run, timed};
use crate::Row;

/// New files in each folder of the generated tree.
const PER_FOLDER: usize = 100;

/// Files of the repository or directory to which the new ones are added.
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

/// A repository or a directory with a few files.
fn existing(ground: &Path, name: &str, source: Source) -> anyhow::Result<PathBuf> {
    let folder = ground.join(name);
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

/// Milliseconds of applying a sandbox that added the new files to a repository or directory.
fn applied(place: &Place, location: &Path, new: &Path, source: Source) -> anyhow::Result<f64> {
    let mut open = place.create(location, source)?;
    copy_into(new, &open.view.members[0].root)?;
    place
        .service
        .checkpoint(&mut open, CheckpointReason::Manual, None)?;
    rest()?;
    let (time, _) = timed(|| Ok(place.service.apply(open, &ApplyRequest::default())?))?;
    Ok(time)
}

/// Milliseconds of doing the same by hand, until the disk holds the result.
fn copied(location: &Path, new: &Path, source: Source) -> anyhow::Result<f64> {
    rest()?;
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

fn compare(place: &Place, ground: &Path, new: &Path, source: Source) -> anyhow::Result<(f64, f64)> {
    let (mut ours, mut others) = (0, 0);
    paired(
        || {
            ours += 1;
            let location = existing(ground, &format!("ours-{source:?}-{ours}"), source)?;
            applied(place, &location, new, source)
        },
        || {
            others += 1;
            let location = existing(ground, &format!("other-{source:?}-{others}"), source)?;
            copied(&location, new, source)
        },
    )
}

/// Both rows.
pub(super) fn rows(place: &Place, ground: &Path, files: usize) -> anyhow::Result<Vec<Row>> {
    let new = ground.join("new");
    generate_new(&new, files)?;
    Ok(vec![
        row(
            &format!("apply {files} new files, git"),
            compare(place, ground, &new, Source::Git)?,
            "cp -a, git add, git commit and sync; at most 1.5",
        ),
        row(
            &format!("apply {files} new files, directory"),
            compare(place, ground, &new, Source::Directory)?,
            "cp -a and sync; at most 2",
        ),
    ])
}
