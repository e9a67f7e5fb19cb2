//! The file system as the command sees it: a new root that contains only the files that the command may read, mounted
//! read-only, its writable directories, a `/dev` with harmless devices, and private shared memory, terminals and
//! `/proc`.
//!
//! Unlike Landlock, this also prevents changes to the modes, owners, times and attributes of files outside.

use super::read_only::read_only_except;
use super::tree::ProcessTree;
use super::{AtStep, StepFailure};
use crate::invocation::Limits;
use crate::wire::{BINDING_FOLDER, Confinement, OPENING_FOLDER};
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, ResolveFlags, mkdirat, openat, openat2, symlinkat, unlinkat,
};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind_recursive, mount_change,
    unmount,
};
use rustix::process::{chdir, chroot, pivot_root};
use std::collections::BTreeSet;
use std::ffi::CString;
use std::fmt::Write as _;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};
use std::{fs, io};

/// Devices that every program may use.
pub(super) const DEVICES: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
];

/// Paths through which terminals are created.
pub(super) const TERMINALS: &[&str] = &["/dev/ptmx", "/dev/pts"];

/// Private, writable parts of `/dev`: shared memory and the command's own terminals.
const PRIVATE: [(&str, &str, &str); 2] = [
    ("/dev/shm", "tmpfs", "mode=1777"),
    ("/dev/pts", "devpts", "newinstance,ptmxmode=0666,mode=0620"),
];

/// Directory on which the new root is assembled before it replaces the old one. All files to bind into it are opened
/// before, because the mount hides the old `/dev`.
const NEW_ROOT: &str = "/dev";

/// An empty file that is mounted over hidden files; removed when all of them are covered.
const COVER: &str = "/.hidden";

/// Paths at which a command finds its private temporary folder.
const TEMPORARY: [&str; 2] = ["/tmp", "/var/tmp"];

/// An entry of the new root.
enum MountEntry {
    /// A file or directory of the machine.
    Bound(OwnedFd, &'static str),
    /// The private temporary folder.
    Temporary(OwnedFd),
    /// A folder in the private temporary folder that contains the mount points of folders of the machine. It is
    /// read-only, because a file created next to the mount points would seem to be on the machine.
    Ancestor,
    /// An empty file or folder that covers a hidden one.
    Masked,
}

/// Assembles the new root and enters it. Returns the additional writable directories, which are private to the command.
pub(super) fn prepare(
    confinement: &Confinement,
    limits: &Limits,
    folder: &Path,
    tree: ProcessTree,
) -> Result<Vec<PathBuf>, StepFailure> {
    const STEP: &str = "creating a private root";
    mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )
    .at("making the mounts private")?;
    let mut placed = placed(confinement)?;
    if confinement.temporary.is_some() {
        add_ancestors(&mut placed, confinement, folder);
    }
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
    fs::write(in_new_root(Path::new(COVER)), "").at(STEP)?;
    fs::set_permissions(
        in_new_root(Path::new(COVER)),
        fs::Permissions::from_mode(0o0),
    )
    .at(STEP)?;
    fs::create_dir(in_new_root(Path::new("/proc"))).at(STEP)?;
    if tree == ProcessTree::Namespace {
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        mount("proc", in_new_root(Path::new("/proc")), "proc", flags, None).at("mounting /proc")?;
    } else {
        mount_bind_recursive("/proc", in_new_root(Path::new("/proc"))).at(STEP)?;
    }
    make_devices(&devices, limits)?;
    let mut bound: Vec<PathBuf> = Vec::new();
    for (path, what) in &placed {
        root.place(path, what, &bound)?;
        match what {
            MountEntry::Bound(..) => bound.push(path.clone()),
            MountEntry::Temporary(_) | MountEntry::Ancestor => {}
            MountEntry::Masked => bound.retain(|folder| !folder.starts_with(path)),
        }
    }
    fs::remove_file(in_new_root(Path::new(COVER))).at(STEP)?;
    for (link, target) in &confinement.view.links {
        let link = Path::new(link);
        let (Some(parent), Some(name)) = (link.parent(), link.file_name()) else {
            continue;
        };
        let parent = root.make_folders(parent).at(STEP)?;
        match symlinkat(target, parent, name) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(StepFailure::new(STEP, error)),
        }
    }
    for expected in std::iter::once(folder).chain(TEMPORARY.map(Path::new)) {
        if !bound.iter().any(|one| expected.starts_with(one)) {
            root.make_folders(expected).at(STEP)?;
        }
    }
    enter(&root).at(STEP)?;
    let is_temporary =
        |(_, what): &&(PathBuf, MountEntry)| matches!(what, MountEntry::Temporary(_));
    let temporary = placed.iter().filter(is_temporary);
    let private = PRIVATE.iter().map(|(folder, ..)| PathBuf::from(folder));
    let private = private.chain(temporary.map(|(path, _)| path.clone()));
    let private: Vec<PathBuf> = private.collect();
    let writable = confinement.writable.iter().map(Path::new);
    let writable_folders: Vec<&Path> = writable
        .chain(private.iter().map(PathBuf::as_path))
        .collect();
    let is_ancestor = |(_, what): &&(PathBuf, MountEntry)| matches!(what, MountEntry::Ancestor);
    let ancestors = placed.iter().filter(is_ancestor);
    let readable = confinement.view.readable.iter().map(Path::new);
    let readable: Vec<&Path> = readable
        .chain(ancestors.map(|(path, _)| path.as_path()))
        .collect();
    read_only_except(&writable_folders, &readable)?;
    Ok(private)
}

/// Opens all entries of the new root. Skips readable paths that do not exist.
fn placed(confinement: &Confinement) -> Result<Vec<(PathBuf, MountEntry)>, StepFailure> {
    let mut placed = Vec::new();
    for folder in &confinement.writable {
        let folder = PathBuf::from(folder);
        let handle = open(&folder, OFlags::DIRECTORY).at(OPENING_FOLDER)?;
        placed.push((folder, MountEntry::Bound(handle, BINDING_FOLDER)));
    }
    for path in &confinement.view.readable {
        let path = PathBuf::from(path);
        if let Ok(handle) = open(&path, OFlags::empty()) {
            placed.push((path, MountEntry::Bound(handle, "binding a readable path")));
        }
    }
    if let Some(folder) = &confinement.temporary {
        for place in TEMPORARY.map(PathBuf::from) {
            // A policy may grant the machine's own `/tmp`.
            if !placed.iter().any(|(path, _)| place.starts_with(path)) {
                let handle = open(Path::new(folder), OFlags::DIRECTORY).at(OPENING_FOLDER)?;
                placed.push((place, MountEntry::Temporary(handle)));
            }
        }
    }
    let masked = confinement.view.masked.iter();
    placed.extend(masked.map(|path| (PathBuf::from(path), MountEntry::Masked)));
    Ok(placed)
}

/// Adds an `Ancestor` for each mount more than one level below the temporary folder.
fn add_ancestors(
    placed: &mut Vec<(PathBuf, MountEntry)>,
    confinement: &Confinement,
    folder: &Path,
) {
    let links = confinement
        .view
        .links
        .iter()
        .map(|(link, _)| Path::new(link));
    let paths = placed.iter().map(|(path, _)| path.as_path());
    let paths: Vec<&Path> = paths.chain(links).chain([folder]).collect();
    let mut ancestors = BTreeSet::new();
    for (temporary, what) in placed.iter() {
        if !matches!(what, MountEntry::Temporary(_)) {
            continue;
        }
        for path in &paths {
            let Ok(inner) = path.strip_prefix(temporary) else {
                continue;
            };
            let mut names = inner.components();
            if let Some(first) = names.next()
                && names.next().is_some()
            {
                ancestors.insert(temporary.join(first));
            }
        }
    }
    // A path that is itself bound needs no `Ancestor`.
    ancestors.retain(|ancestor| !placed.iter().any(|(path, _)| path == ancestor));
    placed.extend(
        ancestors
            .into_iter()
            .map(|ancestor| (ancestor, MountEntry::Ancestor)),
    );
}

/// The root under construction.
struct NewRoot {
    handle: OwnedFd,
}

impl NewRoot {
    /// Mounts one entry at its path. `bound` lists the already mounted directories of the machine, in which nothing may
    /// be created.
    fn place(&self, path: &Path, what: &MountEntry, bound: &[PathBuf]) -> Result<(), StepFailure> {
        let is_in_new_root = !bound.iter().any(|folder| path.starts_with(folder));
        match what {
            MountEntry::Bound(handle, step) => {
                if is_in_new_root {
                    self.make_place(path, handle).at(step)?;
                }
                let place = self.find(path).at(step)?;
                mount_bind_recursive(path_of(handle), path_of(&place)).at(step)
            }
            MountEntry::Temporary(handle) => {
                let place = self.make_folders(path).at(BINDING_FOLDER)?;
                mount_bind_recursive(path_of(handle), path_of(&place)).at(BINDING_FOLDER)
            }
            MountEntry::Ancestor => {
                let place = self.make_folders(path).at(BINDING_FOLDER)?;
                let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
                let target = path_of(&place);
                mount("tmpfs", target, "tmpfs", flags, Some(c"mode=0755")).at(BINDING_FOLDER)
            }
            MountEntry::Masked => {
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
                    mount_bind_recursive(in_new_root(Path::new(COVER)), target).at(STEP)
                }
            }
        }
    }

    /// Opens a path in the new root; fails if a component is a link.
    fn find(&self, path: &Path) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::IN_ROOT;
        Ok(openat2(&self.handle, path, flags, Mode::empty(), resolve)?)
    }

    /// Creates the mount point for `handle`: an empty file or a folder.
    fn make_place(&self, path: &Path, handle: &OwnedFd) -> io::Result<()> {
        if fs::metadata(path_of(handle))?.is_dir() {
            return self.make_folders(path).map(drop);
        }
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let parent = self.make_folders(parent)?;
        let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(&parent, name, flags, Mode::from_raw_mode(0o600))?;
        Ok(())
    }

    /// Creates a folder with its parents and opens it. Follows no link, because earlier commands wrote in the temporary
    /// folder; removes files and links that they left in place of a folder.
    fn make_folders(&self, path: &Path) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut at = self.handle.try_clone()?;
        for component in path.components() {
            let Component::Normal(name) = component else {
                continue;
            };
            let next = match openat(&at, name, flags, Mode::empty()) {
                Err(error @ (Errno::NOENT | Errno::NOTDIR | Errno::LOOP)) => {
                    if error != Errno::NOENT {
                        unlinkat(&at, name, AtFlags::empty())?;
                    }
                    mkdirat(&at, name, Mode::from_raw_mode(0o755))?;
                    openat(&at, name, flags, Mode::empty())?
                }
                other => other?,
            };
            at = next;
        }
        Ok(at)
    }
}

/// Path of a file of the new root while it is under construction.
fn in_new_root(path: &Path) -> PathBuf {
    let relative = path.strip_prefix("/").unwrap_or(path);
    Path::new(NEW_ROOT).join(relative)
}

/// Makes the new root the root of this process and its later children, and leaves the old one.
fn enter(root: &NewRoot) -> io::Result<()> {
    chdir(path_of(&root.handle))?;
    match pivot_root(".", ".") {
        Ok(()) => unmount(".", UnmountFlags::DETACH)?,
        // `pivot_root` refuses if the current root is not a mount or is the initial file system of the machine. The
        // command drops the right to change its root, so `chroot` is equally safe.
        Err(Errno::INVAL) => chroot(".")?,
        Err(error) => return Err(error.into()),
    }
    chdir("/")?;
    Ok(())
}

/// Opens a path that contains no symbolic link.
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

/// A path that refers to an open file, even after it was moved.
fn path_of(file: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Creates a `/dev` without disks, memory and similar devices, and without the terminals of other processes. Its shared
/// memory is limited like the command's other memory.
fn make_devices(originals: &[(&str, OwnedFd)], limits: &Limits) -> Result<(), StepFailure> {
    const STEP: &str = "creating a private /dev";
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    fs::create_dir(in_new_root(Path::new("/dev"))).at(STEP)?;
    for (device, original) in originals {
        let place = in_new_root(Path::new(device));
        fs::write(&place, "").at(STEP)?;
        mount_bind_recursive(path_of(original), place).at(STEP)?;
    }
    for (folder, kind, options) in PRIVATE {
        let place = in_new_root(Path::new(folder));
        fs::create_dir(&place).at(STEP)?;
        let mut options = options.to_owned();
        if let Some(most) = limits.total_memory_bytes.filter(|_| kind == "tmpfs") {
            let _never_fails = write!(options, ",size={most}");
        }
        let options = CString::new(options).map_err(io::Error::other).at(STEP)?;
        mount(kind, place, kind, flags, Some(options.as_c_str())).at(STEP)?;
    }
    for (link, target) in [
        ("/dev/ptmx", "pts/ptmx"),
        ("/dev/fd", "/proc/self/fd"),
        ("/dev/stdin", "/proc/self/fd/0"),
        ("/dev/stdout", "/proc/self/fd/1"),
        ("/dev/stderr", "/proc/self/fd/2"),
    ] {
        symlink(target, in_new_root(Path::new(link))).at(STEP)?;
    }
    Ok(())
}
