//! The report tools of a plan's actors: `submit_strategy`, `step_done`, `step_blocked` and `submit_review`.

use std::fmt::Write as _;
use std::sync::LazyLock;

use cleveragents_domain::{PlanReport, StepKind};
use serde_json::{Value, json};

use super::prompt::shortened;
use super::typed_report::{
    self, SUBMIT_FINDINGS, SUBMIT_TEST, SUBMIT_TRIAGE, SUBMIT_VERDICT, TEST, whole_result_tools,
};
use crate::turn::{REPORT, ReportTool, ReportTools, TextAnswer, is_refusal};

const SUBMIT_STRATEGY: &str = "submit_strategy";
const STEP_DONE: &str = "step_done";
const STEP_BLOCKED: &str = "step_blocked";
const SUBMIT_REVIEW: &str = "submit_review";

/// Maximum size of an actor's answer that a reason quotes, in bytes.
const SHOWN_ANSWER: usize = 600;

/// The report tools of strategist and executor. Both receive the same list, so that the prompt caches of providers
/// stay valid from phase to phase.
static WORK: LazyLock<[ReportTool; 3]> = LazyLock::new(|| {
    [
        ReportTool {
            name: SUBMIT_STRATEGY,
            description: "End strategizing.",
            schema: strategy_schema(),
            declared_schema: Some(declared_strategy_schema()),
            requires_success: false,
        },
        ReportTool {
            name: STEP_DONE,
            description: "End the phase: done and checked.",
            schema: step_done_schema(),
            declared_schema: None,
            requires_success: true,
        },
        ReportTool {
            name: STEP_BLOCKED,
            description: "End the phase: it cannot be done.",
            schema: step_blocked_schema(),
            declared_schema: Some(json!({
                "type": "object",
                "properties": {"reason": {"type": "string"}},
                "required": ["reason"],
            })),
            requires_success: false,
        },
    ]
});

static REVIEW: LazyLock<[ReportTool; 1]> = LazyLock::new(|| {
    [ReportTool {
        name: SUBMIT_REVIEW,
        description: "End the review.",
        schema: review_schema(),
        declared_schema: Some(declared_review_schema()),
        requires_success: false,
    }]
});

/// The report tools of plans that capture a test.
static CAPTURE: LazyLock<[ReportTool; 4]> = LazyLock::new(|| {
    let [strategy, done, blocked] = WORK.clone();
    [strategy, done, blocked, TEST.clone()]
});

/// The report tools of a built-in actor for a kind of step, in a plan with a typed report or without one.
pub(super) fn report_tools(kind: StepKind, report: Option<PlanReport>) -> ReportTools<'static> {
    let is_capture = report == Some(PlanReport::Test);
    if kind == StepKind::Strategize
        && let Some(tools) = report.and_then(whole_result_tools)
    {
        return tools;
    }
    match kind {
        StepKind::Strategize if is_capture => ReportTools {
            offered: &*CAPTURE,
            accepted: &[SUBMIT_STRATEGY, STEP_BLOCKED],
            text: TextAnswer::RemindedOnce,
        },
        StepKind::Step | StepKind::Fix | StepKind::Guidance if is_capture => ReportTools {
            offered: &*CAPTURE,
            accepted: &[SUBMIT_TEST, STEP_BLOCKED],
            text: TextAnswer::Report,
        },
        StepKind::Strategize => ReportTools {
            offered: &*WORK,
            accepted: &[SUBMIT_STRATEGY, STEP_BLOCKED, STEP_DONE],
            text: TextAnswer::RemindedOnce,
        },
        StepKind::Step | StepKind::Fix | StepKind::Guidance => ReportTools {
            offered: &*WORK,
            accepted: &[STEP_DONE, STEP_BLOCKED],
            text: TextAnswer::RemindedUnlessDone,
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
    /// The step is done; the text is the answer of the actor.
    Done(String),
    Blocked {
        reason: String,
        suggestion: Option<String>,
    },
}

impl StepReport {
    /// Parses the answer of an actor. An answer in prose counts as done if `may_end` is set and the answer is not a
    /// refusal.
    pub(super) fn parse(answer: &Value, may_end: bool) -> Self {
        let text = |name: &str| answer[name].as_str().map(str::trim);
        match answer[REPORT].as_str() {
            Some(STEP_BLOCKED) => Self::blocked(answer),
            Some(SUBMIT_TEST) => Self::Done(text("summary").unwrap_or_default().to_owned()),
            Some(STEP_DONE) => {
                let mut summary = text("summary").unwrap_or_default().to_owned();
                let checks = answer["checks_run"].as_array().into_iter().flatten();
                for check in checks {
                    let command = check["command"].as_str().unwrap_or_default();
                    let verdict = match check["passed"].as_bool() {
                        Some(true) => "passed",
                        _ => "failed",
                    };
                    let _written = write!(summary, "\n- `{command}` {verdict}");
                }
                Self::Done(summary)
            }
            _ => {
                let text = answer_text(answer);
                if may_end && !is_refusal(&text) {
                    return Self::Done(text);
                }
                Self::Blocked {
                    reason: without_report("it changed nothing and reported nothing", &text),
                    suggestion: None,
                }
            }
        }
    }

    fn blocked(answer: &Value) -> Self {
        let text = |name: &str| answer[name].as_str().map(str::trim);
        Self::Blocked {
            reason: text("reason").unwrap_or_default().to_owned(),
            suggestion: text("suggestion")
                .filter(|suggestion| !suggestion.is_empty())
                .map(str::to_owned),
        }
    }
}

/// The outcome of strategizing.
#[derive(Debug)]
pub(super) enum StrategyOutcome {
    /// A strategy, which still has to be parsed.
    Strategy,
    /// Nothing has to change, for this reason; also a typed report that is the whole result of its plan.
    NothingToDo(String),
    /// The task cannot be planned.
    Blocked {
        reason: String,
        suggestion: Option<String>,
    },
}

impl StrategyOutcome {
    /// Parses the answer of a strategist.
    pub(super) fn parse(answer: &Value) -> Self {
        match answer[REPORT].as_str() {
            Some(STEP_BLOCKED) => match StepReport::blocked(answer) {
                StepReport::Blocked { reason, suggestion } => Self::Blocked { reason, suggestion },
                StepReport::Done(_) => Self::Strategy,
            },
            Some(STEP_DONE) => Self::NothingToDo(
                answer["summary"]
                    .as_str()
                    .unwrap_or_default()
                    .trim()
                    .to_owned(),
            ),
            Some(SUBMIT_FINDINGS | SUBMIT_TRIAGE | SUBMIT_VERDICT) => {
                Self::NothingToDo(typed_report::summary(answer))
            }
            Some(_) => Self::Strategy,
            None => match answer.as_str() {
                Some(text) if is_refusal(text) => Self::Blocked {
                    reason: without_report("the strategist made no strategy", text),
                    suggestion: None,
                },
                _ => Self::Strategy,
            },
        }
    }
}

/// Appends to a reason the answer that an actor gave instead of a report.
fn without_report(reason: &str, text: &str) -> String {
    match text.trim() {
        "" => format!("{reason}; its answer is empty"),
        text => format!(
            "{reason}; it answered: \"{}\"",
            shortened(text, SHOWN_ANSWER)
        ),
    }
}

/// The answer of an actor as text.
pub(super) fn answer_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => serde_json::to_string_pretty(other).unwrap_or_else(|_| other.to_string()),
    }
}

/// The schema of a strategy. The parser (`strategize/strategy_parser.rs`) accepts further fields:
/// alternatives, confidence, risk, tool calls of steps, and `children`, the settings of child plans.
pub(super) fn strategy_schema() -> Value {
    json!({
        "type": "object",
        "required": ["summary", "steps"],
        "properties": {
            "summary": {"type": "string", "minLength": 1},
            "decisions": {"type": "array", "items": {
                "type": "object",
                "required": ["question", "chosen"],
                "properties": {
                    "question": {"type": "string", "minLength": 1},
                    "chosen": {"type": "string", "minLength": 1},
                    "rationale": {"type": "string"},
                },
            }},
            "steps": {"type": "array", "minItems": 1, "items": {
                "type": "object",
                "required": ["title", "description"],
                "properties": {
                    "title": {"type": "string", "minLength": 1},
                    "description": {"type": "string"},
                    "files": {"type": "array", "items": {"type": "string"}},
                    "child_plan": {"type": "boolean"},
                    "after": {"type": "array", "items": {"type": "integer", "minimum": 1}},
                },
            }},
        },
    })
}

/// The short form of [`strategy_schema`]. The instructions of the strategist show an example and describe `child_plan` and
/// `after`.
fn declared_strategy_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "summary": {"type": "string"},
            "decisions": {"type": "array", "items": {
                "type": "object",
                "properties": {
                    "question": {"type": "string"},
                    "chosen": {"type": "string"},
                    "rationale": {"type": "string"},
                },
            }},
            "steps": {"type": "array", "items": {
                "type": "object",
                "properties": {
                    "title": {"type": "string"},
                    "description": {"type": "string"},
                    "files": {"type": "array", "items": {"type": "string"}},
                },
            }},
        },
        "required": ["summary", "steps"],
    })
}

/// The short form of [`review_schema`].
fn declared_review_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "criteria": {"type": "array", "items": {
                "type": "object",
                "properties": {
                    "number": {"type": "integer"},
                    "met": {"type": "boolean"},
                    "evidence": {"type": "string"},
                },
            }},
            "defects": {"type": "array", "items": {
                "type": "object",
                "properties": {
                    "severity": {"type": "string", "enum": ["blocking", "advice"]},
                    "path": {"type": "string"},
                    "line": {"type": "integer"},
                    "description": {"type": "string"},
                },
            }},
        },
        "required": ["criteria"],
    })
}

/// The schema of `step_done`. The parser also accepts `checks_run`: a list of commands, each with `passed`.
fn step_done_schema() -> Value {
    json!({
        "type": "object",
        "required": ["summary"],
        "properties": {
            "summary": {"type": "string", "minLength": 1},
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
    fn plain_text_counts_as_done_unless_blocked_or_refused() {
        let blocked =
            json!({"report": "step_blocked", "reason": "no such table", "suggestion": ""});
        assert_eq!(
            StepReport::parse(&blocked, true),
            StepReport::Blocked {
                reason: "no such table".to_owned(),
                suggestion: None
            }
        );
        let done = json!({"report": "step_done", "summary": "Wrote it",
            "checks_run": [{"command": "make test", "passed": true}]});
        assert_eq!(
            StepReport::parse(&done, false),
            StepReport::Done("Wrote it\n- `make test` passed".to_owned())
        );
        assert_eq!(
            StepReport::parse(&json!("Written."), true),
            StepReport::Done("Written.".to_owned())
        );
        for (text, may_end) in [
            ("Written.", false),
            ("", false),
            ("I\u{2019}m unable to help with that.", true),
        ] {
            let report = StepReport::parse(&json!(text), may_end);
            assert!(matches!(report, StepReport::Blocked { .. }), "{text}");
        }
    }
}
