//! Actors: their files, the graphs compiled from them, and the runner of graphs.
//!
//! An actor is a model with its instructions and tools (`llm`), a tool (`tool`), or a graph of them
//! (`graph`); all three compile to a [`Graph`], the first two to one of a single node. The runner
//! walks a graph: it asks an [`Executor`] for the work of nodes that have any, merges what they
//! answer into the state by the reducer of each key, and writes every finished node to a
//! [`StepLog`] before it goes on. A run that is begun again with the same log takes what is in it
//! and does not do it twice.
//!
//! The crate is synchronous and knows no database, model or tool: those are behind [`ports`].

mod compile;
pub mod draw;
mod expression;
mod file;
pub mod graph;
pub mod ports;
mod run;
mod schema;
mod state;

pub use compile::{Resolver, Supply, Trail, Unresolved, compile, compile_within};
pub use expression::{Expression, ExpressionError, Names, Template};
pub use file::{ActorFile, FileError, read};
pub use graph::{Actor, ActorKind, Agent, Graph, Node, NodeKind};
pub use ports::{Executor, StepLog};
pub use run::{LimitKind, Outcome, Run, RunError};
pub use schema::schema;
pub use state::{Reducer, State};
