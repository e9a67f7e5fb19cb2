//! [`Run`]: one walk through the graph of an actor, from its entry to an exit.
//!
//! A run executes every step that its log does not know, and takes the others from the log; so a run
//! that was interrupted anywhere is gone on with by running it again. Paths of steps depend on the
//! graph and the state only, never on what ran at the same time.

mod error;

pub use error::{LimitKind, RunError};

use cleveragents_process::Cancel;
use serde_json::{Map, Value};

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
