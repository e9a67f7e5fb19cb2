//! [`Asker`]: runs the external work of a step (an agent, tools or a subgraph) with its retries and timeout.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::budget::{Call, Claim};
use super::halt::Halt;
use super::reach::Reach;
use super::view::{View, text_of};
use super::walk::{Scene, Tally, Walk};
use crate::graph::{Actor, AgentNode, Key, Memory, Node, SubgraphNode, ToolNode};
use crate::ports::{AgentCall, Allowance as _, Answer, Failure, StepUsage, ToolStep};
use crate::state::{Reducer, State, key};

/// Context for the external work of a step.
pub(super) struct Asker<'a> {
    pub(super) scene: &'a Scene<'a>,
    pub(super) reach: &'a Reach<'a>,
    pub(super) path: &'a str,
    pub(super) node: &'a Node,
    /// Whether the answer is shown to the user.
    pub(super) is_shown: bool,
    pub(super) tally: &'a mut Tally,
}

/// Result of a subgraph.
pub(super) struct Inner {
    context: Value,
    state: State,
    change: State,
    answer: Option<Value>,
}

impl Asker<'_> {
    /// Calls a model; returns the prompt and the answer.
    pub(super) fn agent(
        &mut self,
        node: &AgentNode,
        view: View<'_>,
    ) -> Result<(String, Value), Halt> {
        let prompt = match &node.prompt {
            Some(template) => template.render(&view),
            None => self.question(view),
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
        let messages = remembered(node.agent.memory, view.state);
        let answer = self.attempts(|asker, attempt, reach| {
            let scene = asker.scene;
            scene.budget.begin_call(Call::Model)?;
            let claim = scene.budget.claim();
            let answer = scene.common.executor.agent(&AgentCall {
                path: asker.path,
                actor: scene.actor,
                agent: &node.agent,
                system: system.clone(),
                messages,
                prompt: prompt.clone(),
                is_streamed: asker.is_shown,
                deadline: reach.deadline,
                attempt,
                allowance: &claim,
                cancel: &reach.cancel,
            });
            asker.took(answer, claim, reach)
        })?;
        Ok((prompt, answer))
    }

    /// Prompt of an agent that has no prompt.
    fn question(&self, view: View<'_>) -> Result<String, crate::ExpressionError> {
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
        self.attempts(|asker, attempt, reach| {
            while let Some(call) = node.calls.get(answers.len()) {
                reach.check()?;
                let arguments = view
                    .fill(&call.arguments)
                    .map_err(|why| Halt::expression(asker.path, why))?;
                let claim = asker.scene.budget.claim();
                if !claim.call(1) {
                    return Err(claim.finish(StepUsage::default()).unwrap_or(Halt::Stopped));
                }
                let answer = asker.scene.common.executor.tool(&ToolStep {
                    path: asker.path,
                    number: answers.len(),
                    actor: asker.scene.actor,
                    tool: &call.tool,
                    arguments,
                    deadline: reach.deadline,
                    attempt,
                    cancel: &reach.cancel,
                });
                answers.push(asker.took(answer, claim, reach)?);
            }
            Ok(())
        })?;
        Ok(match answers.len() {
            1 => answers.remove(0),
            _ => Value::Array(answers),
        })
    }

    /// Counts the usage of an answer or a failure. A failure caused by a limit reports that limit.
    fn took(
        &mut self,
        answer: Result<Answer, Failure>,
        claim: Claim<'_>,
        reach: &Reach<'_>,
    ) -> Result<Value, Halt> {
        let (taken, result) = match answer {
            Ok(answer) => (answer.taken, Ok(answer.value)),
            Err(failure) => (failure.taken, Err(Halt::failed(self.path, failure, reach))),
        };
        self.tally.taken = self.tally.taken.plus(taken);
        let limit = claim.finish(taken);
        result.map_err(|halt| limit.unwrap_or(halt))
    }

    /// Makes attempts, each with its timeout, until one succeeds or none is left.
    fn attempts<T>(
        &mut self,
        mut work: impl FnMut(&mut Self, u32, &Reach<'_>) -> Result<T, Halt>,
    ) -> Result<T, Halt> {
        let reach = self.reach;
        let mut attempt = 0;
        loop {
            reach.check()?;
            let result = reach.timed(self.node.timeout, self.path, |reach| {
                work(self, attempt, reach)
            });
            match result {
                Err(halt) if attempt < self.node.retries && halt.is_repeatable() => attempt += 1,
                result => return result,
            }
        }
    }

    /// Runs a subgraph. A retry starts over, under paths of its own.
    pub(super) fn subgraph(&mut self, node: &SubgraphNode, view: View<'_>) -> Result<Inner, Halt> {
        self.scene.budget.begin_subgraph()?;
        let mut input = match &node.input {
            None => view.whole(),
            Some(pairs) => State::new(
                view.fill_all(pairs)
                    .map_err(|why| Halt::expression(self.path, why))?,
            ),
        };
        input.begin(&node.actor.graph.keys);
        self.attempts(|asker, attempt, reach| {
            let again = match attempt {
                0 => String::new(),
                attempt => format!("~{attempt}"),
            };
            let prefix = format!("{}{again}/", asker.path);
            asker.inside(&node.actor, reach, prefix, input.clone())
        })
    }

    /// Makes one attempt at a subgraph.
    fn inside(
        &mut self,
        actor: &Actor,
        reach: &Reach<'_>,
        prefix: String,
        input: State,
    ) -> Result<Inner, Halt> {
        let above = self.scene;
        let limits = actor.graph.limits;
        let scene = Scene::new(above.common, actor, above.budget.below(limits));
        let own = limits.timeout.map(|timeout| reach.within(timeout));
        let mut walk = Walk::new(&scene, own.as_ref().unwrap_or(reach), prefix, input);
        walk.is_shown = self.is_shown;
        walk.change = Some(State::default());
        let gone = walk.walk_to_exit(actor.graph.entry, None);
        let inside = &mut self.tally.inside;
        inside.steps += walk.inside.steps;
        inside.taken = inside.taken.plus(walk.inside.taken);
        let (state, change, answer) = (walk.state, walk.change.unwrap_or_default(), walk.answer);
        match gone {
            Ok(()) => Ok(Inner {
                context: scene.context,
                state,
                change,
                answer,
            }),
            Err(Halt::Stopped) if !reach.is_over() => Err(scene.budget.late()),
            Err(halt) => Err(halt),
        }
    }
}

impl Inner {
    const fn view(&self) -> View<'_> {
        View {
            state: &self.state,
            context: &self.context,
            extra: None,
        }
    }

    /// The update that the subgraph makes to the outer state.
    ///
    /// Without an explicit `output`, that is every key it changed: as the combined update where both actors use the
    /// same reducer for the key, else as the final value.
    pub(super) fn update(
        mut self,
        node: &SubgraphNode,
        path: &str,
        above: &BTreeMap<String, Key>,
    ) -> Result<Map<String, Value>, Halt> {
        if let Some(pairs) = &node.output {
            return self
                .view()
                .fill_all(pairs)
                .map_err(|why| Halt::expression(path, why));
        }
        let own = &node.actor.graph.keys;
        let mut update = std::mem::take(&mut self.change).into_values();
        for (key, value) in &mut update {
            if Reducer::for_key(key, own) != Reducer::for_key(key, above)
                && let Some(left) = self.state.get(key)
            {
                *value = left.clone();
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

/// Result of a run: its `output`, else the last answer.
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

/// Characters per token, a low estimate.
const CHARACTERS_PER_TOKEN: u64 = 4;

/// The end of the conversation that an agent receives.
fn remembered(memory: Memory, state: &State) -> &[Value] {
    let messages = state.get(key::MESSAGES).and_then(Value::as_array);
    let Some(messages) = messages.filter(|_| memory.enabled) else {
        return &[];
    };
    let most = memory
        .max_messages
        .unwrap_or(usize::MAX)
        .min(messages.len());
    let mut left = memory.max_tokens.unwrap_or(u64::MAX);
    let kept = messages
        .iter()
        .rev()
        .take(most)
        .take_while(|message| {
            if memory.max_tokens.is_none() {
                return true;
            }
            let content = message.get("content").unwrap_or(message);
            let letters = content
                .as_str()
                .map_or_else(|| content.to_string().len(), str::len);
            let tokens = (letters as u64).div_ceil(CHARACTERS_PER_TOKEN);
            let fits = tokens <= left;
            left = left.saturating_sub(tokens);
            fits
        })
        .count();
    &messages[messages.len() - kept..]
}
