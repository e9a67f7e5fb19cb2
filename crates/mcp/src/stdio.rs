//! A server that is a program: starts it, connects its pipes, and limits the size of its messages.
//!
//! The process crate supervises the program and ends it with this process. The output of the program goes through
//! [`BoundedReader`], which ends the connection when one message is too long or contains too many values. It does so
//! before the message is parsed, so that memory use is bounded for any input.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use cleveragents_process::{
    CommandResult, Invocation, Policy, ProcessError, RunningProcess, toolchain_environment,
};
use cleveragents_tools::ports::WorkspaceFolders;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::unix::pipe;

use crate::error::McpError;
use crate::private_folders::PrivateFolders;
use crate::resolve::{ResolvedServer, Secrets};
use crate::visible_paths::ServerView;

/// Maximum size of a message, in bytes.
pub(crate) const MAX_MESSAGE_SIZE: usize = 16 << 20;
/// Maximum number of values in one message. A value can be two bytes long in JSON, but takes far more memory.
const MAX_VALUES: usize = 1 << 20;
/// Maximum number of bytes to keep from the end of standard error.
const MAX_TAIL_SIZE: usize = 8 << 10;

/// The end of a server's standard error.
#[derive(Default)]
pub(crate) struct StderrTail {
    kept: Mutex<VecDeque<u8>>,
    secrets: Secrets,
}

impl StderrTail {
    fn push(&self, bytes: &[u8]) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(&bytes[bytes.len().saturating_sub(MAX_TAIL_SIZE)..]);
        let excess = kept.len().saturating_sub(MAX_TAIL_SIZE);
        kept.drain(..excess);
    }

    /// The text, without secrets of the definition.
    pub(crate) fn text(&self) -> String {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (front, back) = kept.as_slices();
        let text = String::from_utf8_lossy(&[front, back].concat()).into_owned();
        self.secrets.hide(text.trim())
    }
}

/// Reason why our side ended a connection; unset until then.
pub(crate) type Fault = Arc<OnceLock<String>>;

/// A running program and its pipes.
pub(crate) struct Program {
    pub(crate) started: RunningProgram,
    /// Paths that are visible to the program.
    pub(crate) view: ServerView,
    pub(crate) input: pipe::Sender,
    pub(crate) output: BoundedReader<pipe::Receiver>,
    pub(crate) tail: Arc<StderrTail>,
    pub(crate) fault: Fault,
}

/// A program with its private directories. Dropping it kills the program.
pub(crate) struct RunningProgram {
    /// Dropped first, because the program uses the directories.
    running: RunningProcess,
    folders: PrivateFolders,
}

impl RunningProgram {
    /// Gives the program time to exit, kills its remaining processes, and removes its temporary directory.
    pub(crate) fn stop(self, grace: Duration) -> Result<CommandResult, ProcessError> {
        let finished = self.running.stop(grace);
        drop(self.folders);
        finished
    }
}

/// Paths visible to a program in addition to the paths that its definition declares.
pub(crate) struct VisibleFolders {
    /// Directories of the sandbox of its calls.
    pub(crate) folders: WorkspaceFolders,
    /// Parent directory of the programs' private homes.
    pub(crate) homes: Option<PathBuf>,
}

/// Starts the program of a server, confined to its visible paths.
pub(crate) async fn start(
    server: &str,
    resolved: ResolvedServer,
    visible: VisibleFolders,
) -> Result<Program, McpError> {
    let failed = |why: String| McpError::Unreachable {
        server: server.to_owned(),
        why,
        log: String::new(),
    };
    let secrets = Secrets::from_server(&resolved);
    let ResolvedServer::Program {
        program,
        arguments,
        environment,
        folder,
        view,
    } = resolved
    else {
        return Err(failed("it is not a local program".to_owned()));
    };
    let VisibleFolders { folders, homes } = visible;
    let private = PrivateFolders::make(homes.as_deref(), server)
        .map_err(|error| failed(format!("its private home cannot be created: {error}")))?;
    let folder = folder.or_else(|| folders.roots.first().cloned());
    let mut invocation = Invocation::new(program, folder.unwrap_or_else(|| private.home.clone()));
    invocation.arguments = arguments.into_iter().map(Into::into).collect();
    let private_variables = [
        ("HOME".into(), private.home.clone().into()),
        ("TMPDIR".into(), private.temporary.clone().into()),
    ];
    let declared = environment.into_iter();
    let declared = declared.map(|(name, value)| (name.into(), value.into()));
    for (name, value) in toolchain_environment()
        .into_iter()
        .chain(private_variables)
        .chain(declared)
    {
        invocation.environment.retain(|(other, _)| *other != name);
        invocation.environment.push((name, value));
    }
    invocation.confinement = Some(policy(&view, &folders, &private));
    let tail = Arc::new(StderrTail {
        kept: Mutex::default(),
        secrets,
    });
    let tail_writer = Arc::clone(&tail);
    let errors = Box::new(move |bytes: &[u8]| tail_writer.push(bytes));
    // The start blocks for a few milliseconds, until the program runs.
    let started =
        tokio::task::spawn_blocking(move || cleveragents_process::start(invocation, errors));
    let (running, pipes) = started
        .await
        .map_err(|error| failed(error.to_string()))?
        .map_err(|error| McpError::Startup {
            server: server.to_owned(),
            why: with_sources(&error),
            log: String::new(),
            sees: view.to_string(),
        })?;
    let fault = Fault::default();
    let opened = |error: io::Error| failed(format!("its pipes cannot be opened: {error}"));
    let input = pipe::Sender::from_owned_fd(OwnedFd::from(pipes.input)).map_err(opened)?;
    let output = pipe::Receiver::from_owned_fd(OwnedFd::from(pipes.output)).map_err(opened)?;
    Ok(Program {
        started: RunningProgram {
            running,
            folders: private,
        },
        view,
        input,
        output: BoundedReader::new(output, Arc::clone(&fault)),
        tail,
        fault,
    })
}

/// Permissions of a program: it may use the network, write to its private directories, to declared directories and to
/// the sandbox, and also read the system and toolchains.
fn policy(view: &ServerView, folders: &WorkspaceFolders, private: &PrivateFolders) -> Policy {
    let own = [private.home.clone(), private.temporary.clone()];
    let mut writable = [&own[..], &view.write, &folders.writable].concat();
    writable.sort();
    writable.dedup();
    // Writable directories are declared too, so that credential files in them stay hidden.
    let declared = view.read.iter().chain(&view.write);
    Policy {
        writable,
        readable: declared.chain(&folders.readable).cloned().collect(),
        credentials: view.credentials.clone(),
        network: true,
        ..Policy::default()
    }
}

/// The message of an error and of all its sources.
pub(crate) fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        source = inner.source();
    }
    text
}

/// A reader that fails when one line is too long, or contains too many JSON values.
pub(crate) struct BoundedReader<R> {
    inner: R,
    message: Message,
    fault: Fault,
}

impl<R> BoundedReader<R> {
    pub(crate) fn new(inner: R, fault: Fault) -> Self {
        Self {
            inner,
            message: Message::default(),
            fault,
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for BoundedReader<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        match Pin::new(&mut self.inner).poll_read(context, buffer) {
            Poll::Ready(Ok(())) => {
                let this = &mut *self;
                match this.message.count(&buffer.filled()[before..]) {
                    Ok(()) => Poll::Ready(Ok(())),
                    Err(why) => {
                        let why = this.fault.get_or_init(|| why);
                        Poll::Ready(Err(io::Error::other(why.clone())))
                    }
                }
            }
            other => other,
        }
    }
}

/// Counters for the message that is being read.
#[derive(Debug, Default)]
pub(crate) struct Message {
    bytes: usize,
    values: usize,
    in_text: bool,
    is_escaped: bool,
}

impl Message {
    /// Counts the next bytes.
    pub(crate) fn count(&mut self, bytes: &[u8]) -> Result<(), String> {
        for &byte in bytes {
            if byte == b'\n' {
                *self = Self::default();
                continue;
            }
            self.bytes += 1;
            if self.in_text {
                if self.is_escaped {
                    self.is_escaped = false;
                } else if byte == b'\\' {
                    self.is_escaped = true;
                } else if byte == b'"' {
                    self.in_text = false;
                }
            } else {
                match byte {
                    b'"' => self.in_text = true,
                    b',' | b'[' | b'{' => self.values += 1,
                    _ => {}
                }
            }
        }
        if self.bytes > MAX_MESSAGE_SIZE {
            return Err(format!(
                "it sent a message larger than {} MiB and was stopped",
                MAX_MESSAGE_SIZE >> 20
            ));
        }
        if self.values > MAX_VALUES {
            return Err(format!(
                "it sent a message with more than {MAX_VALUES} values and was stopped"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_MESSAGE_SIZE, MAX_VALUES, Message, StderrTail};

    #[test]
    fn long_messages_are_refused_but_not_many_short_ones() {
        let mut message = Message::default();
        let piece = vec![b'x'; 1 << 20];
        for _ in 0..MAX_MESSAGE_SIZE >> 20 {
            message.count(&piece).expect("at the size limit");
        }
        assert!(message.count(b"x").is_err());
        let mut message = Message::default();
        for _ in 0..64 {
            message.count(&piece).expect("short");
            message.count(b"\n").expect("short");
        }
    }

    #[test]
    fn values_are_counted_outside_of_strings_only() {
        let mut message = Message::default();
        let commas = vec![b','; MAX_VALUES];
        message.count(br#"{"a":"\""#).expect("start of a string");
        message.count(&commas).expect("inside the string");
        message.count(br#"","b":["#).expect("end of the string");
        assert!(message.count(&commas).is_err());
    }

    #[test]
    fn only_the_end_of_a_log_is_kept() {
        let tail = StderrTail::default();
        for number in 0..10_000 {
            tail.push(format!("line {number}\n").as_bytes());
        }
        let text = tail.text();
        assert!(text.len() <= super::MAX_TAIL_SIZE && text.ends_with("line 9999"));
    }
}
