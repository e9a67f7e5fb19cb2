//! The supervisor: starts the command, passes orders on, waits, and leaves nothing alive.

use super::terminal::Suspension;
use super::tree::Tree;
use super::{FAILED, Task, command};
use crate::invocation::Output;
use crate::outcome;
use crate::outcome::{Ending, Enforced, Layer, Namespace};
use crate::system::{self, Fork};
use crate::wire::{self, Order, Plan, Report};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, getuid, kill_process, kill_process_group,
    set_child_subreaper, wait,
};
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// How often the processes of root, whom the kernel does not limit, are counted.
const COUNT: Duration = Duration::from_millis(20);

/// How the supervisor holds the command.
#[derive(Debug)]
pub(super) struct Supervisor {
    pub(super) tree: Tree,
    pub(super) namespaces: Vec<Namespace>,
    pub(super) takes_terminal: bool,
}

impl Supervisor {
    /// Starts the command and sees it to its end.
    pub(super) fn run(
        &self,
        task: Task,
        writable: &[PathBuf],
        suspension: &mut Suspension,
    ) -> io::Result<u8> {
        if self.tree == Tree::Descendants {
            set_child_subreaper(Some(getpid()))?;
        }
        let (ours, theirs) = wire::connection()?;
        let Task {
            plan,
            control,
            streams,
        } = task;
        match system::fork()? {
            Fork::Child => {
                drop((ours, control));
                Ok(command::become_it(&plan, streams, &theirs, writable, self))
            }
            Fork::Parent(command) => {
                drop((theirs, streams));
                match preparation(&ours) {
                    Ok(enforced) => {
                        // When nobody hears it, the orders end at once, and so does everything.
                        let _unless_gone = wire::tell(&control, &Report::Started(enforced));
                        let seen = self.see_to_its_end(&plan, &control, command, suspension);
                        if seen.is_err() {
                            self.tree.kill();
                        }
                        seen
                    }
                    Err(report) => {
                        super::wait_for(command);
                        wire::tell(&control, &report)?;
                        Ok(FAILED)
                    }
                }
            }
        }
    }

    /// What is in force before the command restricts itself.
    pub(super) fn enforced(&self, plan: &Plan) -> Enforced {
        let mut enforced = Enforced::nothing(match self.tree {
            Tree::Namespace => outcome::Tree::Namespace,
            Tree::Descendants => outcome::Tree::Supervisor,
        });
        if let Some(confinement) = &plan.confinement {
            enforced.namespaces = if self.namespaces.is_empty() {
                Layer::Missing(confinement.isolation_reason.clone())
            } else {
                Layer::InForce(self.namespaces.clone())
            };
        }
        enforced
    }

    fn see_to_its_end(
        &self,
        plan: &Plan,
        control: &OwnedFd,
        command: Pid,
        suspension: &mut Suspension,
    ) -> io::Result<u8> {
        let watched = Watched {
            command,
            has_group: plan.output != Output::Inherit,
            tree: self.tree,
            ending: Arc::new(AtomicBool::new(false)),
        };
        let orders = control.try_clone()?;
        let obeying = watched.clone();
        thread::Builder::new().spawn(move || obeying.obey(&orders))?;
        if let Some(limit) = plan.limits.processes.filter(|_| getuid().is_root()) {
            let counting = watched.clone();
            thread::Builder::new().spawn(move || counting.count(limit))?;
        }
        let (ending, leftovers) = watched.reap(suspension)?;
        wire::tell(control, &Report::Ended { ending, leftovers })?;
        Ok(0)
    }
}

/// What the command says before it becomes the program: what is in force, then nothing; or why it
/// cannot become it.
fn preparation(command: &OwnedFd) -> Result<Enforced, Box<Report>> {
    let broken = || {
        let step = "preparing it".to_owned();
        Box::new(Report::NotStarted {
            step,
            errno: Errno::IO.raw_os_error(),
        })
    };
    let mut enforced = None;
    loop {
        match wire::hear::<Report>(command) {
            Ok(Some(Report::Started(layers))) => enforced = Some(layers),
            Ok(Some(report)) => return Err(Box::new(report)),
            Ok(None) => return enforced.ok_or_else(broken),
            Err(_) => return Err(broken()),
        }
    }
}

/// A running command.
#[derive(Debug, Clone)]
struct Watched {
    command: Pid,
    has_group: bool,
    tree: Tree,
    /// Whether everything is being killed.
    ending: Arc<AtomicBool>,
}

impl Watched {
    /// Passes signals on until nobody gives orders any more; then everything has to end.
    fn obey(&self, orders: &OwnedFd) {
        while let Ok(Some(Order::Signal(number))) = wire::hear::<Order>(orders) {
            let Some(signal) = Signal::from_named_raw(number) else {
                continue;
            };
            if !self.ending.load(Ordering::SeqCst) {
                self.signal(signal);
            }
        }
        self.kill_all();
    }

    fn signal(&self, signal: Signal) {
        let _unless_gone = if self.has_group {
            kill_process_group(self.command, signal)
        } else {
            kill_process(self.command, signal)
        };
    }

    /// Ends everything when there are too many processes.
    fn count(&self, limit: u64) {
        while !self.ending.load(Ordering::SeqCst) {
            if self.tree.size() as u64 > limit {
                self.kill_all();
            }
            thread::sleep(COUNT);
        }
    }

    fn kill_all(&self) {
        self.ending.store(true, Ordering::SeqCst);
        self.tree.kill();
    }

    /// Waits for the command, kills what is left, and tells how many were.
    fn reap(&self, suspension: &Suspension) -> io::Result<(Ending, usize)> {
        let options = match suspension {
            Suspension::Never => WaitOptions::empty(),
            Suspension::Here(_) | Suspension::Through(_) => WaitOptions::UNTRACED,
        };
        let mut leftovers = 0;
        let ending = loop {
            match wait(options) {
                Ok(Some((child, status))) if child == self.command => {
                    if let Some(ending) = ending_of(status) {
                        break ending;
                    }
                    if !self.ending.load(Ordering::SeqCst) {
                        suspension.suspend();
                        self.signal(Signal::CONT);
                    }
                }
                Ok(Some((_, status))) => leftovers += usize::from(self.was_killed(status)),
                Ok(None) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        };
        self.ending.store(true, Ordering::SeqCst);
        let mut patience = WaitOptions::NOHANG;
        loop {
            match wait(patience) {
                Ok(Some((_, status))) => {
                    leftovers += usize::from(self.was_killed(status));
                    patience = WaitOptions::NOHANG;
                }
                Ok(None) => {
                    self.tree.kill();
                    patience = WaitOptions::empty();
                }
                Err(Errno::INTR) => {}
                Err(_) => return Ok((ending, leftovers)),
            }
        }
    }

    /// Whether a process that is no more was one of those we killed.
    fn was_killed(&self, status: WaitStatus) -> bool {
        self.ending.load(Ordering::SeqCst)
            && status.terminating_signal() == Some(Signal::KILL.as_raw())
    }
}

fn ending_of(status: WaitStatus) -> Option<Ending> {
    status
        .exit_status()
        .map(Ending::Exited)
        .or_else(|| status.terminating_signal().map(Ending::Signalled))
}
