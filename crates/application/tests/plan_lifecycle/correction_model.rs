//! Corrections of random plans, compared with a model: exactly the steps that follow from the corrected decision are
//! discarded and repeated; all other rows and files stay identical to the byte, and a redo restores the identical state.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use cleveragents_application::{CorrectionMode, DETERMINISTIC, DefaultActors};
use cleveragents_domain::{
    Decision, Plan, PlanPhase, PlanStage, StepRecord, StepState, ToolInvocation,
};
use cleveragents_store::{decisions, invocations, plan_steps};
use cleveragents_testkit::{Dice, TestDatabase, proof_size};
use cleveragents_tools::ports::Approval;
use serde_json::{Value, json};

use crate::support::{PlanEnvironment, User};

pub(crate) const TESTS: &[(&str, fn())] = &[(
    "a_correction_of_a_random_plan_discards_exactly_what_follows",
    a_correction_of_a_random_plan_discards_exactly_what_follows,
)];

/// Number of steps: with the task, the approach and two decisions for each step, the plan has 30 decisions.
const STEPS: usize = 14;

/// A step: the steps that it depends on, and the path that it writes.
#[derive(Debug)]
struct ModelStep {
    after: Vec<usize>,
    path: String,
}

fn random_steps(dice: &mut Dice) -> Vec<ModelStep> {
    (0..STEPS)
        .map(|number| {
            let mut after = BTreeSet::new();
            for _ in 0..dice.roll(3) {
                if number > 0 {
                    after.insert(usize::try_from(dice.roll(number as u64)).expect("small"));
                }
            }
            // A third of the steps write one of three shared files.
            let path = if dice.once_in(3) {
                format!("shared/{}.txt", dice.roll(3))
            } else {
                format!("own/{number:02}.txt")
            };
            ModelStep {
                after: after.into_iter().collect(),
                path,
            }
        })
        .collect()
}

/// The steps that follow from a step: those after it, and those that wrote the same file later.
fn following(steps: &[ModelStep], target: usize) -> BTreeSet<usize> {
    let mut affected = BTreeSet::from([target]);
    loop {
        let more: Vec<usize> = (0..steps.len())
            .filter(|later| !affected.contains(later))
            .filter(|later| {
                affected.iter().any(|earlier| {
                    let is_after = steps[*later].after.contains(earlier);
                    let is_overwritten =
                        later > earlier && steps[*later].path == steps[*earlier].path;
                    is_after || is_overwritten
                })
            })
            .collect();
        if more.is_empty() {
            return affected;
        }
        affected.extend(more);
    }
}

/// The files after the steps that are not in `without`.
fn files_of(steps: &[ModelStep], without: &BTreeSet<usize>) -> BTreeMap<String, String> {
    let kept = steps
        .iter()
        .enumerate()
        .filter(|(number, _)| !without.contains(number));
    let mut files: BTreeMap<String, String> = kept
        .map(|(number, step)| (step.path.clone(), content(number)))
        .collect();
    files.insert("price.txt".to_owned(), "wrong\n".to_owned());
    files
}

fn content(number: usize) -> String {
    format!("written by step {number}\n")
}

fn script(steps: &[ModelStep]) -> String {
    let described: Vec<Value> = steps
        .iter()
        .enumerate()
        .map(|(number, step)| {
            let after: Vec<usize> = step.after.iter().map(|number| number + 1).collect();
            json!({
                "title": format!("Step {number}"),
                "description": "Write it.",
                "after": after,
                "call": {
                    "tool": "builtin/file-write",
                    "arguments": {"path": step.path, "content": content(number)},
                },
            })
        })
        .collect();
    let strategy = json!({"summary": "One file after the other", "steps": described});
    json!({"at_end": "repeat_last", "answers": [{"text": strategy.to_string()}]}).to_string()
}

/// All rows and files of a plan that a correction may change.
#[derive(Debug, Clone, PartialEq)]
struct PlanState {
    stage: PlanStage,
    decisions: Vec<Decision>,
    steps: Vec<StepRecord>,
    calls: Vec<ToolInvocation>,
    files: BTreeMap<String, String>,
}

struct ModelFixture {
    environment: PlanEnvironment,
    user: User,
    plan: Plan,
}

impl ModelFixture {
    fn executed(database: &TestDatabase, steps: &[ModelStep]) -> Self {
        let files = [("price.txt", "wrong\n")];
        let environment = PlanEnvironment::with(database, &script(steps), "- check `true`", &files);
        let actors = DefaultActors {
            execution: Some(DETERMINISTIC.to_owned()),
            ..DefaultActors::default()
        };
        let plan = environment.plan_of("local/fix", "trusted", actors);
        let fixture = Self {
            environment,
            user: User::answering(Approval::Once),
            plan,
        };
        fixture.drive(PlanPhase::Strategize);
        fixture.drive(PlanPhase::Execute);
        fixture
    }

    fn drive(&self, phase: PlanPhase) {
        self.environment
            .drive(&self.plan, phase, &self.user)
            .expect("it runs");
    }

    fn state(&self) -> PlanState {
        let id = self.plan.id;
        let (decisions, steps, calls) = self
            .environment
            .engine
            .read(|reader| {
                Ok::<_, cleveragents_store::Error>((
                    decisions::of_plan(reader, id)?,
                    plan_steps::of_plan(reader, id)?,
                    invocations::of_plan(reader, id)?,
                ))
            })
            .expect("readable");
        let plan = self.environment.plans.get(id).expect("it exists");
        let name = plan.sandbox.as_deref().expect("a sandbox");
        let open = self.environment.sandbox_service().open(name).expect("free");
        let mut files = BTreeMap::new();
        read_files(&open.view.members[0].root, Path::new(""), &mut files);
        PlanState {
            stage: plan.stage,
            decisions,
            steps: steps
                .into_iter()
                .filter(|step| step.path.starts_with("step/"))
                .collect(),
            calls,
            files,
        }
    }
}

fn read_files(root: &Path, folder: &Path, files: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(root.join(folder)).expect("a folder") {
        let entry = entry.expect("an entry");
        let path = folder.join(entry.file_name());
        if entry.file_name() == ".git" {
            continue;
        }
        if entry.path().is_dir() {
            read_files(root, &path, files);
        } else {
            let text = std::fs::read_to_string(entry.path()).expect("a text");
            files.insert(path.display().to_string(), text);
        }
    }
}

/// The numbers of the steps in the strategy whose records are in effect.
fn done(state: &PlanState) -> BTreeSet<usize> {
    let records = state.steps.iter();
    records
        .filter(|step| step.undone_by.is_none() && step.state == StepState::Done)
        .map(number_of)
        .collect()
}

fn number_of(step: &StepRecord) -> usize {
    let number = step.title.strip_prefix("Step ").expect("a step");
    number.parse().expect("a number")
}

fn check(database: &TestDatabase, dice: &mut Dice) {
    let steps = random_steps(dice);
    let target = usize::try_from(dice.roll(STEPS as u64)).expect("small");
    let expected = following(&steps, target);
    let context = format!("{steps:?}\ncorrected: {target}, expected: {expected:?}");
    let fixture = ModelFixture::executed(database, &steps);
    let (plans, id) = (&fixture.environment.plans, fixture.plan.id);
    let before = fixture.state();
    assert_eq!(before.decisions.len(), 2 + 2 * STEPS, "{context}");
    assert_eq!(
        before.files,
        files_of(&steps, &BTreeSet::new()),
        "{context}"
    );
    let title = format!("Step {target}");
    let decision = before
        .decisions
        .iter()
        .find(|decision| decision.content.chosen == title)
        .expect("the decision of the step")
        .content
        .id;

    let preview = plans
        .preview_correction(id, decision, CorrectionMode::Revert)
        .expect("a preview");
    let named: BTreeSet<String> = preview
        .steps
        .iter()
        .map(|step| step.title.clone())
        .collect();
    let titles: BTreeSet<String> = expected.iter().map(|step| format!("Step {step}")).collect();
    assert_eq!(named, titles, "{context}");
    assert_eq!(preview.calls.len(), expected.len(), "{context}");
    assert_eq!(
        fixture.state(),
        before,
        "a preview changes nothing: {context}"
    );

    plans
        .correct(id, decision, CorrectionMode::Revert, "Better.")
        .expect("corrected");
    let corrected = fixture.state();
    let all: BTreeSet<usize> = (0..STEPS).collect();
    assert_eq!(done(&corrected), &all - &expected, "{context}");
    assert_eq!(corrected.files, files_of(&steps, &expected), "{context}");
    for step in before
        .steps
        .iter()
        .filter(|step| !expected.contains(&number_of(step)))
    {
        assert!(corrected.steps.contains(step), "{step:?}: {context}");
    }
    let kept = before.decisions.len() - preview.decisions.len();
    let unchanged = before
        .decisions
        .iter()
        .filter(|decision| corrected.decisions.contains(decision));
    assert_eq!(unchanged.count(), kept, "{context}");
    assert_eq!(preview.kept_decisions, kept, "{context}");

    let undone = plans.redo(id).expect("undone");
    assert_eq!(undone.plan.stage, before.stage);
    let mut restored = fixture.state();
    // The attempt itself stays in the history.
    let attempt = restored.decisions.pop().expect("the correction");
    assert!(attempt.undone_by.is_some(), "{attempt:?}: {context}");
    assert_eq!(restored, before, "{context}");

    plans
        .correct(id, decision, CorrectionMode::Revert, "Better.")
        .expect("corrected");
    fixture.drive(PlanPhase::Execute);
    let repeated = fixture.state();
    assert_eq!(repeated.files, before.files, "{context}");
    let new: BTreeSet<usize> = repeated
        .steps
        .iter()
        .filter(|step| step.undone_by.is_none() && !before.steps.contains(step))
        .map(number_of)
        .collect();
    assert_eq!(new, expected, "exactly these ran again: {context}");
    assert_eq!(done(&repeated), all, "{context}");
}

fn a_correction_of_a_random_plan_discards_exactly_what_follows() {
    let mut dice = Dice::default();
    for round in 0..proof_size(3, 120) {
        // Both databases, in turn.
        let databases = TestDatabase::each();
        check(&databases[round % databases.len()], &mut dice);
    }
}
