//! Many child plans at the same time, with a shared cost limit, and child plans of child plans.

use std::sync::Arc;

use cleveragents_application::{
    DefaultActors, DriveOptions, NoObserver, PlanDefaults, PlanError, PlanFrontEnd, Scheduler,
    UseAction,
};
use cleveragents_domain::{
    ChildState, Code, Diagnose as _, MicroUsd, Plan, PlanId, PlanPhase, PlanStage, PlanStep,
    PlanStrategy, Waiting,
};
use cleveragents_process::Cancel;
use cleveragents_store::{budgets, child_plans, plans};
use cleveragents_testkit::TestDatabase;
use cleveragents_tools::ports::Approval;

use crate::children::{DivisionFixture, model};
use crate::support::{PlanEnvironment, User, git};

pub(crate) const TESTS: &[(&str, fn())] = &[
    (
        "many_parallel_child_plans_are_merged",
        many_parallel_child_plans_are_merged,
    ),
    (
        "an_overlap_of_many_child_plans_merges_nothing",
        an_overlap_of_many_child_plans_merges_nothing,
    ),
    (
        "parallel_child_plans_stay_within_the_cost_limit_of_their_parent",
        parallel_child_plans_stay_within_the_cost_limit_of_their_parent,
    ),
    (
        "child_plans_of_child_plans_run_in_one_slot",
        child_plans_of_child_plans_run_in_one_slot,
    ),
];

/// Number of child plans.
const MANY: usize = 24;

const SETTINGS: &str = r#""children": {"max_parallel": 24},"#;

/// A model with [`MANY`] parts. Each writes a file of its own; the parts in `overlapping` write the same one.
fn many_parts(overlapping: &[usize], settings: &str) -> String {
    let parts: Vec<[String; 3]> = (0..MANY)
        .map(|number| {
            let path = if overlapping.contains(&number) {
                "same.txt".to_owned()
            } else {
                format!("folder/{number:02}.txt")
            };
            [format!("Part {number:02}"), path, format!("{number}\\n")]
        })
        .collect();
    let parts: Vec<(&str, &str, &str)> = parts
        .iter()
        .map(|[title, path, content]| (title.as_str(), path.as_str(), content.as_str()))
        .collect();
    model(&parts, settings)
}

fn many_parallel_child_plans_are_merged() {
    let database = TestDatabase::sqlite();
    let script = many_parts(&[], SETTINGS);
    let divided = DivisionFixture::new(&database, &script, &[("price.txt", "wrong\n")]);
    divided.execute().expect("executed");
    assert_eq!(divided.states(), [ChildState::Merged; MANY]);
    assert_eq!(divided.environment.active_sandboxes(), 1);
    divided.drive(PlanPhase::Apply).expect("applied");
    for number in 0..MANY {
        let path = format!("folder/{number:02}.txt");
        assert_eq!(divided.read(&path), Some(format!("{number}\n")), "{path}");
    }
    assert_eq!(divided.read("price.txt").as_deref(), Some("wrong\n"));
    let refs = git(
        &divided.environment.repository,
        &["for-each-ref", "refs/cleveragents"],
    );
    assert_eq!(refs, "");
}

fn an_overlap_of_many_child_plans_merges_nothing() {
    let database = TestDatabase::sqlite();
    let script = many_parts(&[5, 17], SETTINGS);
    let divided = DivisionFixture::new(&database, &script, &[("price.txt", "wrong\n")]);
    let error = divided.execute().expect_err("a conflict");
    assert_eq!(error.code(), Code::PlanWaiting, "{error}");
    let plan = stored(&divided.environment, divided.plan.id);
    let paths = vec!["shop/same.txt".to_owned()];
    assert_eq!(plan.waiting, Some(Waiting::Conflicts { paths }));
    assert!(divided.environment.changed_in_sandbox(&plan).is_empty());
    assert_eq!(divided.states(), [ChildState::Complete; MANY]);
    let conflicts = divided
        .environment
        .engine
        .read(|reader| child_plans::conflicts(reader, plan.id))
        .expect("readable");
    assert_eq!(conflicts.len(), 1, "{conflicts:?}");
    let sizes = [conflicts[0].ours, conflicts[0].theirs].map(|side| side.map(|side| side.size));
    assert_eq!(
        sizes,
        [Some(2), Some(3)],
        "`5` and `17` with their line ends"
    );
    assert_eq!(conflicts[0].child, divided.children()[17].plan);
}

fn parallel_child_plans_stay_within_the_cost_limit_of_their_parent() {
    let limit = MicroUsd(1_000_000);
    for database in TestDatabase::each() {
        let settings = r#""children": {"max_parallel": 24, "on_failure": "continue"},"#;
        let script = format!(
            "price: {{input: 10, output: 30}}\n{}",
            many_parts(&[], settings)
        );
        let files = [("price.txt", "wrong\n")];
        let environment = PlanEnvironment::with(&database, &script, "it is written", &files);
        let user = User::answering(Approval::Once);
        let plan = plan_with_limit(&environment, limit);
        // The profile starts the execution too.
        let error = environment
            .drive(&plan, PlanPhase::Strategize, &user)
            .expect_err("the limit is too low for all child plans");
        assert_eq!(error.code(), Code::PlanFailed, "{error}");
        assert!(error.to_string().contains("budget"), "{error}");

        let scope = format!("plan {}", plan.id);
        let budget = environment
            .engine
            .read(|reader| budgets::used(reader, &scope))
            .expect("readable");
        assert!(budget.spent <= limit, "{budget:?}");
        assert!(
            budget.spent.0 > limit.0 / 2,
            "most of it is spent: {budget:?}"
        );
        assert_eq!(budget.reserved, MicroUsd(0), "nothing runs");
        let stored = stored(&environment, plan.id);
        assert_eq!(stored.usage.cost_micro_usd, budget.spent);
        assert!(!stored.is_cost_partial);
    }
}

fn plan_with_limit(environment: &PlanEnvironment, limit: MicroUsd) -> Plan {
    let request = UseAction {
        action: "local/fix".to_owned(),
        projects: vec!["local/shop".to_owned()],
        max_cost: Some(limit),
        ..UseAction::default()
    };
    let defaults = PlanDefaults {
        profile: "trusted".to_owned(),
        actors: DefaultActors::default(),
    };
    environment
        .plans
        .create(&request, &defaults, &|_| None)
        .expect("a plan")
}

/// Each plan fails until its strategy gets a child plan.
fn child_plans_of_child_plans_run_in_one_slot() {
    const LEVELS: u64 = 5;
    for database in TestDatabase::each() {
        let strategy = r#"
answers:
- when: '^Make the strategy'
  text: |
    {"summary": "Down", "steps": [{"title": "Level 1", "description": "Write.", "child_plan": true}]}
- when: '^Review the result'
  text: '{"criteria": [{"number": 1, "met": true, "evidence": "seen"}]}'
"#;
        let refusing =
            format!("at_end: repeat_last{strategy}- text: I'm unable to help with that.\n");
        let writing = format!(
            "at_end: repeat_last{strategy}- when: '^Execute step 1 of 1: Level'\n  text: I write it.\n  \
             calls:\n  - {{name: builtin/file-write, arguments: {{path: deep.txt, content: \"deep\\n\"}}}}\n\
             - text: It is written.\n"
        );
        let files = [("price.txt", "wrong\n")];
        let environment = PlanEnvironment::with(&database, &refusing, "it is written", &files);
        let plan = environment.plan("trusted");
        let mut deepest = plan.id;
        for level in 1..=LEVELS {
            let phase = if level == 1 {
                PlanPhase::Strategize
            } else {
                divide(&environment, deepest, level);
                PlanPhase::Execute
            };
            let error = run_in_one_slot(&environment, &plan, phase);
            let error = error.expect_err("the model refuses");
            assert_eq!(error.code(), Code::PlanFailed, "level {level}: {error}");
            let parent = deepest;
            let children = environment
                .engine
                .read(|reader| child_plans::of_plan(reader, parent))
                .expect("readable");
            assert_eq!(children.len(), 1, "level {level}");
            deepest = children[0].plan;
        }
        environment.replace_script(&writing);

        let only_step = stored(&environment, deepest).strategy.expect("a strategy");
        divide(&environment, deepest, LEVELS + 1);
        let error = run_in_one_slot(&environment, &plan, PlanPhase::Execute).expect_err("too deep");
        assert!(
            error.to_string().contains("plan.max-child-depth"),
            "{error}"
        );

        environment
            .engine
            .write(move |unit| plans::set_strategy(unit, deepest, Some(&only_step)))
            .expect("stored");
        let executed = run_in_one_slot(&environment, &plan, PlanPhase::Execute).expect("executed");
        assert_eq!(executed.stage, PlanStage::ExecuteComplete);
        assert_eq!(stored(&environment, deepest).stage, PlanStage::ApplyApplied);
        assert_eq!(environment.active_sandboxes(), 1, "the forks are removed");
        run_in_one_slot(&environment, &plan, PlanPhase::Apply).expect("applied");
        let written = std::fs::read_to_string(environment.repository.join("deep.txt"));
        assert_eq!(written.expect("a file"), "deep\n");
    }
}

fn stored(environment: &PlanEnvironment, plan: PlanId) -> Plan {
    environment.plans.get(plan).expect("it exists")
}

/// Replaces the strategy of a plan by one step that is a child plan.
fn divide(environment: &PlanEnvironment, plan: PlanId, level: u64) {
    let old = stored(environment, plan).strategy.expect("a strategy");
    let strategy = PlanStrategy {
        steps: vec![PlanStep {
            title: format!("Level {level}"),
            child_plan: true,
            ..old.steps[0].clone()
        }],
        ..old
    };
    environment
        .engine
        .write(move |unit| plans::set_strategy(unit, plan, Some(&strategy)))
        .expect("stored");
}

/// Runs a plan through the scheduler, with one slot for all plans.
fn run_in_one_slot(
    environment: &PlanEnvironment,
    plan: &Plan,
    phase: PlanPhase,
) -> Result<Plan, PlanError> {
    let user = User::answering(Approval::Once);
    let front_end = PlanFrontEnd {
        approver: &user,
        observer: &NoObserver,
        cancel: &Cancel::new(),
    };
    let options = DriveOptions {
        consent: Some(phase),
        ..DriveOptions::default()
    };
    Scheduler::new(Arc::clone(&environment.engine), 1).run(
        &environment.plans,
        plan,
        &options,
        &environment.runtime(),
        front_end,
    )
}
