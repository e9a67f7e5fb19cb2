//! Child processes: the running test, started again in its own process.
//!
//! A test that needs other processes begins with [`child_input`], which returns `None` in the parent and the parent's
//! input in a [`Child`]. A child sends lines with [`send_line`], and can wait in [`wait_for_release`] until all its
//! siblings are ready.

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

const INPUT: &str = "CLEVERAGENTS_TEST_CHILD_INPUT";
/// Distinguishes lines of a child from the output of the test harness.
const MARK: &str = "output of the child: ";
const READY: &str = "ready";

/// Input from the parent; `None` when this process is not a child.
pub fn child_input() -> Option<String> {
    std::env::var(INPUT).ok()
}

/// Sends one line to the parent.
pub fn send_line(line: impl std::fmt::Display) {
    println!("{MARK}{line}");
    std::io::stdout().flush().expect("the parent reads");
}

/// Reports to the parent that this child is ready, and waits until the parent releases it.
pub fn wait_for_release() {
    send_line(READY);
    let mut line = String::new();
    std::io::stdin()
        .read_line(&mut line)
        .expect("the parent writes");
}

/// A running child.
#[derive(Debug)]
pub struct Child {
    process: std::process::Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Child {
    /// Runs the test with this name again, in its own process, with an input.
    pub fn start(test: &str, input: &str) -> Self {
        let program = std::env::current_exe().expect("the path of this program");
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

    /// Starts `count` children, waits until all are in [`wait_for_release`], releases them together, and returns the
    /// lines of each. All must succeed.
    pub fn race(count: usize, test: &str, input: impl Fn(usize) -> String) -> Vec<Vec<String>> {
        let mut children: Vec<Self> = (0..count)
            .map(|index| Self::start(test, &input(index)))
            .collect();
        for child in &mut children {
            assert_eq!(
                child.read_line().as_deref(),
                Some(READY),
                "the child waits for its release"
            );
        }
        for child in &mut children {
            child.release();
        }
        children.into_iter().map(Self::finish).collect()
    }

    /// Process id of the child.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Releases a waiting child.
    pub fn release(&mut self) {
        let input = self.input.as_mut().expect("a running child has an input");
        input.write_all(b"go\n").expect("the child reads");
    }

    /// Returns the next line of the child; `None` after it has ended.
    pub fn read_line(&mut self) -> Option<String> {
        let mut line = String::new();
        loop {
            line.clear();
            if self
                .output
                .read_line(&mut line)
                .expect("the child writes UTF-8")
                == 0
            {
                return None;
            }
            if let Some((_, message)) = line.trim_end().split_once(MARK) {
                return Some(message.to_owned());
            }
        }
    }

    /// Kills the child (`kill -9`) and waits until it has ended.
    pub fn kill(mut self) {
        self.process.kill().expect("a running child can be killed");
        self.process.wait().expect("a killed child is reaped");
    }

    /// Waits for the child to succeed and returns its remaining lines.
    pub fn finish(mut self) -> Vec<String> {
        drop(self.input.take());
        let message: Vec<String> = std::iter::from_fn(|| self.read_line()).collect();
        let status = self.process.wait().expect("the child can be waited for");
        assert!(
            status.success(),
            "the child ended with {status}; its last lines: {message:?}"
        );
        message
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // A failing test must not leave its children behind. Both calls fail for a child that has already ended.
        let _killed = self.process.kill();
        let _reaped = self.process.wait();
    }
}
