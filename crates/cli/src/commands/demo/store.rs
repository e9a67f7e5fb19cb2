//! Demo steps about the database.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::sync::{Arc, Barrier};

use cleveragents_domain::{Metadata, Role, Sequence};
use serde_json::json;

use super::{Demo, StepResult, failure, violated};
use crate::output::CommandError;

/// Runs a closure on `threads` threads that start at the same time, and collects the results.
fn run_concurrently<T: Send + 'static>(
    threads: usize,
    work: impl Fn(usize) -> Result<T, CommandError> + Send + Sync + 'static,
) -> Result<Vec<T>, CommandError> {
    let (work, barrier) = (Arc::new(work), Arc::new(Barrier::new(threads)));
    let running: Vec<_> = (0..threads)
        .map(|number| {
            let (work, barrier) = (Arc::clone(&work), Arc::clone(&barrier));
            std::thread::spawn(move || {
                barrier.wait();
                work(number)
            })
        })
        .collect();
    running
        .into_iter()
        .map(|thread| thread.join().map_err(|_| violated("a thread panicked"))?)
        .collect()
}

pub(super) fn threads_append(demo: &Demo) -> Result<StepResult, CommandError> {
    const THREADS: usize = 16;
    const MESSAGES_PER_THREAD: usize = 50;
    let sessions = demo.sessions();
    let id = sessions.create(None, None, "supervised")?.id;
    let writer = sessions.clone();
    let numbers = run_concurrently(THREADS, move |thread| {
        (0..MESSAGES_PER_THREAD)
            .map(|number| {
                let text = format!("message {number} of thread {thread}");
                Ok(writer
                    .append_message(id, Role::User, text, Metadata::new())?
                    .sequence
                    .0)
            })
            .collect::<Result<Vec<u64>, CommandError>>()
    })?;
    let mut sequences: Vec<u64> = numbers.into_iter().flatten().collect();
    sequences.sort_unstable();
    if !sequences
        .iter()
        .copied()
        .eq(0..(THREADS * MESSAGES_PER_THREAD) as u64)
    {
        return Err(violated("message numbers have a gap or a duplicate"));
    }
    Ok(StepResult {
        title: "Storage: message numbers without gap or duplicate",
        promise: "Messages are numbered 0, 1, 2, … also with concurrent writers",
        seen: format!(
            "{THREADS} threads appended {} messages, numbered 0 to {}",
            sequences.len(),
            sequences.len() - 1
        ),
        facts: json!({"threads": THREADS, "messages": sequences.len()}),
        shown: String::new(),
    })
}

pub(super) fn killed_stream(demo: &Demo) -> Result<StepResult, CommandError> {
    const ACKNOWLEDGED: usize = 40;
    let sessions = demo.sessions();
    let id = sessions.create(None, None, "supervised")?.id;
    let mut child = demo
        .program()?
        .args(["session", "append", &id.to_string(), "--jsonl", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| failure("start a second process", &error))?;
    let (input, output) = (child.stdin.take(), child.stdout.take());
    let feeder = input.map(|mut input| {
        std::thread::spawn(move || {
            // Ends when the child is killed and the pipe breaks.
            for number in 0.. {
                if writeln!(input, "{{\"content\": \"line {number}\"}}").is_err() {
                    break;
                }
            }
        })
    });
    let output = output.ok_or_else(|| violated("the second process has no output"))?;
    let mut lines = BufReader::new(output).lines();
    for _ in 0..ACKNOWLEDGED {
        lines
            .next()
            .transpose()
            .map_err(|error| failure("read an acknowledgement", &error))?;
    }
    child
        .kill()
        .and_then(|()| child.wait())
        .map_err(|error| failure("kill the second process", &error))?;
    let acknowledged_later = lines
        .map_while(Result::ok)
        .filter(|line| line.ends_with('}'))
        .count();
    if let Some(feeder) = feeder {
        feeder
            .join()
            .map_err(|_| violated("the feeding thread panicked"))?;
    }
    let acknowledged = ACKNOWLEDGED + acknowledged_later;
    let stored = sessions.messages(id, Sequence(0), u64::from(u32::MAX))?;
    let next = sessions.append_message(
        id,
        Role::User,
        "after the crash".to_owned(),
        Metadata::new(),
    )?;
    if stored.len() < acknowledged || next.sequence.0 != stored.len() as u64 {
        return Err(violated(
            "a crash lost an acknowledged message or left a gap",
        ));
    }
    Ok(StepResult {
        title: "Storage: a crash loses no acknowledged message",
        promise: "A message is acknowledged only after it is on disk",
        seen: format!(
            "a process was killed with {acknowledged} messages acknowledged; {} are stored, the next one got number {}",
            stored.len(),
            next.sequence
        ),
        facts: json!({"acknowledged": acknowledged, "stored": stored.len(), "next": next.sequence}),
        shown: String::new(),
    })
}
