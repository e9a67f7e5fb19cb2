//! The operations on sessions, as a front end calls them: resolved, authorized and run.

use std::sync::Arc;

use cleveragents_application::session_operations::{
    AppendMessage, CreateSession, DeleteSession, ListSessions, MetadataParameter, SearchMessages,
    SearchWords, ShowSession,
};
use cleveragents_application::{
    Application, OperationError, OperationSettings, ProcessEnvironment, SandboxPolicy,
    check_sendable, find_operation, operations,
};
use cleveragents_domain::identity::{Caller, Scope};
use cleveragents_domain::{Code, Diagnose as _};
use cleveragents_process::Cancel;
use cleveragents_store::{Engine, audit};
use cleveragents_testkit::TestDatabase;
use serde_json::{Value, json};

fn application(engine: &Arc<Engine>) -> Application {
    Application::new(
        Arc::clone(engine),
        OperationSettings {
            max_message_bytes: 1_000,
            automation_profile: "manual".to_owned(),
            sandboxes: std::env::temp_dir(),
            process: ProcessEnvironment::default(),
            sandbox_policy: SandboxPolicy::default(),
            plans: cleveragents_application::PlanSettings::default(),
        },
    )
}

fn caller(grants: &[&str]) -> Caller {
    let grants = grants.iter().map(|grant| grant.parse().expect("a grant"));
    Caller::with_token("ci", grants.collect(), Scope::ALL.iter().copied().collect())
}

fn create(
    application: &Application,
    caller: &Caller,
    name: &str,
    namespace: Option<&str>,
) -> String {
    let created = application.for_caller(caller.clone()).call(CreateSession {
        name: Some(name.to_owned()),
        actor: None,
        namespace: namespace.map(str::to_owned),
    });
    created.expect("created").session.id.to_string()
}

fn show(application: &Application, caller: &Caller, reference: &str) -> Result<String, Code> {
    let request = ShowSession {
        reference: reference.to_owned(),
        recent: 0,
    };
    let shown = application.for_caller(caller.clone()).call(request);
    let shown = shown.map_err(|error| error.code())?;
    Ok(shown.session_summary.namespace)
}

#[test]
fn callers_read_and_change_sessions_of_their_namespaces_only() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let application = application(&engine);
        let (local_caller, editor) = (Caller::local("ada"), caller(&["acme=editor"]));
        let own = create(&application, &editor, "own", None);
        let foreign = create(&application, &local_caller, "foreign", Some("other"));
        let local = create(&application, &local_caller, "local", None);
        assert_eq!(show(&application, &editor, &own), Ok("acme".to_owned()));
        for reference in [&foreign, &local, "foreign", "local"] {
            let shown = show(&application, &editor, reference);
            assert_eq!(shown, Err(Code::SessionNotFound), "{reference}");
        }
        assert_eq!(
            show(&application, &local_caller, &local),
            Ok("local".to_owned())
        );
        // An editor may not delete: the request is refused and recorded. Sessions of other namespaces are reported as
        // missing.
        let delete = |reference: &str| {
            let request = DeleteSession {
                reference: reference.to_owned(),
                yes: true,
                dry_run: false,
            };
            let deleted = application.for_caller(editor.clone()).call(request);
            deleted.expect_err("not allowed").code()
        };
        assert_eq!(delete(&own), Code::Forbidden);
        assert_eq!(delete(&foreign), Code::SessionNotFound);
        let filter = audit::AuditFilter {
            kind: Some("access_denied".to_owned()),
            limit: 10,
            ..audit::AuditFilter::default()
        };
        let denials = engine.read(|reader| audit::list(reader, &filter));
        let denials = denials.expect("entries");
        assert_eq!(denials.len(), 1);
        assert_eq!(denials[0].subject.as_deref(), Some("session/delete"));
        let listed = application
            .for_caller(editor)
            .call(ListSessions::default())
            .expect("listed");
        assert_eq!(listed.sessions.len(), 1);
        assert_eq!((listed.summary.total, listed.summary.matching), (1, 1));
    }
}

#[test]
fn a_caller_with_several_namespaces_must_name_one() {
    let database = TestDatabase::sqlite();
    let engine = database.open();
    let application = application(&engine);
    let both = caller(&["acme=editor", "other=editor"]);
    let create = |namespace: Option<&str>, context: Option<&str>| {
        let operations = application.for_caller(both.clone());
        let operations = operations.in_namespace(context.map(str::to_owned));
        let created = operations.call(CreateSession {
            namespace: namespace.map(str::to_owned),
            ..CreateSession::default()
        });
        created.map(|created| created.session.namespace)
    };
    let failed = |result: Result<String, OperationError>| result.expect_err("refused").code();
    assert_eq!(failed(create(None, None)), Code::Usage);
    assert_eq!(create(None, Some("other")).expect("created"), "other");
    assert_eq!(create(Some("ACME"), None).expect("created"), "acme");
    assert_eq!(failed(create(Some("third"), None)), Code::Forbidden);
    assert_eq!(failed(create(Some("no name"), None)), Code::InvalidName);
}

#[test]
fn a_deletion_that_is_not_confirmed_deletes_nothing() {
    let database = TestDatabase::sqlite();
    let engine = database.open();
    let application = application(&engine);
    let local_caller = Caller::local("ada");
    let id = create(&application, &local_caller, "kept", None);
    let request = DeleteSession {
        reference: id.clone(),
        yes: false,
        dry_run: false,
    };
    let refused = application.for_caller(local_caller.clone()).call(request);
    assert_eq!(
        refused.expect_err("refused").code(),
        Code::ConfirmationNeeded
    );
    assert!(show(&application, &local_caller, &id).is_ok());
}

#[test]
fn search_results_contain_the_positions_of_matches() {
    for database in TestDatabase::each() {
        let engine = database.open();
        let application = application(&engine);
        let local_caller = Caller::local("ada");
        let id = create(&application, &local_caller, "work", None);
        let append = AppendMessage {
            reference: id,
            role: "user".to_owned(),
            text: "Zürich has a race, and a race".to_owned(),
            metadata: MetadataParameter::Missing,
        };
        let context = application.for_caller(local_caller.clone());
        context.call(append).expect("appended");
        let search = SearchMessages {
            query: SearchWords::Text("race".to_owned()),
            session: None,
            role: None,
            limit: 5,
            short_ids: true,
        };
        let found = application
            .for_caller(local_caller)
            .call(search)
            .expect("found");
        let found = &found.matches[0];
        let matches = found.highlights.iter().map(|(start, end)| {
            let index = |at: &u64| usize::try_from(*at).expect("small");
            &found.excerpt[index(start)..index(end)]
        });
        let marked: Vec<&str> = matches.collect();
        assert!(!marked.is_empty() && marked.iter().all(|word| *word == "race"));
        assert!(found.short_session_id.is_some());
    }
}

#[test]
fn requests_are_parsed_strictly_and_responses_have_the_shape_of_the_command() {
    let database = TestDatabase::sqlite();
    let engine = database.open();
    let application = application(&engine);
    let call = |name: &str, request: Value| {
        let context = application.for_caller(Caller::local("ada"));
        let call = find_operation(name)?.prepare(context, request)?;
        call(&Cancel::new())
    };
    let failed = |name: &str, request: Value| call(name, request).expect_err("refused").code();
    for request in [
        json!({"nmae": "x"}),
        json!({"name": 1}),
        json!(["name"]),
        json!({"name": "x", "database_url": "sqlite::memory:"}),
    ] {
        assert_eq!(failed("session/create", request), Code::MalformedRequest);
    }
    assert_eq!(failed("session/show", json!({})), Code::MalformedRequest);
    assert_eq!(failed("session/none", json!({})), Code::UnknownOperation);
    let created = call("session/create", json!({"name": "weekly"})).expect("created");
    let session = created["session"].as_object().expect("an object");
    let fields: Vec<&str> = session.keys().map(String::as_str).collect();
    for field in [
        "id",
        "name",
        "actor",
        "namespace",
        "messages",
        "version",
        "created",
        "updated",
    ] {
        assert!(fields.contains(&field), "{field}");
    }
    assert_eq!(created["settings"]["max_message_bytes"], 1_000);
    let shown = call("session/show", json!({"reference": "weekly"})).expect("shown");
    assert_eq!(shown["token_usage"]["estimated_cost"], 0.0);
    assert!(shown["token_usage"].get("cost_known").is_none());
}

/// Each schema is a self-contained object schema that a validator can compile. Requests reject unknown properties.
#[test]
fn every_operation_has_schemas() {
    let mut names = std::collections::BTreeSet::new();
    for entry in operations() {
        assert!(names.insert(entry.name), "{} twice", entry.name);
        for schema in [(entry.request)().to_value(), (entry.response)().to_value()] {
            assert_eq!(schema["type"], "object", "{}: {schema}", entry.name);
            let compiled = jsonschema::validator_for(&schema);
            assert!(compiled.is_ok(), "{}: {schema}", entry.name);
        }
        let request = (entry.request)().to_value();
        assert_eq!(request["additionalProperties"], false, "{}", entry.name);
    }
    assert!(names.contains("session/create"));
}

#[test]
fn a_request_for_a_server_cannot_name_local_objects() {
    let mut request = CreateSession {
        actor: Some("local/mine".to_owned()),
        ..CreateSession::default()
    };
    let refused = check_sendable(&mut request).expect_err("local");
    assert_eq!(refused.code(), Code::LocalOnly);
    request.actor = Some("acme/helper".to_owned());
    assert!(check_sendable(&mut request).is_ok());
    request.namespace = Some("local".to_owned());
    assert!(check_sendable(&mut request).is_err());
}
