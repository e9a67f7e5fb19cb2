//! A small test runner, and what the tests share: a sandbox to run commands in.

#![expect(
    clippy::print_stdout,
    reason = "a test runner tells how the tests went"
)]

use cleveragents_process::{
    Cancel, Capabilities, Finished, Invocation, Isolation, Layer, Layers, Limits, Policy,
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

/// Names functions as tests.
macro_rules! tests {
    ($($test:ident),+ $(,)?) => {
        /// The tests of this module.
        pub(crate) const TESTS: &[$crate::harness::Test] = &[$((stringify!($test), $test)),+];
    };
}
pub(crate) use tests;

/// Runs the tests whose names hold one of the arguments, or all.
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
    let left_out = AtomicUsize::new(0);
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
                    left_out.fetch_add(usize::from(outcome.starts_with("not")), Ordering::SeqCst);
                }
            });
        }
    });
    let (failed, left_out) = (failed.into_inner(), left_out.into_inner());
    let outcome = if failed == 0 { "ok" } else { "FAILED" };
    let passed = tests.len() - failed - left_out;
    println!("\ntest result: {outcome}. {passed} passed; {failed} failed; {left_out} not run");
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Thrown by a test that needs what this machine has not.
struct NotRun(&'static str);

/// Ends a test that cannot be run here, because this machine has no such thing.
pub(crate) fn not_run(what: &'static str) -> ! {
    resume_unwind(Box::new(NotRun(what)))
}

/// What this machine can enforce, asked once.
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

/// Version 6 is the first that keeps signals in.
fn has_landlock() -> bool {
    let enforced = machine().enforced.as_ref();
    enforced.is_some_and(|enforced| matches!(enforced.landlock, Layer::InForce(abi) if abi >= 6))
}

/// The test is about namespaces.
pub(crate) fn need_namespaces() {
    if !has_namespaces() {
        not_run("namespaces");
    }
}

/// The test is about Landlock.
pub(crate) fn need_landlock() {
    if !has_landlock() {
        not_run("Landlock of version 6");
    }
}

/// What holds a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Held {
    /// Every layer.
    Whole,
    /// Namespaces and mounts alone.
    Namespaces,
    /// Every layer but the namespace of processes.
    WithoutProcesses,
    /// Landlock and the filter, under a supervisor.
    Landlock,
    /// Nothing but a supervisor.
    Unconfined,
}

impl Held {
    /// The ways in which a tree of processes is supervised here.
    pub(crate) fn every() -> Vec<Self> {
        let all = [
            Self::Whole,
            Self::WithoutProcesses,
            Self::Landlock,
            Self::Unconfined,
        ];
        all.into_iter().filter(|held| held.is_possible()).collect()
    }

    /// The ways in which a command is confined here.
    pub(crate) fn confined() -> Vec<Self> {
        let all = [
            Self::Whole,
            Self::WithoutProcesses,
            Self::Landlock,
            Self::Namespaces,
        ];
        all.into_iter().filter(|held| held.is_possible()).collect()
    }

    /// Those of them that filter system calls.
    pub(crate) fn filtered() -> Vec<Self> {
        Self::confined()
            .into_iter()
            .filter(|held| *held != Self::Namespaces)
            .collect()
    }

    fn is_possible(self) -> bool {
        match self {
            Self::Whole | Self::WithoutProcesses | Self::Namespaces => has_namespaces(),
            Self::Landlock => has_landlock(),
            Self::Unconfined => true,
        }
    }

    /// The one with this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let all = [
            Self::Whole,
            Self::WithoutProcesses,
            Self::Landlock,
            Self::Namespaces,
            Self::Unconfined,
        ];
        all.into_iter().find(|held| format!("{held:?}") == name)
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

    /// Runs a program in a sandbox of its own.
    pub(crate) fn run(self, program: &str, arguments: &[&str]) -> Finished {
        started(&Sandbox::held_by(self).invocation(program, arguments))
    }

    /// Runs a shell script in a sandbox of its own.
    pub(crate) fn sh(self, script: &str) -> Finished {
        Sandbox::held_by(self).sh(script)
    }
}

/// A folder that a command may write to, and one beside it that it may not.
pub(crate) struct Sandbox {
    _root: Option<TempDir>,
    pub(crate) inside: PathBuf,
    pub(crate) outside: PathBuf,
    pub(crate) limits: Limits,
    /// How its commands are confined.
    pub(crate) policy: Option<Policy>,
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        Self::held_by(Held::Whole)
    }

    pub(crate) fn held_by(held: Held) -> Self {
        let root = tempfile::tempdir().expect("a temporary folder");
        let path = fs::canonicalize(root.path()).expect("its path");
        let (inside, outside) = (path.join("inside"), path.join("outside"));
        fs::create_dir(&inside).expect("a folder inside");
        fs::create_dir(&outside).expect("a folder outside");
        Self {
            _root: Some(root),
            ..Self::at(inside, held)
        }
    }

    /// A sandbox in a folder that someone else made.
    pub(crate) fn at(inside: PathBuf, held: Held) -> Self {
        let policy = Policy {
            layers: held.layers(),
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
            policy: (held != Held::Unconfined).then_some(policy),
        }
    }

    /// The policy of a sandbox that has one.
    pub(crate) fn policy(&mut self) -> &mut Policy {
        self.policy.as_mut().expect("a confined sandbox")
    }

    /// The invocation of a program in the folder inside.
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
    pub(crate) fn sh(&self, script: &str) -> Finished {
        started(&self.invocation("sh", &["-c", script]))
    }

    /// Runs a confined Python script.
    pub(crate) fn python(&self, script: &str) -> Finished {
        started(&self.invocation("python3", &["-c", script]))
    }
}

/// Runs what has to start.
pub(crate) fn started(invocation: &Invocation) -> Finished {
    try_run(invocation).expect("the command starts")
}

pub(crate) fn try_run(invocation: &Invocation) -> Result<Finished, ProcessError> {
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

pub(crate) fn stdout(finished: &Finished) -> String {
    String::from_utf8_lossy(&finished.stdout.bytes).into_owned()
}

pub(crate) fn stderr(finished: &Finished) -> String {
    String::from_utf8_lossy(&finished.stderr.bytes).into_owned()
}

/// Tries something with everything that can hold a command, at the same time.
pub(crate) fn for_every(test: impl Fn(usize, Held) + Sync) {
    thread::scope(|scope| {
        for (number, held) in Held::every().into_iter().enumerate() {
            let test = &test;
            scope.spawn(move || test(number, held));
        }
    });
}

/// Waits until something holds; for what other processes do.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "{what} did not come about"
        );
        thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a process with this command line lives.
pub(crate) fn lives(mark: &str) -> bool {
    let entries = fs::read_dir("/proc").expect("processes");
    entries.filter_map(Result::ok).any(|entry| {
        let shown = fs::read(Path::new(&entry.path()).join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&shown).contains(mark)
            && entry.file_name() != std::process::id().to_string().as_str()
    })
}
