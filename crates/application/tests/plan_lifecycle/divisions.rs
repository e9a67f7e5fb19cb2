//! Ways to divide a task: parts of an action, nested steps, parts that an actor requests, and parts that a user adds.

use std::fmt::Write as _;

use cleveragents_application::{AddedPart, CorrectionMode, DefaultActors};
use cleveragents_domain::{
    ChildState, Code, DecisionType, Diagnose as _, Plan, PlanPhase, PlanStage,
};
use cleveragents_store::{child_plans, decisions, plan_steps};
use cleveragents_testkit::TestDatabase;
use cleveragents_tools::ports::Approval;
use serde_json::{Value, json};

use crate::children::{DivisionFixture, model};
use crate::support::{PlanEnvironment, User};

pub(crate) const TESTS: &[(&str, fn())] = &[
    (
        "an_action_divides_its_task_by_a_pattern",
        an_action_divides_its_task_by_a_pattern,
    ),
    (
        "an_action_divides_its_task_by_a_list",
        an_action_divides_its_task_by_a_list,
    ),
    (
        "a_large_task_is_divided_by_folders_in_four_levels",
        a_large_task_is_divided_by_folders_in_four_levels,
    ),
    (
        "parts_that_an_actor_requests_run_after_its_step",
        parts_that_an_actor_requests_run_after_its_step,
    ),
    (
        "a_correction_discards_requested_parts_that_failed",
        a_correction_discards_requested_parts_that_failed,
    ),
    (
        "parts_that_a_strategist_requests_are_steps",
        parts_that_a_strategist_requests_are_steps,
    ),
    (
        "a_user_adds_a_part_before_and_after_the_execution",
        a_user_adds_a_part_before_and_after_the_execution,
    ),
    (
        "the_steps_of_an_edited_strategy_have_decisions",
        the_steps_of_an_edited_strategy_have_decisions,
    ),
    (
        "divisions_that_cannot_run_change_nothing",
        divisions_that_cannot_run_change_nothing,
    ),
];

/// A model that writes `done.txt` in the folder that its task names.
const WORKER: &str = r#"at_end: repeat_last
answers:
- when: 'Execute step 1 of 1: packages/one'
  text: I write it.
  calls:
  - {name: builtin/file-write, arguments: {path: packages/one/done.txt, content: "one\n"}}
- when: 'Execute step 1 of 1: packages/two'
  text: I write it.
  calls:
  - {name: builtin/file-write, arguments: {path: packages/two/done.txt, content: "two\n"}}
- when: '^Execute step 1 of 1: Join'
  text: I join it.
  calls:
  - {name: builtin/file-copy, arguments: {from: packages/one/done.txt, to: all.txt}}
- when: '^Review the result'
  text: '{"criteria": [{"number": 1, "met": true, "evidence": "seen"}]}'
- text: Written.
"#;

const FILES: &[(&str, &str)] = &[
    ("packages/one/a.txt", "a\n"),
    ("packages/two/deep/b.txt", "b\n"),
    ("packages/note.md", "not a folder\n"),
    ("price.txt", "wrong\n"),
];

fn divided(database: &TestDatabase, script: &str, parts: &Value) -> (PlanEnvironment, Plan, User) {
    let environment = PlanEnvironment::with(database, script, "it is written", FILES);
    environment.add_action(&json!({
        "name": "local/divided", "description": "Write done.txt", "definition_of_done": "it is written",
        "parts": parts,
    }));
    let plan = environment.plan_of("local/divided", "supervised", DefaultActors::default());
    (environment, plan, User::answering(Approval::Once))
}

fn titles(environment: &PlanEnvironment, plan: &Plan) -> Vec<String> {
    let plan = environment.plans.get(plan.id).expect("it exists");
    let steps = plan.strategy.expect("a strategy").steps.into_iter();
    steps.map(|step| step.title).collect()
}

fn states(environment: &PlanEnvironment, plan: &Plan) -> Vec<ChildState> {
    let children = environment
        .engine
        .read(|reader| child_plans::of_plan(reader, plan.id))
        .expect("readable");
    children.iter().map(|child| child.state).collect()
}

fn an_action_divides_its_task_by_a_pattern() {
    for database in TestDatabase::each() {
        let (environment, plan, user) = divided(&database, WORKER, &json!("packages/*/"));
        environment
            .drive(&plan, PlanPhase::Strategize, &user)
            .expect("a strategy");
        // The file is no folder.
        assert_eq!(
            titles(&environment, &plan),
            ["packages/one", "packages/two"]
        );
        environment
            .drive(&plan, PlanPhase::Execute, &user)
            .expect("executed");
        assert_eq!(states(&environment, &plan), [ChildState::Merged; 2]);
        environment
            .drive(&plan, PlanPhase::Apply, &user)
            .expect("applied");
        let done = environment.repository.join("packages/two/done.txt");
        assert_eq!(std::fs::read_to_string(done).expect("written"), "two\n");
    }
}

fn an_action_divides_its_task_by_a_list() {
    let database = TestDatabase::sqlite();
    let parts = json!({
        "list": [
            "packages/one",
            {"title": "Join", "description": "Copy it.", "files": ["all.txt"], "after": [1]},
            {"title": "packages/two"},
        ],
        "max_parallel": 2,
    });
    let (environment, plan, user) = divided(&database, WORKER, &parts);
    environment
        .drive(&plan, PlanPhase::Strategize, &user)
        .expect("a strategy");
    let stored = environment.plans.get(plan.id).expect("it exists");
    let strategy = stored.strategy.expect("a strategy");
    assert_eq!(strategy.children.expect("settings").max_parallel, 2);
    let executed = environment
        .drive(&plan, PlanPhase::Execute, &user)
        .expect("executed");
    assert_eq!(executed.stage, PlanStage::ExecuteComplete);
    assert_eq!(states(&environment, &plan), [ChildState::Merged; 3]);
    environment
        .drive(&plan, PlanPhase::Apply, &user)
        .expect("applied");
    let read = |path: &str| std::fs::read_to_string(environment.repository.join(path)).ok();
    assert_eq!(read("all.txt").as_deref(), Some("one\n"));
    assert_eq!(read("packages/two/done.txt").as_deref(), Some("two\n"));
}

fn a_large_task_is_divided_by_folders_in_four_levels() {
    let files: Vec<(String, String)> = (0..16)
        .map(|number| (format!("m{number:02}/code.rs"), format!("// {number}\n")))
        .collect();
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    let mut script = "at_end: repeat_last\nanswers:\n".to_owned();
    for (path, _) in &files {
        let folder = path.split('/').next().expect("a folder");
        let _written = write!(
            script,
            "- when: '^Execute step 1 of 1: {folder}'\n  text: I write it.\n  calls:\n  \
             - {{name: builtin/file-write, arguments: {{path: {folder}/new.rs, content: \"new\\n\"}}}}\n"
        );
    }
    script.push_str(
        "- when: '^Review the result'\n  text: '{\"criteria\": [{\"number\": 1, \"met\": true, \"evidence\": \"seen\"}]}'\n\
         - text: Written.\n",
    );
    let database = TestDatabase::sqlite();
    let environment = PlanEnvironment::with(&database, &script, "it is written", &files);
    environment.add_action(&json!({
        "name": "local/large", "description": "Write new.rs in every folder",
        "definition_of_done": "it is written",
        "parts": {"max_files": 1, "max_parts": 2, "max_parallel": 8},
    }));
    let plan = environment.plan_of("local/large", "supervised", DefaultActors::default());
    let user = User::answering(Approval::Once);
    environment
        .drive(&plan, PlanPhase::Strategize, &user)
        .expect("a strategy");
    let stored = environment.plans.get(plan.id).expect("it exists");
    assert_eq!(stored.strategy.expect("a strategy").child_levels(), 4);
    environment
        .drive(&plan, PlanPhase::Execute, &user)
        .expect("executed");
    environment
        .drive(&plan, PlanPhase::Apply, &user)
        .expect("applied");
    for number in 0..16 {
        let path = environment.repository.join(format!("m{number:02}/new.rs"));
        assert_eq!(std::fs::read_to_string(path).expect("written"), "new\n");
    }
    assert_eq!(environment.active_sandboxes(), 0, "the forks are removed");
}

/// An actor whose model may request child plans.
fn requesting_actor(environment: &PlanEnvironment, name: &str) {
    environment.add_actor(&json!({
        "name": name, "type": "llm", "model": environment.model(),
        "system_prompt": "Work.", "tools": ["builtin/*", "builtin/plan-subplan"],
    }));
}

const REQUESTS: &str = r#"at_end: repeat_last
answers:
- when: '^Make the strategy'
  text: |
    {"summary": "Write it", "steps": [{"title": "Lead", "description": "Write lead.txt."}]}
- when: '^Execute step 1 of 1: Lead'
  text: I divide it.
  calls:
  - {name: builtin/plan-subplan, arguments: {title: Left, description: Write left.txt.}}
  - {name: builtin/plan-subplan, arguments: {title: Right, description: Write right.txt.}}
  - {name: builtin/plan-subplan, arguments: {title: Empty}}
  - {name: builtin/file-write, arguments: {path: lead.txt, content: "lead\n"}}
- when: '^Execute step 1 of 1: Left'
  text: I write it.
  calls:
  - {name: builtin/file-write, arguments: {path: left.txt, content: "left\n"}}
- when: '^Execute step 1 of 1: Right'
  text: I copy it.
  calls:
  - {name: builtin/file-copy, arguments: {from: lead.txt, to: right.txt}}
- when: '^Review the result'
  text: '{"criteria": [{"number": 1, "met": true, "evidence": "seen"}]}'
- text: Written.
"#;

fn parts_that_an_actor_requests_run_after_its_step() {
    for database in TestDatabase::each() {
        let files = [("price.txt", "wrong\n")];
        let environment = PlanEnvironment::with(&database, REQUESTS, "it is written", &files);
        requesting_actor(&environment, "local/lead");
        let actors = DefaultActors {
            execution: Some("local/lead".to_owned()),
            ..DefaultActors::default()
        };
        let plan = environment.plan_of("local/fix", "supervised", actors);
        let user = User::answering(Approval::Once);
        environment
            .drive(&plan, PlanPhase::Strategize, &user)
            .expect("a strategy");
        environment
            .drive(&plan, PlanPhase::Execute, &user)
            .expect("executed");
        assert_eq!(states(&environment, &plan), [ChildState::Merged; 2]);
        let steps = environment
            .engine
            .read(|reader| plan_steps::of_plan(reader, plan.id))
            .expect("readable");
        let lead = steps
            .iter()
            .find(|step| step.title == "Lead")
            .expect("it ran");
        let left = steps
            .iter()
            .find(|step| step.title == "Left")
            .expect("it ran");
        assert!(
            left.path.starts_with(&format!("{}/", lead.path)),
            "{left:?}"
        );
        // A correction of the step discards the parts that it requested.
        let decision = lead.decision.expect("a decision");
        let preview = environment
            .plans
            .preview_correction(plan.id, decision, CorrectionMode::Revert)
            .expect("a preview");
        let mut discarded: Vec<&str> = preview
            .children
            .iter()
            .map(|child| child.title.as_str())
            .collect();
        // Calls of one answer run in parallel, so the parts have any order.
        discarded.sort_unstable();
        assert_eq!(discarded, ["Left", "Right"]);
        assert!(!preview.calls.is_empty(), "{preview:?}");
        environment
            .drive(&plan, PlanPhase::Apply, &user)
            .expect("applied");
        let read = |path: &str| std::fs::read_to_string(environment.repository.join(path)).ok();
        assert_eq!(read("left.txt").as_deref(), Some("left\n"));
        // The part saw the file of the step that requested it.
        assert_eq!(read("right.txt").as_deref(), Some("lead\n"));
    }
}

fn a_correction_discards_requested_parts_that_failed() {
    let database = TestDatabase::sqlite();
    let refused = REQUESTS.replace(
        "Left'\n  text: I write it.\n  calls:\n  - {name: builtin/file-write, arguments: {path: left.txt, content: \"left\\n\"}}",
        "Left'\n  text: I'm unable to help with that.",
    );
    assert_ne!(refused, REQUESTS);
    let files = [("price.txt", "wrong\n")];
    let environment = PlanEnvironment::with(&database, &refused, "it is written", &files);
    requesting_actor(&environment, "local/lead");
    let actors = DefaultActors {
        execution: Some("local/lead".to_owned()),
        ..DefaultActors::default()
    };
    let plan = environment.plan_of("local/fix", "supervised", actors);
    let user = User::answering(Approval::Once);
    environment
        .drive(&plan, PlanPhase::Strategize, &user)
        .expect("a strategy");
    environment
        .drive(&plan, PlanPhase::Execute, &user)
        .expect_err("a part fails");
    let known = environment
        .engine
        .read(|reader| decisions::of_plan(reader, plan.id))
        .expect("readable");
    let step = known
        .iter()
        .find(|decision| decision.content.question == "What is step 1?")
        .expect("a step");
    environment
        .plans
        .correct(
            plan.id,
            step.content.id,
            CorrectionMode::Revert,
            "Differently.",
        )
        .expect("corrected");
    let steps = environment
        .engine
        .read(|reader| plan_steps::of_plan(reader, plan.id))
        .expect("readable");
    let live: Vec<&str> = steps
        .iter()
        .filter(|step| step.undone_by.is_none() && step.path.starts_with("step/"))
        .map(|step| step.path.as_str())
        .collect();
    assert!(live.is_empty(), "{live:?}");
    assert_eq!(states(&environment, &plan), [ChildState::Cancelled; 2]);
}

fn parts_that_a_strategist_requests_are_steps() {
    let script = r#"at_end: repeat_last
answers:
- when: '^Make the strategy'
  text: I divide it.
  calls:
  - {name: builtin/plan-subplan, arguments: {title: packages/one, description: Write it.}}
- when: '^Execute step 1 of 1: Rest'
  text: I write it.
  calls:
  - {name: builtin/file-write, arguments: {path: rest.txt, content: "rest\n"}}
- when: '^Execute step 1 of 1: packages/one'
  text: I write it.
  calls:
  - {name: builtin/file-write, arguments: {path: packages/one/done.txt, content: "one\n"}}
- when: '^Review the result'
  text: '{"criteria": [{"number": 1, "met": true, "evidence": "seen"}]}'
- text: |
    {"summary": "In parts", "steps": [{"title": "Rest", "description": "Write the rest.", "child_plan": true}]}
"#;
    let database = TestDatabase::sqlite();
    let environment = PlanEnvironment::with(&database, script, "it is written", FILES);
    requesting_actor(&environment, "local/divider");
    let actors = DefaultActors {
        strategy: Some("local/divider".to_owned()),
        ..DefaultActors::default()
    };
    let plan = environment.plan_of("local/fix", "supervised", actors);
    let user = User::answering(Approval::Once);
    environment
        .drive(&plan, PlanPhase::Strategize, &user)
        .expect("a strategy");
    assert_eq!(titles(&environment, &plan), ["Rest", "packages/one"]);
}

fn a_user_adds_a_part_before_and_after_the_execution() {
    for database in TestDatabase::each() {
        let script = model(
            &[
                ("Part one", "one.txt", "1\\n"),
                ("Add two", "two.txt", "2\\n"),
                ("Add three", "three.txt", "3\\n"),
            ],
            "",
        );
        // The strategy has only the first part.
        let added = r#", {"title": "Add two", "description": "Write two.txt.", "child_plan": true}, {"title": "Add three", "description": "Write three.txt.", "child_plan": true}"#;
        let script = script.replace(added, "");
        let files = [("price.txt", "wrong\n")];
        let divided = DivisionFixture::with_profile(&database, &script, &files, "supervised");
        divided.drive(PlanPhase::Strategize).expect("a strategy");
        let add = |task: &str, after: &[usize]| {
            let part = AddedPart {
                task: task.to_owned(),
                after: after.to_vec(),
                ..AddedPart::default()
            };
            divided.environment.plans.add_part(divided.plan.id, &part)
        };
        let two = add("Add two\nIn a file.", &[1]).expect("added");
        assert_eq!(
            (two.number, two.plan.stage),
            (2, PlanStage::StrategizeComplete)
        );
        divided.drive(PlanPhase::Execute).expect("executed");
        assert_eq!(divided.states(), [ChildState::Merged; 2]);
        let before = divided.children();
        let three = add("Add three", &[]).expect("added");
        assert_eq!(three.plan.stage, PlanStage::ExecuteQueued);
        divided.drive(PlanPhase::Execute).expect("executed");
        let after = divided.children();
        assert_eq!(after[..2], before, "finished parts are not repeated");
        assert_eq!(after[2].title, "Add three");
        let known = divided
            .environment
            .engine
            .read(|reader| decisions::of_plan(reader, divided.plan.id))
            .expect("readable");
        let question = |number: usize| format!("What is step {number}?");
        for number in [2, 3] {
            let recorded = known.iter().find(|decision| {
                decision.content.question == question(number)
                    && decision.content.kind == DecisionType::StrategyChoice
            });
            assert!(recorded.is_some(), "step {number}");
        }
        divided.drive(PlanPhase::Apply).expect("applied");
        assert_eq!(divided.read("two.txt").as_deref(), Some("2\n"));
        assert_eq!(divided.read("three.txt").as_deref(), Some("3\n"));
        let error = add("Add four", &[]).expect_err("it is applied");
        assert_eq!(error.code(), Code::PlanNotReady, "{error}");
    }
}

fn the_steps_of_an_edited_strategy_have_decisions() {
    let database = TestDatabase::sqlite();
    let script = model(&[("Part one", "one.txt", "1\\n")], "");
    let files = [("price.txt", "wrong\n")];
    let divided = DivisionFixture::with_profile(&database, &script, &files, "supervised");
    divided.drive(PlanPhase::Strategize).expect("a strategy");
    let document = "# Strategy\n\nIn parts\n\n## 1. Look\n\nWrite one.txt.\n\n- child plan: yes\n\n\
                    ## 2. Part one\n\nWrite one.txt.\n\n- after: 1\n- child plan: yes\n";
    let plans = &divided.environment.plans;
    plans.edit(divided.plan.id, document).expect("edited");
    let known = divided
        .environment
        .engine
        .read(|reader| decisions::of_plan(reader, divided.plan.id))
        .expect("readable");
    let steps: Vec<(&str, &str)> = known
        .iter()
        .filter(|decision| decision.holds() && decision.content.question.contains(" is step "))
        .map(|decision| {
            (
                decision.content.question.as_str(),
                decision.content.chosen.as_str(),
            )
        })
        .collect();
    assert_eq!(
        steps,
        [("What is step 1?", "Look"), ("What is step 2?", "Part one")]
    );
}

fn divisions_that_cannot_run_change_nothing() {
    let database = TestDatabase::sqlite();
    let (environment, plan, user) = divided(&database, WORKER, &json!("nothing/*"));
    let error = environment
        .drive(&plan, PlanPhase::Strategize, &user)
        .expect_err("nothing matches");
    assert!(
        error.to_string().contains("no folder or file matches"),
        "{error}"
    );
    let deep = r#"at_end: repeat_last
answers:
- text: |
    {"summary": "Deep", "steps": [{"title": "1", "steps": [{"title": "2", "steps": [{"title": "3", "steps":
     [{"title": "4", "steps": [{"title": "5", "steps": [{"title": "6", "description": "x", "child_plan": true}]}]}]}]}]}]}
"#;
    for (script, reason) in [
        (deep, "plan.max-child-depth"),
        (
            "at_end: repeat_last\nanswers:\n- text: '{\"summary\": \"s\", \"steps\": [{\"title\": \"a\", \"child_plan\": true}]}'\n",
            "without a scope",
        ),
        (
            "at_end: repeat_last\nanswers:\n- text: '{\"summary\": \"s\", \"steps\": [{\"title\": \"a\", \"after\": [2]}, {\"title\": \"b\", \"after\": [1]}]}'\n",
            "cycle",
        ),
    ] {
        let files = [("price.txt", "wrong\n")];
        let database = TestDatabase::sqlite();
        let environment = PlanEnvironment::with(&database, script, "it is written", &files);
        let plan = environment.plan("trusted");
        let error = environment
            .drive(&plan, PlanPhase::Strategize, &user)
            .expect_err("refused");
        assert!(error.to_string().contains(reason), "{reason}: {error}");
        let stored = environment.plans.get(plan.id).expect("it exists");
        assert_eq!(stored.stage, PlanStage::StrategizeErrored);
        assert_eq!(stored.strategy, None);
        assert!(states(&environment, &plan).is_empty());
        let part = AddedPart {
            task: "More".to_owned(),
            ..AddedPart::default()
        };
        let error = environment
            .plans
            .add_part(plan.id, &part)
            .expect_err("no strategy");
        assert_eq!(error.code(), Code::PlanNotReady, "{error}");
    }
}
