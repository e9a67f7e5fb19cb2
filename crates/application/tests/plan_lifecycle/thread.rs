//! The phases of a plan share one conversation: the requests of each phase, and the effects of the
//! actors' reports.

use std::collections::HashSet;

use cleveragents_domain::{Plan, PlanPhase, PlanStage};
use cleveragents_testkit::TestDatabase;
use cleveragents_tools::ports::Approval;
use serde_json::Value;

use crate::support::{PlanEnvironment, User, git};

/// The tests of this module by name, which `main` runs.
pub(crate) const TESTS: &[(&str, fn())] = &[
    (
        "thread::changes_by_commands_while_strategizing_are_rolled_back",
        changes_by_commands_while_strategizing_are_rolled_back,
    ),
    (
        "thread::a_plan_is_one_conversation_from_the_strategy_to_the_fix",
        a_plan_is_one_conversation_from_the_strategy_to_the_fix,
    ),
    (
        "thread::a_blocked_step_fails_and_is_continued_with_the_guidance_of_the_user",
        a_blocked_step_fails_and_is_continued_with_the_guidance_of_the_user,
    ),
    (
        "thread::a_rollback_also_rolls_back_the_conversation",
        a_rollback_also_rolls_back_the_conversation,
    ),
    (
        "thread::a_conversation_that_is_too_long_is_replaced_by_a_digest",
        a_conversation_that_is_too_long_is_replaced_by_a_digest,
    ),
];

/// A check that passes if the price is right. Its output is long enough for [`repeated`] to detect
/// a repetition.
const CHECK: &str = "i=0\nwhile [ $i -lt 40 ]; do echo \"looking at entry $i of the price list\"; i=$((i+1)); done\n\
                     grep -qx right price.txt || { echo 'price.txt: expected right'; exit 1; }\n";

const DONE: &str = "- check `sh check.sh`\n- price.txt says right";

/// A model that reproduces the failure, writes a wrong word, and fixes it when the check fails.
const MODEL: &str = r#"
answers:
- when: '^Make the strategy'
  text: I run the check.
  calls:
  - {name: builtin/file-write, arguments: {path: refused.txt, content: "x"}}
  - {name: builtin/shell, arguments: {command: 'echo scribbled | tee price.txt; touch junk.txt; sh check.sh'}}
- when: '^Execute step 1 of 1'
  calls:
  - {name: builtin/file-write, arguments: {path: price.txt, content: "wright\n"}}
  - {name: step_done, arguments: {summary: Wrote the price}}
- when: '^Checks failed'
  calls:
  - {name: builtin/file-write, arguments: {path: price.txt, content: "right\n"}}
  - {name: builtin/shell, arguments: {command: 'grep right price.txt'}}
  - {name: step_done, arguments: {summary: Corrected it, checks_run: [{command: grep, passed: true}]}}
- when: '^Review the result'
  calls:
  - name: submit_review
    arguments: {criteria: [{number: 1, met: true, evidence: 'price.txt:1'}], defects: [{severity: advice, description: A test would help}]}
- when: 'scribbled'
  calls:
  - name: submit_strategy
    arguments: {summary: Write the right word, steps: [{title: Correct the price, description: Put right into price.txt, files: [price.txt]}]}
- text: Nothing more.
"#;

/// The texts of a request that a model reads: instructions, messages, arguments and results.
fn texts(request: &Value) -> Vec<String> {
    let mut texts = Vec::new();
    collect(&request["system"], &mut texts);
    collect(&request["messages"], &mut texts);
    texts
}

fn collect(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::String(text) => match serde_json::from_str::<Value>(text) {
            Ok(inside @ (Value::Object(_) | Value::Array(_))) => collect(&inside, texts),
            _ => texts.push(text.clone()),
        },
        Value::Array(items) => items.iter().for_each(|item| collect(item, texts)),
        Value::Object(fields) => fields.values().for_each(|field| collect(field, texts)),
        _ => {}
    }
}

/// A block of lines that occurs twice in a request and is longer than 200 tokens, about 800 bytes.
pub(crate) fn repeated(request: &Value) -> Option<String> {
    let texts = texts(request).join("\n");
    let lines: Vec<&str> = texts
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let mut seen = HashSet::new();
    for first in 0..lines.len() {
        let mut block = String::new();
        for line in &lines[first..] {
            block.push_str(line);
            block.push('\n');
            if block.len() > 800 {
                break;
            }
        }
        if block.len() > 800 && !seen.insert(block.clone()) {
            return Some(block);
        }
    }
    None
}

/// The messages of a request, without its instructions and tools.
pub(crate) fn messages(request: &Value) -> Vec<Value> {
    request["messages"].as_array().cloned().unwrap_or_default()
}

pub(crate) fn contains(request: &Value, text: &str) -> bool {
    texts(request).iter().any(|part| part.contains(text))
}

pub(crate) fn count(request: &Value, text: &str) -> usize {
    let texts = texts(request);
    texts.iter().map(|part| part.matches(text).count()).sum()
}

fn shop(database: &TestDatabase, script: &str) -> (PlanEnvironment, User, Plan) {
    let files = [("price.txt", "wrong\n"), ("check.sh", CHECK)];
    let environment = PlanEnvironment::with(database, script, DONE, &files);
    let plan = environment.plan("trusted");
    (environment, User::answering(Approval::Once), plan)
}

fn changes_by_commands_while_strategizing_are_rolled_back() {
    for database in TestDatabase::each() {
        let (environment, user, _) = shop(&database, MODEL);
        let plan = environment.plan("supervised");
        let plan = environment
            .drive(&plan, PlanPhase::Strategize, &user)
            .expect("a strategy");
        assert_eq!(plan.stage, PlanStage::StrategizeComplete);
        let requests = environment.requests();
        assert!(
            contains(&requests[1], "price.txt: expected right"),
            "the check ran"
        );
        assert!(contains(
            &requests[1],
            "the phase strategize allows no changes to files"
        ));
        assert_eq!(environment.changed_in_sandbox(&plan), Vec::<String>::new());
    }
}

fn a_plan_is_one_conversation_from_the_strategy_to_the_fix() {
    for database in TestDatabase::each() {
        let (environment, user, plan) = shop(&database, MODEL);
        let plan = environment
            .drive(&plan, PlanPhase::Strategize, &user)
            .expect("executed");
        assert_eq!(plan.stage, PlanStage::ExecuteComplete);
        assert_eq!(environment.changed_in_sandbox(&plan), ["price.txt"]);
        let plan = environment
            .drive(&plan, PlanPhase::Apply, &user)
            .expect("applied");
        assert_eq!(plan.stage, PlanStage::ApplyApplied);
        assert_eq!(environment.price(), "right\n");
        assert_eq!(git(&environment.repository, &["status", "--porcelain"]), "");
        assert!(!environment.repository.join("junk.txt").exists());
        assert!(!environment.repository.join("refused.txt").exists());

        let requests = environment.requests();
        let [ask, strategy, step, fix, review] = requests.as_slice() else {
            panic!("{} requests", requests.len());
        };
        for later in [strategy, step, fix] {
            assert_eq!(later["system"], ask["system"], "the same instructions");
            assert_eq!(later["tools"], ask["tools"], "the same tools");
        }
        for (earlier, later) in [(ask, strategy), (strategy, step), (step, fix)] {
            let (earlier, later) = (messages(earlier), messages(later));
            assert!(later.len() > earlier.len());
            assert_eq!(
                later[..earlier.len()],
                earlier,
                "the conversation is continued"
            );
        }
        for request in [ask, strategy, step, fix, review] {
            assert_eq!(count(request, "Fix the price"), 1, "the task occurs once");
            assert_eq!(repeated(request), None);
        }
        assert_eq!(messages(review).len(), 1, "the reviewer starts fresh");
        for evidence in [
            "+right",
            "sh check.sh",
            "Exit code: 0",
            "entry 39 of the price list",
        ] {
            assert!(contains(review, evidence), "{evidence}");
        }
        let sent: usize = requests
            .iter()
            .map(|request| request.to_string().len())
            .sum();
        assert!(sent < 100_000, "{sent} bytes are about {} tokens", sent / 4);
    }
}

/// A model that reports that it is blocked, and continues after it receives guidance.
const BLOCKED: &str = r#"
answers:
- when: '^Make the strategy'
  calls:
  - {name: submit_strategy, arguments: {summary: Nothing, steps: []}}
- when: 'was not recorded'
  calls:
  - name: submit_strategy
    arguments: {summary: Write it, steps: [{title: Correct the price, description: Put right into price.txt}]}
- when: '^Review the result'
  calls:
  - {name: submit_review, arguments: {criteria: [{number: 1, met: true, evidence: 'price.txt:1'}]}}
- when: 'the word is right'
  calls:
  - {name: builtin/file-write, arguments: {path: price.txt, content: "right\n"}}
  - {name: step_done, arguments: {summary: Wrote it}}
- when: '^Execute step 1 of 1'
  calls:
  - {name: step_blocked, arguments: {reason: the word is missing, suggestion: name the word}}
- text: Nothing more.
"#;

fn a_blocked_step_fails_and_is_continued_with_the_guidance_of_the_user() {
    for database in TestDatabase::each() {
        let (environment, user, plan) = shop(&database, BLOCKED);
        let blocked = environment
            .drive(&plan, PlanPhase::Strategize, &user)
            .and_then(|plan| environment.drive(&plan, PlanPhase::Execute, &user));
        assert!(blocked.is_err(), "{blocked:?}");
        let plan = environment.plans.get(plan.id).expect("it exists");
        assert_eq!(plan.stage, PlanStage::ExecuteErrored);
        let error = plan.error.clone().expect("an error");
        assert_eq!(error["error_category"], "blocked");
        assert_eq!(error["details"]["suggestion"], "name the word");
        assert_eq!(environment.changed_in_sandbox(&plan), Vec::<String>::new());
        environment
            .plans
            .prompt(plan.id, "the word is right")
            .expect("guidance");
        environment
            .drive(&plan, PlanPhase::Execute, &user)
            .expect("executed");
        let requests = environment.requests();
        let resumed = requests
            .iter()
            .find(|request| contains(request, "the word is right"))
            .expect("the guidance is sent");
        assert_eq!(count(resumed, "the word is right"), 1);
        assert!(contains(resumed, "the word is missing"), "it continues");
        assert_eq!(repeated(resumed), None);
        // The first report had no steps, so it was refused and the model repeated it.
        assert!(contains(&requests[1], "was not recorded"));
    }
}

/// A model for two steps. A rollback removes its answer to the second step.
const TWO_STEPS: &str = r#"
answers:
- when: '^Make the strategy'
  calls:
  - name: submit_strategy
    arguments:
      summary: Two steps
      steps:
      - {title: Add notes, description: Write notes.txt}
      - {title: Correct the price, description: Put right into price.txt}
- when: '^Execute step 1 of 2'
  calls:
  - {name: builtin/file-write, arguments: {path: notes.txt, content: "notes\n"}}
  - {name: step_done, arguments: {summary: The notes are written}}
- when: '^Execute step 2 of 2'
  text: I remember the albatross.
  calls:
  - {name: builtin/file-write, arguments: {path: price.txt, content: "right\n"}}
  - {name: step_done, arguments: {summary: The price is right}}
- when: '^Review the result'
  calls:
  - {name: submit_review, arguments: {criteria: [{number: 1, met: true, evidence: 'price.txt:1'}]}}
- text: Nothing more.
"#;

fn a_rollback_also_rolls_back_the_conversation() {
    for database in TestDatabase::each() {
        let (environment, user, _) = shop(&database, TWO_STEPS);
        let plan = environment.plan("supervised");
        let plan = environment
            .drive(&plan, PlanPhase::Strategize, &user)
            .expect("a strategy");
        let plan = environment
            .drive(&plan, PlanPhase::Execute, &user)
            .expect("executed");
        environment
            .plans
            .rollback(plan.id, "step/1/2")
            .expect("rolled back");
        let before = environment.requests().len();
        environment
            .drive(&plan, PlanPhase::Execute, &user)
            .expect("executed again");
        let requests = environment.requests();
        let again = &requests[before];
        assert!(contains(again, "Execute step 2 of 2"));
        assert!(contains(again, "The notes are written"), "step 1 is in it");
        assert!(!contains(again, "albatross"), "step 2 was undone");
        assert_eq!(repeated(again), None);
    }
}

fn a_conversation_that_is_too_long_is_replaced_by_a_digest() {
    for database in TestDatabase::each() {
        let small = format!("capabilities: {{context_window: 16000}}\n{MODEL}");
        // The output of the strategist's command alone exceeds the context of this small model.
        let script = small.replace(
            "sh check.sh'}}\n- when: '^Execute",
            "sh check.sh; seq 1 4000'}}\n- when: '^Execute",
        );
        let (environment, user, plan) = shop(&database, &script);
        let plan = environment
            .drive(&plan, PlanPhase::Strategize, &user)
            .expect("a strategy");
        if plan.stage == PlanStage::StrategizeComplete {
            environment
                .drive(&plan, PlanPhase::Execute, &user)
                .expect("executed");
        }
        let requests = environment.requests();
        let step = requests
            .iter()
            .find(|request| contains(request, "Execute step 1 of 1"))
            .expect("a step");
        assert!(contains(step, "Earlier in this plan"));
        assert_eq!(
            messages(step).len(),
            1,
            "no other message of the strategist"
        );
        assert_eq!(count(step, "Put right into price.txt"), 1);
    }
}
