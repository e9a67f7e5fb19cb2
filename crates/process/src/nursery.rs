//! The nursery: one process of this program, started with the first command that needs it, from which all first
//! stages are forked. A program as large as ours takes longer to load than many a command to run; a copy of one
//! that is loaded has it for nothing.
//!
//! It is asked through a socket, for one stage at a time, and ends when we do, since the socket ends. When it is
//! gone, the next command starts another one.

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

/// The nursery of this process, while it has one.
static NURSERY: Mutex<Option<Nursery>> = Mutex::new(None);

/// Asks for a stage. The stage's end of its control socket comes with it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Wanted;

/// What the nursery answers.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Born {
    /// It is there; a file that stands for its process comes with this.
    Alive,
    /// It could not be made.
    Not { errno: i32 },
}

/// A first stage that waits for its plan.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) control: OwnedFd,
    process: OwnedFd,
}

impl Stage {
    /// Kills it, and with it what it holds.
    pub(crate) fn kill(&self) {
        let _unless_gone = pidfd_send_signal(&self.process, Signal::KILL);
    }

    /// Returns when it has ended.
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

/// Makes a first stage.
pub(crate) fn stage(program: &Path) -> io::Result<Stage> {
    let mut nursery = NURSERY.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(there) = nursery.as_ref() {
        match there.ask() {
            Ok(stage) => return Ok(stage),
            Err(Refusal::Not(error)) => return Err(error),
            // What it may have made last sees that nobody has a plan for it, and ends.
            Err(Refusal::Gone(_)) => nursery.take().map_or(Ok(()), Nursery::end)?,
        }
    }
    let made = nursery.insert(Nursery::start(program)?).ask();
    made.map_err(|(Refusal::Gone(error) | Refusal::Not(error))| error)
}

/// Why there is no stage.
enum Refusal {
    /// There is no nursery any more.
    Gone(io::Error),
    /// It is there, and a stage could not be had.
    Not(io::Error),
}

struct Nursery {
    child: Child,
    requests: OwnedFd,
}

impl Nursery {
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
        let (control, theirs) = wire::connection().map_err(Refusal::Not)?;
        wire::tell_with(&self.requests, &Wanted, &[theirs.as_fd()]).map_err(|error| {
            if error.kind() == io::ErrorKind::BrokenPipe {
                Refusal::Gone(error)
            } else {
                Refusal::Not(error)
            }
        })?;
        drop(theirs);
        let heard = wire::hear_with::<Born>(&self.requests).map_err(Refusal::Gone)?;
        match heard {
            Some((Born::Alive, mut files)) => {
                // It is not passed on where too many files are open.
                let process = files
                    .pop()
                    .ok_or_else(|| Refusal::Not(Errno::MFILE.into()))?;
                Ok(Stage { control, process })
            }
            Some((Born::Not { errno }, _)) => {
                Err(Refusal::Not(io::Error::from_raw_os_error(errno)))
            }
            None => Err(Refusal::Gone(io::ErrorKind::UnexpectedEof.into())),
        }
    }

    /// Makes sure that it is gone.
    fn end(mut self) -> io::Result<()> {
        drop(self.requests);
        let _unless_gone = self.child.kill();
        self.child.wait().map(drop)
    }
}
