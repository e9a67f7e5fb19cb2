//! The fork server: one process of this program, started with the first command that needs it, from which all first
//! stages are forked. A program as large as ours takes longer to load than many commands take to run; forking a loaded
//! one avoids that.
//!
//! It receives requests through a socket, for one stage at a time, and ends when we do, since the socket closes. When
//! it is gone, the next command starts another one.

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

/// The fork server of this process, if it has one.
static FORK_SERVER: Mutex<Option<ForkServer>> = Mutex::new(None);

/// Requests a stage. The stage's end of its control socket is sent with it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SpawnRequest;

/// Reply of the fork server.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum SpawnReply {
    /// The stage exists; a pidfd is sent with this.
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
    /// Kills it, and with it everything it supervises.
    pub(crate) fn kill(&self) {
        let _unless_gone = pidfd_send_signal(&self.process, Signal::KILL);
    }

    /// Waits until it has ended.
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

/// Creates a first stage.
pub(crate) fn stage(program: &Path) -> io::Result<Stage> {
    let mut fork_server = FORK_SERVER.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(server) = fork_server.as_ref() {
        match server.ask() {
            Ok(stage) => return Ok(stage),
            Err(Refusal::Failed(error)) => return Err(error),
            // A stage that it may have just forked sees that it gets no plan, and ends.
            Err(Refusal::Gone(_)) => fork_server.take().map_or(Ok(()), ForkServer::end)?,
        }
    }
    let made = fork_server.insert(ForkServer::start(program)?).ask();
    made.map_err(|(Refusal::Gone(error) | Refusal::Failed(error))| error)
}

/// A stage could not be created.
enum Refusal {
    /// The fork server is gone.
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
        let (requests, theirs) = wire::connection()?;
        let child = Command::new(program)
            .arg(STAGE)
            .env_clear()
            .current_dir("/")
            .stdin(theirs)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self { child, requests })
    }

    fn ask(&self) -> Result<Stage, Refusal> {
        let (control, theirs) = wire::connection().map_err(Refusal::Failed)?;
        wire::send_with(&self.requests, &SpawnRequest, &[theirs.as_fd()]).map_err(|error| {
            if error.kind() == io::ErrorKind::BrokenPipe {
                Refusal::Gone(error)
            } else {
                Refusal::Failed(error)
            }
        })?;
        drop(theirs);
        let heard = wire::receive_with::<SpawnReply>(&self.requests).map_err(Refusal::Gone)?;
        match heard {
            Some((SpawnReply::Started, mut files)) => {
                // The pidfd is not received when too many files are open.
                let process = files
                    .pop()
                    .ok_or_else(|| Refusal::Failed(Errno::MFILE.into()))?;
                Ok(Stage { control, process })
            }
            Some((SpawnReply::Failed { errno }, _)) => {
                Err(Refusal::Failed(io::Error::from_raw_os_error(errno)))
            }
            None => Err(Refusal::Gone(io::ErrorKind::UnexpectedEof.into())),
        }
    }

    /// Ensures that it is gone.
    fn end(mut self) -> io::Result<()> {
        drop(self.requests);
        let _unless_gone = self.child.kill();
        self.child.wait().map(drop)
    }
}
