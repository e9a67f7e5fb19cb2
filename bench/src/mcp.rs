//! Calls of a tool of a third-party MCP server: through our gate, with the official Python client, and with a minimal
//! client that only writes and reads one line per call.

#[path = "../../crates/mcp/tests/mcp/support.rs"]
#[expect(dead_code, reason = "the tests use the rest")]
mod support;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use cleveragents_mcp::{Options, ServerDefinition, Servers};
use serde_json::{Map, Value, json};
use support::GateFixture;

use crate::{Findings, Row};

/// Number of measured calls, and of warm-up calls.
const CALLS: usize = 2_000;
const WARMING: usize = 200;

/// Pause between two calls, for all clients: the server sleeps again when the next call arrives. Without it a fast
/// client would find the server awake, and a slow one would pay for waking it.
const PAUSE: Duration = Duration::from_millis(1);

/// The median of durations in microseconds.
fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Measures a call repeatedly.
fn repeat(mut call: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    for _ in 0..WARMING {
        call()?;
    }
    let mut times = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let begun = Instant::now();
        call()?;
        times.push(begun.elapsed().as_secs_f64() * 1e6);
        std::thread::sleep(PAUSE);
    }
    Ok(median(times))
}

/// Runs the comparison; `peers` is the folder of `scripts/mcp-peers`.
pub(crate) fn measure(peers: &Path) -> anyhow::Result<Findings> {
    let script = peers.join("node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    let floor = floor(&script)?;
    let ours = ours(&script)?;
    let python = python(peers, &script)?;
    let (added, added_there) = (ours - floor, python - floor);
    let row = Row {
        name: "MCP call, added to the server's own time".to_owned(),
        ours: added,
        other: added_there,
        ratio: added / added_there,
        unit: "µs",
        note: format!(
            "official Python client; at most 0.25; a call takes {ours:.0} with ours, {python:.0} with \
             theirs, {floor:.0} by pipes alone"
        ),
    };
    Ok(Findings {
        rows: vec![row],
        ours: Map::new(),
        counts: json!({"calls": CALLS}),
    })
}

fn ours(script: &Path) -> anyhow::Result<f64> {
    let folder = tempfile::tempdir()?;
    let servers = Servers::new(Options::new(folder.path()))?;
    let script = script.display().to_string();
    let definition = ServerDefinition::stdio("everything", "node", &[&script]);
    servers.add(definition, None)?;
    let desk = GateFixture::new(&servers.offer(), None);
    let arguments = json!({"message": "x"});
    repeat(|| {
        desk.ok("everything/echo", &arguments);
        Ok(())
    })
}

/// The minimal client: one line out, one line in.
fn floor(script: &Path) -> anyhow::Result<f64> {
    let mut server = Command::new("node")
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut input = server.stdin.take().context("its input")?;
    let mut output = BufReader::new(server.stdout.take().context("its output")?);
    let mut line = String::new();
    let mut number = 0;
    let mut ask = |method: &str, params: Value| -> anyhow::Result<()> {
        number += 1;
        let request = json!({"jsonrpc": "2.0", "id": number, "method": method, "params": params});
        // In one write, as clients do it: the first part of several would wake the server early.
        input.write_all(format!("{request}\n").as_bytes())?;
        let mark = format!("\"id\":{number}");
        loop {
            line.clear();
            anyhow::ensure!(output.read_line(&mut line)? > 0, "the server went away");
            if line.contains(&mark) {
                return Ok(());
            }
        }
    };
    ask(
        "initialize",
        json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "floor", "version": "1"},
        }),
    )?;
    let measured = repeat(|| {
        ask(
            "tools/call",
            json!({"name": "echo", "arguments": {"message": "x"}}),
        )
    });
    server.kill()?;
    server.wait()?;
    measured
}

/// The official Python client, in its virtual environment.
fn python(peers: &Path, script: &Path) -> anyhow::Result<f64> {
    let client = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/mcp_client.py");
    let output = Command::new(peers.join("venv/bin/python"))
        .arg(client)
        .arg(script)
        .args([WARMING.to_string(), CALLS.to_string()])
        .stderr(Stdio::inherit())
        .output()?;
    anyhow::ensure!(output.status.success(), "the Python client failed");
    let text = String::from_utf8(output.stdout)?;
    let last = text.lines().last().context("no figure")?;
    Ok(last.trim().parse()?)
}
