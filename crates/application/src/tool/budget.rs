//! [`StoreBudget`]: records spending in the store, shared by all processes, and counts the calls of
//! one step in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cleveragents_domain::{EventKind, MicroUsd, NewEvent, Owner, ToolInvocationId};
use cleveragents_store::budgets::{self, ScopeUsage, StoredReservation};
use cleveragents_store::{Engine, Error, UnitOfWork};
use cleveragents_tools::ports::{Budget, BudgetRefusal, PortError, Reservation, Spending};
use serde_json::json;

use crate::process::{Liveness, current_owner, liveness};

/// A scope that counts spending, with its limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpendScope {
    /// Name of the scope, such as `session 01J…` or `day 2026-01-31`.
    pub name: String,
    /// Maximum spending; `None` counts spending without a limit.
    pub limit: Option<MicroUsd>,
}

/// Calls and spending of one turn.
pub struct StoreBudget {
    engine: Arc<Engine>,
    owner: Owner,
    scopes: Vec<SpendScope>,
    calls: AtomicU64,
}

/// Reason why a reservation failed.
#[derive(Debug)]
pub(crate) enum Shortage {
    /// The scope would exceed its limit.
    Money {
        scope: String,
        limit: MicroUsd,
        used: MicroUsd,
    },
    /// The store failed.
    Store(Error),
}

impl Shortage {
    fn exceeded(scope: &SpendScope, limit: Option<MicroUsd>, used: ScopeUsage) -> Self {
        Self::Money {
            scope: scope.name.clone(),
            limit: limit.unwrap_or_default(),
            used: MicroUsd(used.spent.0 + used.reserved.0),
        }
    }
}

impl From<Error> for Shortage {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl StoreBudget {
    /// Creates a budget. A reservation must be within the limits of all scopes. The cost limits of
    /// profiles and guards apply to the first scope, which is the session or plan itself.
    pub fn new(engine: Arc<Engine>, scopes: Vec<SpendScope>) -> Self {
        Self {
            engine,
            owner: current_owner(),
            scopes,
            calls: AtomicU64::new(0),
        }
    }

    /// Starts a new step and resets its call count to zero.
    pub fn begin_step(&self) {
        self.go_on_with_step(0);
    }

    /// Resumes a step that already made `calls` calls.
    pub fn go_on_with_step(&self, calls: u64) {
        self.calls.store(calls, Ordering::Relaxed);
    }

    /// Every scope with its limit; `extra` is an additional limit of the first scope.
    fn limits(&self, extra: Option<MicroUsd>) -> Vec<(SpendScope, Option<MicroUsd>)> {
        let extras = std::iter::once(extra).chain(std::iter::repeat(None));
        let scopes = self.scopes.iter().cloned().zip(extras);
        scopes
            .map(|(scope, extra)| {
                let limit = [scope.limit, extra].into_iter().flatten().min();
                (scope, limit)
            })
            .collect()
    }

    /// Reserves money in every scope, or in none. `extra` is an additional limit of the first scope. Emits an event
    /// when the budget is exceeded.
    pub(crate) fn reserve_money(
        &self,
        amount: MicroUsd,
        extra: Option<MicroUsd>,
    ) -> Result<MoneyReservation<'_>, Shortage> {
        self.probe_money(amount, extra)
            .inspect_err(|shortage| self.announce(shortage))
    }

    /// Like [`Self::reserve_money`], but without the event, for callers that can reduce their request.
    pub(crate) fn probe_money(
        &self,
        amount: MicroUsd,
        extra: Option<MicroUsd>,
    ) -> Result<MoneyReservation<'_>, Shortage> {
        let id = ToolInvocationId::generate();
        match self.try_reserve(id, amount, extra) {
            Err(Shortage::Money { .. }) => {
                // Reservations of dead processes may be larger than their real cost: settle them, then retry.
                self.charge_dead_reservations()?;
                self.try_reserve(id, amount, extra)
            }
            other => other,
        }
    }

    fn try_reserve(
        &self,
        id: ToolInvocationId,
        amount: MicroUsd,
        extra: Option<MicroUsd>,
    ) -> Result<MoneyReservation<'_>, Shortage> {
        if amount == MicroUsd(0) {
            self.require_room(extra)?;
            return Ok(MoneyReservation::empty(self));
        }
        let (limits, owner) = (self.limits(extra), self.owner.clone());
        self.engine.write(move |unit| {
            for (scope, limit) in &limits {
                if !budgets::reserve(unit, id, &scope.name, amount, *limit, &owner)? {
                    return Err(Shortage::exceeded(
                        scope,
                        *limit,
                        budgets::used(unit, &scope.name)?,
                    ));
                }
            }
            Ok(())
        })?;
        Ok(MoneyReservation {
            budget: self,
            reserved: Some(id),
        })
    }

    /// Checks that no limit is already exceeded. Free calls use this check instead of a reservation,
    /// which would need two writes.
    fn require_room(&self, extra: Option<MicroUsd>) -> Result<(), Shortage> {
        for (scope, limit) in self.limits(extra) {
            let Some(maximum) = limit else {
                continue;
            };
            let used = self
                .engine
                .read(|reader| budgets::used(reader, &scope.name))?;
            if used.spent.0 + used.reserved.0 > maximum.0 {
                return Err(Shortage::exceeded(&scope, limit, used));
            }
        }
        Ok(())
    }

    fn announce(&self, shortage: &Shortage) {
        let Shortage::Money { scope, limit, used } = shortage else {
            return;
        };
        let (scope, limit, used) = (scope.clone(), *limit, *used);
        // Ignore a failure to store the event: the caller reports and stores the refusal itself.
        let _sent = self.engine.write(move |unit| {
            unit.emit(NewEvent {
                kind: EventKind::BudgetExhausted,
                subject: scope.clone(),
                payload: json!({"limit_micro_usd": limit, "used_micro_usd": used}),
            });
            Ok::<(), Error>(())
        });
    }

    /// Charges the reservations of dead processes in full, because the calls may have been billed.
    fn charge_dead_reservations(&self) -> Result<(), Error> {
        for scope in &self.scopes {
            let reservations = self
                .engine
                .read(|reader| budgets::reservations(reader, &scope.name))?;
            let is_dead =
                |reservation: &&StoredReservation| liveness(&reservation.owner) == Liveness::Dead;
            for dead in reservations.iter().filter(is_dead) {
                let (id, amount, name) = (dead.id, dead.amount, scope.name.clone());
                self.engine
                    .write(move |unit| budgets::spend_reserved(unit, id, &name, amount))?;
            }
        }
        Ok(())
    }

    fn write_settlement(&self, settlement: Settlement) -> Result<(), Error> {
        if settlement.is_empty() {
            return Ok(());
        }
        self.engine.write(move |unit| settlement.write(unit))
    }
}

/// Money reserved for one call.
pub(crate) struct MoneyReservation<'a> {
    budget: &'a StoreBudget,
    /// The id of the reservation; `None` for a free call.
    reserved: Option<ToolInvocationId>,
}

impl<'a> MoneyReservation<'a> {
    const fn empty(budget: &'a StoreBudget) -> Self {
        Self {
            budget,
            reserved: None,
        }
    }

    /// Converts the reservation to the actual spending.
    pub(crate) fn charge(self, spent: MicroUsd) -> Result<(), Error> {
        let budget = self.budget;
        budget.write_settlement(self.settlement(spent))
    }

    /// Like [`Self::charge`], but returns the settlement for the caller to write together with other
    /// rows. If it is never written, another process charges the reservation in full after this
    /// process died.
    pub(crate) fn settlement(mut self, spent: MicroUsd) -> Settlement {
        self.take_settlement(spent)
    }

    fn take_settlement(&mut self, spent: MicroUsd) -> Settlement {
        let scopes = self.budget.scopes.iter();
        Settlement {
            reserved: self.reserved.take(),
            scopes: scopes.map(|scope| scope.name.clone()).collect(),
            owner: self.budget.owner.clone(),
            spent,
        }
    }
}

impl Drop for MoneyReservation<'_> {
    fn drop(&mut self) {
        if self.reserved.is_some() {
            let settlement = self.take_settlement(MicroUsd(0));
            // If the release fails, another process charges the reservation after this process died.
            let _ignored = self.budget.write_settlement(settlement);
        }
    }
}

/// The actual spending that replaces a reservation.
pub(crate) struct Settlement {
    reserved: Option<ToolInvocationId>,
    scopes: Vec<String>,
    owner: Owner,
    spent: MicroUsd,
}

impl Settlement {
    /// Whether there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.reserved.is_none() && self.spent == MicroUsd(0)
    }

    /// Writes the settlement. Idempotent, because a unit may run twice.
    pub(crate) fn write(&self, unit: &mut UnitOfWork<'_>) -> Result<(), Error> {
        if self.is_empty() {
            return Ok(());
        }
        let id = self.reserved.unwrap_or_else(ToolInvocationId::generate);
        for scope in &self.scopes {
            // A call without a reservation may still have a cost.
            if self.reserved.is_none() {
                budgets::reserve(unit, id, scope, MicroUsd(0), None, &self.owner)?;
            }
            budgets::spend_reserved(unit, id, scope, self.spent)?;
        }
        Ok(())
    }
}

struct ReservedCall<'a> {
    money: MoneyReservation<'a>,
    calls: Option<&'a AtomicU64>,
}

impl Reservation for ReservedCall<'_> {
    fn charge(mut self: Box<Self>, cost: MicroUsd) -> Result<(), PortError> {
        self.calls = None;
        let settlement = self.money.take_settlement(cost);
        self.money
            .budget
            .write_settlement(settlement)
            .map_err(PortError::new)
    }
}

impl Drop for ReservedCall<'_> {
    fn drop(&mut self) {
        if let Some(calls) = self.calls {
            calls.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Budget for StoreBudget {
    fn reserve(&self, spending: &Spending<'_>) -> Result<Box<dyn Reservation + '_>, BudgetRefusal> {
        let extra = [spending.limits.cost_per_plan, spending.limits.total_cost];
        let extra = extra.into_iter().flatten().min();
        // If the call limit is exceeded, dropping `reserved` releases the reservation.
        let reserved =
            self.reserve_money(spending.cost, extra)
                .map_err(|shortage| match shortage {
                    Shortage::Money { limit, used, .. } => BudgetRefusal::Money { limit, used },
                    Shortage::Store(error) => BudgetRefusal::Failed(PortError::new(error)),
                })?;
        let max_calls = spending.limits.calls_per_step.unwrap_or(u64::MAX);
        self.calls
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |calls| {
                (calls < max_calls).then_some(calls + 1)
            })
            .map_err(|_| BudgetRefusal::Calls { limit: max_calls })?;
        Ok(Box::new(ReservedCall {
            money: reserved,
            calls: Some(&self.calls),
        }))
    }
}
