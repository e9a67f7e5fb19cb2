//! [`SafetyProfile`] and [`Guards`]: what the user allows whole plans and sessions to do.
//!
//! Several of them may hold at once. Narrowing one by another gives what both allow, so the tighter
//! always wins, whoever said it.

use cleveragents_domain::MicroUsd;
use serde::{Serialize, Serializer};

use super::ToolPattern;
use crate::name::ToolName;
use crate::ports::SpendingLimits;
use crate::spec::Category;

/// The tools that may run: those on every list. Without a list any tool may.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowList(Vec<Vec<ToolPattern>>);

impl AllowList {
    /// Only these tools; none at all when there is no pattern.
    pub fn only(patterns: Vec<ToolPattern>) -> Self {
        Self(vec![patterns])
    }

    /// Whether a tool may run.
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
    /// The lists, or nothing when any tool may run.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [] => serializer.serialize_none(),
            lists => serializer.serialize_some(lists),
        }
    }
}

/// How careful to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent demands, each named in the user's profile"
)]
pub struct SafetyProfile {
    /// The groups of tools that may run; `None` for all.
    #[serde(rename = "allowed_skill_categories")]
    pub allowed_categories: Option<Vec<Category>>,
    /// The tools that may run.
    pub allowed_tools: AllowList,
    /// Tools that may not run.
    pub denied_tools: Vec<ToolPattern>,
    /// Tools that change something may run.
    pub allow_changes: bool,
    /// Writing tools need a sandbox.
    pub require_sandbox: bool,
    /// Writing tools need a checkpoint before them.
    pub require_checkpoints: bool,
    /// A person agrees to every call that does more than talk.
    pub require_human_approval: bool,
    /// Tools that call themselves unsafe may run.
    pub allow_unsafe_tools: bool,
    /// What one plan may cost.
    #[serde(serialize_with = "dollars")]
    pub max_cost_per_plan: Option<MicroUsd>,
    /// What everything may cost.
    #[serde(serialize_with = "dollars")]
    pub max_total_cost: Option<MicroUsd>,
    /// How often a step may be tried again.
    pub max_retries_per_step: u32,
}

impl Default for SafetyProfile {
    /// Sandbox and checkpoints demanded, unsafe tools not allowed.
    fn default() -> Self {
        Self {
            require_sandbox: true,
            require_checkpoints: true,
            allow_unsafe_tools: false,
            max_retries_per_step: 3,
            ..Self::demanding_nothing()
        }
    }
}

impl SafetyProfile {
    /// Allows everything: narrowing it by another gives the other.
    pub const fn demanding_nothing() -> Self {
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

    /// Allows only what the other allows too, and demands what either demands.
    pub fn narrow(&mut self, by: &Self) {
        // Taken apart, so that a new field cannot be forgotten here.
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
        if let Some(theirs) = allowed_categories {
            let ours = self
                .allowed_categories
                .get_or_insert_with(|| Category::ALL.to_vec());
            ours.retain(|category| theirs.contains(category));
        }
        self.allowed_tools.narrow(allowed_tools);
        join(&mut self.denied_tools, denied_tools);
        self.allow_changes &= allow_changes;
        self.require_sandbox |= require_sandbox;
        self.require_checkpoints |= require_checkpoints;
        self.require_human_approval |= require_human_approval;
        self.allow_unsafe_tools &= allow_unsafe_tools;
        self.max_cost_per_plan = least(self.max_cost_per_plan, *max_cost_per_plan);
        self.max_total_cost = least(self.max_total_cost, *max_total_cost);
        self.max_retries_per_step = self.max_retries_per_step.min(*max_retries_per_step);
    }
}

/// Limits of what runs by itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Guards {
    /// Tools that may not run.
    #[serde(rename = "tool_denylist")]
    pub denylist: Vec<ToolPattern>,
    /// The only tools that may run.
    #[serde(rename = "tool_allowlist")]
    pub allowlist: AllowList,
    /// How many tools one step may call.
    pub max_tool_calls_per_step: Option<u64>,
    /// What everything may cost.
    #[serde(serialize_with = "dollars")]
    pub max_total_cost: Option<MicroUsd>,
    /// A person agrees to every call that changes something.
    pub require_approval_for_writes: bool,
}

impl Guards {
    /// Allows only what the other allows too, and demands what either demands.
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
            least(self.max_tool_calls_per_step, *max_tool_calls_per_step);
        self.max_total_cost = least(self.max_total_cost, *max_total_cost);
        self.require_approval_for_writes |= require_approval_for_writes;
    }

    /// What everything may cost by profile and guards together.
    pub fn total_cost(&self, profile: &SafetyProfile) -> Option<MicroUsd> {
        least(self.max_total_cost, profile.max_total_cost)
    }

    /// The limits of profile and guards together: the tighter of each.
    pub(crate) fn spending_limits(&self, profile: &SafetyProfile) -> SpendingLimits {
        SpendingLimits {
            calls_per_step: self.max_tool_calls_per_step,
            cost_per_plan: profile.max_cost_per_plan,
            total_cost: self.total_cost(profile),
        }
    }
}

/// The lesser of two limits, where there is one.
fn least<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    one.into_iter().chain(other).min()
}

fn join(patterns: &mut Vec<ToolPattern>, more: &[ToolPattern]) {
    for pattern in more {
        if !patterns.contains(pattern) {
            patterns.push(pattern.clone());
        }
    }
}

/// Money as it is written in files: dollars.
#[expect(clippy::ref_option, reason = "serde hands a reference to the field")]
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

    /// What a profile and guards let pass of one tool, as flags of which `true` is wider.
    fn lets(profile: &SafetyProfile, guards: &Guards, tool: &ToolName) -> Vec<bool> {
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
        fn what_is_narrowed_lets_pass_exactly_what_both_let_pass(
            one in (profile(), guards()),
            other in (profile(), guards()),
            tool in prop::sample::select(vec!["builtin/shell", "builtin/file-read", "local/a", "local/b"]),
        ) {
            let tool: ToolName = tool.parse().expect("a name");
            let (mut profile, mut guards) = one.clone();
            profile.narrow(&other.0);
            guards.narrow(&other.1);
            let both: Vec<bool> = lets(&one.0, &one.1, &tool)
                .into_iter()
                .zip(lets(&other.0, &other.1, &tool))
                .map(|(one, other)| one && other)
                .collect();
            prop_assert_eq!(lets(&profile, &guards, &tool), both);
        }

        #[test]
        fn nothing_demanded_changes_nothing(one in profile()) {
            let tool: ToolName = "local/a".parse().expect("a name");
            let mut narrowed = SafetyProfile::demanding_nothing();
            narrowed.narrow(&one);
            let none = Guards::default();
            prop_assert_eq!(lets(&narrowed, &none, &tool), lets(&one, &none, &tool));
        }
    }
}
