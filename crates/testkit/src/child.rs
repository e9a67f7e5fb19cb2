//! Children: the test that is running, run once more in a process of its own.
//!
//! A test that needs other processes begins with [`child_input`]: in the parent that is `None`, in
//! a [`Child`] it is what the parent gave it. The child tells things with [`say`] and can be held
//! at [`wait_for_go`] until all its siblings are there.

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

const INPUT: &str = "CLEVERAGENTS_TEST_CHILD_INPUT";
/// Sets what a child says apart from what the test harness prints.
const MARK: &str = "the child says: ";
const READY: &str = "ready";

/// What the parent gave this process, `None` when it is not a child.
pub fn child_input() -> Option<String> {
    std::env::var(INPUT).ok()
}

/// Tells the parent one line.
pub fn say(line: impl std::fmt::Display) {
    println!("{MARK}{line}");
    std::io::stdout().flush().expect("the parent listens");
}

/// Tells the parent that this child is ready and waits until it may go on.
pub fn wait_for_go() {
    say(READY);
    let mut line = String::new();
    std::io::stdin()
        .read_line(&mut line)
        .expect("the parent speaks");
}

/// A running child.
#[derive(Debug)]
pub struct Child {
    process: std::process::Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Child {
    /// Runs the test with this name once more, in its own process, with an input.
    pub fn start(test: &str, input: &str) -> Self {
        let program = std::env::current_exe().expect("the test knows its program");
        let mut process = Command::new(program)
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(INPUT, input)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the child starts");
        let input = process.stdin.take();
        let output = BufReader::new(process.stdout.take().expect("its output is a pipe"));
        Self {
            process,
            input,
            output,
        }
    }

    /// Starts so many children, holds them at [`wait_for_go`], lets all go together, and gives
    /// what each one said. All must end well.
    pub fn race(count: usize, test: &str, input: impl Fn(usize) -> String) -> Vec<Vec<String>> {
        let mut children: Vec<Self> = (0..count)
            .map(|index| Self::start(test, &input(index)))
            .collect();
        for child in &mut children {
            assert_eq!(
                child.hear().as_deref(),
                Some(READY),
                "the child waits to go"
            );
        }
        for child in &mut children {
            child.go();
        }
        children.into_iter().map(Self::finish).collect()
    }

    /// The operating system's number of the child.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Lets a child go that waits.
    pub fn go(&mut self) {
        let input = self.input.as_mut().expect("a running child has an input");
        input.write_all(b"go\n").expect("the child listens");
    }

    /// The next thing the child says, `None` when it has ended.
    pub fn hear(&mut self) -> Option<String> {
        let mut line = String::new();
        loop {
            line.clear();
            if self
                .output
                .read_line(&mut line)
                .expect("the child speaks UTF-8")
                == 0
            {
                return None;
            }
            if let Some((_, said)) = line.trim_end().split_once(MARK) {
                return Some(said.to_owned());
            }
        }
    }

    /// Kills the child at once (`kill -9`) and waits until it is gone.
    pub fn kill(mut self) {
        self.process.kill().expect("a running child can be killed");
        self.process.wait().expect("a killed child is reaped");
    }

    /// Waits for the child to end well and gives what else it said.
    pub fn finish(mut self) -> Vec<String> {
        drop(self.input.take());
        let said: Vec<String> = std::iter::from_fn(|| self.hear()).collect();
        let status = self.process.wait().expect("the child can be waited for");
        assert!(
            status.success(),
            "the child ended with {status}; it said {said:?}"
        );
        said
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // A test that fails must not leave its children behind; one that has ended is no matter.
        let _killed = self.process.kill();
        let _reaped = self.process.wait();
    }
}
