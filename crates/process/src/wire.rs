//! Messages between this process and its stages: JSON messages, each prefixed with its length, on one socket. The first
//! message carries the plan, the three standard streams, and the file for entering the control group. Requests to the
//! fork server use the same format.
//!
//! The command never gets the socket, so it can neither read nor change the messages.

use crate::invocation::{Isolation, Layers, Limits, Output, WhenMissing};
use crate::outcome::{Ending, EnforcedLimit, Enforcement};
use crate::readable::View;
use rustix::cmsg_space;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recv, recvmsg, sendmsg, socketpair,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The data that a stage needs to run a command.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) folder: OsString,
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) output: Output,
    pub(crate) limits: Limits,
    /// Limits of the control group, if there is one. The file for entering it is sent with the streams.
    pub(crate) grouped: Vec<EnforcedLimit>,
    pub(crate) confinement: Option<Confinement>,
    /// Number of files of namespaces to join, sent after the streams: none, the network, or the network and its owner.
    pub(crate) joined_namespaces: usize,
    /// Whether the stage sends the files of its network namespace, for other commands to join.
    pub(crate) shares_network: bool,
    /// Id of the requesting process.
    pub(crate) asked_by: i32,
    /// Whether the command has no input. If it has its own `/dev`, its input is the null device in there instead of the
    /// machine's.
    pub(crate) reads_nothing: bool,
    /// Whether to set up and report all layers without running a command.
    pub(crate) rehearsal: bool,
}

/// A policy with its directories resolved.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Confinement {
    pub(crate) writable: Vec<OsString>,
    pub(crate) view: View,
    /// The directory mounted at `/tmp` and `/var/tmp`.
    pub(crate) temporary: Option<OsString>,
    pub(crate) network: bool,
    /// Whether the loopback interface of its own network is brought up.
    pub(crate) loopback: bool,
    pub(crate) when_missing: WhenMissing,
    pub(crate) layers: Layers,
    pub(crate) isolation: Isolation,
    /// Reason why `isolation` is less than [`Isolation::Whole`].
    pub(crate) isolation_reason: String,
}

/// A report of a stage.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// The requested namespaces cannot be created; the command was not run.
    NotIsolated { step: String, errno: i32 },
    /// The network namespace that other commands may join. Its file, and that of the user namespace that owns it if it is
    /// new, are sent with this message.
    SharedNetwork,
    /// The command runs.
    Started(Enforcement),
    /// The policy requires layers that are missing; the command was not run.
    Refused(Enforcement),
    /// The program does not exist.
    NotFound,
    /// The command could not be started.
    NotStarted { step: String, errno: i32 },
    /// The command and all its descendants have ended.
    Ended {
        ending: Ending,
        leftovers: usize,
        exceeded: Option<EnforcedLimit>,
    },
}

/// Isolation steps whose failure is caused by a directory, not by the machine.
pub(crate) const OPENING_FOLDER: &str = "opening a writable folder";
pub(crate) const BINDING_FOLDER: &str = "binding a writable folder";

/// The step whose failure is caused by the namespaces of another command, not by the machine.
pub(crate) const JOINING_NETWORK: &str = "joining the network of background commands";

/// Maximum number of files sent with a message: three streams, two namespaces, and the entrance of a control group.
const MOST_FILES: usize = 6;

/// An order to a stage while the command runs. End-of-file is the order to kill all processes of the command.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Forward this signal.
    Signal(i32),
}

/// The two ends of a connection, closed on `exec`.
pub(crate) fn connection() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?)
}

pub(crate) fn send<T: Serialize>(socket: impl AsFd, message: &T) -> io::Result<()> {
    let framed = frame(message)?;
    send_all(socket.as_fd(), &framed)
}

/// Sends a message together with open files, at most [`MOST_FILES`].
pub(crate) fn send_with<T: Serialize>(
    socket: impl AsFd,
    message: &T,
    files: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let framed = frame(message)?;
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MOST_FILES))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let parts = [IoSlice::new(&framed)];
    let sent =
        rustix::io::retry_on_intr(|| sendmsg(&socket, &parts, &mut control, SendFlags::NOSIGNAL))?;
    send_all(socket.as_fd(), &framed[sent..])
}

/// Receives a message; `None` at the end of the stream.
pub(crate) fn receive<T: DeserializeOwned>(socket: impl AsFd) -> io::Result<Option<T>> {
    let mut length = [0; 4];
    if !receive_all(socket.as_fd(), &mut length)? {
        return Ok(None);
    }
    body(socket.as_fd(), length).map(Some)
}

/// Receives a message and the open files sent with it.
pub(crate) fn receive_with<T: DeserializeOwned>(
    socket: impl AsFd,
) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MOST_FILES))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut length = [0; 4];
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::WAITALL;
    let received = rustix::io::retry_on_intr(|| {
        recvmsg(
            &socket,
            &mut [IoSliceMut::new(&mut length)],
            &mut control,
            flags,
        )
    })?;
    if received.bytes < length.len() {
        return Ok(None);
    }
    let files = control
        .drain()
        .flat_map(|message| match message {
            RecvAncillaryMessage::ScmRights(files) => files.collect(),
            _ => Vec::new(),
        })
        .collect();
    Ok(Some((body(socket.as_fd(), length)?, files)))
}

fn frame<T: Serialize>(message: &T) -> io::Result<Vec<u8>> {
    let body = serde_json::to_vec(message)?;
    let length = u32::try_from(body.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    Ok([length.to_le_bytes().as_slice(), &body].concat())
}

fn body<T: DeserializeOwned>(socket: BorrowedFd<'_>, length: [u8; 4]) -> io::Result<T> {
    let length = usize::try_from(u32::from_le_bytes(length)).map_err(io::Error::other)?;
    let mut bytes = vec![0; length];
    if !receive_all(socket, &mut bytes)? {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_slice(&bytes)?)
}

fn send_all(socket: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::net::send(socket, bytes, SendFlags::NOSIGNAL) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Fills the buffer; returns `false` when the stream ended before its first byte.
fn receive_all(socket: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<bool> {
    let mut filled = 0;
    while filled < bytes.len() {
        match recv(socket, &mut bytes[filled..], RecvFlags::empty()) {
            Ok((0, _)) | Err(Errno::CONNRESET) if filled == 0 => return Ok(false),
            Ok((0, _)) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok((received, _)) => filled += received,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
}
