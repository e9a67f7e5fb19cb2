//! Measures the delay between the first token of the endpoint and its appearance on standard output, compared with a
//! minimal client.

use std::io::{Read, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use cleveragents_testkit::model_server::{ModelServer, Step, openai};

use super::programs::Home;
use super::{median, row};
use crate::Row;

/// Number of measurements of our program and of the minimal client, which alternate.
const ROUNDS: usize = 60;

/// Delay of the endpoint before its first token.
const RESPONSE_DELAY: Duration = Duration::from_millis(40);

/// Delay of the endpoint after its first token, so that only this token can have caused the output.
const PAUSE: Duration = Duration::from_millis(20);

const FIRST: &str = "Aurora";

/// An endpoint that reports when it sends its first token.
fn endpoint() -> (ModelServer, Receiver<Instant>) {
    let (sender, receiver) = channel();
    let server = ModelServer::answering(move |_| {
        let mut response = openai::text(&[FIRST, " borealis", "."]);
        let rest = response.steps.split_off(1);
        let first = std::mem::take(&mut response.steps);
        let before = [Step::Pause(RESPONSE_DELAY), Step::Note(sender.clone())];
        response.steps = before.into_iter().chain(first).collect();
        response.steps.push(Step::Pause(PAUSE));
        response.steps.extend(rest);
        response
    });
    (server, receiver)
}

/// Reads to the end; returns the time at which the first token arrived.
fn time_of_first_token(mut from: impl Read) -> anyhow::Result<Instant> {
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let count = from.read(&mut buffer)?;
        let now = Instant::now();
        ensure!(count > 0, "the first token never came");
        seen.extend_from_slice(&buffer[..count]);
        if String::from_utf8_lossy(&seen).contains(FIRST) {
            std::io::copy(&mut from, &mut std::io::sink())?;
            return Ok(now);
        }
    }
}

fn minimal_client(server: &ModelServer) -> anyhow::Result<Instant> {
    let address = server.url().replace("http://", "");
    let mut stream = TcpStream::connect(&address)?;
    stream.set_nodelay(true)?;
    let head = "POST /chat/completions HTTP/1.1\r\nhost: bench\r\nconnection: close";
    stream.write_all(format!("{head}\r\ncontent-length: 2\r\n\r\n{{}}").as_bytes())?;
    // The server keeps the connection open, so read until the last chunk of the response.
    let mut seen = Vec::new();
    let mut found = None;
    let mut buffer = [0; 4096];
    while !seen.ends_with(b"0\r\n\r\n") {
        let count = stream.read(&mut buffer)?;
        let now = Instant::now();
        ensure!(count > 0, "the connection ended early");
        seen.extend_from_slice(&buffer[..count]);
        if found.is_none() && String::from_utf8_lossy(&seen).contains(FIRST) {
            found = Some(now);
        }
    }
    found.context("the first token never came")
}

fn milliseconds(from: Instant, to: Instant) -> f64 {
    to.saturating_duration_since(from).as_secs_f64() * 1000.0
}

pub(super) fn measure(agents: &Path) -> anyhow::Result<Vec<Row>> {
    let (server, sent) = endpoint();
    let url = server.url();
    let home = Home::new(&[("OPENAI_BASE_URL", &url), ("OPENAI_API_KEY", "bench-key-0")])?;
    home.data(agents, &["session", "create", "--name", "bench"])?;
    let tell = [
        "--format",
        "plain",
        "session",
        "tell",
        "--session",
        "bench",
        "--actor",
        "openai/gpt-5.1",
        "--stream",
        "What is it called?",
    ];
    let (mut ours, mut others, mut before) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let started = Instant::now();
        let mut child = home.command(agents, &tell).spawn()?;
        let seen = time_of_first_token(child.stdout.take().context("a pipe")?)?;
        ensure!(child.wait()?.success(), "session tell fails");
        let token = sent.recv()?;
        ours.push(milliseconds(token, seen));
        before.push(milliseconds(started, token) - RESPONSE_DELAY.as_secs_f64() * 1000.0);
        let seen = minimal_client(&server)?;
        others.push(milliseconds(sent.recv()?, seen));
    }
    let (ours, other) = (median(ours), median(others));
    Ok(vec![row(
        "first streamed token, added",
        (ours - other, 2.0),
        "ms",
        format!(
            "{ours:.2} from endpoint to pipe, {other:.2} by a bare client; at most 2 more; the program asks {:.0} ms \
             after its start",
            median(before)
        ),
    )])
}
