//! Measures steps of the graph runner, without and with a store, and the time to compile a large graph.
//!
//! The graph is a loop: a function node that counts, and a conditional node that repeats it until the count is reached.
//! The peers have the condition on an edge, so one turn of the loop is two steps of our runner but one step of theirs.
//! Comparing turns instead of steps is therefore a disadvantage for us.

mod store;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::ensure;
use cleveragents_actors::graph::{
    Argument, ConditionalNode, Edge, FunctionNode, Limits, NodeIndex,
};
use cleveragents_actors::ports::{
    AgentCall, Answer, Failure, FailureKind, NoLog, NoObserver, StepUsage, ToolStep,
};
use cleveragents_actors::{
    Actor, ActorKind, CompileStack, Executor, Expression, Graph, Node, NodeKind, ResolveError,
    Resolver, Run, State, ToolSource, compile, read,
};
use cleveragents_process::Cancel;
use cleveragents_store::{DatabaseUrl, EngineCache, Options};
use serde_json::{Map, Value, json};

use crate::{Findings, Row, raw};

/// Number of measurements. The best result counts, because noise can only make a run slower.
const ROUNDS: usize = 5;

/// Number of turns of the loop in one run.
const TURNS: u64 = 200_000;

/// An executor that is never called: the graph has no model, tool or question.
struct NoPorts;

impl NoPorts {
    fn refuse() -> Failure {
        Failure {
            kind: FailureKind::Refused,
            message: "the loop makes no calls".to_owned(),
            usage: StepUsage::default(),
        }
    }
}

impl Executor for NoPorts {
    fn agent(&self, _call: &AgentCall<'_>) -> Result<Answer, Failure> {
        Err(Self::refuse())
    }

    fn tool(&self, _step: &ToolStep<'_>) -> Result<Answer, Failure> {
        Err(Self::refuse())
    }
}

fn node(id: &str, kind: NodeKind, next: Option<NodeIndex>) -> Node {
    Node {
        id: Arc::from(id),
        kind,
        edges: next
            .map(|target| Edge {
                target,
                condition: None,
            })
            .into_iter()
            .collect(),
        is_exit: next.is_none(),
        timeout: None,
        retries: 0,
        on_error: None,
    }
}

/// A loop that counts to `turns`.
pub(crate) fn counting_loop(turns: u64) -> anyhow::Result<Actor> {
    let count = NodeKind::Function(FunctionNode {
        set: vec![("n".to_owned(), Argument::Value(Expression::parse("n + 1")?))],
    });
    let again = NodeKind::Conditional(ConditionalNode {
        conditions: vec![(Expression::parse(&format!("n < {turns}"))?, NodeIndex(0))],
        otherwise: None,
    });
    Ok(Actor {
        name: "local/counting-loop".to_owned(),
        kind: ActorKind::Graph,
        description: String::new(),
        version: None,
        role: None,
        is_unsafe: false,
        graph: Graph {
            nodes: vec![
                node("count", count, Some(NodeIndex(1))),
                node("again", again, None),
            ],
            entry: NodeIndex(0),
            keys: BTreeMap::new(),
            limits: Limits {
                max_steps: turns.saturating_mul(2),
                ..Limits::of_nodes(2)
            },
        },
        context: Map::new(),
        warnings: Vec::new(),
    })
}

/// Turns of the loop per second, without a store.
#[expect(clippy::cast_precision_loss, reason = "a rate")]
fn turns_per_second() -> anyhow::Result<f64> {
    let actor = counting_loop(TURNS)?;
    let mut best: f64 = 0.0;
    for _ in 0..ROUNDS {
        let run = Run {
            actor: &actor,
            input: State::new(Map::from_iter([("n".to_owned(), json!(0))])),
            context: Map::new(),
            limits: None,
            executor: &NoPorts,
            log: &NoLog,
            observer: &NoObserver,
            cancel: &Cancel::new(),
        };
        let started = Instant::now();
        let outcome = run.execute()?;
        let seconds = started.elapsed().as_secs_f64();
        ensure!(
            outcome.state.get("n").and_then(Value::as_u64) == Some(TURNS),
            "the loop ended early"
        );
        best = best.max(TURNS as f64 / seconds);
    }
    Ok(best)
}

/// Number of steps of a durable run. Each step is a commit.
const DURABLE_STEPS: u32 = 2_000;

/// Number of nodes of the compiled graph.
const NODES: usize = 10_000;

/// Steps per second with a store, and rows per second of raw SQLite with one commit per row.
struct Durable {
    ours: f64,
    raw: f64,
}

fn durable() -> anyhow::Result<Durable> {
    let mut best = Durable {
        ours: 0.0,
        raw: 0.0,
    };
    // The two sides alternate, so that the same noise affects both.
    for _ in 0..ROUNDS {
        let folder = tempfile::tempdir_in(std::env::current_dir()?)?;
        let url = DatabaseUrl::file(Path::new("bench.db"), folder.path());
        let engine = EngineCache::new(Options::default()).open(&url)?;
        let started = Instant::now();
        let run = store::run(&engine, DURABLE_STEPS.into())?;
        let seconds = started.elapsed().as_secs_f64();
        best.ours = best.ours.max(f64::from(DURABLE_STEPS) / seconds);
        drop(engine);
        let mut connection = raw::open(&folder.path().join("bench.db"))?;
        connection.execute("DELETE FROM run_steps", [])?;
        let step = json!({"path": "count#0", "kind": "function", "update": {"n": 1}}).to_string();
        let rate = raw::commit_rate(&mut connection, &run.to_string(), &step, DURABLE_STEPS)?;
        best.raw = best.raw.max(rate);
    }
    Ok(best)
}

/// A file with `nodes` nodes, each with a condition or a template.
fn large_file(nodes: usize) -> String {
    let mut text = String::from(
        "name: local/large\ntype: graph\ndescription: a large graph\nstate: {n: sum}\nnodes:\n",
    );
    for number in 0..nodes {
        let next = number + 1;
        let node = match number {
            _ if next == nodes => {
                format!("  n{number}: {{set: {{output: '{{{{ n }}}} nodes'}}}}\n")
            }
            _ if number % 2 == 0 => {
                format!("  n{number}: {{set: {{n: 1, note: 'at {{{{ n }}}}'}}, next: n{next}}}\n")
            }
            _ => format!("  n{number}: {{if: n > {number}, then: n{next}, else: n{next}}}\n"),
        };
        text.push_str(&node);
    }
    text
}

/// A registry without actors or tools.
struct EmptyRegistry;

impl Resolver for EmptyRegistry {
    fn actor(&self, _name: &str, _trail: &CompileStack<'_>) -> Result<Arc<Actor>, ResolveError> {
        Err(ResolveError::Missing(Vec::new()))
    }

    fn find(&self, _kind: ToolSource, _name: &str) -> Result<(), Vec<String>> {
        Err(Vec::new())
    }
}

/// Time to compile the text of a large file to a runnable graph, in milliseconds.
fn compile_milliseconds() -> anyhow::Result<f64> {
    let text = large_file(NODES);
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let started = Instant::now();
        let file = read(&text, Path::new("large.yaml"), &|_| None)?;
        let actor = compile(&file, &EmptyRegistry)?;
        best = best.min(started.elapsed().as_secs_f64() * 1e3);
        ensure!(actor.graph.nodes.len() == NODES, "nodes are missing");
    }
    Ok(best)
}

/// Measures the runner.
pub(crate) fn measure() -> anyhow::Result<Findings> {
    let durable = durable()?;
    let compile = compile_milliseconds()?;
    Ok(Findings {
        rows: vec![
            Row {
                name: "durable steps".to_owned(),
                ours: durable.ours,
                other: durable.raw,
                ratio: durable.ours / durable.raw,
                unit: "steps/s",
                note: "a commit each, compared with raw SQLite's commits of one row".to_owned(),
            },
            Row {
                name: format!("reading and compiling {NODES} nodes"),
                ours: compile,
                other: 100.0,
                ratio: compile / 100.0,
                unit: "ms",
                note: "under 100".to_owned(),
            },
        ],
        ours: Map::from_iter([
            ("graph_steps".to_owned(), json!(turns_per_second()?)),
            ("durable_graph_steps".to_owned(), json!(durable.ours)),
        ]),
        counts: json!({"turns": TURNS, "durable_steps": DURABLE_STEPS, "nodes": NODES}),
    })
}
