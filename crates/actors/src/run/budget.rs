//! [`Budget`]: what an actor at work has taken, and its limits. What a subgraph takes, all actors above
//! it have taken too.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::error::LimitKind;
use super::halt::Halt;
use crate::graph::Limits;
use crate::ports::{Inside, Taken};

pub(super) struct Budget<'a> {
    above: Option<&'a Self>,
    limits: Limits,
    depth: u32,
    steps: AtomicU64,
    taken: Mutex<Taken>,
}

/// What a node is about to do.
#[derive(Clone, Copy)]
pub(super) enum Call {
    Model,
    Tool,
}

impl<'a> Budget<'a> {
    pub(super) fn of_run(limits: Limits) -> Self {
        Self::new(None, limits, 0)
    }

    /// That of a subgraph.
    pub(super) fn below(&'a self, limits: Limits) -> Self {
        Budget::new(Some(self), limits, self.depth + 1)
    }

    fn new(above: Option<&'a Self>, limits: Limits, depth: u32) -> Self {
        Self {
            above,
            limits,
            depth,
            steps: AtomicU64::new(0),
            taken: Mutex::default(),
        }
    }

    pub(super) const fn depth(&self) -> u32 {
        self.depth
    }

    pub(super) fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    pub(super) fn taken(&self) -> Taken {
        *self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The limit on time is reached.
    pub(super) fn late(&self) -> Halt {
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

    /// This one and all above it.
    fn chain(&self) -> impl Iterator<Item = &Budget<'a>> {
        std::iter::successors(Some(self), |budget| budget.above)
    }

    /// Another step begins.
    pub(super) fn begin_step(&self) -> Result<(), Halt> {
        for budget in self.chain() {
            let limit = budget.limits.max_steps;
            if budget.steps.fetch_add(1, Ordering::Relaxed) >= limit {
                return Err(budget.reached(LimitKind::Steps, limit));
            }
        }
        Ok(())
    }

    /// A subgraph begins at one more than the depth of this.
    pub(super) fn begin_subgraph(&self) -> Result<(), Halt> {
        for budget in self.chain() {
            let limit = budget.limits.max_depth;
            if self.depth + 1 - budget.depth > limit {
                return Err(budget.reached(LimitKind::Depth, limit.into()));
            }
        }
        Ok(())
    }

    /// A question or a call begins: there must be something left for it.
    pub(super) fn begin_call(&self, call: Call) -> Result<(), Halt> {
        for budget in self.chain() {
            let (limits, taken) = (&budget.limits, budget.taken());
            let (kind, limit, calls) = match call {
                Call::Model => (
                    LimitKind::ModelCalls,
                    limits.max_model_calls,
                    taken.model_calls,
                ),
                Call::Tool => (
                    LimitKind::ToolCalls,
                    limits.max_tool_calls,
                    taken.tool_calls,
                ),
            };
            if let Some(limit) = limit
                && calls >= limit
            {
                return Err(budget.reached(kind, limit));
            }
            if let Some(limit) = limits.max_cost
                && taken.usage.cost_micro_usd >= limit
            {
                return Err(budget.reached(LimitKind::Cost, limit.0));
            }
        }
        Ok(())
    }

    /// Something was taken.
    pub(super) fn take(&self, more: Taken) {
        if more == Taken::default() {
            return;
        }
        for budget in self.chain() {
            let mut taken = budget.taken.lock().unwrap_or_else(PoisonError::into_inner);
            *taken = taken.plus(more);
        }
    }

    /// What was taken inside a recalled step.
    pub(super) fn take_inside(&self, inside: Inside) {
        self.take(inside.taken);
        for budget in self.chain() {
            budget.steps.fetch_add(inside.steps, Ordering::Relaxed);
        }
    }

    /// After a step: whether more was taken than is allowed.
    pub(super) fn check(&self) -> Result<(), Halt> {
        for budget in self.chain() {
            let limits = &budget.limits;
            if limits.max_model_calls.is_none()
                && limits.max_tool_calls.is_none()
                && limits.max_cost.is_none()
            {
                continue;
            }
            let taken = budget.taken();
            let cost = taken.usage.cost_micro_usd.0;
            for (kind, limit, taken) in [
                (
                    LimitKind::ModelCalls,
                    limits.max_model_calls,
                    taken.model_calls,
                ),
                (
                    LimitKind::ToolCalls,
                    limits.max_tool_calls,
                    taken.tool_calls,
                ),
                (LimitKind::Cost, limits.max_cost.map(|cost| cost.0), cost),
            ] {
                if let Some(limit) = limit
                    && taken > limit
                {
                    return Err(budget.reached(kind, limit));
                }
            }
        }
        Ok(())
    }
}

/// Both limits, whichever is narrower.
pub(super) fn narrower(first: Limits, second: Limits) -> Limits {
    fn least<T: Ord>(first: Option<T>, second: Option<T>) -> Option<T> {
        match (first, second) {
            (Some(first), Some(second)) => Some(first.min(second)),
            (first, second) => first.or(second),
        }
    }
    Limits {
        max_steps: first.max_steps.min(second.max_steps),
        max_depth: first.max_depth.min(second.max_depth),
        max_model_calls: least(first.max_model_calls, second.max_model_calls),
        max_tool_calls: least(first.max_tool_calls, second.max_tool_calls),
        timeout: least(first.timeout, second.timeout),
        max_cost: least(first.max_cost, second.max_cost),
    }
}
