//! Creates plans through the functions of the store, for tests of code that displays plans.

use cleveragents_domain::{
    Action, ActionActors, AutomationProfile, ContextSnapshot, DecisionId, DecisionType,
    NewDecision, PlanActors, PlanId, PlanInputs, PlanPhase, PlanProfile, PlanProject, PlanStep,
    PlanStrategy, StageTransition, StepState, Waiting,
};
use cleveragents_store::plan_steps::{NewStep, StepEnd};
use cleveragents_store::plans::{NewPlan, TransitionDetails};
use cleveragents_store::{Engine, Error, decisions, plan_steps, plans};
use serde_json::{Map, Value, json};

/// SQL statement that sets the usage of a plan, which normally is the sum of its runs.
pub const SET_USAGE: &str = "UPDATE plans SET input_tokens = 1200, output_tokens = 300, cost_micro_usd = 12500, \
     model_calls = 3, tool_calls = 2";

/// A new plan from `local/fix-tests` for the project `local/shop`, with the supervised profile.
pub fn new_plan(name: &str) -> NewPlan {
    let profile = AutomationProfile::find_built_in("supervised").expect("it is built in");
    NewPlan {
        id: PlanId::generate(),
        name: Some(name.to_owned()),
        action: "local/fix-tests".to_owned(),
        above: None,
        description: "Fix the failing test".to_owned(),
        definition_of_done: "- all tests pass".to_owned(),
        inputs: PlanInputs {
            action: Some(Action {
                name: "local/fix-tests".to_owned(),
                description: "Fix the failing test".to_owned(),
                long_description: None,
                definition_of_done: "- all tests pass".to_owned(),
                actors: ActionActors::default(),
                reusable: true,
                read_only: false,
                arguments: Vec::new(),
                automation_profile: None,
                invariants: Vec::new(),
                safety_profile: None,
                parts: None,
            }),
            arguments: Map::from_iter([("suite".to_owned(), json!("unit"))]),
            arguments_order: vec!["suite".to_owned()],
            projects: vec![PlanProject {
                name: "local/shop".to_owned(),
                alias: "shop".to_owned(),
                read_only: false,
            }],
            actors: PlanActors {
                strategy: "builtin/strategist".to_owned(),
                execution: "builtin/executor".to_owned(),
                ..PlanActors::default()
            },
            profile: PlanProfile {
                name: "supervised".to_owned(),
                source: "global".to_owned(),
                snapshot: profile,
            },
            read_only: false,
            max_cost_micro_usd: Some(2_000_000),
            report: None,
        },
    }
}

pub fn store(engine: &Engine, new: &NewPlan) -> PlanId {
    let (id, new) = (new.id, new.clone());
    write(engine, move |unit| plans::insert(unit, &new));
    id
}

/// Runs a unit of work that must succeed.
pub fn write<T: Send + 'static>(
    engine: &Engine,
    mut work: impl FnMut(&mut cleveragents_store::UnitOfWork<'_>) -> Result<T, Error> + Send + 'static,
) -> T {
    engine
        .write(move |unit| work(unit))
        .expect("the unit is stored")
}

/// Makes stage transitions of a plan. Panics if one is not allowed.
pub fn advance(engine: &Engine, plan: PlanId, transitions: &[StageTransition]) {
    for transition in transitions.iter().copied() {
        write(engine, move |unit| {
            plans::advance(unit, plan, transition, &TransitionDetails::default())
        })
        .unwrap_or_else(|| panic!("transition {transition:?} is allowed"));
    }
}

/// Makes a plan fail in its current phase.
pub fn fail(engine: &Engine, plan: PlanId, transition: StageTransition, error: &Value) {
    let error = error.as_object().cloned();
    write(engine, move |unit| {
        let details = TransitionDetails {
            error: error.clone(),
            reason: Some("it failed".to_owned()),
            ..TransitionDetails::default()
        };
        plans::advance(unit, plan, transition, &details)
    })
    .expect("the transition is allowed");
}

/// Makes a plan wait.
pub fn wait_for(engine: &Engine, plan: PlanId, waiting: Waiting) {
    write(engine, move |unit| plans::wait_for(unit, plan, &waiting));
}

/// A decision that is not stored yet.
pub fn decision(kind: DecisionType, parent: Option<DecisionId>, chosen: &str) -> NewDecision {
    NewDecision {
        id: DecisionId::generate(),
        parent,
        kind,
        phase: PlanPhase::Strategize,
        question: "How?".to_owned(),
        chosen: chosen.to_owned(),
        alternatives: Vec::new(),
        confidence: None,
        rationale: String::new(),
        reasoning: None,
        snapshot: ContextSnapshot::default(),
        artifacts: Vec::new(),
        influenced_by: Vec::new(),
    }
}

/// Stores decisions of a plan, in order.
pub fn decide(engine: &Engine, plan: PlanId, all: &[NewDecision]) {
    let all = all.to_vec();
    write(engine, move |unit| {
        for decision in &all {
            decisions::insert(unit, plan, decision)?;
        }
        Ok(())
    });
}

/// Stores a step with an outcome.
pub fn step(
    engine: &Engine,
    plan: PlanId,
    path: &str,
    title: &str,
    end: Option<(StepState, &str)>,
) {
    let new = NewStep {
        path: path.to_owned(),
        title: title.to_owned(),
        checkpoint: None,
        position: 0,
    };
    let end = end.map(|(state, summary)| StepEnd {
        state,
        summary: summary.to_owned(),
        position: 0,
        decision: None,
    });
    write(engine, move |unit| {
        let step_started = plan_steps::begin(unit, plan, &new)?;
        if let Some(end) = &end {
            plan_steps::finish(unit, plan, step_started.number, end)?;
        }
        Ok(())
    });
}

/// The decisions of [`store_example_strategy`].
#[derive(Debug, Clone, Copy)]
pub struct Decisions {
    /// Task of the plan.
    pub root: DecisionId,
    /// Enforced invariant.
    pub invariant: DecisionId,
    /// Chosen strategy.
    pub strategy: DecisionId,
    /// Superseded strategy.
    pub replaced: DecisionId,
    /// Executed work, influenced by the invariant.
    pub work: DecisionId,
}

/// Stores a strategy with two steps and five decisions, one of them superseded.
pub fn store_example_strategy(engine: &Engine, plan: PlanId) -> Decisions {
    advance(engine, plan, &[StageTransition::StartStrategize]);
    let root = decision(DecisionType::PromptDefinition, None, "Fix the failing test");
    let mut invariant = decision(
        DecisionType::InvariantEnforced,
        Some(root.id),
        "Never touch the migrations",
    );
    invariant.confidence = Some(1.0);
    let replaced = decision(
        DecisionType::StrategyChoice,
        Some(root.id),
        "Delete the test",
    );
    let mut strategy = decision(
        DecisionType::StrategyChoice,
        Some(root.id),
        "Correct the sum",
    );
    strategy.alternatives = vec!["Delete the test".to_owned(), "Skip it".to_owned()];
    strategy.confidence = Some(0.82);
    "The sum is wrong, and the test is right.".clone_into(&mut strategy.rationale);
    strategy.reasoning = Some("First I looked at the test.".to_owned());
    strategy.snapshot.relevant_resources = vec!["local/shop".to_owned()];
    let mut work = decision(
        DecisionType::ImplementationChoice,
        Some(strategy.id),
        "Use checked addition",
    );
    work.phase = PlanPhase::Execute;
    work.confidence = Some(0.4);
    work.artifacts = vec!["src/sum.py".to_owned()];
    work.influenced_by = vec![invariant.id];
    let found = Decisions {
        root: root.id,
        invariant: invariant.id,
        strategy: strategy.id,
        replaced: replaced.id,
        work: work.id,
    };
    decide(engine, plan, &[root, invariant, replaced, strategy, work]);
    let plan_strategy = PlanStrategy {
        summary: "Correct the sum, then run the tests.".to_owned(),
        risk: Some(0.2),
        steps: vec![
            PlanStep {
                title: "Correct the sum".to_owned(),
                description: "Use checked addition.".to_owned(),
                files: vec!["src/sum.py".to_owned()],
                risk: Some(0.3),
                ..PlanStep::default()
            },
            PlanStep {
                title: "Run the tests".to_owned(),
                after: vec![1],
                ..PlanStep::default()
            },
        ],
        children: None,
    };
    write(engine, move |unit| {
        decisions::supersede(unit, plan, &[found.replaced], found.strategy)?;
        plans::set_root(unit, plan, found.root)?;
        plans::set_strategy(unit, plan, Some(&plan_strategy))
    });
    advance(engine, plan, &[StageTransition::CompleteStrategize]);
    found
}

/// Executes the plan of [`store_example_strategy`] up to the end of its first step.
pub fn execute_first_step(engine: &Engine, plan: PlanId) {
    advance(
        engine,
        plan,
        &[StageTransition::QueueExecute, StageTransition::StartExecute],
    );
    let done = Some((StepState::Done, "The sum is right"));
    step(engine, plan, "step/1", "Correct the sum", done);
    step(engine, plan, "step/2", "Run the tests", None);
}
