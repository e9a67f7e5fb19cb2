//! Counts and kills the processes of a command.

use rustix::process::{Pid, Signal, getpid, kill_process, kill_process_group};
use std::collections::{HashMap, HashSet};
use std::fs;

/// The process tree of a command, as seen from its supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProcessTree {
    /// Everything in the namespace whose first process is the supervisor.
    Namespace,
    /// All descendants of the supervisor, which adopts orphans.
    Descendants,
}

impl ProcessTree {
    /// Kills all processes of the tree.
    pub(super) fn kill(self) {
        match self {
            // In a namespace, this kills all processes except the supervisor at once.
            Self::Namespace => {
                let _unless_none = kill_process_group(Pid::INIT, Signal::KILL);
            }
            Self::Descendants => kill_descendants(),
        }
    }

    /// Current number of processes.
    pub(super) fn size(self) -> usize {
        match self {
            Self::Namespace => processes().len().saturating_sub(1),
            Self::Descendants => descendants().len(),
        }
    }

    /// Private memory of all processes of the tree together, in bytes.
    pub(super) fn memory(self) -> u64 {
        let own = getpid().as_raw_nonzero().get();
        let numbers: Vec<i32> = match self {
            Self::Namespace => processes().iter().map(|process| process.number).collect(),
            Self::Descendants => descendants()
                .iter()
                .map(|process| process.as_raw_nonzero().get())
                .collect(),
        };
        let others = numbers.into_iter().filter(|number| *number != own);
        others.filter_map(memory_of).sum()
    }
}

/// Private memory of a process in bytes, without mapped files and shared memory.
fn memory_of(number: i32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{number}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes << 10)
}

/// Stops descendants until it finds no new one, so that none can fork any more, then kills them.
fn kill_descendants() {
    let mut stopped = HashSet::new();
    loop {
        let running: Vec<Pid> = descendants()
            .into_iter()
            .filter(|pid| !stopped.contains(pid))
            .collect();
        if running.is_empty() {
            break;
        }
        for pid in running {
            let _unless_gone = kill_process(pid, Signal::STOP);
            stopped.insert(pid);
        }
    }
    for pid in stopped {
        let _unless_gone = kill_process(pid, Signal::KILL);
    }
}

/// The living descendants of this process.
fn descendants() -> Vec<Pid> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for process in processes() {
        children
            .entry(process.parent)
            .or_default()
            .push(process.number);
    }
    let mut found = Vec::new();
    let mut pending = vec![getpid().as_raw_nonzero().get()];
    while let Some(parent) = pending.pop() {
        let own = children.remove(&parent).unwrap_or_default();
        found.extend(own.iter().copied().filter_map(Pid::from_raw));
        pending.extend(own);
    }
    found
}

struct Process {
    number: i32,
    parent: i32,
}

/// The living processes in `/proc`.
fn processes() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| {
            let number = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let (state, parent) = state_of(number)?;
            (state != 'Z' && state != 'X').then_some(Process { number, parent })
        })
        .collect()
}

fn state_of(number: i32) -> Option<(char, i32)> {
    state_in(&fs::read(format!("/proc/{number}/stat")).ok()?)
}

/// State and parent of a process, from a line of `/proc/N/stat`. The process name may contain any character, so the
/// fields are counted after the last parenthesis.
pub(super) fn state_in(line: &[u8]) -> Option<(char, i32)> {
    let line = String::from_utf8_lossy(line);
    let mut fields = line.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}
