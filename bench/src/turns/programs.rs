//! Runs programs for measurements, in a clean environment: their duration and peak memory.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::Value;

/// Poll interval for the memory of a program. The kernel reports the peak, so polling can miss only growth after the
/// last poll.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// A folder for all files of a program, and additional environment variables.
pub(super) struct Home {
    pub(super) folder: tempfile::TempDir,
    variables: Vec<(String, String)>,
}

impl Home {
    pub(super) fn new(variables: &[(&str, &str)]) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir_in(std::env::current_dir()?)?;
        // A private temporary folder, because codex does not install its helpers in the system's temporary folder.
        std::fs::create_dir(folder.path().join("tmp"))?;
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Ok(Self {
            folder,
            variables: variables.iter().map(own).collect(),
        })
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn command<S: AsRef<OsStr>>(&self, program: &Path, arguments: &[S]) -> Command {
        let home = self.path("home");
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.folder.path())
            .env("TMPDIR", self.path("tmp"))
            .env("CLEVERAGENTS_HOME", &home)
            .env("CODEX_HOME", &home)
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs one of our commands and returns the `data` of its response.
    pub(super) fn data(&self, agents: &Path, arguments: &[&str]) -> anyhow::Result<Value> {
        let all = [&["--format", "json"], arguments].concat();
        let output = self.command(agents, &all).output()?;
        let out = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success(), "agents {arguments:?} fails: {out}");
        let document: Value = serde_json::from_str(&out).context("agents answers with JSON")?;
        Ok(document["data"].clone())
    }
}

/// Runs a program until it exits; returns its standard output and the duration in milliseconds.
pub(super) fn timed(mut command: Command) -> anyhow::Result<(String, f64)> {
    let started = Instant::now();
    let output = command.output()?;
    let time = started.elapsed().as_secs_f64() * 1000.0;
    ensure!(
        output.status.success(),
        "{command:?} fails: {}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok((String::from_utf8_lossy(&output.stdout).into_owned(), time))
}

/// Runs a program until it exits; returns its peak memory in MiB.
pub(super) fn peak(mut command: Command) -> anyhow::Result<f64> {
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let mut max_memory = 0.0_f64;
    loop {
        max_memory = max_memory.max(peak_memory(&child).unwrap_or(0.0));
        if let Some(status) = child.try_wait()? {
            ensure!(status.success(), "{command:?} fails");
            return Ok(max_memory);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

fn peak_memory(child: &Child) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib / 1024.0)
}
