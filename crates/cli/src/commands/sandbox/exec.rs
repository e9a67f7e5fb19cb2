//! `sandbox exec`: runs a command in a sandbox, interactively or for programs.

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cleveragents_application::{CaptureReport, ExecReport, ExecRequest, SandboxService};
use cleveragents_process::{Cancel, Ending, Input, Limits, Output, WhenMissing};
use cleveragents_sandbox::{Change, MAX_CONTENT_BYTES};
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use super::{change_json, open};
use crate::arguments::SandboxExec;
use crate::commands::counted;
use crate::context::Context;
use crate::output::{CommandError, Format, Report};

/// Maximum size of each captured stream when the output is one document.
const MAX_CAPTURED_BYTES: u64 = 8 << 20;

/// Exit code if a signal interrupts the recording of the changes of a command.
const INTERRUPTED: u8 = 130;

pub(super) fn run(
    context: &Context,
    service: &SandboxService,
    arguments: SandboxExec,
) -> Result<Report, CommandError> {
    let is_document = matches!(context.printer.format(), Format::Json | Format::Yaml);
    let output = match (is_document, arguments.tty) {
        (true, true) => {
            return Err(CommandError::usage(
                "--tty cannot be used with a format that prints one document",
            )
            .with_hint("omit --tty, or use --format plain"));
        }
        (true, false) => Output::Capture,
        (false, true) => Output::Terminal,
        (false, false) => Output::Inherit,
    };
    if arguments.tty && !std::io::stdin().is_terminal() {
        return Err(CommandError::usage("standard input is not a terminal").with_hint("omit --tty"));
    }
    let recording = Cancel::new();
    let service = &service.interrupted_by(&recording);
    let mut sandbox = open(service, &arguments.sandbox.reference)?;
    let request = request(context, arguments, output)?;
    let cancel = Cancel::new();
    let signals = Arc::new(SignalState::default());
    let forwarding = forward_signals(&cancel, &recording, &signals)?;
    let executed = service.exec(&mut sandbox, &request, &cancel, |finished| {
        signals.command_ended(finished.ending);
    });
    forwarding.close();
    let executed = executed?;
    let name = &sandbox.view.sandbox.name;
    Ok(report(name, &executed, is_document))
}

fn request(
    context: &Context,
    arguments: SandboxExec,
    output: Output,
) -> Result<ExecRequest, CommandError> {
    let mut command = arguments.command.into_iter();
    let program = command.next().unwrap_or_default();
    let mut environment = Vec::new();
    for assignment in &arguments.env {
        environment.push(variable(context, assignment)?);
    }
    let untrusted = Limits::untrusted();
    let bytes = |mebibytes: Option<u64>| mebibytes.map(|count| count << 20);
    Ok(ExecRequest {
        program,
        arguments: command.collect(),
        part: arguments.part,
        environment,
        writable: arguments.writable,
        readable: arguments.read,
        network: arguments.network,
        when_missing: if arguments.unconfined {
            WhenMissing::Warn
        } else {
            WhenMissing::Refuse
        },
        input: Input::Inherit,
        output,
        limits: Limits {
            time: arguments.timeout.map(Duration::from_secs),
            output_bytes: MAX_CAPTURED_BYTES,
            processes: arguments.max_processes.or(untrusted.processes),
            total_memory_bytes: bytes(arguments.max_memory).or(untrusted.total_memory_bytes),
            file_bytes: bytes(arguments.max_file).or(untrusted.file_bytes),
            ..untrusted
        },
    })
}

/// Parses `NAME=VALUE`. `NAME` alone passes the current value of the variable.
fn variable(
    context: &Context,
    assignment: &OsString,
) -> Result<(OsString, OsString), CommandError> {
    use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
    let bytes = assignment.as_bytes();
    if matches!(bytes, [] | [b'=', ..]) {
        return Err(CommandError::usage("--env has no variable name")
            .with_hint("use --env NAME or --env NAME=VALUE"));
    }
    if let Some(at) = bytes.iter().position(|byte| *byte == b'=') {
        return Ok((
            OsString::from_vec(bytes[..at].to_vec()),
            OsString::from_vec(bytes[at + 1..].to_vec()),
        ));
    }
    let name = assignment.to_string_lossy();
    let value = context.environment.get(&name).ok_or_else(|| {
        CommandError::usage(format!("the variable `{name}` is not set"))
            .with_hint(format!("set it, or add a value: --env {name}=VALUE"))
    })?;
    Ok((assignment.clone(), value.to_owned()))
}

/// Maximum delay between the end of a command by a signal and the arrival of the same signal at this
/// process. A terminal sends the signal to both processes.
const LATE_SIGNAL_DELAY: Duration = Duration::from_secs(2);

/// Signals, shared by the thread that receives them and the thread that runs the command.
#[derive(Debug, Default)]
struct SignalState {
    known: Mutex<KnownSignals>,
}

#[derive(Debug, Default)]
struct KnownSignals {
    /// Signals received while the command ran.
    received: Vec<i32>,
    /// Signal that ended the command but has not arrived at this process yet, and the end time of the command.
    late: Option<(i32, Instant)>,
}

impl SignalState {
    fn known(&self) -> MutexGuard<'_, KnownSignals> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the signal that ended the command, to ignore a late copy of this signal.
    fn command_ended(&self, ending: Ending) {
        let signal = match ending {
            Ending::Signalled(signal) => signal,
            // Shells and many programs report the signal as exit code 128 + N.
            Ending::Exited(code) => code - 128,
            Ending::TimedOut | Ending::Cancelled => return,
        };
        let mut known = self.known();
        if !known.received.contains(&signal) {
            known.late = Some((signal, Instant::now()));
        }
    }

    /// Whether `signal` is a late copy of the signal that ended the command. Returns `true` at most once.
    fn is_late(&self, signal: i32) -> bool {
        let mut known = self.known();
        let is_late_copy =
            |(late, ended): (i32, Instant)| late == signal && ended.elapsed() < LATE_SIGNAL_DELAY;
        known.late.take_if(|late| is_late_copy(*late)).is_some()
    }
}

/// Forwards signals to the command, so that this process survives to record its changes. While no
/// command runs, a signal interrupts the scan of the sandbox, which may take long; no data is lost,
/// and the next command scans again.
fn forward_signals(
    cancel: &Cancel,
    recording: &Cancel,
    state: &Arc<SignalState>,
) -> Result<signal_hook::iterator::Handle, CommandError> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT]).map_err(|error| {
        CommandError::internal("signal handlers cannot be installed").caused_by(&error)
    })?;
    let handle = signals.handle();
    let (cancel, recording, state) = (cancel.clone(), recording.clone(), Arc::clone(state));
    // With a terminal, the signals of Ctrl-C and Ctrl-\ reach the command directly, so they are not forwarded.
    let has_keys = std::io::stdin().is_terminal();
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if cancel.reaches_command() {
                state.known().received.push(signal);
                if !(has_keys && matches!(signal, SIGINT | SIGQUIT)) {
                    cancel.signal(signal);
                }
            } else if !state.is_late(signal) {
                recording.cancel();
            }
        }
    });
    Ok(handle)
}

fn report(name: &str, executed: &ExecReport, is_document: bool) -> Report {
    let finished = &executed.finished;
    let recorded = executed.changes.as_ref();
    let exit_code = match recorded {
        Some(_) => finished.ending.exit_code(),
        None => INTERRUPTED,
    };
    let mut report = Report::new("sandbox exec").exit_with(exit_code);
    if is_document {
        report = report.data(json!({
            "sandbox": name,
            "exit_code": finished.ending.exit_code(),
            "ending": finished.ending,
            "stdout": String::from_utf8_lossy(&finished.stdout.bytes),
            "stderr": String::from_utf8_lossy(&finished.stderr.bytes),
            "stdout_dropped": finished.stdout.dropped,
            "stderr_dropped": finished.stderr.dropped,
            "elapsed_seconds": finished.elapsed.as_secs_f64(),
            "killed_leftovers": finished.killed_leftovers,
            "exceeded": finished.exceeded,
            "confinement": finished.enforced,
            "checkpoint": executed.checkpoint,
            "changes": recorded.map(|recorded| {
                let changes = recorded.changes.iter();
                changes.map(|(alias, change)| change_json(alias, change)).collect::<Vec<_>>()
            }),
            "not_captured": recorded.map(|recorded| &recorded.special),
            "is_recorded": recorded.is_some(),
        }));
    }
    if let Some(limit) = finished.exceeded {
        report = report
            .warn(format!(
                "the command exceeded {limit} and was killed with its child processes"
            ))
            .warn("allow more with --max-processes or --max-memory");
    }
    match finished.ending {
        Ending::TimedOut => {
            report = report.warn("the command timed out and was killed with its child processes");
        }
        Ending::Signalled(signal) => {
            report = report.warn(format!("signal {signal} ended the command"));
        }
        Ending::Cancelled => report = report.warn("the command was cancelled"),
        Ending::Exited(_) => {}
    }
    if finished.killed_leftovers > 0 {
        report = report.warn(format!(
            "killed {} that the command left running",
            counted(finished.killed_leftovers, "process")
        ));
    }
    for missing in finished.enforced.missing() {
        report = report.warn(format!("not confined by {missing}"));
    }
    let Some(CaptureReport { changes, special }) = recorded else {
        return report
            .warn("recording the changes of the command was interrupted")
            .info(format!(
                "the next command on the sandbox records it; undo it with `agents sandbox rollback {name} --to {}`",
                executed.checkpoint
            ));
    };
    if !special.is_empty() {
        report = report.warn(format!(
            "not captured (devices, sockets or pipes): {}",
            special.join(", ")
        ));
    }
    let too_large = |(_, change): &&(String, Change)| {
        let size = change.after.map_or(0, |after| after.size);
        size > MAX_CONTENT_BYTES
    };
    for (alias, change) in changes.iter().filter(too_large) {
        report = report.warn(format!(
            "`{alias}/{}` is larger than {} GiB and is not kept: a rollback removes it, and it cannot be applied",
            change.path,
            MAX_CONTENT_BYTES >> 30
        ));
    }
    if changes.is_empty() {
        report.info("nothing changed in the sandbox")
    } else {
        report.info(format!(
            "{} changed: show with `agents sandbox diff {name}`, undo with `agents sandbox rollback {name}`",
            counted(changes.len(), "path")
        ))
    }
}
