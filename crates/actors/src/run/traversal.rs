//! [`GraphTraversal`]: traverses a graph, or one branch of it, step by step.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};

use super::budget::Budget;
use super::cancel_scope::CancelScope;
use super::error::RunError;
use super::halt::Halt;
use super::view::View;
use crate::graph::{Actor, Graph, Node, NodeIndex, NodeKind};
use crate::ports::{Executor, NestedSteps, RunObserver, Step, StepLog, StepUsage};
use crate::state::{State, key};

/// Data shared by all parts of a run.
pub(super) struct RunShared<'a> {
    pub(super) executor: &'a dyn Executor,
    pub(super) log: &'a dyn StepLog,
    pub(super) observer: &'a dyn RunObserver,
    pub(super) context: &'a Map<String, Value>,
    pub(super) recalled: AtomicU64,
    remembers: bool,
    watches: bool,
}

impl<'a> RunShared<'a> {
    pub(super) fn new(
        executor: &'a dyn Executor,
        log: &'a dyn StepLog,
        observer: &'a dyn RunObserver,
        context: &'a Map<String, Value>,
    ) -> Self {
        Self {
            executor,
            log,
            observer,
            context,
            recalled: AtomicU64::new(0),
            remembers: log.remembers(),
            watches: observer.watches(),
        }
    }

    /// Whether finished steps have to be built for the log or the observer.
    pub(super) const fn needs_steps(&self) -> bool {
        self.remembers || self.watches
    }

    /// Returns a step from the log and counts its usage.
    pub(super) fn recall(
        &self,
        path: &str,
        kind: &str,
        budget: &Budget<'_>,
    ) -> Result<Option<Step>, Halt> {
        if !self.remembers {
            return Ok(None);
        }
        let Some(step) = self.log.recall(path) else {
            return Ok(None);
        };
        if step.kind != kind {
            return Err(Halt::broken(
                path,
                format!(
                    "the log has a step of kind `{}`, but the actor has one of kind `{kind}`: \
                     the log belongs to another version of the actor",
                    step.kind
                ),
            ));
        }
        self.recalled.fetch_add(1, Ordering::Relaxed);
        budget.add(step.usage);
        budget.add_nested(step.inside);
        self.observer.finished(&step, true);
        Ok(Some(step))
    }

    pub(super) fn started(&self, path: &str, kind: &str) {
        if self.watches {
            self.observer.started(path, kind);
        }
    }

    /// Stores a finished step, then reports it.
    pub(super) fn finished(&self, step: &Step) -> Result<(), Halt> {
        self.log
            .record(step)
            .map_err(|error| Halt::Error(RunError::Log(error)))?;
        self.observer.finished(step, false);
        Ok(())
    }

    /// The current time in milliseconds since 1970; 0 when no step is built.
    pub(super) fn now_ms(&self) -> u64 {
        if !self.needs_steps() {
            return 0;
        }
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(0))
    }
}

/// A running actor.
pub(super) struct ActorRun<'a> {
    pub(super) common: &'a RunShared<'a>,
    pub(super) actor: &'a Actor,
    pub(super) context: Value,
    pub(super) budget: Budget<'a>,
}

impl<'a> ActorRun<'a> {
    /// Creates a running actor. The context of the run overrides the context of the actor.
    pub(super) fn new(common: &'a RunShared<'a>, actor: &'a Actor, budget: Budget<'a>) -> Self {
        let mut context = actor.context.clone();
        for (name, value) in common.context {
            context.insert(name.clone(), value.clone());
        }
        Self {
            common,
            actor,
            context: Value::Object(context),
            budget,
        }
    }

    pub(super) const fn graph(&self) -> &'a Graph {
        &self.actor.graph
    }
}

/// Usage of a step so far.
#[derive(Default)]
pub(super) struct StepTotals {
    pub(super) usage: StepUsage,
    pub(super) inside: NestedSteps,
}

impl StepTotals {
    const fn all(&self) -> StepUsage {
        self.usage.plus(self.inside.usage)
    }
}

pub(super) struct NodeResult {
    pub(super) update: Map<String, Value>,
    pub(super) next: NextNode,
}

/// Successor of a node.
pub(super) enum NextNode {
    /// The node selects its successor.
    To(NodeIndex),
    /// The edges of the node select the successor; an exit has none.
    ByEdges,
}

/// A traversal of a whole graph, or of a branch.
pub(super) struct GraphTraversal<'a> {
    pub(super) actor_run: &'a ActorRun<'a>,
    pub(super) scope: &'a CancelScope<'a>,
    /// Whether answers at exits are shown to the user.
    pub(super) is_shown: bool,
    pub(super) state: State,
    /// Combined updates of the steps, when the caller needs them.
    pub(super) change: Option<State>,
    /// Number and usage of the finished steps.
    pub(super) inside: NestedSteps,
    /// The last answer that was not written to the key `output`.
    pub(super) answer: Option<Value>,
    path: String,
    prefix_length: usize,
    visits: Vec<u32>,
}

impl<'a> GraphTraversal<'a> {
    /// Creates a traversal whose step paths start with a prefix.
    pub(super) fn new(
        actor_run: &'a ActorRun<'a>,
        scope: &'a CancelScope<'a>,
        prefix: String,
        state: State,
    ) -> Self {
        Self {
            actor_run,
            scope,
            is_shown: false,
            state,
            change: None,
            inside: NestedSteps::default(),
            answer: None,
            prefix_length: prefix.len(),
            path: prefix,
            visits: vec![0; actor_run.graph().nodes.len()],
        }
    }

    /// Path of the last step, if any.
    pub(super) fn last(&self) -> Option<&str> {
        (self.path.len() > self.prefix_length).then_some(&self.path)
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    pub(super) const fn view(&self) -> View<'_> {
        View {
            state: &self.state,
            context: &self.actor_run.context,
            extra: None,
        }
    }

    /// Runs from a node to an exit, or up to the node where the branches join.
    pub(super) fn run_to_exit(
        &mut self,
        from: NodeIndex,
        until: Option<NodeIndex>,
    ) -> Result<(), Halt> {
        let mut current = Some(from);
        while let Some(index) = current.filter(|index| Some(*index) != until) {
            self.scope.check()?;
            self.actor_run.budget.begin_step()?;
            current = self.step(index)?;
            self.actor_run.budget.check()?;
        }
        Ok(())
    }

    /// Executes one step, or reuses it from the log; returns the next node.
    fn step(&mut self, index: NodeIndex) -> Result<Option<NodeIndex>, Halt> {
        let common = self.actor_run.common;
        let node = &self.actor_run.graph().nodes[index.0 as usize];
        let kind = kind_name(&node.kind);
        self.enter(index, node);
        if let Some(step) = common.recall(&self.path, kind, &self.actor_run.budget)? {
            return self.follow_recalled(node, step);
        }
        common.started(&self.path, kind);
        let started_ms = common.now_ms();
        let mut totals = StepTotals::default();
        let result = self.run_node(node, &mut totals).and_then(|result| {
            self.check(&result.update)?;
            Ok(result)
        });
        let (result, error) = match result {
            Ok(result) => (result, None),
            Err(halt) => {
                if let Some((result, message)) = self.continue_after_error(node, &halt) {
                    (result, Some(message))
                } else {
                    self.inside.usage = self.inside.usage.plus(totals.all());
                    return Err(halt);
                }
            }
        };
        let stored_update = common.needs_steps().then(|| result.update.clone());
        self.join(node, result.update)?;
        let next = match result.next {
            NextNode::To(target) => Some(target),
            NextNode::ByEdges => self.next_by_edges(node)?,
        };
        if let Some(update) = stored_update {
            common.finished(&Step {
                path: self.path.clone(),
                kind: kind.to_owned(),
                update,
                next: next.map(|next| self.id(next).to_owned()),
                error,
                usage: totals.usage,
                inside: totals.inside,
                started_ms,
                ended_ms: common.now_ms(),
            })?;
        }
        self.count(&totals);
        Ok(next)
    }

    /// Writes the path of the next visit to a node.
    fn enter(&mut self, index: NodeIndex, node: &Node) {
        let visits = &mut self.visits[index.0 as usize];
        self.path.truncate(self.prefix_length);
        self.path.push_str(&node.id);
        // Writing to a string cannot fail.
        let _written = write!(self.path, "#{visits}");
        *visits = visits.saturating_add(1);
    }

    fn count(&mut self, totals: &StepTotals) {
        self.inside.steps += 1 + totals.inside.steps;
        self.inside.usage = self.inside.usage.plus(totals.all());
    }

    fn id(&self, index: NodeIndex) -> &str {
        &self.actor_run.graph().nodes[index.0 as usize].id
    }

    fn check(&self, update: &Map<String, Value>) -> Result<(), Halt> {
        self.state
            .check(update, &self.actor_run.graph().keys)
            .map_err(|why| Halt::mismatch(&self.path, &why))
    }

    /// Merges the update of a step into the state.
    fn join(&mut self, node: &Node, update: Map<String, Value>) -> Result<(), Halt> {
        let keys = &self.actor_run.graph().keys;
        if let Some(answer) = answer_in(&node.kind, &update) {
            self.answer = Some(answer.clone());
        }
        if let Some(change) = &mut self.change {
            change
                .join(update.clone(), keys)
                .map_err(|why| Halt::mismatch(&self.path, &why))?;
        }
        self.state
            .join(update, keys)
            .map_err(|why| Halt::mismatch(&self.path, &why))
    }

    /// Returns the target of the first edge whose condition holds; `None` at an exit.
    fn next_by_edges(&self, node: &Node) -> Result<Option<NodeIndex>, Halt> {
        if node.is_exit {
            return Ok(None);
        }
        for edge in &node.edges {
            let matches = match &edge.condition {
                None => true,
                Some(condition) => condition
                    .holds(&self.view())
                    .map_err(|why| Halt::expression(&self.path, why))?,
            };
            if matches {
                return Ok(Some(edge.target));
            }
        }
        Err(Halt::Error(RunError::NoMatchingEdge {
            path: self.path.clone(),
        }))
    }

    /// Returns the result and the error message with which the run continues after a failure. Returns `None` if the
    /// node has no `on_error`, or cannot handle the failure.
    fn continue_after_error(&self, node: &Node, halt: &Halt) -> Option<(NodeResult, String)> {
        let target = node.on_error?;
        let handled_failure = halt.handled_failure(&self.path, self.actor_run.budget.depth())?;
        let error = json!({
            "node": &*node.id,
            "message": handled_failure.message,
            "kind": handled_failure.kind,
        });
        let result = NodeResult {
            update: Map::from_iter([(key::ERROR.to_owned(), error)]),
            next: NextNode::To(target),
        };
        Some((result, handled_failure.message))
    }

    fn follow_recalled(&mut self, node: &Node, step: Step) -> Result<Option<NodeIndex>, Halt> {
        let next = match step.next {
            None => None,
            Some(id) => match successors(node).find(|index| self.id(*index) == id) {
                Some(next) => Some(next),
                None => {
                    return Err(Halt::broken(
                        &self.path,
                        format!(
                            "the log continues with node `{id}`, but no edge of the actor leads there: \
                             the log belongs to another version of the actor"
                        ),
                    ));
                }
            },
        };
        self.join(node, step.update)?;
        self.count(&StepTotals {
            usage: step.usage,
            inside: step.inside,
        });
        Ok(next)
    }
}

/// All possible successors of a node.
fn successors(node: &Node) -> impl Iterator<Item = NodeIndex> + '_ {
    let edges = node.edges.iter().map(|edge| edge.target);
    let own: Vec<NodeIndex> = match &node.kind {
        NodeKind::Conditional(conditional) => conditional
            .conditions
            .iter()
            .map(|(_, target)| *target)
            .chain(conditional.otherwise)
            .collect(),
        NodeKind::Router(router) => router
            .rules
            .iter()
            .map(|rule| rule.target)
            .chain(router.otherwise)
            .collect(),
        NodeKind::Parallel(parallel) => vec![parallel.join],
        _ => Vec::new(),
    };
    edges.chain(own).chain(node.on_error)
}

/// Kind of a node, as in files.
const fn kind_name(kind: &NodeKind) -> &'static str {
    match kind {
        NodeKind::Agent(_) => "agent",
        NodeKind::Tool(_) => "tool",
        NodeKind::Conditional(_) => "conditional",
        NodeKind::Subgraph(_) => "subgraph",
        NodeKind::Router(_) => "message_router",
        NodeKind::Function(_) => "function",
        NodeKind::Map(_) => "map",
        NodeKind::Parallel(_) => "parallel",
    }
}

/// Returns the answer in the update of a step; `None` if the node has no answer or writes it to the key `output`. Uses
/// only the stored update, so that a reused step returns the same answer.
fn answer_in<'a>(kind: &NodeKind, update: &'a Map<String, Value>) -> Option<&'a Value> {
    let key = match kind {
        NodeKind::Agent(agent) => &agent.output,
        NodeKind::Tool(tool) => &tool.output,
        NodeKind::Map(map) => &map.output,
        NodeKind::Subgraph(_) if !update.contains_key(key::OUTPUT) => {
            return update.values().next_back();
        }
        _ => return None,
    };
    if key == key::OUTPUT {
        return None;
    }
    update.get(key)
}
