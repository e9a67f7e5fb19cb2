//! System calls that have no safe wrapper. All `unsafe` code of the crate is here.
//!
//! [`fork`] is for stages only: they are single-threaded, so no lock in the copy can be held by a thread that does not
//! exist there.

#![expect(
    unsafe_code,
    reason = "fork, _exit, unshare, interface flags, mount_setattr, close_range, signal masks, signalfd"
)]

use rustix::net::{AddressFamily, SocketType};
use rustix::process::Pid;
use rustix::thread::UnshareFlags;
use std::ffi::CStr;
use std::os::fd::{AsRawFd as _, FromRawFd, OwnedFd};
use std::{io, mem, ptr};

/// The side of a [`fork`].
pub(crate) enum Fork {
    /// The new process.
    Child,
    /// The process that forked, with the id of the new process.
    Parent(Pid),
}

/// Forks this process, which must have one thread only.
pub(crate) fn fork() -> io::Result<Fork> {
    // SAFETY: a stage runs a single thread until it has forked all it needs, so no lock, of the
    // allocator or any other, can be held by a thread that is missing in the copy.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        number => Ok(Pid::from_raw(number).map_or(Fork::Child, Fork::Parent)),
    }
}

/// Exits at once, without cleanup: in a forked copy, cleanup is the task of the original process.
pub(crate) fn exit_immediately(code: u8) -> ! {
    // SAFETY: no memory is passed, and nothing of this process is used again.
    unsafe { libc::_exit(code.into()) }
}

/// Moves this process, or for a process namespace its later children, into new namespaces.
pub(crate) fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: only namespaces are requested; the table of file descriptors stays unchanged.
    unsafe { rustix::thread::unshare_unsafe(flags.difference(UnshareFlags::FILES)) }?;
    Ok(())
}

/// Brings up the loopback interface of this process's network namespace. Requires `CAP_NET_ADMIN` in it.
pub(crate) fn raise_loopback() -> io::Result<()> {
    const SET_INTERFACE_FLAGS: libc::Ioctl = 0x8914;
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    // SAFETY: the structure is plain numbers, for which zero is valid; the union is written, not read,
    // and the kernel reads the structure, which lives longer than the call.
    let outcome = unsafe {
        let mut request: libc::ifreq = mem::zeroed();
        for (place, byte) in request.ifr_name.iter_mut().zip(c"lo".to_bytes()) {
            *place = libc::c_char::from_ne_bytes([*byte]);
        }
        request.ifr_ifru.ifru_flags = INTERFACE_UP;
        libc::ioctl(socket.as_raw_fd(), SET_INTERFACE_FLAGS, &raw const request)
    };
    succeeded(outcome.into())
}

/// `IFF_UP` and `IFF_RUNNING`.
const INTERFACE_UP: libc::c_short = 0x41;

/// Scope of a mount change.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum MountScope {
    /// The mount itself.
    One,
    /// The mount and all mounts below it.
    Beneath,
}

/// Makes the mount at `target` read-only, or writable again.
pub(crate) fn set_read_only(target: &CStr, reach: MountScope, read_only: bool) -> io::Result<()> {
    let mut attributes = libc::mount_attr {
        attr_set: 0,
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    if read_only {
        attributes.attr_set = libc::MOUNT_ATTR_RDONLY;
    } else {
        attributes.attr_clr = libc::MOUNT_ATTR_RDONLY;
    }
    let flags = if reach == MountScope::Beneath {
        libc::AT_RECURSIVE
    } else {
        0
    };
    // SAFETY: the path ends with a zero byte, and the structure lives longer than the call, which
    // only reads it.
    let outcome = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            target.as_ptr(),
            flags,
            ptr::from_ref(&attributes),
            mem::size_of_val(&attributes),
        )
    };
    succeeded(outcome)
}

/// Closes every file descriptor above standard error. Call it only in a process that owns none of them.
pub(crate) fn close_all() -> io::Result<()> {
    close_range(0)
}

/// Marks every file descriptor above standard error to be closed at the next `exec`.
pub(crate) fn close_all_on_exec() -> io::Result<()> {
    close_range(libc::CLOSE_RANGE_CLOEXEC)
}

fn close_range(flags: libc::c_uint) -> io::Result<()> {
    const FIRST: libc::c_uint = 3;
    // SAFETY: no memory is passed. Callers own no descriptor in the range, or keep it open.
    let outcome = unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, flags) };
    if succeeded(outcome).is_ok() {
        return Ok(());
    }
    // Kernels before 5.11 need one call per descriptor.
    let open: Vec<libc::c_int> = std::fs::read_dir("/proc/self/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|number| *number > libc::STDERR_FILENO)
        .collect();
    for number in open {
        // SAFETY: as above; a number that is no longer open is an error that changes nothing.
        unsafe {
            if flags == 0 {
                libc::close(number);
            } else {
                libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC);
            }
        }
    }
    Ok(())
}

/// Blocks every signal that can be blocked.
pub(crate) fn block_signals() -> io::Result<()> {
    // SAFETY: a signal set is plain numbers, filled by `sigfillset` before it is read.
    let outcome = unsafe {
        let mut all: libc::sigset_t = mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const all, ptr::null_mut())
    };
    succeeded(outcome.into())
}

/// Creates a file (`signalfd`) that is readable after children have ended or stopped. `SIGCHLD` has to be blocked.
pub(crate) fn ends_of_children() -> io::Result<OwnedFd> {
    // SAFETY: as above; the number is that of a new file, which has no other owner.
    unsafe {
        let mut ends: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&raw mut ends);
        libc::sigaddset(&raw mut ends, libc::SIGCHLD);
        let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
        let file = libc::signalfd(-1, &raw const ends, flags);
        succeeded(file.into())?;
        Ok(OwnedFd::from_raw_fd(file))
    }
}

/// Unblocks every signal.
pub(crate) fn unblock_signals() -> io::Result<()> {
    // SAFETY: as above, emptied by `sigemptyset`.
    let outcome = unsafe {
        let mut none: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut())
    };
    succeeded(outcome.into())
}

fn succeeded(outcome: libc::c_long) -> io::Result<()> {
    if outcome < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
