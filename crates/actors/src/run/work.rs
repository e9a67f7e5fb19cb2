//! What each kind of node does.

use serde_json::{Map, Value, json};

use super::ask::Asker;
use super::halt::Halt;
use super::view::{View, text_of};
use super::walk::{Done, Next, Tally, Walk};
use crate::graph::{
    AgentNode, ConditionalNode, Fits, FunctionNode, Node, NodeKind, RouterNode, SubgraphNode,
};
use crate::state::key;

impl Walk<'_> {
    /// Does the work of a node.
    pub(super) fn work(&self, node: &Node, tally: &mut Tally) -> Result<Done, Halt> {
        match &node.kind {
            NodeKind::Function(function) => self.function(function),
            NodeKind::Conditional(conditional) => self.conditional(conditional),
            NodeKind::Router(router) => self.router(router),
            NodeKind::Agent(agent) => self.agent(node, agent, tally),
            NodeKind::Tool(tool) => {
                let answer = self.asker(node, tally).tools(tool, self.view())?;
                Ok(Done::of(&tool.output, answer))
            }
            NodeKind::Subgraph(subgraph) => self.subgraph(node, subgraph, tally),
            NodeKind::Map(map) => self.map(node, map, tally),
            NodeKind::Parallel(parallel) => self.parallel(node, parallel, tally),
        }
    }

    fn asker<'b>(&'b self, node: &'b Node, tally: &'b mut Tally) -> Asker<'b> {
        Asker {
            scene: self.scene,
            reach: self.reach,
            path: self.path(),
            node,
            is_shown: self.is_shown && node.is_exit,
            tally,
        }
    }

    fn function(&self, function: &FunctionNode) -> Result<Done, Halt> {
        let update = self
            .view()
            .fill_all(&function.set)
            .map_err(|why| Halt::expression(self.path(), why))?;
        Ok(Done {
            update,
            next: Next::On,
        })
    }

    fn conditional(&self, node: &ConditionalNode) -> Result<Done, Halt> {
        let view = self.view();
        for (condition, target) in &node.conditions {
            let holds = condition
                .holds(&view)
                .map_err(|why| Halt::expression(self.path(), why))?;
            if holds {
                return Ok(Done {
                    update: Map::new(),
                    next: Next::To(*target),
                });
            }
        }
        Ok(Done {
            update: Map::new(),
            next: node.otherwise.map_or(Next::On, Next::To),
        })
    }

    fn router(&self, router: &RouterNode) -> Result<Done, Halt> {
        let view = self.view();
        let message = match &router.message {
            Some(expression) => text_of(
                &expression
                    .value(&view)
                    .map_err(|why| Halt::expression(self.path(), why))?,
            ),
            None => self.last_message(),
        };
        let seen = Value::String(message);
        let view = View {
            extra: Some(("message", &seen)),
            ..view
        };
        let message = seen.as_str().unwrap_or_default();
        let mut passed_on = message;
        let mut next = router.otherwise.map_or(Next::On, Next::To);
        for rule in &router.rules {
            let rest = match &rule.fits {
                Fits::Prefix(prefix) => message.strip_prefix(prefix.as_str()),
                Fits::Suffix(suffix) => message.strip_suffix(suffix.as_str()),
                Fits::Contains(part) => message.contains(part.as_str()).then_some(message),
                Fits::Equals(text) => (message == text).then_some(message),
                Fits::Check(check) => check
                    .holds(&view)
                    .map_err(|why| Halt::expression(self.path(), why))?
                    .then_some(message),
                Fits::Always => Some(message),
            };
            if let Some(rest) = rest {
                if rule.strip {
                    passed_on = rest.trim();
                }
                next = Next::To(rule.target);
                break;
            }
        }
        Ok(Done {
            update: Map::from_iter([(key::ROUTED_MESSAGE.to_owned(), passed_on.into())]),
            next,
        })
    }

    /// What was said last; the question of the run when nothing was.
    fn last_message(&self) -> String {
        let last = self
            .state
            .get(key::MESSAGES)
            .and_then(Value::as_array)
            .and_then(|messages| messages.last());
        match last {
            Some(message) => text_of(message.get("content").unwrap_or(message)),
            None => self.state.get(key::INPUT).map(text_of).unwrap_or_default(),
        }
    }

    fn agent(&self, node: &Node, agent: &AgentNode, tally: &mut Tally) -> Result<Done, Halt> {
        let (prompt, answer) = self.asker(node, tally).agent(agent, self.view())?;
        let said = json!([
            {"role": "user", "content": prompt},
            {"role": "assistant", "content": text_of(&answer)},
        ]);
        let mut done = Done::of(key::MESSAGES, said);
        done.update.insert(agent.output.clone(), answer);
        Ok(done)
    }

    fn subgraph(
        &self,
        node: &Node,
        subgraph: &SubgraphNode,
        tally: &mut Tally,
    ) -> Result<Done, Halt> {
        let inner = self.asker(node, tally).subgraph(subgraph, self.view())?;
        Ok(Done {
            update: inner.update(subgraph, self.path(), &self.scene.graph().keys)?,
            next: Next::On,
        })
    }
}

impl Done {
    /// One key is updated.
    pub(super) fn of(key: &str, value: Value) -> Self {
        Self {
            update: Map::from_iter([(key.to_owned(), value)]),
            next: Next::On,
        }
    }
}
