//! Who this process is, and whether another one still lives.
//!
//! A process number means something only on its machine, boot and process space, and only together
//! with the moment the process started, because numbers are reused.

use std::sync::OnceLock;

use cleveragents_domain::{Owner, ProcessId};

/// What is known about an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Liveness {
    /// It runs.
    Alive,
    /// It is gone for certain.
    Dead,
    /// It runs elsewhere, or the system does not tell.
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

/// Whether an owner still lives, as far as can be told from here.
pub fn liveness(owner: &Owner) -> Liveness {
    if owner.host != host() || owner.pid_started == 0 {
        return Liveness::Unknown;
    }
    match start_of(owner.pid) {
        Some(started) if started == owner.pid_started => Liveness::Alive,
        _ => Liveness::Dead,
    }
}

/// The machine, its boot and the process space, so that equal means: process numbers compare.
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

/// When a process started, in ticks since boot. `None` when it is gone or only waits to be reaped.
fn start_of(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in parentheses and may hold anything.
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
    use super::{Liveness, current_owner, liveness};

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
    fn a_reused_number_is_another_process_and_another_host_is_unknown() {
        let mut owner = current_owner();
        owner.pid_started += 1;
        assert_eq!(liveness(&owner), Liveness::Dead);
        owner.host = "elsewhere".to_owned();
        assert_eq!(liveness(&owner), Liveness::Unknown);
    }
}
