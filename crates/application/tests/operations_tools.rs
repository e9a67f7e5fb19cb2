//! The operations on tools, skills, validations, actors, runs and models, as a front end calls them.

use std::sync::Arc;

use cleveragents_application::actor_operations::{
    AddActor, DrawActor, DrawingFormat, ListActors, RemoveActor, ShowActor, UpdateActor,
};
use cleveragents_application::model_operations::{ListModels, ShowModel};
use cleveragents_application::run_operations::{CancelRun, ListRuns, ShowRun};
use cleveragents_application::skill_operations::{ListSkills, ShowSkill};
use cleveragents_application::tool_operations::{
    AddTool, ListToolCalls, ListTools, ListedToolKind, RemoveTool, ShowTool, ToolOrigin,
};
use cleveragents_application::validation_operations::{
    AddValidation, ArgumentValues, AttachValidation, DetachValidation, ListAttachments,
    ListValidations, RemoveValidation, ShowValidation,
};
use cleveragents_application::{
    Application, NewResource, Operation, OperationError, OperationSettings, ProcessEnvironment,
    Register, ResourceService, check_sendable,
};
use cleveragents_domain::identity::{Caller, Scope};
use cleveragents_domain::{Code, Diagnose as _, RunId, RunState};
use cleveragents_store::runs::NewRun;
use cleveragents_store::{Engine, runs};
use cleveragents_testkit::TestDatabase;
use serde_json::json;

/// An application whose configuration names the actor `acme/main`.
fn application(engine: &Arc<Engine>) -> Application {
    Application::new(
        Arc::clone(engine),
        OperationSettings {
            max_message_bytes: 1_000,
            automation_profile: "manual".to_owned(),
            sandboxes: std::env::temp_dir(),
            sandbox_policy: cleveragents_application::SandboxPolicy::default(),
            plans: cleveragents_application::PlanSettings::default(),
            process: ProcessEnvironment {
                default_actor: Some("acme/main".to_owned()),
                configured_actors: vec![("actor.default".to_owned(), "acme/main".to_owned())],
                ..ProcessEnvironment::default()
            },
        },
    )
}

fn caller(grants: &[&str]) -> Caller {
    let grants = grants.iter().map(|grant| grant.parse().expect("a grant"));
    Caller::with_token("ci", grants.collect(), Scope::ALL.iter().copied().collect())
}

fn local_caller() -> Caller {
    Caller::local("ada")
}

/// Calls an operation for a caller. Of an error, only the code is returned.
fn call<O: Operation>(
    application: &Application,
    caller: &Caller,
    request: O,
) -> Result<O::Response, Code> {
    let response = application.for_caller(caller.clone()).call(request);
    response.map_err(|error: OperationError| error.code())
}

fn tool(name: &str) -> AddTool {
    AddTool {
        text: format!(
            "name: {name}\ndescription: Counts lines\ninput_schema: {{type: object}}\n\
             read_only: true\ncode: return 1\n"
        ),
        source: Some("/etc/tool.yaml".to_owned()),
        update: false,
    }
}

fn actor(name: &str) -> AddActor {
    AddActor {
        text: format!("name: {name}\ntype: llm\nmodel: openai/gpt-5\ndescription: Helps\n"),
        source: None,
        update: false,
    }
}

fn shown(name: &str) -> ShowTool {
    ShowTool {
        name: name.to_owned(),
    }
}

fn removed(name: &str, yes: bool) -> RemoveTool {
    RemoveTool {
        name: name.to_owned(),
        yes,
        dry_run: false,
    }
}

#[test]
fn callers_read_and_change_tools_of_their_namespaces_only() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let application = application(&engine);
        let (admin, viewer) = (caller(&["acme=admin"]), caller(&["acme=viewer"]));
        // A name without a namespace gets the namespace of the caller. The source of a remote definition is not a file.
        let added = call(&application, &admin, tool("count")).expect("added");
        assert_eq!(added.tool_registered.name, "acme/count");
        assert_eq!(added.tool_registered.config, "sent by ci");
        let local = call(&application, &local_caller(), tool("local/count")).expect("added");
        assert_eq!(local.tool_registered.config, "/etc/tool.yaml");
        call(&application, &local_caller(), tool("other/count")).expect("added");

        let list = |caller: &Caller| {
            let request = ListTools {
                source: Some(ToolOrigin::Custom),
                ..ListTools::default()
            };
            let listed = call(&application, caller, request).expect("listed");
            let names = listed.tools.into_iter().map(|tool| tool.name);
            names.collect::<Vec<_>>()
        };
        assert_eq!(list(&viewer), ["acme/count"]);
        assert_eq!(
            list(&local_caller()),
            ["acme/count", "local/count", "other/count"]
        );

        assert!(call(&application, &viewer, shown("acme/count")).is_ok());
        assert!(call(&application, &viewer, shown("builtin/file-read")).is_ok());
        for foreign in ["other/count", "local/count"] {
            let refused = call(&application, &viewer, shown(foreign));
            assert_eq!(refused.expect_err(foreign), Code::Forbidden);
            let refused = call(&application, &admin, removed(foreign, true));
            assert_eq!(refused.expect_err(foreign), Code::Forbidden);
        }
        let refused = call(&application, &viewer, removed("acme/count", true));
        assert_eq!(refused.expect_err("a viewer"), Code::Forbidden);
        let done = call(&application, &admin, removed("count", true)).expect("removed");
        assert_eq!(done.removed, "acme/count");
        assert_eq!(list(&admin), [""; 0]);
    }
}

#[test]
fn an_unconfirmed_removal_names_the_object() {
    let database = TestDatabase::sqlite();
    let engine = database.open();
    let application = application(&engine);
    call(&application, &local_caller(), tool("local/count")).expect("added");
    let context = application.for_caller(local_caller());
    let refused = context.call(removed("local/count", false));
    let refused = refused.expect_err("not confirmed");
    assert_eq!(refused.code(), Code::ConfirmationNeeded);
    assert_eq!(refused.details()["name"], "local/count");
    assert!(call(&application, &local_caller(), shown("local/count")).is_ok());
    // An impossible removal is reported before the confirmation.
    let missing = call(&application, &local_caller(), removed("local/none", false));
    assert_eq!(missing.expect_err("missing"), Code::ToolNotFound);
    let built_in = call(
        &application,
        &local_caller(),
        removed("builtin/file-read", false),
    );
    assert_eq!(built_in.expect_err("built in"), Code::BuiltInTool);
}

#[test]
fn a_tool_that_exists_is_replaced_only_on_request() {
    let database = TestDatabase::sqlite();
    let engine = database.open();
    let application = application(&engine);
    call(&application, &local_caller(), tool("local/count")).expect("added");
    let again = application
        .for_caller(local_caller())
        .call(tool("local/count"));
    let again = again.expect_err("it exists");
    assert_eq!(again.code(), Code::ToolExists);
    assert!(
        again
            .hint()
            .is_some_and(|hint| hint.neutral().ends_with("with update=true"))
    );
    let update = AddTool {
        update: true,
        ..tool("local/count")
    };
    let updated = call(&application, &local_caller(), update).expect("updated");
    assert_eq!(json!(updated.tool_registered.outcome), "updated");
    assert_eq!(updated.tool_registered.version, 2);
}

#[test]
fn validations_are_attached_to_resources_of_the_caller() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let application = application(&engine);
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["acme/api", "other/api"] {
            let resource = NewResource {
                type_name: "fs-directory".to_owned(),
                name: name.to_owned(),
                values: [("path".to_owned(), folder.path().display().to_string())].into(),
                description: None,
                read_only: true,
                base: "/".into(),
            };
            let resources = ResourceService::new(Arc::clone(&engine));
            resources.add(&resource, Register::New).expect("added");
        }
        let admin = caller(&["acme=admin"]);
        let add = AddValidation {
            text: "name: tests\ndescription: Runs tests\ncommand: cargo test --package {package}\n"
                .to_owned(),
            source: None,
            update: false,
        };
        let added = call(&application, &admin, add).expect("added");
        let registered = json!(added)["validation_registered"].clone();
        assert_eq!(registered["name"], "acme/tests");
        assert_eq!(registered["arguments"], json!(["package"]));
        assert_eq!(registered["passes_when"]["exit_code"], json!([0]));

        let attach = |resource: &str, arguments: &[&str]| AttachValidation {
            resource: resource.to_owned(),
            validation: "tests".to_owned(),
            project: None,
            plan: None,
            arguments: ArgumentValues::Pairs(
                arguments.iter().map(|pair| (*pair).to_owned()).collect(),
            ),
        };
        let refused = call(&application, &admin, attach("other/api", &["package=web"]));
        assert_eq!(refused.expect_err("foreign"), Code::Forbidden);
        for wrong in [vec!["package"], vec!["a-b=1", "a_b=2"]] {
            let refused = call(&application, &admin, attach("api", &wrong));
            assert_eq!(refused.expect_err("pairs"), Code::Usage, "{wrong:?}");
        }
        let attached = call(&application, &admin, attach("api", &["package=web"]));
        let attached = attached.expect("attached").attachment;
        assert_eq!(attached.attachment.resource, "acme/api");
        // A local caller attaches the same validation to a resource of the namespace `other`. The caller from `acme`
        // does not see this attachment.
        let foreign = AttachValidation {
            validation: "acme/tests".to_owned(),
            ..attach("other/api", &["package=api"])
        };
        call(&application, &local_caller(), foreign).expect("attached");
        let show = ShowValidation {
            name: "tests".to_owned(),
        };
        let shown = call(&application, &admin, show).expect("shown");
        assert_eq!(shown.attachments.len(), 1);

        let everything = call(&application, &admin, ListAttachments::default());
        assert_eq!(everything.expect_err("which?"), Code::MalformedRequest);
        let everything = call(&application, &local_caller(), ListAttachments::default());
        assert_eq!(everything.expect("listed").summary.total, 2);

        let remove = |yes| RemoveValidation {
            name: "acme/tests".to_owned(),
            yes,
            dry_run: false,
        };
        let in_use = call(&application, &admin, remove(true));
        assert_eq!(in_use.expect_err("attached"), Code::ValidationInUse);
        let detach = DetachValidation {
            attachment: attached.attachment.attachment_id.to_string(),
        };
        let other = caller(&["other=admin"]);
        let refused = call(&application, &other, detach.clone());
        assert_eq!(refused.expect_err("foreign"), Code::AttachmentNotFound);
        call(&application, &admin, detach).expect("detached");
        let listed = call(&application, &other, ListValidations::default());
        assert_eq!(listed.expect("listed").summary.total, 0);
    }
}

#[test]
fn actors_are_registered_shown_and_removed() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let application = application(&engine);
        let admin = caller(&["acme=admin"]);
        let update = UpdateActor {
            text: actor("main").text,
            source: None,
        };
        let missing = call(&application, &admin, update.clone());
        assert_eq!(missing.expect_err("not there"), Code::ActorNotFound);
        let added = call(&application, &admin, actor("main")).expect("added");
        let added = added.actor_added;
        assert_eq!(
            (added.name.as_str(), added.model.as_deref(), added.nodes),
            ("acme/main", Some("gpt-5"), 1)
        );
        call(&application, &admin, update).expect("updated");
        call(&application, &admin, actor("helper")).expect("added");
        call(&application, &local_caller(), actor("other/main")).expect("added");

        let custom = ListActors { custom: true };
        let listed = call(&application, &admin, custom.clone()).expect("listed");
        let names: Vec<_> = listed
            .actors
            .iter()
            .map(|actor| (actor.name.as_str(), actor.default))
            .collect();
        assert_eq!(names, [("acme/helper", false), ("acme/main", true)]);
        let everything = call(&application, &admin, ListActors::default()).expect("listed");
        assert!(everything.summary.built_in > 0);

        let show = ShowActor {
            name: "main".to_owned(),
        };
        let shown = json!(call(&application, &admin, show).expect("shown"));
        assert_eq!(shown["actor_details"]["models"], json!(["openai/gpt-5"]));
        assert_eq!(shown["graph_structure"]["node_list"][0]["next"], json!([]));
        assert!(shown["usage"].get("referenced_by_actions").is_none());
        let draw = DrawActor {
            name: "main".to_owned(),
            drawing: DrawingFormat::Mermaid,
        };
        let drawn = call(&application, &admin, draw).expect("drawn");
        assert!(drawn.drawing.contains("flowchart"), "{}", drawn.drawing);

        let remove = |name: &str, yes| RemoveActor {
            name: name.to_owned(),
            yes,
            dry_run: false,
        };
        let configured = call(&application, &admin, remove("main", true));
        assert_eq!(configured.expect_err("a default"), Code::ActorInUse);
        let unconfirmed = call(&application, &admin, remove("helper", false));
        assert_eq!(unconfirmed.expect_err("asked"), Code::ConfirmationNeeded);
        let foreign = call(&application, &admin, remove("other/main", true));
        assert_eq!(foreign.expect_err("foreign"), Code::Forbidden);
        call(&application, &admin, remove("helper", true)).expect("removed");
    }
}

#[test]
fn a_remote_definition_cannot_send_a_token_of_the_server() {
    let database = TestDatabase::sqlite();
    let engine = database.open();
    let application = application(&engine);
    let request = AddActor {
        text: "name: acme/remote\ntype: a2a\ndescription: d\nurl: https://agents.example\n\
               token_env: A2A_TOKEN\n"
            .to_owned(),
        source: None,
        update: false,
    };
    let refused = call(&application, &caller(&["acme=admin"]), request.clone());
    assert_eq!(refused.expect_err("a token"), Code::LocalOnly);
    call(&application, &local_caller(), request).expect("added");
}

#[test]
fn unregistered_skills_are_hidden_from_remote_callers() {
    let database = TestDatabase::sqlite();
    let engine = database.open();
    let home = tempfile::tempdir().expect("a folder");
    let folder = home.path().join("skills/weekly");
    std::fs::create_dir_all(&folder).expect("made");
    let text = "---\nname: weekly\ndescription: Writes the weekly report\n---\nWrite it.\n";
    std::fs::write(folder.join("SKILL.md"), text).expect("written");
    let application = Application::new(
        engine,
        OperationSettings {
            max_message_bytes: 1_000,
            automation_profile: "manual".to_owned(),
            sandbox_policy: cleveragents_application::SandboxPolicy::default(),
            plans: cleveragents_application::PlanSettings::default(),
            sandboxes: std::env::temp_dir(),
            process: ProcessEnvironment {
                home: home.path().to_owned(),
                ..ProcessEnvironment::default()
            },
        },
    );
    let listed = call(&application, &local_caller(), ListSkills {}).expect("listed");
    assert_eq!(listed.skills[0].name, "local/weekly");
    let show = |all_tools| ShowSkill {
        name: "local/weekly".to_owned(),
        all_tools,
    };
    let shown = call(&application, &local_caller(), show(true)).expect("shown");
    assert_eq!(shown.agent_skills[0].name, "weekly");
    assert!(shown.tools.is_some());
    let viewer = caller(&["acme=viewer"]);
    let listed = call(&application, &viewer, ListSkills {}).expect("listed");
    assert_eq!(listed.summary.total, 0);
    let refused = call(&application, &viewer, show(false));
    assert_eq!(refused.expect_err("local"), Code::Forbidden);
}

fn run_of(engine: &Arc<Engine>, namespace: &str) -> RunId {
    let new = NewRun {
        id: RunId::generate(),
        namespace: namespace.to_owned(),
        actor: format!("{namespace}/main"),
        actor_hash: "0".repeat(64),
        definitions: json!({}),
        input: json!({}),
        options: json!({}),
    };
    let id = new.id;
    let written = engine.write(move |unit| runs::insert(unit, &new));
    written.expect("stored");
    id
}

#[test]
fn callers_read_and_cancel_runs_of_their_namespaces_only() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let application = application(&engine);
        let (own, foreign) = (run_of(&engine, "acme"), run_of(&engine, "other"));
        let (editor, viewer) = (caller(&["acme=editor"]), caller(&["acme=viewer"]));
        let list = |actor: Option<&str>| ListRuns {
            actor: actor.map(str::to_owned),
            state: None,
            limit: 20,
            offset: 0,
        };
        let listed = call(&application, &viewer, list(None)).expect("listed");
        assert_eq!((listed.summary.shown, listed.summary.matching), (1, 1));
        assert_eq!(json!(listed)["runs"][0]["usage"]["cost_usd"], 0.0);
        let listed = call(&application, &editor, list(Some("main"))).expect("listed");
        assert_eq!(listed.summary.matching, 1);
        let refused = call(&application, &viewer, list(Some("other/main")));
        assert_eq!(refused.expect_err("foreign"), Code::Forbidden);

        let show = |run: Option<String>| ShowRun { run };
        let newest = call(&application, &viewer, show(None)).expect("shown");
        assert_eq!(newest.run.id, own, "the newest that the caller may read");
        let refused = call(&application, &viewer, show(Some(foreign.to_string())));
        assert_eq!(refused.expect_err("foreign"), Code::RunNotFound);
        let cancel = |run: RunId| CancelRun {
            run: run.to_string(),
        };
        let refused = call(&application, &viewer, cancel(own));
        assert_eq!(refused.expect_err("a viewer"), Code::Forbidden);
        let refused = call(&application, &editor, cancel(foreign));
        assert_eq!(refused.expect_err("foreign"), Code::RunNotFound);
        let cancelled = call(&application, &editor, cancel(own)).expect("cancelled");
        assert!(cancelled.is_over);
        assert_eq!(cancelled.run.state, RunState::Cancelled);
    }
}

#[test]
fn remote_callers_cannot_open_models_that_are_files() {
    let database = TestDatabase::sqlite();
    let engine = database.open();
    let application = application(&engine);
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("answers.yaml");
    std::fs::write(&script, "answers: [{text: hello}]\n").expect("written");
    let show = |name: String| ShowModel { name };
    let name = format!("scripted/{}", script.display());
    let viewer = caller(&["acme=viewer"]);
    let refused = call(&application, &viewer, show(name.clone()));
    assert_eq!(refused.expect_err("a file"), Code::LocalOnly);
    assert!(call(&application, &local_caller(), show(name)).is_ok());
    let list = |provider: &str| ListModels {
        provider: Some(provider.to_owned()),
        available: false,
    };
    let listed = call(&application, &viewer, list("OpenAI")).expect("listed");
    assert!(listed.models.iter().all(|model| model.provider == "openai"));
    assert_eq!(listed.summary.shown, listed.summary.total);
    let unknown = call(&application, &viewer, list("nobody"));
    assert_eq!(unknown.expect_err("unknown"), Code::UnknownProvider);
}

#[test]
fn tool_calls_of_a_session_need_that_session() {
    let database = TestDatabase::sqlite();
    let engine = database.open();
    let application = application(&engine);
    let request = ListToolCalls {
        session: Some("nothing".to_owned()),
        tool: None,
        outcome: None,
        limit: 20,
        offset: 0,
    };
    let missing = call(&application, &caller(&["acme=viewer"]), request.clone());
    assert_eq!(missing.expect_err("missing"), Code::SessionNotFound);
    let all = ListToolCalls {
        session: None,
        ..request
    };
    let listed = call(&application, &local_caller(), all).expect("listed");
    assert_eq!(listed.summary.matching, 0);
}

#[test]
fn only_validations_are_listed_on_request() {
    let database = TestDatabase::sqlite();
    let engine = database.open();
    let application = application(&engine);
    let request = ListTools {
        kind: Some(ListedToolKind::Validation),
        ..ListTools::default()
    };
    let listed = call(&application, &local_caller(), request).expect("listed");
    assert_eq!(listed.summary.total, 0);
    let everything = call(&application, &local_caller(), ListTools::default()).expect("listed");
    assert!(everything.summary.total > 10);
}

#[test]
fn a_request_for_a_server_cannot_name_a_local_tool() {
    let refused = check_sendable(&mut shown("local/count")).expect_err("local");
    assert_eq!(refused.code(), Code::LocalOnly);
    assert!(check_sendable(&mut shown("acme/count")).is_ok());
}
