//! Concurrent work: the branches of parallel nodes and the items of maps.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value, json};

use super::calls::{StepCaller, single};
use super::cancel_scope::CancelScope;
use super::halt::Halt;
use super::traversal::{GraphTraversal, NextNode, NodeResult, StepTotals};
use super::view::View;
use crate::graph::{MapNode, Node, NodeKind, ParallelNode};
use crate::ports::{NestedSteps, Step};
use crate::state::{State, kind_of};

/// Step kind of an item of a map.
const ITEM: &str = "item";

/// Runs at most `concurrency` jobs concurrently, and returns their results in order. A failure stops the other jobs; of
/// several failures, the one with the lowest job number is reported. A job that waits for the user does not stop the
/// others.
fn run_jobs<T: Send>(
    jobs: usize,
    concurrency: usize,
    scope: &CancelScope<'_>,
    job: impl Fn(usize, &CancelScope<'_>) -> Result<T, Halt> + Sync,
) -> Result<Vec<T>, Halt> {
    let part = scope.part();
    let next = AtomicUsize::new(0);
    let is_over = AtomicBool::new(false);
    let results: Mutex<Vec<Option<Result<T, Halt>>>> =
        Mutex::new((0..jobs).map(|_| None).collect());
    let worker = || {
        while !is_over.load(Ordering::SeqCst) {
            let number = next.fetch_add(1, Ordering::SeqCst);
            if number >= jobs {
                break;
            }
            let result = job(number, &part);
            if let Err(halt) = &result
                && halt.rank() != Halt::WAITING
            {
                is_over.store(true, Ordering::SeqCst);
                part.cancel.cancel();
            }
            results.lock().unwrap_or_else(PoisonError::into_inner)[number] = Some(result);
        }
    };
    let span = &tracing::Span::current();
    std::thread::scope(|scope| {
        // One thread less, because the current thread is a worker too.
        for _ in 1..concurrency.min(jobs) {
            let spawned = std::thread::Builder::new()
                .name("run-branch".to_owned())
                .spawn_scoped(scope, move || {
                    let _entered = span.enter();
                    worker();
                });
            if spawned.is_err() {
                // Continue with fewer threads; the jobs only take longer.
                break;
            }
        }
        worker();
    });
    let mut values = Vec::with_capacity(jobs);
    let mut reported: Option<Halt> = None;
    for result in results.into_inner().unwrap_or_else(PoisonError::into_inner) {
        match result {
            Some(Ok(value)) => values.push(value),
            Some(Err(halt))
                if reported
                    .as_ref()
                    .is_none_or(|reported| reported.rank() < halt.rank()) =>
            {
                reported = Some(halt);
            }
            Some(Err(_)) | None => {}
        }
    }
    match reported {
        Some(halt) => Err(halt),
        None => Ok(values),
    }
}

impl GraphTraversal<'_> {
    /// Runs all branches of a parallel node.
    pub(super) fn parallel(
        &self,
        node: &Node,
        parallel: &ParallelNode,
        totals: &mut StepTotals,
    ) -> Result<NodeResult, Halt> {
        let inside = Mutex::new(NestedSteps::default());
        let keys = &self.actor_run.graph().keys;
        let changes = self.scope.timed(node.timeout, self.path(), |scope| {
            run_jobs(
                parallel.branches.len(),
                parallel.concurrency,
                scope,
                |number, scope| {
                    let prefix = format!("{}:{number}/", self.path());
                    let mut traversal =
                        GraphTraversal::new(self.actor_run, scope, prefix, self.state.clone());
                    traversal.change = Some(State::default());
                    let result =
                        traversal.run_to_exit(parallel.branches[number], Some(parallel.join));
                    add(&inside, traversal.inside);
                    result.map(|()| traversal.change.unwrap_or_default())
                },
            )
        });
        totals.inside = total(inside);
        let mut update = State::default();
        for change in changes? {
            update
                .join(change.into_values(), keys)
                .map_err(|why| Halt::mismatch(self.path(), &why))?;
        }
        Ok(NodeResult {
            update: update.into_values(),
            next: NextNode::To(parallel.join),
        })
    }

    /// Executes a map node: the same work for each item of a list.
    pub(super) fn map(
        &self,
        node: &Node,
        map: &MapNode,
        totals: &mut StepTotals,
    ) -> Result<NodeResult, Halt> {
        let list = map
            .over
            .value(&self.view())
            .map_err(|why| Halt::expression(self.path(), why))?;
        let Value::Array(items) = list else {
            return Err(Halt::refused(
                self.path(),
                format!("`over` must be a list, but is {}", kind_of(&list)),
            ));
        };
        let inside = Mutex::new(NestedSteps::default());
        let answers = run_jobs(items.len(), map.concurrency, self.scope, |number, scope| {
            let path = format!("{}[{number}]", self.path());
            let mut totals = StepTotals::default();
            let answer = self.item(node, map, &path, &items[number], scope, &mut totals);
            add(
                &inside,
                NestedSteps {
                    steps: totals.inside.steps,
                    usage: totals.usage.plus(totals.inside.usage),
                },
            );
            let answer = answer?;
            self.actor_run.budget.check()?;
            Ok(answer)
        });
        totals.inside = total(inside);
        Ok(NodeResult::single_key(&map.output, Value::Array(answers?)))
    }

    /// Executes one item, or reuses its result from the log.
    fn item(
        &self,
        node: &Node,
        map: &MapNode,
        path: &str,
        item: &Value,
        scope: &CancelScope<'_>,
        totals: &mut StepTotals,
    ) -> Result<Value, Halt> {
        scope.check()?;
        let common = self.actor_run.common;
        if let Some(mut step) = common.recall(path, ITEM, &self.actor_run.budget)? {
            totals.usage = step.usage;
            totals.inside = step.inside;
            return match step.update.get_mut(&map.output) {
                Some(answer) => Ok(answer.take()),
                None => Err(Halt::broken(
                    path,
                    format!("the log has no `{}` of this item", map.output),
                )),
            };
        }
        common.started(path, ITEM);
        let started_ms = common.now_ms();
        let (answer, error) = match self.each(node, map, path, item, scope, totals) {
            Ok(answer) => (answer, None),
            Err(halt) => {
                let handled_failure = halt.handled_failure(path, self.actor_run.budget.depth());
                match handled_failure.filter(|_| map.keeps_failures) {
                    Some(handled_failure) => (
                        json!({ "error": handled_failure.message }),
                        Some(handled_failure.message),
                    ),
                    None => return Err(halt),
                }
            }
        };
        if common.needs_steps() {
            common.finished(&Step {
                path: path.to_owned(),
                kind: ITEM.to_owned(),
                update: Map::from_iter([(map.output.clone(), answer.clone())]),
                next: None,
                error,
                usage: totals.usage,
                inside: totals.inside,
                started_ms,
                ended_ms: common.now_ms(),
            })?;
        }
        Ok(answer)
    }

    /// Executes the work of one item.
    fn each(
        &self,
        node: &Node,
        map: &MapNode,
        path: &str,
        item: &Value,
        scope: &CancelScope<'_>,
        totals: &mut StepTotals,
    ) -> Result<Value, Halt> {
        let view = View {
            extra: Some((&map.item, item)),
            ..self.view()
        };
        let mut caller = StepCaller {
            actor_run: self.actor_run,
            scope,
            path,
            node,
            is_shown: false,
            totals,
        };
        match &*map.each {
            NodeKind::Agent(agent) => Ok(caller.agent(agent, view)?.1),
            NodeKind::Tool(tool) => caller.tools(tool, view),
            NodeKind::Function(function) => view
                .fill_all(&function.set)
                .map(single)
                .map_err(|why| Halt::expression(path, why)),
            NodeKind::Subgraph(subgraph) => caller.subgraph(subgraph, view)?.answer(subgraph, path),
            NodeKind::Conditional(_)
            | NodeKind::Router(_)
            | NodeKind::Map(_)
            | NodeKind::Parallel(_) => Err(Halt::refused(
                path,
                "only an agent, a tool, a function or a subgraph can run for each item".to_owned(),
            )),
        }
    }
}

fn add(sum: &Mutex<NestedSteps>, more: NestedSteps) {
    let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
    sum.steps += more.steps;
    sum.usage = sum.usage.plus(more.usage);
}

fn total(sum: Mutex<NestedSteps>) -> NestedSteps {
    sum.into_inner().unwrap_or_else(PoisonError::into_inner)
}
