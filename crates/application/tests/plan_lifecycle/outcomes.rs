//! Ways in which a model ends a phase, and the parts of its conversation that a retry and the next phase keep.

use std::time::Duration;

use cleveragents_application::plan_operations::CancelPlan;
use cleveragents_application::{AgentEvent, DriveOptions, Observer, PlanFrontEnd};
use cleveragents_domain::identity::Caller;
use cleveragents_domain::{Plan, PlanId, PlanPhase, PlanStage};
use cleveragents_process::Cancel;
use cleveragents_testkit::TestDatabase;
use cleveragents_tools::ports::Approval;
use serde_json::Value;

use crate::support::{PlanEnvironment, User, git};
use crate::thread::{contains, count, messages, repeated};

/// The tests of this module by name, which `main` runs.
pub(crate) const TESTS: &[(&str, fn())] = &[
    (
        "outcomes::a_one_off_task_is_sent_once_per_request",
        a_one_off_task_is_sent_once_per_request,
    ),
    (
        "outcomes::texts_of_a_one_off_task_are_not_changed",
        texts_of_a_one_off_task_are_not_changed,
    ),
    (
        "outcomes::only_the_deterministic_strategist_executes_a_task",
        only_the_deterministic_strategist_executes_a_task,
    ),
    (
        "outcomes::an_impossible_task_is_blocked_with_its_reason",
        an_impossible_task_is_blocked_with_its_reason,
    ),
    (
        "outcomes::a_task_that_is_already_done_changes_nothing_and_is_reviewed",
        a_task_that_is_already_done_changes_nothing_and_is_reviewed,
    ),
    (
        "outcomes::a_refusal_never_counts_as_done",
        a_refusal_never_counts_as_done,
    ),
    (
        "outcomes::prose_without_a_change_gets_one_reminder",
        prose_without_a_change_gets_one_reminder,
    ),
    (
        "outcomes::a_retry_continues_the_conversation_of_a_failed_turn",
        a_retry_continues_the_conversation_of_a_failed_turn,
    ),
    (
        "outcomes::the_executor_keeps_the_files_of_the_strategy",
        the_executor_keeps_the_files_of_the_strategy,
    ),
    (
        "outcomes::nested_instructions_are_shown_for_every_name_of_a_tool",
        nested_instructions_are_shown_for_every_name_of_a_tool,
    ),
    (
        "outcomes::a_plan_cancelled_just_before_a_tool_call_is_cancelled_and_not_failed",
        a_plan_cancelled_just_before_a_tool_call_is_cancelled_and_not_failed,
    ),
];

/// Cancels the plan when a tool call starts.
struct CancelsAtCall<'a> {
    environment: &'a PlanEnvironment,
    plan: PlanId,
}

impl Observer for CancelsAtCall<'_> {
    fn event(&self, event: &AgentEvent) {
        if matches!(event, AgentEvent::ToolCallStarted { .. }) {
            let context = self
                .environment
                .application()
                .for_caller(Caller::local("ada"));
            let cancelled = context.call(CancelPlan {
                reference: self.plan.to_string(),
                reason: "not needed".to_owned(),
            });
            cancelled.expect("cancelled");
            // The run notices the cancellation by polling.
            std::thread::sleep(Duration::from_secs(2));
        }
    }
}

fn a_plan_cancelled_just_before_a_tool_call_is_cancelled_and_not_failed() {
    for database in TestDatabase::each() {
        let environment = PlanEnvironment::new(&database, "answers: []");
        let plan = environment.one_off("run `true`", &[], Some("builtin/deterministic"));
        let options = DriveOptions {
            consent: Some(PlanPhase::Execute),
            ..DriveOptions::default()
        };
        let front_end = PlanFrontEnd {
            approver: &User::answering(Approval::Once),
            observer: &CancelsAtCall {
                environment: &environment,
                plan: plan.id,
            },
            cancel: &Cancel::new(),
        };
        let _outcome =
            environment
                .plans
                .drive(plan.id, &options, &environment.runtime(), front_end);
        let plan = environment.plans.get(plan.id).expect("it exists");
        assert_eq!(plan.stage, PlanStage::ExecuteCancelled, "{:?}", plan.error);
    }
}

fn error_of(plan: &Plan) -> Value {
    plan.error.clone().map(Value::Object).unwrap_or_default()
}

fn run(environment: &PlanEnvironment, user: &User, plan: &Plan) -> Plan {
    let _outcome = environment
        .drive(plan, PlanPhase::Strategize, user)
        .and_then(|plan| match plan.stage {
            PlanStage::StrategizeComplete => environment.drive(&plan, PlanPhase::Execute, user),
            _ => Ok(plan),
        });
    environment.plans.get(plan.id).expect("it exists")
}

const COMPLETES: &str = r#"
answers:
- when: '^Make the strategy'
  calls:
  - {name: submit_strategy, arguments: {summary: Write it, steps: [{title: Correct the price, description: Put right into price.txt, files: [price.txt]}]}}
- when: '^Execute step 1 of 1'
  calls:
  - {name: write_file, arguments: {path: price.txt, content: "right\n"}}
  - {name: step_done, arguments: {summary: The price is right now.}}
- when: '^Review the result'
  calls:
  - {name: submit_review, arguments: {criteria: [{number: 1, met: true, evidence: 'price.txt:1'}]}}
- text: Nothing more.
"#;

fn a_one_off_task_is_sent_once_per_request() {
    for database in TestDatabase::each() {
        let sentences: Vec<String> = (1..60)
            .map(|number| format!("Sentence {number} of the task names what the price file needs."))
            .collect();
        let task = format!("Correct the price. {}", sentences.join(" "));
        assert!(task.len() > 1_200, "about 300 tokens");
        let environment = PlanEnvironment::new(&database, COMPLETES);
        let plan = environment.one_off(&task, &["grep -q right price.txt".to_owned()], None);
        let user = User::answering(Approval::Once);
        let plan = run(&environment, &user, &plan);
        assert_eq!(plan.stage, PlanStage::ExecuteComplete, "{:?}", plan.error);
        let requests = environment.requests();
        assert_eq!(requests.len(), 3, "strategy, step and review");
        for request in requests {
            assert_eq!(count(&request, "Sentence 7 of the task"), 1);
            assert_eq!(repeated(&request), None);
        }
        let plan = environment
            .drive(&plan, PlanPhase::Apply, &user)
            .expect("applied");
        assert_eq!(plan.stage, PlanStage::ApplyApplied);
        let message = git(&environment.repository, &["log", "-1", "--format=%B"]);
        let lines: Vec<&str> = message.lines().collect();
        assert!(
            lines[0].chars().count() <= 72 && lines[0].ends_with('…'),
            "{message}"
        );
        assert!(message.contains("\nThe price is right now."), "{message}");
        assert!(
            message.contains("\n- check `grep -q right price.txt`: passed"),
            "{message}"
        );
        assert!(
            message.trim_end().ends_with(&format!("Plan: {}", plan.id)),
            "{message}"
        );
    }
}

/// The task and its checks are no templates: `$`, `${…}` and braces have no meaning.
fn texts_of_a_one_off_task_are_not_changed() {
    const TEXT: &str = "costs $5, ${HOME}, $${x}, $(id), {a}, {{b}} and $$";
    for database in TestDatabase::each() {
        let environment = PlanEnvironment::new(&database, COMPLETES);
        let checks = [
            format!("grep -qxF '{TEXT}' n.txt"),
            r#"x=1; test $x = 1 && test "$(echo "${x}")" = 1 && test $$ -gt 1"#.to_owned(),
        ];
        let task = format!("write `{TEXT}` to `n.txt`");
        let plan = environment.one_off(&task, &checks, Some("builtin/deterministic"));
        assert_eq!(plan.description, task);
        let user = User::answering(Approval::Once);
        let plan = run(&environment, &user, &plan);
        assert_eq!(plan.stage, PlanStage::ExecuteComplete, "{:?}", plan.error);
    }
}

fn only_the_deterministic_strategist_executes_a_task() {
    let user = User::answering(Approval::Once);
    for task in [
        "Run `touch junk.txt` and fix it",
        "Check `parse_range` for off-by-one",
        "run `touch junk.txt`",
    ] {
        let database = TestDatabase::sqlite();
        let environment = PlanEnvironment::new(&database, COMPLETES);
        let plan = environment.one_off(task, &[], None);
        let plan = run(&environment, &user, &plan);
        assert_eq!(plan.stage, PlanStage::ExecuteComplete, "{:?}", plan.error);
        assert_eq!(
            environment.changed_in_sandbox(&plan),
            ["price.txt"],
            "{task}"
        );
        assert_eq!(environment.reviews(plan.id), 1, "{task}");
    }
    let database = TestDatabase::sqlite();
    let environment = PlanEnvironment::new(&database, COMPLETES);
    let actor = Some("builtin/deterministic");
    let plan = environment.one_off("run `touch made.txt`", &[], actor);
    let plan = run(&environment, &user, &plan);
    assert_eq!(plan.stage, PlanStage::ExecuteComplete, "{:?}", plan.error);
    assert_eq!(environment.changed_in_sandbox(&plan), ["made.txt"]);
}

fn an_impossible_task_is_blocked_with_its_reason() {
    for database in TestDatabase::each() {
        let script = r"
answers:
- when: '^Make the strategy'
  calls:
  - {name: step_blocked, arguments: {reason: there is no price list, suggestion: add one}}
";
        let environment = PlanEnvironment::new(&database, script);
        let user = User::answering(Approval::Once);
        let plan = run(&environment, &user, &environment.plan("trusted"));
        assert_eq!(plan.stage, PlanStage::StrategizeErrored);
        let error = error_of(&plan);
        assert_eq!(error["error_category"], "blocked");
        assert_eq!(
            error["message"],
            "the task is blocked: there is no price list. Suggestion: add one"
        );
        assert_eq!(environment.price(), "wrong\n");
    }
}

fn a_task_that_is_already_done_changes_nothing_and_is_reviewed() {
    for database in TestDatabase::each() {
        let script = r"
answers:
- when: '^Make the strategy'
  calls:
  - {name: step_done, arguments: {summary: price.txt says wrong as wanted}}
- when: '^Review the result'
  calls:
  - {name: submit_review, arguments: {criteria: [{number: 1, met: true, evidence: 'price.txt:1'}]}}
";
        let environment = PlanEnvironment::new(&database, script);
        let user = User::answering(Approval::Once);
        let plan = run(&environment, &user, &environment.plan("trusted"));
        assert_eq!(plan.stage, PlanStage::ExecuteComplete, "{:?}", plan.error);
        let strategy = plan.strategy.clone().expect("a strategy");
        assert_eq!(
            strategy.summary,
            "Nothing to do: price.txt says wrong as wanted"
        );
        assert_eq!(strategy.steps.len(), 0);
        assert_eq!(environment.reviews(plan.id), 1, "the claim is reviewed");
        let plan = environment
            .drive(&plan, PlanPhase::Apply, &user)
            .expect("an empty result is applied");
        assert_eq!(plan.stage, PlanStage::ApplyApplied);
        assert_eq!(environment.price(), "wrong\n");
    }
}

fn a_refusal_never_counts_as_done() {
    let user = User::answering(Approval::Once);
    let refuses = "answers:\n- {text: I can't help with that.}\nat_end: repeat_last\n";
    let database = TestDatabase::sqlite();
    let environment = PlanEnvironment::new(&database, refuses);
    let plan = run(&environment, &user, &environment.plan("trusted"));
    assert_eq!(plan.stage, PlanStage::StrategizeErrored);
    let error = error_of(&plan);
    assert_eq!(error["error_category"], "blocked");
    let message = error["message"].as_str().expect("a message");
    assert!(message.contains("I can't help with that"), "{message}");
    assert_eq!(environment.requests().len(), 2, "one reminder");

    // A refusal after a change also blocks the step.
    let later = COMPLETES.replace(
        "  - {name: step_done, arguments: {summary: The price is right now.}}\n",
        "",
    );
    let later = later.replace(
        "- text: Nothing more.",
        "- text: I cannot continue with this.\nat_end: repeat_last",
    );
    let database = TestDatabase::sqlite();
    let environment = PlanEnvironment::new(&database, &later);
    let plan = run(&environment, &user, &environment.plan("trusted"));
    assert_eq!(plan.stage, PlanStage::ExecuteErrored);
    let error = error_of(&plan);
    assert_eq!(error["error_category"], "blocked");
    let message = error["message"].as_str().expect("a message");
    assert!(message.contains("I cannot continue"), "{message}");
}

fn prose_without_a_change_gets_one_reminder() {
    let user = User::answering(Approval::Once);
    let write = "  - {name: write_file, arguments: {path: price.txt, content: \"right\\n\"}}\n";
    let claims = COMPLETES.replace(
        &format!(
            "  calls:\n{write}  - {{name: step_done, arguments: {{summary: The price is right now.}}}}\n"
        ),
        "  text: I corrected the price.\n",
    );
    // If the model only repeats its claim, the step is blocked.
    let database = TestDatabase::sqlite();
    let environment = PlanEnvironment::new(&database, &claims);
    let plan = run(&environment, &user, &environment.plan("trusted"));
    assert_eq!(plan.stage, PlanStage::ExecuteErrored);
    let error = error_of(&plan);
    assert_eq!(error["error_category"], "blocked");
    let message = error["message"].as_str().expect("a message");
    assert!(
        message.contains("it changed nothing and reported nothing"),
        "{message}"
    );
    // If the model makes the change after the reminder, the step succeeds.
    let corrects = claims.replace(
        "- text: Nothing more.",
        "- when: '^Not finished'\n  calls:\n  - {name: write_file, arguments: {path: price.txt, content: \"right\\n\"}}\n  \
         - {name: step_done, arguments: {summary: Now it is.}}\n- text: Nothing more.",
    );
    let database = TestDatabase::sqlite();
    let environment = PlanEnvironment::new(&database, &corrects);
    let plan = run(&environment, &user, &environment.plan("trusted"));
    assert_eq!(plan.stage, PlanStage::ExecuteComplete, "{:?}", plan.error);
    assert_eq!(environment.changed_in_sandbox(&plan), ["price.txt"]);
}

fn a_retry_continues_the_conversation_of_a_failed_turn() {
    for database in TestDatabase::each() {
        let script = r#"
answers:
- when: '^Make the strategy'
  calls:
  - {name: submit_strategy, arguments: {summary: Write it, steps: [{title: Correct the price, description: Put right into price.txt, files: [price.txt]}]}}
- when: '^Execute step 1 of 1'
  calls:
  - {name: read_file, arguments: {path: price.txt}}
- when: '(?s)read_file.*wrong'
  calls:
  - {name: shell, arguments: {command: echo albatross}}
- when: 'albatross'
  failures: [{status: 400, message: the provider has a bad day}]
  text: This is never said.
- when: 'Your last turn was interrupted'
  calls:
  - {name: write_file, arguments: {path: price.txt, content: "right\n"}}
  - {name: step_done, arguments: {summary: Wrote it}}
- when: '^Review the result'
  calls:
  - {name: submit_review, arguments: {criteria: [{number: 1, met: true, evidence: 'price.txt:1'}]}}
"#;
        let environment = PlanEnvironment::new(&database, script);
        let user = User::answering(Approval::Once);
        let plan = run(&environment, &user, &environment.plan("trusted"));
        assert_eq!(plan.stage, PlanStage::ExecuteErrored);
        let message = error_of(&plan)["message"].to_string();
        assert!(message.contains("bad day"), "{message}");
        let plan = environment
            .drive(&plan, PlanPhase::Execute, &user)
            .expect("executed");
        assert_eq!(plan.stage, PlanStage::ExecuteComplete);
        let requests = environment.requests();
        let resumed = requests
            .iter()
            .find(|request| contains(request, "Your last turn was interrupted"))
            .expect("the turn is continued");
        assert!(contains(resumed, "albatross"), "with its actions");
        assert!(contains(resumed, "bad day"), "with the reason");
        assert_eq!(count(resumed, "Execute step 1 of 1"), 1);
        assert_eq!(repeated(resumed), None);
    }
}

fn the_executor_keeps_the_files_of_the_strategy() {
    for database in TestDatabase::each() {
        let script = r#"
answers:
- when: '^Make the strategy'
  calls:
  - {name: read_file, arguments: {path: price.txt}}
  - {name: read_file, arguments: {path: other.txt}}
  - {name: search, arguments: {pattern: entry}}
  - {name: shell, arguments: {command: 'seq 1 300; echo the check failed; exit 3'}}
- when: '(?s)from="read_file"'
  calls:
  - {name: submit_strategy, arguments: {summary: Write it, steps: [{title: Correct the price, description: Put right there, files: [price.txt]}]}}
- when: '^Execute step 1 of 1'
  calls:
  - {name: write_file, arguments: {path: price.txt, content: "right\n"}}
  - {name: step_done, arguments: {summary: Wrote it}}
- when: '^Review the result'
  calls:
  - {name: submit_review, arguments: {criteria: [{number: 1, met: true, evidence: 'price.txt:1'}]}}
- calls:
  - {name: submit_strategy, arguments: {summary: Write it, steps: [{title: Correct the price, description: Put right there, files: [price.txt]}]}}
"#;
        let lines = |word: &str| {
            let lines: Vec<String> = (1..100)
                .map(|n| format!("{word} entry {n} {}", "x".repeat(60)))
                .collect();
            lines.join("\n") + "\n"
        };
        let files = [("price.txt", lines("price")), ("other.txt", lines("other"))];
        let files: Vec<(&str, &str)> = files
            .iter()
            .map(|(name, text)| (*name, text.as_str()))
            .collect();
        let done = "price.txt says right";
        let environment = PlanEnvironment::with(&database, script, done, &files);
        let user = User::answering(Approval::Once);
        let plan = run(&environment, &user, &environment.plan("trusted"));
        assert_eq!(plan.stage, PlanStage::ExecuteComplete, "{:?}", plan.error);
        let requests = environment.requests();
        let strategy = &requests[1];
        assert!(contains(strategy, "other entry 77"), "a file that was read");
        let step = requests
            .iter()
            .find(|request| contains(request, "Execute step 1 of 1"))
            .expect("a step");
        assert!(contains(step, "price entry 77"), "a file of the strategy");
        assert!(contains(step, "the check failed"), "failing output");
        assert!(!contains(step, "other entry 77"), "another file");
        assert!(contains(step, "[Result of `read_file other.txt`"));
        assert!(contains(step, "[Result of `search entry`"));
        let size = |request: &Value| Value::from(messages(request)).to_string().len();
        assert!(size(step) < size(strategy), "the request is smaller");
    }
}

fn nested_instructions_are_shown_for_every_name_of_a_tool() {
    for call in [
        "{name: read_file, arguments: {path: shop/list.txt}}",
        "{name: edit_file, arguments: {path: shop/list.txt, old_string: old, new_string: new}}",
        "{name: apply_patch, arguments: {patch: \"*** Begin Patch\\n*** Update File: shop/list.txt\\n@@\\n-old\\n+new\\n*** End Patch\"}}",
    ] {
        let script = COMPLETES.replace(
            "  - {name: write_file, arguments: {path: price.txt, content: \"right\\n\"}}\n  - {name: step_done, arguments: {summary: The price is right now.}}\n",
            &format!("  - {call}\n"),
        );
        let script = script.replace(
            "- text: Nothing more.",
            "- when: 'Prices have no currency'\n  calls:\n  - {name: read_file, arguments: {path: shop/list.txt}}\n  \
             - {name: write_file, arguments: {path: price.txt, content: \"right\\n\"}}\n  \
             - {name: step_done, arguments: {summary: Done}}\n- text: Nothing more.",
        );
        let files = [
            ("price.txt", "wrong\n"),
            ("shop/list.txt", "old\n"),
            ("shop/AGENTS.md", "Prices have no currency sign.\n"),
        ];
        let database = TestDatabase::sqlite();
        let environment = PlanEnvironment::with(&database, &script, "price.txt says right", &files);
        let user = User::answering(Approval::Once);
        let plan = run(&environment, &user, &environment.plan("trusted"));
        assert_eq!(
            plan.stage,
            PlanStage::ExecuteComplete,
            "{call}: {:?}",
            plan.error
        );
        let requests = environment.requests();
        let shown: Vec<usize> = requests
            .iter()
            .map(|request| count(request, "Prices have no currency sign."))
            .collect();
        assert_eq!(shown[1], 0, "{call}: before the first call");
        assert_eq!(shown[2], 1, "{call}: {shown:?}");
        assert!(shown.iter().all(|times| *times <= 1), "{call}: {shown:?}");
    }
}
