//! Concurrent work: the branches of parallel nodes and the items of maps.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value, json};

use super::ask::{Asker, single};
use super::halt::Halt;
use super::reach::Reach;
use super::view::View;
use super::walk::{Next, NodeResult, Tally, Walk};
use crate::graph::{MapNode, Node, NodeKind, ParallelNode};
use crate::ports::{Inside, Step};
use crate::state::{State, kind_of};

/// Step kind of an item of a map.
const ITEM: &str = "item";

/// Runs jobs, at most `concurrency` of them concurrently, and returns their results in order. The first failure stops
/// the others; of several failures, the first in order is reported. A job that waits for the user lets the others
/// finish.
fn fan<T: Send>(
    jobs: usize,
    concurrency: usize,
    reach: &Reach<'_>,
    job: impl Fn(usize, &Reach<'_>) -> Result<T, Halt> + Sync,
) -> Result<Vec<T>, Halt> {
    let part = reach.part();
    let next = AtomicUsize::new(0);
    let is_over = AtomicBool::new(false);
    let ended: Mutex<Vec<Option<Result<T, Halt>>>> = Mutex::new((0..jobs).map(|_| None).collect());
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
            ended.lock().unwrap_or_else(PoisonError::into_inner)[number] = Some(result);
        }
    };
    let span = &tracing::Span::current();
    std::thread::scope(|scope| {
        // The current thread works too.
        for _ in 1..concurrency.min(jobs) {
            let spawned = std::thread::Builder::new()
                .name("run-branch".to_owned())
                .spawn_scoped(scope, move || {
                    let _entered = span.enter();
                    worker();
                });
            if spawned.is_err() {
                // With fewer threads it only takes longer.
                break;
            }
        }
        worker();
    });
    let mut done = Vec::with_capacity(jobs);
    let mut worst: Option<Halt> = None;
    for result in ended.into_inner().unwrap_or_else(PoisonError::into_inner) {
        match result {
            Some(Ok(value)) => done.push(value),
            Some(Err(halt))
                if worst
                    .as_ref()
                    .is_none_or(|worst| worst.rank() < halt.rank()) =>
            {
                worst = Some(halt);
            }
            Some(Err(_)) | None => {}
        }
    }
    match worst {
        Some(halt) => Err(halt),
        None => Ok(done),
    }
}

impl Walk<'_> {
    /// Runs all branches of a parallel node.
    pub(super) fn parallel(
        &self,
        node: &Node,
        parallel: &ParallelNode,
        tally: &mut Tally,
    ) -> Result<NodeResult, Halt> {
        let inside = Mutex::new(Inside::default());
        let keys = &self.scene.graph().keys;
        let changes = self.reach.timed(node.timeout, self.path(), |reach| {
            fan(
                parallel.branches.len(),
                parallel.concurrency,
                reach,
                |number, reach| {
                    let prefix = format!("{}:{number}/", self.path());
                    let mut walk = Walk::new(self.scene, reach, prefix, self.state.clone());
                    walk.change = Some(State::default());
                    let gone = walk.walk_to_exit(parallel.branches[number], Some(parallel.join));
                    add(&inside, walk.inside);
                    gone.map(|()| walk.change.unwrap_or_default())
                },
            )
        });
        tally.inside = total(inside);
        let mut update = State::default();
        for change in changes? {
            update
                .join(change.into_values(), keys)
                .map_err(|why| Halt::mismatch(self.path(), &why))?;
        }
        Ok(NodeResult {
            update: update.into_values(),
            next: Next::To(parallel.join),
        })
    }

    /// Does the same work for each item of a list.
    pub(super) fn map(
        &self,
        node: &Node,
        map: &MapNode,
        tally: &mut Tally,
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
        let inside = Mutex::new(Inside::default());
        let answers = fan(items.len(), map.concurrency, self.reach, |number, reach| {
            let path = format!("{}[{number}]", self.path());
            let mut tally = Tally::default();
            let answer = self.item(node, map, &path, &items[number], reach, &mut tally);
            add(
                &inside,
                Inside {
                    steps: tally.inside.steps,
                    taken: tally.taken.plus(tally.inside.taken),
                },
            );
            let answer = answer?;
            self.scene.budget.check()?;
            Ok(answer)
        });
        tally.inside = total(inside);
        Ok(NodeResult::single_key(&map.output, Value::Array(answers?)))
    }

    /// Executes or reuses one item.
    fn item(
        &self,
        node: &Node,
        map: &MapNode,
        path: &str,
        item: &Value,
        reach: &Reach<'_>,
        tally: &mut Tally,
    ) -> Result<Value, Halt> {
        reach.check()?;
        let common = self.scene.common;
        if let Some(mut step) = common.recall(path, ITEM, &self.scene.budget)? {
            tally.taken = step.taken;
            tally.inside = step.inside;
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
        let (answer, error) = match self.each(node, map, path, item, reach, tally) {
            Ok(answer) => (answer, None),
            Err(halt) => {
                let caught = halt.caught(path, self.scene.budget.depth());
                match caught.filter(|_| map.keeps_failures) {
                    Some(caught) => (json!({ "error": caught.message }), Some(caught.message)),
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
                taken: tally.taken,
                inside: tally.inside,
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
        reach: &Reach<'_>,
        tally: &mut Tally,
    ) -> Result<Value, Halt> {
        let view = View {
            extra: Some((&map.item, item)),
            ..self.view()
        };
        let mut asker = Asker {
            scene: self.scene,
            reach,
            path,
            node,
            is_shown: false,
            tally,
        };
        match &*map.each {
            NodeKind::Agent(agent) => Ok(asker.agent(agent, view)?.1),
            NodeKind::Tool(tool) => asker.tools(tool, view),
            NodeKind::Function(function) => view
                .fill_all(&function.set)
                .map(single)
                .map_err(|why| Halt::expression(path, why)),
            NodeKind::Subgraph(subgraph) => asker.subgraph(subgraph, view)?.answer(subgraph, path),
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

fn add(sum: &Mutex<Inside>, more: Inside) {
    let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
    sum.steps += more.steps;
    sum.taken = sum.taken.plus(more.taken);
}

fn total(sum: Mutex<Inside>) -> Inside {
    sum.into_inner().unwrap_or_else(PoisonError::into_inner)
}
