//! `builtin/plan-subplan`: requests a child plan for a part of the task of a plan.
//!
//! The stored call is the request: the plan creates the child plan from it when the phase or the step of the caller is
//! done.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Description, FILE_TIMEOUT, PrepareResult, builtin, ready};
use crate::capability::Capability;
use crate::spec::{Category, WorkspaceNeed};
use crate::tool::{Answer, Failure, PrepareContext, PrepareError, Subject, Tool};

/// Name of the tool in files, rules and stored calls.
pub const SUBPLAN_TOOL: &str = "builtin/plan-subplan";

/// The arguments of a call: the part that the child plan executes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RequestedPart {
    /// Title of the part, one line.
    #[schemars(length(min = 1))]
    pub title: String,
    /// Complete instructions: the agent that executes the part sees the task, these instructions and the files.
    #[serde(default)]
    pub description: String,
    /// Paths that the part changes.
    #[serde(default)]
    pub files: Vec<String>,
}

impl RequestedPart {
    /// Parses the arguments of a stored call.
    pub fn from_arguments(arguments: &Value) -> Option<Self> {
        Self::deserialize(arguments).ok()
    }
}

pub(super) fn tool() -> Arc<dyn Tool> {
    let description = Description {
        name: "plan-subplan",
        about: "Requests a child plan for a part of the task. Child plans run at the same time, each in a copy of the \
                files, after the current step; then their changes are merged. Use it for parts that change different \
                files.",
        category: Category::Conversation,
        workspace_need: WorkspaceNeed::None,
        capability: Capability::reads(),
        timeout: FILE_TIMEOUT,
    };
    builtin::<RequestedPart>(description, prepare)
}

fn prepare(part: RequestedPart, _context: PrepareContext<'_>) -> PrepareResult<'_> {
    if part.title.trim().is_empty() {
        return Err(PrepareError::Arguments("`title` is empty".to_owned()));
    }
    if part.description.trim().is_empty() && part.files.is_empty() {
        return Err(PrepareError::Arguments(
            "the part has no scope: give it a `description` or `files`".to_owned(),
        ));
    }
    let subjects = vec![Subject::Text(part.title.clone())];
    Ok(ready(subjects, move |call| {
        if call.scope().plan.is_none() {
            return Err(Failure::new(
                "only the actors of a plan can request a child plan",
            ));
        }
        call.output.text(&format!(
            "A child plan will execute \"{}\" when this step is done, and its changes will be merged.",
            part.title.trim()
        ));
        Ok(Answer::written())
    }))
}
