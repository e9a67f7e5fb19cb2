//! The digest of a plan's conversation, which replaces a conversation that is too long to continue: strategy,
//! decisions, steps, changed files, excerpts of the files that were read, and the last failure. It omits the task and
//! the invariants, because the instructions of every request contain them.

use std::collections::HashMap;
use std::fmt::Write as _;

use cleveragents_domain::{Decision, DecisionType, Message, PlanStrategy, StepKind, StepRecord};
use cleveragents_models::{ChatMessage, ToolCall};
use cleveragents_store::validations::StoredResult;
use cleveragents_tools::{resolve_call, untrusted};

use super::lineage::{APPROACH_QUESTION, is_step_question};
use super::prompt::shortened;
use crate::turn::chat_message;

/// Maximum number of files shown: first the files that the strategy names, then the files read last.
const MAX_FILES: usize = 8;
/// Maximum size of the excerpt of one file, in bytes.
const MAX_EXCERPT: usize = 8_000;
/// Maximum size of all excerpts, in bytes.
const MAX_EXCERPTS: usize = 32_000;
/// Maximum number of decisions, and of steps; the newest are listed.
const MAX_LISTED: usize = 20;
/// Maximum size of one decision, step or failure, in bytes.
const MAX_LINE: usize = 400;
/// Maximum number of changed paths that are listed.
const MAX_PATHS: usize = 100;

pub(super) struct DigestInputs<'d> {
    pub(super) strategy: Option<&'d PlanStrategy>,
    /// The summary of the conversation, if the model wrote one.
    pub(super) summary: Option<&'d str>,
    /// The files that the strategy names.
    pub(super) named: &'d [String],
    /// Maximum size of all excerpts in bytes, which depends on the model's context window.
    pub(super) room: usize,
    pub(super) decisions: &'d [Decision],
    pub(super) steps: &'d [StepRecord],
    pub(super) messages: &'d [Message],
    pub(super) changed: &'d [String],
    pub(super) results: &'d [StoredResult],
}

/// The digest as a section of a prompt.
pub(super) fn digest(inputs: &DigestInputs<'_>) -> String {
    let mut text = "# Earlier in this plan\n\nThe conversation so far is too long to be repeated. This is its digest.\n"
        .to_owned();
    if let Some(strategy) = inputs.strategy {
        let _written = write!(text, "\n## Strategy\n\n{}\n", strategy.to_markdown().trim());
    }
    if let Some(summary) = inputs.summary {
        let _written = write!(text, "\n## Summary\n\n{}\n", summary.trim());
    }
    add_decisions(inputs.decisions, &mut text);
    add_steps(inputs.steps, &mut text);
    if !inputs.changed.is_empty() {
        text.push_str("\n## Changed files\n\n");
        for path in inputs.changed.iter().take(MAX_PATHS) {
            let _written = writeln!(text, "- {path}");
        }
        let omitted = inputs.changed.len().saturating_sub(MAX_PATHS);
        if omitted > 0 {
            let _written = writeln!(text, "- and {omitted} more");
        }
    }
    add_files(inputs, &mut text);
    let mut newest_first = inputs.results.iter().rev();
    let failed = newest_first.find(|stored| !stored.result.passed);
    if let Some(failed) = failed {
        let _written = writeln!(
            text,
            "\n## Last failure\n\n`{}`: {}",
            failed.result.validation,
            shortened(&failed.result.message, MAX_LINE)
        );
    }
    text
}

/// Adds the approach and the choices with their reasons. The steps of the strategy are decisions too, but they are no
/// choices.
pub(super) fn add_decisions(decisions: &[Decision], text: &mut String) {
    let is_listed = |decision: &&Decision| {
        decision.holds()
            && !is_step_question(&decision.content.question)
            && matches!(
                decision.content.kind,
                DecisionType::StrategyChoice
                    | DecisionType::ResourceSelection
                    | DecisionType::UserIntervention
            )
    };
    let listed: Vec<&Decision> = decisions.iter().filter(is_listed).collect();
    if listed.is_empty() {
        return;
    }
    text.push_str("\n## Decisions\n\n");
    for decision in listed.iter().skip(listed.len().saturating_sub(MAX_LISTED)) {
        let content = &decision.content;
        let mut line = if content.question == APPROACH_QUESTION {
            format!("Approach: {}", content.chosen)
        } else {
            let space = if content.question.ends_with(['?', ':', '.']) {
                ""
            } else {
                ":"
            };
            format!("{}{space} {}", content.question, content.chosen)
        };
        if content.question != APPROACH_QUESTION && !content.rationale.trim().is_empty() {
            let _written = write!(line, ", because: {}", content.rationale.trim());
        }
        let _written = writeln!(text, "- {}", shortened(&line, MAX_LINE));
    }
}

fn add_steps(steps: &[StepRecord], text: &mut String) {
    let done: Vec<&StepRecord> = steps
        .iter()
        .filter(|step| step.is_done())
        .filter(|step| {
            matches!(
                step.kind(),
                Some(StepKind::Step | StepKind::Fix | StepKind::Guidance)
            )
        })
        .collect();
    if done.is_empty() {
        return;
    }
    text.push_str("\n## Done so far\n\n");
    for step in done.iter().skip(done.len().saturating_sub(MAX_LISTED)) {
        let summary = step.summary.as_deref().unwrap_or_default();
        let _written = writeln!(text, "- {}: {}", step.title, shortened(summary, MAX_LINE));
    }
}

/// Adds the files that the strategy names, then the files read last. A file that is too long is shortened.
fn add_files(inputs: &DigestInputs<'_>, text: &mut String) {
    let mut paths: HashMap<String, String> = HashMap::new();
    let mut read: Vec<(String, String)> = Vec::new();
    for message in inputs.messages {
        match chat_message(message) {
            Some(ChatMessage::Assistant(answer)) => {
                paths.extend(answer.calls.iter().filter_map(read_path));
            }
            Some(ChatMessage::Tool { results }) => {
                for result in results.into_iter().filter(|result| !result.is_error) {
                    if let Some(path) = paths.remove(&result.call_id) {
                        read.retain(|(known, _)| *known != path);
                        read.push((path, result.content));
                    }
                }
            }
            _ => {}
        }
    }
    if read.is_empty() {
        return;
    }
    text.push_str("\n## Files read\n\nAs they were then; read again what you need.\n");
    read.reverse();
    read.sort_by_key(|(path, _)| !inputs.named.contains(path));
    let mut room = MAX_EXCERPTS.min(inputs.room);
    for (path, mut content) in read.into_iter().take(MAX_FILES) {
        untrusted::shorten(&mut content, MAX_EXCERPT.min(room));
        room = room.saturating_sub(content.len());
        let _written = writeln!(text, "\n{path}:\n{content}");
        if room == 0 {
            break;
        }
    }
}

/// The id and the path of a call that reads a file.
fn read_path(call: &ToolCall) -> Option<(String, String)> {
    let (tool, arguments) = resolve_call(&call.name, &call.arguments)?;
    if !tool.is_builtin() || tool.short() != "file-read" {
        return None;
    }
    Some((call.id.clone(), arguments["path"].as_str()?.to_owned()))
}
