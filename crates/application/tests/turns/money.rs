//! Budgets: reserved before a call, settled after it, and never exceeded by concurrent calls.

use std::sync::Arc;

use cleveragents_application::{SpendScope, StoreBudget};
use cleveragents_domain::MicroUsd;
use cleveragents_store::budgets;
use cleveragents_testkit::{TestDatabase, at_once};
use cleveragents_tools::ToolName;
use cleveragents_tools::ports::{Budget, BudgetRefusal, Reservation, Spending, SpendingLimits};

use crate::support::{TestUser, TurnFixture, TurnSetup};

fn scope(limit: u64) -> SpendScope {
    SpendScope {
        name: "session test".to_owned(),
        limit: Some(MicroUsd(limit)),
    }
}

#[test]
fn thirty_two_calls_at_once_stay_within_the_budget() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let tool: ToolName = "local/paid".parse().expect("a name");
        let paid = at_once(32, |_| {
            let budget = StoreBudget::new(Arc::clone(&engine), vec![scope(1_000)]);
            let spending = Spending {
                tool: &tool,
                cost: MicroUsd(70),
                limits: SpendingLimits::default(),
            };
            match budget.reserve(&spending) {
                Ok(reservation) => {
                    reservation.charge(MicroUsd(70)).expect("settled");
                    1_u64
                }
                Err(BudgetRefusal::Money { limit, used }) => {
                    assert_eq!(limit, MicroUsd(1_000));
                    assert!(used.0 + 70 > 1_000, "{used:?}");
                    0
                }
                Err(other) => panic!("{other:?}"),
            }
        });
        let paid: u64 = paid.into_iter().sum();
        let used = engine
            .read(|reader| budgets::used(reader, "session test"))
            .expect("read");
        assert_eq!(used.spent, MicroUsd(paid * 70), "the sum of all charges");
        assert_eq!(used.reserved, MicroUsd(0));
        assert!(used.spent.0 <= 1_000 && paid >= 1, "{paid}");
    }
}

fn reserved<'b>(budget: &'b StoreBudget, spending: &Spending<'_>) -> Box<dyn Reservation + 'b> {
    match budget.reserve(spending) {
        Ok(reservation) => reservation,
        Err(refusal) => panic!("there is room: {refusal:?}"),
    }
}

#[test]
fn unused_reservations_are_released_and_calls_are_counted() {
    let database = TestDatabase::each().remove(0);
    let engine = database.open();
    let budget = StoreBudget::new(Arc::clone(&engine), vec![scope(150)]);
    let tool: ToolName = "local/paid".parse().expect("a name");
    let spending = Spending {
        tool: &tool,
        cost: MicroUsd(60),
        limits: SpendingLimits {
            calls_per_step: Some(2),
            ..SpendingLimits::default()
        },
    };
    for _ in 0..5 {
        drop(reserved(&budget, &spending));
    }
    reserved(&budget, &spending)
        .charge(MicroUsd(30))
        .expect("settled");
    let kept = reserved(&budget, &spending);
    assert!(matches!(
        budget.reserve(&spending),
        Err(BudgetRefusal::Calls { limit: 2 })
    ));
    drop(kept);
    budget.begin_step();
    let empty = StoreBudget::new(engine, vec![scope(0)]);
    let refused = empty.reserve(&spending);
    assert!(
        matches!(refused, Err(BudgetRefusal::Money { .. })),
        "a limit of zero allows no cost"
    );
}

#[test]
fn defect_5360_the_cost_limit_is_checked_before_the_call_limit() {
    let database = TestDatabase::each().remove(0);
    let engine = database.open();
    let budget = StoreBudget::new(Arc::clone(&engine), vec![scope(100)]);
    let tool: ToolName = "local/paid".parse().expect("a name");
    let spending = |cost: u64, calls: u64| Spending {
        tool: &tool,
        cost: MicroUsd(cost),
        limits: SpendingLimits {
            calls_per_step: Some(calls),
            ..SpendingLimits::default()
        },
    };
    let refused = budget.reserve(&spending(101, 0));
    assert!(
        matches!(refused, Err(BudgetRefusal::Money { .. })),
        "both limits are exceeded"
    );
    let refused = budget.reserve(&spending(100, 0));
    assert!(
        matches!(refused, Err(BudgetRefusal::Calls { limit: 0 })),
        "only the limit of calls is exceeded"
    );
    let used = engine
        .read(|reader| budgets::used(reader, "session test"))
        .expect("read");
    assert_eq!((used.spent, used.reserved), (MicroUsd(0), MicroUsd(0)));
    // A refused call does not count.
    drop(reserved(&budget, &spending(100, 1)));
}

#[test]
fn the_limit_of_a_plan_does_not_count_other_costs_of_the_day() {
    let database = TestDatabase::each().remove(0);
    let engine = database.open();
    let day = SpendScope {
        name: "day test".to_owned(),
        limit: None,
    };
    let tool: ToolName = "local/paid".parse().expect("a name");
    let spending = |cost: u64| Spending {
        tool: &tool,
        cost: MicroUsd(cost),
        limits: SpendingLimits {
            cost_per_plan: Some(MicroUsd(50)),
            ..SpendingLimits::default()
        },
    };
    let others = StoreBudget::new(Arc::clone(&engine), vec![day.clone()]);
    let unlimited = Spending {
        limits: SpendingLimits::default(),
        ..spending(60)
    };
    reserved(&others, &unlimited)
        .charge(MicroUsd(60))
        .expect("settled");
    let budget = StoreBudget::new(engine, vec![scope(1_000), day]);
    for cost in [0, 50] {
        drop(reserved(&budget, &spending(cost)));
    }
    let refused = budget.reserve(&spending(51));
    assert!(matches!(
        refused,
        Err(BudgetRefusal::Money {
            limit: MicroUsd(50),
            used: MicroUsd(0)
        })
    ));
}

#[test]
fn uncounted_usage_is_charged_at_its_maximum() {
    let database = TestDatabase::each().remove(0);
    let fixture = TurnFixture::new(&database);
    let user = TestUser::absent();
    let script = "price: {input: 1, output: 1}
answers:
- {text: Done., usage: {input_tokens: 0, output_tokens: 0}}
";
    let mut setup = TurnSetup::asking("go", &user);
    setup.scopes = vec![scope(1_000_000)];
    let report = fixture.run_turn(script, setup).expect("answered");
    assert!(report.is_cost_partial, "the cost is unknown");
    let budget = fixture
        .engine
        .read(|reader| budgets::used(reader, "session test"))
        .expect("read");
    assert!(budget.spent.0 > 0, "{budget:?}");
    assert_eq!(budget.reserved, MicroUsd(0));
}

#[test]
fn a_cost_limit_without_a_price_is_reported() {
    let database = TestDatabase::each().remove(0);
    let fixture = TurnFixture::new(&database);
    let user = TestUser::absent();
    for (price, limit, is_reported) in [
        ("", Some(MicroUsd(5)), true),
        ("", None, false),
        ("price: {input: 0, output: 0}\n", Some(MicroUsd(5)), false),
    ] {
        let script = format!("{price}at_end: repeat_last\nanswers:\n- {{text: Done.}}\n");
        let mut setup = TurnSetup::asking("go", &user);
        setup.scopes = vec![SpendScope { limit, ..scope(0) }];
        let report = fixture.run_turn(&script, setup).expect("answered");
        assert_eq!(
            report.caveats().count(),
            usize::from(is_reported),
            "{price}"
        );
    }
}
