//! The operations on projects, resources, actions, invariants and automation profiles, as a front end calls them.

use std::sync::Arc;

use cleveragents_application::action_operations::{
    ArchiveAction, CreateAction, ListActions, ShowAction,
};
use cleveragents_application::automation_operations::{
    AddProfile, ListProfiles, RemoveProfile, ShowProfile,
};
use cleveragents_application::invariant_operations::{
    AddInvariant, ListInvariants, RemoveInvariant,
};
use cleveragents_application::project_operations::{
    CreateProject, DeleteProject, LinkResource, ListProjects, ShowProject, UnlinkResource,
};
use cleveragents_application::resource_operations::{
    ListResources, RemoveResource, ShowResource, ShowResourceTree, ShowResourceType,
};
use cleveragents_application::{
    Application, NewResource, Operation, OperationError, OperationSettings, ProcessEnvironment,
    Register, ResourceService, check_sendable,
};
use cleveragents_domain::identity::{Caller, Scope};
use cleveragents_domain::{Code, Diagnose as _};
use cleveragents_store::{Engine, audit};
use cleveragents_testkit::TestDatabase;
use serde_json::{Value, json};

fn application(engine: &Arc<Engine>) -> Application {
    Application::new(
        Arc::clone(engine),
        OperationSettings {
            max_message_bytes: 1_000,
            automation_profile: "careful".to_owned(),
            sandboxes: std::env::temp_dir(),
            sandbox_policy: cleveragents_application::SandboxPolicy::default(),
            plans: cleveragents_application::PlanSettings::default(),
            process: ProcessEnvironment::default(),
        },
    )
}

fn caller(grants: &[&str]) -> Caller {
    let grants = grants.iter().map(|grant| grant.parse().expect("a grant"));
    Caller::with_token("ci", grants.collect(), Scope::ALL.iter().copied().collect())
}

fn call<O: Operation>(
    application: &Application,
    caller: &Caller,
    request: O,
) -> Result<O::Response, OperationError> {
    application.for_caller(caller.clone()).call(request)
}

/// Runs a request and returns its response as JSON. Checks that a connected CLI can parse the whole response.
fn json_of<O: Operation>(application: &Application, caller: &Caller, request: O) -> Value {
    let response = call(application, caller, request).expect(O::NAME);
    let sent = serde_json::to_value(&response).expect("JSON");
    let received: O::Response = serde_json::from_value(sent.clone()).expect(O::NAME);
    let reserialized = serde_json::to_value(received).expect("JSON");
    assert_eq!(sent, reserialized, "{}", O::NAME);
    sent
}

fn code<O: Operation>(application: &Application, caller: &Caller, request: O) -> Code {
    match call(application, caller, request) {
        Ok(_) => panic!("{} was not refused", O::NAME),
        Err(error) => error.code(),
    }
}

fn create(name: &str) -> CreateProject {
    CreateProject {
        name: name.to_owned(),
        ..CreateProject::default()
    }
}

fn show(reference: &str) -> ShowProject {
    ShowProject {
        reference: reference.to_owned(),
    }
}

fn add_resource(engine: &Arc<Engine>, name: &str) {
    let folder = std::env::temp_dir().display().to_string();
    let new = NewResource {
        type_name: "fs-directory".to_owned(),
        name: name.to_owned(),
        values: [("path".to_owned(), folder)].into(),
        description: None,
        read_only: false,
        base: "/".into(),
    };
    let resources = ResourceService::new(Arc::clone(engine));
    resources.add(&new, Register::New).expect("registered");
}

#[test]
fn callers_reach_projects_of_their_namespaces_only() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let application = application(&engine);
        let (local_caller, admin) = (Caller::local("ada"), caller(&["acme=admin"]));
        let created = json_of(&application, &admin, create("shop"));
        assert_eq!(created["project"]["name"], "acme/shop");
        assert_eq!(created["project"]["namespace"], "acme");
        assert_eq!(created["linked_resources"], json!([]));
        for name in ["other/shop", "shop"] {
            call(&application, &local_caller, create(name)).expect("created");
        }
        // For an id, the resolver looks up the name, so that the permission in the namespace of this name is checked.
        let id = created["project"]["id"].as_str().expect("an id");
        for reference in ["shop", "acme/shop", "ACME/Shop", id] {
            let shown = json_of(&application, &admin, show(reference));
            assert_eq!(shown["project"]["id"], id, "{reference}");
        }
        for reference in ["other/shop", "local/shop"] {
            assert_eq!(
                code(&application, &admin, show(reference)),
                Code::Forbidden,
                "{reference}"
            );
            let delete = DeleteProject {
                reference: reference.to_owned(),
                yes: true,
                dry_run: false,
            };
            assert_eq!(code(&application, &admin, delete), Code::Forbidden);
        }
        let listed = json_of(&application, &admin, ListProjects {});
        assert_eq!(listed["summary"]["total"], 1);
        assert_eq!(listed["projects"][0]["resources"], 0);
        let filter = audit::AuditFilter {
            kind: Some("access_denied".to_owned()),
            limit: 10,
            ..audit::AuditFilter::default()
        };
        let denials = engine.read(|reader| audit::list(reader, &filter));
        let denials: Vec<_> = denials
            .expect("entries")
            .into_iter()
            .filter_map(|entry| entry.subject)
            .collect();
        assert_eq!(denials.len(), 4, "{denials:?}");
        let delete = |yes: bool| DeleteProject {
            reference: "shop".to_owned(),
            yes,
            dry_run: false,
        };
        let refused = code(&application, &admin, delete(false));
        assert_eq!(refused, Code::ConfirmationNeeded);
        call(&application, &admin, delete(true)).expect("deleted");
        assert_eq!(
            code(&application, &admin, show("shop")),
            Code::ProjectNotFound
        );
        call(&application, &local_caller, show("shop")).expect("local/shop remains");
    }
}

/// `LOCAL/shop` is stored as `local/shop`.
#[test]
fn remote_callers_cannot_reach_the_local_namespace_by_any_spelling() {
    let database = TestDatabase::sqlite();
    let engine = database.open();
    let application = application(&engine);
    call(&application, &Caller::local("ada"), create("shop")).expect("created");
    let owner_everywhere = caller(&["*=owner"]);
    for name in ["local/shop", "LOCAL/shop", " local/shop", "Local/SHOP"] {
        let refused = code(&application, &owner_everywhere, show(name));
        assert_eq!(refused, Code::Forbidden, "{name}");
        let other = name.replace("hop", "pot");
        let refused = code(&application, &owner_everywhere, create(&other));
        assert_eq!(refused, Code::Forbidden, "{other}");
    }
    let shown = call(&application, &owner_everywhere, show("acme/none"));
    assert_eq!(shown.expect_err("none").code(), Code::ProjectNotFound);
}

/// Resources are also searched in `local/`: the name `shop/src` may mean `local/shop/src`.
#[test]
fn remote_callers_cannot_find_a_local_resource_without_its_namespace() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let application = application(&engine);
        let (local_caller, owner) = (Caller::local("ada"), caller(&["shop=owner"]));
        add_resource(&engine, "local/shop/src");
        add_resource(&engine, "shop/api");
        let show_resource = |reference: &str| ShowResource {
            reference: reference.to_owned(),
        };
        let local = json_of(&application, &local_caller, show_resource("shop/src"));
        assert_eq!(local["resource"]["name"], "local/shop/src");
        assert_eq!(local["resource"]["type"], "fs-directory");
        assert_eq!(
            code(&application, &owner, show_resource("shop/src")),
            Code::Forbidden
        );
        let remove = RemoveResource {
            reference: "shop/src".to_owned(),
            yes: true,
            dry_run: false,
        };
        assert_eq!(code(&application, &owner, remove), Code::Forbidden);
        json_of(&application, &owner, show_resource("api"));
        let listed = json_of(&application, &owner, ListResources::default());
        assert_eq!(listed["resources"].as_array().map(Vec::len), Some(1));
        // Only local callers can request the trees of all resources.
        let tree = |reference: Option<&str>| ShowResourceTree {
            reference: reference.map(str::to_owned),
            type_name: None,
        };
        assert_eq!(
            code(&application, &owner, tree(None)),
            Code::MalformedRequest
        );
        let drawn = json_of(&application, &owner, tree(Some("api")));
        assert_eq!(drawn["tree"][0]["name"], "shop/api");
        let all = json_of(&application, &local_caller, tree(None));
        assert_eq!(all["tree"].as_array().map(Vec::len), Some(2));
        let name = "git-checkout".to_owned();
        let kind = json_of(&application, &owner, ShowResourceType { name });
        assert_eq!(kind["source"], "built-in");
        assert_eq!(kind["sandbox"]["strategy"], "git_worktree");
    }
}

#[test]
fn resources_are_linked_by_name_and_alias() {
    let database = TestDatabase::sqlite();
    let engine = database.open();
    let application = application(&engine);
    let admin = caller(&["acme=admin"]);
    add_resource(&engine, "acme/api");
    add_resource(&engine, "acme/orders");
    add_resource(&engine, "other/secret");
    let linked = json_of(
        &application,
        &admin,
        CreateProject {
            resources: vec!["orders:db".to_owned()],
            ..create("shop")
        },
    );
    assert_eq!(linked["linked_resources"][0]["alias"], "db");
    assert_eq!(linked["linked_resources"][0]["name"], "acme/orders");
    let link = |resource: &str| LinkResource {
        reference: "shop".to_owned(),
        resource: resource.to_owned(),
        alias: None,
        read_only: true,
    };
    assert_eq!(
        code(&application, &admin, link("other/secret")),
        Code::Forbidden
    );
    let linked = json_of(&application, &admin, link("api"));
    assert_eq!(linked["linked_resources"][0]["read_only"], true);
    let unlinked = json_of(
        &application,
        &admin,
        UnlinkResource {
            reference: "shop".to_owned(),
            resource: "api".to_owned(),
        },
    );
    assert_eq!(unlinked["unlinked"]["name"], "acme/api");
    assert_eq!(unlinked["resources_linked"], 1);
}

const ACTION: &str = "name: lint\ndescription: Lint it\ndefinition_of_done: No warning is left\n\
    arguments:\n  - {name: depth, type: integer, minimum: 1, default: 2}\n";

fn create_action(text: &str) -> CreateAction {
    CreateAction {
        text: text.to_owned(),
        source: Some("/home/ada/lint.yaml".to_owned()),
        update: false,
    }
}

#[test]
fn remote_actions_are_stored_in_the_namespace_of_the_caller() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let application = application(&engine);
        let (local_caller, admin) = (Caller::local("ada"), caller(&["acme=admin"]));
        let created = json_of(&application, &admin, create_action(ACTION));
        assert_eq!(created["action"]["name"], "acme/lint");
        assert_eq!(created["action"]["config"], "sent by ci");
        assert_eq!(created["action"]["arguments"][0]["minimum"], 1);
        assert_eq!(created["action"]["strategy_actor"], Value::Null);
        assert_eq!(created["outcome"], "created");
        let mine = json_of(&application, &local_caller, create_action(ACTION));
        assert_eq!(mine["action"]["config"], "/home/ada/lint.yaml");
        let elsewhere = ACTION.replace("lint\n", "other/lint\n");
        assert_eq!(
            code(&application, &admin, create_action(&elsewhere)),
            Code::Forbidden
        );
        let listed = json_of(&application, &admin, ListActions::default());
        assert_eq!(listed["summary"]["total"], 1);
        assert_eq!(listed["filters"]["state"], Value::Null);
        let archive = |yes: bool| ArchiveAction {
            name: "lint".to_owned(),
            yes,
        };
        assert_eq!(
            code(&application, &admin, archive(false)),
            Code::ConfirmationNeeded
        );
        let show_action = |name: &str| ShowAction {
            name: name.to_owned(),
        };
        let still = json_of(&application, &admin, show_action("lint"));
        assert_eq!(still["action"]["state"], "available");
        let archived = json_of(&application, &admin, archive(true));
        assert_eq!(archived["action"]["state"], "archived");
        assert_eq!(
            code(&application, &admin, show_action("local/lint")),
            Code::Forbidden
        );
        assert_eq!(
            code(&application, &admin, show_action("none")),
            Code::ActionNotFound
        );
    }
}

/// An action cannot be parsed while one of its variables is unset: it is listed with the reason, and can be archived.
#[test]
fn an_invalid_action_can_be_listed_and_archived() {
    let database = TestDatabase::sqlite();
    let engine = database.open();
    let local_caller = Caller::local("ada");
    let with_variable = |value: Option<&'static str>| {
        let process = ProcessEnvironment {
            variables: Arc::new(move |_| value.map(str::to_owned)),
            ..ProcessEnvironment::default()
        };
        let settings = OperationSettings {
            max_message_bytes: 1_000,
            automation_profile: "manual".to_owned(),
            sandbox_policy: cleveragents_application::SandboxPolicy::default(),
            plans: cleveragents_application::PlanSettings::default(),
            sandboxes: std::env::temp_dir(),
            process,
        };
        Application::new(Arc::clone(&engine), settings)
    };
    let text = ACTION.replace("Lint it", "${WHAT}");
    let (before, after) = (with_variable(Some("Lint it")), with_variable(None));
    call(&before, &local_caller, create_action(&text)).expect("created");
    let listed = json_of(&after, &local_caller, ListActions::default());
    assert_eq!(listed["summary"]["broken"], 1);
    let action = listed["actions"][0].as_object().expect("an action");
    assert!(action["problem"].is_string() && !action.contains_key("reusable"));
    let name = "lint".to_owned();
    let refused = code(&after, &local_caller, ShowAction { name: name.clone() });
    assert_ne!(refused, Code::ActionNotFound);
    let archived = json_of(&after, &local_caller, ArchiveAction { name, yes: true });
    assert_eq!(archived["action"]["state"], "archived");
    assert!(archived["action"].get("definition_of_done").is_none());
}

fn invariant(text: &str) -> AddInvariant {
    AddInvariant {
        text: text.to_owned(),
        ..AddInvariant::default()
    }
}

#[test]
fn remote_callers_cannot_look_up_or_remove_foreign_and_global_invariants() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let application = application(&engine);
        let (local_caller, admin) = (Caller::local("ada"), caller(&["acme=admin"]));
        for name in ["acme/shop", "other/shop"] {
            call(&application, &local_caller, create(name)).expect("created");
            let project = vec![name.to_owned()];
            let text = "The API is stable";
            let request = AddInvariant {
                project,
                ..invariant(text)
            };
            call(&application, &local_caller, request).expect("added");
        }
        let global = AddInvariant {
            global: true,
            ..invariant("Never push to main")
        };
        assert_eq!(
            code(&application, &admin, global.clone()),
            Code::LocalOnly,
            "only for the user of the machine"
        );
        let added = json_of(&application, &local_caller, global);
        assert_eq!(added["invariant"]["scope"], "global");
        let listed = json_of(&application, &admin, ListInvariants::default());
        assert_eq!(listed["summary"], json!({"total": 2}));
        assert_eq!(listed["effective"], false);
        assert!(listed.get("plan_id").is_none());
        let of_other = ListInvariants {
            project: vec!["other/shop".to_owned()],
            ..ListInvariants::default()
        };
        assert_eq!(code(&application, &admin, of_other), Code::Forbidden);
        // A caller can neither remove nor look up global invariants and invariants of other namespaces.
        let all = json_of(&application, &local_caller, ListInvariants::default());
        let invariants = all["invariants"].as_array().expect("a list");
        for known in invariants {
            let id = known["id"].as_str().expect("an id").to_owned();
            let is_own = known["source_name"] == "acme/shop";
            let found = ListInvariants {
                id: Some(id.clone()),
                ..ListInvariants::default()
            };
            let remove = RemoveInvariant {
                id,
                yes: true,
                dry_run: false,
            };
            if is_own {
                let found = json_of(&application, &admin, found);
                assert_eq!(found["invariants"][0]["text"], known["text"]);
                let removed = json_of(&application, &admin, remove);
                assert_eq!(removed["removed"]["active"], false);
            } else {
                assert_eq!(code(&application, &admin, found), Code::InvariantNotFound);
                assert_eq!(code(&application, &admin, remove), Code::InvariantNotFound);
            }
        }
        let remaining = json_of(&application, &local_caller, ListInvariants::default());
        assert_eq!(remaining["summary"]["total"], 2);
    }
}

#[test]
fn effective_invariants_are_for_local_callers() {
    let database = TestDatabase::sqlite();
    let engine = database.open();
    let application = application(&engine);
    let local_caller = Caller::local("ada");
    let project = CreateProject {
        invariants: vec!["Tests pass".to_owned()],
        ..create("acme/shop")
    };
    call(&application, &local_caller, project).expect("created");
    let global = AddInvariant {
        global: true,
        ..invariant("Never push to main")
    };
    call(&application, &local_caller, global.clone()).expect("added");
    let mut effective = ListInvariants {
        project: vec!["acme/shop".to_owned()],
        effective: true,
        short_ids: true,
        ..ListInvariants::default()
    };
    let listed = json_of(&application, &local_caller, effective.clone());
    assert_eq!(
        listed["summary"],
        json!({"total": 2, "plan": 0, "action": 0, "project": 1, "global": 1})
    );
    assert_eq!(listed["plan_id"], Value::Null);
    assert_eq!(listed["scope"], json!(["project"]));
    let invariants = listed["invariants"].as_array().expect("a list");
    assert!(
        invariants
            .iter()
            .all(|listed| listed.get("created").is_none())
    );
    let short: Vec<bool> = invariants
        .iter()
        .map(|listed| listed.get("short_id").is_some() == listed["id"].is_string())
        .collect();
    assert_eq!(short, [true, true]);
    let viewer = caller(&["acme=viewer"]);
    assert_eq!(
        code(&application, &viewer, effective.clone()),
        Code::LocalOnly
    );
    // A connected command line refuses these requests before it sends them to the server.
    for refused in [
        check_sendable(&mut effective),
        check_sendable(&mut global.clone()),
    ] {
        assert_eq!(refused.expect_err("local").code(), Code::LocalOnly);
    }
}

#[test]
fn the_configured_profile_cannot_be_removed() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let application = application(&engine);
        let (local_caller, admin) = (Caller::local("ada"), caller(&["acme=admin"]));
        for (caller, name) in [
            (&local_caller, "local/careful"),
            (&admin, "acme/careful"),
            (&local_caller, "other/careful"),
        ] {
            let text = format!(
                "name: {name}\nextends: trusted\nguards:\n  max_total_cost: 1.5\n  tool_denylist: [a/b]\n"
            );
            let added = json_of(
                &application,
                caller,
                AddProfile {
                    text,
                    source: None,
                    update: false,
                },
            );
            assert_eq!(added["guards"]["max_total_cost"], 1.5, "{added}");
        }
        let remove = |name: &str, yes: bool| RemoveProfile {
            name: name.to_owned(),
            yes,
            dry_run: false,
        };
        let refused = call(&application, &local_caller, remove("careful", true));
        let refused = refused.expect_err("configured");
        assert_eq!(refused.code(), Code::ProfileInUse);
        let hint = refused.hint().expect("a hint").neutral();
        assert!(
            hint.contains("`config/set` (key=core.automation-profile"),
            "{hint}"
        );
        assert_eq!(
            code(&application, &local_caller, remove("trusted", true)),
            Code::BuiltInProfile
        );
        assert_eq!(
            code(&application, &admin, remove("careful", false)),
            Code::ConfirmationNeeded
        );
        assert_eq!(
            code(&application, &admin, remove("other/careful", true)),
            Code::Forbidden
        );
        let listed = json_of(&application, &admin, ListProfiles::default());
        let custom = listed["automation_profiles"].as_array().expect("a list");
        let custom: Vec<_> = custom
            .iter()
            .filter(|profile| profile["source"] == "custom")
            .collect();
        assert_eq!(custom.len(), 1, "{custom:?}");
        let name = "trusted".to_owned();
        let shown = json_of(&application, &admin, ShowProfile { name });
        assert_eq!(shown["phase_transitions"]["select_tool"], 1.0);
        assert_eq!(shown["execution_controls"]["require_sandbox"], true);
        assert_eq!(shown["execution_controls"]["install_dependency"], 0.0);
        assert_eq!(shown["config"], Value::Null);
        json_of(&application, &admin, remove("careful", true));
    }
}
