//! `plan log`: events of a plan in order.

use std::io::Write as _;
use std::time::Duration;

use cleveragents_application::plan_operations::{PlanLogEntry, ReadPlanLog};
use cleveragents_domain::Position;

use crate::arguments::PlanLog;
use crate::commands::{counted, unwritable};
use crate::context::Context;
use crate::output::{Cell, CommandError, Format, Report, Table, visible};
use crate::remote;

pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Number of events per query.
const PAGE: u64 = 500;

pub(super) fn run(context: &Context, arguments: PlanLog) -> Result<Report, CommandError> {
    let form = arguments
        .follow
        .then(|| LineForm::for_format(context.printer.format()))
        .transpose()?;
    let log = context.call(ReadPlanLog {
        reference: arguments.plan.reference,
        limit: arguments.limit,
        after: None,
    })?;
    if let Some(form) = form {
        let mut follower = Follower {
            context,
            plan: log.plan_id.to_string(),
            form,
            position: Position::default(),
            is_read: true,
        };
        for entry in log.events {
            follower.write(&entry)?;
        }
        return follow(follower);
    }
    let table = Table::with_columns("Log", ["Time", "Event", "Detail"])
        .empty("No events yet")
        .rows(log.events.iter().map(|entry| {
            vec![
                entry.time.into(),
                entry.what.as_str().into(),
                Cell::Text(entry.detail.clone()),
            ]
        }));
    Ok(Report::new("plan log")
        .table(table)
        .ok(format!("{} listed", counted(log.events.len(), "event")))
        .data(log))
}

/// One event as a line of text.
pub(super) fn line(entry: &PlanLogEntry) -> String {
    let time = Cell::Time(entry.time).text();
    format!("{time}  {}  {}", entry.what, visible(&entry.detail))
        .trim_end()
        .to_owned()
}

/// Reads the events after a position, page by page. Returns the new position, and whether the plan
/// had finished before the read.
pub(super) fn read_new_events(
    context: &Context,
    plan: &str,
    mut position: Position,
    mut each: impl FnMut(&PlanLogEntry) -> Result<(), CommandError>,
) -> Result<(Position, bool), CommandError> {
    let mut is_over = None;
    loop {
        let log = context.call(ReadPlanLog {
            reference: Some(plan.to_owned()),
            limit: PAGE,
            after: Some(position),
        })?;
        let is_over = *is_over.get_or_insert(log.is_terminal);
        for entry in &log.events {
            each(entry)?;
            position = entry.position;
        }
        if (log.events.len() as u64) < PAGE {
            return Ok((position, is_over));
        }
    }
}

/// Output form of streamed events.
#[derive(Debug, Clone, Copy)]
pub(crate) enum LineForm {
    /// One JSON value per line.
    Json,
    /// One line of text per event.
    Text,
}

impl LineForm {
    /// Output form for the format of reports; YAML is not supported.
    fn for_format(format: Format) -> Result<Self, CommandError> {
        match format {
            Format::Yaml => Err(CommandError::usage(
                "--follow prints one document per line, which YAML does not support",
            )
            .with_hint("use --format json or --format plain")),
            Format::Json => Ok(Self::Json),
            _ => Ok(Self::Text),
        }
    }

    /// Writes an event. Returns `false` if the reader closed the pipe.
    fn write(self, entry: &PlanLogEntry) -> Result<bool, CommandError> {
        let mut line = match self {
            Self::Json => serde_json::to_string(entry).map_err(|error| {
                CommandError::internal("an entry cannot be written as JSON").caused_by(&error)
            })?,
            Self::Text => line(entry),
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

/// Prints the log of a plan while it grows.
pub(crate) struct Follower<'a> {
    context: &'a Context,
    pub(crate) plan: String,
    form: LineForm,
    pub(crate) position: Position,
    /// `false` after the reader closed the pipe.
    pub(crate) is_read: bool,
}

impl Follower<'_> {
    /// Writes an event, unless it was written before or the reader closed the pipe.
    pub(crate) fn write(&mut self, entry: &PlanLogEntry) -> Result<(), CommandError> {
        if entry.position > self.position && self.is_read {
            self.position = entry.position;
            self.is_read = self.form.write(entry)?;
        }
        Ok(())
    }

    /// Prints new events. Returns whether the log is complete or the reader closed the pipe.
    pub(crate) fn catch_up(&mut self) -> Result<bool, CommandError> {
        let (context, plan) = (self.context, self.plan.clone());
        let (_, is_over) =
            read_new_events(context, &plan, self.position, |entry| self.write(entry))?;
        Ok(is_over || !self.is_read)
    }
}

fn follow(mut follower: Follower<'_>) -> Result<Report, CommandError> {
    if let Some(connection) = &follower.context.connection {
        remote::follow_events(connection, &mut follower)?;
    } else {
        while !follower.catch_up()? {
            std::thread::sleep(POLL_INTERVAL);
        }
    }
    Ok(Report::written("plan log", 0))
}
