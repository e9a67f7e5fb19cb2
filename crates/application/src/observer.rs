//! [`AgentEvent`] and [`Observer`]: progress events for front ends while agents run.
//!
//! Turns of conversations, runs of actors and plans report the same type. Its data is owned and
//! serializable, so that a server can send events to a client, which shows them as if the agents
//! ran there.

#![expect(
    missing_docs,
    reason = "fields without a comment are clear from their names"
)]

use cleveragents_actors::ports::{RunObserver, Step, StepPath};
use cleveragents_domain::{
    MicroUsd, Plan, PlanId, PlanStage, PlanStrategy, Tokens, ToolInvocationId, TurnId,
};
use cleveragents_models::{Retry, ToolCall};
use cleveragents_tools::CallOutcome;
use cleveragents_tools::builtin::{Checklist, ChecklistEntry, UPDATE_PLAN_TOOL};
use cleveragents_tools::ports::{Approval, ApprovalRequest, Approver, Question, Reply};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::FailedCheck;
use crate::tool::{call_status, called_tool, edit_patch};
use crate::turn::InterruptedTurnSummary;

/// A progress event. `path` is the step of a run of an actor, such as `review#0`; events of
/// conversations have none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AgentEvent {
    /// Another turn of the session runs; this one waits.
    WaitingForSession,
    /// A request to a model starts.
    ModelCall {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
        /// The number of the request in the turn, from 1.
        number: u32,
    },
    /// A piece of an answer.
    Text {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
        text: String,
    },
    /// A piece of the reasoning of a model.
    Reasoning {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
        text: String,
    },
    /// A request to a model failed and is retried, with the same or another model.
    Retry {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
        /// The model whose attempt failed.
        failed: String,
        /// The model of the next attempt; after a fallback, a different model.
        next: String,
        reason: String,
        /// Failed attempts so far, over all models.
        attempts: u32,
        /// The pause before the next attempt.
        pause_ms: u64,
        /// A summary in one line.
        message: String,
        /// Whether text of the failed answer was reported. Clients discard that text: the answer restarts.
        answer_restarts: bool,
    },
    /// The answer of a model in a run of an actor is complete, or failed.
    AnswerComplete {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
    },
    /// A tool is about to be called.
    ToolCallStarted {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
        /// The id that the model gave the call.
        call: String,
        tool: String,
        /// The arguments as the model wrote them, usually JSON.
        arguments: String,
    },
    /// A tool call succeeded, failed or was refused.
    ToolCallFinished {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
        call: String,
        tool: String,
        /// The stored record of the call.
        invocation: ToolInvocationId,
        status: ToolCallStatus,
        /// Reason of a failure or refusal.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        /// The change that a successful call made to a file, as a diff without line numbers. At
        /// most about 6,000 bytes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        patch: Option<String>,
    },
    /// The model changed its checklist.
    Checklist {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
        /// All entries, in order.
        entries: Vec<ChecklistEntry>,
    },
    /// The usage of one answer of a model.
    AnswerUsage {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
        model: String,
        input_tokens: u64,
        /// The part of the input tokens that the provider read from its cache.
        cached_input_tokens: u64,
        output_tokens: u64,
        /// Millionths of a US dollar; none when the price is unknown.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_micro_usd: Option<u64>,
    },
    /// An interrupted turn of the session was found.
    TurnRecovered {
        turn: TurnId,
        /// Tools whose calls have an unknown outcome.
        unknown_calls: Vec<String>,
        /// Whether the turn is resumed; otherwise it was ended as failed.
        resumed: bool,
    },
    /// The beginning of the conversation was replaced by a summary. Sizes are estimates.
    Compacted {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
        tokens_before: u64,
        tokens_after: u64,
    },
    /// A reason not to rely on an answer, such as truncation.
    Caveat {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
        text: String,
    },
    /// A node of a graph starts.
    NodeStarted {
        path: String,
        kind: String,
    },
    /// A node of a graph finished.
    NodeFinished {
        path: String,
        kind: String,
        /// Error message, if the run continues despite the failure.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// Whether an earlier attempt of the run finished the node.
        recalled: bool,
    },
    /// The stage of a plan changed.
    StageChanged {
        plan_id: PlanId,
        stage: PlanStage,
    },
    /// An event of a child plan.
    ChildPlan {
        plan_id: PlanId,
        /// Position among the child plans of its parent, from 1.
        number: u64,
        title: String,
        event: Box<Self>,
    },
    /// The strategy of a plan is complete.
    Strategy {
        strategy: PlanStrategy,
    },
    PlanStepStarted {
        /// Number of the step, from 1.
        number: usize,
        count: usize,
        title: String,
    },
    /// A step of a plan succeeded or failed.
    PlanStepFinished {
        title: String,
        /// The summary of the step, or the reason of its failure.
        summary: String,
        succeeded: bool,
    },
    ValidationStarted {
        name: String,
    },
    /// A validation ended.
    ValidationFinished {
        name: String,
        passed: bool,
        message: String,
    },
    /// The output of a failed validation; follows [`Self::ValidationFinished`].
    CheckFailed {
        plan_id: PlanId,
        check: FailedCheck,
    },
    /// A message for the user.
    Note {
        text: String,
    },
    /// The usage of a plan so far.
    Usage {
        plan_id: PlanId,
        input_tokens: Tokens,
        output_tokens: Tokens,
        /// Millionths of a US dollar.
        cost_micro_usd: u64,
        /// Whether the cost of some answers is unknown.
        cost_is_partial: bool,
    },
}

/// Outcome of a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolCallStatus {
    /// The tool succeeded.
    Succeeded,
    /// The tool ran and failed.
    Failed,
    /// The gate refused the call.
    Refused,
}

impl From<&CallOutcome> for ToolCallStatus {
    fn from(outcome: &CallOutcome) -> Self {
        match outcome {
            CallOutcome::Succeeded(_) => Self::Succeeded,
            CallOutcome::Failed(_) => Self::Failed,
            CallOutcome::Refused(_) => Self::Refused,
        }
    }
}

impl AgentEvent {
    /// A failed attempt to get an answer. `was_shown`: whether text of the failed answer was reported.
    pub fn retry(retry: &Retry, was_shown: bool) -> Self {
        Self::Retry {
            path: None,
            failed: retry.failed.to_string(),
            next: retry.next.to_string(),
            reason: retry.reason.clone(),
            attempts: retry.attempts,
            pause_ms: retry.pause_ms,
            message: retry.to_string(),
            answer_restarts: was_shown,
        }
    }

    /// A tool call that is about to be made.
    pub fn call_started(call: &ToolCall) -> Self {
        Self::ToolCallStarted {
            path: None,
            call: call.id.clone(),
            tool: called_tool(call),
            arguments: call.arguments.clone(),
        }
    }

    /// A tool call that ended.
    pub fn call_finished(call: &ToolCall, outcome: &CallOutcome) -> Self {
        let (_, message) = call_status(outcome);
        Self::ToolCallFinished {
            path: None,
            call: call.id.clone(),
            tool: called_tool(call),
            invocation: outcome.invocation(),
            status: ToolCallStatus::from(outcome),
            message,
            patch: edit_patch(call).filter(|_| outcome.is_success()),
        }
    }

    /// The checklist that a call sets; `None` for other calls.
    pub(crate) fn checklist(call: &ToolCall) -> Option<Self> {
        let (tool, arguments) = cleveragents_tools::resolve_call(&call.name, &call.arguments)?;
        if tool.to_string() != UPDATE_PLAN_TOOL {
            return None;
        }
        let checklist = Checklist::from_arguments(&arguments)?;
        Some(Self::Checklist {
            path: None,
            entries: checklist.plan,
        })
    }

    /// An interrupted turn that was found.
    pub(crate) fn turn_recovered(interrupted: &InterruptedTurnSummary) -> Self {
        Self::TurnRecovered {
            turn: interrupted.turn,
            unknown_calls: interrupted.unknown_outcomes.clone(),
            resumed: interrupted.is_resumed,
        }
    }

    /// Whether clients must discard the text that was reported so far, because the request is repeated.
    pub const fn restarts_answer(&self) -> bool {
        matches!(
            self,
            Self::ModelCall { .. }
                | Self::Retry {
                    answer_restarts: true,
                    ..
                }
        )
    }

    /// This event with the path of a step of a run.
    #[must_use]
    pub fn in_step(mut self, step: &StepPath) -> Self {
        if let Self::ModelCall { path, .. }
        | Self::Text { path, .. }
        | Self::Reasoning { path, .. }
        | Self::Retry { path, .. }
        | Self::AnswerComplete { path }
        | Self::ToolCallStarted { path, .. }
        | Self::ToolCallFinished { path, .. }
        | Self::Checklist { path, .. }
        | Self::AnswerUsage { path, .. }
        | Self::Compacted { path, .. }
        | Self::Caveat { path, .. } = &mut self
        {
            *path = Some(step.to_owned());
        }
        self
    }
}

/// Receives progress events. A front end implements it; agents that run in parallel call it from
/// several threads.
pub trait Observer: Send + Sync {
    /// Receives an event. Must not block, because the agent waits until it returns.
    fn event(&self, event: &AgentEvent);

    /// Whether events are shown. If not, the nodes of graphs are not reported.
    fn is_watching(&self) -> bool {
        true
    }
}

/// An observer that ignores all events.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoObserver;

impl Observer for NoObserver {
    fn event(&self, _event: &AgentEvent) {}

    fn is_watching(&self) -> bool {
        false
    }
}

/// The approver for runs without a user: every question stays unanswered.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoApprover;

impl Approver for NoApprover {
    fn approve(&self, _request: &ApprovalRequest<'_>) -> Approval {
        Approval::NoUser
    }

    fn question(&self, _question: &Question<'_>) -> Reply {
        Reply::NoUser
    }
}

/// Reports the progress of plans.
impl dyn Observer + '_ {
    pub(crate) fn stage_changed(&self, plan: &Plan) {
        self.event(&AgentEvent::StageChanged {
            plan_id: plan.id,
            stage: plan.stage,
        });
    }

    pub(crate) fn strategy(&self, strategy: &PlanStrategy) {
        self.event(&AgentEvent::Strategy {
            strategy: strategy.clone(),
        });
    }

    pub(crate) fn plan_step_started(&self, number: usize, count: usize, title: &str) {
        self.event(&AgentEvent::PlanStepStarted {
            number,
            count,
            title: title.to_owned(),
        });
    }

    pub(crate) fn plan_step_succeeded(&self, title: &str, summary: &str) {
        self.event(&AgentEvent::PlanStepFinished {
            title: title.to_owned(),
            summary: summary.to_owned(),
            succeeded: true,
        });
    }

    pub(crate) fn plan_step_failed(&self, title: &str, reason: &str) {
        self.event(&AgentEvent::PlanStepFinished {
            title: title.to_owned(),
            summary: reason.to_owned(),
            succeeded: false,
        });
    }

    pub(crate) fn validation_started(&self, name: &str) {
        self.event(&AgentEvent::ValidationStarted {
            name: name.to_owned(),
        });
    }

    pub(crate) fn note(&self, text: &str) {
        self.event(&AgentEvent::Note {
            text: text.to_owned(),
        });
    }

    pub(crate) fn usage(&self, plan: &Plan) {
        let MicroUsd(cost_micro_usd) = plan.usage.cost_micro_usd;
        self.event(&AgentEvent::Usage {
            plan_id: plan.id,
            input_tokens: plan.usage.input_tokens,
            output_tokens: plan.usage.output_tokens,
            cost_micro_usd,
            cost_is_partial: plan.is_cost_partial,
        });
    }
}

/// Reports the events of a step's turn, with the path of the step. Drops the text of answers that are not streamed,
/// because a later result contains it.
pub(crate) struct StepObserver<'a> {
    pub(crate) path: &'a StepPath,
    pub(crate) observer: &'a dyn Observer,
    pub(crate) is_streamed: bool,
}

impl Observer for StepObserver<'_> {
    fn event(&self, event: &AgentEvent) {
        let event = match event {
            AgentEvent::Text { .. } if !self.is_streamed => return,
            AgentEvent::Retry { .. } => {
                let mut event = event.clone();
                if let AgentEvent::Retry {
                    answer_restarts, ..
                } = &mut event
                {
                    *answer_restarts &= self.is_streamed;
                }
                event
            }
            AgentEvent::Text { .. }
            | AgentEvent::ToolCallStarted { .. }
            | AgentEvent::ToolCallFinished { .. }
            | AgentEvent::Checklist { .. } => event.clone(),
            // The conversation of a step is internal to the run, so its other events are not reported.
            _ => return,
        };
        self.observer.event(&event.in_step(self.path));
    }
}

/// Reports the nodes of a graph.
pub(crate) struct NodeObserver<'a>(pub(crate) &'a dyn Observer);

impl RunObserver for NodeObserver<'_> {
    fn started(&self, path: &StepPath, kind: &str) {
        self.0.event(&AgentEvent::NodeStarted {
            path: path.to_owned(),
            kind: kind.to_owned(),
        });
    }

    fn finished(&self, step: &Step, is_recalled: bool) {
        self.0.event(&AgentEvent::NodeFinished {
            path: step.path.clone(),
            kind: step.kind.clone(),
            error: step.error.clone(),
            recalled: is_recalled,
        });
    }

    fn watches(&self) -> bool {
        self.0.is_watching()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use serde_json::json;

    use super::{AgentEvent, Observer, StepObserver};

    #[derive(Default)]
    struct Recorder(Mutex<Vec<AgentEvent>>);

    impl Observer for Recorder {
        fn event(&self, event: &AgentEvent) {
            self.0.lock().expect("not poisoned").push(event.clone());
        }
    }

    fn text(text: &str) -> AgentEvent {
        AgentEvent::Text {
            path: None,
            text: text.to_owned(),
        }
    }

    #[test]
    fn events_round_trip_through_json() {
        let event = text("Hello").in_step("review#0");
        let wire = serde_json::to_value(&event).expect("JSON");
        assert_eq!(
            wire,
            json!({"type": "text", "path": "review#0", "text": "Hello"})
        );
        let read: AgentEvent = serde_json::from_value(wire).expect("an event");
        assert_eq!(read, event);
        assert_eq!(json!(text("x")), json!({"type": "text", "text": "x"}));
    }

    #[test]
    fn a_step_reports_its_path_and_hides_text_that_is_not_streamed() {
        let all = Recorder::default();
        for is_streamed in [false, true] {
            let step = StepObserver {
                path: "ask#0",
                observer: &all,
                is_streamed,
            };
            step.event(&text("Hello"));
            step.event(&AgentEvent::WaitingForSession);
        }
        let seen = all.0.into_inner().expect("not poisoned");
        assert_eq!(seen, [text("Hello").in_step("ask#0")]);
    }
}
