//! `demo`: a guided tour on a temporary database, by doing.
//!
//! Every line it prints was measured from what just happened, in this process or in children that
//! run this same program.

mod sandbox;
mod turn;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Barrier};

use cleveragents_domain::{
    Code, ContentHash, DEFAULT_MAX_CONTENT_BYTES, EntryNumber, FileMode, FileState, LeaseSubject,
    Metadata, NewChange, Operation, Role, Sequence, Ttl,
};
use cleveragents_engine::{LeaseService, PlanExecutionContext, SessionService, current_owner};
use cleveragents_store::{DatabaseUrl, Engine, EngineCache, Options};
use serde_json::{Value, json};

use crate::context::Context;
use crate::output::{CommandError, Panel, Progress, Report};

/// One stop of the tour: what is promised, and what was seen.
struct Stop {
    title: &'static str,
    promise: &'static str,
    seen: String,
    facts: Value,
}

/// Goes to a stop and tells what was seen there.
type Visit = fn(&Tour) -> Result<Stop, CommandError>;

pub(crate) fn run(context: &Context) -> Result<Report, CommandError> {
    let folder = tempfile::tempdir().map_err(|error| failure("make a temporary folder", &error))?;
    let url = DatabaseUrl::file(Path::new("cleveragents.db"), folder.path());
    let engine = EngineCache::new(Options::default()).open(&url)?;
    let tour: [Visit; 7] = [
        one_engine,
        threads_append,
        killed_stream,
        changesets,
        lease_fencing,
        sandbox::works_in_a_copy,
        turn::acts_through_tools,
    ];
    let tour_place = Tour {
        engine,
        url,
        home: folder.path().to_path_buf(),
    };
    let progress = Progress::bar(&context.printer, "Touring", tour.len() as u64);
    let mut report = Report::new("demo");
    let mut stops = Vec::new();
    for (done, stop) in tour.into_iter().enumerate() {
        let stop = stop(&tour_place)?;
        progress.set(done as u64 + 1);
        stops.push(json!({"title": stop.title, "promise": stop.promise, "seen": stop.seen, "facts": stop.facts}));
        report = report.panel(
            Panel::new(stop.title)
                .row("Promise", stop.promise)
                .row("Seen", stop.seen),
        );
    }
    progress.finish();
    Ok(report
        .data(json!({"stops": stops}))
        .text(
            "Try it yourself:\n  agents session create --name hello\n  agents session append hello --role user 'Hi there'\n  agents session show hello\n  agents sandbox create try --path .\n  agents sandbox exec try -- sh -c 'date > when.txt'\n  agents sandbox diff try",
        )
        .ok("The tour is over; its database is gone"))
}

struct Tour {
    engine: Arc<Engine>,
    url: DatabaseUrl,
    home: std::path::PathBuf,
}

fn failure(action: &str, error: &std::io::Error) -> CommandError {
    CommandError::new(Code::FileAccess, format!("cannot {action}")).caused_by(error)
}

fn broken(what: &str) -> CommandError {
    CommandError::internal(format!("the demo saw a broken promise: {what}"))
}

impl Tour {
    fn sessions(&self) -> SessionService {
        SessionService::new(Arc::clone(&self.engine), DEFAULT_MAX_CONTENT_BYTES)
    }
}

/// Runs a closure on so many threads, released together, and collects what they give.
fn together<T: Send + 'static>(
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
        .map(|thread| thread.join().map_err(|_| broken("a thread panicked"))?)
        .collect()
}

fn one_engine(_: &Tour) -> Result<Stop, CommandError> {
    const THREADS: usize = 64;
    let cache = Arc::new(EngineCache::new(Options::default()));
    let url = DatabaseUrl::memory("demo");
    let engines = together(THREADS, move |_| Ok(cache.open(&url)?))?;
    let first = engines.first().ok_or_else(|| broken("no engine"))?;
    let same = engines
        .iter()
        .filter(|engine| Arc::ptr_eq(engine, first))
        .count();
    let migrations = first.status()?.applied.len();
    if same != THREADS {
        return Err(broken("one URL got several engines"));
    }
    Ok(Stop {
        title: "1. One engine per database",
        promise: "Threads that open one database at the same instant share one engine, migrated once",
        seen: format!(
            "{THREADS} threads got {same} handles of 1 engine; {} ran once",
            super::counted(migrations, "migration")
        ),
        facts: json!({"threads": THREADS, "engines": 1, "migrations": migrations}),
    })
}

fn threads_append(tour: &Tour) -> Result<Stop, CommandError> {
    const THREADS: usize = 16;
    const EACH: usize = 50;
    let sessions = tour.sessions();
    let id = sessions.create(None, None, "supervised")?.id;
    let writer = sessions.clone();
    let numbers = together(THREADS, move |thread| {
        (0..EACH)
            .map(|number| {
                let text = format!("message {number} of thread {thread}");
                Ok(writer
                    .append_message(id, Role::User, text, Metadata::new())?
                    .sequence
                    .0)
            })
            .collect::<Result<Vec<u64>, CommandError>>()
    })?;
    let mut all: Vec<u64> = numbers.into_iter().flatten().collect();
    all.sort_unstable();
    if !all.iter().copied().eq(0..(THREADS * EACH) as u64) {
        return Err(broken("message numbers have a gap or a duplicate"));
    }
    Ok(Stop {
        title: "2. Message numbers without gap or duplicate",
        promise: "Whoever appends at the same time, messages are numbered 0, 1, 2, …",
        seen: format!(
            "{THREADS} threads appended {} messages, numbered 0 to {}",
            all.len(),
            all.len() - 1
        ),
        facts: json!({"threads": THREADS, "messages": all.len()}),
    })
}

fn killed_stream(tour: &Tour) -> Result<Stop, CommandError> {
    const ACKNOWLEDGED: usize = 40;
    let sessions = tour.sessions();
    let id = sessions.create(None, None, "supervised")?.id;
    let program = std::env::current_exe().map_err(|error| failure("find this program", &error))?;
    let mut child = Command::new(program)
        .args(["session", "append", &id.to_string(), "--jsonl", "-"])
        .arg("--database-url")
        .arg(tour.url.to_string())
        .env("CLEVERAGENTS_HOME", &tour.home)
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
    let output = output.ok_or_else(|| broken("the second process has no output"))?;
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
    let late = lines
        .map_while(Result::ok)
        .filter(|line| line.ends_with('}'))
        .count();
    if let Some(feeder) = feeder {
        feeder
            .join()
            .map_err(|_| broken("the feeding thread panicked"))?;
    }
    let acknowledged = ACKNOWLEDGED + late;
    let stored = sessions.messages(id, Sequence(0), u64::from(u32::MAX))?;
    let next = sessions.append_message(
        id,
        Role::User,
        "after the crash".to_owned(),
        Metadata::new(),
    )?;
    if stored.len() < acknowledged || next.sequence.0 != stored.len() as u64 {
        return Err(broken("a crash lost an acknowledged message or left a gap"));
    }
    Ok(Stop {
        title: "3. A crash loses nothing that was acknowledged",
        promise: "A message is acknowledged when it is on disk, and not before",
        seen: format!(
            "a process was killed with {acknowledged} messages acknowledged; {} are stored, the next got number {}",
            stored.len(),
            next.sequence
        ),
        facts: json!({"acknowledged": acknowledged, "stored": stored.len(), "next": next.sequence}),
    })
}

fn change(path: &str) -> Result<NewChange, CommandError> {
    let after = FileState {
        hash: ContentHash::of(path.as_bytes()),
        size: path.len() as u64,
        mode: FileMode::REGULAR,
    };
    NewChange::new("demo", path, Operation::Create { after })
        .map_err(|error| CommandError::internal(error.to_string()))
}

fn changesets(tour: &Tour) -> Result<Stop, CommandError> {
    const THREADS: usize = 8;
    const EACH: usize = 25;
    let plan = PlanExecutionContext::create_plan(&tour.engine)?;
    let shared = PlanExecutionContext::new(Arc::clone(&tour.engine), plan)?;
    let context = shared.clone();
    let ids = together(THREADS, move |thread| {
        let changeset = context.start_changeset()?;
        for number in 0..EACH {
            changeset.record(&change(&format!("thread-{thread}/file-{number}"))?)?;
        }
        Ok((thread, changeset.close()?.id))
    })?;
    for (thread, id) in &ids {
        let entries = shared.entries(*id, EntryNumber(0), u64::from(u32::MAX))?;
        let own = format!("thread-{thread}/");
        if entries.len() != EACH
            || !entries
                .iter()
                .all(|entry| entry.change.path().starts_with(&own))
        {
            return Err(broken("a change landed in another changeset"));
        }
    }
    Ok(Stop {
        title: "4. Every change in the changeset its caller opened",
        promise: "Changes are recorded through the handle of a changeset, so they can land in no other",
        seen: format!(
            "{THREADS} threads recorded {EACH} changes each on one plan; every one is in its own changeset"
        ),
        facts: json!({"threads": THREADS, "changes": THREADS * EACH}),
    })
}

fn lease_fencing(tour: &Tour) -> Result<Stop, CommandError> {
    let plan = PlanExecutionContext::create_plan(&tour.engine)?;
    let subject = LeaseSubject::new("plan", plan);
    // An owner that died: a process of this machine that no longer runs.
    let mut ended = Command::new("true")
        .spawn()
        .map_err(|error| failure("start a process", &error))?;
    let mut dead = current_owner();
    dead.pid = ended.id();
    dead.pid_started += 1;
    ended
        .wait()
        .map_err(|error| failure("wait for a process", &error))?;
    let sleeper = LeaseService::acting_for(Arc::clone(&tour.engine), dead)
        .acquire(subject.clone(), Ttl::default())?;
    let stale = PlanExecutionContext::under_lease(Arc::clone(&tour.engine), plan, &sleeper)?;
    let successor = LeaseService::new(Arc::clone(&tour.engine)).acquire(subject, Ttl::default())?;
    let refused = stale
        .start_changeset()
        .err()
        .ok_or_else(|| broken("an old token could still write"))?;
    Ok(Stop {
        title: "5. One owner at a time",
        promise: "Whoever lost its lease can write nothing any more, however late it wakes up",
        seen: format!(
            "token {} took over from token {}; the late write was refused: {refused}",
            successor.token(),
            sleeper.token()
        ),
        facts: json!({"old_token": sleeper.token(), "new_token": successor.token()}),
    })
}
