//! [`start`]: runs a program while this process communicates with it, such as a server on its standard streams. A
//! separate thread supervises it as [`run`](crate::run) supervises a command: the program and all its descendants are
//! killed when it is stopped or dropped, or when this process is killed.

use crate::cancel::Cancel;
use crate::error::ProcessError;
use crate::invocation::{Invocation, Output};
use crate::launch::PipeEnds;
use crate::outcome::{CommandResult, Stream};
use crate::run::{Attempt, Purpose};
use std::io::{self, PipeReader, PipeWriter};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Callback that receives the standard error of a started program, chunk by chunk.
pub type StderrCallback = Box<dyn Fn(&[u8]) + Send>;

/// A running program. Dropping it kills the program with all its descendants.
#[derive(Debug)]
pub struct RunningProcess {
    cancel: Cancel,
    ended: Receiver<()>,
    supervisor: Option<JoinHandle<Result<CommandResult, ProcessError>>>,
}

/// Our ends of the pipes of a program.
#[derive(Debug)]
pub struct Pipes {
    /// Standard input of the program. Dropping it closes the input.
    pub input: PipeWriter,
    /// Standard output of the program.
    pub output: PipeReader,
}

/// Starts a program and returns when it runs. Its input and output are pipes, regardless of the invocation. `errors`
/// receives its standard error, which is not kept.
pub fn start(
    mut invocation: Invocation,
    errors: StderrCallback,
) -> Result<(RunningProcess, Pipes), ProcessError> {
    // Its own session, as for captured commands.
    invocation.output = Output::Capture;
    invocation.limits.output_bytes = 0;
    let open = || -> io::Result<_> { Ok((io::pipe()?, io::pipe()?)) };
    let cannot = |step: &str, source| ProcessError::CannotStart {
        program: invocation.program.clone(),
        step: step.to_owned(),
        source,
    };
    let ((child_stdin, input), (output, child_stdout)) =
        open().map_err(|error| cannot("opening its streams", error))?;
    let piped = PipeEnds {
        input: child_stdin,
        output: child_stdout,
    };
    let cancel = Cancel::new();
    let (started, starts) = mpsc::sync_channel(1);
    let (ends, ended) = mpsc::sync_channel(1);
    let supervisor = ProgramThread {
        invocation: invocation.clone(),
        piped,
        errors,
        cancel: cancel.clone(),
        started,
        ends,
    };
    let thread = thread::Builder::new()
        .name("process-supervisor".to_owned())
        .spawn(move || supervisor.run_program())
        .map_err(|error| cannot("starting the supervisor thread", error))?;
    let mut running = RunningProcess {
        cancel,
        ended,
        supervisor: Some(thread),
    };
    if starts.recv().is_err() {
        // The thread ended without reporting that the program runs.
        return match running.join() {
            Some(Err(error)) => Err(error),
            _ => Err(cannot("running it", io::ErrorKind::Other.into())),
        };
    }
    Ok((running, Pipes { input, output }))
}

/// Data of the thread that runs a program.
struct ProgramThread {
    invocation: Invocation,
    piped: PipeEnds,
    errors: StderrCallback,
    cancel: Cancel,
    started: SyncSender<()>,
    ends: SyncSender<()>,
}

impl ProgramThread {
    fn run_program(self) -> Result<CommandResult, ProcessError> {
        let Self {
            invocation,
            piped,
            errors,
            cancel,
            started,
            ends,
        } = self;
        let _dropped_at_the_end = ends;
        let on_output = |_: Stream, bytes: &[u8]| errors(bytes);
        let report_started = || {
            // Fails only if `start` is no longer waiting.
            let _unless_gone = started.try_send(());
        };
        let mut attempt = Attempt::new(&invocation, &cancel)?;
        attempt.tap = Some(&on_output);
        attempt.piped = Some(piped).into();
        attempt.started = Some(&report_started);
        attempt.run(Purpose::Command)
    }
}

impl RunningProcess {
    /// Whether the program and its descendants have ended.
    pub fn has_ended(&self) -> bool {
        self.supervisor.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits up to `grace` for the program to exit, then kills it with all its descendants, and returns its
    /// result. Drop the input first: most programs exit at the end of their input.
    pub fn stop(mut self, grace: Duration) -> Result<CommandResult, ProcessError> {
        // Both outcomes continue here: the thread is done, or the time has expired.
        let _ended_or_not = self.ended.recv_timeout(grace);
        self.cancel.cancel();
        self.join()
            .unwrap_or_else(|| unreachable!("only `stop` and `drop` take the thread's handle"))
    }

    fn join(&mut self) -> Option<Result<CommandResult, ProcessError>> {
        let supervisor = self.supervisor.take()?;
        Some(
            supervisor
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        )
    }
}

impl Drop for RunningProcess {
    fn drop(&mut self) {
        self.cancel.cancel();
        if let Some(supervisor) = self.supervisor.take() {
            // The result is not needed.
            let _outcome = supervisor.join();
        }
    }
}
