//! [`run`]: checks the invocation, starts its first stage, waits for its reports, and returns the result.

use crate::cancel::Cancel;
use crate::control_group::ControlGroup;
use crate::error::ProcessError;
use crate::fork_server::Stage;
use crate::invocation::Invocation;
use crate::launch::{self, PipeEnds, Streams};
use crate::outcome::{
    CapturedStream, CommandResult, Ending, EnforcedLimit, Enforcement, Stream, Tree,
};
use crate::pipes::{Event, OutputCallback, Watch};
use crate::shared_network::SharedNetwork;
use crate::wire::{self, Confinement, JOINING_NETWORK, Order, Plan, Report};
use crate::{direct, policy};
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};
use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time for a stage to kill the command's processes. After it, the stage itself is killed.
const GRACE: Duration = Duration::from_secs(10);

/// Runs a command and returns when it and all its descendants have ended.
///
/// The calling thread does all the work; other threads may stop it through `cancel`.
pub fn run(invocation: &Invocation, cancel: &Cancel) -> Result<CommandResult, ProcessError> {
    Attempt::new(invocation, cancel)?.run(Purpose::Command)
}

/// Runs a command like [`run`], and calls `on_output` with each chunk of captured output as it arrives, on the calling
/// thread. The limit on captured output still applies to the result; set
/// [`Limits::output_bytes`](crate::Limits::output_bytes) to 0 to receive output of any length without keeping it.
pub fn run_tapped(
    invocation: &Invocation,
    cancel: &Cancel,
    on_output: &dyn Fn(Stream, &[u8]),
) -> Result<CommandResult, ProcessError> {
    let mut attempt = Attempt::new(invocation, cancel)?;
    attempt.tap = Some(on_output);
    attempt.run(Purpose::Command)
}

/// Purpose of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Run the command.
    Command,
    /// Probe which layers can be enforced, without running a command.
    Rehearsal,
}

/// One invocation in progress.
pub(crate) struct Attempt<'a> {
    pub(crate) invocation: &'a Invocation,
    cancel: &'a Cancel,
    pub(crate) tap: Option<OutputCallback<'a>>,
    /// Pipes for the command's input and output. Taken when the command has started.
    pub(crate) piped: RefCell<Option<PipeEnds>>,
    /// Called when the command has started.
    pub(crate) started: Option<&'a dyn Fn()>,
    folder: PathBuf,
    started_at: Instant,
}

enum AttemptResult {
    CommandResult(Box<CommandResult>),
    NotIsolated { step: String, errno: Errno },
}

impl<'a> Attempt<'a> {
    pub(crate) fn new(
        invocation: &'a Invocation,
        cancel: &'a Cancel,
    ) -> Result<Self, ProcessError> {
        let folder = policy::resolve_folder(&invocation.folder)?;
        Ok(Self {
            invocation,
            cancel,
            tap: None,
            piped: RefCell::default(),
            started: None,
            folder,
            started_at: Instant::now(),
        })
    }

    pub(crate) fn run(&self, purpose: Purpose) -> Result<CommandResult, ProcessError> {
        if self.cancel.is_cancelled() {
            return Ok(self.cancelled_before_start());
        }
        let Some(program) = launch::stage_program() else {
            return match self.invocation.confinement {
                None => direct::run(self),
                Some(_) => Err(self.cannot("this program has no stages", Errno::NOSYS)),
            };
        };
        let policy = self.invocation.confinement.as_ref();
        let mut confinement = policy
            .map(|policy| policy::resolve(self.invocation, policy))
            .transpose()?;
        loop {
            let group = ControlGroup::make(&self.invocation.limits);
            let joined = self.joined_namespaces()?;
            let plan = self.plan(confinement.clone(), &joined, group.as_ref(), purpose);
            match (
                self.run_in_stages(program, &plan, &joined, group.as_ref())?,
                &mut confinement,
            ) {
                (AttemptResult::CommandResult(finished), _) => return Ok(*finished),
                (AttemptResult::NotIsolated { step, errno }, Some(confinement))
                    if step != JOINING_NETWORK =>
                {
                    confinement.weaken(&step, errno);
                }
                (AttemptResult::NotIsolated { step, errno }, _) => {
                    return Err(self.cannot(&step, errno));
                }
            }
        }
    }

    /// The files of the namespaces to join; empty for a command with a network of its own.
    fn joined_namespaces(&self) -> Result<Vec<OwnedFd>, ProcessError> {
        self.shared_network().map_or(Ok(Vec::new()), |network| {
            network
                .files()
                .map_err(|error| self.cannot(JOINING_NETWORK, error))
        })
    }

    /// The network that the command shares with others.
    fn shared_network(&self) -> Option<&SharedNetwork> {
        let policy = self.invocation.confinement.as_ref()?;
        policy.shared_network.as_ref().filter(|_| !policy.network)
    }

    fn plan(
        &self,
        confinement: Option<Confinement>,
        joined: &[OwnedFd],
        group: Option<&ControlGroup>,
        purpose: Purpose,
    ) -> Plan {
        let invocation = self.invocation;
        Plan {
            program: invocation.program.clone(),
            arguments: invocation.arguments.clone(),
            folder: self.folder.clone().into_os_string(),
            environment: invocation.environment.clone(),
            output: invocation.output,
            limits: invocation.limits,
            grouped: group.map_or_else(Vec::new, |group| group.limits.clone()),
            confinement,
            reads_nothing: launch::reads_nothing(invocation) && self.piped.borrow().is_none(),
            joined_namespaces: joined.len(),
            shares_network: joined.is_empty() && self.shared_network().is_some(),
            asked_by: rustix::process::getpid().as_raw_nonzero().get(),
            rehearsal: purpose == Purpose::Rehearsal,
        }
    }

    /// The result of a command that was cancelled before it started.
    fn cancelled_before_start(&self) -> CommandResult {
        CommandResult {
            ending: Ending::Cancelled,
            stdout: CapturedStream::default(),
            stderr: CapturedStream::default(),
            elapsed: self.started_at.elapsed(),
            killed_leftovers: 0,
            exceeded: None,
            enforced: Enforcement::unconfined(Tree::Supervisor),
        }
    }

    /// Runs the plan in stages.
    fn run_in_stages(
        &self,
        program: &Path,
        plan: &Plan,
        joined: &[OwnedFd],
        group: Option<&ControlGroup>,
    ) -> Result<AttemptResult, ProcessError> {
        let starting = |error| self.cannot("starting its supervisor", error);
        let (streams, watch) = self.streams()?;
        // If the group cannot be entered, only the limits that need no group apply.
        let entrance = group.and_then(|group| group.entrance().ok());
        let stage =
            launch::stage(program, plan, &streams, joined, entrance.as_ref()).map_err(starting)?;
        drop(entrance);
        // From here on, only the command has its ends of the pipes.
        drop(streams);
        let mut follower = StageFollower {
            attempt: self,
            stage,
            watch,
            ending: None,
            enforced: None,
            group,
        };
        let outcome = follower.follow();
        follower.finish(outcome)
    }

    /// Opens the command's streams and the watch for them.
    pub(crate) fn streams(&self) -> Result<(Streams, Watch<'a>), ProcessError> {
        let limits = &self.invocation.limits;
        let time = limits
            .time
            .map(|time| time.saturating_sub(self.started_at.elapsed()));
        let streams = match &*self.piped.borrow() {
            Some(piped) => Streams::piped(piped),
            None => Streams::open(self.invocation),
        };
        let opened = streams.and_then(|mut streams| {
            let (stdout, stderr) = streams.captures(limits.output_bytes, self.tap)?;
            let feed = streams.feed.take();
            Ok((
                streams,
                Watch::new(stdout, stderr, feed, self.cancel.listen()?, time),
            ))
        });
        opened.map_err(|error| self.cannot("opening its streams", error))
    }

    /// Reports that the command has started.
    pub(crate) fn report_started(&self) {
        // This process closes its copies, so that the holder of the other ends notices when the command closes its own.
        drop(self.piped.take());
        if let Some(started) = self.started {
            started();
        }
    }

    pub(crate) fn cannot(&self, step: &str, source: impl Into<io::Error>) -> ProcessError {
        ProcessError::CannotStart {
            program: self.invocation.program.clone(),
            step: step.to_owned(),
            source: source.into(),
        }
    }

    pub(crate) fn not_found(&self) -> ProcessError {
        ProcessError::ProgramNotFound {
            program: self.invocation.program.clone(),
        }
    }

    pub(crate) fn finished(
        &self,
        watch: Watch<'_>,
        ending: Ending,
        killed_leftovers: usize,
        exceeded: Option<EnforcedLimit>,
        enforced: Enforcement,
    ) -> CommandResult {
        if let Some(feed) = watch.feed {
            feed.rewind_unread_input();
        }
        CommandResult {
            ending,
            stdout: watch.stdout.finish(),
            stderr: watch.stderr.finish(),
            elapsed: self.started_at.elapsed(),
            killed_leftovers,
            exceeded,
            enforced,
        }
    }
}

/// A running first stage.
struct StageFollower<'a> {
    attempt: &'a Attempt<'a>,
    stage: Stage,
    watch: Watch<'a>,
    /// Reason why this process, not the stage, ended the command; `None` if it did not.
    ending: Option<Ending>,
    enforced: Option<Enforcement>,
    group: Option<&'a ControlGroup>,
}

/// Last message of a stage.
enum FinalMessage {
    Ended {
        ending: Ending,
        leftovers: usize,
        exceeded: Option<EnforcedLimit>,
    },
    NotIsolated {
        step: String,
        errno: Errno,
    },
    Failed(ProcessError),
    /// The stage ended without a final message.
    Lost,
}

impl StageFollower<'_> {
    fn follow(&mut self) -> FinalMessage {
        loop {
            let event = match self.watch.next(self.stage.control.as_fd()) {
                Ok(event) => event,
                Err(error) => {
                    return FinalMessage::Failed(self.attempt.cannot("watching it", error));
                }
            };
            match event {
                Event::Ready => match wire::receive_with::<Report>(&self.stage.control) {
                    Ok(Some((Report::SharedNetwork, files))) => {
                        if let Some(network) = self.attempt.shared_network() {
                            network.publish(files);
                        }
                    }
                    Ok(Some((Report::Started(enforced), _))) => {
                        self.enforced = Some(enforced);
                        self.attempt.report_started();
                    }
                    Ok(Some((report, _))) => return self.last(report),
                    Ok(None) | Err(_) => return FinalMessage::Lost,
                },
                Event::TimedOut if self.ending.is_some() => return FinalMessage::Lost,
                Event::TimedOut => self.stop(Ending::TimedOut),
                Event::Cancelled => self.stop(Ending::Cancelled),
                Event::Signals(signals) => {
                    for signal in signals {
                        // The next read detects a stage that has ended.
                        let _unless_gone = wire::send(&self.stage.control, &Order::Signal(signal));
                    }
                }
            }
        }
    }

    /// Makes the stage kill all processes of the command, by closing the order stream.
    fn stop(&mut self, ending: Ending) {
        self.ending = Some(ending);
        self.watch.stop_within(GRACE);
        let _unless_gone = shutdown(&self.stage.control, Shutdown::Write);
    }

    fn last(&self, report: Report) -> FinalMessage {
        let program = || self.attempt.invocation.program.clone();
        match report {
            Report::Ended {
                ending,
                leftovers,
                exceeded,
            } => FinalMessage::Ended {
                ending,
                leftovers,
                exceeded,
            },
            Report::NotIsolated { step, errno } => FinalMessage::NotIsolated {
                step,
                errno: Errno::from_raw_os_error(errno),
            },
            Report::Refused(enforced) => {
                FinalMessage::Failed(ProcessError::ConfinementUnavailable {
                    program: program(),
                    missing: enforced.missing(),
                })
            }
            Report::NotFound => FinalMessage::Failed(self.attempt.not_found()),
            Report::NotStarted { step, errno } => {
                FinalMessage::Failed(self.attempt.cannot(&step, Errno::from_raw_os_error(errno)))
            }
            Report::Started(_) | Report::SharedNetwork => FinalMessage::Lost,
        }
    }

    /// Waits until the stage has exited; kills it if its reports broke off.
    fn finish(self, last: FinalMessage) -> Result<AttemptResult, ProcessError> {
        if matches!(last, FinalMessage::Lost | FinalMessage::Failed(_)) {
            let _unless_gone = shutdown(&self.stage.control, Shutdown::Write);
        }
        if matches!(last, FinalMessage::Lost) {
            self.stage.kill();
        }
        // If waiting fails, the last report is the only information.
        let _ended = self.stage.wait();
        match last {
            FinalMessage::Ended {
                ending,
                leftovers,
                exceeded,
            } => {
                let enforced = self
                    .enforced
                    .unwrap_or_else(|| Enforcement::unconfined(Tree::Supervisor));
                let ending = self.ending.unwrap_or(ending);
                let exceeded = exceeded.or_else(|| self.group?.exceeded());
                let finished = self
                    .attempt
                    .finished(self.watch, ending, leftovers, exceeded, enforced);
                Ok(AttemptResult::CommandResult(Box::new(finished)))
            }
            FinalMessage::NotIsolated { step, errno } => {
                Ok(AttemptResult::NotIsolated { step, errno })
            }
            FinalMessage::Failed(error) => Err(error),
            FinalMessage::Lost => Err(ProcessError::SupervisorLost {
                program: self.attempt.invocation.program.clone(),
            }),
        }
    }
}
