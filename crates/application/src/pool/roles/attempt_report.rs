//! The comment and the change description of an attempt, rendered from its stored facts.

use std::fmt::Write as _;

/// A gate in a report.
#[derive(Debug, Clone)]
pub(crate) struct GateLine {
    pub(crate) name: String,
    pub(crate) command: String,
    pub(crate) scope: String,
    pub(crate) exit_code: Option<i32>,
    pub(crate) output_tail: String,
}

/// The stored facts of an attempt. No field contains text of a model.
#[derive(Debug, Clone, Default)]
pub(crate) struct AttemptReport {
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
    pub(crate) cost_usd: f64,
    pub(crate) pool: String,
}

impl AttemptReport {
    /// The comment about the attempt.
    pub(crate) fn to_comment(&self) -> String {
        let mut text = format!(
            "**Implementation Attempt** — Tier {}: {} — **{}**\n\n[{}]\n\n",
            self.tier, self.actor, self.outcome, self.item
        );
        if let Some(reason) = &self.reason {
            let _written = write!(text, "## Why It Did Not Succeed\n\n{reason}\n\n");
        }
        self.add_changes("### Changes Made", &mut text);
        self.add_gates(&mut text);
        let _written = write!(
            text,
            "## Change\n\nPlan `{}` on base `{}`, cost ${:.4}\n\n",
            self.plan, self.base_commit, self.cost_usd
        );
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
