//! Load generator: one thread sends the same request repeatedly over many connections. One thread, because the load
//! generator shares the machine with the measured server.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream as Blocking};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use serde_json::Value;

/// Timeout of a response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// The request that the load generator sends.
pub(super) struct Target {
    pub(super) address: SocketAddr,
    pub(super) path: String,
    pub(super) body: String,
    /// A text that every successful response contains.
    pub(super) expected: &'static str,
}

impl Target {
    fn request(&self) -> Vec<u8> {
        format!(
            "POST {} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\na2a-version: 1.0\r\n\
             content-length: {}\r\n\r\n{}",
            self.path,
            self.address,
            self.body.len(),
            self.body
        )
        .into_bytes()
    }
}

/// Result of a load.
#[derive(Debug, Default)]
pub(super) struct Load {
    pub(super) answered: u64,
    seconds: f64,
    /// Time until each response in milliseconds, sorted.
    times: Vec<f64>,
}

impl Load {
    /// Responses per second.
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    pub(super) fn rate(&self) -> f64 {
        if self.seconds > 0.0 {
            self.answered as f64 / self.seconds
        } else {
            0.0
        }
    }

    /// The percentile `part` (0 to 1) of the response times, in milliseconds.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an index"
    )]
    pub(super) fn percentile(&self, part: f64) -> f64 {
        let index = (self.times.len() as f64 * part) as usize;
        self.times.get(index).copied().unwrap_or_default()
    }
}

/// One client connection, which waits for the response to its request.
struct Caller {
    stream: TcpStream,
    sent: Instant,
    /// The part of the response received so far.
    answer: Vec<u8>,
}

impl Caller {
    fn send(&mut self, request: &[u8]) -> anyhow::Result<()> {
        self.sent = Instant::now();
        self.answer.clear();
        // The socket accepts a whole request, because it is small and the previous one was answered.
        let written = self.stream.write(request)?;
        ensure!(written == request.len(), "a request was sent in part");
        Ok(())
    }

    /// Reads the available bytes. Returns whether the response is complete.
    fn receive(&mut self, expected: &str) -> anyhow::Result<bool> {
        let mut part = [0; 4096];
        loop {
            match self.stream.read(&mut part) {
                Ok(0) => bail!("the server closed"),
                Ok(count) => self.answer.extend_from_slice(&part[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error.into()),
            }
            if let Some(end) = response_end(&self.answer)? {
                let text = std::str::from_utf8(&self.answer[..end])?;
                ensure!(text.contains(expected), "{text}");
                return Ok(true);
            }
        }
    }
}

/// Sends requests from `callers` connections for `time`. Each connection sends the next request when it has its
/// response. Every response must be successful.
pub(super) fn run(target: &Target, callers: usize, time: Duration) -> anyhow::Result<Load> {
    let request = target.request();
    let mut poll = Poll::new()?;
    let started_at = Instant::now();
    let mut all = Vec::with_capacity(callers);
    for number in 0..callers {
        let stream = Blocking::connect(target.address)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let mut caller = Caller {
            stream: TcpStream::from_std(stream),
            sent: started_at,
            answer: Vec::new(),
        };
        poll.registry()
            .register(&mut caller.stream, Token(number), Interest::READABLE)?;
        caller.send(&request)?;
        all.push(caller);
    }
    let (mut events, mut times) = (Events::with_capacity(callers), Vec::new());
    let mut waiting = callers;
    while waiting > 0 {
        poll.poll(&mut events, Some(RESPONSE_TIMEOUT))?;
        ensure!(
            !events.is_empty(),
            "no answer came for {RESPONSE_TIMEOUT:?}"
        );
        for event in &events {
            let caller = all.get_mut(event.token().0).context("a caller")?;
            if !caller.receive(target.expected)? {
                continue;
            }
            times.push(caller.sent.elapsed().as_secs_f64() * 1000.0);
            if started_at.elapsed() < time {
                caller.send(&request)?;
            } else {
                waiting -= 1;
            }
        }
    }
    let seconds = started_at.elapsed().as_secs_f64();
    times.sort_unstable_by(f64::total_cmp);
    Ok(Load {
        answered: times.len() as u64,
        seconds,
        times,
    })
}

/// The length of the first response in the buffer; `None` if it is incomplete.
fn response_end(buffer: &[u8]) -> anyhow::Result<Option<usize>> {
    let Some(head) = buffer.windows(4).position(|part| part == b"\r\n\r\n") else {
        return Ok(None);
    };
    let text = std::str::from_utf8(&buffer[..head])?;
    let length = text
        .lines()
        .find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length")
                .then(|| value.trim().parse::<usize>().ok())?
        })
        .with_context(|| format!("an answer without a length: {text}"))?;
    let end = head + 4 + length;
    Ok((buffer.len() >= end).then_some(end))
}

fn exchange(address: SocketAddr, request: &[u8]) -> anyhow::Result<Value> {
    let mut stream = Blocking::connect(address)?;
    stream.write_all(request)?;
    let (mut buffer, mut part) = (Vec::new(), [0; 4096]);
    loop {
        let count = stream.read(&mut part)?;
        ensure!(count > 0, "the server closed");
        buffer.extend_from_slice(&part[..count]);
        if let Some(end) = response_end(&buffer)? {
            let head = buffer.windows(4).position(|part| part == b"\r\n\r\n");
            let head = head.context("a head")?;
            return Ok(serde_json::from_slice(&buffer[head + 4..end])?);
        }
    }
}

/// Sends one request.
pub(super) fn once(target: &Target) -> anyhow::Result<Value> {
    exchange(target.address, &target.request())
}

/// Sends one GET request.
pub(super) fn get(address: SocketAddr, path: &str) -> anyhow::Result<Value> {
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n\r\n");
    exchange(address, request.as_bytes())
}

/// Connections that are subscribed to the event stream.
pub(super) struct Listeners(Vec<Blocking>);

/// Subscribes to events on `count` connections.
pub(super) fn listen(address: SocketAddr, count: usize) -> anyhow::Result<Listeners> {
    let request = format!("GET /api/v1/events HTTP/1.1\r\nhost: {address}\r\n\r\n");
    let mut streams = Vec::with_capacity(count);
    for _ in 0..count {
        let mut stream = Blocking::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        stream.write_all(request.as_bytes())?;
        let mut head = Vec::new();
        while !head.windows(4).any(|part| part == b"\r\n\r\n") {
            let mut part = [0; 512];
            let received = stream.read(&mut part)?;
            ensure!(received > 0, "the server closed");
            head.extend_from_slice(&part[..received]);
        }
        ensure!(
            head.starts_with(b"HTTP/1.1 200"),
            "{}",
            String::from_utf8_lossy(&head)
        );
        streams.push(stream);
    }
    Ok(Listeners(streams))
}

impl Listeners {
    /// Waits until every listener has received a new session.
    pub(super) fn wait_for_session(&self) -> anyhow::Result<()> {
        for mut stream in &self.0 {
            let mut received_events = Vec::new();
            while !received_events
                .windows(15)
                .any(|part| part == b"session.created")
            {
                let mut part = [0; 512];
                let received = stream.read(&mut part)?;
                ensure!(received > 0, "the server closed");
                received_events.extend_from_slice(&part[..received]);
            }
        }
        Ok(())
    }
}
