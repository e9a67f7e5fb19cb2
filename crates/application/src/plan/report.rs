//! The report tools of a plan's actors: `submit_strategy`, `step_done`, `step_blocked` and `submit_review`.

use std::fmt::Write as _;
use std::sync::LazyLock;

use cleveragents_domain::StepKind;
use serde_json::{Value, json};

use crate::turn::{REPORT, ReportTool, ReportTools, TextAnswer};

const SUBMIT_STRATEGY: &str = "submit_strategy";
const STEP_DONE: &str = "step_done";
const STEP_BLOCKED: &str = "step_blocked";
const SUBMIT_REVIEW: &str = "submit_review";

/// The reports of strategist and executor. Both get the same list, so that the prompt caches of
/// providers stay valid from phase to phase.
static WORK: LazyLock<[ReportTool; 3]> = LazyLock::new(|| {
    [
        ReportTool {
            name: SUBMIT_STRATEGY,
            description: "Ends the strategize phase with the strategy.",
            schema: strategy_schema(),
            requires_success: false,
        },
        ReportTool {
            name: STEP_DONE,
            description: "Ends the step: it is done and its check passes.",
            schema: step_done_schema(),
            requires_success: true,
        },
        ReportTool {
            name: STEP_BLOCKED,
            description: "Ends the step without a result: it is blocked. The user is asked for guidance.",
            schema: step_blocked_schema(),
            requires_success: false,
        },
    ]
});

static REVIEW: LazyLock<[ReportTool; 1]> = LazyLock::new(|| {
    [ReportTool {
        name: SUBMIT_REVIEW,
        description: "Ends the review with a verdict on every criterion, and with defects.",
        schema: review_schema(),
        requires_success: false,
    }]
});

/// The report tools of a built-in actor for a kind of step.
pub(super) fn report_tools(kind: StepKind) -> ReportTools<'static> {
    match kind {
        StepKind::Strategize => ReportTools {
            offered: &*WORK,
            accepted: &[SUBMIT_STRATEGY],
            text: TextAnswer::Report,
        },
        StepKind::Step | StepKind::Fix | StepKind::Guidance => ReportTools {
            offered: &*WORK,
            accepted: &[STEP_DONE, STEP_BLOCKED],
            text: TextAnswer::Accepted,
        },
        StepKind::Review => ReportTools {
            offered: &*REVIEW,
            accepted: &[SUBMIT_REVIEW],
            text: TextAnswer::Report,
        },
        StepKind::Estimate | StepKind::CheckInvariants => ReportTools::default(),
    }
}

/// The reported outcome of a step.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StepReport {
    /// It is done; the text is the answer of the actor.
    Done(String),
    Blocked {
        reason: String,
        suggestion: Option<String>,
    },
}

impl StepReport {
    /// Reads the answer of an actor. An answer without a report counts as done, with the answer as
    /// text.
    pub(super) fn parse(answer: &Value) -> Self {
        let text = |name: &str| answer[name].as_str().map(str::trim);
        match answer[REPORT].as_str() {
            Some(STEP_BLOCKED) => Self::Blocked {
                reason: text("reason").unwrap_or_default().to_owned(),
                suggestion: text("suggestion")
                    .filter(|suggestion| !suggestion.is_empty())
                    .map(str::to_owned),
            },
            Some(STEP_DONE) => {
                let mut summary = text("summary").unwrap_or_default().to_owned();
                let checks = answer["checks_run"].as_array().into_iter().flatten();
                for check in checks {
                    let command = check["command"].as_str().unwrap_or_default();
                    let word = match check["passed"].as_bool() {
                        Some(true) => "passed",
                        _ => "failed",
                    };
                    let _written = write!(summary, "\n- `{command}` {word}");
                }
                Self::Done(summary)
            }
            _ => Self::Done(answer_text(answer)),
        }
    }
}

/// The answer of an actor as text.
fn answer_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => serde_json::to_string_pretty(other).unwrap_or_else(|_| other.to_string()),
    }
}

pub(super) fn strategy_schema() -> Value {
    json!({
        "type": "object",
        "required": ["summary", "steps"],
        "properties": {
            "summary": {"type": "string", "minLength": 1},
            "risk": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
            "decisions": {"type": "array", "items": {
                "type": "object",
                "required": ["question", "chosen"],
                "properties": {
                    "question": {"type": "string", "minLength": 1},
                    "chosen": {"type": "string", "minLength": 1},
                    "alternatives": {"type": "array", "items": {"type": "string"}},
                    "confidence": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
                    "rationale": {"type": "string"},
                    "type": {"type": "string", "enum": ["strategy_choice", "resource_selection"]},
                    "depends_on": {"type": "array", "items": {"type": "integer", "minimum": 1}},
                    "resources": {"type": "array", "items": {"type": "string"}},
                },
            }},
            "steps": {"type": "array", "minItems": 1, "items": {
                "type": "object",
                "required": ["title", "description"],
                "properties": {
                    "title": {"type": "string", "minLength": 1},
                    "description": {"type": "string"},
                    "files": {"type": "array", "items": {"type": "string"}},
                    "after": {"type": "array", "items": {"type": "integer", "minimum": 1}},
                    "risk": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
                },
            }},
        },
    })
}

fn step_done_schema() -> Value {
    json!({
        "type": "object",
        "required": ["summary"],
        "properties": {
            "summary": {"type": "string", "minLength": 1},
            "checks_run": {"type": "array", "items": {
                "type": "object",
                "required": ["command", "passed"],
                "properties": {
                    "command": {"type": "string", "minLength": 1},
                    "passed": {"type": "boolean"},
                },
            }},
        },
    })
}

fn step_blocked_schema() -> Value {
    json!({
        "type": "object",
        "required": ["reason"],
        "properties": {
            "reason": {"type": "string", "minLength": 1},
            "suggestion": {"type": "string"},
        },
    })
}

pub(super) fn review_schema() -> Value {
    json!({
        "type": "object",
        "required": ["criteria"],
        "properties": {
            "criteria": {"type": "array", "items": {
                "type": "object",
                "required": ["number", "met", "evidence"],
                "properties": {
                    "number": {"type": "integer", "minimum": 1},
                    "met": {"type": "boolean"},
                    "evidence": {"type": "string"},
                },
            }},
            "defects": {"type": "array", "items": {
                "type": "object",
                "required": ["severity", "description"],
                "properties": {
                    "severity": {"type": "string", "enum": ["blocking", "advice"]},
                    "path": {"type": "string"},
                    "line": {"type": ["integer", "null"], "minimum": 1},
                    "description": {"type": "string", "minLength": 1},
                },
            }},
        },
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::StepReport;

    #[test]
    fn a_blocked_step_is_not_done_and_plain_text_is() {
        let blocked =
            json!({"report": "step_blocked", "reason": "no such table", "suggestion": ""});
        assert_eq!(
            StepReport::parse(&blocked),
            StepReport::Blocked {
                reason: "no such table".to_owned(),
                suggestion: None
            }
        );
        let done = json!({"report": "step_done", "summary": "Wrote it",
            "checks_run": [{"command": "make test", "passed": true}]});
        assert_eq!(
            StepReport::parse(&done),
            StepReport::Done("Wrote it\n- `make test` passed".to_owned())
        );
        assert_eq!(
            StepReport::parse(&json!("Written.")),
            StepReport::Done("Written.".to_owned())
        );
    }
}
