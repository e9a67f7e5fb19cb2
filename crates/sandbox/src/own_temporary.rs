//! Names of the program's own temporary files, which contain the id of the writing process.
//!
//! A process that is killed during a write leaves its temporary file behind. A capture skips temporary files, and
//! removes those whose process has ended.

use std::sync::atomic::{AtomicU64, Ordering};

use cleveragents_domain::{FileKind, FileMode};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

/// Prefix of the names of the program's temporary files and staging folders.
const PREFIX: &str = ".cleveragents-";

/// Suffix of a file that is being written.
const SUFFIX: &str = ".tmp";

/// Whether a name belongs to a temporary file or staging folder of the program.
pub fn is_own_temporary(name: &[u8]) -> bool {
    name.starts_with(PREFIX.as_bytes())
}

/// A new name for a temporary file of this process: `.cleveragents-PID-N.tmp`.
pub(crate) fn temporary_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{PREFIX}{}-{number}{SUFFIX}", std::process::id())
}

/// The process that writes the file with this name; `None` for other names.
fn writer(name: &[u8]) -> Option<Pid> {
    let name = std::str::from_utf8(name).ok()?;
    let numbers = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    let (process, number) = numbers.split_once('-')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(process) || !is_number(number) {
        return None;
    }
    Pid::from_raw(process.parse().ok()?)
}

/// Whether a path with this name and mode is a temporary file named by [`temporary_name`]: a file or link, never a
/// folder.
pub(crate) fn is_being_written(name: &[u8], mode: Option<FileMode>) -> bool {
    let is_folder = mode.is_some_and(|mode| mode.kind() == FileKind::Directory);
    !is_folder && writer(name).is_some()
}

/// Whether the process that wrote the temporary file with this name has ended, so that it will not rename the file any
/// more.
pub(crate) fn is_abandoned(name: &[u8]) -> bool {
    writer(name).is_some_and(|process| matches!(test_kill_process(process), Err(Errno::SRCH)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::{Folders, Member, Source};
    use crate::scan_cancel::ScanCancel;
    use std::path::{Path, PathBuf};

    /// A sandbox of a folder with one file.
    struct Copy {
        _place: tempfile::TempDir,
        member: Member,
    }

    impl Copy {
        fn new() -> Self {
            let place = tempfile::tempdir().expect("a folder");
            let original = place.path().join("original");
            std::fs::create_dir_all(original.join("src")).expect("made");
            std::fs::write(original.join("src/kept"), "text").expect("written");
            let folders = Folders {
                whole: place.path().join("sandbox"),
            };
            folders.create().expect("made");
            let member = folders
                .create_member("id", "part", Source::Directory, &original, false)
                .expect("copied");
            Self {
                _place: place,
                member,
            }
        }

        fn plant(&self, name: &str) -> PathBuf {
            let place = self.member.root.join("src").join(name);
            std::fs::write(&place, "half").expect("written");
            place
        }

        /// The paths that a capture records.
        fn captured(&self) -> Vec<String> {
            let capture = self
                .member
                .capture(&[], &ScanCancel::default())
                .expect("captured");
            let changes = capture.changes.iter();
            changes.map(|change| change.path.to_string()).collect()
        }
    }

    /// Id of a process that has ended.
    fn ended_process() -> u32 {
        let mut child = std::process::Command::new("true").spawn().expect("started");
        let number = child.id();
        child.wait().expect("waited");
        number
    }

    fn exists(place: &Path) -> bool {
        place.symlink_metadata().is_ok()
    }

    #[test]
    fn a_leftover_of_a_killed_process_is_not_a_change_and_is_removed() {
        let copy = Copy::new();
        let leftover = copy.plant(&format!(".cleveragents-{}-0.tmp", ended_process()));
        assert_eq!(copy.captured(), Vec::<String>::new());
        assert!(!exists(&leftover));
    }

    #[test]
    fn a_file_that_a_living_process_writes_is_not_a_change_and_stays() {
        let copy = Copy::new();
        let being_written = copy.plant(&temporary_name());
        assert_eq!(copy.captured(), Vec::<String>::new());
        assert!(exists(&being_written));
    }

    #[test]
    fn leftovers_next_to_real_changes_are_skipped_for_single_paths_too() {
        let copy = Copy::new();
        let leftover = format!(".cleveragents-{}-7.tmp", ended_process());
        copy.plant(&leftover);
        copy.plant("new");
        let path = |name: &str| {
            cleveragents_domain::TreePath::from_bytes(format!("src/{name}")).expect("a path")
        };
        let changes = copy
            .member
            .capture_paths(&[path(&leftover), path("new")], &[]);
        let changes = changes.expect("captured");
        let paths: Vec<_> = changes.iter().map(|change| change.path.clone()).collect();
        assert_eq!(paths, [path("new")]);
        assert_eq!(copy.captured(), ["src/new"]);
    }

    #[test]
    fn names_of_other_forms_are_user_files() {
        let copy = Copy::new();
        for name in [
            ".cleveragents-notes.tmp",
            ".cleveragents-1-.tmp",
            "x-1-1.tmp",
        ] {
            copy.plant(name);
        }
        assert_eq!(copy.captured().len(), 3);
    }
}
