//! The operations on sources.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use cleveragents_application::project_operations::CreateProject;
use cleveragents_application::tracker_operations::{
    AddItemSource, ListItemSources, RemoveItemSource, SyncItems,
};
use cleveragents_application::{
    Application, Operation, OperationError, OperationSettings, PlanSettings, ProcessEnvironment,
    SandboxPolicy, TrackerKind,
};
use cleveragents_domain::identity::Caller;
use cleveragents_domain::{Code, Diagnose as _};
use cleveragents_testkit::{ForgeApi, TestDatabase, TrackerServer, TrackerToken};

use crate::support::TOKEN;

fn application(database: &TestDatabase) -> Application {
    let credentials = |name: &str| match name {
        "SHOP_TOKEN" | "SAME_TOKEN" => Some(TOKEN.to_owned()),
        _ => None,
    };
    let application = Application::new(
        database.open(),
        OperationSettings {
            max_message_bytes: 1_000,
            automation_profile: "manual".to_owned(),
            sandboxes: std::env::temp_dir(),
            sandbox_policy: SandboxPolicy::default(),
            plans: PlanSettings::default(),
            process: ProcessEnvironment {
                credentials: Arc::new(credentials),
                ..ProcessEnvironment::default()
            },
        },
    );
    let project = CreateProject {
        name: "local/shop".to_owned(),
        ..CreateProject::default()
    };
    call(&application, project).expect("a project");
    application
}

fn call<O: Operation>(
    application: &Application,
    request: O,
) -> Result<O::Response, OperationError> {
    application.for_caller(Caller::local("ada")).call(request)
}

fn source(kind: TrackerKind, address: &str) -> AddItemSource {
    AddItemSource {
        name: "tracker".to_owned(),
        project: "local/shop".to_owned(),
        kind,
        address: address.to_owned(),
        credential: None,
        reviewer_credential: None,
        labels: BTreeMap::new(),
        mirrors: true,
    }
}

#[test]
fn a_source_is_added_synchronized_and_removed() {
    for database in TestDatabase::each() {
        let application = application(&database);
        let folder = tempfile::tempdir().expect("a folder");
        let text = "---\ntitle: Lost updates\nlabels: [Type/Bug]\n---\n\nText.\n";
        fs::write(folder.path().join("race.md"), text).expect("a file");
        let address = folder.path().to_str().expect("UTF-8");
        let added = call(&application, source(TrackerKind::Markdown, address)).expect("added");
        assert_eq!((added.account, added.problems), (None, Vec::new()));
        let again = call(&application, source(TrackerKind::Markdown, address));
        assert_eq!(
            again.expect_err("a second one").code(),
            Code::ItemSourceExists
        );
        let sync = || SyncItems {
            source: "tracker".to_owned(),
        };
        let synced = call(&application, sync()).expect("synchronized");
        assert_eq!((synced.report.total, synced.report.created), (1, 1));
        let listed = call(&application, ListItemSources {}).expect("listed");
        assert_eq!(listed.sources.len(), 1);
        assert_eq!(listed.sources[0].total, Some(1));
        let remove = RemoveItemSource {
            name: "tracker".to_owned(),
            yes: false,
            dry_run: false,
        };
        let removed = call(&application, remove).expect("removed");
        assert_eq!(removed.discarded_writes, 0);
        let gone = call(&application, sync()).expect_err("removed");
        assert_eq!(gone.code(), Code::ItemSourceNotFound);
    }
}

#[test]
fn problems_of_accounts_are_reported_before_the_first_item() {
    let database = TestDatabase::sqlite();
    let application = application(&database);
    let weak = TrackerToken {
        can_push: false,
        ..TrackerToken::new(TOKEN, "bot")
    };
    let server = TrackerServer::start(ForgeApi::Forgejo, &[weak]);
    let added = call(
        &application,
        AddItemSource {
            credential: Some("SHOP_TOKEN".to_owned()),
            reviewer_credential: Some("SAME_TOKEN".to_owned()),
            ..source(TrackerKind::Forgejo, &server.repository_url())
        },
    )
    .expect("added");
    assert_eq!(added.account.as_deref(), Some("bot"));
    let problems: Vec<&str> = added
        .problems
        .iter()
        .map(|problem| problem.problem.as_str())
        .collect();
    assert_eq!(problems, ["read-only", "self-approval"]);
    assert_eq!(server.write_count(), 0);
}

#[test]
fn credentials_are_names_and_remote_callers_are_refused() {
    let database = TestDatabase::sqlite();
    let application = application(&database);
    let with = |credential: &str| AddItemSource {
        credential: Some(credential.to_owned()),
        ..source(TrackerKind::Forgejo, "https://code.example/ada/shop")
    };
    let error = call(&application, with(TOKEN)).expect_err("a token is not a name");
    assert_eq!(error.code(), Code::InvalidItemSource);
    assert!(!error.to_string().contains(TOKEN));
    let error = call(&application, with("OPENAI_API_KEY")).expect_err("a key of a model");
    assert_eq!(error.code(), Code::InvalidItemSource);
    let error = call(&application, with("OTHER_TOKEN")).expect_err("not set");
    assert_eq!(error.code(), Code::TrackerCredentialMissing);
    let grants = vec!["*=owner".parse().expect("a grant")];
    let scopes = cleveragents_domain::identity::Scope::ALL.iter().copied();
    let remote = Caller::with_token("ci", grants, scopes.collect());
    let error = application
        .for_caller(remote)
        .call(source(TrackerKind::Markdown, "/"))
        .expect_err("remote");
    assert_eq!(error.code(), Code::LocalOnly);
}
