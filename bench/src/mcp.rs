//! Measures calls of a tool of a third-party MCP server: through our gate, with the official Python client, and with a
//! minimal client that only writes and reads one line per call.

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

/// Number of measured calls.
const CALLS: usize = 2_000;
const WARM_UP_CALLS: usize = 200;

/// Pause between two calls, for all clients, so that the server is idle again when the next call arrives. Without it, a
/// fast client would find the server awake, but a slow client would have to wake it.
const PAUSE: Duration = Duration::from_millis(1);

/// The median of durations in microseconds.
fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Returns the median time of a repeated call in microseconds, after warm-up calls.
fn repeat(mut call: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    for _ in 0..WARM_UP_CALLS {
        call()?;
    }
    let mut times = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let started_at = Instant::now();
        call()?;
        times.push(started_at.elapsed().as_secs_f64() * 1e6);
        std::thread::sleep(PAUSE);
    }
    Ok(median(times))
}

/// Runs the comparison. `peers` is the folder into which `scripts/mcp-peers` installed the servers.
pub(crate) fn measure(peers: &Path) -> anyhow::Result<Findings> {
    let script = peers.join("node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    let minimal = minimal_client(&script)?;
    let ours = ours(&script)?;
    let python = python(peers, &script)?;
    let (added, added_by_python) = (ours - minimal, python - minimal);
    let row = Row {
        name: "MCP call, added to the server's own time".to_owned(),
        ours: added,
        other: added_by_python,
        ratio: added / added_by_python,
        unit: "µs",
        note: format!(
            "official Python client; target ratio at most 0.25; a call takes {ours:.0} with our gate, \
             {python:.0} with the Python client, {minimal:.0} with the minimal client"
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
    let gate = GateFixture::new(&servers.offer(), None);
    let arguments = json!({"message": "x"});
    repeat(|| {
        gate.ok("everything/echo", &arguments);
        Ok(())
    })
}

/// Measures the minimal client, which writes and reads one line per call.
fn minimal_client(script: &Path) -> anyhow::Result<f64> {
    let mut server = Command::new("node")
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut input = server
        .stdin
        .take()
        .context("the server has no standard input")?;
    let mut output = BufReader::new(
        server
            .stdout
            .take()
            .context("the server has no standard output")?,
    );
    let mut line = String::new();
    let mut number = 0;
    let mut request_response = |method: &str, params: Value| -> anyhow::Result<()> {
        number += 1;
        let request = json!({"jsonrpc": "2.0", "id": number, "method": method, "params": params});
        // A single write, as other clients do it: the first of several writes would wake the server early.
        input.write_all(format!("{request}\n").as_bytes())?;
        let mark = format!("\"id\":{number}");
        loop {
            line.clear();
            anyhow::ensure!(
                output.read_line(&mut line)? > 0,
                "the server closed its output"
            );
            if line.contains(&mark) {
                return Ok(());
            }
        }
    };
    request_response(
        "initialize",
        json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "minimal", "version": "1"},
        }),
    )?;
    let measured = repeat(|| {
        request_response(
            "tools/call",
            json!({"name": "echo", "arguments": {"message": "x"}}),
        )
    });
    server.kill()?;
    server.wait()?;
    measured
}

/// Measures the official Python client, in its virtual environment.
fn python(peers: &Path, script: &Path) -> anyhow::Result<f64> {
    let client = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/mcp_client.py");
    let output = Command::new(peers.join("venv/bin/python"))
        .arg(client)
        .arg(script)
        .args([WARM_UP_CALLS.to_string(), CALLS.to_string()])
        .stderr(Stdio::inherit())
        .output()?;
    anyhow::ensure!(output.status.success(), "the Python client failed");
    let text = String::from_utf8(output.stdout)?;
    let last = text.lines().last().context("no figure")?;
    Ok(last.trim().parse()?)
}
