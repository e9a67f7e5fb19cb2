//! The file system as the command sees it: a new root that contains what it may read, read-only, and
//! its writable folders; a `/dev` with the harmless devices only, shared memory, terminals and `/proc`
//! of its own. Everything else is not there.
//!
//! Unlike Landlock, this also stops changes of modes, owners, times and attributes outside.

use super::tree::Tree;
use super::{AtStep, Problem};
use crate::system::{self, Reach};
use crate::wire::{BINDING_FOLDER, Confinement, OPENING_FOLDER};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind_recursive, mount_change,
    mount_remount, unmount,
};
use rustix::process::{chdir, chroot, pivot_root};
use std::ffi::{CStr, CString, OsString};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{PermissionsExt as _, symlink};
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

/// Where the new root is put together, before it takes the place of the old one. Everything that is
/// bound into it was opened before.
const NEW_ROOT: &str = "/dev";

/// A file that stands for hidden files, until all of them are covered.
const COVER: &str = "/.hidden";

/// Something that is put into the new root.
enum Placed {
    /// A file or folder of the machine.
    Bound(OwnedFd, &'static str),
    /// Nothing, in place of what is hidden.
    Masked,
}

/// Puts the new root together and enters it. Returns folders that are writable because they are the
/// command's own.
pub(super) fn prepare(
    confinement: &Confinement,
    folder: &Path,
    tree: Tree,
) -> Result<Vec<PathBuf>, Problem> {
    const STEP: &str = "making a private root";
    mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )
    .at("parting from the mounts of others")?;
    let mut placed = placed(confinement)?;
    placed.sort_by_key(|(path, _)| path.components().count());
    let devices: Vec<(&str, OwnedFd)> = DEVICES
        .iter()
        .filter_map(|device| Some((*device, open(Path::new(device), OFlags::empty()).ok()?)))
        .collect();
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("tmpfs", NEW_ROOT, "tmpfs", flags, Some(c"mode=0755")).at(STEP)?;
    let root = NewRoot {
        handle: open(Path::new(NEW_ROOT), OFlags::DIRECTORY).at(STEP)?,
    };
    fs::write(inside(Path::new(COVER)), "").at(STEP)?;
    fs::set_permissions(inside(Path::new(COVER)), fs::Permissions::from_mode(0o0)).at(STEP)?;
    fs::create_dir(inside(Path::new("/proc"))).at(STEP)?;
    if tree == Tree::Namespace {
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        mount("proc", inside(Path::new("/proc")), "proc", flags, None).at("mounting /proc")?;
    } else {
        mount_bind_recursive("/proc", inside(Path::new("/proc"))).at(STEP)?;
    }
    make_devices(&devices)?;
    let mut bound: Vec<PathBuf> = Vec::new();
    for (path, what) in &placed {
        root.place(path, what, &bound)?;
        match what {
            Placed::Bound(..) => bound.push(path.clone()),
            Placed::Masked => bound.retain(|folder| !folder.starts_with(path)),
        }
    }
    fs::remove_file(inside(Path::new(COVER))).at(STEP)?;
    for (link, target) in &confinement.view.links {
        let place = inside(Path::new(link));
        if let Some(parent) = place.parent() {
            fs::create_dir_all(parent).at(STEP)?;
        }
        match symlink(target, place) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(Problem::new(STEP, error));
            }
            _ => {}
        }
    }
    for expected in [folder, Path::new("/tmp"), Path::new("/var/tmp")] {
        if !bound.iter().any(|one| expected.starts_with(one)) {
            fs::create_dir_all(inside(expected)).at(STEP)?;
        }
    }
    enter(&root).at(STEP)?;
    let private = PRIVATE.map(|(folder, ..)| PathBuf::from(folder)).to_vec();
    let writable = confinement.writable.iter().map(Path::new);
    let kept: Vec<&Path> = writable
        .chain(private.iter().map(PathBuf::as_path))
        .collect();
    let readable: Vec<&Path> = confinement.view.readable.iter().map(Path::new).collect();
    read_only_except(&kept, &readable)?;
    Ok(private)
}

/// Opens everything that belongs into the new root. What may be read and is not there is left out.
fn placed(confinement: &Confinement) -> Result<Vec<(PathBuf, Placed)>, Problem> {
    let mut placed = Vec::new();
    for folder in &confinement.writable {
        let folder = PathBuf::from(folder);
        let handle = open(&folder, OFlags::DIRECTORY).at(OPENING_FOLDER)?;
        placed.push((folder, Placed::Bound(handle, BINDING_FOLDER)));
    }
    for path in &confinement.view.readable {
        let path = PathBuf::from(path);
        if let Ok(handle) = open(&path, OFlags::empty()) {
            placed.push((path, Placed::Bound(handle, "binding a readable folder")));
        }
    }
    let masked = confinement.view.masked.iter();
    placed.extend(masked.map(|path| (PathBuf::from(path), Placed::Masked)));
    Ok(placed)
}

/// The root that is being put together.
struct NewRoot {
    handle: OwnedFd,
}

impl NewRoot {
    /// Puts one thing into its place. `bound` are the folders of the machine that are there already:
    /// nothing is made in them.
    fn place(&self, path: &Path, what: &Placed, bound: &[PathBuf]) -> Result<(), Problem> {
        let is_ours = !bound.iter().any(|folder| path.starts_with(folder));
        match what {
            Placed::Bound(handle, step) => {
                if is_ours {
                    make_place(path, handle).at(step)?;
                }
                let place = self.find(path).at(step)?;
                mount_bind_recursive(path_of(handle), path_of(&place)).at(step)
            }
            Placed::Masked => {
                const STEP: &str = "hiding a file";
                let Ok(place) = self.find(path) else {
                    return Ok(());
                };
                let is_folder = fs::metadata(path_of(&place)).at(STEP)?.is_dir();
                let target = path_of(&place);
                if is_folder {
                    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
                    mount("tmpfs", target, "tmpfs", flags, Some(c"mode=0755")).at(STEP)
                } else {
                    mount_bind_recursive(inside(Path::new(COVER)), target).at(STEP)
                }
            }
        }
    }

    /// Opens a path in the new root in which nothing is a link.
    fn find(&self, path: &Path) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::IN_ROOT;
        Ok(openat2(&self.handle, path, flags, Mode::empty(), resolve)?)
    }
}

/// Makes the file or folder over which another one is bound.
fn make_place(path: &Path, handle: &OwnedFd) -> io::Result<()> {
    let place = inside(path);
    if fs::metadata(path_of(handle))?.is_dir() {
        return fs::create_dir_all(place);
    }
    if let Some(parent) = place.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(place)
        .map(drop)
}

/// A path in the root that is being put together.
fn inside(path: &Path) -> PathBuf {
    let relative = path.strip_prefix("/").unwrap_or(path);
    Path::new(NEW_ROOT).join(relative)
}

/// Makes the new root the root of this process and its later children, and leaves the old one.
fn enter(root: &NewRoot) -> io::Result<()> {
    chdir(path_of(&root.handle))?;
    match pivot_root(".", ".") {
        Ok(()) => unmount(".", UnmountFlags::DETACH)?,
        // The root is no mount of its own, or the first file system of the machine. Without the right
        // to leave a root, this holds as well.
        Err(Errno::INVAL) => chroot(".")?,
        Err(error) => return Err(error.into()),
    }
    chdir("/")?;
    Ok(())
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
fn make_devices(originals: &[(&str, OwnedFd)]) -> Result<(), Problem> {
    const STEP: &str = "making a private /dev";
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    fs::create_dir(inside(Path::new("/dev"))).at(STEP)?;
    for (device, original) in originals {
        let place = inside(Path::new(device));
        fs::write(&place, "").at(STEP)?;
        mount_bind_recursive(path_of(original), place).at(STEP)?;
    }
    for (folder, kind, options) in PRIVATE {
        let place = inside(Path::new(folder));
        fs::create_dir(&place).at(STEP)?;
        mount(kind, place, kind, flags, Some(options)).at(STEP)?;
    }
    for (link, target) in [
        ("/dev/ptmx", "pts/ptmx"),
        ("/dev/fd", "/proc/self/fd"),
        ("/dev/stdin", "/proc/self/fd/0"),
        ("/dev/stdout", "/proc/self/fd/1"),
        ("/dev/stderr", "/proc/self/fd/2"),
    ] {
        symlink(target, inside(Path::new(link))).at(STEP)?;
    }
    Ok(())
}

/// Makes every mount read-only, except those at or beneath `kept` that were writable. What is readable
/// only and lies beneath a kept folder is read-only too.
fn read_only_except(kept: &[&Path], readable: &[&Path]) -> Result<(), Problem> {
    const STEP: &str = "making mounts read-only";
    let mounts = mounts().at("reading the mounts")?;
    let (stay, change): (Vec<Mounted>, Vec<Mounted>) = mounts.into_iter().partition(|mounted| {
        let nearest = |folders: &[&Path]| {
            let above = folders
                .iter()
                .filter(|folder| mounted.at.starts_with(folder));
            above.map(|folder| folder.components().count()).max()
        };
        nearest(kept).is_some_and(|depth| Some(depth) >= nearest(readable))
    });
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
