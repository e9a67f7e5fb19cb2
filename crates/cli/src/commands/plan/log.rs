//! `plan log`: what happened to a plan, in order.

use std::io::Write as _;
use std::time::Duration;

use cleveragents_application::{FailedCheck, PlanBook, told};
use cleveragents_domain::{Event, EventKind, Plan, Position};
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
        return follow(context, book, &plan, &events).map(Some);
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
                "events": events
                    .iter()
                    .map(|event| Ok(described(event, failed_check(book, &plan, event)?.as_ref())))
                    .collect::<Result<Vec<_>, CommandError>>()?,
                "summary": {
                    "shown": events.len(),
                    "last_position": events.last().map(|event| event.position),
                },
            }))
            .table(table)
            .ok(format!("{} listed", counted(events.len(), "event"))),
    ))
}

/// The check of an event that reports one which did not pass.
fn failed_check(
    book: &PlanBook,
    plan: &Plan,
    event: &Event,
) -> Result<Option<FailedCheck>, CommandError> {
    if event.kind != EventKind::ValidationJudged || event.payload["passed"] != json!(false) {
        return Ok(None);
    }
    let number = event.payload["number"].as_u64();
    let results = book.validations(plan.id)?;
    let Some(stored) = results.iter().find(|stored| Some(stored.number) == number) else {
        return Ok(None);
    };
    Ok(book.failed_check(stored)?.map(FailedCheck::bounded))
}

fn described(event: &Event, failed_check: Option<&FailedCheck>) -> Value {
    let (what, detail) = told(event);
    let mut value = json!({
        "position": event.position,
        "kind": event.kind.as_str(),
        "time": event.occurred_at,
        "what": what,
        "detail": detail,
        "payload": event.payload,
    });
    if let Some(check) = failed_check {
        value["failed_check"] = json!(check);
    }
    value
}

/// What happened as one line for people.
pub(crate) fn line(event: &Event) -> String {
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

/// How events are written one by one.
#[derive(Debug, Clone, Copy)]
pub(crate) enum LineForm {
    /// One JSON value a line.
    Json,
    /// For people.
    Told,
}

impl LineForm {
    /// That of a format.
    pub(crate) fn of(format: Format) -> Result<Self, CommandError> {
        match format {
            Format::Yaml => Err(CommandError::usage(
                "--follow writes lines, which YAML has none of",
            )
            .with_hint("use --format json, or one for people")),
            Format::Json => Ok(Self::Json),
            _ => Ok(Self::Told),
        }
    }

    /// Writes an event. Whether anybody reads.
    pub(crate) fn write(
        self,
        event: &Event,
        failed_check: Option<&FailedCheck>,
    ) -> Result<bool, CommandError> {
        let mut line = match self {
            Self::Json => described(event, failed_check).to_string(),
            Self::Told => line(event),
        };
        line.push('\n');
        let mut out = std::io::stdout().lock();
        match out.write_all(line.as_bytes()).and_then(|()| out.flush()) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
            Err(error) => Err(unwritable(&error)),
        }
    }
}

/// Writes what happens as it happens, until the plan is over.
fn follow(
    context: &Context,
    book: &PlanBook,
    plan: &Plan,
    events: &[Event],
) -> Result<Report, CommandError> {
    let form = LineForm::of(context.printer.format())?;
    // A reader that went away has seen enough.
    let is_read = std::cell::Cell::new(true);
    let mut tell = |event: &Event| {
        let check = failed_check(book, plan, event)?;
        is_read.set(form.write(event, check.as_ref())?);
        Ok(())
    };
    let mut position = Position::default();
    for event in events {
        tell(event)?;
        position = event.position;
    }
    loop {
        // Looked at before the log: what ends it is told, too.
        let is_over = book.get(plan.id)?.stage.is_terminal();
        position = read_on(book, plan.id, position, &mut tell)?;
        if is_over || !is_read.get() {
            return Ok(Report::written("plan log", 0));
        }
        std::thread::sleep(PAUSE);
    }
}
