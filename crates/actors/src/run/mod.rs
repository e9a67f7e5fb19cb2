//! [`Run`]: one traversal of an actor's graph, from its entry to an exit.
//!
//! A run executes every step that its log does not contain, and takes the others from the log; an interrupted run is
//! therefore resumed by running it again. Step paths depend only on the graph and the state, never on concurrency.

mod ask;
mod budget;
mod error;
mod fan;
mod halt;
mod reach;
mod view;
mod walk;
mod work;

pub use error::{LimitKind, RunError};

use std::sync::atomic::Ordering;
use std::time::Instant;

use cleveragents_process::Cancel;
use serde_json::{Map, Value};

use self::ask::output_of;
use self::budget::{Budget, narrower};
use self::halt::Halt;
use self::reach::{Alarm, Reach};
use self::walk::{Common, Scene, Walk};
use crate::graph::{Actor, Limits};
use crate::ports::{Executor, RunObserver, StepLog, StepUsage};
use crate::state::State;

/// A run to execute.
pub struct Run<'a> {
    /// Actor to run.
    pub actor: &'a Actor,
    /// Initial state, which overrides the initial values of the keys.
    pub input: State,
    /// Values that templates and expressions see as `context`, which override those of the actor.
    pub context: Map<String, Value>,
    /// Limits in addition to those of the actor.
    pub limits: Option<Limits>,
    /// Executes the work of nodes.
    pub executor: &'a dyn Executor,
    /// Stores finished steps.
    pub log: &'a dyn StepLog,
    /// Receives the progress.
    pub observer: &'a dyn RunObserver,
    /// Cancels the run.
    pub cancel: &'a Cancel,
}

/// Result of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Final state.
    pub state: State,
    /// Value of its key `output`, else the last answer; null when there is none.
    pub output: Value,
    /// Usage of the run, reused steps included.
    pub taken: StepUsage,
    /// Number of finished nodes, including reused ones and those of subgraphs. Items of maps do not count: their number
    /// is that of a list, so it is bounded.
    pub steps: u64,
    /// Number of steps taken from the log.
    pub recalled: u64,
    /// Path of the last step.
    pub last: Option<String>,
}

impl Run<'_> {
    /// Runs from the end of the log to an exit.
    pub fn execute(&self) -> Result<Outcome, RunError> {
        let begun = Instant::now();
        let graph = &self.actor.graph;
        let limits = match self.limits {
            None => graph.limits,
            Some(limits) => narrower(graph.limits, limits),
        };
        let common = Common::new(self.executor, self.log, self.observer, &self.context);
        let scene = Scene::new(&common, self.actor, Budget::of_run(limits));
        let alarm = Alarm::default();
        let reach = Reach::of_run(self.cancel, &alarm, begun, limits.timeout);
        let mut state = self.input.clone();
        state.begin(&graph.keys);

        let mut walk = Walk::new(&scene, &reach, String::new(), state);
        walk.is_shown = true;
        match walk.walk_to_exit(graph.entry, None) {
            Ok(()) => {
                let last = walk.last().map(str::to_owned);
                Ok(Outcome {
                    output: output_of(&walk.state, walk.answer),
                    state: walk.state,
                    taken: scene.budget.taken(),
                    steps: scene.budget.steps(),
                    recalled: common.recalled.load(Ordering::Relaxed),
                    last,
                })
            }
            Err(halt) => Err(self.error(halt, &scene)),
        }
    }

    fn error(&self, halt: Halt, scene: &Scene<'_>) -> RunError {
        match halt {
            Halt::Error(error) => error,
            Halt::Limit { kind, limit, .. } => RunError::Limit { kind, limit },
            Halt::Stopped if self.cancel.is_cancelled() => RunError::Cancelled,
            Halt::Stopped => match scene.budget.late() {
                Halt::Limit { kind, limit, .. } => RunError::Limit { kind, limit },
                _ => RunError::Cancelled,
            },
        }
    }
}
