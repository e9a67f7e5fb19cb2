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
    for matched in &results.matches {
        let id = matched.short_session_id.clone();
        table = table.row(vec![
            Cell::Id(id.unwrap_or_else(|| matched.session_id.to_string())),
            matched.session_name.clone().into(),
            matched.sequence.0.into(),
            matched.role.as_str().into(),
            highlighted(matched).replace('\n', " ").into(),
        ]);
    }
    let count = results.matches.len();
    Ok(Report::new("session search")
        .data(results)
        .table(table)
        .ok(format!("{} found", counted(count, "match"))))
}

/// Excerpt with brackets around each match.
fn highlighted(matched: &MessageMatch) -> String {
    let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
    let mut text = matched.excerpt.clone();
    for (start, end) in matched.highlights.iter().rev() {
        let (start, end) = (index(*start), index(*end));
        if start <= end && text.is_char_boundary(end) && text.is_char_boundary(start) {
            text.insert(end, ']');
            text.insert(start, '[');
        }
    }
    text
}
