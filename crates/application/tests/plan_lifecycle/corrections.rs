//! Corrections: one decision is replaced, and only its consequences are discarded.

use cleveragents_application::{CorrectionMode, PlanError};
use cleveragents_domain::{
    Code, Decision, DecisionId, Diagnose as _, Plan, PlanPhase, PlanStage, StepRecord,
};
use cleveragents_store::{decisions, plan_steps};
use cleveragents_testkit::{TestDatabase, at_once};
use cleveragents_tools::ports::Approval;

use crate::support::{PlanEnvironment, User};

pub(crate) const TESTS: &[(&str, fn())] = &[
    (
        "a_correction_repeats_only_what_follows_from_the_decision",
        a_correction_repeats_only_what_follows_from_the_decision,
    ),
    (
        "a_correction_can_be_undone_until_the_plan_continues",
        a_correction_can_be_undone_until_the_plan_continues,
    ),
    (
        "decisions_that_cannot_be_corrected_are_refused",
        decisions_that_cannot_be_corrected_are_refused,
    ),
    (
        "of_two_corrections_at_once_one_is_made",
        of_two_corrections_at_once_one_is_made,
    ),
    (
        "an_appended_correction_adds_a_child_plan_and_repeats_nothing",
        an_appended_correction_adds_a_child_plan_and_repeats_nothing,
    ),
];

/// Three independent parts, and a last step after the first one.
fn model(one: &str) -> String {
    format!(
        r#"at_end: repeat_last
answers:
- when: '^Make the strategy'
  text: |
    {{"summary": "In parts", "steps": [
      {{"title": "One", "description": "Write one.txt.", "child_plan": true}},
      {{"title": "Two", "description": "Write two.txt.", "child_plan": true}},
      {{"title": "Copy", "description": "Copy one.txt.", "child_plan": true, "after": [1]}}]}}
- when: '^Execute step 1 of 1: One'
  text: I write it.
  calls:
  - {{name: builtin/file-write, arguments: {{path: one.txt, content: "{one}\n"}}}}
- when: '^Execute step 1 of 1: Two'
  text: I write it.
  calls:
  - {{name: builtin/file-write, arguments: {{path: two.txt, content: "two\n"}}}}
- when: '^Execute step 1 of 1: Copy'
  text: I copy it.
  calls:
  - {{name: builtin/file-copy, arguments: {{from: one.txt, to: copy.txt}}}}
- when: '^Execute step 1 of 1: Add'
  text: I add it.
  calls:
  - {{name: builtin/file-write, arguments: {{path: added.txt, content: "added\n"}}}}
- when: '^Review the result'
  text: '{{"criteria": [{{"number": 1, "met": true, "evidence": "seen"}}]}}'
- text: Done.
"#
    )
}

struct CorrectionFixture {
    environment: PlanEnvironment,
    user: User,
    plan: Plan,
}

impl CorrectionFixture {
    /// A plan whose steps are executed.
    fn executed(database: &TestDatabase) -> Self {
        let files = [("price.txt", "wrong\n")];
        let environment = PlanEnvironment::with(database, &model("one"), "it is written", &files);
        let user = User::answering(Approval::Once);
        let plan = environment.plan("trusted");
        let corrected = Self {
            environment,
            user,
            plan,
        };
        corrected.drive(PlanPhase::Strategize).expect("a strategy");
        corrected.drive(PlanPhase::Execute).expect("executed");
        corrected
    }

    fn drive(&self, phase: PlanPhase) -> Result<Plan, PlanError> {
        self.environment.drive(&self.plan, phase, &self.user)
    }

    fn decisions(&self) -> Vec<Decision> {
        let plan = self.plan.id;
        let read = self
            .environment
            .engine
            .read(|reader| decisions::of_plan(reader, plan));
        read.expect("readable")
    }

    fn steps(&self) -> Vec<StepRecord> {
        let plan = self.plan.id;
        let read = self
            .environment
            .engine
            .read(|reader| plan_steps::of_plan(reader, plan));
        let mut steps = read.expect("readable");
        steps.retain(|step| step.path.starts_with("step/") && step.undone_by.is_none());
        steps
    }

    /// The decision that puts a step into the strategy.
    fn step(&self, title: &str) -> DecisionId {
        let all = self.decisions();
        let step = all.iter().find(|decision| decision.content.chosen == title);
        step.expect("a step").content.id
    }

    fn correct(&self, decision: DecisionId, mode: CorrectionMode) -> Result<(), PlanError> {
        let plans = &self.environment.plans;
        plans
            .correct(self.plan.id, decision, mode, "Add a better one.")
            .map(drop)
    }

    fn changed(&self) -> Vec<String> {
        let plan = self.environment.plans.get(self.plan.id).expect("it exists");
        self.environment.changed_in_sandbox(&plan)
    }

    fn read(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.environment.repository.join(path)).ok()
    }
}

fn titles(steps: &[StepRecord]) -> Vec<&str> {
    steps.iter().map(|step| step.title.as_str()).collect()
}

fn a_correction_repeats_only_what_follows_from_the_decision() {
    for database in TestDatabase::each() {
        let plan = CorrectionFixture::executed(&database);
        let before = plan.steps();
        let target = plan.step("One");
        let preview = plan
            .environment
            .plans
            .preview_correction(plan.plan.id, target, CorrectionMode::Revert)
            .expect("a preview");
        let repeated: Vec<&str> = preview
            .steps
            .iter()
            .map(|step| step.title.as_str())
            .collect();
        assert_eq!(repeated, ["One", "Copy"]);
        assert_eq!(preview.paths, ["shop/copy.txt", "shop/one.txt"]);
        assert_eq!(plan.steps(), before, "a preview changes nothing");

        plan.correct(target, CorrectionMode::Revert)
            .expect("corrected");
        assert_eq!(plan.changed(), ["two.txt"]);
        assert_eq!(titles(&plan.steps()), ["Two"]);

        plan.environment.replace_script(&model("better"));
        let executed = plan.drive(PlanPhase::Execute).expect("executed");
        assert_eq!(executed.stage, PlanStage::ExecuteComplete);
        let kept = before
            .iter()
            .find(|step| step.title == "Two")
            .expect("it ran");
        assert!(plan.steps().contains(kept), "it is unchanged");
        plan.drive(PlanPhase::Apply).expect("applied");
        assert_eq!(plan.read("one.txt").as_deref(), Some("better\n"));
        assert_eq!(plan.read("copy.txt").as_deref(), Some("better\n"));
        assert_eq!(plan.read("two.txt").as_deref(), Some("two\n"));
    }
}

fn a_correction_can_be_undone_until_the_plan_continues() {
    let database = TestDatabase::sqlite();
    let plan = CorrectionFixture::executed(&database);
    let (steps, changed) = (plan.steps(), plan.changed());
    let in_effect = |plan: &CorrectionFixture| -> Vec<DecisionId> {
        let all = plan.decisions();
        let all = all.iter().filter(|decision| decision.holds());
        all.map(|decision| decision.content.id).collect()
    };
    let decisions = in_effect(&plan);
    let stage = plan
        .environment
        .plans
        .get(plan.plan.id)
        .expect("it exists")
        .stage;
    plan.correct(plan.step("One"), CorrectionMode::Revert)
        .expect("corrected");
    assert_ne!(plan.changed(), changed);
    let undone = plan.environment.plans.redo(plan.plan.id).expect("undone");
    assert_eq!(undone.plan.stage, stage);
    assert_eq!(plan.steps(), steps);
    assert_eq!(plan.changed(), changed);
    assert_eq!(in_effect(&plan), decisions);
    let error = plan
        .environment
        .plans
        .redo(plan.plan.id)
        .expect_err("nothing is left to undo");
    assert_eq!(error.code(), Code::PlanRollback);
}

fn decisions_that_cannot_be_corrected_are_refused() {
    let database = TestDatabase::sqlite();
    let plan = CorrectionFixture::executed(&database);
    let root = plan
        .environment
        .plans
        .get(plan.plan.id)
        .expect("it exists")
        .decision_root;
    let refused = |decision: DecisionId| {
        let before = (plan.steps(), plan.changed());
        let error = plan
            .correct(decision, CorrectionMode::Revert)
            .expect_err("refused");
        assert_eq!(error.code(), Code::PlanNotReady, "{error}");
        assert_eq!((plan.steps(), plan.changed()), before);
    };
    refused(root.expect("a root"));
    refused(DecisionId::generate());
    let target = plan.step("One");
    plan.correct(target, CorrectionMode::Revert)
        .expect("corrected");
    refused(target);
    let other = plan.step("Two");
    plan.drive(PlanPhase::Execute).expect("executed");
    plan.drive(PlanPhase::Apply).expect("applied");
    let error = plan
        .correct(other, CorrectionMode::Revert)
        .expect_err("it is applied");
    assert_eq!(error.code(), Code::PlanNotReady, "{error}");
}

fn of_two_corrections_at_once_one_is_made() {
    for database in TestDatabase::each() {
        let plan = CorrectionFixture::executed(&database);
        let targets = [plan.step("One"), plan.step("One")];
        let results = at_once(2, |number| {
            plan.correct(targets[number], CorrectionMode::Revert)
                .map_err(|error| error.to_string())
        });
        let made = results.iter().filter(|result| result.is_ok()).count();
        assert_eq!(made, 1, "{results:?}");
        assert_eq!(plan.changed(), ["two.txt"]);
        let queries = plan.environment.queries();
        let attempts = queries.corrections(plan.plan.id).expect("readable");
        assert_eq!(attempts.len(), 1, "{attempts:?}");
        assert_eq!(attempts[0].target, targets[0]);
        assert_eq!(attempts[0].guidance, "Add a better one.");
        assert_eq!(attempts[0].paths, ["shop/copy.txt", "shop/one.txt"]);
        assert!(!attempts[0].is_undone);
        plan.environment.plans.redo(plan.plan.id).expect("undone");
        let attempts = queries.corrections(plan.plan.id).expect("readable");
        assert!(attempts[0].is_undone, "{attempts:?}");
    }
}

fn an_appended_correction_adds_a_child_plan_and_repeats_nothing() {
    let database = TestDatabase::sqlite();
    let plan = CorrectionFixture::executed(&database);
    let before = plan.steps();
    plan.correct(plan.step("Two"), CorrectionMode::Append)
        .expect("corrected");
    assert_eq!(plan.steps(), before);
    plan.drive(PlanPhase::Execute).expect("executed");
    let after = plan.steps();
    assert_eq!(after[..before.len()], before);
    assert_eq!(titles(&after).last(), Some(&"Add a better one."));
    plan.drive(PlanPhase::Apply).expect("applied");
    assert_eq!(plan.read("added.txt").as_deref(), Some("added\n"));
}
