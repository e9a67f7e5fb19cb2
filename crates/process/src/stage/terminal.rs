//! Lends the terminal to an interactive command and takes it back.
//!
//! The command's process group is the foreground one while it runs. When the command is suspended,
//! as by Ctrl-Z, our caller is suspended too, so that its shell takes over; when the shell resumes
//! the caller, the command gets the terminal back. Only a process outside of the new namespace can
//! name the caller's group, so the first stage does this and the supervisor asks for it.

use super::tree::state_of;
use rustix::process::{Pid, Signal, getpgrp, getppid, kill_process_group, test_kill_process_group};
use rustix::termios::{
    OptionalActions, Termios, isatty, tcgetattr, tcgetpgrp, tcsetattr, tcsetpgrp,
};
use std::os::fd::OwnedFd;
use std::thread::sleep;
use std::time::Duration;

/// How often to look whether a suspended caller was resumed.
const LOOK: Duration = Duration::from_millis(50);

/// A terminal in whose foreground our caller is.
#[derive(Debug)]
pub(super) struct Terminal {
    file: OwnedFd,
    caller: Pid,
    settings: Termios,
}

impl Terminal {
    /// The terminal behind a stream, when it is one and our caller is in its foreground.
    pub(super) fn of(stream: &OwnedFd) -> Option<Self> {
        if !isatty(stream) || tcgetpgrp(stream).ok()? != getpgrp() {
            return None;
        }
        Some(Self {
            file: stream.try_clone().ok()?,
            caller: getpgrp(),
            settings: tcgetattr(stream).ok()?,
        })
    }

    /// Suspends our caller, and returns when it goes on.
    fn suspend(&self) {
        let job = tcgetpgrp(&self.file);
        let settings = tcgetattr(&self.file);
        // Each of these fails only when the terminal is gone, and then there is nothing to give.
        let _unless_gone = tcsetattr(&self.file, OptionalActions::Drain, &self.settings);
        let _unless_gone = tcsetpgrp(&self.file, self.caller);
        let _unless_gone = kill_process_group(self.caller, Signal::TSTP);
        sleep(LOOK);
        while caller_is_stopped() {
            sleep(LOOK);
        }
        if tcgetpgrp(&self.file).ok() == Some(self.caller) {
            if let Ok(settings) = settings {
                let _unless_gone = tcsetattr(&self.file, OptionalActions::Drain, &settings);
            }
            if let Ok(job) = job {
                let _unless_gone = tcsetpgrp(&self.file, job);
            }
        }
    }

    /// Does what the supervisor asks for, until it is gone, then takes the terminal back.
    pub(super) fn serve(&self, supervisor: &OwnedFd) {
        let mut asked = [0];
        while matches!(rustix::io::read(supervisor, &mut asked), Ok(1)) {
            self.suspend();
            if rustix::io::write(supervisor, &asked).is_err() {
                break;
            }
        }
        self.take_back();
    }

    /// Takes the terminal back when nobody else has done so.
    fn take_back(&self) {
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

fn caller_is_stopped() -> bool {
    getppid()
        .and_then(|caller| state_of(caller.as_raw_nonzero().get()))
        .is_some_and(|(state, _)| state == 'T')
}

/// What a supervisor does when the command is suspended.
#[derive(Debug)]
pub(super) enum Suspension {
    /// Nothing: the command has not been given a terminal.
    Never,
    /// Handles it itself.
    Here(Terminal),
    /// Asks the stage outside.
    Through(OwnedFd),
}

impl Suspension {
    /// Suspends our caller; when it goes on, so may the command.
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

    /// Takes the terminal back, if that is ours to do.
    pub(super) fn end(&self) {
        if let Self::Here(terminal) = self {
            terminal.take_back();
        }
    }
}
