//! The records of an applied plan: the lines of its commit, and the undo of its apply.

use cleveragents_application::plan_operations::{
    ListPlans, ReadPlanLog, ShowPlan, ShowPlanDiff, ShowPlanStatus, UndoPlan,
};
use cleveragents_domain::PlanPhase;
use cleveragents_domain::identity::Caller;
use cleveragents_testkit::TestDatabase;
use cleveragents_tools::ports::Approval;

use crate::MODEL;
use crate::support::{PlanEnvironment, User, git};

/// The tests of this module by name, which `main` runs.
pub(crate) const TESTS: &[(&str, fn())] = &[(
    "applied::an_applied_plan_shows_its_commit_its_calls_and_its_undo",
    an_applied_plan_shows_its_commit_its_calls_and_its_undo,
)];

fn an_applied_plan_shows_its_commit_its_calls_and_its_undo() {
    for database in TestDatabase::each() {
        let environment = PlanEnvironment::new(&database, MODEL);
        let user = User::answering(Approval::Once);
        let mut plan = environment.plan("supervised");
        for phase in [PlanPhase::Strategize, PlanPhase::Execute, PlanPhase::Apply] {
            plan = environment.drive(&plan, phase, &user).expect("it runs");
        }
        let application = environment.application();
        let context = || application.for_caller(Caller::local("ada"));
        let reference = Some(plan.id.to_string());
        let head = || git(&environment.repository, &["rev-parse", "HEAD"]);
        let applied = head();

        let diff = context()
            .call(ShowPlanDiff {
                reference: reference.clone(),
                stat: false,
                correction: false,
            })
            .expect("a diff");
        let patch = diff.patch.expect("the lines of the commit");
        assert!(patch.contains("-wrong\n+right\n"), "{patch}");
        assert_eq!(diff.diff_summary.insertions, Some(1));
        assert_eq!(diff.files[0].change.as_deref(), Some("+1 -1"));
        assert_eq!(diff.applied[0].commit, applied);
        assert_eq!(diff.incomplete, None);
        assert_eq!(diff.undone, None);

        let log = context()
            .call(ReadPlanLog {
                reference: reference.clone(),
                limit: 500,
                after: None,
            })
            .expect("a log");
        let details = |what: &str| {
            let entries = log.events.iter().filter(|entry| entry.what == what);
            let details: Vec<&str> = entries.map(|entry| entry.detail.as_str()).collect();
            details
        };
        let calls = details("tool call");
        assert_eq!(calls.len(), 1, "{calls:?}");
        assert!(
            calls[0].starts_with("builtin/file-write content=right path=price.txt: succeeded in ")
                || calls[0]
                    .starts_with("builtin/file-write path=price.txt content=right: succeeded in "),
            "{calls:?}"
        );
        let done = details("step done");
        assert!(done.contains(&"passed: 1 of 1 criteria met"), "{done:?}");

        // The patch is that of the plan's commit, not of later commits.
        std::fs::write(environment.repository.join("later.txt"), "later\n").expect("a file");
        git(&environment.repository, &["add", "."]);
        git(&environment.repository, &["commit", "-q", "-m", "later"]);
        context()
            .call(UndoPlan {
                reference: reference.clone(),
                dry_run: false,
                yes: true,
            })
            .expect("undone");
        assert_eq!(environment.price(), "wrong\n");
        let reverts = vec![head()];

        let status = context()
            .call(ShowPlanStatus {
                reference: reference.clone(),
            })
            .expect("a status");
        assert_eq!(status.undone.expect("an undo").commits, reverts);
        let shown = context()
            .call(ShowPlan {
                reference: reference.clone(),
                document: None,
            })
            .expect("a plan");
        assert_eq!(shown.undone.expect("an undo").commits, reverts);
        let listed = context().call(ListPlans::default()).expect("a list");
        let undone = listed.plans[0].undone.clone();
        assert_eq!(undone.expect("an undo").commits, reverts);
        let diff = context()
            .call(ShowPlanDiff {
                reference,
                stat: false,
                correction: false,
            })
            .expect("a diff");
        assert_eq!(diff.patch.as_deref(), Some(patch.as_str()));
        assert_eq!(diff.undone.expect("an undo").commits, reverts);
    }
}
