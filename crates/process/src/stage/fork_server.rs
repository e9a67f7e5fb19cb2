//! The server side of [`fork_server`](crate::fork_server): forks first stages for requests at its socket.

use super::{FAILED, filter, first_stage};
use crate::fork_server::{SpawnReply, SpawnRequest};
use crate::system::{self, Fork};
use crate::wire;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Pid, PidfdFlags, Signal, getpid, kill_process, pidfd_open,
    set_dumpable_behavior,
};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// A forked first stage, and its pidfd.
type ForkedStage = (Pid, OwnedFd);

/// Serves requests until the other end is closed.
pub(super) fn serve() -> io::Result<u8> {
    system::close_all()?;
    system::block_signals()?;
    // A command without a process namespace must not inspect this process, which has more rights.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    let requests = rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3)?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    filter::prepare();
    let fork_server = getpid();
    let mut stages: Vec<ForkedStage> = Vec::new();
    while let Some(control) = next_request(&requests, &mut stages)? {
        match system::fork() {
            Ok(Fork::Child) => {
                drop((requests, stages));
                // Otherwise the stage could not write its own user map.
                set_dumpable_behavior(DumpableBehavior::Dumpable)?;
                system::exit_immediately(first_stage(control, fork_server).unwrap_or(FAILED));
            }
            Ok(Fork::Parent(stage)) => {
                drop(control);
                match pidfd_open(stage, PidfdFlags::empty()) {
                    Ok(process) => {
                        wire::send_with(&requests, &SpawnReply::Started, &[process.as_fd()])?;
                        stages.push((stage, process));
                    }
                    Err(error) => {
                        let _unless_gone = kill_process(stage, Signal::KILL);
                        super::wait_for(stage);
                        report_failure(&requests, error.raw_os_error())?;
                    }
                }
            }
            Err(error) => report_failure(
                &requests,
                error.raw_os_error().unwrap_or(Errno::IO.raw_os_error()),
            )?,
        }
    }
    Ok(0)
}

fn report_failure(requests: &OwnedFd, errno: i32) -> io::Result<()> {
    wire::send(requests, &SpawnReply::Failed { errno })
}

/// Returns the control socket of the next requested stage; `None` when the socket is closed. Reaps stages that
/// end meanwhile.
fn next_request(requests: &OwnedFd, stages: &mut Vec<ForkedStage>) -> io::Result<Option<OwnedFd>> {
    loop {
        let mut watched = vec![PollFd::new(requests, PollFlags::IN)];
        let ends = stages.iter();
        watched.extend(ends.map(|(_, process)| PollFd::new(process, PollFlags::IN)));
        match poll(&mut watched, None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        let ready: Vec<bool> = watched
            .iter()
            .map(|one| !one.revents().is_empty())
            .collect();
        let mut ended = ready[1..].iter();
        stages.retain(|(stage, _)| {
            let has_ended = ended.next() == Some(&true);
            if has_ended {
                super::wait_for(*stage);
            }
            !has_ended
        });
        if ready[0] {
            let request = wire::receive_with::<SpawnRequest>(requests)?;
            return Ok(request.and_then(|(SpawnRequest, mut files)| files.pop()));
        }
    }
}
