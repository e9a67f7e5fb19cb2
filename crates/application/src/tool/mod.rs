//! Tools in the store: implementations of the ports of the tool gate (call ledger, sandbox workspace,
//! budget), and the service for registered tools.

mod budget;
mod call_operations;
mod call_patch;
mod call_summary;
mod calls;
mod ledger;
pub mod operations;
mod project_rules;
mod service;
mod workspace;

pub(crate) use budget::{MoneyReservation, Settlement, Shortage};
pub use budget::{SpendScope, StoreBudget};
pub(crate) use call_patch::edit_patch;
pub use call_summary::{call_status, called_tool, files_changed};
pub use calls::Excerpt;
pub use ledger::StoreLedger;
pub(crate) use ledger::{PrecedingWrite, storable, storable_json};
pub use project_rules::{ProjectRule, ProjectRules, complete_rule};
pub use service::{CallableTools, LeftOut, ToolError, ToolService};
pub use workspace::SandboxWorkspace;
