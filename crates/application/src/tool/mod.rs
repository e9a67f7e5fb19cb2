//! What the gate of the tools needs of the rest: rows of calls, sandboxes as workspaces, budgets, and
//! the registered tools themselves.

mod budget;
mod calls;
mod ledger;
pub mod operations;
mod service;
mod workspace;

pub(crate) use budget::{Held, Settlement, Shortage};
pub use budget::{SpendScope, StoreBudget};
pub use calls::Excerpt;
pub use ledger::StoreLedger;
pub(crate) use ledger::{Ahead, storable, storable_json};
pub use service::{AddedTool, Callable, LeftOut, RegisteredTool, ToolError, ToolService};
pub use workspace::SandboxWorkspace;
