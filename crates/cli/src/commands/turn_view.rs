//! Progress lines of a turn.

use cleveragents_application::ToolCallStatus;

/// Joins a text to one line and truncates it to `max_chars` characters.
pub(crate) fn short(text: &str, max_chars: usize) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Line for a started tool call.
pub(crate) fn call_started_line(tool: &str, arguments: &str) -> String {
    format!("→ {tool} {}", short(arguments, 100))
}

/// Line for a conversation whose beginning was summarized.
pub(crate) fn compacted_line(tokens_before: u64, tokens_after: u64) -> String {
    format!(
        "● conversation compacted: a summary of about {tokens_after} tokens replaces {tokens_before}"
    )
}

/// Line for a failed model request that is retried. `was_shown` means that part of its answer is on
/// the screen.
pub(crate) fn retry_line(message: &str, was_shown: bool) -> String {
    let restart = if was_shown {
        "; the answer restarts"
    } else {
        ""
    };
    format!("! {}{restart}", short(message, 300))
}

/// Line for a finished tool call. `message` is the reason if it did not succeed.
pub(crate) fn call_finished_line(
    tool: &str,
    status: ToolCallStatus,
    message: Option<&str>,
) -> String {
    let message = message.unwrap_or_default();
    let ending = match status {
        ToolCallStatus::Succeeded => "✓ done".to_owned(),
        ToolCallStatus::Failed => format!("✗ failed: {}", short(message, 200)),
        ToolCallStatus::Refused => format!("✗ refused: {message}"),
    };
    format!("  {tool} {ending}")
}

/// Line for an interrupted turn of the session.
pub(crate) const fn recovered_line(is_resumed: bool) -> &'static str {
    if is_resumed {
        "resuming the interrupted turn"
    } else {
        "the last turn was interrupted; its finished tool calls are kept"
    }
}
