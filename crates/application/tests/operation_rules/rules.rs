//! The resolution of names, visibility, and objects that remote requests cannot name.

use std::collections::BTreeSet;

use cleveragents_application::operations;
use cleveragents_domain::identity::Caller;
use cleveragents_domain::{Code, Diagnose as _, Kind, RunId};
use cleveragents_store::runs::NewRun;
use cleveragents_store::{audit, runs};
use cleveragents_testkit::plans;
use serde_json::{Value, json};

use crate::support::{caller, smallest_parameters, test_operations};

#[test]
fn defect_4849_3117_9090_every_operation_that_is_advertised_can_be_dispatched() {
    let served = test_operations();
    let local_caller = Caller::local("ada");
    let mut names = BTreeSet::new();
    for entry in operations() {
        assert!(names.insert(entry.name), "{} twice", entry.name);
        assert!(!entry.summary.is_empty(), "{}", entry.name);
        let parameters = smallest_parameters(entry.name, &(entry.request)().to_value());
        if let Err(error) = served.run(&local_caller, entry.name, &parameters) {
            let refused = [Code::Internal, Code::MalformedRequest];
            assert!(!refused.contains(&error.code()), "{}: {error}", entry.name);
        }
    }
}

/// Requests contain neither output options nor paths of the caller's machine.
#[test]
fn requests_have_no_options_of_the_command_line() {
    for entry in operations() {
        let schema = (entry.request)().to_value();
        let properties = &schema["properties"];
        for hidden in [
            "format",
            "database_url",
            "log_file",
            "record",
            "safety",
            "stream",
            "local",
        ] {
            assert!(properties.get(hidden).is_none(), "{}: {hidden}", entry.name);
        }
    }
}

#[test]
fn the_state_of_the_server_needs_a_role_on_every_namespace() {
    let served = test_operations();
    for name in ["db/status", "cleanup/status", "diagnostics/run"] {
        let denied = served.run(&caller(&["acme=owner"]), name, &json!({}));
        assert_eq!(denied.expect_err(name).code(), Code::Forbidden, "{name}");
        served
            .run(&caller(&["*=viewer"]), name, &json!({}))
            .expect(name);
    }
    let health = served.run(&caller(&["acme=viewer"]), "health/check", &json!({}));
    assert_eq!(
        health.expect("healthy")["version"],
        env!("CARGO_PKG_VERSION")
    );
}

/// Sessions of other namespaces with the same name do not make a reference ambiguous, and are not revealed.
#[test]
fn a_name_refers_only_to_sessions_that_the_caller_may_read() {
    let served = test_operations();
    let local_caller = Caller::local("ada");
    let ids = ["acme", "other"].map(|namespace| {
        let parameters = json!({"namespace": namespace, "name": "one"});
        let made = served.run(&local_caller, "session/create", &parameters);
        made.expect("made")["session"]["id"].clone()
    });
    let show = |grants: &[&str], name: &str| {
        served.run(&caller(grants), "session/show", &json!({"reference": name}))
    };
    for (grant, id) in [("acme=viewer", &ids[0]), ("other=viewer", &ids[1])] {
        let shown = show(&[grant], "one").expect("a unique match");
        assert_eq!(&shown["session_summary"]["id"], id, "{grant}");
    }
    let outsider = show(&["elsewhere=owner"], "one").expect_err("not theirs");
    assert_eq!(outsider.code(), Code::SessionNotFound);
    // A caller that may read both sessions gets an error that the name is ambiguous.
    let both = show(&["acme=viewer", "other=viewer"], "one").expect_err("two");
    assert_eq!(both.code(), Code::AmbiguousSession);
}

/// A caller can import a session only with the permission to use the actor of the session.
#[test]
fn an_imported_session_cannot_use_an_actor_without_permission() {
    let served = test_operations();
    let owner = caller(&["acme=owner"]);
    let import = |actor: &str| {
        let text = json!({"actor_name": actor}).to_string();
        let failed = served.run(&owner, "session/import", &json!({"text": text}));
        failed.expect_err("an incomplete export").code()
    };
    assert_eq!(import("other/secret"), Code::Forbidden);
    assert_eq!(import("local/mine"), Code::Forbidden);
    assert_eq!(import("scripted/answers.yaml"), Code::LocalOnly);
    assert_eq!(import("acme/helper"), Code::ImportMalformed);
    assert_eq!(import("openai/gpt-5"), Code::ImportMalformed);
}

/// A run keeps the permissions that it was started with. Remote callers cannot resume a run that was started with local
/// permissions.
#[test]
fn a_run_with_local_rights_cannot_be_resumed_remotely() {
    let served = test_operations();
    let owner = caller(&["acme=owner"]);
    let resume = |options: Value| {
        let new = NewRun {
            id: RunId::generate(),
            namespace: "acme".to_owned(),
            actor: "acme/thing".to_owned(),
            actor_hash: "0".repeat(64),
            definitions: json!({}),
            input: json!({}),
            options,
        };
        let id = new.id;
        plans::write(&served.engine, move |unit| runs::insert(unit, &new));
        let failed = served.run(&owner, "run/resume", &json!({"run": id.to_string()}));
        failed.expect_err("it has no actor").code()
    };
    for options in [
        json!({"ground": {"sandbox": "mine"}}),
        json!({"ground": {"rule": ["allow builtin/shell"]}}),
        json!({"ground": {"allow_unsafe_tools": true}}),
        json!({"context": "weekly"}),
    ] {
        assert_eq!(resume(options.clone()), Code::LocalOnly, "{options}");
    }
    for options in [
        json!({"ground": {"project": "other/shop"}}),
        json!({"skills": ["other/skill"]}),
        json!({"servers": ["local/server"]}),
    ] {
        assert_eq!(resume(options.clone()), Code::Forbidden, "{options}");
    }
    let plain = resume(json!({"ground": {"project": "acme/shop", "rule": [], "sandbox": null}}));
    assert!(
        ![Code::LocalOnly, Code::Forbidden].contains(&plain),
        "{plain:?}"
    );
}

#[test]
fn a_caller_sees_and_changes_its_own_namespaces_only() {
    let served = test_operations();
    let (local_caller, editor) = (Caller::local("ada"), caller(&["acme=admin"]));
    let other = caller(&["other=owner"]);
    let made = served
        .run(&editor, "session/create", &json!({"name": "mine"}))
        .expect("made");
    assert_eq!(made["session"]["namespace"], "acme");
    let secret = served
        .run(&local_caller, "session/create", &json!({"name": "secret"}))
        .expect("made");
    assert_eq!(secret["session"]["namespace"], "local");

    let listed = |caller: &Caller| {
        let listed = served
            .run(caller, "session/list", &json!({}))
            .expect("listed");
        listed["sessions"].as_array().expect("a list").len()
    };
    assert_eq!(
        [listed(&editor), listed(&other), listed(&local_caller)],
        [1, 0, 2]
    );

    // Objects that a caller may not read are reported as missing, by id and by name.
    let id = secret["session"]["id"].as_str().expect("an id");
    for reference in [id, "secret", "mine"] {
        let error = served
            .run(&other, "session/show", &json!({"reference": reference}))
            .expect_err("not theirs");
        assert_eq!(error.code(), Code::SessionNotFound, "{reference}");
        assert!(!format!("{error} {}", error.details()).contains("acme"));
    }
    let shown = served.run(&editor, "session/show", &json!({"reference": "mine"}));
    shown.expect("theirs");

    // A change of an object that a caller may only read is refused, and the refusal is recorded.
    let viewer = caller(&["acme=viewer"]);
    let error = served
        .run(
            &viewer,
            "session/delete",
            &json!({"reference": "mine", "yes": true}),
        )
        .expect_err("a viewer");
    assert_eq!(error.code(), Code::Forbidden);
    let filter = audit::AuditFilter {
        limit: 10,
        kind: Some("access_denied".to_owned()),
        ..Default::default()
    };
    let denials = served
        .engine
        .read(|reader| audit::list(reader, &filter))
        .expect("read");
    assert_eq!(denials.len(), 1);
    assert_eq!(denials[0].subject.as_deref(), Some("session/delete"));
    assert_eq!(listed(&editor), 1, "nothing was deleted");
}

#[test]
fn names_without_a_namespace_get_the_namespace_of_the_caller() {
    let served = test_operations();
    let (admin, many) = (
        caller(&["acme=admin"]),
        caller(&["acme=admin", "other=admin"]),
    );
    let made = served
        .run(&admin, "registry/project/create", &json!({"name": "shop"}))
        .expect("made");
    assert_eq!(made["project"]["name"], "acme/shop");
    for name in ["local/shop", "LOCAL/shop", "other/shop"] {
        let error = served
            .run(&admin, "registry/project/create", &json!({"name": name}))
            .expect_err(name);
        assert_eq!(error.code(), Code::Forbidden, "{name}");
    }
    let error = served.run(&many, "registry/project/create", &json!({"name": "shop"}));
    assert_eq!(error.expect_err("ambiguous").code(), Code::Usage);
    let everything = served.run(&Caller::local("ada"), "registry/project/list", &json!({}));
    assert_eq!(
        everything.expect("listed")["projects"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );
}

#[test]
fn remote_definitions_stay_in_their_namespace_and_cannot_name_local_objects() {
    let served = test_operations();
    let admin = caller(&["acme=admin"]);
    let add = |text: &str| served.run(&admin, "registry/actor/add", &json!({"text": text}));
    let actor = "type: llm\nprovider: openai\nmodel: gpt-5\ndescription: d\n";
    let code = |text: String| add(&text).expect_err("refused").code();
    assert_eq!(code(format!("name: local/x\n{actor}")), Code::LocalOnly);
    assert_eq!(code(format!("name: other/x\n{actor}")), Code::Forbidden);
    assert_eq!(
        code(format!("name: x\nsystem_prompt: ${{HOME}}\n{actor}")),
        Code::MalformedRequest
    );
    assert_eq!(
        code(format!("name: x\ntools: [local/secret]\n{actor}")),
        Code::LocalOnly
    );
    assert_eq!(code("[".to_owned()), Code::MalformedRequest);
    let file = actor.replace("openai", "Scripted");
    assert_eq!(code(format!("name: x\n{file}")), Code::LocalOnly);
    let owner = caller(&["*=owner"]);
    for actor in ["Scripted/etc/x", "replay/x"] {
        let given = json!({"namespace": "acme", "actor": actor});
        let error = served.run(&owner, "session/create", &given);
        assert_eq!(error.expect_err(actor).code(), Code::LocalOnly, "{actor}");
    }
}

#[test]
fn parameters_are_parsed_strictly_and_never_as_command_line_options() {
    let served = test_operations();
    let local_caller = Caller::local("ada");
    let refused = |parameters: Value| {
        let error = served.run(&local_caller, "session/create", &parameters);
        error.expect_err("refused").code()
    };
    assert_eq!(refused(json!([])), Code::MalformedRequest);
    assert_eq!(refused(json!({"name": {"a": 1}})), Code::MalformedRequest);
    assert_eq!(refused(json!({"format": "json"})), Code::MalformedRequest);
    assert_eq!(
        refused(json!({"database_url": "sqlite::memory:"})),
        Code::MalformedRequest
    );
    served
        .run(&local_caller, "session/create", &json!({"name": "--help"}))
        .expect("only a name");
    let text = json!({"reference": "--help", "text": "--role=system"});
    served
        .run(&local_caller, "session/append", &text)
        .expect("only a text");
}

/// A document that a command prints is a field of the response of its operation.
#[test]
fn documents_are_answered_with_their_content() {
    let served = test_operations();
    let local_caller = Caller::local("ada");
    let made = served.run(&local_caller, "session/create", &json!({"name": "weekly"}));
    made.expect("made");
    let text = json!({"reference": "weekly", "text": "hello from the test"});
    served
        .run(&local_caller, "session/append", &text)
        .expect("added");
    for document in ["json", "markdown"] {
        let given = json!({"reference": "weekly", "document": document});
        let done = served
            .run(&local_caller, "session/export", &given)
            .expect("exported");
        let text = done["document"].as_str().expect("a text");
        assert!(text.contains("hello from the test"), "{document}: {text}");
    }
    let plan = plans::store(&served.engine, &plans::new_plan("p"));
    plans::store_example_strategy(&served.engine, plan);
    let given = json!({"reference": plan.to_string(), "document": "markdown"});
    let done = served
        .run(&local_caller, "plan/show", &given)
        .expect("shown");
    let text = done["document"].as_str().expect("a text");
    assert!(text.contains('#'), "{text}");
}

/// SQLite refuses patterns above its limit. The caller gets a usage error, not an internal error.
#[test]
fn a_filter_that_is_too_long_is_the_callers_mistake() {
    let served = test_operations();
    let local_caller = Caller::local("ada");
    let long = "x".repeat(50_000);
    for (name, parameters) in [
        ("session/list", json!({"name": long})),
        ("session/search", json!({"query": [long]})),
        ("tool/calls", json!({"tool": long})),
        ("plan/list", json!({"pattern": long})),
        ("run/list", json!({"actor": long})),
    ] {
        // Operations that compare the full name return an empty list instead of an error.
        if let Err(error) = served.run(&local_caller, name, &parameters) {
            assert_eq!(error.code().kind(), Kind::Usage, "{name}: {error}");
        }
    }
    let error = served.run(&local_caller, "tool/calls", &json!({"tool": long}));
    assert_eq!(error.expect_err("too long").code(), Code::FilterTooLong);
}
