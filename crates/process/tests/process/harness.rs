//! A small test runner, and what the tests share: a sandbox to run commands in.

#![expect(
    clippy::print_stdout,
    reason = "a test runner tells how the tests went"
)]

use cleveragents_process::{
    Cancel, Finished, Invocation, Isolation, Layers, Limits, Policy, ProcessError,
    clean_environment,
};
use std::ffi::OsString;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
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
    let next = AtomicUsize::new(0);
    let failed = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(2, Into::into).min(8) {
            scope.spawn(|| {
                while let Some((name, test)) = tests.get(next.fetch_add(1, Ordering::SeqCst)) {
                    let passed = catch_unwind(test).is_ok();
                    println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
                    failed.fetch_add(usize::from(!passed), Ordering::SeqCst);
                }
            });
        }
    });
    let failed = failed.into_inner();
    let outcome = if failed == 0 { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {outcome}. {} passed; {failed} failed",
        tests.len() - failed
    );
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
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
    /// The ways in which a tree of processes is supervised.
    pub(crate) const EVERY: [Self; 4] = [
        Self::Whole,
        Self::WithoutProcesses,
        Self::Landlock,
        Self::Unconfined,
    ];
    /// The ways in which a command is confined.
    pub(crate) const CONFINED: [Self; 4] = [
        Self::Whole,
        Self::WithoutProcesses,
        Self::Landlock,
        Self::Namespaces,
    ];

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
