//! [`BackgroundCommands`]: commands that run while their caller continues, with their output kept for later reads.
//!
//! Every command belongs to an owner, such as a conversation. [`BackgroundCommands::end`] kills the commands of an owner
//! with all their descendants; dropping the value kills all of them, and so does the end of this process.

use crate::cancel::Cancel;
use crate::error::ProcessError;
use crate::invocation::{Invocation, Output};
use crate::outcome::{CommandResult, Stream};
use crate::run::{Attempt, Purpose};
use crate::shared_network::SharedNetwork;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Maximum number of commands of one owner that run at the same time.
const MOST_RUNNING: usize = 4;

/// Number of bytes kept from the end of the output of a command.
const KEPT_BYTES: usize = 1 << 20;

/// Longest pause until a waiting reader checks whether it was cancelled.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// The background commands of a sandbox. See the module documentation.
#[derive(Debug, Default)]
pub struct BackgroundCommands {
    state: Mutex<Commands>,
}

#[derive(Debug, Default)]
struct Commands {
    /// Exists while there are commands, ended ones included.
    network: Option<SharedNetwork>,
    commands: Vec<BackgroundCommand>,
}

#[derive(Debug)]
struct BackgroundCommand {
    /// Counted from 1 for each owner.
    number: u32,
    owner: String,
    cancel: Cancel,
    progress: Arc<Progress>,
    /// `None` once the thread was joined.
    thread: Option<JoinHandle<()>>,
}

/// The output of a command so far, and its result.
#[derive(Debug)]
struct Progress {
    started_at: Instant,
    inner: Mutex<ProgressState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct ProgressState {
    has_started: bool,
    /// The end of the output.
    kept: VecDeque<u8>,
    /// Number of bytes before `kept`.
    dropped: u64,
    /// Position after the last read.
    read_to: u64,
    result: Option<Result<CommandResult, ProcessError>>,
    elapsed: Option<Duration>,
}

/// The result of a read.
#[derive(Debug)]
pub struct BackgroundOutput {
    /// Standard output and standard error, interleaved as they arrived.
    pub bytes: Vec<u8>,
    /// Position of the first byte, from 0.
    pub from: u64,
    /// Number of bytes before `from` that were requested and are no longer kept.
    pub lost: u64,
    /// How the command ended, or the error that ended it; `None` while it runs.
    pub result: Option<Result<CommandResult, String>>,
    /// Running time so far, or in total.
    pub elapsed: Duration,
}

impl BackgroundCommands {
    /// The network for further commands: that of the background commands, if there are any.
    pub fn network(&self) -> Option<SharedNetwork> {
        lock(&self.state).network.clone()
    }

    /// Starts a command and returns its number. `cancel` also kills it. `held` is dropped when the command has ended.
    pub fn start(
        &self,
        owner: &str,
        mut invocation: Invocation,
        cancel: Cancel,
        held: impl Send + 'static,
    ) -> Result<u32, ProcessError> {
        invocation.output = Output::Capture;
        invocation.limits.output_bytes = 0;
        let mut state = lock(&self.state);
        let running = state.commands.iter().filter(|command| {
            command.owner == owner && lock(&command.progress.inner).result.is_none()
        });
        if running.count() >= MOST_RUNNING {
            return Err(ProcessError::TooManyBackgroundCommands { most: MOST_RUNNING });
        }
        let network = state.network.clone().unwrap_or_default();
        if let Some(policy) = &mut invocation.confinement {
            policy.shared_network = Some(network.clone());
        }
        let progress = Arc::new(Progress {
            started_at: Instant::now(),
            inner: Mutex::default(),
            changed: Condvar::new(),
        });
        let program = invocation.program.clone();
        let thread = {
            let (progress, cancel) = (Arc::clone(&progress), cancel.clone());
            thread::Builder::new()
                .name("background-command".to_owned())
                .spawn(move || {
                    progress.run(&invocation, &cancel);
                    drop(held);
                })
        };
        let thread = thread.map_err(|source| ProcessError::CannotStart {
            program,
            step: "starting its thread".to_owned(),
            source,
        })?;
        if let Err(error) = progress.wait_for_start() {
            // The thread has nothing left to do.
            let _ended = thread.join();
            return Err(error);
        }
        let of_owner = state
            .commands
            .iter()
            .filter(|command| command.owner == owner);
        let number = of_owner.map(|command| command.number).max().unwrap_or(0) + 1;
        state.network = Some(network);
        state.commands.push(BackgroundCommand {
            number,
            owner: owner.to_owned(),
            cancel,
            progress,
            thread: Some(thread),
        });
        Ok(number)
    }

    /// Reads the output of a command from a position, or from the end of the last read. Waits up to `wait` for the end
    /// of the command. `None` if the owner has no such command.
    pub fn read(
        &self,
        owner: &str,
        number: u32,
        from: Option<u64>,
        wait: Duration,
        cancel: &Cancel,
    ) -> Option<BackgroundOutput> {
        let progress = self.find(owner, number)?.0;
        Some(progress.read(from, wait, cancel))
    }

    /// Kills a command with all its descendants and waits for its end. `false` if the owner has no such command.
    pub fn stop(&self, owner: &str, number: u32) -> bool {
        let Some((progress, cancel)) = self.find(owner, number) else {
            return false;
        };
        cancel.cancel();
        progress.wait_for_end();
        true
    }

    /// Numbers of the commands of an owner, ended ones included.
    pub fn numbers(&self, owner: &str) -> Vec<u32> {
        let state = lock(&self.state);
        let commands = state.commands.iter();
        let own = commands.filter(|command| command.owner == owner);
        own.map(|command| command.number).collect()
    }

    /// Kills the commands of an owner with all their descendants, waits for their end and forgets them. Returns the
    /// numbers of all of them, and those that were still running.
    pub fn end(&self, owner: &str) -> (Vec<u32>, Vec<u32>) {
        self.end_where(|command| command.owner == owner)
    }

    /// Like [`end`](Self::end), for the commands of all owners.
    pub fn end_all(&self) {
        self.end_where(|_| true);
    }

    fn end_where(&self, is_ended: impl Fn(&BackgroundCommand) -> bool) -> (Vec<u32>, Vec<u32>) {
        let ended: Vec<BackgroundCommand> = {
            let mut state = lock(&self.state);
            let ended = state.commands.extract_if(.., |command| is_ended(command));
            ended.collect()
        };
        let numbers = ended.iter().map(|command| command.number).collect();
        let running = ended.iter().filter(|command| {
            let has_result = lock(&command.progress.inner).result.is_some();
            command.cancel.cancel();
            !has_result
        });
        let running = running.map(|command| command.number).collect();
        for mut command in ended {
            if let Some(thread) = command.thread.take() {
                // Nothing reads its result any more.
                let _ended = thread.join();
            }
        }
        let mut state = lock(&self.state);
        if state.commands.is_empty() {
            state.network = None;
        }
        (numbers, running)
    }

    fn find(&self, owner: &str, number: u32) -> Option<(Arc<Progress>, Cancel)> {
        let state = lock(&self.state);
        let mut commands = state.commands.iter();
        let command =
            commands.find(|command| command.number == number && command.owner == owner)?;
        Some((Arc::clone(&command.progress), command.cancel.clone()))
    }
}

impl Drop for BackgroundCommands {
    fn drop(&mut self) {
        self.end_all();
    }
}

impl Progress {
    /// Runs the command on this thread.
    fn run(&self, invocation: &Invocation, cancel: &Cancel) {
        let on_output = |_: Stream, bytes: &[u8]| self.append(bytes);
        let report_started = || {
            lock(&self.inner).has_started = true;
            self.changed.notify_all();
        };
        let result = Attempt::new(invocation, cancel).and_then(|mut attempt| {
            attempt.tap = Some(&on_output);
            attempt.started = Some(&report_started);
            attempt.run(Purpose::Command)
        });
        let mut state = lock(&self.inner);
        state.result = Some(result);
        state.elapsed = Some(self.started_at.elapsed());
        drop(state);
        self.changed.notify_all();
    }

    fn append(&self, bytes: &[u8]) {
        let mut state = lock(&self.inner);
        let skipped = bytes.len().saturating_sub(KEPT_BYTES);
        state.kept.extend(&bytes[skipped..]);
        let excess = state.kept.len().saturating_sub(KEPT_BYTES);
        state.kept.drain(..excess);
        state.dropped += (skipped + excess) as u64;
    }

    /// Waits until the command runs, or returns the error that prevented its start.
    fn wait_for_start(&self) -> Result<(), ProcessError> {
        let state = lock(&self.inner);
        let mut state = self
            .changed
            .wait_while(state, |state| !state.has_started && state.result.is_none())
            .unwrap_or_else(PoisonError::into_inner);
        match state.result.take() {
            Some(Err(error)) => Err(error),
            result => {
                state.result = result;
                Ok(())
            }
        }
    }

    fn wait_for_end(&self) {
        let state = lock(&self.inner);
        let _ended = self
            .changed
            .wait_while(state, |state| state.result.is_none());
    }

    fn read(&self, from: Option<u64>, wait: Duration, cancel: &Cancel) -> BackgroundOutput {
        let deadline = Instant::now().checked_add(wait);
        let mut state = lock(&self.inner);
        while state.result.is_none() && !cancel.is_cancelled() {
            let left = deadline.map_or(CHECK_INTERVAL, |at| {
                at.saturating_duration_since(Instant::now())
            });
            if left.is_zero() {
                break;
            }
            let waited = self
                .changed
                .wait_timeout(state, left.min(CHECK_INTERVAL))
                .unwrap_or_else(PoisonError::into_inner);
            state = waited.0;
        }
        let end = state.dropped + state.kept.len() as u64;
        let wanted = from.unwrap_or(state.read_to).min(end);
        let first = wanted.max(state.dropped);
        let skipped = usize::try_from(first - state.dropped).unwrap_or(usize::MAX);
        let bytes: Vec<u8> = state.kept.iter().skip(skipped).copied().collect();
        state.read_to = end;
        BackgroundOutput {
            bytes,
            from: first,
            lost: first - wanted,
            result: state.result.as_ref().map(|result| match result {
                Ok(result) => Ok(result.clone()),
                Err(error) => Err(error.to_string()),
            }),
            elapsed: state.elapsed.unwrap_or_else(|| self.started_at.elapsed()),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
