//! Executes each kind of node.

use serde_json::{Map, Value, json};

use super::calls::StepCaller;
use super::halt::Halt;
use super::traversal::{GraphTraversal, NextNode, NodeResult, StepTotals};
use super::view::{View, text_of};
use crate::graph::{
    AgentNode, ConditionalNode, FunctionNode, Node, NodeKind, RouterNode, SubgraphNode, TextMatch,
};
use crate::state::key;

impl GraphTraversal<'_> {
    /// Executes the work of a node.
    pub(super) fn run_node(
        &self,
        node: &Node,
        totals: &mut StepTotals,
    ) -> Result<NodeResult, Halt> {
        match &node.kind {
            NodeKind::Function(function) => self.function(function),
            NodeKind::Conditional(conditional) => self.conditional(conditional),
            NodeKind::Router(router) => self.router(router),
            NodeKind::Agent(agent) => self.agent(node, agent, totals),
            NodeKind::Tool(tool) => {
                let answer = self.caller(node, totals).tools(tool, self.view())?;
                Ok(NodeResult::single_key(&tool.output, answer))
            }
            NodeKind::Subgraph(subgraph) => self.subgraph(node, subgraph, totals),
            NodeKind::Map(map) => self.map(node, map, totals),
            NodeKind::Parallel(parallel) => self.parallel(node, parallel, totals),
        }
    }

    fn caller<'b>(&'b self, node: &'b Node, totals: &'b mut StepTotals) -> StepCaller<'b> {
        StepCaller {
            actor_run: self.actor_run,
            scope: self.scope,
            path: self.path(),
            node,
            is_shown: self.is_shown && node.is_exit,
            totals,
        }
    }

    fn function(&self, function: &FunctionNode) -> Result<NodeResult, Halt> {
        let update = self
            .view()
            .fill_all(&function.set)
            .map_err(|why| Halt::expression(self.path(), why))?;
        Ok(NodeResult {
            update,
            next: NextNode::ByEdges,
        })
    }

    fn conditional(&self, node: &ConditionalNode) -> Result<NodeResult, Halt> {
        let view = self.view();
        for (condition, target) in &node.conditions {
            let holds = condition
                .holds(&view)
                .map_err(|why| Halt::expression(self.path(), why))?;
            if holds {
                return Ok(NodeResult {
                    update: Map::new(),
                    next: NextNode::To(*target),
                });
            }
        }
        Ok(NodeResult {
            update: Map::new(),
            next: node.otherwise.map_or(NextNode::ByEdges, NextNode::To),
        })
    }

    fn router(&self, router: &RouterNode) -> Result<NodeResult, Halt> {
        let view = self.view();
        let message = match &router.message {
            Some(expression) => text_of(
                &expression
                    .value(&view)
                    .map_err(|why| Halt::expression(self.path(), why))?,
            ),
            None => self.last_message(),
        };
        let message_value = Value::String(message);
        let view = View {
            extra: Some(("message", &message_value)),
            ..view
        };
        let message = message_value.as_str().unwrap_or_default();
        let mut routed_text = message;
        let mut next = router.otherwise.map_or(NextNode::ByEdges, NextNode::To);
        for rule in &router.rules {
            let remainder = match &rule.text_match {
                TextMatch::Prefix(prefix) => message.strip_prefix(prefix.as_str()),
                TextMatch::Suffix(suffix) => message.strip_suffix(suffix.as_str()),
                TextMatch::Contains(part) => message.contains(part.as_str()).then_some(message),
                TextMatch::Equals(text) => (message == text).then_some(message),
                TextMatch::Check(check) => check
                    .holds(&view)
                    .map_err(|why| Halt::expression(self.path(), why))?
                    .then_some(message),
                TextMatch::Always => Some(message),
            };
            if let Some(remainder) = remainder {
                if rule.strip {
                    routed_text = remainder.trim();
                }
                next = NextNode::To(rule.target);
                break;
            }
        }
        Ok(NodeResult {
            update: Map::from_iter([(key::ROUTED_MESSAGE.to_owned(), routed_text.into())]),
            next,
        })
    }

    /// The last message; the input of the run when there is none.
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

    fn agent(
        &self,
        node: &Node,
        agent: &AgentNode,
        totals: &mut StepTotals,
    ) -> Result<NodeResult, Halt> {
        let (prompt, answer) = self.caller(node, totals).agent(agent, self.view())?;
        let messages = json!([
            {"role": "user", "content": prompt},
            {"role": "assistant", "content": text_of(&answer)},
        ]);
        let mut result = NodeResult::single_key(key::MESSAGES, messages);
        result.update.insert(agent.output.clone(), answer);
        Ok(result)
    }

    fn subgraph(
        &self,
        node: &Node,
        subgraph: &SubgraphNode,
        totals: &mut StepTotals,
    ) -> Result<NodeResult, Halt> {
        let inner = self.caller(node, totals).subgraph(subgraph, self.view())?;
        Ok(NodeResult {
            update: inner.update(subgraph, self.path(), &self.actor_run.graph().keys)?,
            next: NextNode::ByEdges,
        })
    }
}

impl NodeResult {
    /// The result of a node that updates one key.
    pub(super) fn single_key(key: &str, value: Value) -> Self {
        Self {
            update: Map::from_iter([(key.to_owned(), value)]),
            next: NextNode::ByEdges,
        }
    }
}
