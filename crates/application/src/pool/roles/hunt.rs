//! The hunt role: reads one module and reports findings whose quoted code is checked against the commit.

use std::fmt::Write as _;

use cleveragents_domain::{CodeLocation, Finding, MicroUsd, Plan, PlanReport, Severity};
use cleveragents_tools::ports::Workspace as _;
use serde::Deserialize;
use serde_json::Value;

use super::driver::{RoleDriver, RolePlan, RoleStop};
use super::proof::read_text;
use super::quote::QuotedCode;
use super::symbol::enclosing_symbol;
use crate::operation::OperationError;
use crate::plan::CAUSES;
use crate::tool::SandboxWorkspace;

/// A module to hunt in.
pub(crate) struct HuntRequest<'a> {
    pub(crate) project: &'a str,
    /// The path of the module.
    pub(crate) module: &'a str,
    pub(crate) actor: Option<&'a str>,
    pub(crate) max_cost: Option<MicroUsd>,
}

/// A finding as a model reports it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct ReportedFinding {
    pub(crate) title: String,
    pub(crate) category: String,
    pub(crate) cause: String,
    pub(crate) severity: Severity,
    pub(crate) confidence: f64,
    pub(crate) path: String,
    pub(crate) line_start: u64,
    pub(crate) line_end: u64,
    pub(crate) quote: String,
    pub(crate) description: String,
    pub(crate) failure_scenario: Vec<String>,
    pub(crate) expected: String,
    pub(crate) actual: String,
    pub(crate) impact: String,
    pub(crate) likelihood: String,
    #[serde(default)]
    pub(crate) suggested_fix: String,
    /// The definition around the quoted code, from the code itself.
    #[serde(skip)]
    pub(crate) symbol: String,
    /// The commit that contains the quoted code.
    #[serde(skip)]
    pub(crate) commit: String,
}

impl From<ReportedFinding> for Finding {
    fn from(reported: ReportedFinding) -> Self {
        let line = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let steps = (1..).zip(&reported.failure_scenario);
        let steps: Vec<String> = steps
            .map(|(number, step)| format!("{number}. {step}"))
            .collect();
        let percent = (reported.confidence * 100.0).round().clamp(0.0, 100.0);
        Self {
            title: reported.title,
            category: reported.category,
            cause: reported.cause,
            severity: reported.severity,
            location: CodeLocation {
                path: reported.path,
                symbol: Some(reported.symbol).filter(|symbol| !symbol.is_empty()),
                line_start: line(reported.line_start),
                line_end: line(reported.line_end),
                commit: Some(reported.commit).filter(|commit| !commit.is_empty()),
                quote: reported.quote,
            },
            description: format!(
                "{}\n\nImpact: {}\nLikelihood: {}",
                reported.description, reported.impact, reported.likelihood
            ),
            evidence: steps.join("\n"),
            expected: Some(reported.expected),
            actual: Some(reported.actual),
            suggested_fix: Some(reported.suggested_fix).filter(|fix| !fix.trim().is_empty()),
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "clamped to the range of percent"
            )]
            confidence: percent as u8,
        }
    }
}

#[derive(Debug, Deserialize)]
struct FindingsReport {
    findings: Vec<ReportedFinding>,
    environment_failures: Vec<String>,
}

/// A finding that was not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RejectedFinding {
    pub(crate) title: String,
    pub(crate) path: String,
    pub(crate) reason: String,
}

/// The accepted and rejected findings of a report.
#[derive(Debug, Default)]
pub(crate) struct Intake {
    pub(crate) findings: Vec<ReportedFinding>,
    pub(crate) rejected: Vec<RejectedFinding>,
    /// Failures of the environment of the hunter. They are never filed.
    pub(crate) environment_failures: Vec<String>,
}

/// Accepts the findings whose quoted code is at the stated lines. `content` reads a file of the commit.
pub(crate) fn check_findings(
    report: &Value,
    commit: &str,
    content: &dyn Fn(&str) -> Option<Vec<u8>>,
) -> Result<Intake, serde_json::Error> {
    let report: FindingsReport = serde_json::from_value(report.clone())?;
    let mut intake = Intake {
        environment_failures: report.environment_failures,
        ..Intake::default()
    };
    for mut finding in report.findings {
        normal_path(&mut finding.path);
        let text = content(&finding.path);
        let quoted = QuotedCode {
            line_start: finding.line_start,
            line_end: finding.line_end,
            quote: &finding.quote,
        };
        let problem = match quoted.check(text.as_deref()) {
            Err(mismatch) => Some(mismatch.to_string()),
            Ok(()) => fault_of(&finding),
        };
        if let Some(reason) = problem {
            intake.rejected.push(RejectedFinding {
                title: finding.title,
                path: finding.path,
                reason,
            });
            continue;
        }
        let text = text.unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        finding.symbol = enclosing_symbol(&text, finding.line_start);
        // The stored quote is the text of the file, with its indentation.
        finding.quote = lines_between(&text, finding.line_start, finding.line_end);
        commit.clone_into(&mut finding.commit);
        intake.findings.push(finding);
    }
    Ok(intake)
}

/// The lines of a text from a first to a last line, both from 1.
fn lines_between(text: &str, first: u64, last: u64) -> String {
    let skipped = usize::try_from(first.saturating_sub(1)).unwrap_or(usize::MAX);
    let count = usize::try_from(last.saturating_sub(first)).unwrap_or_default() + 1;
    let lines: Vec<&str> = text.lines().skip(skipped).take(count).collect();
    lines.join("\n")
}

/// Removes `./` from the start of a path.
fn normal_path(path: &mut String) {
    while let Some(rest) = path.strip_prefix("./") {
        *path = rest.to_owned();
    }
}

/// The reason why a finding is refused although its quote is correct.
fn fault_of(finding: &ReportedFinding) -> Option<String> {
    let causes = CAUSES
        .iter()
        .find(|(category, _)| *category == finding.category)
        .map(|(_, causes)| *causes);
    if causes.is_none_or(|causes| !causes.contains(&finding.cause.as_str())) {
        return Some(format!(
            "the cause `{}` does not belong to the category `{}`",
            finding.cause, finding.category
        ));
    }
    let is_race = finding.category == "concurrency";
    (is_race && finding.failure_scenario.len() < 2)
        .then(|| "a race needs the interleaving step by step".to_owned())
}

impl RoleDriver<'_> {
    /// Hunts in a module.
    pub(crate) fn hunt(
        &self,
        request: &HuntRequest<'_>,
    ) -> Result<(Plan, Result<Intake, RoleStop>), OperationError> {
        let plan = self.create(&RolePlan {
            role: "hunt",
            task: hunt_task(request.module),
            report: Some(PlanReport::Findings),
            project: request.project,
            actor: request.actor,
            max_cost: request.max_cost,
        })?;
        let id = plan.id;
        let hunted = self.report(id, |plan, report| {
            let workspace = self.plans.open_workspace(plan, self.cancel)?;
            let commit = base_commit(&workspace);
            let content = |path: &str| base_content(&workspace, path);
            check_findings(report, &commit, &content).map_err(|error| {
                OperationError::internal("the report of a hunt cannot be read").caused_by(error)
            })
        })?;
        let plan = self.plans.get(id)?;
        Ok((plan, hunted.map(|(_, intake)| intake)))
    }
}

pub(crate) fn hunt_task(module: &str) -> String {
    let mut task = format!("Hunt for defects in `{module}`\n\n");
    let _written = write!(
        task,
        "Read `{module}` and the code around it, and report the defects that you can prove from the code. Only findings in \
         `{module}` count; a cause in another file belongs to the hunt of that file."
    );
    task
}

/// The commit that a sandbox starts from; empty if its resource is no repository.
pub(crate) fn base_commit(workspace: &SandboxWorkspace) -> String {
    let [part] = workspace.parts() else {
        return String::new();
    };
    workspace.base_commit(&part.alias).unwrap_or_default()
}

/// The content of a file in the base commit of a sandbox, or in the sandbox if its resource is no repository.
fn base_content(workspace: &SandboxWorkspace, path: &str) -> Option<Vec<u8>> {
    let [part] = workspace.parts() else {
        return None;
    };
    let commit = base_commit(workspace);
    if commit.is_empty() {
        return read_text(workspace, path).map(String::into_bytes);
    }
    let is_inside = !path.starts_with('/') && !path.split('/').any(|name| name == "..");
    let git = workspace
        .git(&part.alias)
        .ok()
        .flatten()
        .filter(|_| is_inside)?;
    let object = format!("{commit}:{path}");
    let output = git.try_run(&["cat-file", "blob", object.as_str()]).ok()?;
    (output.code == Some(0)).then_some(output.stdout)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::check_findings;

    const FILE: &str = "CACHE = {}\n\ndef open_it(url):\n    if url not in CACHE:\n        CACHE[url] = create(url)\n    return CACHE[url]\n";

    fn finding(lines: (u64, u64), quote: &str) -> Value {
        json!({
            "title": "check-then-act", "category": "concurrency", "cause": "check_then_act", "severity": "medium",
            "confidence": 0.9, "path": "./src/cache.py", "symbol": "whatever the model calls it",
            "line_start": lines.0, "line_end": lines.1, "quote": quote, "description": "d",
            "failure_scenario": ["A checks", "B checks"], "expected": "e", "actual": "a", "impact": "i",
            "likelihood": "l", "suggested_fix": "",
        })
    }

    fn check(findings: &[Value]) -> super::Intake {
        let report = json!({"report": "submit_findings", "examined": ["src/cache.py"], "findings": findings,
            "environment_failures": ["git clone failed"]});
        let content = |path: &str| (path == "src/cache.py").then(|| FILE.as_bytes().to_vec());
        check_findings(&report, "4f2c", &content).expect("a report")
    }

    #[test]
    fn only_findings_with_real_code_are_accepted() {
        let quote = "if url not in CACHE:\n    CACHE[url] = create(url)";
        let mut elsewhere = finding((4, 5), quote);
        elsewhere["path"] = "src/gone.py".into();
        let mut mixed = finding((4, 5), quote);
        mixed["cause"] = "path_traversal".into();
        let mut vague = finding((4, 5), quote);
        vague["failure_scenario"] = json!(["it races"]);
        let invented = finding((4, 5), "if url not in ENGINES:\n    pass");
        let shifted = finding((1, 2), quote);
        let intake = check(&[
            finding((4, 5), quote),
            elsewhere,
            mixed,
            vague,
            invented,
            shifted,
        ]);
        assert_eq!(intake.findings.len(), 1);
        let accepted = &intake.findings[0];
        assert_eq!(accepted.symbol, "open_it");
        assert_eq!(accepted.path, "src/cache.py");
        assert_eq!(accepted.commit, "4f2c");
        let reasons: Vec<&str> = intake
            .rejected
            .iter()
            .map(|rejected| rejected.reason.as_str())
            .collect();
        assert_eq!(
            reasons,
            [
                "the file does not exist in the commit",
                "the cause `path_traversal` does not belong to the category `concurrency`",
                "a race needs the interleaving step by step",
                "the file does not contain the quoted code",
                "the quoted code is at line 4, not at the stated lines",
            ]
        );
    }

    #[test]
    fn failures_of_the_environment_are_never_findings() {
        let intake = check(&[]);
        assert!(intake.findings.is_empty());
        assert_eq!(intake.environment_failures, ["git clone failed"]);
    }
}
