//! Proves that a captured test fails because of its defect, and that a fix makes it pass.

use std::cell::RefCell;
use std::ffi::OsString;
use std::io::Read as _;
use std::time::Duration;

use cleveragents_domain::{FileKind, FileMode, TreePath};
use cleveragents_process::{Cancel, Ending};
use cleveragents_tools::Access;
use cleveragents_tools::ports::{Command, Workspace as _};
use regex::Regex;
use serde::{Deserialize, Serialize};

use super::expected_fail::TestFramework;
use super::repeat::{FailureRate, TestRun, repeat};
use crate::sandbox::SandboxError;
use crate::tool::SandboxWorkspace;

/// A captured test, as its author reported it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TestSpec {
    /// The path in the sandbox.
    pub(crate) test_path: String,
    /// The name in the test framework.
    pub(crate) test_name: String,
    /// The command that runs only this test.
    pub(crate) test_command: String,
    /// A regular expression that matches the output of the failing test.
    pub(crate) failure_pattern: String,
}

/// Number of runs of a test, and their limits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Repetition {
    pub(crate) runs: u32,
    /// Number of runs at the same time.
    pub(crate) parallel: usize,
    /// Time limit of one run.
    pub(crate) timeout: Duration,
}

/// Maximum size of an output that is kept, in bytes. The end of the output is kept.
const KEPT_OUTPUT: usize = 64 << 10;

/// Exit codes with which a shell reports that it cannot run a program.
const CANNOT_RUN: [i32; 2] = [126, 127];

/// Maximum size of a test file, in bytes.
const MAX_TEST_BYTES: u64 = 1 << 20;

/// The result of the proof of a captured test.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TestProof {
    /// It fails for the stated reason.
    Proven {
        rate: FailureRate,
        /// The content of the test file with its marker.
        content: String,
    },
    /// It does not count, for this reason.
    Refused { reason: String, rate: FailureRate },
    /// The test could not run.
    Environment(String),
}

/// Runs a command in a sandbox. The caller undoes its changes.
pub(crate) fn run_command(
    workspace: &SandboxWorkspace,
    command: &str,
    timeout: Duration,
    cancel: &Cancel,
) -> TestRun {
    let output = RefCell::new(Vec::new());
    let on_output = |_, bytes: &[u8]| {
        let mut output = output.borrow_mut();
        output.extend_from_slice(bytes);
        let excess = output.len().saturating_sub(KEPT_OUTPUT);
        output.drain(..excess);
    };
    let request = Command {
        program: OsString::from("sh"),
        arguments: vec!["-c".into(), command.into()],
        part: None,
        folder: None,
        environment: Vec::new(),
        input: Vec::new(),
        time: timeout,
        access: Access::Writes,
        network: false,
        readable: Vec::new(),
    };
    let finished = match workspace.exec(&request, &on_output, cancel) {
        Ok(finished) => finished,
        Err(error) => return TestRun::CouldNotRun(error.to_string()),
    };
    let output = String::from_utf8_lossy(&output.into_inner()).into_owned();
    match finished.ending {
        Ending::Exited(0) => TestRun::Passed,
        Ending::Exited(code) if CANNOT_RUN.contains(&code) => TestRun::CouldNotRun(output),
        // A test that hangs fails: a fix may have introduced a deadlock.
        Ending::TimedOut => TestRun::Failed(format!(
            "{output}\nit reached its time limit of {} seconds",
            timeout.as_secs()
        )),
        Ending::Cancelled => TestRun::CouldNotRun("it was cancelled".to_owned()),
        Ending::Exited(_) | Ending::Signalled(_) => TestRun::Failed(output),
    }
}

/// Reads a text file of the only part of a sandbox.
pub(crate) fn read_text(workspace: &SandboxWorkspace, path: &str) -> Option<String> {
    let [part] = workspace.parts() else {
        return None;
    };
    let path: TreePath = path.parse().ok()?;
    let file = part.root.open_regular(&path).ok()??;
    let mut text = String::new();
    file.take(MAX_TEST_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Writes a text file of the only part of a sandbox, for example without its marker.
pub(crate) fn write_text(
    workspace: &SandboxWorkspace,
    path: &str,
    content: &str,
) -> std::io::Result<()> {
    let [part] = workspace.parts() else {
        return Err(std::io::Error::other("the sandbox has several parts"));
    };
    let invalid = |error| std::io::Error::other(format!("`{path}` is no path: {error}"));
    let path: TreePath = path.parse().map_err(invalid)?;
    part.root.make_parents(&path)?;
    let mode = FileMode::new(FileKind::File, 0o644);
    part.root.write_file(&path, mode, &mut content.as_bytes())
}

/// Proves a captured test: without its marker it fails with the stated pattern. All changes are rolled back.
pub(crate) fn prove_failure(
    workspace: &SandboxWorkspace,
    spec: &TestSpec,
    repetition: Repetition,
    cancel: &Cancel,
) -> Result<TestProof, SandboxError> {
    let refused = |reason: String, rate: FailureRate| Ok(TestProof::Refused { reason, rate });
    let none = FailureRate::default;
    let pattern = match Regex::new(&spec.failure_pattern) {
        Ok(pattern) => pattern,
        Err(error) => return refused(format!("the failure pattern is invalid: {error}"), none()),
    };
    if pattern.is_match("") {
        return refused(
            "the failure pattern matches every output".to_owned(),
            none(),
        );
    }
    let Some(content) = read_text(workspace, &spec.test_path) else {
        return refused(
            format!("the test file `{}` does not exist", spec.test_path),
            none(),
        );
    };
    let framework = TestFramework::detect(&spec.test_path, &content);
    if framework != TestFramework::Unknown && !framework.has_marker(&content) {
        let reason =
            "the test has no marker of an expected failure, so the suite fails until the fix";
        return refused(reason.to_owned(), none());
    }
    let bare = framework.without_marker(&content, &spec.test_name);
    let measured = without_marker(workspace, spec, &bare, || {
        let run = || run_command(workspace, &spec.test_command, repetition.timeout, cancel);
        let is_expected = |output: &str| pattern.is_match(output);
        repeat(repetition.runs, repetition.parallel, run, is_expected)
    })?;
    let (rate, other) = match measured {
        Ok(measured) => measured,
        Err(error) => return Ok(TestProof::Environment(error.to_string())),
    };
    let other = other.unwrap_or_default();
    if rate.not_run > 0 {
        return Ok(TestProof::Environment(last_lines(&other)));
    }
    if rate.other_failures > 0 {
        let reason = format!(
            "the test fails for another reason than `{}`: {}",
            spec.failure_pattern,
            last_lines(&other)
        );
        return refused(reason, rate);
    }
    if rate.failures == 0 {
        return refused(
            "the test passes although the defect is there".to_owned(),
            rate,
        );
    }
    if !rate.is_certain() && framework.is_strict(&content) {
        let reason = format!(
            "the test fails in {} of {} runs, and its marker requires a failure in every run: make the failure certain, \
             or use a marker that accepts both results",
            rate.failures, rate.runs
        );
        return refused(reason, rate);
    }
    Ok(TestProof::Proven { rate, content })
}

/// Runs `work` while the test file has the content `bare`, and rolls all changes back.
fn without_marker<T>(
    workspace: &SandboxWorkspace,
    spec: &TestSpec,
    bare: &str,
    work: impl FnOnce() -> T,
) -> Result<std::io::Result<T>, SandboxError> {
    let (result, _changes) = workspace.without_trace(|| {
        write_text(workspace, &spec.test_path, bare)?;
        Ok(work())
    })?;
    Ok(result)
}

/// Runs a captured test on a fix. It must pass in every run. All changes are rolled back.
pub(crate) fn confirm_fix(
    workspace: &SandboxWorkspace,
    spec: &TestSpec,
    repetition: Repetition,
    cancel: &Cancel,
) -> Result<(FailureRate, Option<String>), SandboxError> {
    let run = || run_command(workspace, &spec.test_command, repetition.timeout, cancel);
    let (measured, _changes) =
        workspace.without_trace(|| repeat(repetition.runs, repetition.parallel, run, |_| true))?;
    let (rate, other) = measured;
    let shown = match other {
        Some(other) => Some(other),
        None if rate.failures > 0 => match run_once(workspace, spec, repetition, cancel)? {
            TestRun::Failed(output) | TestRun::CouldNotRun(output) => Some(output),
            TestRun::Passed => None,
        },
        None => None,
    };
    Ok((rate, shown.map(|output| last_lines(&output))))
}

fn run_once(
    workspace: &SandboxWorkspace,
    spec: &TestSpec,
    repetition: Repetition,
    cancel: &Cancel,
) -> Result<TestRun, SandboxError> {
    let run = || run_command(workspace, &spec.test_command, repetition.timeout, cancel);
    let (result, _changes) = workspace.without_trace(run)?;
    Ok(result)
}

/// The last lines of an output, for a reason.
pub(crate) fn last_lines(output: &str) -> String {
    const LINES: usize = 8;
    let lines: Vec<&str> = output.trim_end().lines().collect();
    let start = lines.len().saturating_sub(LINES);
    lines[start..].join("\n")
}
