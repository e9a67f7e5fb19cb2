//! Measures this program, compared with raw SQLite in the same process and with the same durability. Writes the rows
//! that `bench/run` prints together with those of the peers.
//!
//! Every figure depends on the machine and the run; only ratios are comparable.

#![expect(clippy::print_stdout, reason = "a program that prints a table")]

mod graphs;
mod mcp;
mod plans;
mod raw;
mod sandbox;
mod server;
mod sessions;
mod turns;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Parser, Subcommand};
use serde::Serialize;

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Bench {
    /// Appending to and paging sessions, next to raw SQLite
    Sessions {
        /// File for the rows
        #[arg(long)]
        json: Option<PathBuf>,
        /// Numbers of writers
        #[arg(long, value_delimiter = ',', default_values_t = [1, 16, 256])]
        writers: Vec<usize>,
        /// Seconds for each measurement
        #[arg(long, default_value_t = 2.0)]
        seconds: f64,
        /// Messages of the long session
        #[arg(long, default_value_t = 1_000_000)]
        long: u64,
        /// The agents binary whose start is measured
        #[arg(long)]
        agents: Option<PathBuf>,
    },
    /// Sandboxes of a large tree, next to git and cp
    Sandbox {
        /// File for the rows
        #[arg(long)]
        json: Option<PathBuf>,
        /// Files of the generated trees
        #[arg(long, default_value_t = 50_000)]
        files: usize,
        /// New files that are applied
        #[arg(long, default_value_t = 30_000)]
        new: usize,
        /// Measurements to run; default: all
        #[arg(long, value_enum, value_delimiter = ',')]
        only: Vec<sandbox::Part>,
    },
    /// Steps of the graph runner, next to langgraph
    Graphs {
        /// File for the rows
        #[arg(long)]
        json: Option<PathBuf>,
    },
    /// Turns and text search of the program, next to codex and rg
    Turns {
        /// File for the rows
        #[arg(long)]
        json: Option<PathBuf>,
        /// The agents binary
        #[arg(long)]
        agents: PathBuf,
        /// The codex binary
        #[arg(long)]
        codex: Option<PathBuf>,
        /// The rg binary
        #[arg(long)]
        rg: Option<PathBuf>,
        /// Files of the generated tree
        #[arg(long, default_value_t = 50_000)]
        files: usize,
    },
    /// Listing and drawing many plans and decisions, compared with the limits
    Plans {
        /// File for the rows
        #[arg(long)]
        json: Option<PathBuf>,
        /// The agents binary
        #[arg(long)]
        agents: PathBuf,
        /// Plans to list
        #[arg(long, default_value_t = 1_000)]
        plans: usize,
        /// Decisions to draw
        #[arg(long, default_value_t = 10_000)]
        decisions: usize,
    },
    /// Server mode, next to the store itself and the official Python SDK
    Server {
        /// File for the rows
        #[arg(long)]
        json: Option<PathBuf>,
        /// The agents binary
        #[arg(long)]
        agents: PathBuf,
        /// The Python of the peers
        #[arg(long, requires = "peer")]
        python: Option<PathBuf>,
        /// The script of the peer
        #[arg(long, requires = "python")]
        peer: Option<PathBuf>,
    },
    /// Calls of a tool of an MCP server, next to the official Python client
    Mcp {
        /// File for the rows
        #[arg(long)]
        json: Option<PathBuf>,
        /// The folder of `scripts/mcp-peers`
        #[arg(long)]
        peers: PathBuf,
    },
}

/// One comparison.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    ours: f64,
    other: f64,
    ratio: f64,
    unit: &'static str,
    note: String,
}

/// Results of a benchmark.
#[derive(Debug, Serialize)]
struct Findings {
    rows: Vec<Row>,
    ours: serde_json::Map<String, serde_json::Value>,
    counts: serde_json::Value,
}

fn main() -> anyhow::Result<()> {
    // For MCP servers, this program starts itself again as their supervisor. The benchmarks in `others` start no MCP
    // servers.
    let arguments: Vec<_> = std::env::args_os().collect();
    let others = ["sessions", "sandbox", "turns", "server"];
    let is_other = |name: &OsString| others.iter().any(|other| name == other);
    if !arguments.get(1).is_some_and(is_other)
        && let Some(code) = cleveragents_process::stage_main(&arguments)
    {
        std::process::exit(code.into());
    }
    let (json, findings) = match Arguments::parse().bench {
        Bench::Sessions {
            json,
            writers,
            seconds,
            long,
            agents,
        } => (
            json,
            sessions::run(&writers, seconds, long, agents.as_deref())?,
        ),
        Bench::Sandbox {
            json,
            files,
            new,
            only,
        } => (json, sandbox::measure(files, new, &only)?),
        Bench::Graphs { json } => (json, graphs::measure()?),
        Bench::Turns {
            json,
            agents,
            codex,
            rg,
            files,
        } => (
            json,
            turns::measure(&agents, codex.as_deref(), rg.as_deref(), files)?,
        ),
        Bench::Plans {
            json,
            agents,
            plans,
            decisions,
        } => (json, plans::measure(&agents, plans, decisions)?),
        Bench::Server {
            json,
            agents,
            python,
            peer,
        } => (
            json,
            server::measure(&agents, python.as_deref().zip(peer.as_deref()))?,
        ),
        Bench::Mcp { json, peers } => (json, mcp::measure(&peers)?),
    };
    for row in &findings.rows {
        println!(
            "{:<44} ours {:>12.1} other {:>12.1} ratio {:>6.2} {} {}",
            row.name, row.ours, row.other, row.ratio, row.unit, row.note
        );
    }
    if let Some(path) = json {
        std::fs::write(path, serde_json::to_string_pretty(&findings)?)?;
    }
    Ok(())
}
