//! Describes the events of a plan.

use std::fmt::Write as _;

use cleveragents_domain::{Event, EventKind, InvocationOutcome, ToolInvocation};
use serde_json::Value;

use crate::plan::prompt::shortened;

/// Maximum size of the arguments of a tool call in the log, in bytes.
const SHOWN_ARGUMENTS: usize = 120;

/// Maximum size of the error of a tool call in the log, in bytes.
const SHOWN_ERROR: usize = 200;

/// Describes an event: a short title, and the details.
pub fn describe_event(event: &Event) -> (&'static str, String) {
    let payload = &event.payload;
    let text = |key: &str| payload[key].as_str().unwrap_or_default().to_owned();
    let joined = |parts: &[String]| {
        let parts: Vec<&str> = parts
            .iter()
            .map(String::as_str)
            .filter(|part| !part.is_empty())
            .collect();
        parts.join(": ")
    };
    let transition = || {
        let stages = format!("{} → {}", text("from"), text("to"));
        joined(&[stages, text("reason"), text("error")])
    };
    match event.kind {
        EventKind::PlanCreated => (
            "created",
            joined(&[format!("from {}", text("action")), text("name")]),
        ),
        EventKind::PlanPhaseChanged => ("phase", transition()),
        EventKind::PlanStateChanged => ("state", transition()),
        EventKind::PlanApplied => ("applied", transition()),
        EventKind::PlanCancelled => ("cancelled", transition()),
        EventKind::PlanErrored => ("failed", transition()),
        EventKind::PlanWaiting => ("waits", format!("for {}", text("for"))),
        EventKind::PlanAnswered => {
            let verdict = format!("{} by {}", text("verdict"), text("person"));
            ("answered", joined(&[verdict, text("answer")]))
        }
        EventKind::PlanGuided => ("guidance", text("guidance")),
        EventKind::PlanQueued => ("queued", "for a worker".to_owned()),
        EventKind::PlanCancelRequested => ("cancel requested", text("reason")),
        EventKind::PlanEdited => ("edited", "the user edited its strategy".to_owned()),
        EventKind::PlanStepStarted => ("step started", joined(&[text("path"), text("title")])),
        EventKind::PlanStepFinished => {
            let title = match text("state").as_str() {
                "failed" => "step failed",
                _ => "step done",
            };
            (title, text("summary"))
        }
        EventKind::ToolFinished => (
            "tool call",
            joined(&[text("tool"), outcome_text(&text("outcome"))]),
        ),
        EventKind::ToolRefused => (
            "tool call",
            joined(&[text("tool"), "refused".to_owned(), text("reason")]),
        ),
        EventKind::PlanRolledBack => ("rolled back", format!("rollback {}", number(payload))),
        EventKind::PlanRedone => ("redone", format!("rollback {} undone", number(payload))),
        EventKind::PlanApplyReverted => ("undone", reverted_commits(payload)),
        EventKind::PlanEstimated => ("estimated", "effort and cost".to_owned()),
        EventKind::DecisionCreated => ("decided", joined(&[text("type"), text("chosen")])),
        EventKind::DecisionSuperseded => ("replaced", format!("decision {}", text("decision_id"))),
        EventKind::InvariantsReconciled => ("invariants", "reconciled".to_owned()),
        EventKind::InvariantViolated => ("invariant broken", payload_fields(payload)),
        EventKind::ValidationPassed => (
            "validation passed",
            joined(&[text("validation"), text("message")]),
        ),
        EventKind::ValidationFailed => (
            "validation failed",
            joined(&[text("validation"), text("message")]),
        ),
        EventKind::ValidationJudged => {
            let title = if payload["passed"] == true {
                "validation passed"
            } else {
                "validation failed"
            };
            (title, text("validation"))
        }
        EventKind::BudgetExhausted => ("budget spent", payload_fields(payload)),
        EventKind::ChangesetOpened => ("changes", "recording started".to_owned()),
        EventKind::ChangesetClosed => ("changes", "recording complete".to_owned()),
        EventKind::LeaseAcquired => ("lease acquired", worker(payload)),
        EventKind::LeaseTakenOver => ("lease taken over", worker(payload)),
        EventKind::LeaseReleased => ("lease released", "its process stopped".to_owned()),
        other => (other.as_str(), payload_fields(payload)),
    }
}

/// Describes the end of a tool call: its name, its arguments, its result and its duration.
pub(in crate::plan) fn describe_call(call: &ToolInvocation) -> String {
    let mut text = call.tool.clone();
    let arguments = match &call.arguments {
        Value::Object(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .map(|(name, value)| match value {
                    Value::String(text) => format!("{name}={}", one_line(text)),
                    other => format!("{name}={other}"),
                })
                .collect();
            fields.join(" ")
        }
        other => other.to_string(),
    };
    if !arguments.is_empty() {
        text.push(' ');
        text.push_str(&shortened(&arguments, SHOWN_ARGUMENTS));
    }
    text.push_str(": ");
    text.push_str(&outcome_text(call.outcome.as_str()));
    if let Some(finished) = call
        .finished_at
        .filter(|_| call.outcome != InvocationOutcome::Refused)
    {
        let seconds = finished.seconds_since(call.started_at);
        let _never_fails = write!(text, " in {seconds:.1} s");
    }
    if let Some(error) = &call.error {
        text.push_str(": ");
        text.push_str(&shortened(&one_line(error), SHOWN_ERROR));
    }
    text
}

/// The outcome of a tool call in words.
fn outcome_text(outcome: &str) -> String {
    outcome.replace('_', " ")
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn number(payload: &Value) -> String {
    payload["number"]
        .as_u64()
        .map_or_else(String::new, |number| number.to_string())
}

fn worker(payload: &Value) -> String {
    match payload["owner"]["pid"].as_u64() {
        Some(pid) => format!("by process {pid}"),
        None => String::new(),
    }
}

/// Describes an event of any other kind by the fields of its payload.
fn payload_fields(payload: &Value) -> String {
    match payload {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Object(map) => {
            let facts = map.iter().filter(|(_, value)| !value.is_null());
            let facts: Vec<String> = facts
                .map(|(key, value)| match value {
                    Value::String(text) => format!("{key} {text}"),
                    other => format!("{key} {other}"),
                })
                .collect();
            facts.join(", ")
        }
        other => other.to_string(),
    }
}

/// The commits that undid an apply.
fn reverted_commits(payload: &Value) -> String {
    let commits = payload["commits"].as_array().into_iter().flatten();
    let reverts: Vec<&str> = commits
        .filter_map(|commit| commit["reverted_by"].as_str())
        .collect();
    format!("its apply, by commit {}", reverts.join(", "))
}
