//! The roles of pools: hunt, triage, capture, fix, review, merge and watch.

pub(super) mod attempt_report;
mod brief;
mod capture;
mod change_check;
mod change_report;
mod code_text;
mod driver;
mod expected_fail;
mod fix;
mod fix_item;
mod gates;
mod hunt;
mod item_run;
mod merge;
mod modules;
pub mod operations;
pub(super) mod pool_action;
mod proof;
mod quote;
mod redaction;
mod repeat;
mod revalidate;
mod review;
mod run_pools;
mod runner;
pub(crate) mod sandbox_changes;
mod symbol;
mod triage;
mod triage_run;

pub use runner::{PlanRoleRunner, RuntimeSource};
