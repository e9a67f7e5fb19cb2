//! `plan log --follow` against a server: the log so far, and then what happens, from the events of the server. Whoever
//! is cut off comes back with the last position, so that nothing is missed or told twice.

use std::time::Duration;

use cleveragents_domain::{Code, Event, EventKind, Position};
use reqwest::Method;
use serde_json::{Value, json};

use super::http::Next;
use super::{CLI, Connection};
use crate::commands::plan::log::LineForm;
use crate::context::Context;
use crate::output::{CommandError, Format, Report, WireError};

/// How long to wait before coming back to a server that cut the events off.
const PAUSE: Duration = Duration::from_secs(1);

/// So many events are asked for at the end: what came meanwhile is less.
const LAST: u64 = 1_000;

/// How often in a row coming back may fail: a server takes a while to be started again.
pub(super) const FAILURES: u32 = 60;

/// Follows the log that a command asks for.
pub(super) fn run(
    context: &Context,
    connection: &Connection,
    command: &Value,
) -> Result<Report, CommandError> {
    let mut follower = Follower {
        connection,
        command,
        form: LineForm::of(context.printer.format())?,
        position: Position::default(),
        is_read: true,
    };
    let plan = follower.catch_up(&command["parameters"])?;
    let mut failures = 0;
    while follower.is_read {
        match follower.go_on(&plan) {
            Ok(Next::Stop) => break,
            Ok(Next::More) => failures = 0,
            // It may be started again, and then it is there.
            Err(error) if is_for_now(&error) && failures < FAILURES => {
                failures += 1;
                std::thread::sleep(PAUSE);
            }
            Err(error) => return Err(error),
        }
    }
    // Looked at after it was over: what ended it is told, too.
    follower.catch_up(&json!({"reference": plan, "limit": LAST}))?;
    Ok(Report::written("plan log", 0))
}

/// Whether a server is not there only for the moment: it is gone, about to go, has too much to do, or no database.
pub(super) fn is_for_now(error: &CommandError) -> bool {
    matches!(
        error.code(),
        Code::ServerUnreachable
            | Code::ServerEnding
            | Code::ServerBusy
            | Code::TooManyRequests
            | Code::DatabaseUnavailable
            | Code::DatabaseBusy
    )
}

/// Asks for something beside a command, and gives its data.
pub(super) fn ask(
    connection: &Connection,
    command: &Value,
    operation: &str,
    parameters: &Value,
) -> Result<Value, CommandError> {
    let mut body = command.clone();
    body["operation"] = operation.into();
    body["parameters"] = parameters.clone();
    body["format"] = Format::Json.as_str().into();
    let mut answer = connection.post(CLI, &body)?;
    if let Some(error) = answer.get_mut("error") {
        let error: WireError = super::read(error.take())?;
        return Err(error.into_error());
    }
    Ok(answer["report"]["data"].take())
}

struct Follower<'a> {
    connection: &'a Connection,
    command: &'a Value,
    form: LineForm,
    position: Position,
    /// Whether anybody reads what is written.
    is_read: bool,
}

impl Follower<'_> {
    fn ask(&self, operation: &str, parameters: &Value) -> Result<Value, CommandError> {
        ask(self.connection, self.command, operation, parameters)
    }

    /// Tells what the log holds and was not told yet. Gives the plan.
    fn catch_up(&mut self, parameters: &Value) -> Result<String, CommandError> {
        let log = self.ask("plan/log", parameters)?;
        for event in log["events"].as_array().into_iter().flatten() {
            let mut event = event.clone();
            event["occurred_at"] = event["time"].clone();
            self.tell(&event)?;
        }
        Ok(log["plan_id"].as_str().unwrap_or_default().to_owned())
    }

    /// Listens, unless the plan is over.
    fn go_on(&mut self, plan: &str) -> Result<Next, CommandError> {
        if self.is_over(plan)? {
            return Ok(Next::Stop);
        }
        self.listen(plan)?;
        Ok(Next::More)
    }

    fn is_over(&self, plan: &str) -> Result<bool, CommandError> {
        let status = self.ask("plan/status", &json!({"reference": plan}))?;
        Ok(status["is_terminal"] == true)
    }

    /// Tells what happens until the plan is over, or the server cuts it off.
    fn listen(&mut self, plan: &str) -> Result<(), CommandError> {
        let path = format!("/api/v1/events?subject={plan}&after={}", self.position.0);
        let connection = self.connection;
        connection.listen(Method::GET, &path, None, |_, data| {
            let kind = self.tell(&data)?;
            let ends = matches!(
                kind,
                Some(EventKind::PlanApplied | EventKind::PlanCancelled)
            );
            Ok(if ends || !self.is_read {
                Next::Stop
            } else {
                Next::More
            })
        })
    }

    /// Tells one event, if it was not told yet; gives its kind.
    fn tell(&mut self, data: &Value) -> Result<Option<EventKind>, CommandError> {
        let Some(event) = event(data) else {
            return Ok(None);
        };
        if event.position > self.position && self.is_read {
            self.position = event.position;
            self.is_read = self.form.write(&event, None)?;
        }
        Ok(Some(event.kind))
    }
}

/// An event as the server tells it; nothing for one of a kind that is not known here.
pub(super) fn event(data: &Value) -> Option<Event> {
    let mut kinds = EventKind::ALL.iter().copied();
    Some(Event {
        position: Position(data["position"].as_u64()?),
        kind: kinds.find(|kind| Some(kind.as_str()) == data["kind"].as_str())?,
        subject: data["subject"].as_str().unwrap_or_default().to_owned(),
        payload: data["payload"].clone(),
        occurred_at: data["occurred_at"].as_str()?.parse().ok()?,
    })
}
