//! `plan log --follow` with a server: prints the log so far, then the events of the server. After
//! an interruption it continues at the last position, so that no event is missed or printed twice.

use std::time::Duration;

use cleveragents_application::plan_operations::PlanLogEntry;
use cleveragents_domain::{Code, Event, EventKind, Position};
use cleveragents_process::Cancel;
use reqwest::Method;
use serde_json::Value;

use super::Connection;
use super::http::AfterEvent;
use crate::commands::plan::log::Follower;
use crate::output::CommandError;

/// Wait before reconnecting to an unavailable server.
const RECONNECT_DELAY: Duration = Duration::from_secs(1);

/// Maximum number of consecutive failures; a restarting server needs a while.
pub(crate) const FAILURES: u32 = 60;

/// Prints the events of a plan until it finishes or the reader is gone.
pub(crate) fn follow_events(
    connection: &Connection,
    follower: &mut Follower<'_>,
) -> Result<(), CommandError> {
    let mut failures = 0;
    loop {
        match catch_up_and_listen(connection, follower) {
            Ok(AfterEvent::Stop) => return Ok(()),
            Ok(AfterEvent::More) => failures = 0,
            Err(error) if is_temporary(&error) && failures < FAILURES => {
                failures += 1;
                std::thread::sleep(RECONNECT_DELAY);
            }
            Err(error) => return Err(error),
        }
    }
}

/// True if the server may be available again soon, because it restarts, is overloaded, or its
/// database is unavailable.
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

/// Catches up with the log, and listens unless it is complete.
fn catch_up_and_listen(
    connection: &Connection,
    follower: &mut Follower<'_>,
) -> Result<AfterEvent, CommandError> {
    if follower.catch_up()? {
        return Ok(AfterEvent::Stop);
    }
    listen(connection, follower)?;
    Ok(AfterEvent::More)
}

/// Prints events until the plan finishes, the reader is gone, or the server ends the stream.
fn listen(connection: &Connection, follower: &mut Follower<'_>) -> Result<(), CommandError> {
    let (plan, position) = (&follower.plan, follower.position.0);
    let path = format!("/api/v1/events?subject={plan}&after={position}");
    connection.listen(Method::GET, &path, None, &Cancel::new(), |_, data| {
        let Some(event) = event(&data) else {
            return Ok(AfterEvent::More);
        };
        let is_end = matches!(
            event.kind,
            EventKind::PlanApplied | EventKind::PlanCancelled
        );
        // The streamed event lacks the output of a failed validation, so it is read from the log.
        if event.kind == EventKind::ValidationJudged {
            follower.catch_up()?;
        } else {
            follower.write(&PlanLogEntry::from(event))?;
        }
        Ok(if is_end || !follower.is_read {
            AfterEvent::Stop
        } else {
            AfterEvent::More
        })
    })
}

/// Parses an event of the server; `None` for an unknown kind.
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
