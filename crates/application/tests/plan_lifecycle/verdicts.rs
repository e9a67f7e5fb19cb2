//! A result of a check counts for the state of the sandbox on which it ran: a fix runs before the check runs again.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use cleveragents_domain::{Plan, PlanPhase, PlanStage};
use cleveragents_testkit::TestDatabase;
use cleveragents_testkit::model_server::{ModelServer, Response, WireFormat};
use cleveragents_tools::ports::Approval;
use serde_json::{Value, json};

use crate::support::{PlanEnvironment, User};

/// The tests of this module by name, which `main` runs.
pub(crate) const TESTS: &[(&str, fn())] = &[
    (
        "verdicts::an_approved_fix_runs_before_the_reviewer_is_asked_again",
        an_approved_fix_runs_before_the_reviewer_is_asked_again,
    ),
    (
        "verdicts::a_restarted_plan_does_not_ask_the_reviewer_again",
        a_restarted_plan_does_not_ask_the_reviewer_again,
    ),
    (
        "verdicts::a_reviewer_that_failed_is_asked_again_before_a_fix",
        a_reviewer_that_failed_is_asked_again_before_a_fix,
    ),
    (
        "verdicts::a_retry_after_a_rejected_fix_runs_the_failed_check_again",
        a_retry_after_a_rejected_fix_runs_the_failed_check_again,
    ),
];

const FORMAT: WireFormat = WireFormat::OpenaiChat;

/// The reviewer's answer to its first request.
#[derive(Clone, Copy)]
enum FirstReview {
    BlockingDefect,
    HttpError,
}

/// A plan whose reviewer fails the first review and passes every later one.
struct Review {
    environment: PlanEnvironment,
    /// The roles that the model was asked for, in order.
    asked: Arc<Mutex<Vec<&'static str>>>,
    user: User,
    _server: ModelServer,
    _database: TestDatabase,
}

impl Review {
    fn new(database: TestDatabase, first: FirstReview) -> Self {
        let asked: Arc<Mutex<Vec<&'static str>>> = Arc::default();
        let log = Arc::clone(&asked);
        let reviews = AtomicUsize::new(0);
        let server = ModelServer::answering(move |request| {
            let role = role(&request.body);
            log.lock().expect("no panic").push(role);
            let reviews = match role {
                "review" => reviews.fetch_add(1, Ordering::Relaxed) + 1,
                _ => 0,
            };
            answer(role, reviews, first)
        });
        let files = [("price.txt", "wrong\n")];
        let done = "price.txt says right";
        let environment = PlanEnvironment::against(&database, &server.url(), FORMAT, done, &files);
        Self {
            environment,
            asked,
            user: User::answering(Approval::Once),
            _server: server,
            _database: database,
        }
    }

    /// Runs a new plan until it waits for the approval of a fix.
    fn until_fix_is_asked(&self) -> Plan {
        let plan = self.environment.plan("supervised");
        let plan = self
            .environment
            .drive(&plan, PlanPhase::Strategize, &self.user)
            .expect("a strategy");
        let outcome = self
            .environment
            .drive(&plan, PlanPhase::Execute, &self.user);
        assert!(outcome.is_err(), "it waits for the approval of the fix");
        let plan = self.environment.plans.get(plan.id).expect("it exists");
        assert!(plan.waiting.is_some(), "{:?} {:?}", plan.stage, plan.error);
        self.asked.lock().expect("no panic").clear();
        plan
    }

    fn answer(&self, plan: &Plan, is_approved: bool) {
        self.environment
            .plans
            .answer(plan.id, is_approved, None, "ada")
            .expect("answered");
    }

    fn execute(&self, plan: &Plan) -> Plan {
        let _outcome = self.environment.drive(plan, PlanPhase::Execute, &self.user);
        self.environment.plans.get(plan.id).expect("it exists")
    }

    fn asked(&self) -> Vec<&'static str> {
        self.asked.lock().expect("no panic").clone()
    }
}

fn role(body: &str) -> &'static str {
    if body.contains("Review the result") {
        "review"
    } else if body.contains("Checks failed: fix the cause") {
        "fix"
    } else if body.contains("Execute step 1 of 1") {
        "step"
    } else {
        "strategy"
    }
}

fn answer(role: &str, reviews: usize, first: FirstReview) -> Response {
    let write = |content: &str| {
        let write = json!({"path": "price.txt", "content": content});
        let done = json!({"summary": "The price is written."});
        FORMAT.calls(&[("w", "write_file", &write), ("d", "step_done", &done)])
    };
    let review = |defects: Value| {
        let criteria = json!([{"number": 1, "met": true, "evidence": "price.txt:1"}]);
        let verdict = json!({"criteria": criteria, "defects": defects});
        FORMAT.calls(&[("r", "submit_review", &verdict)])
    };
    match (role, reviews, first) {
        ("strategy", ..) => {
            let step = json!({"title": "Correct the price", "description": "Write right", "files": ["price.txt"]});
            let strategy = json!({"summary": "Write it", "steps": [step]});
            FORMAT.calls(&[("s", "submit_strategy", &strategy)])
        }
        ("step", ..) => write("rihgt\n"),
        ("fix", ..) => write("right\n"),
        (_, 1, FirstReview::BlockingDefect) => review(json!([{
            "severity": "blocking", "path": "price.txt", "line": 1, "description": "it is misspelt",
        }])),
        (_, 1, FirstReview::HttpError) => Response::json(
            400,
            r#"{"error": {"message": "a bad day", "type": "invalid", "code": "invalid"}}"#,
        ),
        _ => review(json!([])),
    }
}

fn an_approved_fix_runs_before_the_reviewer_is_asked_again() {
    for database in TestDatabase::each() {
        let review = Review::new(database, FirstReview::BlockingDefect);
        let plan = review.until_fix_is_asked();
        review.answer(&plan, true);
        let plan = review.execute(&plan);
        assert_eq!(plan.stage, PlanStage::ExecuteComplete, "{:?}", plan.error);
        assert_eq!(review.asked(), ["fix", "review"]);
        let applied = review
            .environment
            .drive(&plan, PlanPhase::Apply, &review.user)
            .expect("applied");
        assert_eq!(applied.stage, PlanStage::ApplyApplied);
        assert_eq!(review.environment.price(), "right\n");
    }
}

fn a_restarted_plan_does_not_ask_the_reviewer_again() {
    let review = Review::new(TestDatabase::sqlite(), FirstReview::BlockingDefect);
    let plan = review.until_fix_is_asked();
    // Without the approval, the plan asks the user again and no model.
    for _ in 0..2 {
        let plan = review.execute(&plan);
        assert_eq!(plan.stage, PlanStage::ExecuteProcessing);
        assert!(plan.waiting.is_some());
    }
    assert_eq!(review.asked(), Vec::<&str>::new());
}

fn a_reviewer_that_failed_is_asked_again_before_a_fix() {
    let review = Review::new(TestDatabase::sqlite(), FirstReview::HttpError);
    let plan = review.until_fix_is_asked();
    review.answer(&plan, true);
    let plan = review.execute(&plan);
    assert_eq!(plan.stage, PlanStage::ExecuteComplete, "{:?}", plan.error);
    assert_eq!(review.asked(), ["review"]);
}

fn a_retry_after_a_rejected_fix_runs_the_failed_check_again() {
    let review = Review::new(TestDatabase::sqlite(), FirstReview::BlockingDefect);
    let plan = review.until_fix_is_asked();
    review.answer(&plan, false);
    let plan = review.execute(&plan);
    assert_eq!(plan.stage, PlanStage::ExecuteErrored);
    assert_eq!(review.asked(), Vec::<&str>::new());
    // The user retries the failed plan, which requests the failed check explicitly.
    let plan = review.execute(&plan);
    assert_eq!(plan.stage, PlanStage::ExecuteComplete, "{:?}", plan.error);
    assert_eq!(review.asked(), ["review"]);
}
