//! Searching all messages.

use cleveragents_domain::{Role, SessionName};
use cleveragents_store::search::{MATCH_MARKS, Scope};
use serde_json::json;

use super::parse_role;
use crate::arguments::SessionSearch;
use crate::commands::counted;
use crate::context::Context;
use crate::output::{Align, Cell, CommandError, Report, Table};

pub(super) fn run(context: &Context, arguments: &SessionSearch) -> Result<Report, CommandError> {
    let role: Option<Role> = arguments.role.as_deref().map(parse_role).transpose()?;
    let sessions = context.sessions()?;
    let session = arguments
        .session
        .as_deref()
        .map(|reference| sessions.resolve(reference))
        .transpose()?;
    let query = arguments.query.join(" ");
    let progress = context.progress("Indexing messages");
    let hits = sessions.search(
        &query,
        &Scope {
            session,
            role,
            visible: context.visible(),
        },
        arguments.limit,
        Some(&progress),
    )?;
    let marked = |excerpt: &str, around: (&str, &str)| {
        excerpt
            .replace(MATCH_MARKS.0, around.0)
            .replace(MATCH_MARKS.1, around.1)
    };
    let ids: Vec<_> = hits.iter().map(|hit| hit.session).collect();
    let shown = sessions.shown_ids(&ids)?;
    let mut table = Table::new("Matches")
        .column("Session", Align::Left)
        .column("Name", Align::Left)
        .column("Number", Align::Right)
        .column("Role", Align::Left)
        .column("Text", Align::Left)
        .empty("No message matches");
    for (hit, id) in hits.iter().zip(shown) {
        table = table.row(vec![
            Cell::Id(id),
            hit.session_name.as_ref().map(ToString::to_string).into(),
            hit.sequence.0.into(),
            hit.role.as_str().into(),
            marked(&hit.excerpt, ("[", "]")).replace('\n', " ").into(),
        ]);
    }
    let matches: Vec<_> = hits
        .iter()
        .map(|hit| {
            json!({
                "session_id": hit.session,
                "session_name": hit.session_name.as_ref().map(SessionName::as_str),
                "message_id": hit.message,
                "sequence": hit.sequence,
                "role": hit.role,
                "excerpt": marked(&hit.excerpt, ("", "")),
                "score": hit.score,
                "timestamp": hit.created_at,
            })
        })
        .collect();
    let count = hits.len();
    Ok(Report::new("session search")
        .data(json!({"query": query, "matches": matches}))
        .table(table)
        .ok(format!("{} found", counted(count, "match"))))
}
