//! Child plans: steps that run in forks of the plan's sandbox, and the merge of their results.

use std::fmt::Write as _;

use cleveragents_application::PlanError;
use cleveragents_domain::{
    ChildPlan, ChildState, Code, ConflictResolution, Diagnose as _, Plan, PlanPhase, PlanStage,
    Waiting,
};
use cleveragents_store::child_plans;
use cleveragents_testkit::TestDatabase;
use cleveragents_tools::ports::Approval;

use crate::support::{PlanEnvironment, User};

pub(crate) const TESTS: &[(&str, fn())] = &[
    (
        "disjoint_edits_of_child_plans_are_all_applied",
        disjoint_edits_of_child_plans_are_all_applied,
    ),
    (
        "edits_of_different_lines_of_a_file_are_merged",
        edits_of_different_lines_of_a_file_are_merged,
    ),
    (
        "a_conflict_merges_nothing_until_it_is_resolved",
        a_conflict_merges_nothing_until_it_is_resolved,
    ),
    (
        "a_failed_child_plan_cancels_the_others_and_is_tried_again",
        a_failed_child_plan_cancels_the_others_and_is_tried_again,
    ),
    (
        "child_plans_run_in_the_order_of_the_strategy",
        child_plans_run_in_the_order_of_the_strategy,
    ),
    (
        "sequential_apply_keeps_the_child_plans_before_a_conflict",
        sequential_apply_keeps_the_child_plans_before_a_conflict,
    ),
    ("a_late_child_plan_is_stopped", a_late_child_plan_is_stopped),
    (
        "a_rollback_cancels_the_child_plans_of_undone_steps",
        a_rollback_cancels_the_child_plans_of_undone_steps,
    ),
    (
        "a_child_plan_sees_the_result_of_the_steps_before_it",
        a_child_plan_sees_the_result_of_the_steps_before_it,
    ),
    (
        "a_model_divides_a_task_with_declared_fields",
        a_model_divides_a_task_with_declared_fields,
    ),
];

/// A model that writes a file in each part. `parts` are titles, paths and contents.
pub(crate) fn model(parts: &[(&str, &str, &str)], settings: &str) -> String {
    let mut steps = Vec::new();
    let mut answers = String::new();
    for (title, path, content) in parts {
        steps.push(format!(
            r#"{{"title": "{title}", "description": "Write {path}.", "child_plan": true}}"#
        ));
        let _written = writeln!(
            answers,
            "- when: '^Execute step 1 of 1: {title}'\n  text: I write it.\n  calls:\n  \
             - {{name: builtin/file-write, arguments: {{path: {path}, content: \"{content}\"}}}}"
        );
    }
    format!(
        r#"at_end: repeat_last
answers:
- when: '^Make the strategy'
  text: |
    {{"summary": "In parts", {settings} "steps": [{}]}}
{answers}- when: '^Review the result'
  text: '{{"criteria": [{{"number": 1, "met": true, "evidence": "seen"}}]}}'
- text: The file is written.
"#,
        steps.join(", ")
    )
}

pub(crate) struct DivisionFixture {
    pub(crate) environment: PlanEnvironment,
    user: User,
    pub(crate) plan: Plan,
}

impl DivisionFixture {
    pub(crate) fn new(database: &TestDatabase, script: &str, files: &[(&str, &str)]) -> Self {
        Self::with_profile(database, script, files, "trusted")
    }

    pub(crate) fn with_profile(
        database: &TestDatabase,
        script: &str,
        files: &[(&str, &str)],
        profile: &str,
    ) -> Self {
        let environment = PlanEnvironment::with(database, script, "it is written", files);
        let user = User::answering(Approval::Once);
        let plan = environment.plan(profile);
        Self {
            environment,
            user,
            plan,
        }
    }

    pub(crate) fn drive(&self, phase: PlanPhase) -> Result<Plan, PlanError> {
        self.environment.drive(&self.plan, phase, &self.user)
    }

    /// Strategizes and executes.
    pub(crate) fn execute(&self) -> Result<Plan, PlanError> {
        self.drive(PlanPhase::Strategize)?;
        self.drive(PlanPhase::Execute)
    }

    pub(crate) fn children(&self) -> Vec<ChildPlan> {
        let parent = self.plan.id;
        let read = self
            .environment
            .engine
            .read(|reader| child_plans::of_plan(reader, parent));
        read.expect("readable")
    }

    pub(crate) fn states(&self) -> Vec<ChildState> {
        self.children().iter().map(|child| child.state).collect()
    }

    pub(crate) fn read(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.environment.repository.join(path)).ok()
    }
}

fn disjoint_edits_of_child_plans_are_all_applied() {
    for database in TestDatabase::each() {
        let script = model(
            &[
                ("Part one", "one.txt", "1\\n"),
                ("Part two", "two.txt", "2\\n"),
                ("Part three", "sub/three.txt", "3\\n"),
            ],
            "",
        );
        let divided = DivisionFixture::new(&database, &script, &[("price.txt", "wrong\n")]);
        let plan = divided.execute().expect("executed");
        assert_eq!(plan.stage, PlanStage::ExecuteComplete, "{:?}", plan.error);
        assert_eq!(divided.states(), [ChildState::Merged; 3]);
        for child in divided.children() {
            let child = divided
                .environment
                .plans
                .get(child.plan)
                .expect("it exists");
            assert_eq!(child.stage, PlanStage::ApplyApplied);
            assert_eq!((child.parent, child.root), (Some(plan.id), plan.id));
        }
        assert_eq!(
            divided.environment.active_sandboxes(),
            1,
            "the forks are removed"
        );
        assert_eq!(divided.read("one.txt"), None, "nothing is applied yet");

        let plan = divided.drive(PlanPhase::Apply).expect("applied");
        assert_eq!(plan.stage, PlanStage::ApplyApplied);
        assert_eq!(divided.read("one.txt").as_deref(), Some("1\n"));
        assert_eq!(divided.read("two.txt").as_deref(), Some("2\n"));
        assert_eq!(divided.read("sub/three.txt").as_deref(), Some("3\n"));
        assert!(plan.model_calls >= 8, "{} calls", plan.model_calls);
    }
}

fn edits_of_different_lines_of_a_file_are_merged() {
    let database = TestDatabase::sqlite();
    let base = "a\\nb\\nc\\nd\\ne\\nf\\ng\\nh\\n";
    let script = model(
        &[
            ("Top", "list.txt", &base.replace("a\\n", "A\\n")),
            ("Bottom", "list.txt", &base.replace("h\\n", "H\\n")),
        ],
        "",
    );
    let files = [("list.txt", "a\nb\nc\nd\ne\nf\ng\nh\n")];
    let divided = DivisionFixture::new(&database, &script, &files);
    divided.execute().expect("executed");
    divided.drive(PlanPhase::Apply).expect("applied");
    assert_eq!(
        divided.read("list.txt").as_deref(),
        Some("A\nb\nc\nd\ne\nf\ng\nH\n")
    );
}

fn a_conflict_merges_nothing_until_it_is_resolved() {
    for database in TestDatabase::each() {
        let script = model(
            &[
                ("Left", "side.txt", "left\\n"),
                ("Right", "side.txt", "right\\n"),
                ("Other", "other.txt", "other\\n"),
            ],
            "",
        );
        let divided = DivisionFixture::new(&database, &script, &[("side.txt", "middle\n")]);
        let error = divided.execute().expect_err("a conflict");
        assert_eq!(error.code(), Code::PlanWaiting, "{error}");
        let plan = divided
            .environment
            .plans
            .get(divided.plan.id)
            .expect("it exists");
        let paths = vec!["shop/side.txt".to_owned()];
        assert_eq!(plan.waiting, Some(Waiting::Conflicts { paths }));
        let changed = divided.environment.changed_in_sandbox(&plan);
        assert!(changed.is_empty(), "nothing is merged: {changed:?}");

        let parent = plan.id;
        let engine = &divided.environment.engine;
        let conflicts = engine
            .read(|reader| child_plans::conflicts(reader, parent))
            .expect("readable");
        assert_eq!(conflicts.len(), 1, "{conflicts:?}");
        let conflict = conflicts[0].clone();
        assert_eq!(conflict.child, divided.children()[1].plan);
        assert_ne!(conflict.ours, conflict.theirs);
        engine
            .write(move |unit| {
                let path = conflict.path.to_string();
                let theirs = ConflictResolution::Theirs;
                child_plans::resolve(unit, conflict.child, &conflict.alias, &path, &theirs)
            })
            .expect("resolved");
        let plan = divided.drive(PlanPhase::Execute).expect("executed");
        assert_eq!(plan.stage, PlanStage::ExecuteComplete);
        divided.drive(PlanPhase::Apply).expect("applied");
        assert_eq!(divided.read("side.txt").as_deref(), Some("right\n"));
        assert_eq!(divided.read("other.txt").as_deref(), Some("other\n"));
    }
}

fn a_failed_child_plan_cancels_the_others_and_is_tried_again() {
    let database = TestDatabase::sqlite();
    let mut script = model(
        &[
            ("Good", "good.txt", "good\\n"),
            ("Bad", "bad.txt", "bad\\n"),
            ("Late", "late.txt", "late\\n"),
        ],
        r#""children": {"mode": "sequential"},"#,
    );
    script = script.replace(
        "- when: '^Execute step 1 of 1: Bad'\n  text: I write it.",
        "- when: '^Execute step 1 of 1: Bad'\n  text: I'm unable to help with that.",
    );
    let marker = "  calls:\n  - {name: builtin/file-write, arguments: {path: bad.txt, content: \"bad\\n\"}}\n";
    assert!(script.contains(marker));
    script = script.replace(marker, "");
    let divided = DivisionFixture::new(&database, &script, &[("price.txt", "wrong\n")]);
    let error = divided.execute().expect_err("a child plan fails");
    assert_eq!(error.code(), Code::PlanFailed, "{error}");
    assert!(error.to_string().contains("Bad"), "{error}");
    assert_eq!(
        divided.states(),
        [
            ChildState::Complete,
            ChildState::Failed,
            ChildState::Cancelled
        ]
    );
    let plan = divided
        .environment
        .plans
        .get(divided.plan.id)
        .expect("it exists");
    assert_eq!(plan.stage, PlanStage::ExecuteErrored);
    assert_eq!(
        divided.environment.active_sandboxes(),
        3,
        "of the plan, and of both child plans that ran"
    );

    let script = model(
        &[
            ("Good", "good.txt", "good\\n"),
            ("Bad", "bad.txt", "bad\\n"),
            ("Late", "late.txt", "late\\n"),
        ],
        "",
    );
    divided.environment.replace_script(&script);
    let plan = divided.drive(PlanPhase::Execute).expect("executed");
    assert_eq!(plan.stage, PlanStage::ExecuteComplete, "{:?}", plan.error);
    divided.drive(PlanPhase::Apply).expect("applied");
    for path in ["good.txt", "bad.txt", "late.txt"] {
        assert!(divided.read(path).is_some(), "{path}");
    }
    assert_eq!(divided.environment.active_sandboxes(), 0);
}

fn a_child_plan_sees_the_result_of_the_steps_before_it() {
    let database = TestDatabase::sqlite();
    let script = r#"at_end: repeat_last
answers:
- when: '^Make the strategy'
  text: |
    {"summary": "In order", "steps": [
      {"title": "Begin", "description": "Write first.txt."},
      {"title": "Copy", "description": "Copy it.", "child_plan": true, "after": [1]},
      {"title": "Copy again", "description": "Copy the copy.", "child_plan": true, "after": [2]}]}
- when: '^Execute step 1 of 3: Begin'
  text: I write it.
  calls:
  - {name: builtin/file-write, arguments: {path: first.txt, content: "first\n"}}
- when: '^Execute step 1 of 1: Copy again'
  text: I copy it.
  calls:
  - {name: builtin/file-copy, arguments: {from: second.txt, to: third.txt}}
- when: '^Execute step 1 of 1: Copy'
  text: I copy it.
  calls:
  - {name: builtin/file-copy, arguments: {from: first.txt, to: second.txt}}
- when: '^Review the result'
  text: '{"criteria": [{"number": 1, "met": true, "evidence": "seen"}]}'
- text: Done.
"#;
    let divided = DivisionFixture::new(&database, script, &[("price.txt", "wrong\n")]);
    divided.execute().expect("executed");
    divided.drive(PlanPhase::Apply).expect("applied");
    assert_eq!(divided.read("third.txt").as_deref(), Some("first\n"));
}

/// The fields are declared in the schema of `submit_strategy`, so that null stands for an omitted field.
fn a_model_divides_a_task_with_declared_fields() {
    let database = TestDatabase::sqlite();
    let script = r#"at_end: repeat_last
answers:
- when: '^Make the strategy'
  text: I divide it.
  calls:
  - name: submit_strategy
    arguments:
      summary: In two parts
      steps:
      - {title: Part one, description: Write one.txt., files: [one.txt], child_plan: true, after: null}
      - {title: Part two, description: Write two.txt., files: [two.txt], child_plan: true, after: []}
      - {title: Join, description: Write both.txt., files: [both.txt], child_plan: null, after: [1, 2]}
- when: '^Execute step 1 of 1: Part one'
  text: I write it.
  calls:
  - {name: builtin/file-write, arguments: {path: one.txt, content: "1\n"}}
- when: '^Execute step 1 of 1: Part two'
  text: I write it.
  calls:
  - {name: builtin/file-write, arguments: {path: two.txt, content: "2\n"}}
- when: '^Execute step 3 of 3: Join'
  text: I join them.
  calls:
  - {name: builtin/file-copy, arguments: {from: two.txt, to: both.txt}}
- when: '^Review the result'
  text: '{"criteria": [{"number": 1, "met": true, "evidence": "seen"}]}'
- text: Done.
"#;
    let divided = DivisionFixture::new(&database, script, &[("price.txt", "wrong\n")]);
    let plan = divided.execute().expect("executed");
    assert_eq!(plan.stage, PlanStage::ExecuteComplete, "{:?}", plan.error);
    assert_eq!(divided.states(), [ChildState::Merged; 2]);
    divided.drive(PlanPhase::Apply).expect("applied");
    assert_eq!(divided.read("both.txt").as_deref(), Some("2\n"));
}

fn child_plans_run_in_the_order_of_the_strategy() {
    let database = TestDatabase::sqlite();
    let script = r#"at_end: repeat_last
answers:
- when: '^Make the strategy'
  text: |
    {"summary": "In order", "steps": [
      {"title": "Left", "description": "Write left.txt.", "child_plan": true},
      {"title": "Between", "description": "Write between.txt."},
      {"title": "Copy", "description": "Copy between.txt.", "child_plan": true}]}
- when: '^Execute step 2 of 3: Between'
  text: I write it.
  calls:
  - {name: builtin/file-write, arguments: {path: between.txt, content: "between\n"}}
- when: '^Execute step 1 of 1: Left'
  text: I write it.
  calls:
  - {name: builtin/file-write, arguments: {path: left.txt, content: "left\n"}}
- when: '^Execute step 1 of 1: Copy'
  text: I copy it.
  calls:
  - {name: builtin/file-copy, arguments: {from: between.txt, to: copy.txt}}
- when: '^Review the result'
  text: '{"criteria": [{"number": 1, "met": true, "evidence": "seen"}]}'
- text: Done.
"#;
    let fixture = DivisionFixture::new(&database, script, &[("price.txt", "wrong\n")]);
    fixture.execute().expect("executed");
    fixture.drive(PlanPhase::Apply).expect("applied");
    assert_eq!(fixture.read("copy.txt").as_deref(), Some("between\n"));
}

fn sequential_apply_keeps_the_child_plans_before_a_conflict() {
    let database = TestDatabase::sqlite();
    let script = model(
        &[
            ("Other", "other.txt", "other\\n"),
            ("Left", "side.txt", "left\\n"),
            ("Right", "side.txt", "right\\n"),
        ],
        r#""children": {"merge": "sequential_apply"},"#,
    );
    let fixture = DivisionFixture::new(&database, &script, &[("side.txt", "middle\n")]);
    let error = fixture.execute().expect_err("a conflict");
    assert_eq!(error.code(), Code::PlanWaiting, "{error}");
    assert_eq!(
        fixture.states(),
        [ChildState::Merged, ChildState::Merged, ChildState::Complete]
    );
    let plan = fixture
        .environment
        .plans
        .get(fixture.plan.id)
        .expect("it exists");
    let changed = fixture.environment.changed_in_sandbox(&plan);
    assert_eq!(changed, ["other.txt", "side.txt"]);
}

fn a_late_child_plan_is_stopped() {
    let database = TestDatabase::sqlite();
    let script = model(
        &[("Slow", "slow.txt", "slow\\n")],
        r#""children": {"timeout_seconds": 1},"#,
    )
    .replace(
        "- when: '^Execute step 1 of 1: Slow'\n",
        "- when: '^Execute step 1 of 1: Slow'\n  first_delay_ms: 600000\n",
    );
    let fixture = DivisionFixture::new(&database, &script, &[("price.txt", "wrong\n")]);
    let error = fixture.execute().expect_err("it takes too long");
    assert!(
        error.to_string().contains("longer than 1 second"),
        "{error}"
    );
    assert_eq!(fixture.states(), [ChildState::Failed]);
}

fn a_rollback_cancels_the_child_plans_of_undone_steps() {
    let database = TestDatabase::sqlite();
    let script = model(
        &[
            ("Left", "side.txt", "left\\n"),
            ("Right", "side.txt", "right\\n"),
        ],
        "",
    );
    let fixture = DivisionFixture::new(&database, &script, &[("side.txt", "middle\n")]);
    fixture.execute().expect_err("a conflict");
    assert_eq!(fixture.states(), [ChildState::Complete; 2]);
    let plans = &fixture.environment.plans;
    plans
        .rollback(fixture.plan.id, "step/1/1")
        .expect("rolled back");
    assert_eq!(fixture.states(), [ChildState::Cancelled; 2]);
    assert_eq!(fixture.environment.active_sandboxes(), 1, "no fork is left");
}
