//! [`ReportTools`]: tools with which a model reports the result of its turn.
//!
//! A report does not run through the gate: its only effect is to end the turn. This module validates
//! the arguments against the complete schema, because providers enforce only parts of a schema. A
//! call with invalid arguments returns an error, and the model may repeat it.

use std::sync::Arc;

use cleveragents_models::{ChatMessage, ToolCall, ToolDefinition, ToolResult, drop_optional_nulls};
use cleveragents_tools::{check_value, without_bounds};
use serde_json::Value;

use crate::answer_json::json_values;

/// The field that names the tool in the value of a report.
pub(crate) const REPORT: &str = "report";

/// The result that a model receives for an accepted report.
const RECORDED: &str = "Recorded.";

/// A tool that reports a result.
#[derive(Debug, Clone)]
pub struct ReportTool {
    /// The name in requests: letters, digits and `_`.
    pub name: &'static str,
    /// The description for the model.
    pub description: &'static str,
    /// The JSON schema of the arguments, which are an object. Calls are validated against it.
    pub schema: Value,
    /// A shorter form of the schema for requests; `None` to declare `schema`.
    pub declared_schema: Option<Value>,
    /// Whether the report is refused when another call of the same answer failed: the model made the
    /// report before it received the failure.
    pub requires_success: bool,
}

impl ReportTool {
    pub(super) fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: self.name.to_owned(),
            description: self.description.to_owned(),
            input_schema: without_bounds(
                self.declared_schema
                    .as_ref()
                    .unwrap_or(&self.schema)
                    .clone(),
            ),
        }
    }

    /// Validates the arguments of a report. Returns its value, or the reason why they are invalid.
    fn read(&self, mut arguments: Value) -> Result<Value, String> {
        drop_optional_nulls(&self.schema, &mut arguments);
        check_value(&self.schema, &arguments)?;
        if let Value::Object(fields) = &mut arguments {
            fields.insert(REPORT.to_owned(), self.name.into());
        }
        Ok(arguments)
    }

    /// Parses and validates a call of this tool. Returns its value, or the reason why it is invalid.
    fn read_call(&self, call: &ToolCall) -> Result<Value, String> {
        let text = match call.arguments.trim() {
            "" => "{}",
            text => text,
        };
        let arguments = serde_json::from_str::<Value>(text)
            .map_err(|error| format!("the arguments are not JSON: {error}"))?;
        self.read(arguments)
    }
}

/// Treatment of a plain-text answer of the model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TextAnswer {
    /// The text is the result.
    #[default]
    Accepted,
    /// The text must contain the arguments of a report as JSON; otherwise the model is reminded.
    Report,
    /// Like [`Report`](Self::Report), but after one reminder the text is the result, and the caller interprets it.
    RemindedOnce,
    /// Like [`RemindedOnce`](Self::RemindedOnce), but without a reminder when the work may end
    /// ([`WorkState`](crate::run::WorkState)) and the text is not a refusal.
    RemindedUnlessDone,
}

impl TextAnswer {
    /// Whether a report is expected.
    pub(crate) fn expects_report(self) -> bool {
        self != Self::Accepted
    }
}

/// Whether a text refuses the task or reports failure. The task then never counts as done.
pub(crate) fn is_refusal(text: &str) -> bool {
    const SIGNS: [&str; 11] = [
        "i can't",
        "i cannot",
        "i can not",
        "i'm unable",
        "i am unable",
        "i was unable",
        "i'm not able",
        "i am not able",
        "i won't",
        "i will not be able",
        "i must decline",
    ];
    let text = text.trim().replace('’', "'").to_lowercase();
    let beginning = &text[..text.floor_char_boundary(200)];
    SIGNS.iter().any(|sign| beginning.contains(sign))
}

/// The report tools of a turn.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReportTools<'a> {
    /// The tools that requests declare. All phases of a plan use the same list, so that prompt caches stay valid.
    pub offered: &'a [ReportTool],
    /// The names of the tools that end this turn; calls of other report tools return an error.
    pub accepted: &'a [&'a str],
    /// Treatment of a plain-text answer.
    pub text: TextAnswer,
}

impl<'a> ReportTools<'a> {
    /// The tool of a call, if it is a report.
    fn called(&self, call: &ToolCall) -> Option<&'a ReportTool> {
        self.offered.iter().find(|tool| tool.name == call.name)
    }

    fn accepts(&self, tool: &ReportTool) -> bool {
        self.accepted.contains(&tool.name)
    }

    /// The tools that end the turn.
    pub(crate) fn expected(&self) -> impl Iterator<Item = &'a ReportTool> + use<'a> {
        let this = *self;
        self.offered.iter().filter(move |tool| this.accepts(tool))
    }

    /// The result of a call that is a report; `None` for other calls.
    pub(super) fn answer(&self, call: &ToolCall) -> Option<ToolResult> {
        let tool = self.called(call)?;
        let checked = if self.accepts(tool) {
            tool.read_call(call).map(drop)
        } else {
            let names: Vec<String> = self
                .accepted
                .iter()
                .map(|name| format!("`{name}`"))
                .collect();
            Err(format!("report this phase with {}", names.join(" or ")))
        };
        Some(ToolResult {
            pictures: Vec::new(),
            call_id: call.id.clone(),
            is_error: checked.is_err(),
            content: match checked {
                Ok(()) => RECORDED.to_owned(),
                Err(why) => format!(
                    "`{}` was not recorded: {why}. Correct the arguments and call it again.",
                    call.name
                ),
            },
        })
    }

    /// Whether the results of an answer end the turn. Refuses a report with `requires_success` when
    /// another call of the answer failed, and all reports of an answer with several.
    pub(super) fn end_turn(&self, calls: &[ToolCall], results: &mut [ToolResult]) -> bool {
        let is_report = |(call, result): &(&ToolCall, &ToolResult)| {
            !result.is_error && self.called(call).is_some()
        };
        if calls.iter().zip(results.iter()).filter(is_report).count() > 1 {
            for (call, result) in calls.iter().zip(results) {
                if !result.is_error && self.called(call).is_some() {
                    result.is_error = true;
                    result.content = format!(
                        "`{}` was not recorded: the answer contains several reports. Send exactly one.",
                        call.name
                    );
                }
            }
            return false;
        }
        let failed = calls
            .iter()
            .zip(results.iter())
            .any(|(call, result)| self.called(call).is_none() && result.is_error);
        let mut ends = false;
        for (call, result) in calls.iter().zip(results) {
            let Some(tool) = self.called(call).filter(|_| !result.is_error) else {
                continue;
            };
            if failed && tool.requires_success {
                result.is_error = true;
                result.content = format!(
                    "`{}` was not recorded: another call of the same answer failed. Read its result first.",
                    call.name
                );
            } else {
                ends = true;
            }
        }
        ends
    }

    /// Reads the report that ended a turn from the messages of the turn. The value holds the arguments, and the name of
    /// the tool in the field `report`.
    pub(crate) fn reported(&self, steps: &[ChatMessage]) -> Option<Value> {
        let [
            ..,
            ChatMessage::Assistant(answer),
            ChatMessage::Tool { results },
        ] = steps
        else {
            return None;
        };
        let is_recorded = |call: &&ToolCall| {
            let mut results = results.iter();
            results.any(|result| result.call_id == call.id && !result.is_error)
        };
        answer.calls.iter().filter(is_recorded).find_map(|call| {
            let tool = self.called(call).filter(|tool| self.accepts(tool))?;
            tool.read_call(call).ok()
        })
    }

    /// Parses the report that an answer in plain text contains as JSON. The error states why no JSON value fits.
    pub(crate) fn in_text(&self, text: &str) -> Result<Value, String> {
        // After a single reminder, the caller interprets the text. Only the first accepted tool is tried then, because
        // JSON that fits no report of that tool may still fit the schema of another tool.
        let max_tools = match self.text {
            TextAnswer::RemindedOnce => 1,
            _ => usize::MAX,
        };
        let mut misfit = None;
        for value in json_values(text) {
            for tool in self.expected().take(max_tools) {
                match tool.read(value.clone()) {
                    Ok(value) => return Ok(value),
                    Err(why) => misfit = misfit.or(Some(why)),
                }
            }
        }
        Err(misfit.unwrap_or_else(|| "it contains no JSON value".to_owned()))
    }
}

/// Whether the turn ends with results of calls that include an accepted report.
pub(super) fn has_report(reports: &ReportTools<'_>, steps: &[Arc<ChatMessage>]) -> bool {
    let last: Vec<ChatMessage> = steps
        .iter()
        .skip(steps.len().saturating_sub(2))
        .map(|step| step.as_ref().clone())
        .collect();
    reports.reported(&last).is_some()
}

/// The warning for the model when few answers are left; `None` otherwise. `asked` is the number of
/// answers so far.
pub(super) fn limit_warning(asked: u64, limit: u64) -> Option<String> {
    let left = limit.saturating_sub(asked);
    let is_mostly_used = asked == (limit.saturating_mul(4)).div_ceil(5);
    match left {
        1 => Some(
            "(Your next answer is the last one: report now, with what is done and what is missing.)"
                .to_owned(),
        ),
        _ if is_mostly_used && left > 1 => Some(format!(
            "({asked} of {limit} answers are used. Finish: run the check, then report.)"
        )),
        _ => None,
    }
}

/// Number of answers of the model in a turn.
pub(super) fn answers(steps: &[Arc<ChatMessage>]) -> u64 {
    let is_answer = |step: &&Arc<ChatMessage>| matches!(step.as_ref(), ChatMessage::Assistant(_));
    steps.iter().filter(is_answer).count() as u64
}

#[cfg(test)]
mod tests {
    use cleveragents_models::{AssistantMessage, ChatMessage, ToolCall, ToolResult};
    use serde_json::json;

    use super::{ReportTool, ReportTools, TextAnswer, limit_warning};

    fn tools() -> [ReportTool; 2] {
        ["done", "plan"].map(|name| ReportTool {
            name,
            description: "Reports.",
            schema: json!({"type": "object", "required": ["summary"],
                "properties": {"summary": {"type": "string", "minLength": 1}}}),
            declared_schema: None,
            requires_success: true,
        })
    }

    fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
        ToolCall {
            id: id.to_owned(),
            name: name.to_owned(),
            arguments: arguments.to_owned(),
            signature: None,
        }
    }

    fn result_of(id: &str, is_error: bool) -> ToolResult {
        ToolResult {
            pictures: Vec::new(),
            call_id: id.to_owned(),
            content: String::new(),
            is_error,
        }
    }

    #[test]
    fn only_a_valid_report_of_this_phase_ends_the_turn() {
        let offered = tools();
        let reports = ReportTools {
            offered: &offered,
            accepted: &["done"],
            text: TextAnswer::Accepted,
        };
        let answer = |name: &str, arguments: &str| reports.answer(&call("1", name, arguments));
        assert!(answer("shell", "{}").is_none(), "`shell` is not a report");
        for (name, arguments) in [
            ("done", "{"),
            ("done", r#"{"summary": ""}"#),
            ("plan", r#"{"summary": "x"}"#),
        ] {
            let result = answer(name, arguments).expect("a report");
            assert!(result.is_error, "{name} {arguments}");
        }
        assert!(
            !answer("done", r#"{"summary": "x"}"#)
                .expect("a report")
                .is_error
        );
    }

    #[test]
    fn a_report_of_success_next_to_a_failed_call_is_refused() {
        let offered = tools();
        let reports = ReportTools {
            offered: &offered,
            accepted: &["done"],
            text: TextAnswer::Accepted,
        };
        let calls = [
            call("1", "shell", "{}"),
            call("2", "done", r#"{"summary": "x"}"#),
        ];
        let mut results = [result_of("1", false), result_of("2", false)];
        assert!(reports.end_turn(&calls, &mut results));
        let mut results = [result_of("1", true), result_of("2", false)];
        assert!(!reports.end_turn(&calls, &mut results));
        assert!(results[1].is_error);
        let steps = |results: &[ToolResult]| {
            let message = AssistantMessage {
                calls: calls.to_vec(),
                ..AssistantMessage::default()
            };
            [
                ChatMessage::Assistant(message),
                ChatMessage::Tool {
                    results: results.to_vec(),
                },
            ]
        };
        assert_eq!(reports.reported(&steps(&results)), None);
        assert_eq!(
            reports.reported(&steps(&[result_of("1", false), result_of("2", false)])),
            Some(json!({"report": "done", "summary": "x"}))
        );
    }

    #[test]
    fn several_reports_in_one_answer_are_refused() {
        let offered = tools();
        let reports = ReportTools {
            offered: &offered,
            accepted: &["done", "plan"],
            text: TextAnswer::Accepted,
        };
        let calls = [
            call("1", "done", r#"{"summary": "x"}"#),
            call("2", "plan", r#"{"summary": "y"}"#),
        ];
        let mut results = [result_of("1", false), result_of("2", false)];
        assert!(!reports.end_turn(&calls, &mut results));
        assert!(results.iter().all(|result| result.is_error));
        // An invalid report next to a valid one does not count.
        let mut results = [result_of("1", true), result_of("2", false)];
        assert!(reports.end_turn(&calls, &mut results));
    }

    #[test]
    fn warnings_come_at_four_fifths_and_before_the_last_answer() {
        let warned: Vec<u64> = (0..=20)
            .filter(|asked| limit_warning(*asked, 20).is_some())
            .collect();
        assert_eq!(warned, [16, 19]);
        let warned: Vec<u64> = (0..=2)
            .filter(|asked| limit_warning(*asked, 2).is_some())
            .collect();
        assert_eq!(warned, [1]);
    }
}
