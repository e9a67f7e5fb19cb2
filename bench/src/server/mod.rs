//! Measures server mode: messages to an agent, compared with the official Python SDK; appends, compared with the store
//! itself; memory and processor time when idle and with many listeners.

mod load;

use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use crate::{Findings, Row, sessions};
use load::{Load, Target};

/// Duration of each load.
const TIME: Duration = Duration::from_secs(3);

/// Number of measurements of messages, for our server and for the Python SDK. The best result of each counts, because
/// noise can only make a run slower.
const ROUNDS: usize = 3;

/// Number of measurements of appends, each to our server and directly afterwards to the store, because the speed of a
/// disk changes within minutes. The pair with the median ratio counts.
const PAIRS: usize = 7;

/// Number of clients that append.
const WRITERS: usize = 256;
/// Number of clients that send messages.
const SENDERS: usize = 32;

/// Number of event listeners.
const LISTENERS: usize = 1_000;

/// A server process, killed on drop.
struct ServerProcess {
    child: Child,
    address: SocketAddr,
    _home: tempfile::TempDir,
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _killed = self.child.kill();
        let _ended = self.child.wait();
    }
}

impl ServerProcess {
    /// Our server in its own home, without rate limits.
    fn ours(agents: &Path, options: &[&str]) -> anyhow::Result<Self> {
        let home = tempfile::tempdir_in(std::env::current_dir()?)?;
        let mut child = Command::new(agents)
            .args([
                "--format",
                "json",
                "serve",
                "--insecure-local",
                "--port",
                "0",
                "--rate",
                "0",
            ])
            .args(options)
            .env("CLEVERAGENTS_HOME", home.path().join("home"))
            .current_dir(home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("its output")?).read_line(&mut line)?;
        let reported: Value =
            serde_json::from_str(&line).with_context(|| format!("output: {line}"))?;
        let url = reported["url"].as_str().context("an address")?;
        let address = url.trim_start_matches("http://").parse()?;
        Ok(Self {
            child,
            address,
            _home: home,
        })
    }

    /// The echo agent of the Python SDK.
    fn peer(python: &Path, script: &Path) -> anyhow::Result<Self> {
        let home = tempfile::tempdir_in(std::env::current_dir()?)?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
            .local_addr()?
            .port();
        let mut child = Command::new(python)
            .arg(script)
            .arg(port.to_string())
            .current_dir(home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("its output")?).read_line(&mut line)?;
        ensure!(line.trim() == "listening", "the peer printed: {line}");
        Ok(Self {
            child,
            address: (Ipv4Addr::LOCALHOST, port).into(),
            _home: home,
        })
    }

    /// Current memory in kilobytes.
    fn memory(&self) -> anyhow::Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok())
            .context("no figure of memory")
    }

    /// Processor time so far, in hundredths of a second.
    fn ticks(&self) -> anyhow::Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let after = stat.rsplit(") ").next().context("a state")?;
        let number = |index: usize| after.split(' ').nth(index)?.parse::<f64>().ok();
        Ok(number(11).context("time")? + number(12).context("time")?)
    }
}

fn message(text: &str) -> Value {
    json!({
        "jsonrpc": "2.0", "id": 1, "method": "SendMessage",
        "params": {"message": {"messageId": "bench", "role": "ROLE_USER", "parts": [{"text": text}]}},
    })
}

fn sending(address: SocketAddr) -> anyhow::Result<Load> {
    load::run(
        &Target {
            address,
            path: "/a2a".to_owned(),
            body: message("The quick brown fox jumps over the lazy dog").to_string(),
            expected: "TASK_STATE_COMPLETED",
        },
        SENDERS,
        TIME,
    )
}

fn appending(address: SocketAddr) -> anyhow::Result<Load> {
    let created = load::once(&Target {
        address,
        path: "/api/v1/sessions".to_owned(),
        body: json!({}).to_string(),
        expected: "\"id\"",
    })?;
    let session = created["id"].as_str().context("an id")?.to_owned();
    let target = Target {
        address,
        path: format!("/api/v1/sessions/{session}/messages"),
        body: json!({"role": "user", "content": sessions::content()}).to_string(),
        expected: "\"sequence\"",
    };
    let load = load::run(&target, WRITERS, TIME)?;
    let shown = load::get(address, &format!("/api/v1/sessions/{session}"))?;
    let stored = shown["message_count"].as_u64().context("a count")?;
    ensure!(
        stored == load.answered,
        "{stored} messages are stored, {} were acknowledged",
        load.answered
    );
    Ok(load)
}

/// Runs all measurements. Without a peer, messages are not measured.
pub(crate) fn measure(agents: &Path, peer: Option<(&Path, &Path)>) -> anyhow::Result<Findings> {
    let mut rows = vec![appends(agents)?];
    if let Some((python, script)) = peer {
        rows.extend(messages(agents, python, script)?);
    }
    rows.extend(measure_idle(agents)?);
    Ok(Findings {
        rows,
        ours: serde_json::Map::new(),
        counts: json!({"writers": WRITERS, "senders": SENDERS, "listeners": LISTENERS}),
    })
}

fn appends(agents: &Path) -> anyhow::Result<Row> {
    let mut pairs: Vec<(f64, f64)> = Vec::new();
    for _ in 0..PAIRS {
        let store = sessions::rate(WRITERS, TIME)?;
        let server = ServerProcess::ours(agents, &[])?;
        pairs.push((appending(server.address)?.rate(), store));
    }
    pairs.sort_by(|left, right| (left.0 / left.1).total_cmp(&(right.0 / right.1)));
    let (ours, store) = pairs[PAIRS / 2];
    Ok(Row {
        name: format!("appends over HTTP, {WRITERS} callers"),
        ours,
        other: store,
        ratio: ours / store,
        unit: "1/s",
        note: "the other: the store itself with as many writers; at least 0.6".to_owned(),
    })
}

fn messages(agents: &Path, python: &Path, script: &Path) -> anyhow::Result<Vec<Row>> {
    let (mut ours, mut other) = (Load::default(), Load::default());
    for _ in 0..ROUNDS {
        let server = ServerProcess::ours(agents, &["--actor", "builtin/echo"])?;
        let load = sending(server.address)?;
        if load.rate() > ours.rate() {
            ours = load;
        }
        drop(server);
        let load = sending(ServerProcess::peer(python, script)?.address)?;
        if load.rate() > other.rate() {
            other = load;
        }
    }
    Ok(vec![
        Row {
            name: format!("SendMessage, {SENDERS} callers"),
            ours: ours.rate(),
            other: other.rate(),
            ratio: ours.rate() / other.rate(),
            unit: "1/s",
            note:
                "ours stores durably; the other: the echo agent of a2a-sdk, in memory; at least 10"
                    .to_owned(),
        },
        Row {
            name: "SendMessage, our 99th percentile".to_owned(),
            ours: ours.percentile(0.99),
            other: other.percentile(0.5),
            ratio: ours.percentile(0.99) / other.percentile(0.5),
            unit: "ms",
            note: "the other: the median of a2a-sdk; below 1".to_owned(),
        },
    ])
}

fn measure_idle(agents: &Path) -> anyhow::Result<Vec<Row>> {
    let server = ServerProcess::ours(agents, &[])?;
    std::thread::sleep(Duration::from_secs(1));
    let (ticks, begun) = (server.ticks()?, Instant::now());
    std::thread::sleep(Duration::from_secs(5));
    let used = (server.ticks()? - ticks) / begun.elapsed().as_secs_f64();
    let idle = server.memory()? / 1024.0;
    let listeners = load::listen(server.address, LISTENERS)?;
    create_sessions(server.address)?;
    listeners.wait_for_session()?;
    let busy = server.memory()? / 1024.0;
    let row = |name: &str, ours: f64, limit: f64, unit: &'static str| Row {
        name: name.to_owned(),
        ours,
        other: limit,
        ratio: ours / limit,
        unit,
        note: "the other is the limit".to_owned(),
    };
    Ok(vec![
        row("memory of an idle server", idle, 40.0, "MiB"),
        row("processor of an idle server", used, 1.0, "%"),
        row("memory with 1,000 listeners", busy, 100.0, "MiB"),
    ])
}

fn create_sessions(address: SocketAddr) -> anyhow::Result<()> {
    let target = Target {
        address,
        path: "/api/v1/sessions".to_owned(),
        body: json!({}).to_string(),
        expected: "\"id\"",
    };
    for _ in 0..5 {
        load::once(&target)?;
    }
    Ok(())
}
