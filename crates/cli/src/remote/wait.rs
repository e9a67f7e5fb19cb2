//! `plan wait` against a server: it is asked again and again, and what happened meanwhile is told.

use std::time::{Duration, Instant};

use cleveragents_domain::Position;
use serde_json::{Value, json};

use super::follow::{FAILURES, ask, event, is_for_now};
use super::{CLI, Connection, watched};
use crate::commands::plan::log::line;
use crate::commands::plan::wait::expired;
use crate::context::Context;
use crate::output::CommandError;

/// How long to wait before asking again.
const PAUSE: Duration = Duration::from_millis(500);

/// So many events are asked for: more do not happen between two questions.
const LAST: u64 = 1_000;

/// Waits, and gives the last answer of the server.
pub(super) fn run(
    context: &Context,
    connection: &Connection,
    command: &Value,
    timeout: Option<u64>,
) -> Result<Value, CommandError> {
    let end = timeout.and_then(|seconds| Instant::now().checked_add(Duration::from_secs(seconds)));
    let tells = context.printer.format().is_human();
    let reference = &command["parameters"]["reference"];
    let mut log = Log::default();
    if tells {
        log.read(connection, command, reference, |_| {})?;
    }
    // The first answer says when nobody works on it.
    let mut answer = watched(context, connection, command)?;
    let mut failures = 0;
    loop {
        if tells {
            let tell = |text: String| context.live.err(&format!("{text}\n"));
            log.read(connection, command, reference, tell)?;
        }
        let details = &answer["error"]["details"];
        let (Some(plan), Some(stage)) = (details["plan_id"].as_str(), details["stage"].as_str())
        else {
            return Ok(answer);
        };
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Err(expired(plan, stage, timeout.unwrap_or_default()));
        }
        std::thread::sleep(left.map_or(PAUSE, |left| left.min(PAUSE)));
        match connection.post(CLI, command) {
            Ok(next) => (answer, failures) = (next, 0),
            // It may be started again, and then it is there.
            Err(error) if is_for_now(&error) && failures < FAILURES => failures += 1,
            Err(error) => return Err(error),
        }
    }
}

/// What of the log of a plan was told already.
#[derive(Default)]
struct Log {
    position: Position,
}

impl Log {
    /// Tells what is new in the log. A server that is not there for the moment has nothing new.
    fn read(
        &mut self,
        connection: &Connection,
        command: &Value,
        reference: &Value,
        mut tell: impl FnMut(String),
    ) -> Result<(), CommandError> {
        let parameters = json!({"reference": reference, "limit": LAST});
        let log = match ask(connection, command, "plan/log", &parameters) {
            Ok(log) => log,
            Err(error) if is_for_now(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        for told in log["events"].as_array().into_iter().flatten() {
            let mut told = told.clone();
            told["occurred_at"] = told["time"].clone();
            if let Some(event) = event(&told).filter(|event| event.position > self.position) {
                self.position = event.position;
                tell(line(&event));
            }
        }
        Ok(())
    }
}
