//! Runs a trusted command without stages: in its own process group, which is killed at the end. Processes that left the
//! group survive, so this is only the fallback for programs without stages, such as tests of other crates.

use crate::error::ProcessError;
use crate::launch;
use crate::outcome::{CommandResult, Ending, Enforcement, Tree};
use crate::pipes::Event;
use crate::run::Attempt;
use rustix::process::{
    Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open, test_kill_process_group,
};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

pub(crate) fn run(attempt: &Attempt<'_>) -> Result<CommandResult, ProcessError> {
    let (streams, mut watch) = attempt.streams()?;
    let mut child = launch::directly(attempt.invocation, &streams).map_err(|error| {
        if error.kind() == io::ErrorKind::NotFound {
            attempt.not_found()
        } else {
            attempt.cannot("running it", error)
        }
    })?;
    let pid = Pid::from_child(&child);
    let kill = |signal| {
        // Both calls fail only if the process has already exited.
        let _unless_gone = kill_process_group(pid, signal);
        let _unless_gone = kill_process(pid, signal);
    };
    drop(streams);
    let ended = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(ended) => ended,
        Err(error) => {
            kill(Signal::KILL);
            let _status = child.wait();
            return Err(attempt.cannot("watching it", error));
        }
    };
    attempt.report_started();
    let mut stopped = None;
    loop {
        match watch.next(ended.as_fd()) {
            Ok(Event::Ready) => break,
            Ok(Event::Signals(signals)) => {
                signals
                    .into_iter()
                    .filter_map(Signal::from_named_raw)
                    .for_each(kill);
                continue;
            }
            Ok(Event::TimedOut) => stopped = stopped.or(Some(Ending::TimedOut)),
            Ok(Event::Cancelled) => stopped = stopped.or(Some(Ending::Cancelled)),
            Err(_) => {
                kill(Signal::KILL);
                break;
            }
        }
        kill(Signal::KILL);
        watch.stop_within(Duration::from_secs(1));
    }
    let status = child
        .wait()
        .map_err(|error| attempt.cannot("waiting for it", error))?;
    let leftovers = usize::from(test_kill_process_group(pid).is_ok());
    let _unless_gone = kill_process_group(pid, Signal::KILL);
    let ending = stopped.unwrap_or_else(|| ending_of(status));
    Ok(attempt.finished(
        watch,
        ending,
        leftovers,
        None,
        Enforcement::unconfined(Tree::ProcessGroup),
    ))
}

fn ending_of(status: ExitStatus) -> Ending {
    status.signal().map_or_else(
        || Ending::Exited(status.code().unwrap_or(-1)),
        Ending::Signalled,
    )
}
