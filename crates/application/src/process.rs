//! Identifies this process, and checks whether another process is alive.
//!
//! A process id (pid) is valid only for its machine, boot and process namespace, and only together with the start time
//! of the process, because pids are reused.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use cleveragents_domain::{Owner, ProcessId};
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

/// The liveness of an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Liveness {
    /// The process runs.
    Alive,
    Dead,
    /// The process belongs to another machine or process namespace, or the system does not report it.
    Unknown,
}

/// This process as an owner of leases.
pub fn current_owner() -> Owner {
    static OWNER: OnceLock<Owner> = OnceLock::new();
    OWNER
        .get_or_init(|| {
            let pid = std::process::id();
            Owner {
                process: ProcessId::generate(),
                host: host(),
                pid,
                pid_started: start_of(pid).unwrap_or(0),
            }
        })
        .clone()
}

/// Determines the liveness of an owner from its pid.
pub fn liveness(owner: &Owner) -> Liveness {
    if !is_same_space(&owner.host, &host()) || owner.pid_started == 0 {
        return Liveness::Unknown;
    }
    match start_of(owner.pid) {
        Some(started) if started == owner.pid_started => Liveness::Alive,
        // If `/proc` hides the processes of other users, a live process looks dead.
        None if is_hidden(owner.pid) => Liveness::Unknown,
        _ => Liveness::Dead,
    }
}

/// Whether a process exists whose entry in `/proc` this user may not see.
fn is_hidden(pid: u32) -> bool {
    let exists = i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .is_some_and(|pid| !matches!(test_kill_process(pid), Err(Errno::SRCH)));
    exists && !Path::new("/proc").join(pid.to_string()).exists()
}

/// The machine, its boot and the process namespace.
fn host() -> String {
    let name = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let space = std::fs::read_link("/proc/self/ns/pid")
        .map(|space| space.to_string_lossy().into_owned())
        .unwrap_or_default();
    format!("{name}/{}/{space}", boot.trim())
}

/// Whether the pids of two hosts are comparable: their boot and process namespace are equal. The name of the machine is
/// ignored, because it may change while the machine runs. If the system provides no boot or process namespace, the
/// hosts must be equal in all parts.
fn is_same_space(left: &str, right: &str) -> bool {
    let space = |host: &str| {
        let (prefix, space) = host.rsplit_once('/')?;
        let (_, boot) = prefix.rsplit_once('/')?;
        (!boot.is_empty() && !space.is_empty()).then(|| (boot.to_owned(), space.to_owned()))
    };
    left == right || space(left).is_some_and(|known| space(right) == Some(known))
}

/// The time since the machine started, including suspensions. It is monotonic.
pub(crate) fn time_since_boot() -> Duration {
    static FALLBACK: OnceLock<Instant> = OnceLock::new();
    let uptime = || {
        let text = std::fs::read_to_string("/proc/uptime").ok()?;
        let seconds: f64 = text.split(' ').next()?.parse().ok()?;
        Duration::try_from_secs_f64(seconds).ok()
    };
    // Without `/proc` suspensions are not counted.
    uptime().unwrap_or_else(|| FALLBACK.get_or_init(Instant::now).elapsed())
}

/// A folder with one locked file for each process that holds leases in a database file. The lock proves that the
/// process is alive even where its pid is meaningless, as in another container on the same machine. The kernel releases
/// the lock when the process dies.
#[derive(Debug, Clone)]
pub(crate) struct OwnerLocks {
    folder: PathBuf,
}

/// The lock files of this process. They are never closed, because closing any descriptor of a file releases its lock.
static HELD: Mutex<Option<HashMap<PathBuf, Option<File>>>> = Mutex::new(None);

impl OwnerLocks {
    /// The lock files of the processes that share a database file.
    pub(crate) fn for_database(database: &Path) -> Self {
        let mut name = OsString::from(database);
        name.push("-owners");
        Self {
            folder: name.into(),
        }
    }

    fn lock_file(&self, owner: &Owner) -> PathBuf {
        self.folder.join(owner.process.to_string())
    }

    /// Locks the file of this process, if the owner is this process. If that fails, for example because the disk is
    /// full, processes that cannot see the pid of this process have to wait until its leases expire.
    pub(crate) fn hold(&self, owner: &Owner) {
        if owner.process != current_owner().process {
            return;
        }
        let path = self.lock_file(owner);
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        let held = held.get_or_insert_default();
        if !held.contains_key(&path) {
            self.sweep(held);
            let file = self.create(&path);
            held.insert(path, file);
        }
    }

    fn create(&self, path: &Path) -> Option<File> {
        std::fs::create_dir_all(&self.folder).ok()?;
        // Until the file is locked, another process that probes it may lock it briefly or remove it.
        for _ in 0..100 {
            let file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .open(path)
                .ok()?;
            match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) if is_file_at(&file, path) => return Some(file),
                Ok(()) | Err(Errno::AGAIN | Errno::ACCESS) => std::thread::yield_now(),
                Err(_) => return None,
            }
        }
        None
    }

    /// Removes the files of dead processes.
    fn sweep(&self, held: &HashMap<PathBuf, Option<File>>) {
        let Ok(entries) = std::fs::read_dir(&self.folder) else {
            return;
        };
        for path in entries.flatten().map(|entry| entry.path()) {
            if held.contains_key(&path) {
                continue;
            }
            if let (Liveness::Dead, _locked) = probe(&path) {
                // The lock is still held here, so the owner cannot reuse the file. Another process may have removed the
                // file already.
                let _removed = std::fs::remove_file(&path);
            }
        }
    }

    /// The liveness of an owner, from its lock file.
    pub(crate) fn liveness(&self, owner: &Owner) -> Liveness {
        let path = self.lock_file(owner);
        let held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        if held.as_ref().is_some_and(|held| held.contains_key(&path)) {
            return Liveness::Alive;
        }
        probe(&path).0
    }
}

fn is_file_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let identity = |metadata: std::io::Result<std::fs::Metadata>| {
        metadata
            .map(|metadata| (metadata.dev(), metadata.ino()))
            .ok()
    };
    let known = identity(file.metadata());
    known.is_some() && known == identity(std::fs::metadata(path))
}

/// The liveness of the process that created a lock file, and the lock if that process is dead. Must not be called for
/// the files of this process, because closing them would release their locks.
fn probe(path: &Path) -> (Liveness, Option<File>) {
    let Ok(file) = OpenOptions::new().read(true).write(true).open(path) else {
        return (Liveness::Unknown, None);
    };
    match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => (Liveness::Dead, Some(file)),
        Err(Errno::AGAIN | Errno::ACCESS) => (Liveness::Alive, None),
        Err(_) => (Liveness::Unknown, None),
    }
}

/// The start time of a process, in ticks since boot. `None` if the process is dead or a zombie.
fn start_of(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in parentheses and may contain any character.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    // The start time is field 22 of the file; the next field of the iterator is field 4.
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{Liveness, Owner, current_owner, liveness};

    #[test]
    fn this_process_is_alive_and_a_reaped_child_is_dead() {
        let owner = current_owner();
        assert_eq!(liveness(&owner), Liveness::Alive);
        let mut child = std::process::Command::new("sleep")
            .arg("30")
            .spawn()
            .expect("sleep starts");
        let mut other = owner.clone();
        other.pid = child.id();
        other.pid_started = super::start_of(child.id()).expect("it runs");
        assert_eq!(liveness(&other), Liveness::Alive);
        child.kill().expect("killed");
        while liveness(&other) == Liveness::Alive {
            std::thread::yield_now();
        }
        assert_eq!(liveness(&other), Liveness::Dead, "a zombie is dead");
        child.wait().expect("reaped");
        assert_eq!(liveness(&other), Liveness::Dead);
    }

    #[test]
    fn liveness_is_known_after_a_rename_of_the_host_but_not_after_a_reboot() {
        let owner = current_owner();
        let (rest, space) = owner.host.rsplit_once('/').expect("a space");
        let (_, boot) = rest.rsplit_once('/').expect("a boot");
        let renamed = Owner {
            host: format!("renamed/{boot}/{space}"),
            ..owner.clone()
        };
        assert_eq!(liveness(&renamed), Liveness::Alive);
        let rebooted = Owner {
            host: format!("renamed/another boot/{space}"),
            ..owner
        };
        assert_eq!(liveness(&rebooted), Liveness::Unknown);
    }

    #[test]
    fn a_reused_pid_is_dead_and_a_pid_of_another_host_is_unknown() {
        let mut owner = current_owner();
        owner.pid_started += 1;
        assert_eq!(liveness(&owner), Liveness::Dead);
        owner.host = "elsewhere".to_owned();
        assert_eq!(liveness(&owner), Liveness::Unknown);
    }
}
