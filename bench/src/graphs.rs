//! Steps of the graph runner, without a store.
//!
//! The graph is a loop: a function node that counts, and a conditional node that goes round until the
//! count is reached. Peers have the condition on an edge, so that one turn is two steps of ours and one
//! of theirs; turns are compared, which is the harder measure for us.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use anyhow::ensure;
use cleveragents_actors::graph::{
    Argument, ConditionalNode, Edge, FunctionNode, Limits, NodeIndex,
};
use cleveragents_actors::ports::{
    AgentCall, Answer, Failure, FailureKind, NoLog, Taken, ToolStep, Unwatched,
};
use cleveragents_actors::{
    Actor, ActorKind, Executor, Expression, Graph, Node, NodeKind, Run, State,
};
use cleveragents_process::Cancel;
use serde_json::{Map, Value, json};

use crate::Findings;

/// How often it is measured; the best counts, since noise only slows.
const ROUNDS: usize = 5;

/// Turns of the loop in one run.
const TURNS: u64 = 200_000;

/// Has nothing to do: the graph asks nobody.
struct Nobody;

impl Nobody {
    fn refuse() -> Failure {
        Failure {
            kind: FailureKind::Refused,
            message: "the loop asks nobody".to_owned(),
            taken: Taken::default(),
        }
    }
}

impl Executor for Nobody {
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

/// A loop that counts to a number.
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

/// Turns of the loop in a second, without a store.
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
            executor: &Nobody,
            log: &NoLog,
            observer: &Unwatched,
            cancel: &Cancel::new(),
        };
        let started = Instant::now();
        let outcome = run.go()?;
        let seconds = started.elapsed().as_secs_f64();
        ensure!(
            outcome.state.get("n").and_then(Value::as_u64) == Some(TURNS),
            "the loop ended early"
        );
        best = best.max(TURNS as f64 / seconds);
    }
    Ok(best)
}

/// Measures the runner; the table puts the peers beside it.
pub(crate) fn measure() -> anyhow::Result<Findings> {
    Ok(Findings {
        rows: Vec::new(),
        ours: Map::from_iter([("graph_steps".to_owned(), json!(turns_per_second()?))]),
        counts: json!({ "turns": TURNS }),
    })
}
