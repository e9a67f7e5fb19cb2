//! Formats a session as Markdown.

use std::fmt::Write;

use cleveragents_domain::{LinkedPlan, Message, MessageState, Session};

/// Escapes text for a table cell: one line, without column separators.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

pub(super) fn heading(session: &Session) -> String {
    let name = session
        .name
        .as_ref()
        .map_or("Session", |name| name.as_str());
    let actor = session
        .actor
        .as_ref()
        .map_or_else(|| "(none)".to_owned(), ToString::to_string);
    format!(
        "# {}\n\n| | |\n|---|---|\n| Session | {} |\n| Actor | {} |\n| Created | {} |\n| Updated | {} |\n| Messages | {} |\n\n",
        cell(name),
        session.id,
        cell(&actor),
        session.created_at,
        session.updated_at,
        session.message_count
    )
}

pub(super) fn message(message: &Message) -> String {
    let failed = match message.state {
        MessageState::Complete => "",
        MessageState::Failed => " (failed)",
    };
    format!(
        "## {} {}{failed}\n\n*{}*\n\n{}\n\n",
        message.sequence, message.role, message.created_at, message.content
    )
}

pub(super) fn ending(session: &Session, plans: &[LinkedPlan], is_cost_known: bool) -> String {
    let usage = session.usage;
    let known = format!("${:.4}", usage.cost_micro_usd.as_usd());
    let cost = match (is_cost_known, usage.cost_micro_usd.0) {
        (true, _) => known,
        (false, 0) => "unknown".to_owned(),
        (false, _) => format!("at least {known}"),
    };
    let mut text = format!(
        "---\n\n| Usage | |\n|---|---|\n| Input tokens | {} |\n| Output tokens | {} |\n| Cost | {cost} |\n",
        usage.input_tokens.0, usage.output_tokens.0,
    );
    if !plans.is_empty() {
        text.push_str("\n| Plan | Phase | State |\n|---|---|---|\n");
        for plan in plans {
            // Writing to a String cannot fail.
            let _written = writeln!(
                text,
                "| {} | {} | {} |",
                plan.plan_id,
                cell(&plan.phase),
                cell(&plan.state)
            );
        }
    }
    text
}
