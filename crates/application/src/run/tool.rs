//! Calling a tool for a node. The row of the call is found again by whoever goes on with the run: what was
//! answered is taken, and of what nobody knows is asked.

use std::sync::Arc;
use std::time::Instant;

use cleveragents_actors::ports::{Answer, Failure, FailureKind, Taken, ToolStep};
use cleveragents_domain::{InvocationOutcome, ToolInvocation};
use cleveragents_models::ToolCall;
use cleveragents_store::{blobs, invocations};
use cleveragents_tools::ports::{Question, Reply, Scope};
use cleveragents_tools::{CallContext, CallOutcome, CallRequest, FailureKind as How};
use serde_json::Value;

use super::context::UnknownOutcome;
use super::work::{Work, broken, failure, refused};
use crate::tool::{StoreBudget, StoreLedger};
use crate::turn::{Secrets, log_tool_outcome, tool_span};
use crate::unknown_outcome::{AGAIN, DONE};

/// So much of what a tool says goes into the state.
const LONGEST: usize = 1 << 20;

/// One call of a tool.
const ONE: Taken = Taken {
    usage: cleveragents_domain::TokenUsage {
        input_tokens: cleveragents_domain::Tokens(0),
        output_tokens: cleveragents_domain::Tokens(0),
        cost_micro_usd: cleveragents_domain::MicroUsd(0),
    },
    model_calls: 0,
    tool_calls: 1,
};

impl Work<'_> {
    /// Calls, or takes what an earlier attempt at the run got.
    pub(super) fn call(&self, step: &ToolStep<'_>) -> Result<Answer, Failure> {
        let key = format!("{}.{}", step.path, step.number);
        if let Some(row) = self.earlier.get(&key)
            && let Some(answer) = self.known(row)?
        {
            return Ok(answer);
        }
        let means = self.means;
        let gate = self.gate(&[step.tool.to_owned()], &[], &[])?;
        let budget = StoreBudget::new(Arc::clone(&self.engine), means.scopes.clone());
        let ledger = StoreLedger::new(Arc::clone(&self.engine), None).under(self.fence.clone());
        let scope = Scope {
            session: Some(self.session),
            plan: means.plan,
            actor: step.actor.name.parse().ok(),
        };
        let context = CallContext {
            scope: &scope,
            mode: means.mode,
            profile: means.profile,
            guards: means.guards,
            rules: means.rules,
            workspace: means.workspace.map(|workspace| workspace as _),
            approver: means.approver,
            budget: &budget,
            ledger: &ledger,
            redactor: &Secrets(&means.redactor),
            cancel: step.cancel,
            shown_bytes: LONGEST,
        };
        let request = CallRequest {
            call_id: key.clone(),
            tool: step.tool.to_owned(),
            arguments: step.arguments.to_string(),
        };
        let told = ToolCall {
            id: key,
            name: step.tool.to_owned(),
            arguments: request.arguments.clone(),
            signature: None,
        };
        let span = tool_span(step.tool, &told.id);
        let _entered = span.enter();
        let begun = Instant::now();
        means.watcher.calling(step.path, &told);
        let outcome = gate.call(&request, &context).map_err(broken)?;
        means.watcher.called(step.path, &told, &outcome);
        log_tool_outcome(&span, &outcome, begun);
        self.answered(&outcome)
    }

    fn answered(&self, outcome: &CallOutcome) -> Result<Answer, Failure> {
        let kind = match outcome {
            CallOutcome::Succeeded(done) => {
                let mut text = done.shown.head.clone();
                if done.shown.left_out > 0 {
                    return Err(Failure {
                        taken: ONE,
                        ..refused(format!(
                            "`{}` answered {} bytes, more than the {LONGEST} that a state can take",
                            done.tool, done.shown.total
                        ))
                    });
                }
                text.push_str(&done.shown.tail);
                let value = self.value(&done.tool.to_string(), text, done.picture.is_some());
                return Ok(Answer { value, taken: ONE });
            }
            _ if outcome.needs_human() => FailureKind::HumanNeeded,
            CallOutcome::Failed(failed) => match failed.kind {
                How::Timeout => FailureKind::Timeout,
                How::Cancelled => FailureKind::Cancelled,
                How::HumanNeeded => FailureKind::HumanNeeded,
                How::Tool | How::BadOutput => FailureKind::Failed,
            },
            CallOutcome::Refused(_) => FailureKind::Refused,
        };
        let message = match outcome {
            CallOutcome::Failed(failed) => {
                let said = format!("{}{}", failed.shown.head, failed.shown.tail);
                let said = said.trim();
                let said = if said.is_empty() {
                    failed.log.trim()
                } else {
                    said
                };
                let end = said.ceil_char_boundary(said.len().saturating_sub(500));
                match &said[end..] {
                    "" => format!("`{}` failed: {}", failed.tool, failed.message),
                    said => format!("`{}` failed: {}: {said}", failed.tool, failed.message),
                }
            }
            CallOutcome::Refused(refusal) => format!(
                "the call of `{}` was refused: {}",
                refusal.tool, refusal.reason
            ),
            CallOutcome::Succeeded(_) => String::new(),
        };
        Err(Failure {
            taken: ONE,
            ..failure(kind, message)
        })
    }

    /// What a tool said: JSON when that is what the tool answers with, else text.
    fn value(&self, tool: &str, text: String, is_picture: bool) -> Value {
        let speaks_json = self
            .means
            .registry
            .get(tool)
            .is_ok_and(|spec| spec.output_schema.is_some());
        if speaks_json
            && !is_picture
            && let Ok(value) = serde_json::from_str(&text)
        {
            return value;
        }
        Value::String(text)
    }

    /// The answer of a call that was made before; nothing when it is to be made.
    fn known(&self, row: &ToolInvocation) -> Result<Option<Answer>, Failure> {
        match row.outcome {
            // They took no effect, or failed: that is what is tried again.
            InvocationOutcome::Failed | InvocationOutcome::Refused => Ok(None),
            InvocationOutcome::Succeeded => {
                let value = match row.output {
                    Some(hash) => {
                        let content = self.engine.read(|reader| blobs::get(reader, hash));
                        let content = content.map_err(broken)?.unwrap_or_default();
                        let text = String::from_utf8_lossy(&content).into_owned();
                        self.value(&row.tool, text, row.media_type.is_some())
                    }
                    // A person said that it was done.
                    None => Value::Null,
                };
                Ok(Some(Answer { value, taken: ONE }))
            }
            InvocationOutcome::Running if row.is_repeatable => {
                self.settle(row, InvocationOutcome::Failed)?;
                Ok(None)
            }
            InvocationOutcome::Running => self.settle_doubt(row),
        }
    }

    fn settle_doubt(&self, row: &ToolInvocation) -> Result<Option<Answer>, Failure> {
        let doubt = match self.means.unknown_outcome {
            UnknownOutcome::Ask => self.ask_about(row)?,
            settled => settled,
        };
        if doubt == UnknownOutcome::Retry {
            self.settle(row, InvocationOutcome::Failed)?;
            return Ok(None);
        }
        self.settle(row, InvocationOutcome::Succeeded)?;
        Ok(Some(Answer {
            value: Value::Null,
            taken: ONE,
        }))
    }

    fn ask_about(&self, row: &ToolInvocation) -> Result<UnknownOutcome, Failure> {
        let text = format!(
            "The call of `{}` with {} was begun, and the program ended before it knew the result. What \
             shall be done about it?",
            row.tool, row.arguments
        );
        let options = [AGAIN, DONE].map(str::to_owned);
        let reply = self.means.approver.question(&Question {
            text: &text,
            options: &options,
        });
        match reply {
            Reply::Text(answer) if answer == AGAIN => Ok(UnknownOutcome::Retry),
            Reply::Text(answer) if answer == DONE => Ok(UnknownOutcome::AssumeDone),
            _ => Err(failure(
                FailureKind::HumanNeeded,
                format!(
                    "the call of `{}` was begun and cut off, and nobody knows whether it took effect: say \
                     --redo or --skip",
                    row.tool
                ),
            )),
        }
    }

    /// Says in its row what became of a call that was cut off.
    fn settle(&self, row: &ToolInvocation, outcome: InvocationOutcome) -> Result<(), Failure> {
        let mut ended = row.clone();
        ended.outcome = outcome;
        ended.error = (outcome == InvocationOutcome::Failed)
            .then(|| "interrupted: it is not known whether it took effect".to_owned());
        self.engine
            .write(move |unit| invocations::finish(unit, &ended))
            .map_err(|error: cleveragents_store::Error| broken(error))?;
        Ok(())
    }
}
