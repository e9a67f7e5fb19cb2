//! Plans from strategize to apply, without a front end: real sandboxes and repositories, a scripted model, both
//! databases.
//!
//! The tests have their own `main`, because the stages of a confined command start this program again.

#![expect(clippy::print_stdout, reason = "a test runner reports the results")]

mod applied;
mod background;
mod change_request;
mod child_operations;
mod children;
mod correction_model;
mod corrections;
mod divisions;
mod many_children;
mod misbehaviour;
mod operations;
mod outcomes;
mod salvage;
mod support;
mod thread;
mod undo;
mod verdicts;

use std::process::ExitCode;

use cleveragents_application::{
    QueueEntry, Scheduler, Worker, WorkerOptions, WorkerSummary, phase_to_execute,
};
use cleveragents_domain::{PlanPhase, PlanStage};
use cleveragents_process::Cancel;
use cleveragents_testkit::TestDatabase;
use cleveragents_tools::ports::Approval;

use support::{PlanEnvironment, User, git};

const TESTS: &[(&str, fn())] = &[
    (
        "a_plan_runs_from_strategize_to_apply_without_a_front_end",
        a_plan_runs_from_strategize_to_apply_without_a_front_end,
    ),
    (
        "a_worker_runs_queued_plans_and_ends_when_idle",
        a_worker_runs_queued_plans_and_ends_when_idle,
    ),
    (
        "a_plan_above_the_concurrency_limit_waits_until_it_is_cancelled",
        a_plan_above_the_concurrency_limit_waits_until_it_is_cancelled,
    ),
    (
        "a_phase_that_cannot_run_leaves_the_plan_errored_and_not_running",
        a_phase_that_cannot_run_leaves_the_plan_errored_and_not_running,
    ),
    (
        "changes_after_a_review_are_reviewed_again",
        changes_after_a_review_are_reviewed_again,
    ),
];

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    if let Some(code) = cleveragents_process::stage_main(&arguments) {
        return code.into();
    }
    let filters: Vec<String> = arguments[1..]
        .iter()
        .map(|argument| argument.to_string_lossy().into_owned())
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let is_list = arguments.iter().any(|argument| argument == "--list");
    let (mut passed, mut failed) = (0, 0);
    for (name, test) in [
        TESTS,
        applied::TESTS,
        background::TESTS,
        child_operations::TESTS,
        children::TESTS,
        correction_model::TESTS,
        corrections::TESTS,
        divisions::TESTS,
        change_request::TESTS,
        many_children::TESTS,
        misbehaviour::TESTS,
        operations::TESTS,
        outcomes::TESTS,
        salvage::TESTS,
        thread::TESTS,
        undo::TESTS,
        verdicts::TESTS,
    ]
    .concat()
    {
        if !filters.is_empty() && !filters.iter().any(|filter| name.contains(filter)) {
            continue;
        }
        if is_list {
            println!("{name}: test");
            continue;
        }
        if std::panic::catch_unwind(test).is_ok() {
            println!("test {name} ... ok");
            passed += 1;
        } else {
            println!("test {name} ... FAILED");
            failed += 1;
        }
    }
    if is_list {
        return ExitCode::SUCCESS;
    }
    let result = if failed == 0 { "ok" } else { "FAILED" };
    println!("test result: {result}. {passed} passed; {failed} failed; 0 ignored");
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// A model that writes the file and reports that the task is done.
pub(crate) const MODEL: &str = r#"
at_end: repeat_last
answers:
- when: '^Make the strategy'
  text: |
    {"summary": "Write it", "risk": 0.1,
     "steps": [{"title": "Write price.txt", "description": "Write right.", "files": ["price.txt"]}]}
- when: '^Execute step 1 of 1'
  text: I write it.
  calls:
  - {name: builtin/file-write, arguments: {path: price.txt, content: "right\n"}}
- when: '^Review the result'
  text: '{"criteria": [{"number": 1, "met": true, "evidence": "price.txt:1"}]}'
- text: The file is written.
"#;

fn a_plan_runs_from_strategize_to_apply_without_a_front_end() {
    for database in TestDatabase::each() {
        let environment = PlanEnvironment::new(&database, MODEL);
        let user = User::answering(Approval::Once);
        let plan = environment.plan("supervised");
        assert_eq!(phase_to_execute(&plan), PlanPhase::Strategize);

        let plan = environment
            .drive(&plan, PlanPhase::Strategize, &user)
            .expect("a strategy");
        assert_eq!(plan.stage, PlanStage::StrategizeComplete);
        assert_eq!(
            plan.strategy.as_ref().map(|strategy| strategy.steps.len()),
            Some(1)
        );
        assert_eq!(phase_to_execute(&plan), PlanPhase::Execute);

        let plan = environment
            .drive(&plan, PlanPhase::Execute, &user)
            .expect("executed");
        assert_eq!(plan.stage, PlanStage::ExecuteComplete);
        assert_eq!(
            environment.price(),
            "wrong\n",
            "only the sandbox is changed"
        );

        let plan = environment
            .drive(&plan, PlanPhase::Apply, &user)
            .expect("applied");
        assert_eq!(plan.stage, PlanStage::ApplyApplied);
        assert_eq!(environment.price(), "right\n");
        assert_eq!(
            git(&environment.repository, &["rev-list", "--count", "HEAD"]),
            "2"
        );
        assert_eq!(git(&environment.repository, &["status", "--porcelain"]), "");
    }
}

fn a_worker_runs_queued_plans_and_ends_when_idle() {
    for database in TestDatabase::each() {
        let environment = PlanEnvironment::new(&database, MODEL);
        let plan = environment.plan("trusted");
        environment
            .plans
            .queue(plan.id, &QueueEntry::default())
            .expect("queued");
        let cancel = Cancel::new();
        let runtime = || Ok(environment.runtime());
        let worker = Worker::new(
            std::sync::Arc::clone(&environment.engine),
            &environment.plans,
            2,
            WorkerOptions {
                concurrency: None,
                until_idle: true,
                runtime: &runtime,
                observer: &|_| {},
                cancel: &cancel,
            },
        );
        let summary = worker.run().expect("it ends");
        assert_eq!(
            summary,
            WorkerSummary {
                done: 1,
                ..WorkerSummary::default()
            }
        );
        let plan = environment.plans.get(plan.id).expect("it exists");
        assert!(plan.strategy.is_some(), "{:?}", plan.stage);
        let scheduler = Scheduler::new(std::sync::Arc::clone(&environment.engine), 2);
        assert!(
            !scheduler.has_worker().expect("readable"),
            "its lease is released"
        );
    }
}

fn a_plan_above_the_concurrency_limit_waits_until_it_is_cancelled() {
    use cleveragents_application::{DriveOptions, LeaseService, NoObserver, PlanFrontEnd};
    use cleveragents_domain::{Code, Diagnose as _, LeaseSubject, Ttl};
    for database in TestDatabase::each() {
        let environment = PlanEnvironment::new(&database, MODEL);
        let plan = environment.plan("supervised");
        let leases = LeaseService::new(std::sync::Arc::clone(&environment.engine));
        let _other_plan = leases
            .acquire(LeaseSubject::new("plan-slot", 0), Ttl::default())
            .expect("the only slot");
        let cancel = Cancel::new();
        cancel.cancel();
        let user = User::answering(Approval::NoUser);
        let outcome = Scheduler::new(std::sync::Arc::clone(&environment.engine), 1).run(
            &environment.plans,
            &plan,
            &DriveOptions {
                consent: Some(PlanPhase::Strategize),
                ..DriveOptions::default()
            },
            &environment.runtime(),
            PlanFrontEnd {
                approver: &user,
                observer: &NoObserver,
                cancel: &cancel,
            },
        );
        let error = outcome.expect_err("all slots are taken");
        assert_eq!(error.code(), Code::PlanCancelled);
        let plan = environment.plans.get(plan.id).expect("it exists");
        assert_eq!(plan.stage, PlanStage::StrategizeQueued, "it did not start");
    }
}

fn a_phase_that_cannot_run_leaves_the_plan_errored_and_not_running() {
    for database in TestDatabase::each() {
        let environment = PlanEnvironment::new(&database, MODEL);
        let user = User::answering(Approval::Once);
        let plan = environment.plan("supervised");
        // A sandbox cannot be created from a repository without a commit.
        git(&environment.repository, &["update-ref", "-d", "HEAD"]);
        let outcome = environment.drive(&plan, PlanPhase::Strategize, &user);
        assert!(outcome.is_err());
        let plan = environment.plans.get(plan.id).expect("it exists");
        assert_eq!(plan.stage, PlanStage::StrategizeErrored);
    }
}

/// A model whose first review passes. After guidance that breaks the file, its second review finds the failure.
const REVIEWED_TWICE: &str = r#"
at_end: repeat_last
answers:
- when: '^Make the strategy'
  text: |
    {"summary": "Write it", "risk": 0.1,
     "steps": [{"title": "Write price.txt", "description": "Write right.", "files": ["price.txt"]}]}
- when: '^Execute step 1 of 1'
  text: I write it.
  calls:
  - {name: builtin/file-write, arguments: {path: price.txt, content: "right\n"}}
- when: '^Review the result[^@]*price.txt'
  text: '{"criteria": [{"number": 1, "met": true, "evidence": "price.txt:1"}]}'
- when: 'break it'
  text: I follow the guidance.
  calls:
  - {name: builtin/file-write, arguments: {path: price.txt, content: "broken\n"}}
- text: Done.
"#;

fn changes_after_a_review_are_reviewed_again() {
    for database in TestDatabase::each() {
        let environment = PlanEnvironment::new(&database, REVIEWED_TWICE);
        let user = User::answering(Approval::Once);
        let plan = environment.plan("supervised");
        let plan = environment
            .drive(&plan, PlanPhase::Strategize, &user)
            .expect("a strategy");
        let plan = environment
            .drive(&plan, PlanPhase::Execute, &user)
            .expect("executed");
        assert_eq!(environment.reviews(plan.id), 1);
        environment
            .plans
            .prompt(plan.id, "break it")
            .expect("guidance");
        let outcome = environment.drive(&plan, PlanPhase::Execute, &user);
        assert!(outcome.is_ok(), "{outcome:?}");
        assert_eq!(
            environment.reviews(plan.id),
            2,
            "the changed files were reviewed again"
        );
    }
}
