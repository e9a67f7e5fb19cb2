//! Measures appending to sessions and paging through them.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use cleveragents_application::SessionService;
use cleveragents_domain::{DEFAULT_MAX_CONTENT_BYTES, Metadata, Role, Sequence, SessionId};
use cleveragents_store::{DatabaseUrl, EngineCache, Options};
use serde_json::json;

use crate::{Findings, Row, raw};

/// Number of measurements of our store and of raw SQLite. The best result of each counts, because noise can only make
/// a run slower.
const ROUNDS: usize = 3;

pub(crate) fn content() -> String {
    "The quick brown fox jumps over the lazy dog, again and again. 64".to_owned()
}

struct Place {
    folder: tempfile::TempDir,
    service: SessionService,
    session: SessionId,
}

fn place() -> anyhow::Result<Place> {
    let folder = tempfile::tempdir_in(std::env::current_dir()?)?;
    let url = DatabaseUrl::file(Path::new("bench.db"), folder.path());
    let engine = EngineCache::new(Options::default()).open(&url)?;
    let service = SessionService::new(engine, DEFAULT_MAX_CONTENT_BYTES);
    let session = service.create(None, None, "supervised")?.id;
    Ok(Place {
        folder,
        service,
        session,
    })
}

/// State of the messages after one measurement.
#[derive(Debug, Default, Clone, Copy, serde::Serialize)]
struct Counts {
    stored: u64,
    lost: u64,
    duplicated: u64,
    refused: u64,
}

/// The acknowledged sequence numbers of one writer's messages.
struct WriterLog {
    thread: usize,
    accepted: Vec<(u64, u64)>,
    refused: u64,
}

/// A text of 64 bytes that is unique in the run.
fn unique(thread: usize, number: u64) -> String {
    format!("{:.<64}", format!("message {number} of writer {thread} "))
}

/// Appends per second from `writers` threads.
pub(crate) fn rate(writers: usize, time: Duration) -> anyhow::Result<f64> {
    Ok(append_rate(writers, time)?.0)
}

/// Appends from `writers` threads to one session, reads all messages back, and returns the rate and their state.
#[expect(clippy::cast_precision_loss, reason = "a rate")]
fn append_rate(writers: usize, time: Duration) -> anyhow::Result<(f64, Counts)> {
    let place = place()?;
    let barrier = Arc::new(Barrier::new(writers + 1));
    let threads: Vec<_> = (0..writers)
        .map(|thread| {
            let (service, session, barrier) =
                (place.service.clone(), place.session, Arc::clone(&barrier));
            std::thread::spawn(move || {
                barrier.wait();
                let started = Instant::now();
                let (mut accepted, mut refused) = (Vec::new(), 0);
                for number in 0.. {
                    if started.elapsed() >= time {
                        break;
                    }
                    let text = unique(thread, number);
                    match service.append_message(session, Role::User, text, Metadata::new()) {
                        Ok(stored) => accepted.push((stored.sequence.0, number)),
                        Err(_) => refused += 1,
                    }
                }
                WriterLog {
                    thread,
                    accepted,
                    refused,
                }
            })
        })
        .collect();
    barrier.wait();
    let started = Instant::now();
    let mut finished = Vec::new();
    for thread in threads {
        finished.push(
            thread
                .join()
                .map_err(|_| anyhow::anyhow!("a writer panicked"))?,
        );
    }
    let seconds = started.elapsed().as_secs_f64();
    let counts = read_back(&place, &finished)?;
    Ok(((counts.stored - counts.duplicated) as f64 / seconds, counts))
}

/// Compares the stored messages with the acknowledged ones, by text and number.
fn read_back(place: &Place, finished: &[WriterLog]) -> anyhow::Result<Counts> {
    let mut stored = HashMap::new();
    let mut counts = Counts::default();
    let mut next = 0;
    loop {
        let page = place
            .service
            .messages(place.session, Sequence(next), 10_000)?;
        let Some(last) = page.last() else {
            break;
        };
        next = last.sequence.0 + 1;
        for message in page {
            counts.stored += 1;
            if stored.insert(message.content, message.sequence.0).is_some() {
                counts.duplicated += 1;
            }
        }
    }
    for writer in finished {
        counts.refused += writer.refused;
        for (sequence, number) in &writer.accepted {
            if stored.get(&unique(writer.thread, *number)) != Some(sequence) {
                counts.lost += 1;
            }
        }
    }
    ensure!(
        next == counts.stored,
        "the next sequence number is {next}, but {} messages are stored",
        counts.stored
    );
    Ok(counts)
}

fn raw_rate(rows_per_commit: u64, time: Duration) -> anyhow::Result<f64> {
    let place = place()?;
    let session = place.session.to_string();
    let path = place.folder.path().join("bench.db");
    drop(place.service);
    raw::append_rate(
        &mut raw::open(&path)?,
        &session,
        &content(),
        rows_per_commit,
        time,
    )
}

fn row(name: &str, ours: f64, other: f64, unit: &'static str, note: &str) -> Row {
    Row {
        name: name.to_owned(),
        ours,
        other,
        ratio: ours / other,
        unit,
        note: note.to_owned(),
    }
}

pub(crate) fn run(
    writers: &[usize],
    seconds: f64,
    long: u64,
    agents: Option<&Path>,
) -> anyhow::Result<Findings> {
    let time = Duration::from_secs_f64(seconds);
    let mut rows = Vec::new();
    let mut ours_rates = serde_json::Map::new();
    let mut counts = serde_json::Map::new();
    for &writers in writers {
        let (mut ours, mut other) = (0.0_f64, 0.0_f64);
        for _ in 0..ROUNDS {
            other = other.max(raw_rate(writers as u64, time)?);
            let (rate, seen) = append_rate(writers, time)?;
            ours = ours.max(rate);
            counts.insert(format!("append_{writers}"), json!(seen));
            ensure!(seen.lost + seen.duplicated + seen.refused == 0, "{seen:?}");
        }
        let note = format!("raw SQLite, {writers} rows a commit, synchronous=FULL");
        rows.push(row(
            &format!("append, {writers} writers, vs raw"),
            ours,
            other,
            "1/s",
            &note,
        ));
        ours_rates.insert(format!("append_{writers}"), json!(ours));
    }
    rows.extend(long_session(long)?);
    if let Some(agents) = agents {
        rows.extend(start_up(agents)?);
    }
    Ok(Findings {
        rows,
        ours: ours_rates,
        counts: counts.into(),
    })
}

/// Measures one append and reading the last page, for a short and for a long session.
fn long_session(long: u64) -> anyhow::Result<Vec<Row>> {
    const SHORT: u64 = 1_000;
    let place = place()?;
    let fill = |from: u64, to: u64| -> anyhow::Result<()> {
        let mut next = from;
        while next < to {
            let step = (to - next).min(5_000);
            let batch = (0..step)
                .map(|_| {
                    place
                        .service
                        .message(Role::User, content(), Metadata::new())
                })
                .collect::<Result<Vec<_>, _>>()?;
            place.service.append_messages(place.session, batch)?;
            next += step;
        }
        Ok(())
    };
    let append_micros = || -> anyhow::Result<f64> {
        micros_each(600, || {
            place
                .service
                .append_message(place.session, Role::User, content(), Metadata::new())?;
            Ok(())
        })
    };
    let tail_micros = || -> anyhow::Result<f64> {
        let count = place.service.get(place.session)?.message_count;
        micros_each(2_000, || {
            let page =
                place
                    .service
                    .messages(place.session, Sequence(count.saturating_sub(50)), 50)?;
            ensure!(page.len() == 50, "a page of the tail holds 50 messages");
            Ok(())
        })
    };
    fill(0, SHORT)?;
    let (append_short, tail_short) = (append_micros()?, tail_micros()?);
    let present = place.service.get(place.session)?.message_count;
    fill(present, long)?;
    let (append_long, tail_long) = (append_micros()?, tail_micros()?);
    let note = format!("session of {long} messages vs {SHORT}; target: a ratio of at most 1.5");
    Ok(vec![
        row(
            "append at the end of a long session",
            append_long,
            append_short,
            "us",
            &note,
        ),
        row(
            "page the tail of a long session",
            tail_long,
            tail_short,
            "us",
            &note,
        ),
    ])
}

/// The median time of a call, in microseconds.
fn micros_each(times: usize, mut call: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let mut times_measured = Vec::with_capacity(times);
    for _ in 0..times {
        let started = Instant::now();
        call()?;
        times_measured.push(started.elapsed().as_secs_f64() * 1e6);
    }
    times_measured.sort_by(f64::total_cmp);
    times_measured
        .get(times / 2)
        .copied()
        .context("no call was measured")
}

/// Measures the duration of whole commands, compared with a process that does nothing.
fn start_up(agents: &Path) -> anyhow::Result<Vec<Row>> {
    const SESSIONS: u32 = 10_000;
    let home = tempfile::tempdir_in(std::env::current_dir()?)?;
    let url = DatabaseUrl::file(Path::new("cleveragents.db"), home.path());
    let engine = EngineCache::new(Options::default()).open(&url)?;
    let threads: Vec<_> = (0..64)
        .map(|thread| {
            let service = SessionService::new(Arc::clone(&engine), DEFAULT_MAX_CONTENT_BYTES);
            std::thread::spawn(move || -> anyhow::Result<()> {
                for number in (thread..SESSIONS).step_by(64) {
                    service.create(
                        Some(format!("session {number}").parse()?),
                        None,
                        "supervised",
                    )?;
                }
                Ok(())
            })
        })
        .collect();
    for thread in threads {
        thread
            .join()
            .map_err(|_| anyhow::anyhow!("a writer panicked"))??;
    }
    drop(engine);
    let timed = |program: &Path, arguments: &[&str]| {
        micros_each(40, || {
            let output = Command::new(program)
                .args(arguments)
                .env("CLEVERAGENTS_HOME", home.path())
                .output()?;
            ensure!(output.status.success(), "{} failed", program.display());
            Ok(())
        })
        .map(|micros| micros / 1000.0)
    };
    let nothing = timed(Path::new("/bin/true"), &[])?;
    Ok(vec![
        row(
            "agents version",
            timed(agents, &["version"])?,
            nothing,
            "ms",
            "whole process vs /bin/true; under 15 ms",
        ),
        row(
            "agents session list, 10,000 sessions",
            timed(agents, &["session", "list", "--format", "json"])?,
            nothing,
            "ms",
            "whole process vs /bin/true; under 50 ms",
        ),
    ])
}
