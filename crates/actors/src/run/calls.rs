//! [`StepCaller`]: runs the external work of a step (an agent, tools or a subgraph) with its retries and timeout.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::budget::{CallKind, UsageClaim};
use super::cancel_scope::CancelScope;
use super::halt::Halt;
use super::traversal::{ActorRun, GraphTraversal, StepTotals};
use super::view::{View, text_of};
use crate::graph::{Actor, AgentNode, Key, Memory, Node, SubgraphNode, ToolNode};
use crate::ports::{AgentCall, Allowance as _, Answer, Failure, StepUsage, ToolStep};
use crate::state::{Reducer, State, key};

/// Context for the external work of a step.
pub(super) struct StepCaller<'a> {
    pub(super) actor_run: &'a ActorRun<'a>,
    pub(super) scope: &'a CancelScope<'a>,
    pub(super) path: &'a str,
    pub(super) node: &'a Node,
    /// Whether the user sees the answer.
    pub(super) is_shown: bool,
    pub(super) totals: &'a mut StepTotals,
}

pub(super) struct SubgraphResult {
    context: Value,
    state: State,
    change: State,
    answer: Option<Value>,
}

impl StepCaller<'_> {
    /// Calls a model; returns the prompt and the answer.
    pub(super) fn agent(
        &mut self,
        node: &AgentNode,
        view: View<'_>,
    ) -> Result<(String, Value), Halt> {
        let prompt = match &node.prompt {
            Some(template) => template.render(&view),
            None => self.default_prompt(view),
        };
        let system = node
            .agent
            .system_prompt
            .as_ref()
            .map(|template| template.render(&view));
        let (prompt, system) = match (prompt, system.transpose()) {
            (Ok(prompt), Ok(system)) => (prompt, system),
            (Err(why), _) | (_, Err(why)) => return Err(Halt::expression(self.path, why)),
        };
        let messages = recent_messages(node.agent.memory, view.state);
        let answer = self.attempts(|caller, attempt, scope| {
            let actor_run = caller.actor_run;
            actor_run.budget.begin_call(CallKind::Model)?;
            let claim = actor_run.budget.claim();
            let answer = actor_run.common.executor.agent(&AgentCall {
                path: caller.path,
                actor: actor_run.actor,
                agent: &node.agent,
                system: system.clone(),
                messages,
                prompt: prompt.clone(),
                is_streamed: caller.is_shown,
                deadline: scope.deadline,
                attempt,
                allowance: &claim,
                cancel: &scope.cancel,
            });
            caller.count_usage(answer, claim, scope)
        })?;
        Ok((prompt, answer))
    }

    /// Prompt of an agent node without `prompt`: the state key `input`.
    fn default_prompt(&self, view: View<'_>) -> Result<String, crate::ExpressionError> {
        view.state.get(key::INPUT).map(text_of).ok_or_else(|| {
            crate::ExpressionError(format!(
                "node `{}` has no `prompt`, and the state has no `{}` to use instead",
                self.node.id,
                key::INPUT
            ))
        })
    }

    /// Calls tools in sequence. A retry continues with the call that failed.
    pub(super) fn tools(&mut self, node: &ToolNode, view: View<'_>) -> Result<Value, Halt> {
        let mut answers: Vec<Value> = Vec::with_capacity(node.calls.len());
        self.attempts(|caller, attempt, scope| {
            while let Some(call) = node.calls.get(answers.len()) {
                scope.check()?;
                let arguments = view
                    .fill(&call.arguments)
                    .map_err(|why| Halt::expression(caller.path, why))?;
                let claim = caller.actor_run.budget.claim();
                if !claim.call(1) {
                    return Err(claim.finish(StepUsage::default()).unwrap_or(Halt::Stopped));
                }
                let answer = caller.actor_run.common.executor.tool(&ToolStep {
                    path: caller.path,
                    number: answers.len(),
                    actor: caller.actor_run.actor,
                    tool: &call.tool,
                    arguments,
                    deadline: scope.deadline,
                    attempt,
                    cancel: &scope.cancel,
                });
                answers.push(caller.count_usage(answer, claim, scope)?);
            }
            Ok(())
        })?;
        Ok(match answers.len() {
            1 => answers.remove(0),
            _ => Value::Array(answers),
        })
    }

    /// Counts the usage of an answer or a failure. A failure caused by a limit reports that limit.
    fn count_usage(
        &mut self,
        answer: Result<Answer, Failure>,
        claim: UsageClaim<'_>,
        scope: &CancelScope<'_>,
    ) -> Result<Value, Halt> {
        let (usage, result) = match answer {
            Ok(answer) => (answer.usage, Ok(answer.value)),
            Err(failure) => (failure.usage, Err(Halt::failed(self.path, failure, scope))),
        };
        self.totals.usage = self.totals.usage.plus(usage);
        let limit = claim.finish(usage);
        result.map_err(|halt| limit.unwrap_or(halt))
    }

    /// Executes work and retries it until it succeeds, fails permanently or has no retries left. The timeout of the
    /// node applies to each attempt.
    fn attempts<T>(
        &mut self,
        mut work: impl FnMut(&mut Self, u32, &CancelScope<'_>) -> Result<T, Halt>,
    ) -> Result<T, Halt> {
        let scope = self.scope;
        let mut attempt = 0;
        loop {
            scope.check()?;
            let result = scope.timed(self.node.timeout, self.path, |scope| {
                work(self, attempt, scope)
            });
            match result {
                Err(halt) if attempt < self.node.retries && halt.is_repeatable() => attempt += 1,
                result => return result,
            }
        }
    }

    /// Runs a subgraph. A retry starts from its entry, with new step paths.
    pub(super) fn subgraph(
        &mut self,
        node: &SubgraphNode,
        view: View<'_>,
    ) -> Result<SubgraphResult, Halt> {
        self.actor_run.budget.begin_subgraph()?;
        let mut input = match &node.input {
            None => view.whole(),
            Some(pairs) => State::new(
                view.fill_all(pairs)
                    .map_err(|why| Halt::expression(self.path, why))?,
            ),
        };
        input.begin(&node.actor.graph.keys);
        self.attempts(|caller, attempt, scope| {
            let suffix = match attempt {
                0 => String::new(),
                attempt => format!("~{attempt}"),
            };
            let prefix = format!("{}{suffix}/", caller.path);
            caller.attempt_subgraph(&node.actor, scope, prefix, input.clone())
        })
    }

    /// Makes one attempt at a subgraph.
    fn attempt_subgraph(
        &mut self,
        actor: &Actor,
        scope: &CancelScope<'_>,
        prefix: String,
        input: State,
    ) -> Result<SubgraphResult, Halt> {
        let parent = self.actor_run;
        let limits = actor.graph.limits;
        let actor_run = ActorRun::new(parent.common, actor, parent.budget.nested(limits));
        let own_scope = limits.timeout.map(|timeout| scope.within(timeout));
        let mut traversal = GraphTraversal::new(
            &actor_run,
            own_scope.as_ref().unwrap_or(scope),
            prefix,
            input,
        );
        traversal.is_shown = self.is_shown;
        traversal.change = Some(State::default());
        let result = traversal.run_to_exit(actor.graph.entry, None);
        let inside = &mut self.totals.inside;
        inside.steps += traversal.inside.steps;
        inside.usage = inside.usage.plus(traversal.inside.usage);
        let (state, change, answer) = (
            traversal.state,
            traversal.change.unwrap_or_default(),
            traversal.answer,
        );
        match result {
            Ok(()) => Ok(SubgraphResult {
                context: actor_run.context,
                state,
                change,
                answer,
            }),
            Err(Halt::Stopped) if !scope.is_over() => Err(actor_run.budget.timed_out()),
            Err(halt) => Err(halt),
        }
    }
}

impl SubgraphResult {
    const fn view(&self) -> View<'_> {
        View {
            state: &self.state,
            context: &self.context,
            extra: None,
        }
    }

    /// Returns the update of the outer state.
    ///
    /// Without an explicit `output`, the update contains every key that the subgraph changed: the combined updates if
    /// both actors use the same reducer for the key, otherwise the final value.
    pub(super) fn update(
        mut self,
        node: &SubgraphNode,
        path: &str,
        outer_keys: &BTreeMap<String, Key>,
    ) -> Result<Map<String, Value>, Halt> {
        if let Some(pairs) = &node.output {
            return self
                .view()
                .fill_all(pairs)
                .map_err(|why| Halt::expression(path, why));
        }
        let inner_keys = &node.actor.graph.keys;
        let mut update = std::mem::take(&mut self.change).into_values();
        for (key, value) in &mut update {
            if Reducer::for_key(key, inner_keys) != Reducer::for_key(key, outer_keys)
                && let Some(final_value) = self.state.get(key)
            {
                *value = final_value.clone();
            }
        }
        Ok(update)
    }

    /// Result of the subgraph as one item of a map.
    pub(super) fn answer(self, node: &SubgraphNode, path: &str) -> Result<Value, Halt> {
        let Some(pairs) = &node.output else {
            return Ok(output_of(&self.state, self.answer));
        };
        let filled = self
            .view()
            .fill_all(pairs)
            .map_err(|why| Halt::expression(path, why))?;
        Ok(single(filled))
    }
}

/// Result of a run: the state key `output`, otherwise the last answer.
pub(super) fn output_of(state: &State, last: Option<Value>) -> Value {
    match state.get(key::OUTPUT) {
        Some(output) => output.clone(),
        None => last.unwrap_or_default(),
    }
}

/// The only value of an update, or the whole update when there are several.
pub(super) fn single(mut update: Map<String, Value>) -> Value {
    if update.len() == 1
        && let Some(value) = update.values_mut().next()
    {
        return value.take();
    }
    Value::Object(update)
}

/// Bytes of text per token, a low estimate.
const CHARACTERS_PER_TOKEN: u64 = 4;

/// Returns the most recent messages of the conversation, within the limits of the agent's memory.
fn recent_messages(memory: Memory, state: &State) -> &[Value] {
    let messages = state.get(key::MESSAGES).and_then(Value::as_array);
    let Some(messages) = messages.filter(|_| memory.enabled) else {
        return &[];
    };
    let max_messages = memory
        .max_messages
        .unwrap_or(usize::MAX)
        .min(messages.len());
    let mut remaining_tokens = memory.max_tokens.unwrap_or(u64::MAX);
    let count = messages
        .iter()
        .rev()
        .take(max_messages)
        .take_while(|message| {
            if memory.max_tokens.is_none() {
                return true;
            }
            let content = message.get("content").unwrap_or(message);
            let letters = content
                .as_str()
                .map_or_else(|| content.to_string().len(), str::len);
            let tokens = (letters as u64).div_ceil(CHARACTERS_PER_TOKEN);
            let fits = tokens <= remaining_tokens;
            remaining_tokens = remaining_tokens.saturating_sub(tokens);
            fits
        })
        .count();
    &messages[messages.len() - count..]
}
