//! The instructions that every model of a plan receives.

use std::fmt::Write as _;

use cleveragents_domain::{Plan, ReconciledInvariants};
use cleveragents_store::plan_steps::Guidance;

use super::shared_conversation::PlanThread;
use super::strategize::TASK_CRITERION;

/// The instructions that every request of a plan contains, even after its conversation was shortened. Prompts do not
/// repeat them.
pub(super) fn plan_instructions(plan: &Plan, reconciled: &ReconciledInvariants) -> String {
    let mut text = task_instructions(plan);
    let done: Vec<&str> = plan
        .definition_of_done
        .lines()
        .filter(|line| line.trim_start_matches(['-', ' ']) != TASK_CRITERION)
        .collect();
    let done = done.join("\n");
    // A definition of done that only repeats the task is omitted.
    if !done.trim().is_empty()
        && done.trim_start_matches(['-', ' ']).trim() != plan.description.trim()
    {
        let _written = write!(text, "\nIt is done when:\n{done}\n");
    }
    if !reconciled.effective.is_empty() {
        text.push_str("\n# Invariants\n\nNo step may break one of them:\n");
        for invariant in &reconciled.effective {
            let _written = writeln!(text, "- {}", invariant.text);
        }
    }
    if plan.inputs.read_only {
        text.push_str("\nThis plan is read-only: it changes no file.\n");
    }
    text
}

/// The task without the criteria: the prompt of the reviewer lists them.
pub(super) fn task_instructions(plan: &Plan) -> String {
    format!("# Task\n\n{}\n", plan.description)
}

/// Adds the guidance of the user: only the pending entries to a continued conversation, otherwise all entries.
pub(super) fn add_guidance(guidance: &[Guidance], thread: &PlanThread, text: &mut String) {
    let is_new = |entry: &&Guidance| thread.carried.is_none() || entry.applied_at.is_none();
    let new: Vec<&Guidance> = guidance.iter().filter(is_new).collect();
    if new.is_empty() {
        return;
    }
    text.push_str("\nGuidance of the user, the last entry counts most:\n");
    for entry in new {
        let _written = writeln!(text, "- {}", entry.text);
    }
}

/// Trims a text and shortens it to at most `length` bytes, plus an ellipsis.
pub(super) fn shortened(text: &str, length: usize) -> String {
    let text = text.trim();
    if text.len() <= length {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(length)])
}
