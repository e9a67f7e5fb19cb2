//! The roles of pools: hunt, triage, capture, fix, review, merge and watch.

mod attempt_report;
mod brief;
mod capture;
mod change_check;
mod code_text;
mod driver;
mod expected_fail;
mod fix;
mod gates;
mod hunt;
mod item_run;
mod merge;
mod modules;
pub mod operations;
mod proof;
mod quote;
mod repeat;
mod review;
mod run_pools;
mod runner;
pub(crate) mod sandbox_changes;
mod symbol;
mod triage;

pub use runner::{PlanRoleRunner, RuntimeSource};
