//! The log of a plan in words: what each event says.

use cleveragents_domain::{Event, EventKind};
use serde_json::Value;

/// An event in words: what happened, and what is to be known about it.
pub fn told(event: &Event) -> (&'static str, String) {
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
    let moved = || {
        let way = format!("{} → {}", text("from"), text("to"));
        joined(&[way, text("reason"), text("error")])
    };
    match event.kind {
        EventKind::PlanCreated => (
            "made",
            joined(&[format!("from {}", text("action")), text("name")]),
        ),
        EventKind::PlanPhaseChanged => ("phase", moved()),
        EventKind::PlanStateChanged => ("state", moved()),
        EventKind::PlanApplied => ("applied", moved()),
        EventKind::PlanCancelled => ("given up", moved()),
        EventKind::PlanErrored => ("failed", moved()),
        EventKind::PlanWaiting => ("waits", format!("for {}", text("for"))),
        EventKind::PlanAnswered => {
            let who = format!("{} by {}", text("verdict"), text("person"));
            ("answered", joined(&[who, text("answer")]))
        }
        EventKind::PlanGuided => ("guidance", text("guidance")),
        EventKind::PlanQueued => ("queued", "for a worker".to_owned()),
        EventKind::PlanCancelRequested => ("asked to stop", text("reason")),
        EventKind::PlanEdited => ("edited", "its strategy was changed by a person".to_owned()),
        EventKind::PlanStepStarted => ("step begun", joined(&[text("path"), text("title")])),
        EventKind::PlanStepFinished => {
            let what = match text("state").as_str() {
                "failed" => "step failed",
                _ => "step done",
            };
            (what, text("summary"))
        }
        EventKind::PlanRolledBack => ("taken back", format!("rollback {}", number(payload))),
        EventKind::PlanRedone => (
            "redone",
            format!("rollback {} is taken back", number(payload)),
        ),
        EventKind::PlanEstimated => ("estimated", "what it will take".to_owned()),
        EventKind::DecisionCreated => ("decided", joined(&[text("type"), text("chosen")])),
        EventKind::DecisionSuperseded => ("replaced", format!("decision {}", text("decision_id"))),
        EventKind::InvariantsReconciled => ("invariants", "brought together".to_owned()),
        EventKind::InvariantViolated => ("invariant broken", facts(payload)),
        EventKind::ValidationPassed => (
            "validation passed",
            joined(&[text("validation"), text("message")]),
        ),
        EventKind::ValidationFailed => (
            "validation failed",
            joined(&[text("validation"), text("message")]),
        ),
        EventKind::ValidationJudged => {
            let what = if payload["passed"] == true {
                "validation passed"
            } else {
                "validation failed"
            };
            (what, text("validation"))
        }
        EventKind::BudgetExhausted => ("budget spent", facts(payload)),
        EventKind::ChangesetOpened => ("changes", "are recorded from here".to_owned()),
        EventKind::ChangesetClosed => ("changes", "are complete".to_owned()),
        EventKind::LeaseAcquired => ("worked on", worker(payload)),
        EventKind::LeaseTakenOver => ("taken over", worker(payload)),
        EventKind::LeaseReleased => ("let go", "whoever worked on it stopped".to_owned()),
        other => (other.as_str(), facts(payload)),
    }
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

/// What an event says that has no words of its own.
fn facts(payload: &Value) -> String {
    match payload {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Object(map) => {
            let told = map.iter().filter(|(_, value)| !value.is_null());
            let told: Vec<String> = told
                .map(|(key, value)| match value {
                    Value::String(text) => format!("{key} {text}"),
                    other => format!("{key} {other}"),
                })
                .collect();
            told.join(", ")
        }
        other => other.to_string(),
    }
}
