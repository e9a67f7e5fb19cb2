//! [`Budget`]: usage of a running actor, and its limits. The usage of a subgraph also counts for all actors above it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::error::LimitKind;
use super::halt::Halt;
use crate::graph::Limits;
use crate::ports::{Allowance, NestedSteps, StepUsage};

pub(super) struct Budget<'a> {
    parent: Option<&'a Self>,
    limits: Limits,
    depth: u32,
    steps: AtomicU64,
    count: Mutex<UsageCount>,
}

/// Usage so far, and calls claimed by running nodes.
#[derive(Default)]
struct UsageCount {
    usage: StepUsage,
    claimed: Calls,
}

#[derive(Clone, Copy, Default)]
struct Calls {
    models: u64,
    tools: u64,
}

/// Kind of call that a node is about to make.
#[derive(Clone, Copy)]
pub(super) enum CallKind {
    Model,
    Tool,
}

impl<'a> Budget<'a> {
    pub(super) fn of_run(limits: Limits) -> Self {
        Self::new(None, limits, 0)
    }

    /// Creates the budget of a subgraph.
    pub(super) fn nested(&'a self, limits: Limits) -> Self {
        Budget::new(Some(self), limits, self.depth + 1)
    }

    fn new(parent: Option<&'a Self>, limits: Limits, depth: u32) -> Self {
        Self {
            parent,
            limits,
            depth,
            steps: AtomicU64::new(0),
            count: Mutex::default(),
        }
    }

    pub(super) const fn depth(&self) -> u32 {
        self.depth
    }

    pub(super) fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    pub(super) fn usage(&self) -> StepUsage {
        lock(&self.count).usage
    }

    /// Creates the claim of a starting node.
    pub(super) fn claim(&self) -> UsageClaim<'_> {
        UsageClaim {
            budget: self,
            calls: Mutex::default(),
            refused: OnceLock::new(),
        }
    }

    /// Returns the [`Halt`] of a run whose time limit has expired.
    pub(super) fn timed_out(&self) -> Halt {
        let timeout = self.limits.timeout.unwrap_or_default();
        let milliseconds = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        self.reached(LimitKind::Timeout, milliseconds)
    }

    const fn reached(&self, kind: LimitKind, limit: u64) -> Halt {
        Halt::Limit {
            kind,
            limit,
            depth: self.depth,
        }
    }

    /// This budget and all above it.
    fn chain(&self) -> impl Iterator<Item = &Budget<'a>> {
        std::iter::successors(Some(self), |budget| budget.parent)
    }

    /// Counts another step.
    pub(super) fn begin_step(&self) -> Result<(), Halt> {
        for budget in self.chain() {
            let limit = budget.limits.max_steps;
            if budget.steps.fetch_add(1, Ordering::Relaxed) >= limit {
                return Err(budget.reached(LimitKind::Steps, limit));
            }
        }
        Ok(())
    }

    /// Checks the depth of a subgraph that starts.
    pub(super) fn begin_subgraph(&self) -> Result<(), Halt> {
        for budget in self.chain() {
            let limit = budget.limits.max_depth;
            if self.depth + 1 - budget.depth > limit {
                return Err(budget.reached(LimitKind::Depth, limit.into()));
            }
        }
        Ok(())
    }

    /// Checks that a model or tool call is within the limits.
    pub(super) fn begin_call(&self, call: CallKind) -> Result<(), Halt> {
        for budget in self.chain() {
            budget.require(call, 1, &lock(&budget.count))?;
        }
        Ok(())
    }

    /// Checks that `additional` calls are within the limits of this budget.
    fn require(&self, call: CallKind, additional: u64, count: &UsageCount) -> Result<(), Halt> {
        let (limits, usage, claimed) = (&self.limits, &count.usage, count.claimed);
        let (kind, limit, calls) = match call {
            CallKind::Model => (
                LimitKind::ModelCalls,
                limits.max_model_calls,
                usage.model_calls.saturating_add(claimed.models),
            ),
            CallKind::Tool => (
                LimitKind::ToolCalls,
                limits.max_tool_calls,
                usage.tool_calls.saturating_add(claimed.tools),
            ),
        };
        if let Some(limit) = limit
            && calls.saturating_add(additional) > limit
        {
            return Err(self.reached(kind, limit));
        }
        if let Some(limit) = limits.max_cost
            && usage.usage.cost_micro_usd >= limit
        {
            return Err(self.reached(LimitKind::Cost, limit.0));
        }
        Ok(())
    }

    pub(super) fn add(&self, additional: StepUsage) {
        if additional == StepUsage::default() {
            return;
        }
        for budget in self.chain() {
            let usage = &mut lock(&budget.count).usage;
            *usage = usage.plus(additional);
        }
    }

    /// Adds the usage of the steps inside a reused step.
    pub(super) fn add_nested(&self, nested: NestedSteps) {
        self.add(nested.usage);
        for budget in self.chain() {
            budget.steps.fetch_add(nested.steps, Ordering::Relaxed);
        }
    }

    /// Checks after a step whether a limit is exceeded.
    pub(super) fn check(&self) -> Result<(), Halt> {
        for budget in self.chain() {
            let limits = &budget.limits;
            if limits.max_model_calls.is_none()
                && limits.max_tool_calls.is_none()
                && limits.max_cost.is_none()
            {
                continue;
            }
            let usage = budget.usage();
            let cost = usage.usage.cost_micro_usd.0;
            for (kind, limit, usage) in [
                (
                    LimitKind::ModelCalls,
                    limits.max_model_calls,
                    usage.model_calls,
                ),
                (
                    LimitKind::ToolCalls,
                    limits.max_tool_calls,
                    usage.tool_calls,
                ),
                (LimitKind::Cost, limits.max_cost.map(|cost| cost.0), cost),
            ] {
                if let Some(limit) = limit
                    && usage > limit
                {
                    return Err(budget.reached(kind, limit));
                }
            }
        }
        Ok(())
    }
}

/// Calls that a running node has claimed from the budgets of its actor and of all actors above it, so that concurrent
/// nodes together stay within the limits.
pub(super) struct UsageClaim<'a> {
    budget: &'a Budget<'a>,
    calls: Mutex<Calls>,
    /// The limit that refused a claim.
    refused: OnceLock<Halt>,
}

impl UsageClaim<'_> {
    /// Claims calls from every budget or from none.
    fn claim_calls(&self, call: CallKind, additional: u64) -> bool {
        if self.refused.get().is_some() {
            return false;
        }
        let calls = Calls::from_call(call, additional);
        for (position, budget) in self.budget.chain().enumerate() {
            let mut count = lock(&budget.count);
            if let Err(halt) = budget.require(call, additional, &count) {
                drop(count);
                for budget in self.budget.chain().take(position) {
                    lock(&budget.count).claimed.subtract(calls);
                }
                // Only the first refusal is reported.
                let _already_set = self.refused.set(halt);
                return false;
            }
            count.claimed.add(calls);
        }
        lock(&self.calls).add(calls);
        true
    }

    /// Replaces the claimed calls by the actual usage when the node ends. Returns the limit that refused a claim, if
    /// any.
    pub(super) fn finish(self, usage: StepUsage) -> Option<Halt> {
        let calls = *lock(&self.calls);
        for budget in self.budget.chain() {
            let mut count = lock(&budget.count);
            count.claimed.subtract(calls);
            count.usage = count.usage.plus(usage);
        }
        self.refused.into_inner()
    }
}

impl Allowance for UsageClaim<'_> {
    fn count(&self, usage: StepUsage) {
        let calls = Calls {
            models: usage.model_calls,
            tools: usage.tool_calls,
        };
        for budget in self.budget.chain() {
            lock(&budget.count).claimed.add(calls);
        }
        lock(&self.calls).add(calls);
    }

    fn ask(&self) -> bool {
        self.claim_calls(CallKind::Model, 1)
    }

    fn call(&self, calls: u64) -> bool {
        self.claim_calls(CallKind::Tool, calls)
    }
}

impl Calls {
    const fn from_call(call: CallKind, number: u64) -> Self {
        match call {
            CallKind::Model => Self {
                models: number,
                tools: 0,
            },
            CallKind::Tool => Self {
                models: 0,
                tools: number,
            },
        }
    }

    const fn add(&mut self, additional: Self) {
        self.models = self.models.saturating_add(additional.models);
        self.tools = self.tools.saturating_add(additional.tools);
    }

    const fn subtract(&mut self, other: Self) {
        self.models = self.models.saturating_sub(other.models);
        self.tools = self.tools.saturating_sub(other.tools);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the stricter limit of each pair.
pub(super) fn narrower(first: Limits, second: Limits) -> Limits {
    fn minimum<T: Ord>(first: Option<T>, second: Option<T>) -> Option<T> {
        match (first, second) {
            (Some(first), Some(second)) => Some(first.min(second)),
            (first, second) => first.or(second),
        }
    }
    Limits {
        max_steps: first.max_steps.min(second.max_steps),
        max_depth: first.max_depth.min(second.max_depth),
        max_model_calls: minimum(first.max_model_calls, second.max_model_calls),
        max_tool_calls: minimum(first.max_tool_calls, second.max_tool_calls),
        timeout: minimum(first.timeout, second.timeout),
        max_cost: minimum(first.max_cost, second.max_cost),
    }
}
