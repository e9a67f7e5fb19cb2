//! The supervisor: starts the command, forwards signals to it, waits for it, and kills its remaining descendants.

use super::memory::MemoryMeter;
use super::terminal::Suspension;
use super::tree::ProcessTree;
use super::{FAILED, StageTask, command};
use crate::invocation::Output;
use crate::outcome;
use crate::outcome::{
    Ending, EnforcedLimit, Enforcement, Layer, LimitMeans, LimitedResource, Namespace,
};
use crate::system::{self, Fork};
use crate::wire::{self, Order, Plan, Report};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, kill_process_group,
    set_child_subreaper, wait,
};
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Interval between checks of the limits that the supervisor enforces.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Size of one record (`signalfd_siginfo`) read from the signal file, in bytes.
const SIGNAL_BYTES: usize = 128;

/// Supervisor of one command: the process tree to kill at its end, and the isolation in force.
#[derive(Debug)]
pub(super) struct Supervisor {
    pub(super) tree: ProcessTree,
    pub(super) namespaces: Vec<Namespace>,
    /// The loopback interface of the command's own network namespace.
    pub(super) loopback: Layer<()>,
    pub(super) takes_terminal: bool,
}

impl Supervisor {
    /// Starts the command and waits until it and its descendants have ended.
    pub(super) fn run(
        &self,
        task: StageTask,
        writable: &[PathBuf],
        suspension: &mut Suspension,
    ) -> io::Result<u8> {
        if self.tree == ProcessTree::Descendants {
            set_child_subreaper(Some(getpid()))?;
        }
        let (ours, theirs) = wire::connection()?;
        let meter = MemoryMeter::start(&self.namespaces);
        let StageTask {
            plan,
            control,
            streams,
            entrance,
            fork_server: _,
            joined: _,
        } = task;
        match system::fork()? {
            Fork::Child => {
                drop((ours, control));
                let files = command::Files { streams, entrance };
                Ok(command::become_it(&plan, files, &theirs, writable, self))
            }
            Fork::Parent(command) => {
                drop((theirs, streams, entrance));
                match await_exec(&ours) {
                    Ok(enforced) => {
                        let limits = supervised(&enforced);
                        // If the receiver has ended, the socket for orders is closed, and the command is killed
                        // immediately.
                        let _unless_gone = wire::send(&control, &Report::Started(enforced));
                        let mut watched = RunningCommand {
                            command,
                            has_group: plan.output != Output::Inherit,
                            tree: self.tree,
                            limits,
                            meter,
                            exceeded: None,
                            last_check: Instant::now(),
                            is_ending: false,
                        };
                        let outcome = watched.wait_and_report(&control, suspension);
                        if outcome.is_err() {
                            self.tree.kill();
                        }
                        outcome
                    }
                    Err(report) => {
                        super::wait_for(command);
                        wire::send(&control, &report)?;
                        Ok(FAILED)
                    }
                }
            }
        }
    }

    /// The restrictions that are in force before the command process restricts itself.
    pub(super) fn enforced(&self, plan: &Plan) -> Enforcement {
        let mut enforced = Enforcement::unconfined(match self.tree {
            ProcessTree::Namespace => outcome::Tree::Namespace,
            ProcessTree::Descendants => outcome::Tree::Supervisor,
        });
        if let Some(confinement) = &plan.confinement {
            enforced.namespaces = if self.namespaces.is_empty() {
                Layer::Missing(confinement.isolation_reason.clone())
            } else {
                Layer::InForce(self.namespaces.clone())
            };
            enforced.loopback = self.loopback.clone();
        }
        enforced
    }
}

/// Limits that the supervisor enforces by checking the processes.
fn supervised(enforced: &Enforcement) -> Vec<EnforcedLimit> {
    match &enforced.limits {
        Layer::InForce(limits) => {
            let is_supervised = |limit: &&EnforcedLimit| limit.by == LimitMeans::Supervisor;
            limits.iter().filter(is_supervised).copied().collect()
        }
        Layer::NotRequested | Layer::Missing(_) => Vec::new(),
    }
}

/// Reads the command's reports until it executes the program: the layers in force, then end-of-file. Returns the report
/// of the failure if it cannot execute the program.
fn await_exec(command: &OwnedFd) -> Result<Enforcement, Box<Report>> {
    let broken = || {
        let step = "preparing it".to_owned();
        Box::new(Report::NotStarted {
            step,
            errno: Errno::IO.raw_os_error(),
        })
    };
    let mut enforced = None;
    loop {
        match wire::receive::<Report>(command) {
            Ok(Some(Report::Started(layers))) => enforced = Some(layers),
            Ok(Some(report)) => return Err(Box::new(report)),
            Ok(None) => return enforced.ok_or_else(broken),
            Err(_) => return Err(broken()),
        }
    }
}

#[derive(Debug)]
struct RunningCommand {
    command: Pid,
    has_group: bool,
    tree: ProcessTree,
    /// Limits that the supervisor enforces.
    limits: Vec<EnforcedLimit>,
    meter: MemoryMeter,
    /// The exceeded limit for which the command was killed, if any.
    exceeded: Option<EnforcedLimit>,
    /// Time of the last check of the limits.
    last_check: Instant,
    /// Whether the processes of the command are being killed.
    is_ending: bool,
}

impl RunningCommand {
    /// Waits for the end of the command and reports it.
    fn wait_and_report(&mut self, control: &OwnedFd, suspension: &Suspension) -> io::Result<u8> {
        let (ending, leftovers) = self.reap(control, suspension)?;
        let ended = Report::Ended {
            ending,
            leftovers,
            exceeded: self.exceeded,
        };
        wire::send(control, &ended)?;
        Ok(0)
    }

    /// Executes orders until the command has ended, then kills its remaining descendants. Returns the ending and the
    /// number of processes killed.
    fn reap(&mut self, orders: &OwnedFd, suspension: &Suspension) -> io::Result<(Ending, usize)> {
        let options = match suspension {
            Suspension::Never => WaitOptions::NOHANG,
            Suspension::Here(_) | Suspension::Through(_) => {
                WaitOptions::NOHANG | WaitOptions::UNTRACED
            }
        };
        let ends = system::ends_of_children()?;
        let mut orders = Some(orders);
        let mut leftovers = 0;
        let ending = loop {
            match wait(options) {
                Ok(Some((child, status))) if child == self.command => {
                    if let Some(ending) = ending_of(status) {
                        break ending;
                    }
                    if !self.is_ending {
                        suspension.suspend();
                        self.signal(Signal::CONT);
                    }
                }
                Ok(Some((_, status))) => leftovers += usize::from(self.was_killed(status)),
                Ok(None) => self.wait_for_event(&ends, &mut orders)?,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        };
        self.is_ending = true;
        let mut wait_options = WaitOptions::NOHANG;
        loop {
            match wait(wait_options) {
                Ok(Some((_, status))) => {
                    leftovers += usize::from(self.was_killed(status));
                    wait_options = WaitOptions::NOHANG;
                }
                Ok(None) => {
                    self.tree.kill();
                    wait_options = WaitOptions::empty();
                }
                Err(Errno::INTR) => {}
                Err(_) => return Ok((ending, leftovers)),
            }
        }
    }

    /// Waits until a child may have ended, an order arrives or a check is due. Forwards signals; kills the command when
    /// the order socket is closed or a limit is exceeded.
    fn wait_for_event(&mut self, ends: &OwnedFd, orders: &mut Option<&OwnedFd>) -> io::Result<()> {
        let mut watched = vec![PollFd::new(ends, PollFlags::IN)];
        watched.extend(orders.map(|orders| PollFd::new(orders, PollFlags::IN)));
        let time_until_check = self.time_until_check();
        let timeout = time_until_check.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut watched, timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let is_ready = |place: usize| {
            watched
                .get(place)
                .is_some_and(|watched_fd| !watched_fd.revents().is_empty())
        };
        let (has_ended, has_order) = (is_ready(0), is_ready(1));
        if has_ended {
            // One signal may stand for several children; `reap` waits for all of them.
            let _unless_taken = rustix::io::read(ends, &mut [0; SIGNAL_BYTES]);
        }
        if has_order && let Some(order_socket) = *orders {
            match wire::receive::<Order>(order_socket) {
                Ok(Some(Order::Signal(number))) => {
                    if let Some(signal) = Signal::from_named_raw(number).filter(|_| !self.is_ending)
                    {
                        self.signal(signal);
                    }
                }
                Ok(None) | Err(_) => {
                    *orders = None;
                    self.kill_all();
                }
            }
        }
        Ok(())
    }

    /// Returns the time until the next check of the limits, `None` if no check is needed. Performs the check if it is
    /// due.
    fn time_until_check(&mut self) -> Option<Duration> {
        if self.limits.is_empty() || self.is_ending {
            return None;
        }
        let left = CHECK_INTERVAL.saturating_sub(self.last_check.elapsed());
        if !left.is_zero() {
            return Some(left);
        }
        let tree = self.tree;
        let is_exceeded = |limit: &&EnforcedLimit| match limit.resource {
            LimitedResource::Processes => tree.size() as u64 > limit.most,
            LimitedResource::TotalMemory => self.meter.exceeds(&tree.numbers(), limit.most),
            LimitedResource::ProcessMemory | LimitedResource::FileSize => false,
        };
        self.exceeded = self.limits.iter().find(is_exceeded).copied();
        if self.exceeded.is_some() {
            self.kill_all();
            return None;
        }
        self.last_check = Instant::now();
        Some(CHECK_INTERVAL)
    }

    fn signal(&self, signal: Signal) {
        let _unless_gone = if self.has_group {
            kill_process_group(self.command, signal)
        } else {
            kill_process(self.command, signal)
        };
    }

    fn kill_all(&mut self) {
        self.is_ending = true;
        self.tree.kill();
    }

    /// Whether the supervisor killed this process.
    fn was_killed(&self, status: WaitStatus) -> bool {
        self.is_ending && status.terminating_signal() == Some(Signal::KILL.as_raw())
    }
}

fn ending_of(status: WaitStatus) -> Option<Ending> {
    status
        .exit_status()
        .map(Ending::Exited)
        .or_else(|| status.terminating_signal().map(Ending::Signalled))
}
