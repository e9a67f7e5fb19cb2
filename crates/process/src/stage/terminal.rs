//! Lends the terminal to an interactive command and reclaims it.
//!
//! The command's process group is in the foreground while it runs. When the command is suspended,
//! for example by Ctrl-Z, our caller is suspended too, so that its shell takes over; when the shell
//! resumes the caller, the command gets the terminal back. Only a process outside of the new
//! namespace can name the caller's group, so the first stage does this on request of the
//! supervisor.

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

/// Interval at which a suspended caller is checked for being resumed.
const LOOK: Duration = Duration::from_millis(50);

/// A terminal with our caller in the foreground.
#[derive(Debug)]
pub(super) struct Terminal {
    file: OwnedFd,
    caller: Pid,
    /// The `/proc` entry of the caller, opened while we see the same `/proc` as it does.
    caller_state: File,
    settings: Termios,
    /// The group that had the terminal when the command was suspended.
    job: Cell<Option<Pid>>,
}

impl Terminal {
    /// The terminal behind a stream, when it is one and our caller is in its foreground.
    pub(super) fn foreground(stream: &OwnedFd, caller: i32) -> Option<Self> {
        if !isatty(stream) || tcgetpgrp(stream).ok()? != getpgrp() {
            return None;
        }
        Some(Self {
            file: stream.try_clone().ok()?,
            caller: getpgrp(),
            caller_state: File::open(format!("/proc/{caller}/stat")).ok()?,
            settings: tcgetattr(stream).ok()?,
            job: Cell::new(None),
        })
    }

    /// Suspends our caller, and returns when the command may continue.
    fn suspend(&self) {
        let foreground = tcgetpgrp(&self.file).ok();
        if foreground == Some(self.caller) && self.job.get().is_some() {
            // The shell gave the terminal to the caller, which was running all the time.
            self.lend();
            return;
        }
        let settings = tcgetattr(&self.file).ok();
        if self.job.get().is_none_or(|job| foreground == Some(job)) {
            self.job.set(foreground);
            // These fail only when the terminal is gone, and then there is nothing to return.
            let _unless_gone = tcsetattr(&self.file, OptionalActions::Drain, &self.settings);
            let _unless_gone = tcsetpgrp(&self.file, self.caller);
        }
        let _unless_gone = kill_process_group(self.caller, Signal::TSTP);
        sleep(LOOK);
        while self.caller_is_stopped() {
            sleep(LOOK);
        }
        if tcgetpgrp(&self.file).ok() == Some(self.caller) {
            if let Some(settings) = settings {
                let _unless_gone = tcsetattr(&self.file, OptionalActions::Drain, &settings);
            }
            self.lend();
        }
    }

    /// Gives the terminal to the command again.
    fn lend(&self) {
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

    /// Handles requests of the supervisor until it is gone, then takes the terminal back.
    pub(super) fn serve(&self, supervisor: &OwnedFd) {
        let mut asked = [0];
        while matches!(rustix::io::read(supervisor, &mut asked), Ok(1)) {
            self.suspend();
            if rustix::io::write(supervisor, &asked).is_err() {
                break;
            }
        }
        self.reclaim();
    }

    /// Reclaims the terminal unless another process already did.
    fn reclaim(&self) {
        let foreground = tcgetpgrp(&self.file);
        let is_dead = match foreground {
            Ok(group) => group != self.caller && test_kill_process_group(group).is_err(),
            Err(_) => true,
        };
        if is_dead {
            let _unless_gone = tcsetpgrp(&self.file, self.caller);
            let _unless_gone = tcsetattr(&self.file, OptionalActions::Drain, &self.settings);
        }
    }
}

/// Reaction of a supervisor when the command is suspended.
#[derive(Debug)]
pub(super) enum Suspension {
    /// Nothing: the command has no terminal.
    Never,
    /// Handles it itself.
    Here(Terminal),
    /// Asks the stage outside of the namespace.
    Through(OwnedFd),
}

impl Suspension {
    /// Suspends our caller; when it continues, so may the command.
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

    /// Takes the terminal back, if that is our task.
    pub(super) fn end(&self) {
        if let Self::Here(terminal) = self {
            terminal.reclaim();
        }
    }
}
