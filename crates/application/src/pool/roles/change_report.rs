//! Turns the result of a role into the report that the engine stores.

use std::fmt::Write as _;

use cleveragents_domain::{
    Attempt, AttemptEvidence, AttemptOutcome, GateResult, MicroUsd, Plan, PoolRole, Priority,
    RegressionProof, RegressionRule, ReviewVerdict, Severity,
};

use super::capture::AttemptResult;
use super::change_check::ChangeProblem;
use super::driver::{RoleStop, StopReason};
use super::gates::GateRun;
use crate::pool::{Dispatch, RoleFailure, RoleReport};

/// Name of the gate that checks the change itself.
const CHANGE_GATE: &str = "change";

/// Number of characters of a gate's output in the prompt of the next attempt.
const SHOWN_OUTPUT: usize = 1_500;

/// A report without a result.
pub(super) fn failed_report(failure: RoleFailure, plan: Option<&Plan>) -> RoleReport {
    RoleReport::Failed {
        failure,
        cost: plan.map_or(MicroUsd(0), |plan| plan.usage.cost_micro_usd),
        plan: plan.map(|plan| plan.id),
    }
}

pub(super) fn stopped(stop: RoleStop, plan: &Plan) -> RoleReport {
    let message = stop.message;
    let failure = match stop.reason {
        StopReason::Cancelled => RoleFailure::Cancelled,
        StopReason::LimitReached => RoleFailure::Limit(message),
        StopReason::Environment => RoleFailure::Environment(message),
        StopReason::Waiting => RoleFailure::Blocked(message),
        StopReason::NoResult | StopReason::FailedChecks => RoleFailure::NoResult(message),
    };
    failed_report(failure, Some(plan))
}

/// The report of an attempt that changed files.
pub(super) fn change_report(
    dispatch: &Dispatch,
    plan: &Plan,
    result: AttemptResult,
    regression: Option<RegressionProof>,
    regression_rule: RegressionRule,
) -> RoleReport {
    if let Some(stop) = &result.stop
        && stop.reason != StopReason::FailedChecks
        && result.gates.is_empty()
    {
        return stopped(stop.clone(), plan);
    }
    let state = result.state.clone();
    let stored = |gate: &GateRun| GateResult {
        name: gate.name.clone(),
        command: gate.command.clone(),
        scope: gate.scope.clone(),
        required: gate.required,
        exit_code: if gate.passed {
            Some(0)
        } else {
            gate.exit_code.map(|code| code.max(1))
        },
        commit_or_sandbox_state: state.clone(),
        output_tail: gate.output_tail.clone(),
    };
    let mut gates: Vec<GateResult> = result.gates.iter().map(stored).collect();
    let problems: Vec<String> = result.problems.iter().map(ToString::to_string).collect();
    let is_empty_change = result.problems.iter().any(ChangeProblem::is_empty_change);
    gates.push(GateResult {
        name: CHANGE_GATE.to_owned(),
        command: "check of the changed files".to_owned(),
        scope: "all changed files".to_owned(),
        required: true,
        exit_code: Some(i32::from(!problems.is_empty())),
        commit_or_sandbox_state: state.clone(),
        output_tail: problems.join("\n"),
    });
    let mut required_gates = dispatch.pool.outcomes.required_gates.clone();
    required_gates.extend(
        gates
            .iter()
            .filter(|gate| gate.required)
            .map(|gate| gate.name.clone()),
    );
    required_gates.sort_unstable();
    required_gates.dedup();
    let evidence = AttemptEvidence {
        base: Some(result.base_commit).filter(|base| !base.is_empty()),
        required_gates,
        gates,
        failing_on_base: result.red_on_base,
        fixes_base: dispatch.item.priority == Priority::CiBlocker,
        changed_paths: result.changed,
        changes_behavior: !is_empty_change,
        regression,
        regression_rule,
        environment_failure: result.environment_failure,
        cost_micro_usd: plan.usage.cost_micro_usd.0,
        summary: plan
            .strategy
            .as_ref()
            .map(|strategy| strategy.summary.clone())
            .unwrap_or_default(),
        ..AttemptEvidence::without_gates(state)
    };
    RoleReport::Change {
        evidence,
        plan: Some(plan.id),
    }
}

/// The reasons of the earlier attempts of a role in the current round, each with the end of its failing gates' output,
/// and the findings of the reviews.
pub(super) fn earlier_reasons(dispatch: &Dispatch, role: PoolRole) -> Vec<String> {
    let is_counted = |attempt: &&Attempt| {
        // A fix also learns why its merge was refused.
        (attempt.role == role || (role == PoolRole::Fix && attempt.role == PoolRole::Merge))
            && attempt.round == dispatch.item.round
            && attempt
                .outcome
                .is_some_and(|outcome| outcome != AttemptOutcome::Succeeded)
    };
    let mut reasons: Vec<String> = Vec::new();
    for attempt in dispatch.earlier.iter().filter(is_counted) {
        let reason = attempt
            .reason
            .as_deref()
            .unwrap_or("no reason was recorded");
        let mut text = format!("{} ({}): {reason}", attempt.tier, attempt.actor);
        for gate in attempt.gates.iter().filter(|gate| !gate.has_passed()) {
            let output = super::brief::tail(&gate.output_tail, SHOWN_OUTPUT);
            let _written = write!(text, "\n`{}` printed:\n{output}", gate.command);
        }
        reasons.push(text);
    }
    if role == PoolRole::Fix {
        let blocking = dispatch.pool.outcomes.blocking_severity;
        for review in &dispatch.reviews {
            reasons.extend(review_reason(&review.verdict, blocking));
        }
    }
    reasons
}

fn review_reason(verdict: &ReviewVerdict, blocking: Severity) -> Option<String> {
    let findings: Vec<String> = verdict
        .blocking(blocking)
        .map(|finding| format!("{}: {}", finding.path, finding.message))
        .collect();
    (!findings.is_empty()).then(|| format!("a review found: {}", findings.join("; ")))
}

/// One line for each gate.
pub(super) fn gate_lines(gates: &[GateResult]) -> String {
    let lines: Vec<String> = gates
        .iter()
        .map(|gate| {
            let code = gate.exit_code.map_or_else(
                || "no exit code".to_owned(),
                |code| format!("exit code {code}"),
            );
            format!(
                "- {}: `{}`: {code} ({})",
                gate.name, gate.command, gate.scope
            )
        })
        .collect();
    lines.join("\n")
}
