//! Runs a tool node. A resumed run looks up the row of the call: it reuses a stored result, and asks
//! the user about a call whose outcome is unknown.

use std::sync::Arc;
use std::time::Instant;

use cleveragents_actors::ports::{Answer, Failure, FailureKind, StepUsage, ToolStep};
use cleveragents_domain::{InvocationOutcome, ToolInvocation};
use cleveragents_models::ToolCall;
use cleveragents_store::{blobs, invocations};
use cleveragents_tools::ports::{Question, QuestionKind, Reply, Scope};
use cleveragents_tools::{
    CallContext, CallOutcome, CallRequest, FailureKind as How, RefusalReason,
};
use serde_json::Value;

use super::context::UnknownOutcome;
use super::executor::{RunExecutor, broken, failure, refused};
use crate::observer::AgentEvent;
use crate::tool::{StoreBudget, StoreLedger};
use crate::turn::{Secrets, log_tool_outcome, tool_span};
use crate::unknown_outcome::{ASSUME_DONE, RETRY};

/// Maximum size of the output of a tool in the state, in bytes.
const MAX_OUTPUT_BYTES: usize = 1 << 20;

/// The usage of one tool call.
const ONE_CALL: StepUsage = StepUsage {
    usage: cleveragents_domain::TokenUsage {
        input_tokens: cleveragents_domain::Tokens(0),
        output_tokens: cleveragents_domain::Tokens(0),
        cost_micro_usd: cleveragents_domain::MicroUsd(0),
    },
    model_calls: 0,
    tool_calls: 1,
};

impl RunExecutor<'_> {
    /// Calls the tool, or returns the result that an earlier attempt of the run stored.
    pub(super) fn call(&self, step: &ToolStep<'_>) -> Result<Answer, Failure> {
        let key = format!("{}.{}", step.path, step.number);
        if let Some(row) = self.earlier.get(&key)
            && let Some(answer) = self.stored_answer(row)?
        {
            return Ok(answer);
        }
        let run_context = self.run_context;
        let gate = self.gate(&[step.tool.to_owned()], &[], &[])?;
        let budget = StoreBudget::new(Arc::clone(&self.engine), run_context.scopes.clone());
        let ledger = StoreLedger::new(Arc::clone(&self.engine), None).under(self.fence.clone());
        let scope = Scope {
            session: Some(self.session),
            plan: run_context.plan,
            actor: step.actor.name.parse().ok(),
        };
        let context = CallContext {
            scope: &scope,
            mode: run_context.mode,
            profile: run_context.profile,
            guards: run_context.guards,
            rules: run_context.rules,
            workspace: run_context.workspace.map(|workspace| workspace as _),
            approver: run_context.approver,
            budget: &budget,
            ledger: &ledger,
            redactor: &Secrets(&run_context.redactor),
            cancel: step.cancel,
            shown_bytes: MAX_OUTPUT_BYTES,
        };
        let request = CallRequest {
            call_id: key.clone(),
            tool: step.tool.to_owned(),
            arguments: step.arguments.to_string(),
        };
        let shown_call = ToolCall {
            id: key,
            name: step.tool.to_owned(),
            arguments: request.arguments.clone(),
            signature: None,
        };
        let span = tool_span(step.tool, &shown_call.id);
        let _entered = span.enter();
        let started = Instant::now();
        run_context
            .observer
            .event(&AgentEvent::call_started(&shown_call).in_step(step.path));
        let outcome = gate.call(&request, &context).map_err(broken)?;
        let event = AgentEvent::call_finished(&shown_call, &outcome);
        run_context.observer.event(&event.in_step(step.path));
        log_tool_outcome(&span, &outcome, started);
        self.answered(&outcome)
    }

    fn answered(&self, outcome: &CallOutcome) -> Result<Answer, Failure> {
        let kind = match outcome {
            CallOutcome::Succeeded(done) => {
                let mut text = done.shown.head.clone();
                if done.shown.left_out > 0 {
                    return Err(Failure {
                        usage: ONE_CALL,
                        ..refused(format!(
                            "`{}` answered {} bytes, more than the {MAX_OUTPUT_BYTES} that a state can hold",
                            done.tool, done.shown.total
                        ))
                    });
                }
                text.push_str(&done.shown.tail);
                let value = self.value(&done.tool.to_string(), text, done.picture.is_some());
                return Ok(Answer {
                    value,
                    usage: ONE_CALL,
                });
            }
            _ if outcome.needs_human() => FailureKind::HumanNeeded,
            CallOutcome::Failed(failed) => match failed.kind {
                How::Timeout => FailureKind::Timeout,
                How::Cancelled => FailureKind::Cancelled,
                How::HumanNeeded => FailureKind::HumanNeeded,
                How::Tool | How::BadOutput => FailureKind::Failed,
            },
            CallOutcome::Refused(refusal) if refusal.reason == RefusalReason::Cancelled => {
                FailureKind::Cancelled
            }
            CallOutcome::Refused(_) => FailureKind::Refused,
        };
        let message = match outcome {
            CallOutcome::Failed(failed) => {
                let output = format!("{}{}", failed.shown.head, failed.shown.tail);
                let output = output.trim();
                let output = if output.is_empty() {
                    failed.log.trim()
                } else {
                    output
                };
                let end = output.ceil_char_boundary(output.len().saturating_sub(500));
                match &output[end..] {
                    "" => format!("`{}` failed: {}", failed.tool, failed.message),
                    output => format!("`{}` failed: {}: {output}", failed.tool, failed.message),
                }
            }
            CallOutcome::Refused(refusal) => format!(
                "the call of `{}` was refused: {}",
                refusal.tool, refusal.reason
            ),
            CallOutcome::Succeeded(_) => String::new(),
        };
        Err(Failure {
            usage: ONE_CALL,
            ..failure(kind, message)
        })
    }

    /// The output of a tool: JSON when the tool declares an output schema, otherwise text.
    fn value(&self, tool: &str, text: String, is_picture: bool) -> Value {
        let returns_json = self
            .run_context
            .registry
            .get(tool)
            .is_ok_and(|spec| spec.output_schema.is_some());
        if returns_json
            && !is_picture
            && let Ok(value) = serde_json::from_str(&text)
        {
            return value;
        }
        Value::String(text)
    }

    /// The stored result of an earlier call; `None` when the call has to run.
    fn stored_answer(&self, row: &ToolInvocation) -> Result<Option<Answer>, Failure> {
        match row.outcome {
            // These calls had no effect or failed, so they are retried.
            InvocationOutcome::Failed | InvocationOutcome::Refused => Ok(None),
            InvocationOutcome::Succeeded => {
                let value = match row.output {
                    Some(hash) => {
                        let content = self.engine.read(|reader| blobs::get(reader, hash));
                        let content = content.map_err(broken)?.unwrap_or_default();
                        let text = String::from_utf8_lossy(&content).into_owned();
                        self.value(&row.tool, text, row.media_type.is_some())
                    }
                    // The user confirmed that the call was done.
                    None => Value::Null,
                };
                Ok(Some(Answer {
                    value,
                    usage: ONE_CALL,
                }))
            }
            InvocationOutcome::Running if row.is_repeatable => {
                self.store_outcome(row, InvocationOutcome::Failed)?;
                Ok(None)
            }
            InvocationOutcome::Running => self.resolve_unknown_outcome(row),
        }
    }

    fn resolve_unknown_outcome(&self, row: &ToolInvocation) -> Result<Option<Answer>, Failure> {
        let choice = match self.run_context.unknown_outcome {
            UnknownOutcome::Ask => self.ask_about(row)?,
            choice => choice,
        };
        if choice == UnknownOutcome::Retry {
            self.store_outcome(row, InvocationOutcome::Failed)?;
            return Ok(None);
        }
        self.store_outcome(row, InvocationOutcome::Succeeded)?;
        Ok(Some(Answer {
            value: Value::Null,
            usage: ONE_CALL,
        }))
    }

    fn ask_about(&self, row: &ToolInvocation) -> Result<UnknownOutcome, Failure> {
        let text = format!(
            "The call of `{}` with {} was interrupted before its result was stored. What should be \
             done about it?",
            row.tool, row.arguments
        );
        let options = [RETRY, ASSUME_DONE].map(str::to_owned);
        let reply = self.run_context.approver.question(&Question {
            kind: QuestionKind::UnknownOutcome,
            text: &text,
            options: &options,
        });
        match reply {
            Reply::Text(answer) if answer == RETRY => Ok(UnknownOutcome::Retry),
            Reply::Text(answer) if answer == ASSUME_DONE => Ok(UnknownOutcome::AssumeDone),
            _ => Err(failure(
                FailureKind::HumanNeeded,
                format!(
                    "the call of `{}` was interrupted and its outcome is unknown: retry it or \
                     skip it",
                    row.tool
                ),
            )),
        }
    }

    /// Stores the outcome of an interrupted call in its row.
    fn store_outcome(
        &self,
        row: &ToolInvocation,
        outcome: InvocationOutcome,
    ) -> Result<(), Failure> {
        let mut updated = row.clone();
        updated.outcome = outcome;
        updated.error = (outcome == InvocationOutcome::Failed)
            .then(|| "interrupted: the outcome is unknown".to_owned());
        self.engine
            .write(move |unit| invocations::finish(unit, &updated))
            .map_err(|error: cleveragents_store::Error| broken(error))?;
        Ok(())
    }
}
