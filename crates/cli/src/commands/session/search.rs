//! Searching all messages.

use cleveragents_domain::{Role, SessionName, shortest_prefixes};
use cleveragents_store::search::{MATCH_MARKS, Scope};
use serde_json::json;

use super::parse_role;
use crate::arguments::SessionSearch;
use crate::context::Context;
use crate::output::{Align, Cell, CommandError, Report, Table};

pub(super) fn run(context: &Context, arguments: &SessionSearch) -> Result<Report, CommandError> {
    let sessions = context.sessions()?;
    let role: Option<Role> = arguments.role.as_deref().map(parse_role).transpose()?;
    let session = arguments
        .session
        .as_deref()
        .map(|reference| sessions.resolve(reference))
        .transpose()?;
    let query = arguments.query.join(" ");
    let progress = context.progress("Indexing messages");
    let hits = sessions.search(
        &query,
        &Scope { session, role },
        arguments.limit,
        Some(&progress),
    )?;
    let marked = |excerpt: &str, around: (&str, &str)| {
        excerpt
            .replace(MATCH_MARKS.0, around.0)
            .replace(MATCH_MARKS.1, around.1)
    };
    let ids: Vec<String> = hits.iter().map(|hit| hit.session.to_string()).collect();
    let mut distinct = ids.clone();
    distinct.sort_unstable();
    distinct.dedup();
    let shown: std::collections::HashMap<String, String> = distinct
        .iter()
        .cloned()
        .zip(shortest_prefixes(&distinct))
        .collect();
    let mut table = Table::new("Matches")
        .column("Session", Align::Left)
        .column("Name", Align::Left)
        .column("Number", Align::Right)
        .column("Role", Align::Left)
        .column("Text", Align::Left)
        .empty("No message matches");
    for (hit, id) in hits.iter().zip(&ids) {
        table = table.row(vec![
            Cell::Id(shown.get(id).unwrap_or(id).clone()),
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
        .ok(format!("{count} messages match")))
}
