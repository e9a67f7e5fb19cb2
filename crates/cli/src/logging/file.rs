//! [`LogFile`]: a log file that is rotated daily.
//!
//! Lines are appended to the file itself, so that `tail -f` and configured paths stay valid. The first line of a new
//! day (UTC) renames the file to `FILE.YYYY-MM-DD`, the day of its last line. Several processes may share a file.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use cleveragents_domain::Timestamp;
use rustix::fs::{CWD, RenameFlags, renameat_with};

/// Number of rotated files to keep.
const KEPT_FILES: usize = 14;

/// Length of the date at the start of a printed time, such as `2026-11-17`.
const DATE_LENGTH: usize = 10;

/// A log file that is rotated daily.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    file: File,
    /// The day of the last line.
    day: String,
}

impl LogFile {
    /// Opens a file for appending. A new file is readable by its owner only: lines name callers and paths.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = open(path)?;
        let metadata = file.metadata()?;
        let written = Timestamp::from_micros(metadata.mtime().saturating_mul(1_000_000));
        Ok(Self {
            path: path.to_owned(),
            file,
            day: day(&written.to_string()).to_owned(),
        })
    }

    /// Appends a line with its time; rotates the file first if the last line is of another day.
    pub(super) fn write(&mut self, time: &str, line: &str) -> io::Result<()> {
        let today = day(time);
        if today != self.day {
            self.rotate(today)?;
        }
        self.file.write_all(line.as_bytes())
    }

    fn rotate(&mut self, today: &str) -> io::Result<()> {
        let last = std::mem::replace(&mut self.day, today.to_owned());
        let open_file = self.file.metadata()?;
        let file_at_path = std::fs::metadata(&self.path);
        let is_current = file_at_path
            .is_ok_and(|file| (file.dev(), file.ino()) == (open_file.dev(), open_file.ino()));
        // If the path names another file, another process or the user has already moved this file.
        if is_current && open_file.len() > 0 {
            let mut rotated_path = self.path.clone().into_os_string();
            rotated_path.push(format!(".{last}"));
            // If a file of that day exists, the rename fails and the log continues in the current file.
            let _renamed =
                renameat_with(CWD, &self.path, CWD, &rotated_path, RenameFlags::NOREPLACE);
        }
        self.file = open(&self.path)?;
        self.remove_old()
    }

    /// Removes the oldest files beyond the limit.
    fn remove_old(&self) -> io::Result<()> {
        let folder = match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let name = self.path.file_name().unwrap_or_default();
        let mut rotated_names: Vec<OsString> = std::fs::read_dir(folder)?
            .filter_map(|entry| Some(entry.ok()?.file_name()))
            .filter(|other| is_rotated(name.as_encoded_bytes(), other.as_encoded_bytes()))
            .collect();
        // The texts of dates sort chronologically.
        rotated_names.sort_unstable();
        let old = rotated_names.len().saturating_sub(KEPT_FILES);
        for name in &rotated_names[..old] {
            std::fs::remove_file(folder.join(name))?;
        }
        Ok(())
    }
}

/// True if `other` is `name.YYYY-MM-DD`.
fn is_rotated(name: &[u8], other: &[u8]) -> bool {
    let date = other
        .strip_prefix(name)
        .and_then(|rest| rest.strip_prefix(b"."));
    date.is_some_and(|date| {
        date.len() == DATE_LENGTH
            && date.iter().enumerate().all(|(index, byte)| match index {
                4 | 7 => *byte == b'-',
                _ => byte.is_ascii_digit(),
            })
    })
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600).open(path)
}

fn day(time: &str) -> &str {
    time.get(..DATE_LENGTH).unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::{KEPT_FILES, LogFile};

    fn names(folder: &std::path::Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).expect("a folder");
        let mut names: Vec<String> = entries
            .map(|entry| {
                entry
                    .expect("an entry")
                    .file_name()
                    .into_string()
                    .expect("text")
            })
            .collect();
        names.sort();
        names
    }

    #[test]
    fn the_first_line_of_a_day_renames_the_file_and_the_oldest_are_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("server.log");
        let other = folder.path().join("server.log.old");
        std::fs::write(&other, "of another program").expect("a file");
        let mut log = LogFile::open(&path).expect("a log");
        for day in 1..=28 {
            for hour in ["08", "20"] {
                let time = format!("2031-05-{day:02}T{hour}:00:00.000000Z");
                log.write(&time, &format!("{time}\n")).expect("written");
            }
        }
        let names = names(folder.path());
        assert_eq!(names.len(), KEPT_FILES + 2, "{names:?}");
        assert_eq!(names[0], "server.log");
        assert_eq!(names[1], "server.log.2031-05-14");
        assert_eq!(names[KEPT_FILES], "server.log.2031-05-27");
        assert_eq!(
            names[KEPT_FILES + 1],
            "server.log.old",
            "not a rotated file"
        );
        let lines = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect("a file");
        assert_eq!(
            lines("server.log.2031-05-27"),
            "2031-05-27T08:00:00.000000Z\n2031-05-27T20:00:00.000000Z\n"
        );
        assert_eq!(lines("server.log").lines().count(), 2);
        for name in ["server.log", "server.log.2031-05-27"] {
            let metadata = std::fs::metadata(folder.path().join(name)).expect("a file");
            assert_eq!(metadata.permissions().mode() & 0o777, 0o600, "{name}");
        }
    }

    #[test]
    fn a_file_that_another_process_rotated_is_not_rotated_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("server.log");
        let mut first_process = LogFile::open(&path).expect("a log");
        let mut second_process = LogFile::open(&path).expect("a log");
        let (first, second) = ("2031-05-01T23:59:59Z", "2031-05-02T00:00:00Z");
        for log in [&mut first_process, &mut second_process] {
            "2031-05-01".clone_into(&mut log.day);
        }
        first_process.write(first, "one\n").expect("written");
        second_process.write(first, "other\n").expect("written");
        first_process.write(second, "one\n").expect("written");
        second_process.write(second, "other\n").expect("written");
        let rotated_text = std::fs::read_to_string(folder.path().join("server.log.2031-05-01"));
        assert_eq!(rotated_text.expect("rotated"), "one\nother\n");
        assert_eq!(
            std::fs::read_to_string(&path).expect("a file"),
            "one\nother\n"
        );
        assert_eq!(names(folder.path()).len(), 2);
    }
}
