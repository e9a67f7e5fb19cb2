//! Measures our program, compared with raw SQLite in the same process and with other programs. Writes the rows that
//! `bench/run` prints together with the rows of the peers.
//!
//! Every figure depends on the machine and the run; only ratios within one run are comparable.

#![expect(clippy::print_stdout, reason = "a program that prints a table")]

mod graphs;
mod mcp;
mod plans;
mod pools;
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
    bench: Benchmark,
}

#[derive(Subcommand)]
enum Benchmark {
    /// Measure appending to sessions and paging through them, compared with raw SQLite
    Sessions {
        /// File for the rows
        #[arg(long)]
        json: Option<PathBuf>,
        /// Numbers of concurrent writers to measure
        #[arg(long, value_delimiter = ',', default_values_t = [1, 16, 256])]
        writers: Vec<usize>,
        /// Duration of each measurement in seconds
        #[arg(long, default_value_t = 2.0)]
        seconds: f64,
        /// Number of messages in the long session
        #[arg(long, default_value_t = 1_000_000)]
        long: u64,
        /// Path of the agents binary whose start is measured
        #[arg(long)]
        agents: Option<PathBuf>,
    },
    /// Measure sandboxes of a large tree, compared with git and cp
    Sandbox {
        /// File for the rows
        #[arg(long)]
        json: Option<PathBuf>,
        /// Number of files in each generated tree
        #[arg(long, default_value_t = 50_000)]
        files: usize,
        /// Number of new files to apply
        #[arg(long, default_value_t = 30_000)]
        new: usize,
        /// Measurements to run; default: all
        #[arg(long, value_enum, value_delimiter = ',')]
        only: Vec<sandbox::Part>,
    },
    /// Measure steps of the graph runner, compared with langgraph
    Graphs {
        /// File for the rows
        #[arg(long)]
        json: Option<PathBuf>,
    },
    /// Measure turns and text search, compared with codex and rg
    Turns {
        /// File for the rows
        #[arg(long)]
        json: Option<PathBuf>,
        /// The agents binary
        #[arg(long)]
        agents: PathBuf,
        /// Path of the codex binary
        #[arg(long)]
        codex: Option<PathBuf>,
        /// Path of the rg binary
        #[arg(long)]
        rg: Option<PathBuf>,
        /// Number of files in the generated tree
        #[arg(long, default_value_t = 50_000)]
        files: usize,
    },
    /// Measure listing many plans and drawing many decisions, compared with time limits
    Plans {
        /// File for the rows
        #[arg(long)]
        json: Option<PathBuf>,
        /// The agents binary
        #[arg(long)]
        agents: PathBuf,
        /// Number of plans to list
        #[arg(long, default_value_t = 1_000)]
        plans: usize,
        /// Number of decisions to draw
        #[arg(long, default_value_t = 10_000)]
        decisions: usize,
        /// Number of files in the repository of the child plans
        #[arg(long, default_value_t = 50_000)]
        files: usize,
    },
    /// Measure the dispatch of pools, compared with limits
    Pools {
        /// File for the rows
        #[arg(long)]
        json: Option<PathBuf>,
        /// Number of items of one decision
        #[arg(long, default_value_t = 10_000)]
        decided: usize,
        /// Number of items that pass all stages
        #[arg(long, default_value_t = 1_000)]
        passed: usize,
    },
    /// Measure server mode, compared with the store and the official Python SDK for A2A
    Server {
        /// File for the rows
        #[arg(long)]
        json: Option<PathBuf>,
        /// The agents binary
        #[arg(long)]
        agents: PathBuf,
        /// Python interpreter in which the peers are installed
        #[arg(long, requires = "peer")]
        python: Option<PathBuf>,
        /// Script that starts the server of the Python SDK
        #[arg(long, requires = "python")]
        peer: Option<PathBuf>,
    },
    /// Measure calls of an MCP server's tool, compared with the official Python client
    Mcp {
        /// File for the rows
        #[arg(long)]
        json: Option<PathBuf>,
        /// Folder into which `scripts/mcp-peers` installed the servers
        #[arg(long)]
        peers: PathBuf,
    },
}

/// A row of the printed table: our value compared with another.
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
    let others = ["sessions", "sandbox", "turns", "server", "pools"];
    let is_other = |name: &OsString| others.iter().any(|other| name == other);
    if !arguments.get(1).is_some_and(is_other)
        && let Some(code) = cleveragents_process::stage_main(&arguments)
    {
        std::process::exit(code.into());
    }
    let (json, findings) = match Arguments::parse().bench {
        Benchmark::Sessions {
            json,
            writers,
            seconds,
            long,
            agents,
        } => (
            json,
            sessions::run(&writers, seconds, long, agents.as_deref())?,
        ),
        Benchmark::Sandbox {
            json,
            files,
            new,
            only,
        } => (json, sandbox::measure(files, new, &only)?),
        Benchmark::Graphs { json } => (json, graphs::measure()?),
        Benchmark::Turns {
            json,
            agents,
            codex,
            rg,
            files,
        } => (
            json,
            turns::measure(&agents, codex.as_deref(), rg.as_deref(), files)?,
        ),
        Benchmark::Plans {
            json,
            agents,
            plans,
            decisions,
            files,
        } => (json, plans::measure(&agents, plans, decisions, files)?),
        Benchmark::Pools {
            json,
            decided,
            passed,
        } => (json, pools::measure(decided, passed)?),
        Benchmark::Server {
            json,
            agents,
            python,
            peer,
        } => (
            json,
            server::measure(&agents, python.as_deref().zip(peer.as_deref()))?,
        ),
        Benchmark::Mcp { json, peers } => (json, mcp::measure(&peers)?),
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
