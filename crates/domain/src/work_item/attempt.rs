//! Attempts: one try of a role on an item, and its outcome, which is computed from evidence and never from a model's
//! words.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stored_enum::stored_enum;
use crate::{AttemptId, LeaseToken, MicroUsd, PlanId, PoolRole, Timestamp, WorkItemId};

/// Result of one gate, such as the unit tests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GateResult {
    /// Name, unique in the attempt.
    pub name: String,
    /// Command that ran.
    pub command: String,
    /// Scope of the command, such as `all` or the path of one test file.
    pub scope: String,
    /// Whether the attempt needs the gate to pass.
    pub required: bool,
    /// Exit code; `None` if the gate did not run to its end.
    pub exit_code: Option<i32>,
    /// Commit or hash of the sandbox state on which it ran.
    pub commit_or_sandbox_state: String,
    /// Last lines of its output.
    pub output_tail: String,
}

impl GateResult {
    /// Whether the gate ran and its exit code is 0.
    pub fn has_passed(&self) -> bool {
        self.exit_code == Some(0)
    }
}

/// Runs of a regression test on the base and on the changed code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RegressionProof {
    /// Command or name of the test.
    pub test: String,
    /// Number of runs on the base.
    pub base_runs: u32,
    /// Number of runs on the base that failed for the stated reason.
    pub base_failures: u32,
    /// Number of runs on the changed code; 0 if the change only adds the test.
    pub head_runs: u32,
    /// Number of runs on the changed code that failed.
    pub head_failures: u32,
}

impl RegressionProof {
    /// Whether the test failed on the base at least once.
    pub fn fails_on_base(&self) -> bool {
        self.base_failures > 0
    }

    /// Whether the test ran on the changed code and passed each time.
    pub fn passes_on_head(&self) -> bool {
        self.head_runs > 0 && self.head_failures == 0
    }
}

stored_enum! {
    /// Requirement on the regression test of an attempt.
    RegressionRule {
        /// Nothing.
        NotNeeded = "not_needed",
        /// It fails on the base: the change adds the test.
        FailsOnBase = "fails_on_base",
        /// It fails on the base and passes on the changed code: the change fixes the bug.
        FailsOnBaseAndPassesOnHead = "fails_on_base_and_passes_on_head",
    }
}

impl RegressionRule {
    /// Whether the recorded runs meet the rule.
    pub fn is_met_by(self, proof: Option<&RegressionProof>) -> bool {
        let shows = |test: fn(&RegressionProof) -> bool| proof.is_some_and(test);
        match self {
            Self::NotNeeded => true,
            Self::FailsOnBase => shows(RegressionProof::fails_on_base),
            Self::FailsOnBaseAndPassesOnHead => {
                shows(|proof| proof.fails_on_base() && proof.passes_on_head())
            }
        }
    }
}

/// Facts about an attempt that changed something, gathered by the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AttemptEvidence {
    /// Base commit of the change.
    pub base: Option<String>,
    /// Commit or hash of the sandbox state that holds the result; gates have to have run on it.
    pub head: String,
    /// Names of the gates without which the attempt cannot succeed.
    pub required_gates: Vec<String>,
    pub gates: Vec<GateResult>,
    /// Names of the gates that fail on the unchanged base.
    pub failing_on_base: Vec<String>,
    /// Whether the item asks to fix a failing base, so that such failures count.
    pub fixes_base: bool,
    /// Paths that changed.
    pub changed_paths: Vec<String>,
    /// Whether anything but comments and white space changed.
    pub changes_behavior: bool,
    /// Proof by a regression test; the role `capture` needs one.
    pub regression: Option<RegressionProof>,
    /// Requirement on the regression test.
    pub regression_rule: RegressionRule,
    /// Failure of the environment, such as a command that cannot be started.
    pub environment_failure: Option<String>,
    /// Reason for which the attempt waits: an answer, an approval, another item.
    pub blocked_by: Option<String>,
    /// The limit that ended the attempt: time, cost or tool calls.
    pub limit: Option<String>,
    /// Whether the attempt was cancelled.
    pub cancelled: bool,
    /// Cost of the attempt.
    pub cost_micro_usd: u64,
    /// Report of the model. Shown to users; decides nothing.
    pub summary: String,
}

impl AttemptEvidence {
    /// Evidence without any gate, for a result at `head`.
    pub fn without_gates(head: impl Into<String>) -> Self {
        Self {
            base: None,
            head: head.into(),
            required_gates: Vec::new(),
            gates: Vec::new(),
            failing_on_base: Vec::new(),
            fixes_base: false,
            changed_paths: Vec::new(),
            changes_behavior: false,
            regression: None,
            regression_rule: RegressionRule::NotNeeded,
            environment_failure: None,
            blocked_by: None,
            limit: None,
            cancelled: false,
            cost_micro_usd: 0,
            summary: String::new(),
        }
    }

    /// The required gates, by declaration or by the flag of their results.
    fn required(&self) -> impl Iterator<Item = &str> {
        let flagged = self.gates.iter().filter(|gate| gate.required);
        self.required_gates
            .iter()
            .map(String::as_str)
            .chain(flagged.map(|gate| gate.name.as_str()))
    }

    /// Names of the required gates that did not pass on the result: failed, not run to the end, missing, or run on
    /// another state.
    pub fn failing_gates(&self) -> Vec<&str> {
        let mut failing: Vec<&str> = self
            .required()
            .filter(|name| {
                let mut results = self
                    .gates
                    .iter()
                    .filter(|gate| gate.name == **name)
                    .peekable();
                results.peek().is_none()
                    || !results
                        .all(|gate| gate.has_passed() && gate.commit_or_sandbox_state == self.head)
            })
            .collect();
        failing.sort_unstable();
        failing.dedup();
        failing
    }

    /// The reason of the outcome, for the next attempt and for users. `None` after a success.
    pub fn reason(&self) -> Option<String> {
        let reason = match AttemptOutcome::from_evidence(self) {
            AttemptOutcome::Succeeded => return None,
            AttemptOutcome::EnvironmentFailure => self.environment_failure.clone(),
            AttemptOutcome::Blocked => self.blocked_by.clone(),
            AttemptOutcome::LimitReached => self.limit.clone(),
            AttemptOutcome::Cancelled => Some("the attempt was cancelled".to_owned()),
            AttemptOutcome::Interrupted => Some("the process of the attempt ended".to_owned()),
            AttemptOutcome::EmptyChange => Some("the change has no effect on behavior".to_owned()),
            AttemptOutcome::RedBase => Some(format!(
                "gates fail on the base too: {}",
                self.failing_gates().join(", ")
            )),
            AttemptOutcome::FailedGates => Some(self.gate_failure()),
        };
        reason.or_else(|| Some("no reason was recorded".to_owned()))
    }

    fn gate_failure(&self) -> String {
        let failing = self.failing_gates();
        if failing.is_empty() && self.required().next().is_none() {
            return "no gate is required, so nothing proves the result".to_owned();
        }
        if failing.is_empty() {
            return match &self.regression {
                None => "the regression test has no recorded run".to_owned(),
                Some(proof) if !proof.fails_on_base() => {
                    "the regression test does not fail on the base".to_owned()
                }
                Some(_) => "the regression test did not pass on the changed code".to_owned(),
            };
        }
        let described = failing.iter().map(|name| {
            let code = self
                .gates
                .iter()
                .find(|gate| gate.name == *name && !gate.has_passed())
                .map(|gate| gate.exit_code);
            match code {
                Some(Some(code)) => format!("{name} (exit code {code})"),
                Some(None) => format!("{name} (no exit code)"),
                None if self.gates.iter().any(|gate| gate.name == *name) => {
                    format!("{name} (ran on another state)")
                }
                None => format!("{name} (did not run)"),
            }
        });
        format!("failed gates: {}", described.collect::<Vec<_>>().join(", "))
    }
}

stored_enum! {
    /// Outcome of an attempt.
    AttemptOutcome {
        /// Every required gate ran on the result and passed.
        Succeeded = "succeeded",
        /// A required gate failed or has no exit code.
        FailedGates = "failed_gates",
        /// Nothing but comments or white space changed.
        EmptyChange = "empty_change",
        /// The environment failed: a missing program, no network, no disk space.
        EnvironmentFailure = "environment_failure",
        /// The gates that fail also fail on the unchanged base.
        RedBase = "red_base",
        /// The attempt waits for something outside of it.
        Blocked = "blocked",
        /// The attempt was cancelled.
        Cancelled = "cancelled",
        /// A limit of time, cost or calls ended the attempt.
        LimitReached = "limit_reached",
        /// The process that ran the attempt ended.
        Interrupted = "interrupted",
    }
}

impl AttemptOutcome {
    /// Computes the outcome. A required gate without a result, without an exit code or on another state is never a
    /// success, and neither is an attempt without any required gate.
    pub fn from_evidence(evidence: &AttemptEvidence) -> Self {
        if evidence.cancelled {
            return Self::Cancelled;
        }
        if evidence.environment_failure.is_some() {
            return Self::EnvironmentFailure;
        }
        if evidence.limit.is_some() {
            return Self::LimitReached;
        }
        if evidence.blocked_by.is_some() {
            return Self::Blocked;
        }
        if evidence.changed_paths.is_empty() || !evidence.changes_behavior {
            return Self::EmptyChange;
        }
        let failing = evidence.failing_gates();
        if failing.is_empty() {
            let rule = evidence.regression_rule;
            let has_proof = rule != RegressionRule::NotNeeded;
            let has_gate = evidence.required().next().is_some() || has_proof;
            return if has_gate && rule.is_met_by(evidence.regression.as_ref()) {
                Self::Succeeded
            } else {
                Self::FailedGates
            };
        }
        let is_red = |name: &str| evidence.failing_on_base.iter().any(|known| known == name);
        if !evidence.fixes_base && failing.iter().all(|name| is_red(name)) {
            return Self::RedBase;
        }
        Self::FailedGates
    }

    /// Whether the attempt counts towards the limit of its tier. Failures that the worker did not cause do not.
    pub const fn is_charged(self) -> bool {
        matches!(
            self,
            Self::FailedGates | Self::EmptyChange | Self::LimitReached
        )
    }
}

/// One try of a role on an item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Attempt {
    pub id: AttemptId,
    pub item: WorkItemId,
    /// Name of the pool.
    pub pool: String,
    pub role: PoolRole,
    /// Position among the attempts of the role on the item, from 1.
    pub number: u64,
    /// Round of the item in which it was made. The round is incremented when the user reopens the item, so that
    /// earlier attempts no longer count.
    pub round: u64,
    /// Name of the tier.
    pub tier: String,
    pub actor: String,
    /// Base commit.
    pub base: Option<String>,
    /// Commit or hash of the sandbox state that holds the result.
    pub head: Option<String>,
    pub plan: Option<PlanId>,
    /// Token of the lease under which it runs; writes of another token are refused.
    #[schemars(with = "u64")]
    pub token: LeaseToken,
    /// `None` while it runs.
    pub outcome: Option<AttemptOutcome>,
    /// Reason of an outcome that is not a success.
    pub reason: Option<String>,
    pub gates: Vec<GateResult>,
    pub regression: Option<RegressionProof>,
    /// Report of the model. Shown to users; decides nothing.
    pub summary: String,
    /// Amount reserved from the budgets while it runs.
    #[schemars(with = "u64")]
    pub reserved: MicroUsd,
    #[schemars(with = "u64")]
    pub cost: MicroUsd,
    pub started_at: Timestamp,
    pub finished_at: Option<Timestamp>,
}

#[cfg(test)]
#[path = "attempt_tests.rs"]
mod tests;
