//! Progress of child plans: one line per running child plan with its current activity on a terminal, and one line per
//! event otherwise.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

use cleveragents_application::AgentEvent;
use cleveragents_domain::{PlanId, PlanStage};

use crate::commands::turn_view::{call_finished_line, call_started_line, retry_line, short};
use crate::output::visible;

/// Maximum number of child plans with a line of their own.
const MAX_LINES: usize = 8;

/// Maximum number of characters of a title.
const TITLE_LENGTH: usize = 30;

/// Maximum number of characters of an activity.
const ACTIVITY_LENGTH: usize = 60;

/// The running child plans with their activities.
#[derive(Default)]
pub(super) struct ChildLines(Mutex<BTreeMap<PlanId, ChildLine>>);

struct ChildLine {
    number: u64,
    title: String,
    activity: String,
}

impl ChildLines {
    /// Processes an event of a child plan. Returns the lines of all running child plans, each with a line break before
    /// it.
    pub(super) fn update(
        &self,
        plan: PlanId,
        number: u64,
        title: &str,
        event: &AgentEvent,
    ) -> String {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if is_end(event) {
            running.remove(&plan);
        } else if let Some(activity) = activity(event) {
            let line = ChildLine {
                number,
                title: visible(&short(title, TITLE_LENGTH)).into_owned(),
                activity: visible(&short(&activity, ACTIVITY_LENGTH)).into_owned(),
            };
            running.insert(plan, line);
        }
        let mut lines: Vec<&ChildLine> = running.values().collect();
        lines.sort_by_key(|line| line.number);
        let mut text = String::new();
        for line in lines.iter().take(MAX_LINES) {
            let _written = write!(
                text,
                "\n  {} {}: {}",
                line.number, line.title, line.activity
            );
        }
        let hidden = lines.len().saturating_sub(MAX_LINES);
        if hidden > 0 {
            let _written = write!(text, "\n  and {hidden} more");
        }
        text
    }

    /// Removes all lines.
    pub(super) fn clear(&self) {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        running.clear();
    }
}

/// Whether the child plan does no more work after the event.
fn is_end(event: &AgentEvent) -> bool {
    matches!(
        event,
        AgentEvent::StageChanged { stage, .. }
            if *stage == PlanStage::ExecuteComplete || stage.is_terminal() || stage.is_errored()
    )
}

/// The activity that begins with an event; `None` if the event does not change it.
fn activity(event: &AgentEvent) -> Option<String> {
    Some(match event {
        AgentEvent::StageChanged { stage, .. } => stage.to_string(),
        AgentEvent::PlanStepStarted { .. }
        | AgentEvent::Text { .. }
        | AgentEvent::ToolCallFinished { .. } => "waiting for the model".to_owned(),
        AgentEvent::Retry { message, .. } => retry_line(message, false),
        AgentEvent::ToolCallStarted {
            tool, arguments, ..
        } => format!("{tool} {arguments}"),
        AgentEvent::ValidationStarted { name } => format!("validating: {name}"),
        _ => return None,
    })
}

/// The line of an event of a child plan in plain output; `None` for events that are not printed.
pub(super) fn plain_line(number: u64, title: &str, event: &AgentEvent) -> Option<String> {
    let text = match event {
        AgentEvent::StageChanged { stage, .. } => {
            format!("● {}: {}", stage.phase().as_str(), stage.state())
        }
        AgentEvent::Retry { message, .. } => retry_line(message, false),
        AgentEvent::ToolCallStarted {
            tool, arguments, ..
        } => call_started_line(tool, arguments),
        AgentEvent::ToolCallFinished {
            tool,
            status,
            message,
            ..
        } => call_finished_line(tool, *status, message.as_deref()),
        AgentEvent::PlanStepFinished {
            summary, succeeded, ..
        } => {
            let first_line = summary.lines().find(|line| !line.trim().is_empty());
            let mark = if *succeeded { "✓" } else { "✗" };
            format!("{mark} {}", short(first_line.unwrap_or("done"), 160))
        }
        AgentEvent::ValidationFinished {
            name,
            passed,
            message,
        } => {
            let mark = if *passed { "✓" } else { "✗" };
            format!("{mark} {} — {}", short(name, 80), short(message, 160))
        }
        AgentEvent::Caveat { text, .. } | AgentEvent::Note { text } => {
            format!("! {}", short(text, 300))
        }
        _ => return None,
    };
    Some(format!(
        "  [{number} {}] {text}",
        short(title, TITLE_LENGTH)
    ))
}

/// Whether the line of an event is also printed on a terminal, where activities are shown in place.
pub(super) fn is_important(event: &AgentEvent) -> bool {
    match event {
        AgentEvent::PlanStepFinished { succeeded, .. } => !succeeded,
        AgentEvent::ValidationFinished { passed, .. } => !passed,
        AgentEvent::Caveat { .. } | AgentEvent::Note { .. } => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use cleveragents_application::AgentEvent;
    use cleveragents_domain::{PlanId, PlanStage};

    use super::{ChildLines, MAX_LINES, plain_line};

    fn call(tool: &str) -> AgentEvent {
        serde_json::from_value(serde_json::json!({
            "type": "tool_call_started", "path": "step/1", "call": "c1", "tool": tool, "arguments": "{}",
        }))
        .expect("an event")
    }

    #[test]
    fn each_running_child_plan_has_one_line_until_it_ends() {
        let lines = ChildLines::default();
        let (one, two) = (PlanId::generate(), PlanId::generate());
        lines.update(two, 2, "Part two", &call("builtin/file-read"));
        let text = lines.update(one, 1, "Part one", &call("builtin/shell"));
        assert_eq!(
            text,
            "\n  1 Part one: builtin/shell {}\n  2 Part two: builtin/file-read {}"
        );
        let stage = PlanStage::ExecuteComplete;
        let ended = AgentEvent::StageChanged {
            plan_id: one,
            stage,
        };
        let text = lines.update(one, 1, "Part one", &ended);
        assert_eq!(text, "\n  2 Part two: builtin/file-read {}");
        lines.clear();
        let note = AgentEvent::Note {
            text: "a note".to_owned(),
        };
        assert_eq!(lines.update(two, 2, "Part two", &note), "");
    }

    #[test]
    fn more_child_plans_than_lines_are_counted() {
        let lines = ChildLines::default();
        let mut text = String::new();
        for number in 1..=10 {
            text = lines.update(PlanId::generate(), number, "Part", &call("builtin/shell"));
        }
        assert_eq!(text.lines().count(), 1 + MAX_LINES + 1);
        assert!(text.ends_with("and 2 more"), "{text}");
    }

    #[test]
    fn plain_lines_name_the_child_plan() {
        let line = plain_line(2, "Part two", &call("builtin/shell"));
        assert_eq!(line.as_deref(), Some("  [2 Part two] → builtin/shell {}"));
        let text = AgentEvent::AnswerComplete { path: None };
        assert_eq!(plain_line(2, "Part two", &text), None);
    }
}
