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

    /// Current number of processes and threads.
    pub(super) fn size(self) -> usize {
        let own = getpid().as_raw_nonzero().get();
        let counted = self.processes().into_iter();
        let counted = counted.filter(|process| process.number != own);
        counted.map(|process| process.threads).sum()
    }

    /// The numbers of all processes, without the supervisor.
    pub(super) fn numbers(self) -> Vec<i32> {
        let own = getpid().as_raw_nonzero().get();
        let numbers = self.processes().into_iter().map(|process| process.number);
        numbers.filter(|number| *number != own).collect()
    }

    fn processes(self) -> Vec<Process> {
        match self {
            Self::Namespace => processes(),
            Self::Descendants => descendants(),
        }
    }
}

/// Stops descendants until it finds no new one, so that none can fork any more, then kills them.
fn kill_descendants() {
    let mut stopped = HashSet::new();
    loop {
        let running: Vec<Pid> = descendants()
            .into_iter()
            .filter_map(|process| Pid::from_raw(process.number))
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
fn descendants() -> Vec<Process> {
    let mut children: HashMap<i32, Vec<Process>> = HashMap::new();
    for process in processes() {
        children.entry(process.parent).or_default().push(process);
    }
    let mut found = Vec::new();
    let mut pending = vec![getpid().as_raw_nonzero().get()];
    while let Some(parent) = pending.pop() {
        let own = children.remove(&parent).unwrap_or_default();
        pending.extend(own.iter().map(|process| process.number));
        found.extend(own);
    }
    found
}

struct Process {
    number: i32,
    parent: i32,
    threads: usize,
}

/// The living processes in `/proc`.
fn processes() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| {
            let number = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let line = fs::read(format!("/proc/{number}/stat")).ok()?;
            let (state, parent) = state_in(&line)?;
            (state != 'Z' && state != 'X').then_some(Process {
                number,
                parent,
                threads: threads_in(&line).unwrap_or(1),
            })
        })
        .collect()
}

/// State and parent of a process, from a line of `/proc/N/stat`. The process name may contain any character, so the
/// fields are counted after the last parenthesis.
pub(super) fn state_in(line: &[u8]) -> Option<(char, i32)> {
    let fields = fields_of(line)?;
    let mut fields = fields.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// Number of threads of a process, from the same line.
fn threads_in(line: &[u8]) -> Option<usize> {
    fields_of(line)?.split_whitespace().nth(17)?.parse().ok()
}

/// The fields of the line after the name of the process.
fn fields_of(line: &[u8]) -> Option<String> {
    let line = String::from_utf8_lossy(line);
    Some(line.rsplit_once(')')?.1.to_owned())
}
