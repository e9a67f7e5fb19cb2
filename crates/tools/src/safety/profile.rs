//! [`SafetyProfile`] and [`Guards`]: limits that apply to whole plans and sessions.
//!
//! Several profiles may apply at the same time. Narrowing one by another allows only what both allow, so the
//! stricter value of each field wins.

use cleveragents_domain::MicroUsd;
use serde::{Serialize, Serializer};

use super::ToolPattern;
use crate::name::ToolName;
use crate::ports::SpendingLimits;
use crate::spec::Category;

/// The tools that may run. A tool must match every list; without lists, all tools may run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowList(Vec<Vec<ToolPattern>>);

impl AllowList {
    /// Allows only these tools; no tool when the list is empty.
    pub fn only(patterns: Vec<ToolPattern>) -> Self {
        Self(vec![patterns])
    }

    /// Returns whether a tool may run.
    pub fn allows(&self, tool: &ToolName) -> bool {
        self.0
            .iter()
            .all(|list| list.iter().any(|pattern| pattern.matches(tool)))
    }

    fn narrow(&mut self, by: &Self) {
        for list in &by.0 {
            if !self.0.contains(list) {
                self.0.push(list.clone());
            }
        }
    }
}

impl Serialize for AllowList {
    /// Serializes the lists, or null when all tools may run.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [] => serializer.serialize_none(),
            lists => serializer.serialize_some(lists),
        }
    }
}

/// Rules for the tools of a plan or session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent requirements, each a field of the user's profile"
)]
pub struct SafetyProfile {
    /// Categories of tools that may run; `None` for all.
    #[serde(rename = "allowed_skill_categories")]
    pub allowed_categories: Option<Vec<Category>>,
    /// The tools that may run.
    pub allowed_tools: AllowList,
    /// Tools that may not run.
    pub denied_tools: Vec<ToolPattern>,
    /// Whether tools that make changes may run.
    pub allow_changes: bool,
    /// Whether writing tools require a sandbox.
    pub require_sandbox: bool,
    /// Whether writing tools require a checkpoint before each call.
    pub require_checkpoints: bool,
    /// Whether the user must approve every call, except those of the category `conversation`.
    pub require_human_approval: bool,
    /// Whether tools that are declared unsafe may run.
    pub allow_unsafe_tools: bool,
    /// Maximum cost of one plan.
    #[serde(serialize_with = "dollars")]
    pub max_cost_per_plan: Option<MicroUsd>,
    /// Maximum total cost.
    #[serde(serialize_with = "dollars")]
    pub max_total_cost: Option<MicroUsd>,
    /// Maximum number of retries of a step.
    pub max_retries_per_step: u32,
}

impl Default for SafetyProfile {
    /// Requires sandbox and checkpoints; does not allow unsafe tools.
    fn default() -> Self {
        Self {
            require_sandbox: true,
            require_checkpoints: true,
            allow_unsafe_tools: false,
            max_retries_per_step: 3,
            ..Self::unrestricted()
        }
    }
}

impl SafetyProfile {
    /// Allows everything. Narrowing it by another profile yields that profile.
    pub const fn unrestricted() -> Self {
        Self {
            allowed_categories: None,
            allowed_tools: AllowList(Vec::new()),
            denied_tools: Vec::new(),
            allow_changes: true,
            require_sandbox: false,
            require_checkpoints: false,
            require_human_approval: false,
            allow_unsafe_tools: true,
            max_cost_per_plan: None,
            max_total_cost: None,
            max_retries_per_step: u32::MAX,
        }
    }

    /// Restricts this profile to what it and `by` both allow, and adds the requirements of `by`.
    pub fn narrow(&mut self, by: &Self) {
        // Destructured, so that the compiler reports a forgotten field.
        let Self {
            allowed_categories,
            allowed_tools,
            denied_tools,
            allow_changes,
            require_sandbox,
            require_checkpoints,
            require_human_approval,
            allow_unsafe_tools,
            max_cost_per_plan,
            max_total_cost,
            max_retries_per_step,
        } = by;
        if let Some(narrower) = allowed_categories {
            let categories = self
                .allowed_categories
                .get_or_insert_with(|| Category::ALL.to_vec());
            categories.retain(|category| narrower.contains(category));
        }
        self.allowed_tools.narrow(allowed_tools);
        join(&mut self.denied_tools, denied_tools);
        self.allow_changes &= allow_changes;
        self.require_sandbox |= require_sandbox;
        self.require_checkpoints |= require_checkpoints;
        self.require_human_approval |= require_human_approval;
        self.allow_unsafe_tools &= allow_unsafe_tools;
        self.max_cost_per_plan = smaller_limit(self.max_cost_per_plan, *max_cost_per_plan);
        self.max_total_cost = smaller_limit(self.max_total_cost, *max_total_cost);
        self.max_retries_per_step = self.max_retries_per_step.min(*max_retries_per_step);
    }
}

/// Limits on automatic work.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Guards {
    /// Tools that may not run.
    #[serde(rename = "tool_denylist")]
    pub denylist: Vec<ToolPattern>,
    /// The only tools that may run.
    #[serde(rename = "tool_allowlist")]
    pub allowlist: AllowList,
    /// Maximum number of tool calls in one response of the model, or in one step of a plan.
    pub max_tool_calls_per_step: Option<u64>,
    /// Maximum total cost.
    #[serde(serialize_with = "dollars")]
    pub max_total_cost: Option<MicroUsd>,
    /// Whether the user must approve every call that makes changes.
    pub require_approval_for_writes: bool,
}

impl Guards {
    /// Restricts these guards to what they and `by` both allow, and adds the requirements of `by`.
    pub fn narrow(&mut self, by: &Self) {
        let Self {
            denylist,
            allowlist,
            max_tool_calls_per_step,
            max_total_cost,
            require_approval_for_writes,
        } = by;
        join(&mut self.denylist, denylist);
        self.allowlist.narrow(allowlist);
        self.max_tool_calls_per_step =
            smaller_limit(self.max_tool_calls_per_step, *max_tool_calls_per_step);
        self.max_total_cost = smaller_limit(self.max_total_cost, *max_total_cost);
        self.require_approval_for_writes |= require_approval_for_writes;
    }

    /// The stricter maximum total cost of profile and guards.
    pub fn total_cost(&self, profile: &SafetyProfile) -> Option<MicroUsd> {
        smaller_limit(self.max_total_cost, profile.max_total_cost)
    }

    /// The stricter limits of profile and guards.
    pub(crate) fn spending_limits(&self, profile: &SafetyProfile) -> SpendingLimits {
        SpendingLimits {
            calls_per_step: self.max_tool_calls_per_step,
            cost_per_plan: profile.max_cost_per_plan,
            total_cost: self.total_cost(profile),
        }
    }
}

/// The smaller of two optional limits.
fn smaller_limit<T: Ord>(left: Option<T>, right: Option<T>) -> Option<T> {
    left.into_iter().chain(right).min()
}

fn join(patterns: &mut Vec<ToolPattern>, more: &[ToolPattern]) {
    for pattern in more {
        if !patterns.contains(pattern) {
            patterns.push(pattern.clone());
        }
    }
}

/// Serializes an amount in US dollars.
#[expect(clippy::ref_option, reason = "serde passes a reference to the field")]
fn dollars<S: Serializer>(amount: &Option<MicroUsd>, serializer: S) -> Result<S::Ok, S::Error> {
    amount.map(MicroUsd::as_usd).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::{AllowList, Guards, SafetyProfile};
    use crate::name::ToolName;
    use crate::safety::ToolPattern;
    use crate::spec::Category;
    use cleveragents_domain::MicroUsd;
    use proptest::prelude::*;

    fn pattern() -> impl Strategy<Value = ToolPattern> {
        let words = ["builtin/*", "builtin/shell", "local/a", "*", "local/*"];
        prop::sample::select(words.to_vec()).prop_map(|word| word.parse().expect("a pattern"))
    }

    fn patterns() -> impl Strategy<Value = Vec<ToolPattern>> {
        prop::collection::vec(pattern(), 0..3)
    }

    fn allow_list() -> impl Strategy<Value = AllowList> {
        prop::option::of(patterns())
            .prop_map(|list| list.map_or_else(AllowList::default, AllowList::only))
    }

    fn money() -> impl Strategy<Value = Option<MicroUsd>> {
        prop::option::of((0..5_u64).prop_map(MicroUsd))
    }

    fn profile() -> impl Strategy<Value = SafetyProfile> {
        let categories = prop::option::of(prop::sample::subsequence(Category::ALL.to_vec(), 0..=7));
        let lists = (categories, allow_list(), patterns());
        let flags = prop::array::uniform5(any::<bool>());
        (lists, flags, money(), money(), 0..5_u32).prop_map(
            |((allowed_categories, allowed_tools, denied_tools), flags, plan, total, retries)| {
                SafetyProfile {
                    allowed_categories,
                    allowed_tools,
                    denied_tools,
                    allow_changes: flags[0],
                    require_sandbox: flags[1],
                    require_checkpoints: flags[2],
                    require_human_approval: flags[3],
                    allow_unsafe_tools: flags[4],
                    max_cost_per_plan: plan,
                    max_total_cost: total,
                    max_retries_per_step: retries,
                }
            },
        )
    }

    fn guards() -> impl Strategy<Value = Guards> {
        (
            patterns(),
            allow_list(),
            prop::option::of(0..5_u64),
            money(),
            any::<bool>(),
        )
            .prop_map(
                |(denylist, allowlist, max_tool_calls_per_step, max_total_cost, asks)| Guards {
                    denylist,
                    allowlist,
                    max_tool_calls_per_step,
                    max_total_cost,
                    require_approval_for_writes: asks,
                },
            )
    }

    /// Permissions of one tool under a profile and guards, as flags where `true` is less strict.
    fn allowances(profile: &SafetyProfile, guards: &Guards, tool: &ToolName) -> Vec<bool> {
        let is_in = |list: &[ToolPattern]| list.iter().any(|pattern| pattern.matches(tool));
        let mut all = vec![
            profile.allowed_tools.allows(tool) && !is_in(&profile.denied_tools),
            guards.allowlist.allows(tool) && !is_in(&guards.denylist),
            profile.allow_changes,
            !profile.require_sandbox,
            !profile.require_checkpoints,
            !profile.require_human_approval,
            profile.allow_unsafe_tools,
            !guards.require_approval_for_writes,
        ];
        all.extend(Category::ALL.map(|category| {
            let listed = profile.allowed_categories.as_ref();
            listed.is_none_or(|listed| listed.contains(&category))
        }));
        for number in 0..6 {
            let within =
                |limit: Option<MicroUsd>| limit.is_none_or(|limit| MicroUsd(number) <= limit);
            all.push(within(profile.max_cost_per_plan));
            all.push(within(guards.total_cost(profile)));
            all.push(
                guards
                    .max_tool_calls_per_step
                    .is_none_or(|limit| number <= limit),
            );
            all.push(number <= u64::from(profile.max_retries_per_step));
        }
        all
    }

    proptest! {
        #[test]
        fn narrowing_allows_exactly_what_both_allow(
            one in (profile(), guards()),
            other in (profile(), guards()),
            tool in prop::sample::select(vec!["builtin/shell", "builtin/file-read", "local/a", "local/b"]),
        ) {
            let tool: ToolName = tool.parse().expect("a name");
            let (mut profile, mut guards) = one.clone();
            profile.narrow(&other.0);
            guards.narrow(&other.1);
            let both: Vec<bool> = allowances(&one.0, &one.1, &tool)
                .into_iter()
                .zip(allowances(&other.0, &other.1, &tool))
                .map(|(one, other)| one && other)
                .collect();
            prop_assert_eq!(allowances(&profile, &guards, &tool), both);
        }

        #[test]
        fn narrowing_by_unrestricted_changes_nothing(one in profile()) {
            let tool: ToolName = "local/a".parse().expect("a name");
            let mut narrowed = SafetyProfile::unrestricted();
            narrowed.narrow(&one);
            let none = Guards::default();
            prop_assert_eq!(allowances(&narrowed, &none, &tool), allowances(&one, &none, &tool));
        }
    }
}
