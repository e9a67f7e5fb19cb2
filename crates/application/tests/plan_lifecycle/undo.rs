//! `plan/undo`: the last change of a plan, or its apply, is undone without touching anything else.

use std::path::PathBuf;
use std::sync::Arc;

use cleveragents_application::plan_operations::{
    ApplyPlan, ExecutePlan, ReadPlanLog, RedoRollback, UndoPlan, UndoneChange, UndonePlan, UsePlan,
};
use cleveragents_application::{
    FrontEnd, LinkRequest, NewProject, NewResource, OperationContext, OperationError,
    ProjectService, Register, ResourceService,
};
use cleveragents_domain::identity::Caller;
use cleveragents_domain::{Code, Diagnose as _, Plan, PlanId, PlanStage, StageTransition};
use cleveragents_store::plans::{self, TransitionDetails};
use cleveragents_testkit::TestDatabase;
use cleveragents_testkit::plans::write as write_store;
use cleveragents_tools::ports::Approval;

use crate::MODEL;
use crate::support::{PlanEnvironment, User, git};

/// The tests of this module by name, which `main` runs.
pub(crate) const TESTS: &[(&str, fn())] = &[
    (
        "undo::an_apply_is_reverted_by_a_commit_and_later_edits_stay",
        an_apply_is_reverted_by_a_commit_and_later_edits_stay,
    ),
    (
        "undo::an_apply_that_later_changes_overlap_is_not_undone_at_all",
        an_apply_that_later_changes_overlap_is_not_undone_at_all,
    ),
    (
        "undo::an_apply_to_a_plain_directory_is_refused",
        an_apply_to_a_plain_directory_is_refused,
    ),
    (
        "undo::an_apply_to_a_new_branch_leaves_nothing_to_undo",
        an_apply_to_a_new_branch_leaves_nothing_to_undo,
    ),
    (
        "undo::an_interrupted_apply_to_a_branch_keeps_its_target",
        an_interrupted_apply_to_a_branch_keeps_its_target,
    ),
    (
        "undo::an_executed_step_is_undone_and_redone",
        an_executed_step_is_undone_and_redone,
    ),
];

/// A local user who approves everything.
fn user(environment: &PlanEnvironment) -> OperationContext {
    let context = environment.application().for_caller(Caller::local("ada"));
    context.with_front_end(FrontEnd {
        approver: Arc::new(User::answering(Approval::Once)),
        ..FrontEnd::default()
    })
}

/// Creates and executes a plan, and applies it if `applied`.
fn finished(environment: &PlanEnvironment, project: &str, applied: bool) -> PlanId {
    let plan = user(environment)
        .call(UsePlan {
            action: "local/fix".to_owned(),
            projects: vec![project.to_owned()],
            ..UsePlan::default()
        })
        .expect("a strategy");
    let reference = Some(plan.plan_id.to_string());
    let execute = ExecutePlan {
        reference: reference.clone(),
        ..ExecutePlan::default()
    };
    user(environment).call(execute).expect("executed");
    if applied {
        let apply = ApplyPlan {
            reference,
            yes: true,
            ..ApplyPlan::default()
        };
        user(environment).call(apply).expect("applied");
    }
    plan.plan_id
}

fn undo(
    environment: &PlanEnvironment,
    plan: PlanId,
    dry_run: bool,
) -> Result<UndonePlan, OperationError> {
    user(environment).call(UndoPlan {
        reference: Some(plan.to_string()),
        dry_run,
        yes: true,
    })
}

fn stored(environment: &PlanEnvironment, plan: PlanId) -> Plan {
    environment.plans.get(plan).expect("it exists")
}

fn write(environment: &PlanEnvironment, path: &str, text: &str) {
    std::fs::write(environment.repository.join(path), text).expect("a file is written");
}

fn an_apply_is_reverted_by_a_commit_and_later_edits_stay() {
    for database in TestDatabase::each() {
        let files = [("price.txt", "wrong\n"), ("notes.txt", "notes\n")];
        let environment = PlanEnvironment::with(&database, MODEL, "price.txt says right", &files);
        let plan = finished(&environment, "local/shop", true);
        let repository = environment.repository.clone();
        let head = || git(&repository, &["rev-parse", "HEAD"]);
        let applied = head();
        assert_eq!(environment.price(), "right\n");
        write(&environment, "later.txt", "committed later\n");
        git(&repository, &["add", "later.txt"]);
        git(&repository, &["commit", "-q", "-m", "later"]);
        write(&environment, "notes.txt", "not committed\n");
        let before = head();

        let preview = undo(&environment, plan, true).expect("a preview");
        assert!(preview.dry_run);
        assert_eq!(preview.files, ["shop/price.txt"]);
        assert_eq!(
            (environment.price().as_str(), head()),
            ("right\n", before.clone())
        );
        let unconfirmed = UndoPlan {
            reference: Some(plan.to_string()),
            ..UndoPlan::default()
        };
        let refused = user(&environment).call(unconfirmed).expect_err("no yes");
        assert_eq!(refused.code(), Code::ConfirmationNeeded);

        let undone = undo(&environment, plan, false).expect("undone");
        assert_eq!(undone.files, ["shop/price.txt"]);
        let UndoneChange::Apply { commits } = undone.undone else {
            panic!("a step: {undone:?}");
        };
        assert_eq!(commits.len(), 1);
        assert_eq!(commits[0].commit, applied);
        assert_eq!(commits[0].reverted_by, Some(head()));
        assert_eq!(git(&repository, &["rev-parse", "HEAD^"]), before);
        assert_eq!(environment.price(), "wrong\n");
        let changed = git(
            &repository,
            &["show", "--format=%s%n%b", "--name-only", "HEAD"],
        );
        assert!(changed.starts_with("Revert \""), "{changed}");
        assert!(
            changed.contains(&format!("This reverts commit {applied}.")),
            "{changed}"
        );
        assert!(changed.ends_with("\nprice.txt"), "{changed}");
        assert_eq!(
            git(&repository, &["status", "--porcelain"]),
            "M notes.txt",
            "the user's edit is neither committed nor lost"
        );
        let notes = std::fs::read_to_string(repository.join("notes.txt"));
        assert_eq!(notes.expect("it exists"), "not committed\n");

        let log = user(&environment).call(ReadPlanLog {
            reference: Some(plan.to_string()),
            limit: 100,
            after: None,
        });
        let events = log.expect("a log").events;
        let reverted = events
            .iter()
            .filter(|event| event.kind == "plan.apply_reverted");
        assert_eq!(reverted.count(), 1);
        let again = undo(&environment, plan, false).expect_err("undone already");
        assert_eq!(again.code(), Code::PlanNotReady);
        assert!(again.to_string().contains("already undone"), "{again}");
        assert_eq!(environment.price(), "wrong\n");

        // The user restores the change, so it can be undone again.
        git(&repository, &["revert", "--no-edit", "HEAD"]);
        assert_eq!(environment.price(), "right\n");
        undo(&environment, plan, false).expect("undone again");
        assert_eq!(environment.price(), "wrong\n");
    }
}

fn an_apply_that_later_changes_overlap_is_not_undone_at_all() {
    for committed in [true, false] {
        let database = TestDatabase::sqlite();
        let environment = PlanEnvironment::new(&database, MODEL);
        let plan = finished(&environment, "local/shop", true);
        write(&environment, "price.txt", "right, and more\n");
        if committed {
            git(
                &environment.repository,
                &["commit", "-q", "-a", "-m", "more"],
            );
        }
        let head = git(&environment.repository, &["rev-parse", "HEAD"]);
        let status = git(&environment.repository, &["status", "--porcelain"]);
        for dry_run in [true, false] {
            let refused = undo(&environment, plan, dry_run).expect_err("overlap");
            assert_eq!(refused.code(), Code::ApplyConflict, "{refused}");
            assert_eq!(environment.price(), "right, and more\n");
            assert_eq!(git(&environment.repository, &["rev-parse", "HEAD"]), head);
            let present = git(&environment.repository, &["status", "--porcelain"]);
            assert_eq!(present, status);
        }
        // The sandbox of the failed undo is gone, and a later attempt succeeds.
        write(&environment, "price.txt", "right\n");
        if committed {
            git(
                &environment.repository,
                &["commit", "-q", "-a", "-m", "less"],
            );
        }
        undo(&environment, plan, false).expect("undone");
        assert_eq!(environment.price(), "wrong\n");
    }
}

fn an_apply_to_a_plain_directory_is_refused() {
    let database = TestDatabase::sqlite();
    let environment = PlanEnvironment::new(&database, MODEL);
    let folder = tempfile::tempdir().expect("a folder");
    let price = folder.path().join("price.txt");
    std::fs::write(&price, "wrong\n").expect("a file");
    let resource = NewResource {
        type_name: "fs-directory".to_owned(),
        name: "local/plain".to_owned(),
        values: [("path".to_owned(), folder.path().display().to_string())].into(),
        base: PathBuf::from("/"),
        ..NewResource::default()
    };
    ResourceService::new(Arc::clone(&environment.engine))
        .add(&resource, Register::New)
        .expect("the resource is registered");
    let project = NewProject {
        name: "local/plain".to_owned(),
        links: vec![LinkRequest {
            resource: "local/plain".to_owned(),
            alias: None,
            read_only: false,
        }],
        ..NewProject::default()
    };
    ProjectService::new(Arc::clone(&environment.engine))
        .create(project)
        .expect("the project is created");
    let plan = finished(&environment, "local/plain", true);
    let content = || std::fs::read_to_string(&price).expect("it exists");
    assert_eq!(content(), "right\n");
    let refused = undo(&environment, plan, false).expect_err("no commit to revert");
    assert_eq!(refused.code(), Code::PlanNotReady);
    assert!(
        refused.to_string().contains("not a git repository"),
        "{refused}"
    );
    assert_eq!(content(), "right\n");
}

fn an_apply_to_a_new_branch_leaves_nothing_to_undo() {
    for database in TestDatabase::each() {
        let environment = PlanEnvironment::new(&database, MODEL);
        let plan = finished(&environment, "local/shop", false);
        let repository = environment.repository.clone();
        let head = git(&repository, &["rev-parse", "HEAD"]);
        let apply = |branch: &str| ApplyPlan {
            reference: Some(plan.to_string()),
            yes: true,
            branch: Some(branch.to_owned()),
            ..ApplyPlan::default()
        };
        let refused = user(&environment)
            .call(apply("main"))
            .expect_err("it exists");
        assert_eq!(refused.code(), Code::CannotApply, "{refused}");
        let report = stored(&environment, plan).report.expect("its target");
        assert_eq!(report["branch"], "main", "a later process resumes it there");

        let applied = user(&environment)
            .call(apply("fix/price"))
            .expect("applied");
        assert_eq!(applied.branch.as_deref(), Some("fix/price"));
        assert_eq!(stored(&environment, plan).stage, PlanStage::ApplyApplied);
        assert_eq!(environment.price(), "wrong\n");
        assert_eq!(git(&repository, &["rev-parse", "HEAD"]), head);
        assert_eq!(git(&repository, &["rev-parse", "fix/price^"]), head);
        assert_eq!(git(&repository, &["show", "fix/price:price.txt"]), "right");

        let refused = undo(&environment, plan, false).expect_err("nothing to undo");
        assert_eq!(refused.code(), Code::PlanNotReady);
        assert!(refused.to_string().contains("`fix/price`"), "{refused}");
        let hint = refused.hint().map(|hint| hint.neutral());
        let hint = hint.unwrap_or_default();
        assert!(hint.contains("git branch -D fix/price"), "{hint}");
        assert_eq!(git(&repository, &["show", "fix/price:price.txt"]), "right");
    }
}

/// A plan that a dead process left in the phase of its apply is resumed with the target that the user chose.
fn an_interrupted_apply_to_a_branch_keeps_its_target() {
    for stage in [PlanStage::ApplyQueued, PlanStage::ApplyProcessing] {
        let database = TestDatabase::sqlite();
        let environment = PlanEnvironment::new(&database, MODEL);
        let plan = finished(&environment, "local/shop", false);
        write_store(&environment.engine, move |unit| {
            let details = TransitionDetails {
                report: Some(serde_json::json!({"branch": "fix/price"})),
                ..TransitionDetails::default()
            };
            plans::advance(unit, plan, StageTransition::QueueApply, &details)?;
            plans::restore_stage(unit, plan, stage).map(drop)
        });
        let apply = |branch: Option<&str>| ApplyPlan {
            reference: Some(plan.to_string()),
            yes: true,
            branch: branch.map(str::to_owned),
            ..ApplyPlan::default()
        };
        if stage == PlanStage::ApplyProcessing {
            let refused = user(&environment).call(apply(Some("other")));
            assert_eq!(refused.expect_err("its target").code(), Code::PlanNotReady);
        }
        let applied = user(&environment).call(apply(None)).expect("applied");
        assert_eq!(applied.branch.as_deref(), Some("fix/price"));
        assert_eq!(environment.price(), "wrong\n");
        let branch = git(&environment.repository, &["show", "fix/price:price.txt"]);
        assert_eq!(branch, "right");
    }
}

fn an_executed_step_is_undone_and_redone() {
    for database in TestDatabase::each() {
        let environment = PlanEnvironment::new(&database, MODEL);
        let plan = finished(&environment, "local/shop", false);
        let changed = || environment.changed_in_sandbox(&stored(&environment, plan));
        assert_eq!(changed(), ["price.txt"]);
        let preview = undo(&environment, plan, true).expect("a preview");
        assert_eq!(changed(), ["price.txt"], "{preview:?}");
        let undone = undo(&environment, plan, false).expect("undone");
        assert!(
            matches!(undone.undone, UndoneChange::Step { .. }),
            "{undone:?}"
        );
        assert_eq!(undone.files, preview.files);
        assert_eq!(changed(), Vec::<String>::new());
        let redo = RedoRollback {
            reference: plan.to_string(),
        };
        user(&environment).call(redo).expect("redone");
        assert_eq!(changed(), ["price.txt"]);
        assert_eq!(
            environment.price(),
            "wrong\n",
            "only the sandbox was changed"
        );
    }
}
