//! The operations on child plans and on the conflicts of their merge.

use cleveragents_application::plan_operations::{
    CancelPlan, ConflictVersion, ListChildPlans, ListPlans, PlanConflicts, PromptPlan,
    ResolveConflict, ResolvedConflictReport, ShowConflicts, ShowDecisionTree, ShowPlan,
    ShowPlanStatus, TreeForm,
};
use cleveragents_application::{Operation, OperationError};
use cleveragents_domain::identity::Caller;
use cleveragents_domain::{ChildState, Code, DecisionType, Diagnose as _, PlanPhase, PlanStage};
use cleveragents_testkit::TestDatabase;

use crate::children::{DivisionFixture, model};

pub(crate) const TESTS: &[(&str, fn())] = &[
    (
        "child_operations::a_conflict_is_shown_with_its_sides_and_resolved_with_one_of_them",
        a_conflict_is_shown_with_its_sides_and_resolved_with_one_of_them,
    ),
    (
        "child_operations::edited_content_resolves_a_conflict",
        edited_content_resolves_a_conflict,
    ),
    (
        "child_operations::the_side_of_the_plan_follows_the_resolutions_of_earlier_child_plans",
        the_side_of_the_plan_follows_the_resolutions_of_earlier_child_plans,
    ),
    (
        "child_operations::wrong_resolutions_are_refused_and_change_nothing",
        wrong_resolutions_are_refused_and_change_nothing,
    ),
    (
        "child_operations::child_plans_are_listed_below_their_parent",
        child_plans_are_listed_below_their_parent,
    ),
    (
        "child_operations::a_cancelled_child_plan_is_not_merged",
        a_cancelled_child_plan_is_not_merged,
    ),
    (
        "child_operations::a_model_combines_both_versions_of_a_conflict",
        a_model_combines_both_versions_of_a_conflict,
    ),
    (
        "child_operations::guidance_for_a_child_plan_reaches_its_model",
        guidance_for_a_child_plan_reaches_its_model,
    ),
];

fn call<O: Operation>(
    divided: &DivisionFixture,
    request: O,
) -> Result<O::Response, OperationError> {
    let application = divided.environment.application();
    application.for_caller(Caller::local("ada")).call(request)
}

/// A plan whose child plans all write `side.txt`, and which waits for decisions.
fn conflicting(database: &TestDatabase, contents: &[&str]) -> DivisionFixture {
    let titles: Vec<String> = contents
        .iter()
        .map(|content| format!("Write {content}"))
        .collect();
    let lines: Vec<String> = contents
        .iter()
        .map(|content| format!("{content}\\n"))
        .collect();
    let parts: Vec<(&str, &str, &str)> = titles
        .iter()
        .zip(&lines)
        .map(|(title, line)| (title.as_str(), "side.txt", line.as_str()))
        .collect();
    let divided = DivisionFixture::new(database, &model(&parts, ""), &[("side.txt", "middle\n")]);
    let error = divided.execute().expect_err("a conflict");
    assert_eq!(error.code(), Code::PlanWaiting, "{error}");
    divided
}

fn conflicts(divided: &DivisionFixture) -> PlanConflicts {
    let reference = Some(divided.plan.id.to_string());
    call(divided, ShowConflicts { reference }).expect("readable")
}

fn resolution(divided: &DivisionFixture) -> ResolveConflict {
    ResolveConflict {
        reference: Some(divided.plan.id.to_string()),
        path: Some("side.txt".to_owned()),
        ..ResolveConflict::default()
    }
}

fn take(
    divided: &DivisionFixture,
    side: ConflictVersion,
    child: Option<&str>,
) -> Result<ResolvedConflictReport, OperationError> {
    let request = ResolveConflict {
        side: Some(side),
        child: child.map(str::to_owned),
        ..resolution(divided)
    };
    call(divided, request)
}

/// Executes and applies a plan whose conflicts are resolved. Returns the content of `side.txt`.
fn finish(divided: &DivisionFixture) -> Option<String> {
    let plan = divided.drive(PlanPhase::Execute).expect("executed");
    assert_eq!(plan.stage, PlanStage::ExecuteComplete, "{:?}", plan.error);
    divided.drive(PlanPhase::Apply).expect("applied");
    divided.read("side.txt")
}

fn a_model_combines_both_versions_of_a_conflict() {
    for database in TestDatabase::each() {
        let divided = conflicting(&database, &["left", "right"]);
        let report = take(&divided, ConflictVersion::Model, None).expect("resolved");
        assert_eq!(report.unresolved, 0);
        let combining = "answers:\n- when: 'Child plans changed the same files(?s:.*)right'\n  text: I combine them.\n  \
                         calls:\n  - {name: builtin/file-write, arguments: {path: side.txt, content: \"left right\\n\"}}\n";
        let script = model(&[("Write left", "side.txt", "left\\n")], "");
        let script = script.replacen("answers:\n", combining, 1);
        divided.environment.replace_script(&script);
        assert_eq!(finish(&divided).as_deref(), Some("left right\n"));
        let steps = divided
            .environment
            .engine
            .read(|reader| cleveragents_store::plan_steps::of_plan(reader, divided.plan.id))
            .expect("readable");
        let combined = steps
            .iter()
            .filter(|step| step.path.starts_with("guidance/"));
        assert_eq!(combined.count(), 1, "{steps:?}");
    }
}

fn a_conflict_is_shown_with_its_sides_and_resolved_with_one_of_them() {
    for database in TestDatabase::each() {
        let divided = conflicting(&database, &["left", "right"]);
        let shown = conflicts(&divided);
        assert_eq!((shown.conflicts.len(), shown.unresolved), (1, 1));
        let conflict = &shown.conflicts[0];
        assert_eq!(conflict.label, "side.txt");
        assert_eq!(
            (conflict.child.number, conflict.child.title.as_str()),
            (2, "Write right")
        );
        let texts = [&conflict.base, &conflict.ours, &conflict.theirs].map(|side| {
            let text = side.as_ref().and_then(|side| side.text.clone());
            text.expect("text")
        });
        assert_eq!(texts, ["middle\n", "left\n", "right\n"]);

        let resolved = take(&divided, ConflictVersion::Theirs, None).expect("resolved");
        assert_eq!((resolved.resolved.len(), resolved.unresolved), (1, 0));
        let status = ShowPlanStatus {
            reference: Some(divided.plan.id.to_string()),
        };
        let status = call(&divided, status).expect("its status");
        assert!(status.waiting.is_none(), "{:?}", status.waiting);
        let next: Vec<&str> = status
            .next_steps
            .iter()
            .map(|next| next.operation.as_str())
            .collect();
        assert_eq!(next, ["plan/execute"]);
        let decisions = divided
            .environment
            .engine
            .read(|reader| cleveragents_store::decisions::of_plan(reader, divided.plan.id));
        let decisions = decisions.expect("readable");
        let intervention = decisions
            .iter()
            .find(|decision| decision.content.kind == DecisionType::UserIntervention);
        let intervention = intervention.expect("a decision of the user");
        assert_eq!(
            intervention.content.question,
            "Which version of shop/side.txt?"
        );
        assert_eq!(finish(&divided).as_deref(), Some("right\n"));
        assert!(conflicts(&divided).conflicts.is_empty());
    }
}

fn edited_content_resolves_a_conflict() {
    for database in TestDatabase::each() {
        let divided = conflicting(&database, &["left", "right"]);
        let request = ResolveConflict {
            content: Some("both\n".to_owned()),
            ..resolution(&divided)
        };
        let resolved = call(&divided, request).expect("resolved");
        let edited = resolved.resolved[0].edited.as_ref().expect("the file");
        assert_eq!(edited.text.as_deref(), Some("both\n"));
        assert_eq!(edited.mode, "100644");
        assert_eq!(finish(&divided).as_deref(), Some("both\n"));
    }
}

fn the_side_of_the_plan_follows_the_resolutions_of_earlier_child_plans() {
    for database in TestDatabase::each() {
        let divided = conflicting(&database, &["one", "two", "three"]);
        assert_eq!(conflicts(&divided).unresolved, 2);
        let error = take(&divided, ConflictVersion::Theirs, None).expect_err("ambiguous");
        assert_eq!(error.code(), Code::Usage, "{error}");
        let resolved = take(&divided, ConflictVersion::Theirs, Some("2")).expect("resolved");
        assert_eq!(resolved.unresolved, 1);
        let plan = divided
            .environment
            .plans
            .get(divided.plan.id)
            .expect("a plan");
        assert!(plan.waiting.is_some(), "one conflict is left");
        let third = conflicts(&divided).conflicts.remove(1);
        let ours = third.ours.and_then(|side| side.text);
        assert_eq!(ours.as_deref(), Some("two\n"));
        let rest = ResolveConflict {
            path: None,
            side: Some(ConflictVersion::Ours),
            all: true,
            ..resolution(&divided)
        };
        let resolved = call(&divided, rest).expect("resolved");
        assert_eq!((resolved.resolved.len(), resolved.unresolved), (1, 0));
        assert_eq!(finish(&divided).as_deref(), Some("two\n"));
    }
}

fn wrong_resolutions_are_refused_and_change_nothing() {
    let database = TestDatabase::sqlite();
    let divided = conflicting(&database, &["left", "right"]);
    let refused = |request: ResolveConflict| call(&divided, request).expect_err("refused");
    let error = refused(ResolveConflict {
        path: Some("shop/sid.txt".to_owned()),
        side: Some(ConflictVersion::Ours),
        ..resolution(&divided)
    });
    assert_eq!(error.code(), Code::ConflictNotFound, "{error}");
    assert_eq!(error.details()["nearest"][0], "shop/side.txt");
    assert_eq!(refused(resolution(&divided)).code(), Code::Usage);
    let error = refused(ResolveConflict {
        path: None,
        content: Some(String::new()),
        all: true,
        ..resolution(&divided)
    });
    assert_eq!(error.code(), Code::Usage);
    let error = refused(ResolveConflict {
        side: Some(ConflictVersion::Ours),
        child: Some("7".to_owned()),
        ..resolution(&divided)
    });
    assert_eq!(error.code(), Code::ConflictNotFound);
    assert_eq!(conflicts(&divided).unresolved, 1);

    let quiet = divided.environment.plan("trusted").id.to_string();
    let request = ResolveConflict {
        reference: Some(quiet.clone()),
        side: Some(ConflictVersion::Ours),
        ..resolution(&divided)
    };
    let error = call(&divided, request).expect_err("no conflicts");
    assert_eq!(error.code(), Code::PlanNotReady, "{error}");
    let reference = Some(quiet);
    let shown = call(&divided, ShowConflicts { reference }).expect("readable");
    assert!(shown.conflicts.is_empty());
}

fn child_plans_are_listed_below_their_parent() {
    for database in TestDatabase::each() {
        let script = model(
            &[
                ("Part one", "one.txt", "1\\n"),
                ("Part two", "two.txt", "2\\n"),
            ],
            "",
        );
        let divided = DivisionFixture::new(&database, &script, &[("price.txt", "wrong\n")]);
        divided.execute().expect("executed");
        let id = divided.plan.id;
        let reference = Some(id.to_string());

        let listed = ListChildPlans {
            reference: reference.clone(),
        };
        let listed = call(&divided, listed).expect("listed");
        let children: Vec<_> = listed
            .children
            .iter()
            .map(|child| (child.number, child.title.as_str(), child.state))
            .collect();
        assert_eq!(
            children,
            [
                (1, "Part one", ChildState::Merged),
                (2, "Part two", ChildState::Merged)
            ]
        );
        assert_eq!((listed.summary.total, listed.summary.merged), (2, 2));
        assert!(listed.children.iter().all(|child| child.owner.is_none()));

        let tree = ShowDecisionTree {
            reference,
            form: TreeForm::Outline,
            ..ShowDecisionTree::default()
        };
        let tree = call(&divided, tree).expect("a tree");
        assert_eq!(tree.child_plans.len(), 2);
        let outline = tree.outline.expect("an outline");
        let spawned: Vec<_> = outline
            .iter()
            .filter_map(|node| Some((node.kind, node.child_plan.as_ref()?.number)))
            .collect();
        assert_eq!(
            spawned,
            [
                (DecisionType::SubplanSpawn, 1),
                (DecisionType::SubplanSpawn, 2)
            ]
        );

        let plans = |tree| {
            let list = ListPlans {
                tree,
                ..ListPlans::default()
            };
            call(&divided, list).expect("listed").plans
        };
        assert_eq!(plans(false).len(), 1, "child plans are not listed");
        let tree: Vec<_> = plans(true)
            .iter()
            .map(|plan| (plan.depth, plan.child_number))
            .collect();
        let expected = [(Some(0), None), (Some(1), Some(1)), (Some(1), Some(2))];
        assert_eq!(tree, expected);

        let child = ShowPlan {
            reference: Some(listed.children[1].plan_id.to_string()),
            ..ShowPlan::default()
        };
        let parent = call(&divided, child).expect("shown").parent;
        let parent = parent.expect("a parent");
        assert_eq!((parent.plan_id, parent.number), (id, 2));
    }
}

fn a_cancelled_child_plan_is_not_merged() {
    for database in TestDatabase::each() {
        let divided = conflicting(&database, &["left", "right"]);
        let second = divided.children()[1].plan;
        let cancel = CancelPlan {
            reference: second.to_string(),
            reason: "not needed".to_owned(),
        };
        call(&divided, cancel).expect("cancelled");
        let stage = divided.environment.plans.get(second).expect("a plan").stage;
        assert_eq!(stage, PlanStage::ExecuteCancelled);
        let child = divided.children().remove(1);
        assert_eq!(child.state, ChildState::Cancelled);
        assert_eq!(child.reason.as_deref(), Some("not needed"));
    }
}

fn guidance_for_a_child_plan_reaches_its_model() {
    let database = TestDatabase::sqlite();
    let script = model(&[("Bad", "bad.txt", "bad\\n")], "");
    let refusal = "  calls:\n  - {name: builtin/file-write, arguments: {path: bad.txt, content: \"bad\\n\"}}\n";
    assert!(script.contains(refusal));
    let refusing = script
        .replace(refusal, "")
        .replace("text: I write it.", "text: I'm unable to help with that.");
    let divided = DivisionFixture::new(&database, &refusing, &[("price.txt", "wrong\n")]);
    let error = divided.execute().expect_err("the child plan fails");
    assert_eq!(error.code(), Code::PlanFailed, "{error}");
    let prompt = PromptPlan {
        reference: divided.children()[0].plan.to_string(),
        guidance: "write it in lower case".to_owned(),
    };
    call(&divided, prompt).expect("guidance");
    divided.environment.replace_script(&script);
    let plan = divided.drive(PlanPhase::Execute).expect("executed");
    assert_eq!(plan.stage, PlanStage::ExecuteComplete, "{:?}", plan.error);
    let requests = divided.environment.requests();
    let is_guided =
        |request: &serde_json::Value| request.to_string().contains("write it in lower case");
    assert!(
        requests.iter().any(is_guided),
        "the model read the guidance"
    );
}
