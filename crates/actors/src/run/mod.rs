//! [`Run`]: one traversal of an actor's graph, from its entry to an exit.
//!
//! A run executes every step that its log does not contain, and takes the others from the log; an interrupted run is
//! therefore resumed by running it again. Step paths depend only on the graph and the state, never on concurrency.

mod budget;
mod calls;
mod cancel_scope;
mod error;
mod halt;
mod node;
mod parallel;
mod traversal;
mod view;

pub use error::{LimitKind, RunError};

use std::sync::atomic::Ordering;
use std::time::Instant;

use cleveragents_process::Cancel;
use serde_json::{Map, Value};

use self::budget::{Budget, narrower};
use self::calls::output_of;
use self::cancel_scope::{CancelScope, DeadlineTimer};
use self::halt::Halt;
use self::traversal::{ActorRun, GraphTraversal, RunShared};
use crate::graph::{Actor, Limits};
use crate::ports::{Executor, RunObserver, StepLog, StepUsage};
use crate::state::State;

/// A run to execute.
pub struct Run<'a> {
    pub actor: &'a Actor,
    /// Initial state, which overrides the initial values of the keys.
    pub input: State,
    /// Values that templates and expressions see as `context`, which override those of the actor.
    pub context: Map<String, Value>,
    /// Additional limits; the stricter of these and the actor's limits applies.
    pub limits: Option<Limits>,
    /// Executes the work of nodes.
    pub executor: &'a dyn Executor,
    /// Stores finished steps.
    pub log: &'a dyn StepLog,
    /// Receives the progress.
    pub observer: &'a dyn RunObserver,
    pub cancel: &'a Cancel,
}

/// Result of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Final state.
    pub state: State,
    /// Value of the state key `output`, otherwise the last answer, otherwise null.
    pub output: Value,
    /// Usage of the run, reused steps included.
    pub usage: StepUsage,
    /// Number of finished nodes, including reused nodes and nodes of subgraphs. Items of maps do not count, because
    /// their list already limits their number.
    pub steps: u64,
    /// Number of steps taken from the log.
    pub recalled: u64,
    /// Path of the last step.
    pub last: Option<String>,
}

impl Run<'_> {
    /// Resumes after the steps in the log and runs to an exit.
    pub fn execute(&self) -> Result<Outcome, RunError> {
        let started = Instant::now();
        let graph = &self.actor.graph;
        let limits = match self.limits {
            None => graph.limits,
            Some(limits) => narrower(graph.limits, limits),
        };
        let common = RunShared::new(self.executor, self.log, self.observer, &self.context);
        let actor_run = ActorRun::new(&common, self.actor, Budget::of_run(limits));
        let timer = DeadlineTimer::default();
        let scope = CancelScope::of_run(self.cancel, &timer, started, limits.timeout);
        let mut state = self.input.clone();
        state.begin(&graph.keys);

        let mut traversal = GraphTraversal::new(&actor_run, &scope, String::new(), state);
        traversal.is_shown = true;
        match traversal.run_to_exit(graph.entry, None) {
            Ok(()) => {
                let last = traversal.last().map(str::to_owned);
                Ok(Outcome {
                    output: output_of(&traversal.state, traversal.answer),
                    state: traversal.state,
                    usage: actor_run.budget.usage(),
                    steps: actor_run.budget.steps(),
                    recalled: common.recalled.load(Ordering::Relaxed),
                    last,
                })
            }
            Err(halt) => Err(self.error(halt, &actor_run)),
        }
    }

    fn error(&self, halt: Halt, actor_run: &ActorRun<'_>) -> RunError {
        match halt {
            Halt::Error(error) => error,
            Halt::Limit { kind, limit, .. } => RunError::Limit { kind, limit },
            Halt::Stopped if self.cancel.is_cancelled() => RunError::Cancelled,
            Halt::Stopped => match actor_run.budget.timed_out() {
                Halt::Limit { kind, limit, .. } => RunError::Limit { kind, limit },
                _ => RunError::Cancelled,
            },
        }
    }
}
