//! Makes the mounts of a command read-only; parses the table of mounts.

use super::{AtStep, StepFailure};
use crate::system::{self, MountScope};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount_remount};
use std::ffi::{CString, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Makes every mount read-only, except the writable mounts at or below a path in `kept`. Paths in `readable` below a
/// path in `kept` become read-only too.
pub(super) fn read_only_except(kept: &[&Path], readable: &[&Path]) -> Result<(), StepFailure> {
    const STEP: &str = "making mounts read-only";
    let mounts = mounts().at("reading the mounts")?;
    let (stay, change): (Vec<MountInfo>, Vec<MountInfo>) =
        mounts.into_iter().partition(|mounted| {
            let nearest = |folders: &[&Path]| {
                let above = folders
                    .iter()
                    .filter(|folder| mounted.at.starts_with(folder));
                above.map(|folder| folder.components().count()).max()
            };
            nearest(kept).is_some_and(|depth| Some(depth) >= nearest(readable))
        });
    match system::set_read_only(c"/", MountScope::Beneath, true) {
        Ok(()) => {
            for mounted in stay.iter().filter(|mounted| mounted.writable) {
                let target = CString::new(mounted.at.as_os_str().as_bytes()).at(STEP)?;
                system::set_read_only(&target, MountScope::One, false).at(STEP)?;
            }
            Ok(())
        }
        // Kernels before 5.12 need one call per mount. A mount hidden below another one has no path here, and the
        // command cannot reach it either.
        Err(error) if error.raw_os_error() == Some(Errno::NOSYS.raw_os_error()) => {
            for mounted in change.iter().filter(|mounted| mounted.writable) {
                let flags = MountFlags::BIND | MountFlags::RDONLY | mounted.flags;
                mount_remount(&mounted.at, flags, c"").at(STEP)?;
            }
            Ok(())
        }
        Err(error) => Err(StepFailure::new(STEP, error)),
    }
}

/// One line of `/proc/self/mountinfo`.
struct MountInfo {
    at: PathBuf,
    writable: bool,
    flags: MountFlags,
}

fn mounts() -> io::Result<Vec<MountInfo>> {
    let table = fs::read("/proc/self/mountinfo")?;
    Ok(table
        .split(|byte| *byte == b'\n')
        .filter_map(mounted)
        .collect())
}

fn mounted(line: &[u8]) -> Option<MountInfo> {
    let mut fields = line.split(|byte| *byte == b' ');
    let at = unescaped(fields.nth(4)?);
    let options = std::str::from_utf8(fields.next()?).ok()?;
    let mut flags = MountFlags::empty();
    for option in options.split(',') {
        flags |= match option {
            "nosuid" => MountFlags::NOSUID,
            "nodev" => MountFlags::NODEV,
            "noexec" => MountFlags::NOEXEC,
            "noatime" => MountFlags::NOATIME,
            "nodiratime" => MountFlags::NODIRATIME,
            "relatime" => MountFlags::RELATIME,
            _ => MountFlags::empty(),
        };
    }
    Some(MountInfo {
        at,
        writable: options.split(',').any(|option| option == "rw"),
        flags,
    })
}

/// Decodes the octal escapes, for example of spaces.
fn unescaped(field: &[u8]) -> PathBuf {
    let mut path = Vec::with_capacity(field.len());
    let mut remaining = field;
    while let Some((&byte, after)) = remaining.split_first() {
        let code = (byte == b'\\' && after.len() >= 3)
            .then(|| std::str::from_utf8(&after[..3]).ok())
            .flatten()
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        path.push(code.unwrap_or(byte));
        remaining = if code.is_some() { &after[3..] } else { after };
    }
    PathBuf::from(OsString::from_vec(path))
}

#[cfg(test)]
mod tests {
    use super::mounted;
    use std::path::Path;

    #[test]
    fn a_mount_point_with_a_space_is_read() {
        let line = b"36 35 98:0 /mnt1 /a\\040b/c\\134d ro,noatime shared:1 - ext3 /dev/root rw";
        let found = mounted(line).expect("a mount");
        assert_eq!(found.at, Path::new("/a b/c\\d"));
        assert!(!found.writable);
    }
}
