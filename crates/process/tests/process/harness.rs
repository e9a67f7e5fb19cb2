//! A small test runner, and shared test support: a sandbox to run commands in.

#![expect(clippy::print_stdout, reason = "a test runner reports its results")]

use cleveragents_process::{
    Cancel, Capabilities, CommandResult, Invocation, Isolation, Layer, Layers, Limits, Policy,
    ProcessError, Tree, capabilities, clean_environment,
};
use std::ffi::OsString;
use std::panic::{catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};
use tempfile::TempDir;

/// A test and its name.
pub(crate) type Test = (&'static str, fn());

/// Lists functions as tests.
macro_rules! tests {
    ($($test:ident),+ $(,)?) => {
        /// The tests of this module.
        pub(crate) const TESTS: &[$crate::harness::Test] = &[$((stringify!($test), $test)),+];
    };
}
pub(crate) use tests;

/// Runs the tests whose names contain one of the arguments, or all.
pub(crate) fn run(arguments: &[OsString], modules: &[&[Test]]) -> ExitCode {
    let filters: Vec<String> = arguments[1..]
        .iter()
        .map(|argument| argument.to_string_lossy().into_owned())
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let tests: Vec<Test> = modules
        .iter()
        .flat_map(|module| module.iter().copied())
        .filter(|(name, _)| filters.is_empty() || filters.iter().any(|part| name.contains(part)))
        .collect();
    if arguments.iter().any(|argument| argument == "--list") {
        for (name, _) in &tests {
            println!("{name}: test");
        }
        return ExitCode::SUCCESS;
    }
    for program in ["sh", "bash", "python3", "git", "unshare", "setsid"] {
        if try_run(&Invocation {
            arguments: vec!["--version".into()],
            ..Invocation::new(program, "/")
        })
        .is_err()
        {
            println!("these tests need the program {program}");
            return ExitCode::FAILURE;
        }
    }
    let next = AtomicUsize::new(0);
    let failed = AtomicUsize::new(0);
    let skipped = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(2, Into::into).min(8) {
            scope.spawn(|| {
                while let Some((name, test)) = tests.get(next.fetch_add(1, Ordering::SeqCst)) {
                    let outcome = match catch_unwind(test) {
                        Ok(()) => "ok".to_owned(),
                        Err(payload) => match payload.downcast_ref::<NotRun>() {
                            Some(NotRun(what)) => format!("not run: this machine has no {what}"),
                            None => "FAILED".to_owned(),
                        },
                    };
                    println!("test {name} ... {outcome}");
                    failed.fetch_add(usize::from(outcome == "FAILED"), Ordering::SeqCst);
                    skipped.fetch_add(usize::from(outcome.starts_with("not")), Ordering::SeqCst);
                }
            });
        }
    });
    let (failed, skipped) = (failed.into_inner(), skipped.into_inner());
    let outcome = if failed == 0 { "ok" } else { "FAILED" };
    let passed = tests.len() - failed - skipped;
    println!("\ntest result: {outcome}. {passed} passed; {failed} failed; {skipped} not run");
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Thrown by a test that needs a feature this machine lacks.
struct NotRun(&'static str);

/// Ends a test, because this machine lacks a feature that it needs.
pub(crate) fn not_run(feature: &'static str) -> ! {
    resume_unwind(Box::new(NotRun(feature)))
}

/// Capabilities of this machine, probed once.
fn machine() -> &'static Capabilities {
    static MACHINE: OnceLock<Capabilities> = OnceLock::new();
    MACHINE.get_or_init(capabilities)
}

fn has_namespaces() -> bool {
    machine()
        .enforced
        .as_ref()
        .is_some_and(|enforced| enforced.tree == Tree::Namespace)
}

/// Whether Landlock has version 6 or later, the first that confines signals.
fn has_landlock() -> bool {
    let enforced = machine().enforced.as_ref();
    enforced.is_some_and(|enforced| matches!(enforced.landlock, Layer::InForce(abi) if abi >= 6))
}

/// Skips the test on machines without namespaces.
pub(crate) fn need_namespaces() {
    if !has_namespaces() {
        not_run("namespaces");
    }
}

/// Skips the test on machines without Landlock.
pub(crate) fn need_landlock() {
    if !has_landlock() {
        not_run("Landlock of version 6");
    }
}

/// Supervision and confinement of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConfinementMode {
    /// All layers.
    Whole,
    /// Only namespaces and mounts.
    Namespaces,
    /// All layers except the process namespace.
    WithoutProcesses,
    /// Landlock and the filter, under a supervisor.
    Landlock,
    /// Only a supervisor.
    Unconfined,
}

impl ConfinementMode {
    /// The ways to supervise a process tree that this machine supports.
    pub(crate) fn every() -> Vec<Self> {
        let all = [
            Self::Whole,
            Self::WithoutProcesses,
            Self::Landlock,
            Self::Unconfined,
        ];
        all.into_iter().filter(|mode| mode.is_possible()).collect()
    }

    /// The ways to confine a command that this machine supports.
    pub(crate) fn confined() -> Vec<Self> {
        let all = [
            Self::Whole,
            Self::WithoutProcesses,
            Self::Landlock,
            Self::Namespaces,
        ];
        all.into_iter().filter(|mode| mode.is_possible()).collect()
    }

    /// The ways of [`Self::confined`] that filter system calls.
    pub(crate) fn filtered() -> Vec<Self> {
        Self::confined()
            .into_iter()
            .filter(|mode| *mode != Self::Namespaces)
            .collect()
    }

    fn is_possible(self) -> bool {
        match self {
            Self::Whole | Self::WithoutProcesses | Self::Namespaces => has_namespaces(),
            Self::Landlock => has_landlock(),
            Self::Unconfined => true,
        }
    }

    /// Parses the name of a variant.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let all = [
            Self::Whole,
            Self::WithoutProcesses,
            Self::Landlock,
            Self::Namespaces,
            Self::Unconfined,
        ];
        all.into_iter().find(|mode| format!("{mode:?}") == name)
    }

    fn layers(self) -> Layers {
        let filtered = matches!(self, Self::Whole | Self::Landlock | Self::WithoutProcesses);
        Layers {
            isolation: match self {
                Self::Whole | Self::Namespaces => Isolation::Whole,
                Self::WithoutProcesses => Isolation::WithoutProcesses,
                Self::Landlock | Self::Unconfined => Isolation::None,
            },
            landlock: filtered,
            seccomp: filtered,
        }
    }

    /// Runs a program in its own sandbox.
    pub(crate) fn run(self, program: &str, arguments: &[&str]) -> CommandResult {
        started(&Sandbox::with_mode(self).invocation(program, arguments))
    }

    /// Runs a shell script in its own sandbox.
    pub(crate) fn sh(self, script: &str) -> CommandResult {
        Sandbox::with_mode(self).sh(script)
    }
}

/// A directory that a command may write to, and a directory next to it that it may not.
pub(crate) struct Sandbox {
    _root: Option<TempDir>,
    pub(crate) inside: PathBuf,
    pub(crate) outside: PathBuf,
    pub(crate) limits: Limits,
    /// Confinement of its commands.
    pub(crate) policy: Option<Policy>,
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        Self::with_mode(ConfinementMode::Whole)
    }

    pub(crate) fn with_mode(mode: ConfinementMode) -> Self {
        let root = tempfile::tempdir().expect("a temporary folder");
        let path = fs::canonicalize(root.path()).expect("its path");
        let (inside, outside) = (path.join("inside"), path.join("outside"));
        fs::create_dir(&inside).expect("a folder inside");
        fs::create_dir(&outside).expect("a folder outside");
        Self {
            _root: Some(root),
            ..Self::at(inside, mode)
        }
    }

    /// A sandbox in an existing directory.
    pub(crate) fn at(inside: PathBuf, mode: ConfinementMode) -> Self {
        let policy = Policy {
            layers: mode.layers(),
            ..Policy::beneath(&inside)
        };
        Self {
            _root: None,
            outside: inside.with_file_name("outside"),
            inside,
            limits: Limits {
                time: Some(Duration::from_mins(1)),
                ..Limits::default()
            },
            policy: (mode != ConfinementMode::Unconfined).then_some(policy),
        }
    }

    /// The policy of a confined sandbox.
    pub(crate) fn policy(&mut self) -> &mut Policy {
        self.policy.as_mut().expect("a confined sandbox")
    }

    /// The invocation of a program in the inner directory.
    pub(crate) fn invocation(&self, program: &str, arguments: &[&str]) -> Invocation {
        let mut environment = clean_environment();
        environment.push(("TMPDIR".into(), self.inside.clone().into()));
        environment.push(("INSIDE".into(), self.inside.clone().into()));
        environment.push(("OUTSIDE".into(), self.outside.clone().into()));
        Invocation {
            arguments: arguments.iter().map(Into::into).collect(),
            environment,
            limits: self.limits,
            confinement: self.policy.clone(),
            ..Invocation::new(program, &self.inside)
        }
    }

    /// Runs a confined shell script.
    pub(crate) fn sh(&self, script: &str) -> CommandResult {
        started(&self.invocation("sh", &["-c", script]))
    }

    /// Runs a confined Python script.
    pub(crate) fn python(&self, script: &str) -> CommandResult {
        started(&self.invocation("python3", &["-c", script]))
    }
}

/// Runs a command that must start.
pub(crate) fn started(invocation: &Invocation) -> CommandResult {
    try_run(invocation).expect("the command starts")
}

pub(crate) fn try_run(invocation: &Invocation) -> Result<CommandResult, ProcessError> {
    cleveragents_process::run(invocation, &Cancel::new())
}

/// A shell script without confinement.
pub(crate) fn unconfined(script: &str) -> Invocation {
    Invocation {
        arguments: vec!["-c".into(), script.into()],
        limits: Limits {
            time: Some(Duration::from_mins(1)),
            ..Limits::default()
        },
        ..Invocation::new("sh", "/")
    }
}

pub(crate) fn stdout(finished: &CommandResult) -> String {
    String::from_utf8_lossy(&finished.stdout.bytes).into_owned()
}

pub(crate) fn stderr(finished: &CommandResult) -> String {
    String::from_utf8_lossy(&finished.stderr.bytes).into_owned()
}

/// Runs a test with every supported way to supervise a command, concurrently.
pub(crate) fn for_every(test: impl Fn(usize, ConfinementMode) + Sync) {
    thread::scope(|scope| {
        for (number, mode) in ConfinementMode::every().into_iter().enumerate() {
            let test = &test;
            scope.spawn(move || test(number, mode));
        }
    });
}

/// Waits up to 30 seconds until a condition holds; for effects of other processes.
pub(crate) fn eventually(condition: &str, mut holds: impl FnMut() -> bool) {
    let started_at = Instant::now();
    while !holds() {
        assert!(
            started_at.elapsed() < Duration::from_secs(30),
            "timed out waiting for: {condition}"
        );
        thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a process whose command line contains `mark` is alive.
pub(crate) fn is_alive(mark: &str) -> bool {
    let entries = fs::read_dir("/proc").expect("processes");
    entries.filter_map(Result::ok).any(|entry| {
        let command_line = fs::read(Path::new(&entry.path()).join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&command_line).contains(mark)
            && entry.file_name() != std::process::id().to_string().as_str()
    })
}
