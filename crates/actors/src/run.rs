//! [`Run`]: one walk through the graph of an actor, from its entry to an exit.
//!
//! A run executes every step that its log does not know, and takes the others from the log; so a run
//! that was interrupted anywhere is gone on with by running it again. Paths of steps depend on the
//! graph and the state only, never on what ran at the same time.

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
use crate::ports::{Executor, RunObserver, StepLog, Taken};
use crate::state::State;

/// A run that is to be done.
pub struct Run<'a> {
    /// What runs.
    pub actor: &'a Actor,
    /// The state it begins with, over the initial values of the keys.
    pub input: State,
    /// Values that templates and expressions see as `context`, over those of the actor.
    pub context: Map<String, Value>,
    /// Limits that are kept too.
    pub limits: Option<Limits>,
    /// Does the work of nodes.
    pub executor: &'a dyn Executor,
    /// Remembers finished steps.
    pub log: &'a dyn StepLog,
    /// Watches.
    pub observer: &'a dyn RunObserver,
    /// Stops the run.
    pub cancel: &'a Cancel,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The last state.
    pub state: State,
    /// The key `output` of it, else the last answer; null when there is none.
    pub output: Value,
    /// What the run took, recalled steps included.
    pub taken: Taken,
    /// Finished nodes, recalled ones and those of subgraphs included. Items of maps do not count: their
    /// number is that of a list, so it cannot grow without end.
    pub steps: u64,
    /// How many steps were taken from the log.
    pub recalled: u64,
    /// The path of the last step.
    pub last: Option<String>,
}

impl Run<'_> {
    /// Runs, from where the log ends, to an exit.
    pub fn go(&self) -> Result<Outcome, RunError> {
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
        match walk.go(graph.entry, None) {
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
