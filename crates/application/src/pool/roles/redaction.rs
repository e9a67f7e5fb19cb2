//! Removes secrets from the report of a role before it is stored and mirrored to a tracker.

use cleveragents_domain::{AttemptEvidence, Finding, ReviewVerdict};
use cleveragents_models::Redactor;

use crate::pool::{RoleFailure, RoleReport};

/// A report without secrets. Quoted code stays as it is in the file, because it is compared with the file.
pub(super) fn redacted(mut report: RoleReport, redactor: &Redactor) -> RoleReport {
    let clean = |text: &mut String| *text = redactor.text(text).into_owned();
    match &mut report {
        RoleReport::Findings {
            findings, summary, ..
        } => {
            clean(summary);
            for finding in findings {
                clean_finding(finding, &clean);
            }
        }
        RoleReport::Triage { decision, .. } => clean(&mut decision.verdict.reason),
        RoleReport::Change { evidence, .. } => clean_evidence(evidence, &clean),
        RoleReport::Review { verdict, .. } => clean_verdict(verdict, &clean),
        RoleReport::Merge { .. } => {}
        RoleReport::Failed { failure, .. } => match failure {
            RoleFailure::Environment(reason)
            | RoleFailure::Limit(reason)
            | RoleFailure::Blocked(reason)
            | RoleFailure::NoResult(reason) => clean(reason),
            RoleFailure::Cancelled => {}
        },
    }
    report
}

fn clean_finding(finding: &mut Finding, clean: &impl Fn(&mut String)) {
    clean(&mut finding.title);
    clean(&mut finding.description);
    clean(&mut finding.evidence);
    for text in [
        &mut finding.expected,
        &mut finding.actual,
        &mut finding.suggested_fix,
    ] {
        text.iter_mut().for_each(clean);
    }
}

fn clean_evidence(evidence: &mut AttemptEvidence, clean: &impl Fn(&mut String)) {
    clean(&mut evidence.summary);
    evidence.environment_failure.iter_mut().for_each(clean);
    for gate in &mut evidence.gates {
        clean(&mut gate.command);
        clean(&mut gate.output_tail);
    }
}

fn clean_verdict(verdict: &mut ReviewVerdict, clean: &impl Fn(&mut String)) {
    clean(&mut verdict.summary);
    for finding in &mut verdict.findings {
        clean(&mut finding.message);
    }
}

#[cfg(test)]
mod tests {
    use cleveragents_domain::{AttemptEvidence, GateResult};
    use cleveragents_models::{Redactor, Secret};

    use super::redacted;
    use crate::pool::{RoleFailure, RoleReport};

    const SECRET: &str = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";

    #[test]
    fn output_of_gates_and_reasons_hold_no_secret() {
        let redactor = Redactor::new([Secret::new(SECRET)]);
        let evidence = AttemptEvidence {
            gates: vec![GateResult {
                name: "unit".to_owned(),
                command: format!("TOKEN={SECRET} run-tests"),
                scope: "all".to_owned(),
                required: true,
                exit_code: Some(1),
                commit_or_sandbox_state: "head".to_owned(),
                output_tail: format!("401 for {SECRET}"),
            }],
            environment_failure: Some(format!("no host for {SECRET}")),
            summary: format!("I used {SECRET}"),
            ..AttemptEvidence::without_gates("head")
        };
        let change = RoleReport::Change {
            evidence,
            plan: None,
        };
        let failed = RoleReport::Failed {
            failure: RoleFailure::Environment(format!("fatal: {SECRET}")),
            cost: cleveragents_domain::MicroUsd(0),
            plan: None,
        };
        for report in [change, failed] {
            let clean = format!("{:?}", redacted(report, &redactor));
            assert!(!clean.contains(SECRET), "{clean}");
        }
    }
}
