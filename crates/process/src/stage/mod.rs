//! The stages between this process and a command: copies of this program that set up the confinement, wait for the
//! command, and kill its remaining descendants.
//!
//! [`crate::fork_server`] starts the fork server ([`fork_server`]), which forks a first stage for each command. The
//! first stage receives its plan through a socket, creates the namespaces and forks their first process. That process
//! supervises the command; when it ends, the kernel kills all other processes of the namespace. Without a process
//! namespace, the first stage supervises the command itself. The supervisor forks the command process, which drops its
//! own rights ([`command`]) and then executes the program.

mod command;
mod filter;
mod fork_server;
mod isolate;
mod memory;
mod mounts;
mod read_only;
mod restrict;
mod supervise;
mod terminal;
mod tree;

use crate::invocation::{Isolation, Output};
use crate::launch::{self, STAGE};
use crate::outcome::{Layer, Namespace};
use crate::system::{self, Fork};
use crate::wire::{self, Plan, Report};
use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Pid, Signal, WaitOptions, getppid, set_dumpable_behavior,
    set_parent_process_death_signal, setpgid,
};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use supervise::Supervisor;
use terminal::{Suspension, Terminal};
use tree::ProcessTree;

/// Exit code of a failed stage; internal to this crate.
const FAILED: u8 = 125;

/// Runs a stage, if this process was started as one. Call this at the start of `main`, before any thread is started,
/// with all arguments including the program's own name. Returns the exit code with which a stage has to exit. In other
/// processes it returns `None`, and from then on [`run`](crate::run) can start stages.
pub fn stage_main(arguments: &[OsString]) -> Option<u8> {
    if arguments.get(1).is_none_or(|first| first != STAGE) {
        launch::stages_from("/proc/self/exe");
        return None;
    }
    Some(fork_server::serve().unwrap_or(FAILED))
}

/// A failed step of a stage.
#[derive(Debug)]
struct StepFailure {
    step: String,
    errno: i32,
}

impl StepFailure {
    fn new(step: impl Into<String>, error: impl Into<io::Error>) -> Self {
        let errno = error
            .into()
            .raw_os_error()
            .unwrap_or(Errno::IO.raw_os_error());
        Self {
            step: step.into(),
            errno,
        }
    }
}

/// Adds the name of the failed step to an error.
trait AtStep<T> {
    fn at(self, step: &str) -> Result<T, StepFailure>;
}

impl<T, E: Into<io::Error>> AtStep<T> for Result<T, E> {
    fn at(self, step: &str) -> Result<T, StepFailure> {
        self.map_err(|error| StepFailure::new(step, error))
    }
}

/// Input of a stage.
struct StageTask {
    /// Never freed: a stage is short-lived.
    plan: ManuallyDrop<Plan>,
    control: OwnedFd,
    streams: [OwnedFd; 3],
    /// The namespaces to join: the network, and the user namespace that owns it if the stage is outside it.
    joined: Vec<OwnedFd>,
    /// File through which the command enters its control group.
    entrance: Option<OwnedFd>,
    /// The fork server that forked this stage; lives as long as the requesting process.
    fork_server: Pid,
}

fn first_stage(control: OwnedFd, fork_server: Pid) -> io::Result<u8> {
    let Some(task) = receive(control, fork_server)? else {
        return Ok(FAILED);
    };
    if !task.is_awaited() {
        return Ok(FAILED);
    }
    if task.plan.output == Output::Capture {
        setpgid(None, None)?;
    }
    let isolation = task
        .plan
        .confinement
        .as_ref()
        .map_or(Isolation::None, |confined| confined.isolation);
    let terminal = match task.plan.output {
        Output::Terminal => Terminal::foreground(&task.streams[0], task.plan.asked_by),
        Output::Capture | Output::Inherit => None,
    };
    let namespaces = match isolate::enter(&task.plan, &task.joined) {
        Ok(namespaces) => namespaces,
        Err(failure) => return not_isolated(&task, failure),
    };
    if task.plan.shares_network {
        isolate::share_network(&task.control, &namespaces)?;
    }
    let loopback = isolate::raise_loopback(&task.plan, &namespaces);
    if isolation == Isolation::Whole {
        in_process_namespace(task, namespaces, loopback, terminal)
    } else {
        let supervisor = Supervisor {
            tree: ProcessTree::Descendants,
            namespaces,
            loopback,
            takes_terminal: terminal.is_some(),
        };
        let mut suspension = terminal.map_or(Suspension::Never, Suspension::Here);
        let code = isolated(task, &supervisor, &mut suspension)?;
        suspension.end();
        Ok(code)
    }
}

/// Receives the plan and the streams from our socket.
fn receive(control: OwnedFd, fork_server: Pid) -> io::Result<Option<StageTask>> {
    let Some((plan, files)) = wire::receive_with::<Plan>(&control)? else {
        return Ok(None);
    };
    let mut files = files.into_iter();
    let streams: Vec<OwnedFd> = files.by_ref().take(3).collect();
    let Ok(streams) = streams.try_into() else {
        return Ok(None);
    };
    let joined = files.by_ref().take(plan.joined_namespaces).collect();
    Ok(Some(StageTask {
        plan: ManuallyDrop::new(plan),
        control,
        streams,
        joined,
        entrance: files.next(),
        fork_server,
    }))
}

impl StageTask {
    /// Whether the requesting process is still alive. When it ends, the fork server ends too, and our parent changes.
    fn is_awaited(&self) -> bool {
        getppid() == Some(self.fork_server)
    }
}

fn not_isolated(task: &StageTask, failure: StepFailure) -> io::Result<u8> {
    let StepFailure { step, errno } = failure;
    wire::send(&task.control, &Report::NotIsolated { step, errno })?;
    Ok(FAILED)
}

/// Forks the first process of the new namespace and waits for it. If this stage is killed, that process dies too, and
/// with it all processes in the namespace.
fn in_process_namespace(
    task: StageTask,
    namespaces: Vec<Namespace>,
    loopback: Layer<()>,
    terminal: Option<Terminal>,
) -> io::Result<u8> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if !task.is_awaited() {
        return Ok(FAILED);
    }
    let (ours, theirs) = wire::connection()?;
    match system::fork()? {
        Fork::Child => {
            drop(ours);
            set_parent_process_death_signal(Some(Signal::KILL))?;
            let takes_terminal = terminal.is_some();
            let mut suspension = match terminal {
                Some(_) => Suspension::Through(theirs),
                None => Suspension::Never,
            };
            let supervisor = Supervisor {
                tree: ProcessTree::Namespace,
                namespaces,
                loopback,
                takes_terminal,
            };
            isolated(task, &supervisor, &mut suspension)
        }
        Fork::Parent(first) => {
            drop(theirs);
            drop(task);
            if let Some(terminal) = terminal {
                terminal.serve(&ours);
            }
            wait_for(first);
            Ok(0)
        }
    }
}

/// Waits until a child has exited. Ignores its exit code, because it has sent its own report.
fn wait_for(child: Pid) {
    while let Err(Errno::INTR) = rustix::process::waitpid(Some(child), WaitOptions::empty()) {}
}

/// Sets up the mounts and supervises the command.
fn isolated(
    mut task: StageTask,
    supervisor: &Supervisor,
    suspension: &mut Suspension,
) -> io::Result<u8> {
    let mut writable: Vec<PathBuf> = Vec::new();
    if let Some(confinement) = &task.plan.confinement {
        writable = confinement.writable.iter().map(Into::into).collect();
        if supervisor.namespaces.contains(&Namespace::Mount) {
            let folder = Path::new(&task.plan.folder);
            match mounts::prepare(confinement, &task.plan.limits, folder, supervisor.tree) {
                Ok(private) => writable.extend(private),
                Err(failure) => return not_isolated(&task, failure),
            }
            if task.plan.reads_nothing {
                task.streams[0] = File::open("/dev/null")?.into();
            }
        }
        // The command must not inspect this process, which has more rights.
        set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    }
    supervisor.run(task, &writable, suspension)
}
