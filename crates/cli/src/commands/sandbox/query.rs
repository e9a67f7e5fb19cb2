//! `sandbox query`: runs SQL on a database with the pending changes of its sandbox, then rolls back.

use std::io::{IsTerminal as _, Read as _};

use cleveragents_application::{QueryReport, QueryRequest, Recording, SandboxService};
use cleveragents_domain::Code;
use cleveragents_sandbox::SCRIPT;
use serde_json::json;

use super::{change_json, open};
use crate::arguments::SandboxQuery;
use crate::commands::counted;
use crate::output::{Align, Cell, CommandError, Report, Table};

pub(super) fn run(
    service: &SandboxService,
    arguments: &SandboxQuery,
) -> Result<Report, CommandError> {
    let sql = if arguments.sql.is_empty() {
        read_sql()?
    } else {
        arguments.sql.join("\n")
    };
    if sql.trim().is_empty() {
        return Err(missing_sql());
    }
    let mut sandbox = open(service, &arguments.sandbox.reference)?;
    let request = QueryRequest {
        part: arguments.part.clone(),
        sql,
        limit: arguments.limit,
        record: if arguments.record {
            Recording::Yes
        } else {
            Recording::No
        },
    };
    let result = service.query(&mut sandbox, &request)?;
    Ok(report(&sandbox.view.sandbox.name, &result))
}

fn missing_sql() -> CommandError {
    CommandError::usage("no SQL is given")
        .with_hint("add it to the command, or write it to standard input")
}

fn read_sql() -> Result<String, CommandError> {
    let mut input = std::io::stdin().lock();
    if input.is_terminal() {
        return Err(missing_sql());
    }
    let mut sql = Vec::new();
    input.read_to_end(&mut sql).map_err(|error| {
        CommandError::new(Code::FileAccess, "standard input cannot be read").caused_by(&error)
    })?;
    String::from_utf8(sql).map_err(|error| {
        CommandError::new(Code::InvalidUtf8, "standard input is not UTF-8")
            .caused_by(&error)
            .with_hint("convert it to UTF-8 first")
    })
}

fn report(name: &str, result: &QueryReport) -> Report {
    let answer = &result.answer;
    let last = answer.statements.last();
    let count = last.and_then(|last| last.rows);
    let shown = answer.rows.len() as u64;
    let is_query = !answer.columns.is_empty();
    let left_out = if is_query {
        count.unwrap_or(0).saturating_sub(shown)
    } else {
        0
    };
    let mut report = Report::new("sandbox query").data(json!({
        "sandbox": name,
        "part": result.part,
        "columns": answer.columns,
        "rows": answer.rows,
        "rows_left_out": left_out,
        "statements": answer.statements,
        "statements_before": answer.earlier,
        "recorded": result.recorded.is_some(),
        "checkpoint": result.recorded.as_ref().map(|(checkpoint, _)| checkpoint),
        "changes": result.recorded.as_ref().map_or_else(Vec::new, |(_, changes)| {
            changes.changes.iter().map(|(alias, change)| change_json(alias, change)).collect()
        }),
    }));
    if is_query {
        let columns = answer.columns.iter();
        let table = columns.fold(Table::new("Rows"), |table, column| {
            table.column(column, Align::Left)
        });
        let table = table.empty("no rows");
        report = report.table(table.rows(answer.rows.iter().map(|row| {
            let cell = |value: &Option<String>| match value {
                Some(text) => Cell::from(text.clone()),
                None => Cell::Muted("NULL".to_owned()),
            };
            row.iter().map(cell).collect()
        })));
    }
    if left_out > 0 {
        report = report.warn(format!(
            "{} not shown; use a higher --limit",
            counted(left_out, "row")
        ));
    }
    let outcome = match count {
        Some(count) => counted(count, "row"),
        None => counted(answer.statements.len(), "statement"),
    };
    match &result.recorded {
        Some(_) => report
            .ok(format!(
                "{outcome}; the SQL was added to `{}/{SCRIPT}`",
                result.part
            ))
            .info(format!(
                "the database is unchanged until `agents sandbox apply {name}`"
            )),
        None => report.ok(format!("{outcome}; rolled back")),
    }
}
