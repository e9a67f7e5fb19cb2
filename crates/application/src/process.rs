//! Identifies this process, and checks whether another one is alive.
//!
//! A process number is valid only on its machine, boot and process namespace, and only together
//! with the start time of the process, because numbers are reused.

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
    /// It runs.
    Alive,
    Dead,
    /// It runs elsewhere, or the system does not report it.
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

/// The liveness of an owner, as far as its process number shows it.
pub fn liveness(owner: &Owner) -> Liveness {
    if !is_same_space(&owner.host, &host()) || owner.pid_started == 0 {
        return Liveness::Unknown;
    }
    match start_of(owner.pid) {
        Some(started) if started == owner.pid_started => Liveness::Alive,
        // Where `/proc` hides the processes of other users, a live process looks as if it were
        // dead.
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

/// Whether process numbers of two hosts are comparable. A machine may change its name while it
/// runs, so boot and process namespace decide; where the system provides none, the names have to be
/// equal too.
fn is_same_space(one: &str, other: &str) -> bool {
    let space = |host: &str| {
        let (rest, space) = host.rsplit_once('/')?;
        let (_, boot) = rest.rsplit_once('/')?;
        (!boot.is_empty() && !space.is_empty()).then(|| (boot.to_owned(), space.to_owned()))
    };
    one == other || space(one).is_some_and(|known| space(other) == Some(known))
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

/// A folder in which every process that holds leases of one database file keeps a locked file. The
/// lock proves that a process is alive where its number is meaningless, as in another container on
/// the same machine. The kernel releases it when the process dies.
#[derive(Debug, Clone)]
pub(crate) struct OwnerLocks {
    folder: PathBuf,
}

/// The lock files of this process. None is ever closed: closing any descriptor of such a file releases its lock.
static HELD: Mutex<Option<HashMap<PathBuf, Option<File>>>> = Mutex::new(None);

impl OwnerLocks {
    /// The lock files of the processes that share a database file.
    pub(crate) fn beside(database: &Path) -> Self {
        let mut name = OsString::from(database);
        name.push("-owners");
        Self {
            folder: name.into(),
        }
    }

    fn place(&self, owner: &Owner) -> PathBuf {
        self.folder.join(owner.process.to_string())
    }

    /// Locks the file of this process, if the owner is this process. If that fails, as on a full
    /// disk, its leases still expire for processes that cannot see it.
    pub(crate) fn hold(&self, owner: &Owner) {
        if owner.process != current_owner().process {
            return;
        }
        let place = self.place(owner);
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        let held = held.get_or_insert_default();
        if !held.contains_key(&place) {
            self.sweep(held);
            let file = self.create(&place);
            held.insert(place, file);
        }
    }

    fn create(&self, place: &Path) -> Option<File> {
        std::fs::create_dir_all(&self.folder).ok()?;
        // Other processes check the file before it is locked: they hold it for a moment or remove
        // it.
        for _ in 0..100 {
            let file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .open(place)
                .ok()?;
            match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) if is_file_at(&file, place) => return Some(file),
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
        for place in entries.flatten().map(|entry| entry.path()) {
            if held.contains_key(&place) {
                continue;
            }
            if let (Liveness::Dead, _locked) = probe(&place) {
                // Locked meanwhile, so that its owner cannot reuse it. Another process may have
                // removed it already.
                let _gone = std::fs::remove_file(&place);
            }
        }
    }

    /// The liveness of an owner, from its lock file.
    pub(crate) fn liveness(&self, owner: &Owner) -> Liveness {
        let place = self.place(owner);
        let held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        if held.as_ref().is_some_and(|held| held.contains_key(&place)) {
            return Liveness::Alive;
        }
        probe(&place).0
    }
}

fn is_file_at(file: &File, place: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let identity = |found: std::io::Result<std::fs::Metadata>| {
        found.map(|found| (found.dev(), found.ino())).ok()
    };
    let known = identity(file.metadata());
    known.is_some() && known == identity(std::fs::metadata(place))
}

/// Whether the process that created a lock file is alive; returns the lock when it is dead. Not for
/// the files of this process.
fn probe(place: &Path) -> (Liveness, Option<File>) {
    let Ok(file) = OpenOptions::new().read(true).write(true).open(place) else {
        return (Liveness::Unknown, None);
    };
    match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => (Liveness::Dead, Some(file)),
        Err(Errno::AGAIN | Errno::ACCESS) => (Liveness::Alive, None),
        Err(_) => (Liveness::Unknown, None),
    }
}

/// The start time of a process, in ticks since boot. `None` when it is dead or a zombie.
fn start_of(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in parentheses and may contain any character.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    // The start is field 22; the state was field 3.
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{Liveness, Owner, current_owner, liveness};

    #[test]
    fn this_process_lives_and_a_reaped_child_does_not() {
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
    fn a_machine_that_changed_its_name_is_the_same_and_another_boot_is_not() {
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
    fn a_reused_number_is_another_process_and_another_host_is_unknown() {
        let mut owner = current_owner();
        owner.pid_started += 1;
        assert_eq!(liveness(&owner), Liveness::Dead);
        owner.host = "elsewhere".to_owned();
        assert_eq!(liveness(&owner), Liveness::Unknown);
    }
}
