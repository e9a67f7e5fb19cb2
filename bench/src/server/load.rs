//! Callers: many connections of one thread that send the same request again and again, as cheaply as possible, since
//! they share the machine with what is measured.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream as Blocking};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// What is asked.
pub(super) struct Target {
    pub(super) address: SocketAddr,
    pub(super) path: String,
    pub(super) body: String,
    /// What every good answer holds.
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

/// What came of a load.
#[derive(Debug, Default)]
pub(super) struct Load {
    pub(super) answered: u64,
    seconds: f64,
    /// Milliseconds of each answer, in order of size.
    times: Vec<f64>,
}

impl Load {
    /// Answers in a second.
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    pub(super) fn rate(&self) -> f64 {
        if self.seconds > 0.0 {
            self.answered as f64 / self.seconds
        } else {
            0.0
        }
    }

    /// The time within which this part of the answers came.
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

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?)
}

/// Sends from so many connections for some time. Every answer must be a good one.
pub(super) fn run(target: &Target, callers: usize, time: Duration) -> anyhow::Result<Load> {
    let request = target.request();
    runtime()?.block_on(async {
        let begun = Instant::now();
        let mut tasks = Vec::with_capacity(callers);
        for _ in 0..callers {
            let (request, address, expected) = (request.clone(), target.address, target.expected);
            tasks.push(tokio::spawn(async move {
                call(address, &request, expected, begun, time).await
            }));
        }
        let mut times = Vec::new();
        for task in tasks {
            times.extend(task.await??);
        }
        let seconds = begun.elapsed().as_secs_f64();
        times.sort_unstable_by(f64::total_cmp);
        Ok(Load {
            answered: times.len() as u64,
            seconds,
            times,
        })
    })
}

async fn call(
    address: SocketAddr,
    request: &[u8],
    expected: &str,
    begun: Instant,
    time: Duration,
) -> anyhow::Result<Vec<f64>> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (mut times, mut buffer) = (Vec::new(), Vec::with_capacity(4096));
    while begun.elapsed() < time {
        let sent = Instant::now();
        stream.write_all(request).await?;
        buffer.clear();
        let end = loop {
            ensure!(stream.read_buf(&mut buffer).await? > 0, "the server closed");
            if let Some(end) = whole(&buffer)? {
                break end;
            }
        };
        times.push(sent.elapsed().as_secs_f64() * 1000.0);
        let is_good = buffer[..end]
            .windows(expected.len())
            .any(|part| part == expected.as_bytes());
        ensure!(is_good, "{}", String::from_utf8_lossy(&buffer));
    }
    Ok(times)
}

/// Where an answer ends, once all of it is there.
fn whole(buffer: &[u8]) -> anyhow::Result<Option<usize>> {
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
        if let Some(end) = whole(&buffer)? {
            let head = buffer.windows(4).position(|part| part == b"\r\n\r\n");
            let head = head.context("a head")?;
            return Ok(serde_json::from_slice(&buffer[head + 4..end])?);
        }
    }
}

/// Sends once.
pub(super) fn once(target: &Target) -> anyhow::Result<Value> {
    exchange(target.address, &target.request())
}

/// Reads something.
pub(super) fn get(address: SocketAddr, path: &str) -> anyhow::Result<Value> {
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n\r\n");
    exchange(address, request.as_bytes())
}

/// Those who listen to events.
pub(super) struct Listeners(Vec<Blocking>);

/// Begins to listen from so many connections.
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
            let got = stream.read(&mut part)?;
            ensure!(got > 0, "the server closed");
            head.extend_from_slice(&part[..got]);
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
    /// Waits until everybody heard of a new session.
    pub(super) fn all_hear(&self) -> anyhow::Result<()> {
        for mut stream in &self.0 {
            let mut heard = Vec::new();
            while !heard.windows(15).any(|part| part == b"session.created") {
                let mut part = [0; 512];
                let got = stream.read(&mut part)?;
                ensure!(got > 0, "the server closed");
                heard.extend_from_slice(&part[..got]);
            }
        }
        Ok(())
    }
}
