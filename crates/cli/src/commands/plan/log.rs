//! `plan log`: what happened to a plan, in order.

use std::io::Write as _;
use std::time::Duration;

use cleveragents_domain::{Event, Position};
use cleveragents_engine::{PlanBook, told};
use serde_json::{Value, json};

use crate::arguments::PlanLog;
use crate::commands::{counted, unwritable};
use crate::context::Context;
use crate::output::{Cell, CommandError, Format, Report, Table, visible};

/// How long to wait before looking again whether something happened.
pub(super) const PAUSE: Duration = Duration::from_millis(250);

/// So many events are read at a time.
const PAGE: u64 = 500;

pub(super) fn run(
    context: &Context,
    book: &PlanBook,
    arguments: &PlanLog,
) -> Result<Option<Report>, CommandError> {
    let plan = book.find(arguments.plan.reference.as_deref())?;
    let events = book.newest_log(plan.id, arguments.limit)?;
    if arguments.follow {
        return follow(context, book, plan.id, &events).map(Some);
    }
    let table = Table::with_columns("Log", ["Time", "What", "Detail"])
        .empty("Nothing happened yet")
        .rows(events.iter().map(|event| {
            let (what, detail) = told(event);
            vec![event.occurred_at.into(), what.into(), Cell::Text(detail)]
        }));
    Ok(Some(
        Report::new("plan log")
            .data(json!({
                "plan_id": plan.id,
                "events": events.iter().map(described).collect::<Vec<_>>(),
                "summary": {
                    "shown": events.len(),
                    "last_position": events.last().map(|event| event.position),
                },
            }))
            .table(table)
            .ok(format!("{} listed", counted(events.len(), "event"))),
    ))
}

fn described(event: &Event) -> Value {
    let (what, detail) = told(event);
    json!({
        "position": event.position,
        "kind": event.kind.as_str(),
        "time": event.occurred_at,
        "what": what,
        "detail": detail,
        "payload": event.payload,
    })
}

/// What happened as one line for people.
pub(super) fn line(event: &Event) -> String {
    let (what, detail) = told(event);
    let time = Cell::Time(event.occurred_at).text();
    format!("{time}  {what}  {}", visible(&detail))
        .trim_end()
        .to_owned()
}

/// Reads on from a position, page by page, and gives the new position.
pub(super) fn read_on(
    book: &PlanBook,
    plan: cleveragents_domain::PlanId,
    mut position: Position,
    mut each: impl FnMut(&Event) -> Result<(), CommandError>,
) -> Result<Position, CommandError> {
    loop {
        let events = book.log(plan, position, PAGE)?;
        for event in &events {
            each(event)?;
            position = event.position;
        }
        if (events.len() as u64) < PAGE {
            return Ok(position);
        }
    }
}

/// Writes what happens as it happens, until the plan is over.
fn follow(
    context: &Context,
    book: &PlanBook,
    plan: cleveragents_domain::PlanId,
    events: &[Event],
) -> Result<Report, CommandError> {
    let format = context.printer.format();
    if format == Format::Yaml {
        return Err(
            CommandError::usage("--follow writes lines, which YAML has none of")
                .with_hint("use --format json, or one for people"),
        );
    }
    let write = |event: &Event| {
        let mut line = if format == Format::Json {
            described(event).to_string()
        } else {
            line(event)
        };
        line.push('\n');
        let mut out = std::io::stdout().lock();
        out.write_all(line.as_bytes()).and_then(|()| out.flush())
    };
    // A reader that went away has seen enough.
    let is_read = std::cell::Cell::new(true);
    let mut tell = |event: &Event| match write(event) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {
            is_read.set(false);
            Ok(())
        }
        other => other.map_err(|error| unwritable(&error)),
    };
    let mut position = Position::default();
    for event in events {
        tell(event)?;
        position = event.position;
    }
    loop {
        // Looked at before the log: what ends it is told, too.
        let is_over = book.get(plan)?.stage.is_terminal();
        position = read_on(book, plan, position, &mut tell)?;
        if is_over || !is_read.get() {
            return Ok(Report::written("plan log", 0));
        }
        std::thread::sleep(PAUSE);
    }
}
