//! The fork server: a second process of this program, from which all first stages are forked. It starts with the first
//! command that needs a stage. Loading a program as large as ours takes longer than many commands run; forking a loaded
//! process avoids that.
//!
//! It receives requests through a socket, one stage at a time. It ends with this process, because the socket closes. If
//! it has died, the next command starts a new one.

use crate::launch::STAGE;
use crate::wire;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Signal, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// The fork server of this process, once it has been started.
static FORK_SERVER: Mutex<Option<ForkServer>> = Mutex::new(None);

/// Request for a stage, sent together with the stage's end of its control socket.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SpawnRequest;

/// Reply of the fork server.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum SpawnReply {
    /// The stage runs; its pidfd is sent with this reply.
    Started,
    /// The stage could not be created.
    Failed { errno: i32 },
}

/// A first stage that waits for its plan.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) control: OwnedFd,
    process: OwnedFd,
}

impl Stage {
    /// Kills the stage, and thereby everything it supervises.
    pub(crate) fn kill(&self) {
        let _unless_gone = pidfd_send_signal(&self.process, Signal::KILL);
    }

    /// Waits until the stage has exited.
    pub(crate) fn wait(&self) -> io::Result<()> {
        loop {
            let mut ended = [PollFd::new(&self.process, PollFlags::IN)];
            match poll(&mut ended, None) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Creates a first stage; starts the fork server if it does not run.
pub(crate) fn stage(program: &Path) -> io::Result<Stage> {
    let mut fork_server = FORK_SERVER.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(server) = fork_server.as_ref() {
        match server.request_stage() {
            Ok(stage) => return Ok(stage),
            Err(SpawnError::Failed(error)) => return Err(error),
            // If the fork server forked a stage just before it died, this stage receives no plan and exits.
            Err(SpawnError::Gone(_)) => fork_server.take().map_or(Ok(()), ForkServer::end)?,
        }
    }
    let outcome = fork_server
        .insert(ForkServer::start(program)?)
        .request_stage();
    outcome.map_err(|(SpawnError::Gone(error) | SpawnError::Failed(error))| error)
}

/// Failure to create a stage.
enum SpawnError {
    /// The fork server has ended.
    Gone(io::Error),
    /// The fork server is alive, but could not create a stage.
    Failed(io::Error),
}

struct ForkServer {
    child: Child,
    requests: OwnedFd,
}

impl ForkServer {
    fn start(program: &Path) -> io::Result<Self> {
        let (requests, child_end) = wire::connection()?;
        let child = Command::new(program)
            .arg(STAGE)
            .env_clear()
            .current_dir("/")
            .stdin(child_end)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self { child, requests })
    }

    fn request_stage(&self) -> Result<Stage, SpawnError> {
        let (control, stage_end) = wire::connection().map_err(SpawnError::Failed)?;
        wire::send_with(&self.requests, &SpawnRequest, &[stage_end.as_fd()]).map_err(|error| {
            if error.kind() == io::ErrorKind::BrokenPipe {
                SpawnError::Gone(error)
            } else {
                SpawnError::Failed(error)
            }
        })?;
        drop(stage_end);
        let reply = wire::receive_with::<SpawnReply>(&self.requests).map_err(SpawnError::Gone)?;
        match reply {
            Some((SpawnReply::Started, mut files)) => {
                // The pidfd is missing if this process has too many open files.
                let process = files
                    .pop()
                    .ok_or_else(|| SpawnError::Failed(Errno::MFILE.into()))?;
                Ok(Stage { control, process })
            }
            Some((SpawnReply::Failed { errno }, _)) => {
                Err(SpawnError::Failed(io::Error::from_raw_os_error(errno)))
            }
            None => Err(SpawnError::Gone(io::ErrorKind::UnexpectedEof.into())),
        }
    }

    /// Kills the fork server and reaps it.
    fn end(mut self) -> io::Result<()> {
        drop(self.requests);
        let _unless_gone = self.child.kill();
        self.child.wait().map(drop)
    }
}
