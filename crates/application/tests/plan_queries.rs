//! Queries of plans, on both databases.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cleveragents_application::{
    CorrectionImpact, DecisionTree, LeaseService, LinkRequest, NewProject, NewResource,
    PlanFailureKind, PlanListQuery, PlanQueries, PlanQueryError, ProgressState, ProjectService,
    Register, ResourceService, SandboxService, TreeOptions, describe_event,
};
use cleveragents_domain::{
    AutomationGate, AutomationProfile, Code, DecisionType, Diagnose as _, EventKind, GateAction,
    LeaseSubject, PlanId, PlanPhase, PlanStage, PlanState, Position, StageTransition, StepState,
    Ttl, Waiting, suggest,
};
use cleveragents_store::{Engine, Error, Param, Reader, Row, decisions, plans as stored};
use cleveragents_testkit::TestDatabase;
use cleveragents_testkit::plans::{
    SET_USAGE, advance, execute_first_step, fail, new_plan, step, store, store_example_strategy,
    wait_for,
};
use serde_json::json;

use ProgressState as P;

fn queries(engine: &Arc<Engine>) -> (PlanQueries, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let sandboxes = SandboxService::new(Arc::clone(engine), folder.path().join("sandboxes"));
    (PlanQueries::new(Arc::clone(engine), sandboxes), folder)
}

fn gate(opens: GateAction) -> Waiting {
    Waiting::Gate {
        gate: AutomationGate::StartExecution,
        opens,
        confidence: serde_json::from_value(json!({"score": 0.5, "factors": []}))
            .expect("a confidence"),
        threshold: 1.0,
    }
}

fn names(found: &[cleveragents_domain::Plan]) -> Vec<String> {
    found.iter().filter_map(|plan| plan.name.clone()).collect()
}

#[test]
fn a_plan_is_found_by_id_prefix_or_name() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let (queries, _folder) = queries(&engine);
        let first = store(&engine, &new_plan("fix-tests-one"));
        for reference in [
            first.to_string(),
            first.to_string()[..25].to_lowercase(),
            "fix-tests-one".to_owned(),
        ] {
            assert_eq!(queries.resolve(&reference).expect("found").id, first);
        }
        assert_eq!(queries.find(None).expect("the only one").id, first);
        let error = queries.resolve("fix-tests-on").expect_err("another name");
        assert_eq!(error.code(), Code::PlanNotFound);
        assert!(
            error
                .hint()
                .expect("a hint")
                .neutral()
                .contains("fix-tests-one")
        );
        // An empty plan only owns changesets, and is not shown to users.
        let empty = store(
            &engine,
            &stored::NewPlan::empty(cleveragents_domain::PlanId::generate()),
        );
        let error = queries
            .resolve(&empty.to_string())
            .expect_err("not visible");
        assert_eq!(error.code(), Code::PlanNotFound);

        let second = store(&engine, &new_plan("fix-tests-one"));
        let error = queries.resolve("fix-tests-one").expect_err("two");
        assert_eq!(error.code(), Code::AmbiguousPlan);
        let candidates = error.details()["candidates"].as_array().map(Vec::len);
        assert_eq!(candidates, Some(2));
        let error = queries.find(None).expect_err("two");
        assert_eq!(error.code(), Code::AmbiguousPlan);
        // The first plan is cancelled, so the second one is chosen.
        advance(&engine, first, &[StageTransition::Cancel]);
        assert_eq!(queries.find(None).expect("the other").id, second);
        let error = queries
            .only(&[PlanStage::ExecuteComplete], "to be applied")
            .expect_err("none");
        assert_eq!(error.code(), Code::NoPlan);
        assert_eq!(error.to_string(), "there is no plan to be applied");
    }
}

#[test]
fn defect_4064_plans_are_filtered_by_the_store() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let (queries, _folder) = queries(&engine);
        let waiting = store(&engine, &new_plan("waiting"));
        store_example_strategy(&engine, waiting);
        wait_for(&engine, waiting, gate(GateAction::Execute));
        let executed = store(&engine, &new_plan("executed"));
        store_example_strategy(&engine, executed);
        execute_first_step(&engine, executed);
        let mut other = new_plan("other");
        "local/review".clone_into(&mut other.action);
        other.inputs.projects.clear();
        store(&engine, &other);
        let found = |query: PlanListQuery| names(&queries.list(&query).expect("a list"));
        let base = PlanListQuery::default;
        assert_eq!(
            found(base()),
            ["other", "executed", "waiting"],
            "newest first"
        );
        let phase = PlanListQuery {
            phase: Some(PlanPhase::Strategize),
            ..base()
        };
        assert_eq!(found(phase), ["other", "waiting"]);
        let state = |state: PlanState| PlanListQuery {
            state: Some(state),
            ..base()
        };
        assert_eq!(found(state(PlanState::AwaitingInput)), ["waiting"]);
        assert!(
            found(state(PlanState::Complete)).is_empty(),
            "it is shown as waiting"
        );
        assert_eq!(found(state(PlanState::Processing)), ["executed"]);
        assert!(
            found(PlanListQuery {
                phase: Some(PlanPhase::Strategize),
                ..state(PlanState::Applied)
            })
            .is_empty(),
            "an impossible combination"
        );
        let project = PlanListQuery {
            project: Some("local/shop".to_owned()),
            ..base()
        };
        assert_eq!(found(project), ["executed", "waiting"]);
        let action = PlanListQuery {
            action: Some("local/review".to_owned()),
            ..base()
        };
        assert_eq!(found(action), ["other"]);
        let pattern = |pattern: &str| PlanListQuery {
            pattern: Some(pattern.to_owned()),
            ..base()
        };
        assert_eq!(found(pattern("^(exe|oth)")), ["other", "executed"]);
        let error = queries.list(&pattern("(")).expect_err("invalid");
        assert_eq!(error.code(), Code::Usage);
        // A cancelled plan is not listed as awaiting input, although it has pending input.
        advance(&engine, waiting, &[StageTransition::Cancel]);
        assert!(found(state(PlanState::AwaitingInput)).is_empty());
        assert_eq!(found(state(PlanState::Cancelled)), ["waiting"]);
    }
}

/// A reader that counts statements.
struct CountingReader<'r> {
    inner: &'r mut dyn Reader,
    statements: usize,
}

impl Reader for CountingReader<'_> {
    fn dialect(&self) -> cleveragents_store::Dialect {
        self.inner.dialect()
    }

    fn query_each(
        &mut self,
        sql: &str,
        params: &[Param<'_>],
        each: &mut dyn FnMut(Row) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.statements += 1;
        self.inner.query_each(sql, params, each)
    }
}

#[test]
fn defect_6459_a_list_takes_as_many_statements_for_many_plans_as_for_one() {
    let database = TestDatabase::sqlite();
    let engine = database.open();
    let statements = || {
        engine
            .read(|reader| {
                let mut counting = CountingReader {
                    inner: reader,
                    statements: 0,
                };
                let found = stored::list(&mut counting, &stored::PlanFilter::default())?;
                assert!(found.iter().all(|plan| plan.inputs.projects.len() == 1));
                Ok::<_, Error>((found.len(), counting.statements))
            })
            .expect("a list")
    };
    store(&engine, &new_plan("a"));
    assert_eq!(statements(), (1, 1));
    for number in 0..20 {
        store(&engine, &new_plan(&format!("p{number}")));
    }
    assert_eq!(statements(), (21, 1));
}

#[test]
fn defect_4063_a_tree_takes_as_many_statements_for_many_decisions_as_for_few() {
    let database = TestDatabase::sqlite();
    let engine = database.open();
    let plan = store(&engine, &new_plan("p"));
    let made = store_example_strategy(&engine, plan);
    let statements = || {
        engine
            .read(|reader| {
                let mut counting = CountingReader {
                    inner: reader,
                    statements: 0,
                };
                let found = decisions::of_plan(&mut counting, plan)?;
                Ok::<_, Error>((found.len(), counting.statements))
            })
            .expect("decisions")
    };
    assert_eq!(statements(), (5, 2));
    let more: Vec<_> = (0..50)
        .map(|number| {
            let mut decision = cleveragents_testkit::plans::decision(
                DecisionType::ToolInvocation,
                Some(made.work),
                &number.to_string(),
            );
            decision.influenced_by = vec![made.root];
            decision
        })
        .collect();
    cleveragents_testkit::plans::decide(&engine, plan, &more);
    assert_eq!(statements(), (55, 2));
}

#[test]
fn the_status_reports_phases_steps_and_next_steps() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let (queries, _folder) = queries(&engine);
        let plan = store(&engine, &new_plan("p"));
        let status = || {
            queries
                .status(queries.get(plan).expect("a plan"))
                .expect("a status")
        };
        let phases = || status().progress.map(|phase| phase.state);
        assert_eq!(phases(), [P::Queued; 3]);
        assert_eq!(status().elapsed, None, "not started");
        assert_eq!(status().next, [suggest::plan_execute(plan)]);
        store_example_strategy(&engine, plan);
        assert_eq!(phases(), [P::Done, P::Queued, P::Queued]);
        wait_for(&engine, plan, gate(GateAction::Execute));
        assert_eq!(phases(), [P::Done, P::AwaitingInput, P::Queued]);
        assert_eq!(status().next[0], suggest::plan_approve(plan));
        execute_first_step(&engine, plan);
        assert_eq!(phases(), [P::Done, P::Interrupted, P::Queued]);
        assert!(status().is_interrupted(), "no process holds its lease");
        let leases = LeaseService::new(Arc::clone(&engine));
        let lease = leases
            .acquire(LeaseSubject::new("plan", plan), Ttl::default())
            .expect("free");
        assert_eq!(phases(), [P::Done, P::Running, P::Queued]);
        assert_eq!(status().next, [suggest::plan_wait(plan)]);
        let now = status();
        assert_eq!((now.steps_done, now.steps_total), (1, 2));
        assert_eq!(now.current_step().expect("a step").title, "Run the tests");
        assert!(now.eta.is_some() && now.elapsed.is_some());
        assert_eq!(now.files, None, "it has no sandbox");
        drop(lease);
        let first = suggest::plan_rollback(plan, "step/1");
        let error = json!({"message": "boom", "recovery_command": first});
        fail(&engine, plan, StageTransition::FailExecute, &error);
        assert_eq!(phases(), [P::Done, P::Errored, P::Queued]);
        let next = status().next;
        assert_eq!(next[0], first);
        assert!(next.contains(&suggest::plan_execute(plan)), "{next:?}");
        advance(&engine, plan, &[StageTransition::Cancel]);
        assert_eq!(phases(), [P::Done, P::Cancelled, P::Cancelled]);
        assert!(status().next.is_empty());
    }
}

#[test]
fn decisions_are_listed_explained_and_resolved() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let (queries, _folder) = queries(&engine);
        let plan = store(&engine, &new_plan("p"));
        let error = queries.explain("p").expect_err("nothing is decided");
        assert_eq!(error.code(), Code::PlanNotReady);
        let made = store_example_strategy(&engine, plan);
        let tree = |options| DecisionTree::new(queries.decisions(plan).expect("all"), options);
        let shown = tree(TreeOptions::default());
        let kinds: Vec<_> = shown
            .nodes
            .iter()
            .map(|node| (node.depth, shown.decision(node).content.kind))
            .collect();
        assert_eq!(
            kinds,
            [
                (0, DecisionType::PromptDefinition),
                (1, DecisionType::InvariantEnforced),
                (1, DecisionType::StrategyChoice),
                (2, DecisionType::ImplementationChoice),
            ]
        );
        assert_eq!((shown.summary.superseded, shown.summary.invariants), (1, 1));
        let full_tree = tree(TreeOptions {
            shows_superseded: true,
            depth: None,
        });
        assert_eq!(full_tree.nodes.len(), 5);

        let reported = queries
            .explain(&made.invariant.to_string())
            .expect("explained");
        assert_eq!(reported.impact.downstream_decisions, 1, "by its share only");
        assert_eq!(reported.impact.artifacts_produced, 1);
        let reported = queries.explain("p").expect("the root of the plan");
        assert_eq!(reported.decision.content.id, made.root);
        assert_eq!(reported.count, 5);
        assert_eq!(reported.impact.downstream_decisions, 3);
        assert_eq!(reported.impact.correction_impact, CorrectionImpact::Medium);
        let reported = queries
            .explain(&made.strategy.to_string())
            .expect("explained");
        let chosen: Vec<_> = reported
            .alternatives
            .iter()
            .map(|choice| (choice.index, choice.description.as_str(), choice.chosen))
            .collect();
        assert_eq!(
            chosen,
            [
                (1, "Correct the sum", true),
                (2, "Delete the test", false),
                (3, "Skip it", false),
            ]
        );
        let work = queries.explain(&made.work.to_string()).expect("explained");
        assert_eq!(work.decision.content.influenced_by, [made.invariant]);
        let error = queries.explain("01ZZZZZZ").expect_err("neither");
        assert_eq!(error.code(), Code::DecisionNotFound);
        let shared = &made.root.to_string()[..6];
        let error = queries.resolve_decision(shared).expect_err("several");
        assert!(error.to_string().contains("several"), "{error}");
        assert!(
            matches!(error, PlanQueryError::DecisionNotFound { candidates, .. } if candidates.len() == 5)
        );
    }
}

#[test]
fn the_log_continues_without_gaps_and_is_readable() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let (queries, _folder) = queries(&engine);
        let other = store(&engine, &new_plan("other"));
        let plan = store(&engine, &new_plan("p"));
        store_example_strategy(&engine, plan);
        let all = queries
            .log(plan, Position::default(), 1_000)
            .expect("a log");
        assert_eq!(all[0].kind, EventKind::PlanCreated);
        assert!(all.iter().all(|event| event.subject == plan.to_string()));
        assert_eq!(
            queries
                .log(other, Position::default(), 9)
                .expect("a log")
                .len(),
            1
        );
        let mut read = Vec::new();
        let mut position = Position::default();
        loop {
            let page = queries.log(plan, position, 2).expect("a page");
            let Some(last) = page.last() else { break };
            position = last.position;
            read.extend(page);
        }
        assert_eq!(read, all);
        let newest = queries.newest_log(plan, 3).expect("a log");
        assert_eq!(newest, all[all.len() - 3..]);
        let lines: Vec<_> = all.iter().map(describe_event).collect();
        assert_eq!(lines[0], ("created", "from local/fix-tests: p".to_owned()));
        let transition = lines.last().expect("a transition");
        assert_eq!(
            *transition,
            (
                "state",
                "strategize/processing → strategize/complete".to_owned()
            )
        );
        for event in &all {
            let (label, _) = describe_event(event);
            assert_ne!(label, event.kind.as_str(), "an event without a label");
        }
    }
}

#[test]
fn failures_are_listed_in_order() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let (queries, _folder) = queries(&engine);
        let plan = store(&engine, &new_plan("p"));
        let made = store_example_strategy(&engine, plan);
        execute_first_step(&engine, plan);
        step(
            &engine,
            plan,
            "fix/1",
            "Fix",
            Some((StepState::Failed, "no luck")),
        );
        let mut recovery = cleveragents_testkit::plans::decision(
            DecisionType::ErrorRecovery,
            Some(made.strategy),
            "Try again",
        );
        recovery.phase = PlanPhase::Execute;
        cleveragents_testkit::plans::decide(&engine, plan, &[recovery]);
        fail(
            &engine,
            plan,
            StageTransition::FailExecute,
            &json!({"message": "boom"}),
        );
        let failures = queries
            .failures(queries.get(plan).expect("a plan"))
            .expect("the failures");
        let kinds: Vec<_> = failures.history.iter().map(|entry| entry.kind).collect();
        assert_eq!(kinds, [PlanFailureKind::Step, PlanFailureKind::Recovery]);
        assert_eq!(failures.history[0].message, "no luck");
        assert_eq!(failures.error.expect("an error")["message"], "boom");
        assert_eq!(failures.recovery[0], suggest::plan_execute(plan));
    }
}

#[test]
fn guards_come_from_the_profile_snapshot_and_the_lower_cost_limit_applies() {
    let database = TestDatabase::sqlite();
    let engine = database.open();
    let (queries, _folder) = queries(&engine);
    let mut profile = AutomationProfile::find_built_in("cautious").expect("built in");
    profile.guards = Some(cleveragents_domain::AutomationGuard {
        tool_denylist: vec!["builtin/shell".to_owned()],
        max_total_cost: Some(cleveragents_domain::MicroUsd(500_000)),
        max_tool_calls_per_step: Some(7),
        ..Default::default()
    });
    let mut new = new_plan("p");
    new.inputs.profile.snapshot = profile.clone();
    let plan = store(&engine, &new);
    store_example_strategy(&engine, plan);
    execute_first_step(&engine, plan);
    database.execute_sql(SET_USAGE);
    let guard = queries
        .guard(queries.get(plan).expect("a plan"))
        .expect("guards");
    assert_eq!(guard.profile, Some(profile));
    assert_eq!(guard.guards.tool_denylist, ["builtin/shell"]);
    assert_eq!(guard.max_cost.map(|limit| limit.0), Some(500_000));
    assert_eq!(guard.spent.cost.0, 12_500);
    assert_eq!(guard.spent.tool_calls_in_step, Some(0));
    let other = store(&engine, &new_plan("q"));
    let guard = queries
        .guard(queries.get(other).expect("a plan"))
        .expect("guards");
    assert_eq!(guard.max_cost.map(|limit| limit.0), Some(2_000_000));
}

/// Creates a folder, a resource for it, and a project that links the resource; both have this name.
fn project_in(engine: &Arc<Engine>, folder: &Path, name: &str) {
    std::fs::create_dir_all(folder.join("src")).expect("a folder");
    let resource = NewResource {
        type_name: "fs-directory".to_owned(),
        name: name.to_owned(),
        values: [("path".to_owned(), folder.display().to_string())].into(),
        base: PathBuf::from("/"),
        ..NewResource::default()
    };
    ResourceService::new(Arc::clone(engine))
        .add(&resource, Register::New)
        .expect("the resource is registered");
    let project = NewProject {
        name: name.to_owned(),
        links: vec![LinkRequest {
            resource: name.to_owned(),
            alias: None,
            read_only: false,
        }],
        ..NewProject::default()
    };
    ProjectService::new(Arc::clone(engine))
        .create(project)
        .expect("the project is created");
}

fn store_for(engine: &Engine, name: &str, project: &str) -> PlanId {
    let mut plan = new_plan(name);
    project.clone_into(&mut plan.inputs.projects[0].name);
    store(engine, &plan)
}

#[test]
fn a_plan_without_a_reference_is_the_current_one_of_the_folder() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let (queries, folder) = queries(&engine);
        let base = std::fs::canonicalize(folder.path()).expect("it exists");
        let (shop, bank) = (base.join("shop"), base.join("bank"));
        project_in(&engine, &shop, "local/shop");
        project_in(&engine, &bank, "local/bank");
        let in_folder = |folder: &Path| queries.clone().in_folder(folder);
        let in_shop = in_folder(&shop);
        let current = || in_shop.find(None).expect("a plan").id;

        let first = store_for(&engine, "first", "local/shop");
        let second = store_for(&engine, "second", "local/shop");
        let elsewhere = store_for(&engine, "elsewhere", "local/bank");
        assert_eq!(current(), second, "the newest unfinished one");
        let below = in_folder(&shop.join("src")).find(None).expect("a plan");
        assert_eq!(below.id, second, "the same in a subfolder");
        assert_eq!(in_folder(&bank).find(None).expect("a plan").id, elsewhere);

        // If the current plan does not match a filter, the only other plan of the folder that matches is chosen.
        store_example_strategy(&engine, first);
        let executable = [PlanStage::StrategizeComplete];
        let found = in_shop.only(&executable, "to be executed");
        assert_eq!(found.expect("one").id, first);
        let none = in_folder(&bank).only(&executable, "to be executed");
        let error = none.expect_err("plans of other folders do not count");
        assert_eq!(error.code(), Code::NoPlan);
        assert!(
            error.to_string().contains(&elsewhere.to_string()),
            "{error}"
        );
        let hint = error.hint().expect("a hint").neutral();
        assert!(hint.contains(&elsewhere.to_string()), "{hint}");
        assert!(in_shop.only_waiting().is_err());
        wait_for(&engine, first, gate(GateAction::Execute));
        assert_eq!(in_shop.only_waiting().expect("one").id, first);

        // A finished plan is current only if all plans of the folder are finished.
        advance(&engine, second, &[StageTransition::Cancel]);
        assert_eq!(current(), first);
        advance(&engine, first, &[StageTransition::Cancel]);
        assert_eq!(current(), second, "the newest of the finished ones");
        // A plan that was not cancelled is preferred, even if it is older than a cancelled plan.
        let applied = store_for(&engine, "applied", "local/shop");
        let cancelled = store_for(&engine, "cancelled", "local/shop");
        advance(&engine, cancelled, &[StageTransition::Cancel]);
        store_example_strategy(&engine, applied);
        advance(
            &engine,
            applied,
            &[
                StageTransition::QueueExecute,
                StageTransition::StartExecute,
                StageTransition::CompleteExecute,
                StageTransition::QueueApply,
                StageTransition::StartApply,
                StageTransition::CompleteApply,
            ],
        );
        assert_eq!(current(), applied, "the only one that was not cancelled");

        // In a folder without plans, the only unfinished plan of any folder is chosen; several are an error.
        let outside = base.join("outside");
        std::fs::create_dir(&outside).expect("a folder");
        assert_eq!(
            in_folder(&outside).find(None).expect("the only one").id,
            elsewhere
        );
        store_for(&engine, "third", "local/shop");
        let error = in_folder(&outside).find(None).expect_err("two");
        assert_eq!(error.code(), Code::AmbiguousPlan);
    }
}
