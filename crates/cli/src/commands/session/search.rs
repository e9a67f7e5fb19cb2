//! `session search`.

use cleveragents_application::session_operations::{MessageMatch, SearchMessages, SearchWords};

use crate::arguments::SessionSearch;
use crate::commands::counted;
use crate::context::Context;
use crate::output::{Align, Cell, CommandError, Report, Table};

pub(super) fn run(context: &Context, arguments: SessionSearch) -> Result<Report, CommandError> {
    let results = context.call(SearchMessages {
        query: SearchWords::List(arguments.query),
        session: arguments.session,
        role: arguments.role,
        limit: arguments.limit,
        short_ids: context.printer.format().is_human(),
    })?;
    let mut table = Table::new("Matches")
        .column("Session", Align::Left)
        .column("Name", Align::Left)
        .column("Number", Align::Right)
        .column("Role", Align::Left)
        .column("Text", Align::Left)
        .empty("No message matches");
    for found in &results.matches {
        let id = found.short_session_id.clone();
        table = table.row(vec![
            Cell::Id(id.unwrap_or_else(|| found.session_id.to_string())),
            found.session_name.clone().into(),
            found.sequence.0.into(),
            found.role.as_str().into(),
            highlighted(found).replace('\n', " ").into(),
        ]);
    }
    let count = results.matches.len();
    Ok(Report::new("session search")
        .data(results)
        .table(table)
        .ok(format!("{} found", counted(count, "match"))))
}

/// Excerpt with brackets around each match.
fn highlighted(found: &MessageMatch) -> String {
    let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
    let mut text = found.excerpt.clone();
    for (start, end) in found.highlights.iter().rev() {
        let (start, end) = (place(*start), place(*end));
        if start <= end && text.is_char_boundary(end) && text.is_char_boundary(start) {
            text.insert(end, ']');
            text.insert(start, '[');
        }
    }
    text
}
