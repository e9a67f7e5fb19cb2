//! Formats a session as Markdown.

use std::fmt::Write;

use cleveragents_domain::{LinkedPlan, Message, MessageState, Session};
use cleveragents_models::{AssistantMessage, ChatMessage};

use crate::tool::called_tool;
use crate::turn::chat_message;

/// Maximum number of characters of the arguments of a tool call.
const MAX_ARGUMENTS: usize = 300;

/// Maximum number of characters of the result of a tool call.
const MAX_RESULT: usize = 1_000;

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
    let content = match chat_message(message) {
        Some(ChatMessage::Assistant(answer)) if !answer.calls.is_empty() => calls(&answer),
        Some(ChatMessage::Tool { .. }) => result(&message.content),
        _ => message.content.clone(),
    };
    format!(
        "## {} {}{failed}\n\n*{}*\n\n{content}\n\n",
        message.sequence, message.role, message.created_at
    )
}

/// An answer with tool calls: its text, and each call with its arguments.
fn calls(answer: &AssistantMessage) -> String {
    let mut text = answer.text.trim_end().to_owned();
    for call in &answer.calls {
        let separator = if text.is_empty() { "" } else { "\n\n" };
        let tool = called_tool(call);
        let arguments = beginning(&call.arguments, MAX_ARGUMENTS);
        // Writing to a String cannot fail.
        let _written = write!(text, "{separator}Calls `{tool}`:\n\n{}", block(&arguments));
    }
    text
}

/// The result of a tool call, without the tags that mark data for the model.
fn result(content: &str) -> String {
    block(&beginning(without_data_tags(content).trim(), MAX_RESULT))
}

/// A code block whose fence is longer than any fence in the text.
fn block(text: &str) -> String {
    let mut fence = "```".to_owned();
    while text.contains(&fence) {
        fence.push('`');
    }
    format!("{fence}\n{text}\n{fence}")
}

fn beginning(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}\n… ({} characters)", &text[..end], text.chars().count()),
        None => text.to_owned(),
    }
}

/// A text without the tags around data that a model must not follow.
pub fn without_data_tags(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some(start) = [rest.find("<data-"), rest.find("</data-")]
        .into_iter()
        .flatten()
        .min()
    {
        let Some(length) = rest[start..].find('>') else {
            break;
        };
        shown.push_str(&rest[..start]);
        rest = &rest[start + length + 1..];
    }
    shown.push_str(rest);
    shown
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

#[cfg(test)]
mod tests {
    use cleveragents_models::{AssistantMessage, ToolCall};

    use super::{calls, result, without_data_tags};

    #[test]
    fn tags_around_data_are_removed() {
        let text = "<data-1f from=\"builtin/file-read\">\nfirst\n</data-1f>\nend";
        assert_eq!(without_data_tags(text), "\nfirst\n\nend");
        assert_eq!(without_data_tags("a <data-1f"), "a <data-1f");
    }

    #[test]
    fn calls_have_their_arguments_and_results_are_shortened() {
        let answer = AssistantMessage {
            calls: vec![ToolCall {
                id: "1".to_owned(),
                name: "builtin_S_file-read".to_owned(),
                arguments: r#"{"path": "notes.txt"}"#.to_owned(),
                signature: None,
            }],
            ..AssistantMessage::default()
        };
        let expected = "Calls `builtin/file-read`:\n\n```\n{\"path\": \"notes.txt\"}\n```";
        assert_eq!(calls(&answer), expected);
        let long = result(&format!(
            "<data-1f from=\"x\">{}</data-1f>",
            "é".repeat(3_000)
        ));
        assert!(long.contains("… (3000 characters)"), "{long}");
        assert!(
            !long.contains("data-1f") && long.chars().count() < 1_100,
            "{long}"
        );
        assert!(result("a\n```\nb").starts_with("````\n"));
    }
}
