//! Memory of a command: the private memory of its processes, and shared memory, which belongs to no single process and
//! can exist without being mapped: files in `/dev/shm`, in-memory files (`memfd`), shared mappings, System V segments.

use crate::outcome::Namespace;
use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;

/// Size of the blocks in which the kernel counts the content of a file, in bytes.
const BLOCK: u64 = 512;

/// The private directory for shared memory of a command with its own mounts.
const SHARED_FOLDER: &str = "/dev/shm";

/// Measures the memory of one command.
#[derive(Debug)]
pub(super) struct MemoryMeter {
    /// Shared memory of the whole machine before the command started, in bytes.
    before: u64,
    has_own_mounts: bool,
    has_own_segments: bool,
}

impl MemoryMeter {
    /// A meter for a command that is about to start in these namespaces.
    pub(super) fn start(namespaces: &[Namespace]) -> Self {
        Self {
            before: shared_memory_of_machine(),
            has_own_mounts: namespaces.contains(&Namespace::Mount),
            has_own_segments: namespaces.contains(&Namespace::Ipc),
        }
    }

    /// Whether these processes together hold more than `maximum` bytes.
    ///
    /// The machine's shared memory is cheap to read and grows at least as much as that of the command. Only if it grew
    /// enough to exceed the limit is the shared memory of the command itself measured.
    pub(super) fn exceeds(&self, processes: &[i32], maximum: u64) -> bool {
        let private: u64 = processes
            .iter()
            .filter_map(|one| private_memory(*one))
            .sum();
        if private > maximum {
            return true;
        }
        let grown = shared_memory_of_machine().saturating_sub(self.before);
        private.saturating_add(grown) > maximum
            && private.saturating_add(self.shared(processes).unwrap_or(grown)) > maximum
    }

    /// Shared memory of these processes in bytes; `None` if one of them does not permit to inspect it. The larger of
    /// two measures, since mapped memory may or may not belong to an open file.
    fn shared(&self, processes: &[i32]) -> Option<u64> {
        let mut files = HashMap::new();
        let mut mapped = 0;
        for process in processes {
            let measured = memory_files(*process, &mut files)
                .and_then(|()| mapped_shared_memory(*process).map(|bytes| mapped += bytes));
            match measured {
                Ok(()) => {}
                // The process has ended.
                Err(error) if is_absent(&error) => {}
                Err(_) => return None,
            }
        }
        let mut held: u64 = files.into_values().sum();
        if self.has_own_mounts
            && let Ok(folder) = rustix::fs::statvfs(SHARED_FOLDER)
        {
            held += folder.f_blocks.saturating_sub(folder.f_bfree) * folder.f_frsize;
        }
        if self.has_own_segments {
            held += segments();
        }
        Some(held.max(mapped))
    }
}

fn is_absent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

/// The number of bytes in a line such as `RssAnon:   12 kB`.
fn bytes_in(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line
        .strip_prefix(':')?
        .split_whitespace()
        .next()?
        .parse()
        .ok()?;
    Some(kibibytes << 10)
}

/// Private memory of a process in bytes, without mapped files and shared memory.
fn private_memory(process: i32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    bytes_in(&status, "RssAnon")
}

/// Mapped shared memory of a process in bytes. Memory mapped by several processes is divided among them.
fn mapped_shared_memory(process: i32) -> io::Result<u64> {
    let sums = fs::read_to_string(format!("/proc/{process}/smaps_rollup"))?;
    Ok(bytes_in(&sums, "Pss_Shmem").unwrap_or(0))
}

/// Shared memory of the whole machine in bytes.
fn shared_memory_of_machine() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    bytes_in(&text, "Shmem").unwrap_or(0)
}

/// Collects the sizes of the open in-memory files of a process, in bytes, by device and inode.
fn memory_files(process: i32, files: &mut HashMap<(u64, u64), u64>) -> io::Result<()> {
    for entry in fs::read_dir(format!("/proc/{process}/fd"))? {
        let place = entry?.path();
        let is_memory = fs::read_link(&place)
            .is_ok_and(|target| target.as_os_str().as_bytes().starts_with(b"/memfd:"));
        if is_memory && let Ok(file) = fs::metadata(&place) {
            files.insert((file.dev(), file.ino()), file.blocks() * BLOCK);
        }
    }
    Ok(())
}

/// Memory of all System V segments of our namespace, in bytes.
fn segments() -> u64 {
    let table = fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
    let lines = table.lines();
    let held = lines.filter_map(|line| line.split_whitespace().nth(14)?.parse::<u64>().ok());
    held.sum()
}
