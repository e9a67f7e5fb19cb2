//! `plan log --follow` against a server: the log so far, and then the events of the server. After an interruption it
//! continues at the last position, so that no entry is missed or written twice.

use std::time::Duration;

use cleveragents_application::plan_operations::PlanLogEntry;
use cleveragents_domain::{Code, Event, EventKind, Position};
use reqwest::Method;
use serde_json::Value;

use super::Connection;
use super::http::Next;
use crate::commands::plan::log::Follower;
use crate::output::CommandError;

/// How long to wait before reconnecting to a server that is not available.
const PAUSE: Duration = Duration::from_secs(1);

/// Maximum number of failures in a row: a server takes a while to restart.
pub(crate) const FAILURES: u32 = 60;

/// Writes what happens to a plan until it is over or nobody reads any more.
pub(crate) fn follow_events(
    connection: &Connection,
    follower: &mut Follower<'_>,
) -> Result<(), CommandError> {
    let mut failures = 0;
    loop {
        match go_on(connection, follower) {
            Ok(Next::Stop) => return Ok(()),
            Ok(Next::More) => failures = 0,
            Err(error) if is_temporary(&error) && failures < FAILURES => {
                failures += 1;
                std::thread::sleep(PAUSE);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Whether a server may be available again in a moment: it restarts, is overloaded, or lacks its database.
pub(crate) fn is_temporary(error: &CommandError) -> bool {
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

/// Listens, unless nothing more will come.
fn go_on(connection: &Connection, follower: &mut Follower<'_>) -> Result<Next, CommandError> {
    if follower.catch_up()? {
        return Ok(Next::Stop);
    }
    listen(connection, follower)?;
    Ok(Next::More)
}

/// Writes events until the plan is over, nobody reads any more, or the server ends the stream.
fn listen(connection: &Connection, follower: &mut Follower<'_>) -> Result<(), CommandError> {
    let (plan, position) = (&follower.plan, follower.position.0);
    let path = format!("/api/v1/events?subject={plan}&after={position}");
    connection.listen(Method::GET, &path, None, |_, data| {
        let Some(event) = event(&data) else {
            return Ok(Next::More);
        };
        let is_end = matches!(
            event.kind,
            EventKind::PlanApplied | EventKind::PlanCancelled
        );
        // What a failed validation printed is only in the log.
        if event.kind == EventKind::ValidationJudged {
            follower.catch_up()?;
        } else {
            follower.write(&PlanLogEntry::from(event))?;
        }
        Ok(if is_end || !follower.is_read {
            Next::Stop
        } else {
            Next::More
        })
    })
}

/// An event as the server sends it; nothing for one of a kind that is not known here.
fn event(data: &Value) -> Option<Event> {
    let mut kinds = EventKind::ALL.iter().copied();
    Some(Event {
        position: Position(data["position"].as_u64()?),
        kind: kinds.find(|kind| Some(kind.as_str()) == data["kind"].as_str())?,
        subject: data["subject"].as_str().unwrap_or_default().to_owned(),
        payload: data["payload"].clone(),
        occurred_at: data["occurred_at"].as_str()?.parse().ok()?,
    })
}
