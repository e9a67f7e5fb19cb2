//! The calls of one answer: those that only look run at the same time, those that change something one
//! after the other, in the order in which the model asked for them.

use std::collections::HashMap;
use std::time::Instant;

use cleveragents_domain::SessionId;
use cleveragents_models::{Picture, ToolCall, ToolResult};
use cleveragents_tools::ports::{Approval, ApprovalRequest, Approver, Question, Reply, Scope};
use cleveragents_tools::{CallContext, CallOutcome, CallRequest, ToolName};
use tracing::Span;
use tracing::field::Empty;

use super::error::TurnError;
use super::request::TurnRequest;
use super::secrets::Secrets;
use crate::log_fields::milliseconds;
use crate::tool::{StoreBudget, StoreLedger};

/// So many calls that only look run at the same time.
const AT_ONCE: usize = 8;

/// Runs calls through the gate.
pub(super) struct CallRunner<'a> {
    pub(super) request: &'a TurnRequest<'a>,
    pub(super) session: SessionId,
    pub(super) budget: &'a StoreBudget,
    pub(super) ledger: &'a StoreLedger,
}

/// A call that was answered, by the gate now or earlier.
pub(super) struct Answered {
    pub(super) result: ToolResult,
    /// What came of it; `None` when the answer was known, or when it did not get to the gate.
    pub(super) outcome: Option<CallOutcome>,
}

impl Answered {
    /// A call that did not run, since one before it waits for a person.
    fn held_up(call: &ToolCall) -> Self {
        Self {
            result: ToolResult {
                pictures: Vec::new(),
                call_id: call.id.clone(),
                content: "This call did not run: a person is needed first.".to_owned(),
                is_error: true,
            },
            outcome: None,
        }
    }
}

/// A person may take long to answer: what was said before is stored first.
struct Patient<'a> {
    ledger: &'a StoreLedger,
    person: &'a dyn Approver,
}

impl Approver for Patient<'_> {
    fn approve(&self, request: &ApprovalRequest<'_>) -> Approval {
        // What could not be stored is stored with the call, or the call does not run.
        let _stored = self.ledger.settle();
        self.person.approve(request)
    }

    fn question(&self, question: &Question<'_>) -> Reply {
        self.person.question(question)
    }
}

impl CallRunner<'_> {
    /// Runs what is not known yet. The answers are in the order of the calls. Once a person is needed
    /// who is not there, the calls behind that one do not run: the model made them in the belief that
    /// it would. `written` holds arguments that differ from those of the calls, which are for showing.
    pub(super) fn run(
        &self,
        calls: &[ToolCall],
        known: Vec<Option<ToolResult>>,
        written: &HashMap<String, String>,
    ) -> Result<Vec<Answered>, TurnError> {
        let mut answers: Vec<Option<Answered>> = known
            .into_iter()
            .map(|known| {
                known.map(|result| Answered {
                    result,
                    outcome: None,
                })
            })
            .collect();
        let mut at = 0;
        let mut is_held_up = false;
        while at < calls.len() && !is_held_up {
            // A run of calls that only look, or a single one.
            let mut end = at + 1;
            while end < calls.len() && self.only_looks(&calls[at]) && self.only_looks(&calls[end]) {
                end += 1;
            }
            let open: Vec<usize> = (at..end)
                .filter(|index| answers[*index].is_none())
                .collect();
            for few in open.chunks(AT_ONCE) {
                let together: Vec<&ToolCall> = few.iter().map(|index| &calls[*index]).collect();
                let outcomes = self.run_together(&together, written)?;
                for (index, outcome) in few.iter().zip(outcomes) {
                    is_held_up |= outcome.needs_human();
                    answers[*index] = Some(Answered {
                        result: ToolResult {
                            call_id: calls[*index].id.clone(),
                            content: self.told(&outcome),
                            is_error: !outcome.is_success(),
                            pictures: self.pictures(&outcome),
                        },
                        outcome: Some(outcome),
                    });
                }
                if is_held_up {
                    break;
                }
            }
            at = end;
        }
        let answered = calls.iter().zip(answers);
        Ok(answered
            .map(|(call, answer)| answer.unwrap_or_else(|| Answered::held_up(call)))
            .collect())
    }

    /// What the model reads of an outcome.
    fn told(&self, outcome: &CallOutcome) -> String {
        // Marks are for models; an agent on another machine is told what a person said.
        if let CallOutcome::Succeeded(done) = outcome
            && !self.request.model.capabilities().tools
        {
            return format!("{}{}", done.shown.head, done.shown.tail);
        }
        let text = outcome.for_model();
        let is_picture = matches!(outcome, CallOutcome::Succeeded(done) if done.picture.is_some());
        if is_picture && !self.request.model.capabilities().vision {
            return format!("{text}\nThis is a picture, and this model cannot see pictures.");
        }
        text
    }

    /// The pictures of an outcome, when the model can see.
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

    fn only_looks(&self, call: &ToolCall) -> bool {
        self.request
            .tools
            .gate
            .registry()
            .get(&call.name)
            .is_ok_and(|spec| !spec.capability.is_writing() && !spec.capability.needs_approval)
    }

    fn run_together(
        &self,
        calls: &[&ToolCall],
        written: &HashMap<String, String>,
    ) -> Result<Vec<CallOutcome>, TurnError> {
        match calls {
            [only] => Ok(vec![self.run_one(only, written)?]),
            _ => std::thread::scope(|scope| {
                let span = Span::current();
                let threads: Vec<_> = calls
                    .iter()
                    .map(|call| {
                        let span = span.clone();
                        scope.spawn(move || span.in_scope(|| self.run_one(call, written)))
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
        call: &ToolCall,
        written: &HashMap<String, String>,
    ) -> Result<CallOutcome, TurnError> {
        let request = self.request;
        let tools = &request.tools;
        let span = tool_span(&tool_name(call), &call.id);
        let _entered = span.enter();
        let begun = Instant::now();
        request.observer.calling(call);
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
            approver: &Patient {
                ledger: self.ledger,
                person: tools.approver,
            },
            budget: self.budget,
            ledger: self.ledger,
            redactor: &Secrets(&request.redactor),
            cancel: request.cancel,
            shown_bytes: request.settings.shown_bytes,
        };
        let outcome = tools.gate.call(
            &CallRequest {
                call_id: call.id.clone(),
                tool: call.name.clone(),
                arguments: written.get(&call.id).unwrap_or(&call.arguments).clone(),
            },
            &context,
        )?;
        request.observer.called(call, &outcome);
        log_tool_outcome(&span, &outcome, begun);
        Ok(outcome)
    }
}

/// The tool that a model means.
fn tool_name(call: &ToolCall) -> String {
    ToolName::from_wire(&call.name).map_or_else(|_| "unknown".to_owned(), |name| name.to_string())
}

/// The span of a call of a tool.
pub(crate) fn tool_span(tool: &str, call: &str) -> Span {
    tracing::info_span!(
        "execute_tool",
        otel.kind = "internal",
        tool,
        call,
        code = Empty
    )
}

/// Records how a call of a tool ended, never what it was given or returned.
pub(crate) fn log_tool_outcome(span: &Span, outcome: &CallOutcome, begun: Instant) {
    let duration_ms = milliseconds(begun);
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
