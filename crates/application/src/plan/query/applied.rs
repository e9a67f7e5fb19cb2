//! The commits of an applied plan, and whether its apply was undone.

use std::path::Path;

use cleveragents_domain::{Plan, Timestamp};
use cleveragents_sandbox::{Git, check_repository_files};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The field of a plan's report that records the undo of its apply.
pub(in crate::plan) const UNDONE: &str = "undone";

/// A commit that the apply of a plan created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AppliedCommit {
    /// The part of the sandbox.
    pub part: String,
    /// The repository.
    pub location: String,
    /// The branch; `null` for a detached head.
    pub branch: Option<String>,
    /// The commit of the branch before the apply.
    pub before: String,
    pub commit: String,
}

/// The undo of an apply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UndoneApply {
    pub at: Timestamp,
    /// The commits that revert the apply.
    pub commits: Vec<String>,
}

impl AppliedCommit {
    /// The commits that are recorded in the report of a plan.
    pub(in crate::plan) fn of_plan(plan: &Plan) -> Vec<Self> {
        let parts = plan.report.as_ref().map(|report| &report["parts"]);
        let parts = parts.and_then(Value::as_array).into_iter().flatten();
        parts
            .filter_map(|part| {
                let text = |value: &Value| value.as_str().map(str::to_owned);
                let commit = &part["commit"];
                Some(Self {
                    part: text(&part["alias"])?,
                    location: text(&part["location"])?,
                    branch: text(&commit["branch"]),
                    before: text(&commit["old"])?,
                    commit: text(&commit["new"])?,
                })
            })
            .collect()
    }

    /// The changes of the commit as a patch; `None` if the repository no longer has the commit. `prefix` is added to
    /// the paths.
    pub(super) fn patch(&self, prefix: Option<&str>) -> Option<Vec<u8>> {
        let location = Path::new(&self.location);
        check_repository_files(location).ok()?;
        let git = Git::at(location).with_commands_disabled().ok()?;
        let prefix = prefix.map_or_else(String::new, |prefix| format!("{prefix}/"));
        let output = git
            .try_run(&[
                "diff",
                "--binary",
                "--no-color",
                "--no-ext-diff",
                "--no-textconv",
                "--no-renames",
                &format!("--src-prefix=a/{prefix}"),
                &format!("--dst-prefix=b/{prefix}"),
                &self.before,
                &self.commit,
                "--",
            ])
            .ok()?;
        (output.code == Some(0)).then_some(output.stdout)
    }
}

impl UndoneApply {
    /// The undo that is recorded in the report of a plan.
    pub(in crate::plan) fn of_plan(plan: &Plan) -> Option<Self> {
        let report = plan.report.as_ref()?;
        serde_json::from_value(report.get(UNDONE)?.clone()).ok()
    }
}
