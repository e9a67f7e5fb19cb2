//! Makes an interactive command the foreground process group of the terminal, and reclaims the terminal afterwards.
//!
//! The command's process group is in the foreground while it runs. When the command is suspended, for example by
//! Ctrl-Z, the caller is suspended too, so that its shell takes over. When the shell resumes the caller, the command
//! gets the terminal back. Only a process outside the new namespace can signal the caller's process group, so the first
//! stage does this at the request of the supervisor.

use super::tree::state_in;
use rustix::process::{Pid, Signal, getpgrp, kill_process_group, test_kill_process_group};
use rustix::termios::{
    OptionalActions, Termios, isatty, tcgetattr, tcgetpgrp, tcsetattr, tcsetpgrp,
};
use std::cell::Cell;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::thread::sleep;
use std::time::Duration;

/// Interval between checks whether a suspended caller was resumed.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A terminal whose foreground process group is the caller's.
#[derive(Debug)]
pub(super) struct Terminal {
    file: OwnedFd,
    caller_group: Pid,
    /// The caller's `/proc/<pid>/stat`, opened before a namespace gets its own `/proc`.
    caller_state: File,
    settings: Termios,
    /// The foreground process group when the command was suspended.
    job: Cell<Option<Pid>>,
}

impl Terminal {
    /// The terminal of a stream; `None` if the stream is not a terminal or the caller is not in its foreground.
    pub(super) fn foreground(stream: &OwnedFd, caller_pid: i32) -> Option<Self> {
        if !isatty(stream) || tcgetpgrp(stream).ok()? != getpgrp() {
            return None;
        }
        Some(Self {
            file: stream.try_clone().ok()?,
            caller_group: getpgrp(),
            caller_state: File::open(format!("/proc/{caller_pid}/stat")).ok()?,
            settings: tcgetattr(stream).ok()?,
            job: Cell::new(None),
        })
    }

    /// Suspends the caller, and returns when the command may continue.
    fn suspend(&self) {
        let foreground = tcgetpgrp(&self.file).ok();
        if foreground == Some(self.caller_group) && self.job.get().is_some() {
            // An earlier request did not stop the caller, and the shell has since moved it to the foreground.
            self.give_to_command();
            return;
        }
        let settings = tcgetattr(&self.file).ok();
        if self.job.get().is_none_or(|job| foreground == Some(job)) {
            self.job.set(foreground);
            // These calls fail only if the terminal no longer exists.
            let _unless_gone = tcsetattr(&self.file, OptionalActions::Drain, &self.settings);
            let _unless_gone = tcsetpgrp(&self.file, self.caller_group);
        }
        let _unless_gone = kill_process_group(self.caller_group, Signal::TSTP);
        sleep(POLL_INTERVAL);
        while self.caller_is_stopped() {
            sleep(POLL_INTERVAL);
        }
        if tcgetpgrp(&self.file).ok() == Some(self.caller_group) {
            if let Some(settings) = settings {
                let _unless_gone = tcsetattr(&self.file, OptionalActions::Drain, &settings);
            }
            self.give_to_command();
        }
    }

    /// Gives the terminal to the command again.
    fn give_to_command(&self) {
        if let Some(job) = self.job.get() {
            let _unless_gone = tcsetpgrp(&self.file, job);
        }
    }

    fn caller_is_stopped(&self) -> bool {
        let mut line = [0; 256];
        self.caller_state
            .read_at(&mut line, 0)
            .ok()
            .and_then(|length| state_in(&line[..length]))
            .is_some_and(|(state, _)| state == 'T')
    }

    /// Handles requests of the supervisor until it exits, then reclaims the terminal.
    pub(super) fn serve(&self, supervisor: &OwnedFd) {
        let mut request = [0];
        while matches!(rustix::io::read(supervisor, &mut request), Ok(1)) {
            self.suspend();
            if rustix::io::write(supervisor, &request).is_err() {
                break;
            }
        }
        self.reclaim();
    }

    /// Reclaims the terminal if its foreground process group no longer exists.
    fn reclaim(&self) {
        let foreground = tcgetpgrp(&self.file);
        let is_dead = match foreground {
            Ok(group) => group != self.caller_group && test_kill_process_group(group).is_err(),
            Err(_) => true,
        };
        if is_dead {
            let _unless_gone = tcsetpgrp(&self.file, self.caller_group);
            let _unless_gone = tcsetattr(&self.file, OptionalActions::Drain, &self.settings);
        }
    }
}

/// Reaction of a supervisor when the command is suspended.
#[derive(Debug)]
pub(super) enum Suspension {
    /// Ignore it: the command has no terminal.
    Never,
    /// Suspend the caller from this process.
    Here(Terminal),
    /// Send a request to the stage outside the namespace.
    Through(OwnedFd),
}

impl Suspension {
    /// Suspends the caller; returns when the caller was resumed.
    pub(super) fn suspend(&self) {
        match self {
            Self::Never => {}
            Self::Here(terminal) => terminal.suspend(),
            Self::Through(outside) => {
                let mut answer = [0];
                if rustix::io::write(outside, &answer).is_ok() {
                    let _answered = rustix::io::read(outside, &mut answer);
                }
            }
        }
    }

    /// Reclaims the terminal, if this process owns it.
    pub(super) fn end(&self) {
        if let Self::Here(terminal) = self {
            terminal.reclaim();
        }
    }
}
