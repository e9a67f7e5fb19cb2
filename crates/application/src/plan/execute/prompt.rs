//! Prompts of the execution actor.

use std::fmt::Write as _;

use cleveragents_domain::{PlanStep, PlanStrategy, StepKind, StepRecord};
use cleveragents_store::plan_steps::Guidance;

use crate::plan::built_in::RolePrompts;
use crate::plan::prompt::{add_guidance, shortened};
use crate::plan::shared_conversation::PlanThread;
use crate::plan::validate::CheckResult;

/// The task of the execution actor in a step.
pub(super) enum StepPrompt<'s> {
    /// A step of the strategy. Step numbers start at 1.
    Step {
        strategy: &'s PlanStrategy,
        number: u64,
        step: &'s PlanStep,
    },
    /// Guidance that the user gave after the last step.
    Guidance,
    /// Failed checks to fix.
    Fix(Vec<&'s CheckResult>),
}

/// The inputs of the prompt of a step.
pub(super) struct StepContext<'c> {
    /// The conversation that the step continues.
    pub(super) thread: &'c PlanThread,
    /// True if the actor reported in an earlier run that the step is blocked.
    pub(super) was_blocked: bool,
    pub(super) steps: &'c [StepRecord],
    pub(super) guidance: &'c [Guidance],
    /// The instructions of the built-in actor.
    pub(super) prompts: Option<&'c RolePrompts>,
}

impl StepPrompt<'_> {
    /// Builds the prompt. It omits long texts that the conversation already contains.
    pub(super) fn text(&self, context: &StepContext<'_>) -> String {
        let thread = context.thread;
        let mut text = match self {
            Self::Step {
                strategy,
                number,
                step,
            } => {
                let count = strategy.steps.len();
                format!("Execute step {number} of {count}: {}\n", step.title)
            }
            Self::Guidance => {
                "The steps of the plan are done. Apply the guidance of the user.\n".to_owned()
            }
            Self::Fix(_) => "Checks failed: fix the cause.\n".to_owned(),
        };
        if let Some(digest) = &thread.digest {
            let _written = write!(text, "\n{digest}");
        }
        if context.was_blocked {
            text.push_str("\nYou reported that this is blocked. Try again.\n");
        }
        match self {
            Self::Step { strategy, step, .. } => add_strategy(strategy, step, thread, &mut text),
            Self::Guidance => {}
            Self::Fix(failed) => {
                for check in failed {
                    let check = check.to_prompt(|output| thread.without_repeats(output));
                    let _written = write!(text, "\n{check}\n");
                }
            }
        }
        if thread.is_new() {
            add_done_steps(context.steps, &mut text);
        }
        add_guidance(context.guidance, thread, &mut text);
        for instructions in self.instructions(context) {
            let _written = write!(text, "\n{instructions}\n");
        }
        text
    }

    /// The instructions of the phase that the conversation does not contain yet.
    fn instructions<'c>(&self, context: &StepContext<'c>) -> Vec<&'c str> {
        let Some(prompts) = context.prompts else {
            return Vec::new();
        };
        let mut all = vec![prompts.text("executor")];
        all.retain(|text| !context.thread.shows(text));
        if matches!(self, Self::Fix(_)) {
            all.push(prompts.text("fix"));
        }
        all
    }
}

/// Adds the description of the step, unless the conversation contains it.
fn add_strategy(strategy: &PlanStrategy, step: &PlanStep, thread: &PlanThread, text: &mut String) {
    let is_shown = |step: &PlanStep| thread.shows(&step.title) && thread.shows(&step.description);
    if !thread.is_new() && strategy.steps.iter().all(is_shown) {
        text.push_str("\nThe strategy above describes it.\n");
        return;
    }
    if strategy.steps.len() > 1 {
        let _written = write!(
            text,
            "\nThe complete strategy:\n\n{}",
            strategy.to_markdown()
        );
        return;
    }
    let _written = writeln!(text, "\n{}", step.description);
    if !step.files.is_empty() {
        let _written = writeln!(text, "\nFiles: {}", step.files.join(", "));
    }
}

/// Adds the completed steps, for an actor whose conversation does not contain them.
fn add_done_steps(steps: &[StepRecord], text: &mut String) {
    let done: Vec<&StepRecord> = steps
        .iter()
        .filter(|step| step.is_done())
        .filter(|step| matches!(step.kind(), Some(StepKind::Step | StepKind::Fix)))
        .collect();
    if done.is_empty() {
        return;
    }
    text.push_str("\nDone so far:\n");
    for step in done {
        let summary = step.summary.as_deref().unwrap_or_default();
        let _written = writeln!(text, "- {}: {}", step.title, shortened(summary, 400));
    }
}
