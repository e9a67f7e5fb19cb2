//! [`SafetyProfile`] and [`Guards`]: what the user allows whole plans and sessions to do.

use cleveragents_domain::MicroUsd;

use super::ToolPattern;
use crate::ports::SpendingLimits;
use crate::spec::Category;

/// How careful to be.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent demands, each named in the user's profile"
)]
pub struct SafetyProfile {
    /// The groups of tools that may run; all when empty.
    pub allowed_categories: Vec<Category>,
    /// The tools that may run; all when empty.
    pub allowed_tools: Vec<ToolPattern>,
    /// Tools that may not run.
    pub denied_tools: Vec<ToolPattern>,
    /// Writing tools need a sandbox.
    pub require_sandbox: bool,
    /// Writing tools need a checkpoint before them.
    pub require_checkpoints: bool,
    /// A person agrees to every call that does more than talk.
    pub require_human_approval: bool,
    /// Tools that call themselves unsafe may run.
    pub allow_unsafe_tools: bool,
    /// What one plan may cost.
    pub max_cost_per_plan: Option<MicroUsd>,
    /// What everything may cost.
    pub max_total_cost: Option<MicroUsd>,
    /// How often a step may be tried again.
    pub max_retries_per_step: u32,
}

impl Default for SafetyProfile {
    /// Sandbox and checkpoints demanded, unsafe tools not allowed.
    fn default() -> Self {
        Self {
            allowed_categories: Vec::new(),
            allowed_tools: Vec::new(),
            denied_tools: Vec::new(),
            require_sandbox: true,
            require_checkpoints: true,
            require_human_approval: false,
            allow_unsafe_tools: false,
            max_cost_per_plan: None,
            max_total_cost: None,
            max_retries_per_step: 3,
        }
    }
}

/// Limits of what runs by itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Guards {
    /// Tools that may not run.
    pub denylist: Vec<ToolPattern>,
    /// The only tools that may run; `None` for any.
    pub allowlist: Option<Vec<ToolPattern>>,
    /// How many tools one step may call.
    pub max_tool_calls_per_step: Option<u64>,
    /// What everything may cost.
    pub max_total_cost: Option<MicroUsd>,
    /// A person agrees to every call that changes something.
    pub require_approval_for_writes: bool,
}

impl Guards {
    /// The limits of profile and guards together: the tighter of each.
    pub(crate) fn spending_limits(&self, profile: &SafetyProfile) -> SpendingLimits {
        let total = [self.max_total_cost, profile.max_total_cost];
        SpendingLimits {
            calls_per_step: self.max_tool_calls_per_step,
            cost_per_plan: profile.max_cost_per_plan,
            total_cost: total.into_iter().flatten().min(),
        }
    }
}
