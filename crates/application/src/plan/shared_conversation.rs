//! [`PlanThread`]: the conversation that the strategist, the executor and its fixes share.
//!
//! The executor's conversation starts with the strategist's. A step continues the conversation of the previous step,
//! and a fix continues the executor's conversation. Each run stores its complete conversation: when it starts, it
//! copies the earlier messages (`run/agent.rs`). Steps that a rollback undid are excluded.
//!
//! When the executor continues the strategist's conversation, stubs replace long results that the strategy does not
//! name. A digest (`conversation_digest.rs`) replaces the whole conversation if it is too long for the model, or if the
//! actor uses several models.

use std::collections::HashSet;
use std::fmt::Write as _;

use cleveragents_domain::{Message, Plan, PlanStrategy, RunId, StepKind, StepRecord};
use cleveragents_models::{ChatMessage, UserPart};
use cleveragents_store::{decisions, plan_steps, validations};
use serde_json::Value;

use super::actor_runner::PlanActorRunner;
use super::conversation_digest::{DigestInputs, digest};
use super::error::PlanError;
use crate::answer_json::json_values;
use crate::run::{CarriedConversation, prune, read_paths};
use crate::turn::chat_message;

/// Maximum size of a conversation that is continued, in tokens.
const MAX_CONVERSATION_TOKENS: u64 = 60_000;

/// Maximum size of a conversation that is continued, as a percentage of the model's context window.
const MAX_WINDOW_PERCENT: u64 = 60;

/// Estimated bytes per token: a low estimate, so that the number of tokens is overestimated.
const BYTES_PER_TOKEN: usize = 3;

/// Maximum size of a block of known lines that is repeated in full, in bytes: about 200 tokens.
const REPEATED_BYTES: usize = 600;

/// The inputs that decide how the conversation of a step starts.
pub(super) struct ThreadRequest<'t> {
    /// The actor that continues the thread.
    pub(super) actor: &'t str,
    /// The number of the step to run. The thread contains only earlier steps.
    pub(super) before: u64,
    /// An earlier run of the same step that reported being blocked. The thread then continues that run.
    pub(super) blocked: Option<RunId>,
    /// The paths that the plan has changed so far.
    pub(super) changed: &'t [String],
    /// The strategy to execute. The strategist's conversation is pruned to the files that the strategy names.
    pub(super) strategy: Option<&'t PlanStrategy>,
}

/// The earlier conversation, or its digest, with which the conversation of a step starts.
#[derive(Debug, Default)]
pub(super) struct PlanThread {
    /// The conversation to continue.
    pub(super) carried: Option<CarriedConversation>,
    /// The digest of a conversation that cannot be continued. The prompt contains the digest.
    pub(super) digest: Option<String>,
    /// All text of the conversation or the digest.
    text: String,
}

impl PlanThread {
    /// True if there is no earlier conversation.
    pub(super) const fn is_new(&self) -> bool {
        self.carried.is_none() && self.digest.is_none()
    }

    /// True if the conversation already contains a text.
    pub(super) fn shows(&self, text: &str) -> bool {
        self.text.contains(text.trim())
    }

    /// Replaces long blocks of lines that the conversation already contains by a short note.
    pub(super) fn without_repeats(&self, text: &str) -> String {
        let known: HashSet<&str> = self.text.lines().map(str::trim).collect();
        let mut output = String::new();
        let mut repeated: Vec<&str> = Vec::new();
        for line in text.lines() {
            if known.contains(line.trim()) {
                repeated.push(line);
            } else {
                add_repeated(&mut output, &mut repeated);
                let _written = writeln!(output, "{line}");
            }
        }
        add_repeated(&mut output, &mut repeated);
        output
    }
}

/// Adds lines that the conversation already contains: a short block in full, a long one as a note.
fn add_repeated(output: &mut String, repeated: &mut Vec<&str>) {
    let bytes: usize = repeated.iter().map(|line| line.len() + 1).sum();
    if bytes > REPEATED_BYTES {
        let _written = writeln!(output, "[{} lines, the same as above]", repeated.len());
    } else {
        for line in repeated.iter() {
            let _written = writeln!(output, "{line}");
        }
    }
    repeated.clear();
}

impl PlanActorRunner<'_> {
    /// The start of the conversation of a step.
    pub(super) fn thread(
        &self,
        plan: &Plan,
        request: &ThreadRequest<'_>,
    ) -> Result<PlanThread, PlanError> {
        let store = &self.gates.store;
        let steps = store.read(|reader| plan_steps::of_plan(reader, plan.id))?;
        let runs = match request.blocked {
            Some(run) => vec![(run, StepKind::Step)],
            None => earlier_runs(&steps, request.before),
        };
        for (run, kind) in runs {
            let mut messages = self
                .runs
                .last_messages(run)
                .map_err(PlanError::from_service)?;
            if messages.is_empty() {
                continue;
            }
            let kept_files = request
                .strategy
                .filter(|_| kind == StepKind::Strategize)
                .map(|strategy| named_files(strategy, &messages));
            if let Some(files) = &kept_files {
                prune(&mut messages, files);
            }
            let limit = self.limit(request.actor)?;
            let bytes: usize = messages.iter().map(message_bytes).sum();
            if (bytes / BYTES_PER_TOKEN) as u64 <= limit {
                return Ok(PlanThread {
                    carried: Some(CarriedConversation { run, kept_files }),
                    digest: None,
                    text: text_of(&messages),
                });
            }
            let (decisions, results) = store.read(|reader| {
                Ok((
                    decisions::of_plan(reader, plan.id)?,
                    validations::results(reader, plan.id)?,
                ))
            })?;
            let summary = self
                .runs
                .last_summary(run)
                .map_err(PlanError::from_service)?;
            let strategy = plan.strategy.as_ref();
            let digest = digest(&DigestInputs {
                strategy,
                summary: summary.as_deref(),
                decisions: &decisions,
                steps: &steps,
                named: &strategy.map_or_else(Vec::new, |strategy| named_files(strategy, &messages)),
                messages: &messages,
                changed: request.changed,
                results: &results,
                room: match usize::try_from(limit) {
                    Ok(limit) if limit > 0 => limit / 3 * BYTES_PER_TOKEN,
                    _ => usize::MAX,
                },
            });
            return Ok(PlanThread {
                carried: None,
                text: digest.clone(),
                digest: Some(digest),
            });
        }
        Ok(PlanThread::default())
    }

    /// Maximum size of a conversation that an actor continues, in tokens; 0 for an actor with several models.
    fn limit(&self, actor: &str) -> Result<u64, PlanError> {
        let resolved = self.runtime.actor(actor).map_err(PlanError::from_service)?;
        let window = self.runtime.input_tokens(&resolved.actor);
        Ok(window.map_or(0, |window| {
            (window / 100 * MAX_WINDOW_PERCENT).min(MAX_CONVERSATION_TOKENS)
        }))
    }
}

/// The files that a strategy names: the files of its steps, and the files read in the conversation whose name its text
/// mentions.
fn named_files(strategy: &PlanStrategy, messages: &[Message]) -> Vec<String> {
    let text = strategy.to_markdown();
    let mut files: Vec<String> = strategy.files().iter().map(ToString::to_string).collect();
    let mentioned = read_paths(messages).into_iter();
    files.extend(mentioned.filter(|path| {
        let name = path.rsplit('/').next().unwrap_or(path);
        text.contains(name)
    }));
    files.sort_unstable();
    files.dedup();
    files
}

/// The runs whose conversation may be continued, newest first, with the kind of their step.
fn earlier_runs(steps: &[StepRecord], before: u64) -> Vec<(RunId, StepKind)> {
    let thread_run = |step: &StepRecord| {
        let kind = step.kind()?;
        let is_in_thread = step.number < before
            && step.undone_by.is_none()
            && matches!(
                kind,
                StepKind::Strategize | StepKind::Step | StepKind::Fix | StepKind::Guidance
            );
        Some((step.run?, kind)).filter(|_| is_in_thread)
    };
    steps.iter().rev().filter_map(thread_run).collect()
}

fn message_bytes(message: &Message) -> usize {
    match chat_message(message) {
        Some(ChatMessage::Assistant(answer)) => {
            let calls = answer.calls.iter();
            let calls: usize = calls
                .map(|call| call.name.len() + call.arguments.len())
                .sum();
            let reasoning: usize = answer.reasoning.iter().map(|part| part.text.len()).sum();
            answer.text.len() + calls + reasoning
        }
        _ => message.content.len(),
    }
}

/// All text of a conversation. Strings inside tool arguments and JSON answers are unescaped.
fn text_of(messages: &[Message]) -> String {
    let mut text = String::new();
    for message in messages {
        match chat_message(message) {
            Some(ChatMessage::Assistant(answer)) => {
                add_line(&mut text, &answer.text);
                for value in json_values(&answer.text) {
                    add_strings(&mut text, &value);
                }
                for call in &answer.calls {
                    match serde_json::from_str(&call.arguments) {
                        Ok(value) => add_strings(&mut text, &value),
                        Err(_) => add_line(&mut text, &call.arguments),
                    }
                }
            }
            Some(ChatMessage::Tool { results }) => {
                for result in results {
                    add_line(&mut text, &result.content);
                }
            }
            Some(ChatMessage::User { parts }) => {
                for part in parts {
                    if let UserPart::Text(part) = part {
                        add_line(&mut text, &part);
                    }
                }
            }
            None => add_line(&mut text, &message.content),
        }
    }
    text
}

fn add_line(text: &mut String, more: &str) {
    text.push_str(more);
    text.push('\n');
}

fn add_strings(text: &mut String, value: &Value) {
    match value {
        Value::String(inside) => add_line(text, inside),
        Value::Array(items) => items.iter().for_each(|item| add_strings(text, item)),
        Value::Object(fields) => fields.values().for_each(|field| add_strings(text, field)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::PlanThread;

    #[test]
    fn only_long_repeated_blocks_are_omitted() {
        let lines = |from: usize, to: usize| -> String {
            let lines: Vec<String> = (from..to)
                .map(|number| format!("line {number} of the output of a check\n"))
                .collect();
            lines.concat()
        };
        let thread = PlanThread {
            text: lines(0, 50),
            ..PlanThread::default()
        };
        let shown = thread.without_repeats(&format!("new first\n{}new last\n", lines(0, 50)));
        assert_eq!(
            shown,
            "new first\n[50 lines, the same as above]\nnew last\n"
        );
        let few = format!("new first\n{}new last\n", lines(0, 5));
        assert_eq!(thread.without_repeats(&few), few);
        assert!(thread.shows("  line 7 of the output of a check\n"));
        assert!(!thread.shows("line 77 of the output of a check"));
    }
}
