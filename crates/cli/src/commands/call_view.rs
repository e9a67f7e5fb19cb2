//! What is shown of tool calls.

use cleveragents_sandbox::is_by_product;
use cleveragents_tools::CallOutcome;

/// The paths that calls changed, each once.
pub(crate) fn files_changed<'o>(
    outcomes: impl IntoIterator<Item = &'o CallOutcome>,
) -> Vec<String> {
    let mut paths: Vec<String> = outcomes
        .into_iter()
        .flat_map(|outcome| match outcome {
            CallOutcome::Succeeded(done) => done.captured.changes.as_slice(),
            CallOutcome::Failed(failed) => failed.captured.changes.as_slice(),
            CallOutcome::Refused(_) => &[],
        })
        // By-products of builds and tests are in no diff and are not applied.
        .filter(|(_, change)| !is_by_product(&change.path, |_| false))
        .map(|(alias, change)| format!("{alias}/{}", change.path))
        .collect();
    paths.sort();
    paths.dedup();
    paths
}

/// How a call ended in a word, and why when it did not succeed.
pub(crate) fn call_status(outcome: &CallOutcome) -> (&'static str, Option<String>) {
    match outcome {
        CallOutcome::Succeeded(_) => ("succeeded", None),
        CallOutcome::Failed(failed) => ("failed", Some(failed.message.clone())),
        CallOutcome::Refused(refusal) => ("refused", Some(refusal.reason.to_string())),
    }
}
