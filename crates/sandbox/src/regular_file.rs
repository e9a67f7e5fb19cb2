//! Reads files that the program looks for without a request: configuration, prompts, ignore rules. They may be untrusted, for
//! example in a cloned repository. Only regular files of limited size are read: reading a device might never end, and a
//! pipe might block forever.

use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

/// Treatment of a symbolic link in the place of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// Return an error. For files of a repository, where a link could lead to any file of the user.
    Refuse,
    /// Read the target. For files in the user's own folders.
    Follow,
}

/// Reads a regular file of at most `limit` bytes; `None` if it does not exist. A larger file, another kind of file or a
/// refused link is an error of kind [`io::ErrorKind::InvalidInput`].
pub fn read_regular(path: &Path, links: Links, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let refused = |reason: String| io::Error::new(io::ErrorKind::InvalidInput, reason);
    let found = match links {
        Links::Refuse => std::fs::symlink_metadata(path),
        Links::Follow => std::fs::metadata(path),
    };
    let found = match found {
        Ok(found) => found,
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    if found.is_symlink() {
        return Err(refused("it is a symbolic link".to_owned()));
    }
    let special = || refused("it is not a regular file".to_owned());
    if !found.is_file() {
        return Err(special());
    }
    let mut flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    if links == Links::Refuse {
        flags |= OFlags::NOFOLLOW;
    }
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    let file = std::fs::File::options()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    // The file may have been replaced since the check.
    if !file.metadata()?.is_file() {
        return Err(special());
    }
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(refused(format!("it has more than {limit} bytes")));
    }
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    #[test]
    fn only_regular_files_of_a_limited_size_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = |name: &str| folder.path().join(name);
        std::fs::write(place("file"), "text").expect("a file");
        std::os::unix::fs::symlink("file", place("link")).expect("a link");
        std::os::unix::fs::symlink("/dev/zero", place("device")).expect("a link");
        let mode = Mode::from_raw_mode(0o600);
        mknodat(CWD, place("pipe"), FileType::Fifo, mode, 0).expect("a pipe");
        let read = |name: &str, links, limit| {
            read_regular(&place(name), links, limit).map_err(|error| error.kind())
        };
        let text = Ok(Some(b"text".to_vec()));
        let refused = Err(io::ErrorKind::InvalidInput);
        assert_eq!(read("file", Links::Refuse, 4), text);
        assert_eq!(read("file", Links::Refuse, 3), refused);
        assert_eq!(read("link", Links::Follow, 4), text);
        assert_eq!(read("link", Links::Refuse, 4), refused);
        for links in [Links::Refuse, Links::Follow] {
            assert_eq!(read("device", links, 4), refused);
            assert_eq!(read("pipe", links, 4), refused);
            assert_eq!(read("nothing", links, 4), Ok(None));
            assert_eq!(read("file/below", links, 4), Ok(None));
        }
    }
}
