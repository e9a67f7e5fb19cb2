//! The file system as the command sees it: everything read-only, the writable folders bound over
//! themselves, a `/dev` with the harmless devices only, shared memory, terminals and `/proc` of its
//! own.
//!
//! Unlike Landlock, this also stops changes of modes, owners, times and attributes outside.

use super::tree::Tree;
use super::{AtStep, Problem};
use crate::system::{self, Reach};
use crate::wire::{BINDING_FOLDER, OPENING_FOLDER};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, mount, mount_bind_recursive, mount_change, mount_remount,
};
use std::ffi::{CStr, CString, OsString};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The devices every program may use.
pub(super) const DEVICES: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
];

/// Where terminals are made.
pub(super) const TERMINALS: &[&str] = &["/dev/ptmx", "/dev/pts"];

/// Private parts of `/dev` in which the command may write: shared memory and its own terminals.
const PRIVATE: [(&str, &str, &CStr); 2] = [
    ("/dev/shm", "tmpfs", c"mode=1777"),
    ("/dev/pts", "devpts", c"newinstance,ptmxmode=0666,mode=0620"),
];

/// Mounts all that, and returns folders that are writable because they are the command's own.
pub(super) fn prepare(writable: &[PathBuf], tree: Tree) -> Result<Vec<PathBuf>, Problem> {
    mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )
    .at("parting from the mounts of others")?;
    let folders: Vec<(&PathBuf, OwnedFd)> = writable
        .iter()
        .map(|folder| Ok((folder, open(folder, OFlags::DIRECTORY).at(OPENING_FOLDER)?)))
        .collect::<Result<_, Problem>>()?;
    let mut private = Vec::new();
    if !writable.iter().any(|folder| folder.starts_with("/dev")) {
        devices()?;
        private.extend(PRIVATE.map(|(folder, ..)| PathBuf::from(folder)));
    }
    if tree == Tree::Namespace {
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        mount("proc", "/proc", "proc", flags, None).at("mounting /proc")?;
    }
    for (folder, handle) in &folders {
        let itself = path_of(handle);
        mount_bind_recursive(&itself, *folder).at(BINDING_FOLDER)?;
    }
    let kept: Vec<&Path> = writable
        .iter()
        .chain(&private)
        .map(PathBuf::as_path)
        .collect();
    read_only_except(&kept)?;
    Ok(private)
}

/// Opens a path in which nothing is a link.
fn open(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | flags;
    Ok(openat2(
        CWD,
        path,
        flags,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS,
    )?)
}

/// The path by which an open file can be named, wherever it is by now.
fn path_of(file: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// A `/dev` without disks, memory and the like, and without the terminals of others.
fn devices() -> Result<(), Problem> {
    const STEP: &str = "making a private /dev";
    let originals: Vec<(&str, OwnedFd)> = DEVICES
        .iter()
        .filter_map(|device| Some((*device, open(Path::new(device), OFlags::empty()).ok()?)))
        .collect();
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    mount("tmpfs", "/dev", "tmpfs", flags, Some(c"mode=0755")).at(STEP)?;
    for (device, original) in &originals {
        fs::write(device, "").at(STEP)?;
        mount_bind_recursive(path_of(original), *device).at(STEP)?;
    }
    for (folder, kind, options) in PRIVATE {
        fs::create_dir(folder).at(STEP)?;
        mount(kind, folder, kind, flags, Some(options)).at(STEP)?;
    }
    for (link, target) in [
        ("/dev/ptmx", "pts/ptmx"),
        ("/dev/fd", "/proc/self/fd"),
        ("/dev/stdin", "/proc/self/fd/0"),
        ("/dev/stdout", "/proc/self/fd/1"),
        ("/dev/stderr", "/proc/self/fd/2"),
    ] {
        symlink(target, link).at(STEP)?;
    }
    Ok(())
}

/// Makes every mount read-only, except those at or beneath `kept` that were writable.
fn read_only_except(kept: &[&Path]) -> Result<(), Problem> {
    const STEP: &str = "making mounts read-only";
    let mounts = mounts().at("reading the mounts")?;
    let (stay, change): (Vec<Mounted>, Vec<Mounted>) = mounts
        .into_iter()
        .partition(|mounted| kept.iter().any(|folder| mounted.at.starts_with(folder)));
    match system::set_read_only(c"/", Reach::Beneath, true) {
        Ok(()) => {
            for mounted in stay.iter().filter(|mounted| mounted.writable) {
                let target = CString::new(mounted.at.as_os_str().as_bytes()).at(STEP)?;
                system::set_read_only(&target, Reach::One, false).at(STEP)?;
            }
            Ok(())
        }
        // Kernels before 5.12: one after the other. What is hidden beneath another mount cannot
        // be named, and not be reached either.
        Err(error) if error.raw_os_error() == Some(Errno::NOSYS.raw_os_error()) => {
            for mounted in change.iter().filter(|mounted| mounted.writable) {
                let flags = MountFlags::BIND | MountFlags::RDONLY | mounted.flags;
                mount_remount(&mounted.at, flags, c"").at(STEP)?;
            }
            Ok(())
        }
        Err(error) => Err(Problem::new(STEP, error)),
    }
}

/// One line of `/proc/self/mountinfo`.
struct Mounted {
    at: PathBuf,
    writable: bool,
    flags: MountFlags,
}

fn mounts() -> io::Result<Vec<Mounted>> {
    let table = fs::read("/proc/self/mountinfo")?;
    Ok(table
        .split(|byte| *byte == b'\n')
        .filter_map(mounted)
        .collect())
}

fn mounted(line: &[u8]) -> Option<Mounted> {
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
    Some(Mounted {
        at,
        writable: options.split(',').any(|option| option == "rw"),
        flags,
    })
}

/// Undoes the octal escapes of spaces and the like.
fn unescaped(field: &[u8]) -> PathBuf {
    let mut path = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        let code = (byte == b'\\' && after.len() >= 3)
            .then(|| std::str::from_utf8(&after[..3]).ok())
            .flatten()
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        path.push(code.unwrap_or(byte));
        rest = if code.is_some() { &after[3..] } else { after };
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
