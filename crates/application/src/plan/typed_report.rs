//! The report tools of plans with a typed result ([`PlanReport`]): findings, triage, verdict and captured test.
//!
//! The schemas are strict: unknown fields, states and causes are refused when the report arrives, and the model may
//! correct them. `pool/roles` reads the values.

use std::sync::LazyLock;

use cleveragents_domain::PlanReport;
use serde_json::{Value, json};

use crate::count::counted;
use crate::turn::{ReportTool, ReportTools, TextAnswer};

pub(crate) const SUBMIT_FINDINGS: &str = "submit_findings";
pub(crate) const SUBMIT_TRIAGE: &str = "submit_triage";
pub(crate) const SUBMIT_VERDICT: &str = "submit_verdict";
pub(crate) const SUBMIT_TEST: &str = "submit_test";

/// Maximum number of findings of one report: a module with more is reported again after the first are fixed.
const MAX_FINDINGS: u64 = 10;

/// The categories of findings, each with its causes. The identity of a finding is its place, category and cause, so
/// that two wordings of one defect are one finding.
pub(crate) const CAUSES: [(&str, &[&str]); 5] = [
    (
        "concurrency",
        &[
            "unlocked_shared_state",
            "check_then_act",
            "read_modify_write",
            "lock_order",
            "lock_scope",
            "unsafe_publication",
            "lost_notification",
        ],
    ),
    (
        "security",
        &[
            "injection",
            "path_traversal",
            "missing_authorization",
            "secret_exposure",
            "unsafe_deserialization",
        ],
    ),
    (
        "error_handling",
        &[
            "ignored_error",
            "wrong_error",
            "partial_write",
            "missing_rollback",
        ],
    ),
    (
        "resource_leak",
        &["unclosed_resource", "unbounded_growth", "missing_timeout"],
    ),
    (
        "correctness",
        &[
            "wrong_result",
            "off_by_one",
            "wrong_type",
            "missing_case",
            "specification_gap",
        ],
    ),
];

static FINDINGS: LazyLock<[ReportTool; 1]> = LazyLock::new(|| {
    [ReportTool {
        name: SUBMIT_FINDINGS,
        description: "End the hunt with the defects that you can prove from the code. An empty list is a good answer.",
        schema: findings_schema(),
        declared_schema: None,
        requires_success: false,
    }]
});

static TRIAGE: LazyLock<[ReportTool; 1]> = LazyLock::new(|| {
    [ReportTool {
        name: SUBMIT_TRIAGE,
        description: "End the triage with the decisions about the item, each with its reason.",
        schema: triage_schema(),
        declared_schema: None,
        requires_success: false,
    }]
});

static VERDICT: LazyLock<[ReportTool; 1]> = LazyLock::new(|| {
    [ReportTool {
        name: SUBMIT_VERDICT,
        description: "End the review with the verdict and the findings by severity.",
        schema: verdict_schema(),
        declared_schema: None,
        requires_success: false,
    }]
});

/// The report tool of a captured test, which an executor has in addition to the tools of a step.
pub(super) static TEST: LazyLock<ReportTool> = LazyLock::new(|| ReportTool {
    name: SUBMIT_TEST,
    description: "End the capture: the test is written, marked as an expected failure, and fails for the stated reason without its marker.",
    schema: test_schema(),
    declared_schema: None,
    requires_success: true,
});

/// The report tools of the single phase of a plan whose report is its whole result; `None` for other plans.
pub(super) fn whole_result_tools(report: PlanReport) -> Option<ReportTools<'static>> {
    let (offered, accepted): (&'static [ReportTool], &'static [&'static str]) = match report {
        PlanReport::Findings => (&*FINDINGS, &[SUBMIT_FINDINGS]),
        PlanReport::Triage => (&*TRIAGE, &[SUBMIT_TRIAGE]),
        PlanReport::Verdict => (&*VERDICT, &[SUBMIT_VERDICT]),
        PlanReport::Test => return None,
    };
    Some(ReportTools {
        offered,
        accepted,
        text: TextAnswer::Report,
    })
}

/// The name of the instructions of a plan with a typed report.
pub(super) const fn prompt_name(report: PlanReport) -> &'static str {
    match report {
        PlanReport::Findings => "hunt",
        PlanReport::Triage => "triage",
        PlanReport::Verdict => "verdict",
        PlanReport::Test => "capture",
    }
}

/// One sentence about a report, for the strategy and the log of its plan.
pub(super) fn summary(report: &Value) -> String {
    let count = |name: &str| report[name].as_array().map_or(0, Vec::len);
    match report["report"].as_str() {
        Some(SUBMIT_FINDINGS) => format!("Reported {}", counted(count("findings"), "finding")),
        Some(SUBMIT_TRIAGE) => {
            let state = report["state"]["value"].as_str().unwrap_or_default();
            format!("Reported the state {state}")
        }
        Some(SUBMIT_VERDICT) => {
            let verdict = report["verdict"].as_str().unwrap_or_default();
            format!(
                "Reported {verdict} with {}",
                counted(count("findings"), "finding")
            )
        }
        _ => "Reported nothing".to_owned(),
    }
}

/// An object of which all fields are required and no others are accepted.
fn strict(properties: &Value) -> Value {
    let required: Vec<String> = properties
        .as_object()
        .map(|fields| fields.keys().cloned().collect())
        .unwrap_or_default();
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": required,
        "properties": properties,
    })
}

fn text() -> Value {
    json!({"type": "string", "minLength": 1})
}

fn findings_schema() -> Value {
    let categories: Vec<&str> = CAUSES.iter().map(|(category, _)| *category).collect();
    let causes: Vec<&str> = CAUSES
        .iter()
        .flat_map(|(_, causes)| causes.iter().copied())
        .collect();
    let finding = strict(&json!({
        "title": text(),
        "category": {"type": "string", "enum": categories},
        "cause": {"type": "string", "enum": causes},
        "severity": {"type": "string", "enum": ["critical", "high", "medium", "low"]},
        "confidence": {"type": "number", "minimum": 0, "maximum": 1},
        "path": text(),
        "symbol": {"type": "string"},
        "line_start": {"type": "integer", "minimum": 1},
        "line_end": {"type": "integer", "minimum": 1},
        "quote": text(),
        "description": text(),
        "failure_scenario": {"type": "array", "minItems": 1, "items": text()},
        "expected": text(),
        "actual": text(),
        "impact": text(),
        "likelihood": text(),
        "suggested_fix": {"type": "string"},
    }));
    strict(&json!({
        "examined": {"type": "array", "minItems": 1, "items": text()},
        "findings": {"type": "array", "maxItems": MAX_FINDINGS, "items": finding},
        "environment_failures": {"type": "array", "items": text()},
    }))
}

fn triage_schema() -> Value {
    let decision = |values: Value| strict(&json!({"value": values, "reason": text()}));
    let one_of = |values: &[&str]| json!({"type": "string", "enum": values});
    let or_null = json!({"type": ["string", "null"]});
    let states = ["verified", "duplicate", "wont_do", "needs_person"];
    let priorities = ["ci_blocker", "critical", "high", "medium", "low", "backlog"];
    let moscow = ["must", "should", "could", "wont_have"];
    let points = json!({"type": "integer", "enum": [1, 2, 3, 5, 8, 13, 21, 34, 55, 88]});
    strict(&json!({
        "state": decision(one_of(&states)),
        "duplicate_of": or_null,
        "priority": decision(one_of(&priorities)),
        "milestone": decision(or_null),
        "points": decision(points),
        "moscow": decision(one_of(&moscow)),
        "labels": {"type": "array", "items": text()},
    }))
}

fn verdict_schema() -> Value {
    let finding = strict(&json!({
        "severity": {"type": "string", "enum": ["critical", "high", "medium", "low"]},
        "path": text(),
        "line": {"type": ["integer", "null"], "minimum": 1},
        "description": text(),
        "evidence": text(),
    }));
    strict(&json!({
        "verdict": {"type": "string", "enum": ["approve", "request_changes"]},
        "summary": text(),
        "findings": {"type": "array", "items": finding},
    }))
}

fn test_schema() -> Value {
    strict(&json!({
        "summary": text(),
        "test_path": text(),
        "test_name": text(),
        "test_command": text(),
        "failure_pattern": text(),
    }))
}

#[cfg(test)]
mod tests {
    use cleveragents_domain::PlanReport;
    use cleveragents_tools::check_value;
    use serde_json::{Value, json};

    use super::{findings_schema, triage_schema, verdict_schema, whole_result_tools};

    fn triage() -> Value {
        json!({
            "state": {"value": "verified", "reason": "the quoted code has the race"},
            "duplicate_of": null,
            "priority": {"value": "critical", "reason": "data loss"},
            "milestone": {"value": null, "reason": "none is open"},
            "points": {"value": 2, "reason": "one lock"},
            "moscow": {"value": "must", "reason": "data loss"},
            "labels": [],
        })
    }

    #[test]
    fn a_report_in_prose_or_with_invented_values_is_refused() {
        assert_eq!(check_value(&triage_schema(), &triage()), Ok(()));
        for (field, value) in [
            ("state", json!({"value": "closed", "reason": "done"})),
            ("state", json!("verified")),
            ("points", json!({"value": 4, "reason": "between"})),
            ("priority", json!({"value": "urgent", "reason": "now"})),
            ("moscow", json!({"value": "must", "reason": ""})),
        ] {
            let mut changed = triage();
            changed[field] = value;
            assert!(check_value(&triage_schema(), &changed).is_err(), "{field}");
        }
        let mut unknown = triage();
        unknown["approved"] = json!(true);
        assert!(check_value(&triage_schema(), &unknown).is_err());
        let verdict = json!({"verdict": "approved", "summary": "Approved.", "findings": []});
        assert!(check_value(&verdict_schema(), &verdict).is_err());
        let empty = json!({"examined": [], "findings": [], "environment_failures": []});
        assert!(
            check_value(&findings_schema(), &empty).is_err(),
            "nothing was read"
        );
    }

    #[test]
    fn only_whole_results_have_a_single_tool() {
        for report in [
            PlanReport::Findings,
            PlanReport::Triage,
            PlanReport::Verdict,
        ] {
            let tools = whole_result_tools(report).expect("tools");
            assert_eq!(tools.accepted.len(), 1);
            assert!(report.is_whole_result());
        }
        assert!(whole_result_tools(PlanReport::Test).is_none());
    }
}
