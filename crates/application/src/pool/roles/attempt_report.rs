//! The comment and the change description of an attempt, rendered from its stored facts.

use std::fmt::Write as _;

use cleveragents_domain::{Attempt, GateResult, PoolRole, ReviewVerdict, WorkItem};

use crate::count::counted;

/// A gate in a report.
#[derive(Debug, Clone)]
pub(crate) struct GateLine {
    pub(crate) name: String,
    pub(crate) command: String,
    pub(crate) scope: String,
    pub(crate) exit_code: Option<i32>,
    pub(crate) output_tail: String,
}

impl From<&GateResult> for GateLine {
    fn from(gate: &GateResult) -> Self {
        Self {
            name: gate.name.clone(),
            command: gate.command.clone(),
            scope: gate.scope.clone(),
            exit_code: gate.exit_code,
            output_tail: gate.output_tail.clone(),
        }
    }
}

/// The stored facts of an attempt. Only `notes` contain text of a model: reasons of decisions and findings of a review.
#[derive(Debug, Clone, Default)]
pub(crate) struct AttemptReport {
    /// `None` for the description of a change.
    pub(crate) role: Option<PoolRole>,
    pub(crate) item: String,
    pub(crate) title: String,
    /// The number of the tier, from 1, and its actor.
    pub(crate) tier: u64,
    pub(crate) actor: String,
    pub(crate) outcome: String,
    pub(crate) reason: Option<String>,
    pub(crate) base_commit: String,
    pub(crate) plan: String,
    pub(crate) changed: Vec<String>,
    pub(crate) gates: Vec<GateLine>,
    pub(crate) notes: Vec<String>,
    pub(crate) cost_usd: f64,
    pub(crate) pool: String,
}

impl AttemptReport {
    /// The report of an ended attempt, with the verdict of a review.
    pub(crate) fn from_attempt(
        attempt: &Attempt,
        item: &WorkItem,
        tier: u64,
        changed: Vec<String>,
        review: Option<&ReviewVerdict>,
    ) -> Self {
        let outcome = attempt
            .outcome
            .map(|outcome| outcome.as_str().replace('_', " "));
        let plan = attempt.plan.map(|plan| plan.to_string());
        Self {
            role: Some(attempt.role),
            item: item.id.to_string(),
            title: item.title.clone(),
            tier,
            actor: attempt.actor.clone(),
            outcome: outcome.unwrap_or_default(),
            reason: attempt.reason.clone(),
            base_commit: attempt.base.clone().unwrap_or_default(),
            plan: plan.unwrap_or_default(),
            changed,
            gates: attempt.gates.iter().map(GateLine::from).collect(),
            notes: notes(attempt, item, review),
            cost_usd: attempt.cost.as_usd(),
            pool: attempt.pool.clone(),
        }
    }

    /// The comment about the attempt.
    pub(crate) fn to_comment(&self) -> String {
        let subject = match self.role {
            Some(PoolRole::Capture) => "Failing Test",
            Some(PoolRole::Triage) => "Triage",
            Some(PoolRole::Review) => "Review",
            Some(PoolRole::Merge) => "Merge",
            Some(PoolRole::Hunt) => "Hunt",
            _ => "Implementation Attempt",
        };
        let makes_change = !matches!(
            self.role,
            Some(PoolRole::Triage | PoolRole::Review | PoolRole::Merge | PoolRole::Hunt)
        );
        let mut text = format!("**{subject}**");
        if self.role != Some(PoolRole::Merge) {
            let _written = write!(text, " — Tier {}: {}", self.tier, self.actor);
        }
        let _written = write!(text, " — **{}**\n\n[{}]\n\n", self.outcome, self.item);
        if let Some(reason) = &self.reason {
            let _written = write!(text, "## Why It Did Not Succeed\n\n{reason}\n\n");
        }
        if !self.notes.is_empty() {
            let lines: Vec<String> = self.notes.iter().map(|note| format!("- {note}")).collect();
            let _written = write!(text, "## Result\n\n{}\n\n", lines.join("\n"));
        }
        if makes_change {
            self.add_changes("### Changes Made", &mut text);
            self.add_gates(&mut text);
            let _written = write!(
                text,
                "## Change\n\nPlan `{}` on base `{}`, cost ${:.4}\n\n",
                self.plan, self.base_commit, self.cost_usd
            );
        } else if !self.plan.is_empty() {
            let _written = write!(text, "Plan `{}`, cost ${:.4}\n\n", self.plan, self.cost_usd);
        }
        self.add_footer(&mut text);
        text
    }

    /// The description of the change that an attempt proposes.
    pub(crate) fn to_description(&self) -> String {
        let mut text = format!("{}\n\n", self.title);
        self.add_changes("## Changes", &mut text);
        self.add_gates(&mut text);
        let _written = write!(text, "Closes {}\n\n", self.item);
        self.add_footer(&mut text);
        text
    }

    fn add_changes(&self, heading: &str, text: &mut String) {
        if self.changed.is_empty() {
            return;
        }
        let _written = write!(text, "{heading}\n\n");
        for (number, path) in (1..).zip(&self.changed) {
            let _written = writeln!(text, "{number}. `{path}`");
        }
        text.push('\n');
    }

    fn add_gates(&self, text: &mut String) {
        text.push_str("## Quality Gates\n\n");
        if self.gates.is_empty() {
            text.push_str("No gate was run.\n");
        }
        for gate in &self.gates {
            let (sign, result) = match gate.exit_code {
                Some(0) => ("✅", "passed".to_owned()),
                Some(code) => ("❌", format!("failed with exit code {code}")),
                None => ("⚠️", "did not run".to_owned()),
            };
            let _written = writeln!(
                text,
                "- {sign} {}: `{}` — {result} ({})",
                gate.name,
                gate.command.replace('`', "'"),
                gate.scope
            );
            if gate.exit_code != Some(0) && !gate.output_tail.trim().is_empty() {
                let lines: Vec<String> = gate
                    .output_tail
                    .trim()
                    .lines()
                    .map(|line| format!("      {line}"))
                    .collect();
                let _written = write!(text, "\n{}\n\n", lines.join("\n"));
            }
        }
        text.push('\n');
    }

    fn add_footer(&self, text: &mut String) {
        let _written = write!(
            text,
            "---\n\n**Automated by CleverAgents**\nPool: {} | Actor: {}\n",
            self.pool, self.actor
        );
    }
}

/// The decisions of a role, one line each. Texts of models are one line each, so that they cannot look like other
/// parts of the report.
fn notes(attempt: &Attempt, item: &WorkItem, review: Option<&ReviewVerdict>) -> Vec<String> {
    let line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    match attempt.role {
        PoolRole::Triage => {
            let decided = [
                Some(("state", item.state.to_string())),
                Some(("priority", item.priority.to_string())),
                item.milestone.clone().map(|value| ("milestone", value)),
                item.points.map(|value| ("points", value.to_string())),
                item.moscow.map(|value| ("MoSCoW", value.to_string())),
            ];
            let decided = decided.into_iter().flatten();
            let reasons = attempt.summary.lines().map(line);
            decided
                .map(|(field, value)| format!("{field}: {value}"))
                .chain(reasons.map(|reason| format!("reason of {reason}")))
                .collect()
        }
        PoolRole::Review => review.map_or_else(Vec::new, |verdict| {
            let findings = verdict.findings.iter().map(|finding| {
                format!(
                    "{} `{}`: {}",
                    finding.severity,
                    finding.path,
                    line(&finding.message)
                )
            });
            std::iter::once(counted(verdict.findings.len(), "finding"))
                .chain(findings)
                .collect()
        }),
        PoolRole::Merge => attempt
            .head
            .iter()
            .map(|commit| format!("merged as `{commit}`"))
            .collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::{AttemptReport, GateLine};

    #[test]
    fn a_report_lists_every_gate_with_its_exit_code_and_scope() {
        let gate = |name: &str, exit_code| GateLine {
            name: name.to_owned(),
            command: "python3 -m unittest -q".to_owned(),
            scope: "20 of 20 runs pass".to_owned(),
            exit_code,
            output_tail: "AssertionError: two engines".to_owned(),
        };
        let report = AttemptReport {
            item: "01J".to_owned(),
            title: "Lock the engine cache".to_owned(),
            tier: 1,
            actor: "cheap".to_owned(),
            outcome: "Failed gates".to_owned(),
            reason: Some("captured test failed".to_owned()),
            changed: vec!["src/cache.py".to_owned()],
            gates: vec![
                gate("captured test", Some(1)),
                gate("lint", None),
                gate("suite", Some(0)),
            ],
            ..AttemptReport::default()
        };
        let comment = report.to_comment();
        let lines: Vec<&str> = comment.lines().collect();
        assert_eq!(
            lines[0],
            "**Implementation Attempt** — Tier 1: cheap — **Failed gates**"
        );
        assert!(comment.contains("- ❌ captured test: `python3 -m unittest -q` — failed with exit code 1 (20 of 20 runs pass)"));
        assert!(comment.contains("- ⚠️ lint: `python3 -m unittest -q` — did not run"));
        assert!(comment.contains("- ✅ suite: `python3 -m unittest -q` — passed"));
        assert!(comment.contains("      AssertionError: two engines"));
        assert!(report.to_description().contains("Closes 01J"));
    }
}
