//! The operations on plans, as protocols and front ends call them.

use std::sync::Arc;

use cleveragents_application::plan_operations::{
    ApprovePlan, CancelPlan, EditStrategy, ExplainDecision, ListPlans, ReadPlanLog, ShowPlan,
    ShowPlanStatus,
};
use cleveragents_application::{
    Application, NewProject, OperationError, OperationSettings, ProjectService, SandboxPolicy,
    find_operation,
};
use cleveragents_domain::identity::{Caller, Scope};
use cleveragents_domain::{
    Code, Diagnose as _, PlanId, PlanStage, PlanState, ProjectRules, Waiting,
};
use cleveragents_process::Cancel;
use cleveragents_store::Engine;
use cleveragents_testkit::{TestDatabase, plans};
use serde_json::{Value, json};

fn application(engine: &Arc<Engine>) -> Application {
    Application::new(
        Arc::clone(engine),
        OperationSettings {
            process: cleveragents_application::ProcessEnvironment::default(),
            max_message_bytes: 1_000,
            automation_profile: "manual".to_owned(),
            sandboxes: std::env::temp_dir(),
            sandbox_policy: SandboxPolicy::default(),
            plans: cleveragents_application::PlanSettings::default(),
        },
    )
}

fn caller(grants: &[&str]) -> Caller {
    let grants = grants.iter().map(|grant| grant.parse().expect("a grant"));
    Caller::with_token("ci", grants.collect(), Scope::ALL.iter().copied().collect())
}

/// A plan that works on a project in a namespace.
fn plan(engine: &Engine, namespace: &str) -> PlanId {
    let mut new = plans::new_plan(&format!("{namespace}-plan"));
    for project in &mut new.inputs.projects {
        project.name = format!("{namespace}/shop");
    }
    plans::store(engine, &new)
}

/// Stores the project that [`plan`] names.
fn project(engine: &Arc<Engine>, namespace: &str) {
    let created = ProjectService::new(Arc::clone(engine)).create(NewProject {
        name: format!("{namespace}/shop"),
        rules: ProjectRules::default(),
        links: Vec::new(),
    });
    created.expect("a project");
}

/// Runs an operation with a JSON request.
fn run(
    application: &Application,
    caller: &Caller,
    name: &str,
    request: Value,
) -> Result<Value, OperationError> {
    let context = application.for_caller(caller.clone());
    let entry = find_operation(name)?;
    entry.prepare(context, request)?(&Cancel::new())
}

#[test]
fn plans_are_read_and_changed_only_with_a_sufficient_role() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let application = application(&engine);
        let viewer = caller(&["acme=viewer"]);
        let editor = caller(&["acme=editor"]);
        let (own, foreign, local) = (
            plan(&engine, "acme").to_string(),
            plan(&engine, "other").to_string(),
            plan(&engine, "local").to_string(),
        );
        let code = |caller: &Caller, name: &str, plan: &str| {
            let request = match name {
                "plan/limit-cost" => json!({"reference": plan, "max_cost": "1"}),
                _ => json!({"reference": plan}),
            };
            run(&application, caller, name, request)
                .err()
                .map(|error| error.code())
        };
        for (name, caller, plan, expected) in [
            ("plan/status", &viewer, &own, None),
            ("plan/status", &viewer, &foreign, Some(Code::PlanNotFound)),
            ("plan/status", &viewer, &local, Some(Code::PlanNotFound)),
            ("plan/guard", &viewer, &own, None),
            ("plan/limit-cost", &viewer, &own, Some(Code::Forbidden)),
            ("plan/limit-cost", &editor, &own, None),
            ("plan/cancel", &viewer, &own, Some(Code::Forbidden)),
            ("plan/cancel", &editor, &foreign, Some(Code::PlanNotFound)),
            ("plan/cancel", &editor, &local, Some(Code::PlanNotFound)),
            ("plan/cancel", &editor, &own, None),
        ] {
            assert_eq!(code(caller, name, plan), expected, "{name} {plan}");
        }
        let stage = |plan: &str| {
            let status = application
                .for_caller(Caller::local("ada"))
                .call(ShowPlanStatus {
                    reference: Some(plan.to_owned()),
                });
            status.expect("a status").stage
        };
        assert_eq!(stage(&own), PlanStage::StrategizeCancelled);
        assert_eq!(stage(&foreign), PlanStage::StrategizeQueued);
        let listed = application.for_caller(viewer).call(ListPlans::default());
        let listed = listed.expect("a list").plans;
        let ids: Vec<String> = listed.iter().map(|plan| plan.plan_id.to_string()).collect();
        assert_eq!(ids, [own]);
        assert_eq!(listed[0].state, PlanState::Cancelled);
    }
}

#[test]
fn only_local_callers_may_omit_the_plan() {
    let database = TestDatabase::sqlite();
    let engine = database.open();
    let application = application(&engine);
    let own = plan(&engine, "acme");
    project(&engine, "acme");
    let status = |caller: Caller| {
        let context = application.for_caller(caller);
        context.call(ShowPlanStatus::default())
    };
    assert_eq!(status(Caller::local("ada")).expect("found").plan_id, own);
    let missing = status(caller(&["acme=owner"])).expect_err("no plan is named");
    assert_eq!(missing.code(), Code::MalformedRequest);
    plan(&engine, "acme");
    let several = status(Caller::local("ada")).expect_err("two plans are unfinished");
    assert_eq!(several.code(), Code::AmbiguousPlan);
    // Without a reference, the only waiting plan is approved.
    plans::store_example_strategy(&engine, own);
    let question = Waiting::Question {
        text: "which?".to_owned(),
        options: Vec::new(),
        subject: "s".to_owned(),
    };
    plans::wait_for(&engine, own, question);
    let approved = application
        .for_caller(Caller::local("ada"))
        .call(ApprovePlan {
            reference: None,
            answer: Some("the first".to_owned()),
        });
    let approved = approved.expect("answered");
    assert_eq!((approved.plan_id, approved.person.as_str()), (own, "ada"));
}

#[test]
fn prefixes_names_and_decisions_are_resolved() {
    let database = TestDatabase::sqlite();
    let engine = database.open();
    let application = application(&engine);
    let own = plan(&engine, "acme");
    let decisions = plans::store_example_strategy(&engine, own);
    let viewer = || application.for_caller(caller(&["acme=viewer"]));
    let prefix = &own.to_string()[..20];
    for reference in [prefix, "acme-plan"] {
        let shown = viewer().call(ShowPlan {
            reference: Some(reference.to_owned()),
            document: None,
        });
        assert_eq!(shown.expect("shown").plan_id, own, "{reference}");
    }
    let explain = |context: cleveragents_application::OperationContext, reference: String| {
        context.call(ExplainDecision {
            reference,
            show_context: true,
            show_reasoning: true,
        })
    };
    let of_plan = explain(viewer(), own.to_string()).expect("the root");
    assert_eq!(of_plan.parent_decision_id, None);
    assert_eq!(of_plan.reasoning, Some(None), "requested, but not recorded");
    let work = decisions.work.to_string();
    let explained = explain(viewer(), work.clone()).expect("explained");
    assert_eq!(explained.decision_id, decisions.work);
    let other_owner = application.for_caller(caller(&["other=owner"]));
    let absent = explain(other_owner, work).expect_err("another namespace");
    assert_eq!(absent.code(), Code::DecisionNotFound);
    let other_owner = application.for_caller(caller(&["other=owner"]));
    let absent = explain(other_owner, own.to_string()).expect_err("another namespace");
    assert_eq!(absent.code(), Code::DecisionNotFound);
}

#[test]
fn responses_have_the_json_of_the_commands() {
    let database = TestDatabase::sqlite();
    let engine = database.open();
    let application = application(&engine);
    let own = plan(&engine, "acme");
    plans::store_example_strategy(&engine, own);
    let local_caller = Caller::local("ada");
    let data = |name: &str, mut request: Value| {
        request["reference"] = json!(own);
        run(&application, &local_caller, name, request).expect("it runs")
    };
    let keys = |value: &Value| {
        let map = value.as_object().expect("an object");
        let mut keys: Vec<String> = map.keys().cloned().collect();
        keys.sort_unstable();
        keys.join(" ")
    };
    assert_eq!(
        keys(&data("plan/status", json!({}))),
        "action attempt automation cost execution failed_checks is_interrupted is_terminal name \
         next_steps owner phase plan_id progress project report reversions stage state steps task \
         timing waiting"
    );
    let entry = data("plan/explain", json!({}));
    assert_eq!(keys(&entry["context_snapshot"]), "hot_context_hash items");
    let entry = data("plan/explain", json!({"show_context": true}));
    assert_eq!(
        keys(&entry["context_snapshot"]),
        "actor_state_ref hot_context_hash hot_context_ref items relevant_resources"
    );
    let tree = data("plan/tree", json!({"drawing": "mermaid"}));
    assert_eq!(
        keys(&tree),
        "child_plans decision_ids drawing plan_id summary tree"
    );
    assert_eq!(tree["tree"]["type"], "prompt_definition");
    let outline = data("plan/tree", json!({"form": "outline"}));
    assert_eq!(outline["tree"], Value::Null);
    assert_eq!(
        outline["outline"].as_array().map(Vec::len),
        tree["summary"]["nodes"]
            .as_u64()
            .and_then(|nodes| usize::try_from(nodes).ok())
    );
    let diff = data("plan/diff", json!({}));
    assert_eq!(diff["incomplete"], "no_sandbox");
}

#[test]
fn a_plan_log_can_be_read_from_a_position() {
    let database = TestDatabase::sqlite();
    let engine = database.open();
    let application = application(&engine);
    let own = plan(&engine, "acme");
    plans::store_example_strategy(&engine, own);
    let read = |limit, after| {
        let log = application
            .for_caller(Caller::local("ada"))
            .call(ReadPlanLog {
                reference: None,
                limit,
                after,
            });
        log.expect("a log")
    };
    let all = read(100, None);
    assert!(all.events.len() > 2 && !all.is_terminal);
    let first = all.events[0].position;
    let page = read(2, Some(first));
    let positions = |log: &cleveragents_application::plan_operations::PlanLog| {
        log.events
            .iter()
            .map(|event| event.position)
            .collect::<Vec<_>>()
    };
    assert_eq!(positions(&page), positions(&all)[1..3]);
    let cancel = application
        .for_caller(Caller::local("ada"))
        .call(CancelPlan {
            reference: own.to_string(),
            reason: "enough".to_owned(),
        });
    cancel.expect("cancelled");
    let ended = read(100, all.summary.last_position);
    assert!(ended.is_terminal);
    assert!(
        ended
            .events
            .iter()
            .any(|event| event.kind == "plan.cancelled")
    );
}

#[test]
fn a_strategy_is_edited_as_text() {
    let database = TestDatabase::sqlite();
    let engine = database.open();
    let application = application(&engine);
    let own = plan(&engine, "acme").to_string();
    project(&engine, "acme");
    let edit = |text: &str| {
        application
            .for_caller(Caller::local("ada"))
            .call(EditStrategy {
                reference: own.clone(),
                text: text.to_owned(),
            })
    };
    let early = edit("# Strategy\n").expect_err("no strategy yet");
    assert_eq!(early.code(), Code::PlanNotReady);
    plans::store_example_strategy(&engine, own.parse().expect("an id"));
    let shown = application
        .for_caller(Caller::local("ada"))
        .call(ShowPlan::default());
    let markdown = shown.expect("shown").markdown.expect("a strategy");
    assert!(!edit(&markdown).expect("the same").is_changed);
    let other = markdown.replace("Run the tests", "Run all tests");
    assert_ne!(other, markdown);
    let edited = edit(&other).expect("changed");
    assert!(edited.is_changed);
    let steps = edited.strategy.expect("a strategy").steps;
    assert!(steps.iter().any(|step| step.title == "Run all tests"));
}
