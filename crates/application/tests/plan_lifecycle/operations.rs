//! Plans through the typed operations: events, refusals and permissions.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use cleveragents_application::plan_operations::{
    ApplyPlan, CreatedPlan, ExecutePlan, ExecutionStatus, QueuePlan, ResumePlan, ResumedPlan,
    ShowPlanStatus, UsePlan,
};
use cleveragents_application::{
    AgentEvent, FrontEnd, NoApprover, Observer, Operation, OperationContext, OperationError,
    ToolCallStatus,
};
use cleveragents_domain::identity::{Caller, Scope};
use cleveragents_domain::{Code, Diagnose as _, PlanStage};
use cleveragents_testkit::TestDatabase;
use cleveragents_tools::ports::Approval;

use crate::MODEL;
use crate::support::{PlanEnvironment, User, git};

/// The tests of this module by name, which `main` runs.
pub(crate) const TESTS: &[(&str, fn())] = &[
    (
        "operations::an_editor_runs_a_plan_from_strategize_to_apply_and_sees_its_events_in_order",
        an_editor_runs_a_plan_from_strategize_to_apply_and_sees_its_events_in_order,
    ),
    (
        "operations::viewers_and_callers_of_other_namespaces_cannot_run_plans",
        viewers_and_callers_of_other_namespaces_cannot_run_plans,
    ),
    (
        "operations::a_local_caller_queues_the_only_plan_and_a_remote_one_cannot",
        a_local_caller_queues_the_only_plan_and_a_remote_one_cannot,
    ),
    (
        "operations::resuming_previews_and_then_continues_where_the_plan_stopped",
        resuming_previews_and_then_continues_where_the_plan_stopped,
    ),
    (
        "operations::without_a_front_end_a_plan_waits_for_approval",
        without_a_front_end_a_plan_waits_for_approval,
    ),
];

/// Records the progress events, one line per event.
#[derive(Default)]
struct Recorder(Mutex<Vec<String>>);

impl Recorder {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().expect("no panic"))
    }
}

impl Observer for Recorder {
    fn event(&self, event: &AgentEvent) {
        // Remote clients receive events as JSON, so they must survive serialization.
        let wire = serde_json::to_string(event).expect("JSON");
        let event: AgentEvent = serde_json::from_str(&wire).expect("an event");
        let line = match event {
            AgentEvent::StageChanged { stage, .. } => format!("stage {stage}"),
            AgentEvent::Strategy { strategy } => format!("strategy {}", strategy.summary),
            AgentEvent::PlanStepStarted { number, count, .. } => format!("step {number}/{count}"),
            AgentEvent::PlanStepFinished { succeeded, .. } => format!("step ended {succeeded}"),
            AgentEvent::ToolCallStarted { tool, path, .. } => {
                assert!(path.is_some(), "it runs in a step of an actor");
                format!("call {tool}")
            }
            AgentEvent::ToolCallFinished { tool, status, .. } => {
                assert_eq!(status, ToolCallStatus::Succeeded);
                format!("called {tool}")
            }
            AgentEvent::ValidationStarted { name } => format!("validate {name}"),
            AgentEvent::ValidationFinished { passed, .. } => format!("validated {passed}"),
            _ => return,
        };
        self.0.lock().expect("no panic").push(line);
    }
}

fn caller(grants: &[&str]) -> Caller {
    let grants = grants.iter().map(|grant| grant.parse().expect("a grant"));
    Caller::with_token("ci", grants.collect(), Scope::ALL.iter().copied().collect())
}

fn use_plan() -> UsePlan {
    UsePlan {
        action: "acme/fix".to_owned(),
        projects: vec!["acme/shop".to_owned()],
        ..UsePlan::default()
    }
}

fn execute(plan: &CreatedPlan) -> ExecutePlan {
    ExecutePlan {
        reference: Some(plan.plan_id.to_string()),
        ..ExecutePlan::default()
    }
}

fn apply(plan: &CreatedPlan, yes: bool) -> ApplyPlan {
    ApplyPlan {
        reference: Some(plan.plan_id.to_string()),
        yes,
        ..ApplyPlan::default()
    }
}

fn code<O: Operation>(context: OperationContext, request: O) -> Option<Code> {
    let refused: Option<OperationError> = context.call(request).err();
    refused.map(|error| error.code())
}

fn an_editor_runs_a_plan_from_strategize_to_apply_and_sees_its_events_in_order() {
    for database in TestDatabase::each() {
        let environment = PlanEnvironment::new(&database, MODEL);
        environment.share_in("acme");
        let application = environment.application();
        let recorder = Arc::new(Recorder::default());
        let editor = || {
            let context = application.for_caller(caller(&["acme=editor"]));
            context.with_front_end(FrontEnd {
                approver: Arc::new(User::answering(Approval::Once)),
                observer: Arc::clone(&recorder) as _,
            })
        };
        let plan = editor().call(use_plan()).expect("a strategy");
        assert_eq!(plan.stage, PlanStage::StrategizeComplete);
        assert_eq!(plan.strategy.as_ref().map(|outline| outline.steps), Some(1));
        assert_eq!(
            recorder.take(),
            [
                "stage strategize/processing",
                "stage strategize/complete",
                "strategy Write it"
            ]
        );

        let refused = editor().call(apply(&plan, true)).expect_err("not executed");
        assert_eq!(refused.code(), Code::PlanNotReady);

        let done = editor().call(execute(&plan)).expect("executed");
        assert_eq!(done.stage, PlanStage::ExecuteComplete);
        assert!(!done.was_complete);
        assert!(
            done.steps.iter().any(|step| step.path == "step/1/1"),
            "{:?}",
            done.steps
        );
        let progress = done.progress.iter();
        let progress: Vec<_> = progress.map(|phase| (phase.status, phase.count)).collect();
        assert_eq!(progress[1], (ExecutionStatus::Done, Some(1)), "one call");
        assert_eq!(progress[2], (ExecutionStatus::Done, Some(1)), "one file");
        assert_eq!(
            environment.price(),
            "wrong\n",
            "only the sandbox is changed"
        );
        assert_eq!(
            recorder.take(),
            [
                "stage execute/queued",
                "stage execute/processing",
                "step 1/1",
                "call builtin/file-write",
                "called builtin/file-write",
                "step ended true",
                "validate review",
                "validated true",
                "stage execute/complete"
            ]
        );
        let again = editor().call(execute(&plan)).expect("nothing to do");
        assert!(again.was_complete);

        let refused = editor().call(apply(&plan, false)).expect_err("unconfirmed");
        assert_eq!(refused.code(), Code::ConfirmationNeeded);
        assert_eq!(refused.details()["plan_id"], plan.plan_id.to_string());
        assert_eq!(environment.price(), "wrong\n");

        let applied = editor().call(apply(&plan, true)).expect("applied");
        assert_eq!(applied.artifacts, 1);
        assert_eq!(applied.changes.insertions, Some(1));
        assert_eq!(environment.price(), "right\n");
        assert_eq!(
            git(&environment.repository, &["rev-list", "--count", "HEAD"]),
            "2"
        );
        assert_eq!(code(editor(), execute(&plan)), Some(Code::PlanNotReady));
        assert_eq!(code(editor(), apply(&plan, true)), Some(Code::PlanNotReady));
    }
}

fn viewers_and_callers_of_other_namespaces_cannot_run_plans() {
    for database in TestDatabase::each() {
        let environment = PlanEnvironment::new(&database, MODEL);
        environment.share_in("acme");
        let application = environment.application();
        let editor = || application.for_caller(caller(&["acme=editor"]));
        let plan = UsePlan {
            no_start: true,
            ..use_plan()
        };
        let plan = editor().call(plan).expect("a plan");
        for (grant, expected) in [
            ("acme=viewer", Code::Forbidden),
            ("other=owner", Code::PlanNotFound),
        ] {
            let context = || application.for_caller(caller(&[grant]));
            assert_eq!(code(context(), execute(&plan)), Some(expected), "{grant}");
            assert_eq!(code(context(), apply(&plan, true)), Some(expected));
            let resume = ResumePlan {
                reference: plan.plan_id.to_string(),
                dry_run: true,
            };
            assert_eq!(code(context(), resume), Some(expected));
            assert_eq!(code(context(), use_plan()), Some(Code::Forbidden));
        }
        let nameless = ExecutePlan::default();
        assert_eq!(code(editor(), nameless), Some(Code::MalformedRequest));
        let foreign = UsePlan {
            projects: vec!["local/shop".to_owned()],
            ..use_plan()
        };
        assert_eq!(code(editor(), foreign), Some(Code::Forbidden));
        let scripted = UsePlan {
            strategy_actor: Some("scripted/model.yaml".to_owned()),
            ..use_plan()
        };
        assert_eq!(code(editor(), scripted), Some(Code::LocalOnly));
        let status = ShowPlanStatus {
            reference: Some(plan.plan_id.to_string()),
        };
        let status = editor().call(status).expect("its status");
        assert_eq!(status.stage, PlanStage::StrategizeQueued, "nothing ran");
    }
}

fn a_local_caller_queues_the_only_plan_and_a_remote_one_cannot() {
    for database in TestDatabase::each() {
        let environment = PlanEnvironment::new(&database, MODEL);
        environment.share_in("acme");
        let started = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&started);
        let application = environment
            .application()
            .starting_workers(Arc::new(move || {
                counter.fetch_add(1, Ordering::SeqCst);
                Ok(true)
            }));
        let local = || application.for_caller(Caller::local("ada"));
        let plan = UsePlan {
            no_start: true,
            ..use_plan()
        };
        let plan = local().call(plan).expect("a plan");
        let remote = application.for_caller(caller(&["acme=editor"]));
        let by_name = QueuePlan {
            reference: Some(plan.plan_id.to_string()),
            ..QueuePlan::default()
        };
        assert_eq!(code(remote, by_name), Some(Code::LocalOnly));
        assert_eq!(started.load(Ordering::SeqCst), 0);
        let both = QueuePlan {
            redo: true,
            skip: true,
            ..QueuePlan::default()
        };
        assert_eq!(code(local(), both), Some(Code::Usage));
        let queued = local().call(QueuePlan::default()).expect("queued");
        assert_eq!(queued.plan_id, plan.plan_id);
        assert!(queued.worker_begun);
        assert_eq!(started.load(Ordering::SeqCst), 1);
        let stored = environment.plans.get(plan.plan_id).expect("it exists");
        assert!(stored.queued_for.is_some());
    }
}

fn resuming_previews_and_then_continues_where_the_plan_stopped() {
    for database in TestDatabase::each() {
        let environment = PlanEnvironment::new(&database, MODEL);
        let application = environment.application();
        let user = |approval| {
            let context = application.for_caller(Caller::local("ada"));
            context.with_front_end(FrontEnd {
                approver: Arc::new(User::answering(approval)),
                ..FrontEnd::default()
            })
        };
        let plan = UsePlan {
            action: "local/fix".to_owned(),
            projects: vec!["local/shop".to_owned()],
            no_start: true,
            ..UsePlan::default()
        };
        let plan = user(Approval::Once).call(plan).expect("a plan");
        let resume = |dry_run| ResumePlan {
            reference: plan.plan_id.to_string(),
            dry_run,
        };
        let preview = user(Approval::Once).call(resume(true)).expect("a preview");
        let ResumedPlan::Preview(preview) = preview else {
            panic!("it ran: {preview:?}");
        };
        assert!(preview.eligible);
        assert_eq!(preview.stage, PlanStage::StrategizeQueued);
        let ran = user(Approval::Once).call(resume(false)).expect("it runs");
        let ResumedPlan::Ran(ran) = ran else {
            panic!("a preview: {ran:?}");
        };
        assert_eq!(ran.stage, PlanStage::StrategizeComplete);
        let wire = serde_json::to_value(ResumedPlan::Ran(ran)).expect("JSON");
        let read = serde_json::from_value(wire).expect("a response");
        assert!(matches!(read, ResumedPlan::Ran(_)), "{read:?}");
    }
}

fn without_a_front_end_a_plan_waits_for_approval() {
    let front_end = FrontEnd::default();
    assert!(!front_end.observer.is_watching());
    let database = TestDatabase::sqlite();
    let environment = PlanEnvironment::new(&database, MODEL);
    let application = environment.application();
    let context = application.for_caller(Caller::local("ada"));
    let context = context.with_front_end(FrontEnd {
        approver: Arc::new(NoApprover),
        ..front_end
    });
    let plan = context.call(UsePlan {
        action: "local/fix".to_owned(),
        projects: vec!["local/shop".to_owned()],
        automation_profile: Some("manual".to_owned()),
        ..UsePlan::default()
    });
    let plan = plan.expect("a plan that waits");
    assert_eq!(plan.stage, PlanStage::StrategizeQueued);
    assert!(plan.waiting.is_some(), "{plan:?}");
}
