//! Summaries of tool calls for responses.

use cleveragents_models::ToolCall;
use cleveragents_sandbox::is_by_product;
use cleveragents_tools::CallOutcome;

/// The full name of the called tool; models use a different spelling.
pub fn called_tool(call: &ToolCall) -> String {
    cleveragents_tools::called_tool(&call.name, &call.arguments)
        .map_or_else(|| call.name.clone(), |name| name.to_string())
}

/// The paths that calls changed, as `ALIAS/PATH` with the alias of the resource, sorted and without
/// duplicates.
pub fn files_changed<'o>(outcomes: impl IntoIterator<Item = &'o CallOutcome>) -> Vec<String> {
    let mut paths: Vec<String> = outcomes
        .into_iter()
        .flat_map(|outcome| match outcome {
            CallOutcome::Succeeded(done) => done.captured.changes.as_slice(),
            CallOutcome::Failed(failed) => failed.captured.changes.as_slice(),
            CallOutcome::Refused(_) => &[],
        })
        // By-products of builds and tests are not part of the diff and are not applied.
        .filter(|(_, change)| !is_by_product(&change.path, |_| false))
        .map(|(alias, change)| format!("{alias}/{}", change.path))
        .collect();
    paths.sort();
    paths.dedup();
    paths
}

/// Outcome of a call, with the reason if the call did not succeed.
pub fn call_status(outcome: &CallOutcome) -> (&'static str, Option<String>) {
    match outcome {
        CallOutcome::Succeeded(_) => ("succeeded", None),
        CallOutcome::Failed(failed) => ("failed", Some(failed.message.clone())),
        CallOutcome::Refused(refusal) => ("refused", Some(refusal.reason.to_string())),
    }
}
