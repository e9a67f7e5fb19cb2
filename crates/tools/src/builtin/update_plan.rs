//! `builtin/update-plan`: a checklist that a model keeps for the user to see.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Description, FILE_TIMEOUT, PrepareResult, builtin, ready};
use crate::capability::Capability;
use crate::spec::{Category, WorkspaceNeed};
use crate::tool::{Answer, PrepareContext, PrepareError, Tool};

/// Full name of the tool.
pub const UPDATE_PLAN_TOOL: &str = "builtin/update-plan";

/// Maximum number of entries.
const MOST_ENTRIES: usize = 50;

/// A checklist: the arguments of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Checklist {
    /// All entries, in order. They replace the earlier checklist.
    #[schemars(length(min = 1, max = 50))]
    pub plan: Vec<ChecklistEntry>,
}

/// An entry of a [`Checklist`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChecklistEntry {
    /// The work of the entry, one line.
    pub step: String,
    /// State of the entry. At most one is in progress.
    pub status: EntryStatus,
}

/// The state of a [`ChecklistEntry`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EntryStatus {
    Pending,
    InProgress,
    Completed,
}

impl Checklist {
    /// Parses the arguments of a call.
    pub fn from_arguments(arguments: &Value) -> Option<Self> {
        Self::deserialize(arguments).ok()
    }
}

impl ChecklistEntry {
    /// The entry as a line of text.
    pub fn line(&self) -> String {
        let mark = match self.status {
            EntryStatus::Pending => ' ',
            EntryStatus::InProgress => '>',
            EntryStatus::Completed => 'x',
        };
        let words: Vec<&str> = self.step.split_whitespace().collect();
        format!("[{mark}] {}", words.join(" "))
    }
}

pub(super) fn tool() -> Arc<dyn Tool> {
    let description = Description {
        name: "update-plan",
        about: "Replaces the checklist of the work, which the user sees. At most one entry is in progress.",
        category: Category::Conversation,
        workspace_need: WorkspaceNeed::None,
        capability: Capability::reads(),
        timeout: FILE_TIMEOUT,
    };
    builtin::<Checklist>(description, prepare)
}

fn prepare(checklist: Checklist, _context: PrepareContext<'_>) -> PrepareResult<'_> {
    let invalid = |why: &str| Err(PrepareError::Arguments(why.to_owned()));
    if checklist.plan.is_empty() {
        return invalid("`plan` has no entries");
    }
    if checklist.plan.len() > MOST_ENTRIES {
        return invalid("`plan` has more than 50 entries");
    }
    if checklist
        .plan
        .iter()
        .any(|entry| entry.step.trim().is_empty())
    {
        return invalid("the `step` of an entry is empty");
    }
    let entries = checklist.plan.iter();
    let in_progress = entries.filter(|entry| entry.status == EntryStatus::InProgress);
    if in_progress.count() > 1 {
        return invalid("more than one entry is `in_progress`");
    }
    Ok(ready(Vec::new(), move |call| {
        let entries = checklist.plan.iter();
        let completed = entries.filter(|entry| entry.status == EntryStatus::Completed);
        call.output.text(&format!(
            "{} of {} entries are completed.",
            completed.count(),
            checklist.plan.len()
        ));
        Ok(Answer::written())
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Checklist, ChecklistEntry, tool};
    use crate::tool::PrepareContext;

    #[test]
    fn a_checklist_has_entries_and_at_most_one_in_progress() {
        let entry = |step: &str, status: &str| json!({"step": step, "status": status});
        let is_accepted = |entries: serde_json::Value| {
            let context = PrepareContext { workspace: None };
            tool().prepare(json!({"plan": entries}), context).is_ok()
        };
        let fine = json!([
            entry("read", "completed"),
            entry("fix", "in_progress"),
            entry("test", "pending")
        ]);
        assert!(is_accepted(fine.clone()));
        assert!(!is_accepted(json!([])));
        assert!(!is_accepted(json!([entry(" ", "pending")])));
        assert!(!is_accepted(json!([
            entry("a", "in_progress"),
            entry("b", "in_progress")
        ])));
        assert!(!is_accepted(json!([entry("a", "done")])));
        let checklist = Checklist::from_arguments(&json!({"plan": fine})).expect("valid");
        let lines: Vec<String> = checklist.plan.iter().map(ChecklistEntry::line).collect();
        assert_eq!(lines, ["[x] read", "[>] fix", "[ ] test"]);
    }
}
