//! Runs the tool calls of one answer: read-only calls concurrently, calls with effects sequentially
//! in the order of the answer.

use std::collections::HashMap;
use std::time::Instant;

use cleveragents_domain::{SessionId, ToolInvocationId};
use cleveragents_models::{Picture, ToolCall, ToolResult};
use cleveragents_tools::ports::{Approval, ApprovalRequest, Approver, Question, Reply, Scope};
use cleveragents_tools::{CallContext, CallOutcome, CallRequest, called_tool};
use tracing::Span;
use tracing::field::Empty;

use super::error::TurnError;
use super::request::TurnRequest;
use super::secrets::Secrets;
use crate::log_fields::milliseconds;
use crate::observer::AgentEvent;
use crate::tool::{StoreBudget, StoreLedger};

/// Maximum number of read-only calls that run concurrently.
const MAX_CONCURRENT_CALLS: usize = 8;

/// Runs calls through the gate.
pub(super) struct CallRunner<'a> {
    pub(super) request: &'a TurnRequest<'a>,
    pub(super) session: SessionId,
    pub(super) budget: &'a StoreBudget,
    pub(super) ledger: &'a StoreLedger,
}

/// A call with its result, which comes from the gate or from the store.
pub(super) struct AnsweredCall {
    pub(super) result: ToolResult,
    /// `None` when the result was already stored or the call did not reach the gate.
    pub(super) outcome: Option<CallOutcome>,
}

impl AnsweredCall {
    /// A call that did not run because an earlier call waits for approval.
    fn skipped(call: &ToolCall) -> Self {
        Self {
            result: ToolResult {
                pictures: Vec::new(),
                call_id: call.id.clone(),
                content: "This call did not run, because an earlier call waits for the user."
                    .to_owned(),
                is_error: true,
            },
            outcome: None,
        }
    }
}

/// Stores the pending messages before it asks the user, because the user may take long to answer.
struct StoringApprover<'a> {
    ledger: &'a StoreLedger,
    approver: &'a dyn Approver,
}

impl Approver for StoringApprover<'_> {
    fn approve(&self, request: &ApprovalRequest<'_>) -> Approval {
        // If this fails, the messages are stored together with the call; if that fails too, the
        // call does not run.
        let _stored = self.ledger.flush();
        self.approver.approve(request)
    }

    fn question(&self, question: &Question<'_>) -> Reply {
        self.approver.question(question)
    }
}

impl CallRunner<'_> {
    /// Runs the calls that have no result yet and returns the answers in the order of the calls.
    /// `stored` holds the existing results. When a call needs an absent user, the later calls do not
    /// run, because the model made them assuming that the call would succeed. `unredacted` holds the
    /// original arguments, by call id, of calls whose arguments are redacted. `is_shown` returns
    /// whether the conversation contains a text.
    pub(super) fn run(
        &self,
        calls: &[ToolCall],
        stored: Vec<Option<ToolResult>>,
        unredacted: &HashMap<String, String>,
        is_shown: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<AnsweredCall>, TurnError> {
        let mut answers: Vec<Option<AnsweredCall>> = stored
            .into_iter()
            .map(|stored| {
                stored.map(|result| AnsweredCall {
                    result,
                    outcome: None,
                })
            })
            .collect();
        let mut at = 0;
        let mut is_stopped = false;
        while at < calls.len() && !is_stopped {
            // A group of consecutive read-only calls, or a single call with effects.
            let mut end = at + 1;
            while end < calls.len()
                && self.is_read_only(&calls[at])
                && self.is_read_only(&calls[end])
            {
                end += 1;
            }
            let open: Vec<usize> = (at..end)
                .filter(|index| answers[*index].is_none())
                .collect();
            for batch in open.chunks(MAX_CONCURRENT_CALLS) {
                let batch_calls: Vec<&ToolCall> =
                    batch.iter().map(|index| &calls[*index]).collect();
                let outcomes = self.run_batch(&batch_calls, unredacted)?;
                for (index, outcome) in batch.iter().zip(outcomes) {
                    is_stopped |= outcome.needs_human();
                    answers[*index] = Some(AnsweredCall {
                        result: ToolResult {
                            call_id: calls[*index].id.clone(),
                            content: self.text_for_model(&outcome),
                            is_error: !outcome.is_success(),
                            pictures: self.pictures(&outcome),
                        },
                        outcome: Some(outcome),
                    });
                }
                if is_stopped {
                    break;
                }
            }
            at = end;
        }
        self.add_instructions(calls, &mut answers, is_shown);
        let answered = calls.iter().zip(answers);
        Ok(answered
            .map(|(call, answer)| answer.unwrap_or_else(|| AnsweredCall::skipped(call)))
            .collect())
    }

    /// Appends the instructions of a folder to the result of the first successful call in that
    /// folder, unless the conversation already contains them.
    fn add_instructions(
        &self,
        calls: &[ToolCall],
        answers: &mut [Option<AnsweredCall>],
        is_shown: &dyn Fn(&str) -> bool,
    ) {
        let Some(workspace) = self.request.tools.workspace else {
            return;
        };
        if !self.request.model.capabilities().tools {
            return;
        }
        let mut added = String::new();
        for (call, answer) in calls.iter().zip(answers) {
            let Some(answer) = answer else { continue };
            if !answer.outcome.as_ref().is_some_and(CallOutcome::is_success) {
                continue;
            }
            let is_known = |tag: &str| added.contains(tag) || is_shown(tag);
            if let Some(nested) = workspace.nested_instructions(call, &is_known) {
                let nested = self.request.redactor.text(&nested).into_owned();
                answer.result.content.push_str(&nested);
                added.push_str(&nested);
            }
        }
    }

    /// The text of an outcome that the model receives.
    fn text_for_model(&self, outcome: &CallOutcome) -> String {
        // Only models receive text between tags; a remote agent receives plain text.
        if let CallOutcome::Succeeded(done) = outcome
            && !self.request.model.capabilities().tools
        {
            return format!("{}{}", done.shown.head, done.shown.tail);
        }
        let text = outcome.for_model();
        let is_picture = matches!(outcome, CallOutcome::Succeeded(done) if done.picture.is_some());
        if is_picture && !self.request.model.capabilities().vision {
            return format!("{text}\nThis is an image, and this model cannot see images.");
        }
        text
    }

    /// The images of an outcome, when the model accepts images.
    fn pictures(&self, outcome: &CallOutcome) -> Vec<Picture> {
        match outcome {
            CallOutcome::Succeeded(done) if self.request.model.capabilities().vision => done
                .picture
                .iter()
                .map(|picture| Picture {
                    media_type: picture.media_type.to_owned(),
                    data: picture.data.clone(),
                })
                .collect(),
            _ => Vec::new(),
        }
    }

    fn is_read_only(&self, call: &ToolCall) -> bool {
        self.request
            .tools
            .gate
            .registry()
            .tool_for_call(&call.name, &call.arguments)
            .is_some_and(|spec| !spec.capability.is_writing() && !spec.capability.needs_approval)
    }

    fn run_batch(
        &self,
        calls: &[&ToolCall],
        unredacted: &HashMap<String, String>,
    ) -> Result<Vec<CallOutcome>, TurnError> {
        // Stored calls are ordered by their ids, so ids are generated in the order of the calls.
        let calls: Vec<(ToolInvocationId, &ToolCall)> = calls
            .iter()
            .map(|call| (ToolInvocationId::generate(), *call))
            .collect();
        match *calls {
            [(id, only)] => Ok(vec![self.run_one(id, only, unredacted)?]),
            _ => std::thread::scope(|scope| {
                let span = Span::current();
                let threads: Vec<_> = calls
                    .iter()
                    .map(|(id, call)| {
                        let span = span.clone();
                        scope.spawn(move || span.in_scope(|| self.run_one(*id, call, unredacted)))
                    })
                    .collect();
                threads
                    .into_iter()
                    .map(|thread| match thread.join() {
                        Ok(outcome) => outcome,
                        Err(panic) => std::panic::resume_unwind(panic),
                    })
                    .collect()
            }),
        }
    }

    fn run_one(
        &self,
        id: ToolInvocationId,
        call: &ToolCall,
        unredacted: &HashMap<String, String>,
    ) -> Result<CallOutcome, TurnError> {
        let request = self.request;
        let tools = &request.tools;
        let span = tool_span(&tool_name(call), &call.id);
        let _entered = span.enter();
        let started = Instant::now();
        request.observer.event(&AgentEvent::call_started(call));
        let scope = Scope {
            session: Some(self.session),
            plan: request.plan,
            actor: request.actor.clone(),
        };
        let context = CallContext {
            scope: &scope,
            mode: tools.mode,
            profile: tools.profile,
            guards: tools.guards,
            rules: tools.rules,
            workspace: tools.workspace.map(|workspace| workspace as _),
            approver: &StoringApprover {
                ledger: self.ledger,
                approver: tools.approver,
            },
            budget: self.budget,
            ledger: self.ledger,
            redactor: &Secrets(&request.redactor),
            cancel: request.cancel,
            shown_bytes: request.settings.shown_bytes,
        };
        let outcome = tools.gate.call_as(
            id,
            &CallRequest {
                call_id: call.id.clone(),
                tool: call.name.clone(),
                arguments: unredacted.get(&call.id).unwrap_or(&call.arguments).clone(),
            },
            &context,
        )?;
        let event = AgentEvent::call_finished(call, &outcome);
        request.observer.event(&event);
        if outcome.is_success()
            && let Some(checklist) = AgentEvent::checklist(call)
        {
            request.observer.event(&checklist);
        }
        log_tool_outcome(&span, &outcome, started);
        Ok(outcome)
    }
}

/// The name of the called tool for logs; `unknown` when the model called a tool that does not exist.
fn tool_name(call: &ToolCall) -> String {
    called_tool(&call.name, &call.arguments)
        .map_or_else(|| "unknown".to_owned(), |name| name.to_string())
}

/// The tracing span of a tool call.
pub(crate) fn tool_span(tool: &str, call: &str) -> Span {
    tracing::info_span!(
        "execute_tool",
        otel.kind = "internal",
        tool,
        call,
        code = Empty
    )
}

/// Logs the outcome of a tool call, but never its arguments or its output.
pub(crate) fn log_tool_outcome(span: &Span, outcome: &CallOutcome, started: Instant) {
    let duration_ms = milliseconds(started);
    let invocation = outcome.invocation();
    match outcome.code() {
        None => tracing::info!(%invocation, duration_ms, "tool call finished"),
        Some(code) => {
            span.record("code", code.as_str());
            let refused = matches!(outcome, CallOutcome::Refused(_));
            tracing::info!(%invocation, refused, duration_ms, "tool call failed");
        }
    }
}
