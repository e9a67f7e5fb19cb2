//! Actors: their files, the graphs compiled from them, and the runner of graphs.
//!
//! An actor is a model with its instructions and tools (`llm`), a tool (`tool`), a remote agent
//! (`a2a`), or a graph of them (`graph`). Every actor compiles to a [`Graph`]; the first three kinds
//! compile to a graph with a single node. The runner traverses a graph: it calls an [`Executor`] for
//! models and tools, merges the results into the state with the reducer of each key, and writes every
//! finished node to a [`StepLog`] before it continues. A run that is started again with the same log
//! reuses the finished steps instead of repeating them.
//!
//! The crate is synchronous and does not depend on a database, a model provider or a tool
//! implementation: the application provides them through [`ports`].

mod compile;
pub mod draw;
mod expression;
mod file;
pub mod graph;
pub mod ports;
mod run;
mod schema;
mod state;

pub use compile::{CompileStack, ResolveError, Resolver, ToolSource, compile, compile_within};
pub use expression::{Expression, ExpressionError, NameValues, Template};
pub use file::{ActorFile, read};
pub use graph::{Actor, ActorKind, Agent, Graph, Node, NodeKind};
pub use ports::{Executor, StepLog};
pub use run::{LimitKind, Outcome, Run, RunError};
pub use schema::schema;
pub use state::{Reducer, State};
