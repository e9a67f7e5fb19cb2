//! Prompts of the strategist and the invariant actor.

use std::fmt::Write as _;

use cleveragents_domain::{Plan, PlanStrategy, ReconciledInvariants};
use cleveragents_store::plan_steps::Guidance;
use cleveragents_store::validations::StoredResult;
use serde_json::Value;

use crate::plan::prompt::add_guidance;
use crate::plan::shared_conversation::PlanThread;
use crate::validation::EffectiveValidation;

/// The inputs of the strategist's prompt.
pub(super) struct StrategyInputs {
    pub(super) validations: Vec<EffectiveValidation>,
    pub(super) guidance: Vec<Guidance>,
    /// The results of earlier attempts.
    pub(super) results: Vec<StoredResult>,
    /// The conversation that the strategist continues.
    pub(super) thread: PlanThread,
    /// The instructions of the phase, for the built-in strategist.
    pub(super) instructions: Option<String>,
}

/// The prompt of the strategist. It does not contain the task, because the instructions of every request do.
pub(super) fn strategy_prompt(plan: &Plan, inputs: &StrategyInputs) -> String {
    let thread = &inputs.thread;
    let mut text = if plan.attempt > 1 {
        "Make the strategy again: the last one did not work.\n".to_owned()
    } else {
        "Make the strategy for the task.\n".to_owned()
    };
    if let Some(digest) = &thread.digest {
        let _written = write!(text, "\n{digest}");
    }
    if !plan.inputs.arguments.is_empty() && thread.is_new() {
        text.push_str("\nGiven values:\n");
        for name in &plan.inputs.arguments_order {
            let value = &plan.inputs.arguments[name];
            let _written = writeln!(text, "- {name}: {value}");
        }
    }
    if !inputs.validations.is_empty() && thread.carried.is_none() {
        text.push_str("\nThese validations run at the end, and required ones must pass:\n");
        for attached in &inputs.validations {
            let _written = writeln!(
                text,
                "- {} ({}): {}",
                attached.validation.name,
                attached.validation.mode.as_str(),
                attached.validation.description
            );
        }
    }
    add_guidance(&inputs.guidance, thread, &mut text);
    if plan.attempt > 1 {
        add_earlier_attempt(plan, inputs, &mut text);
    }
    if let Some(instructions) = &inputs.instructions
        && !thread.shows(instructions)
    {
        let _written = write!(text, "\n{instructions}\n");
    }
    text
}

/// The prompt of an actor whose report is the whole result of its plan. The task is in the instructions of the request;
/// its first line names the subject.
pub(super) fn report_prompt(plan: &Plan, inputs: &StrategyInputs) -> String {
    let mut text = String::new();
    let subject = plan.description.lines().next().unwrap_or_default();
    let _written = writeln!(text, "{subject}");
    if let Some(digest) = &inputs.thread.digest {
        let _written = write!(text, "\n{digest}");
    }
    add_guidance(&inputs.guidance, &inputs.thread, &mut text);
    text.push_str("\nDo the task of this plan, and finish by calling the report tool.\n");
    text
}

/// Adds the failure of the last strategy, and the strategy itself unless the conversation contains it.
fn add_earlier_attempt(plan: &Plan, inputs: &StrategyInputs, text: &mut String) {
    if let Some(strategy) = &plan.strategy
        && inputs.thread.is_new()
    {
        let _written = write!(text, "\nThe last strategy was:\n{}", strategy.to_markdown());
    }
    let error = plan.error.as_ref().and_then(|error| error.get("message"));
    if let Some(message) = error.and_then(Value::as_str) {
        let message = inputs.thread.without_repeats(message);
        let _written = writeln!(text, "\nIt failed: {}", message.trim());
    }
    for result in inputs.results.iter().filter(|result| !result.result.passed) {
        let line = format!(
            "The validation `{}` failed: {}",
            result.result.validation, result.result.message
        );
        if !text.contains(&result.result.message) {
            let _written = writeln!(text, "\n{line}");
        }
    }
}

/// The prompt of the invariant actor.
pub(super) fn invariants_prompt(
    reconciled: &ReconciledInvariants,
    strategy: &PlanStrategy,
) -> String {
    let mut text = "Does this strategy violate one of the invariants? Answer with one JSON object \
         {\"violations\": [{\"invariant\": …, \"reason\": …}]}, an empty list when it violates none.\n\nInvariants:\n"
        .to_owned();
    for invariant in &reconciled.effective {
        let _written = writeln!(text, "- {}", invariant.text);
    }
    let _written = write!(text, "\n{}", strategy.to_markdown());
    text
}
