//! The table of operations: everything in it can be called, and nothing is called past its checks.

use std::collections::BTreeSet;
use std::sync::Arc;

use cleveragents_application::{Application, find_operation};
use cleveragents_domain::identity::{Caller, Namespaces, Scope};
use cleveragents_domain::{Code, Diagnose as _, Kind, RunId, SessionId};
use cleveragents_process::Cancel;
use cleveragents_server::{
    Call, Done, Failure, Listener, Operation, Program as _, Tell, Told, Touches,
};
use cleveragents_store::runs::NewRun;
use cleveragents_store::{Engine, EngineCache, audit, runs};
use cleveragents_testkit::plans;
use serde_json::{Value, json};

use super::operations;
use super::program::Commands;
use super::table::ROWS;
use crate::config::{Configuration, Environment, Flags, Home};
use crate::context::Context;
use crate::output::{Format, Printer, Surface};

pub(super) struct Served {
    pub(super) commands: Commands,
    application: Application,
    /// Kept open for as long as the test.
    pub(super) engine: Arc<Engine>,
    pub(super) folder: tempfile::TempDir,
}

pub(super) fn served() -> Served {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("a path").to_owned();
    let environment = Environment::from_pairs(&path, &[("CLEVERAGENTS_HOME", &path)]);
    let home = Home::find(&environment).expect("a home");
    let configuration = Configuration::load(&environment, &home, Flags::none()).expect("loads");
    let settings = configuration.settings().expect("settings");
    let surface = Surface::from_environment(&environment, false, false, None);
    let printer = Printer::new(Format::Json, &surface);
    let context = Context {
        engines: Arc::new(EngineCache::new(Context::store_options(&settings, printer))),
        environment,
        home,
        configuration,
        settings,
        printer,
        served: None,
        live: crate::output::Live::default(),
        connection: None,
    };
    let engine = context.engine().expect("a database");
    Served {
        commands: Commands::new(&context),
        application: Application::new(Arc::clone(&engine), context.operation_settings()),
        engine,
        folder,
    }
}

impl Served {
    pub(super) fn operation(&self, name: &str) -> &Operation {
        let mut all = self.commands.operations().iter();
        all.find(|operation| operation.name == name).expect(name)
    }

    pub(super) fn run(
        &self,
        caller: &Caller,
        name: &str,
        parameters: &Value,
    ) -> Result<Done, Failure> {
        if let Ok(entry) = find_operation(name) {
            let context = self.application.for_caller(caller.clone());
            let call = entry.prepare(context, parameters.clone());
            let data = call.and_then(|call| call(&Cancel::new()));
            return Ok(Done {
                data: data.map_err(|error| Failure::of(&error))?,
                report: Value::Null,
                exit_code: 0,
            });
        }
        let operation = self.operation(name);
        self.commands.run(&Call {
            caller,
            operation,
            parameters,
            visible: caller.reach(
                operation.scope,
                cleveragents_domain::identity::Permission::Read,
            ),
            cancel: &Cancel::new(),
        })
    }
}

pub(super) fn caller(grants: &[&str]) -> Caller {
    let grants = grants.iter().map(|grant| grant.parse().expect("a grant"));
    Caller::with_token("ci", grants.collect(), Scope::ALL.iter().copied().collect())
}

/// Parameters that an operation must have, of the right form.
pub(super) fn least(operation: &str, schema: &Value) -> Value {
    let required = schema["required"].as_array().into_iter().flatten();
    let value = |name: &str| {
        let property = &schema["properties"][name];
        let one = |property: &Value| match property["type"].as_str() {
            Some("integer") => json!(1),
            _ => property["enum"]
                .get(0)
                .cloned()
                .unwrap_or_else(|| json!("acme/thing")),
        };
        match name {
            "text" if operation.starts_with("registry/") => {
                json!("name: acme/thing\n")
            }
            _ if property["type"] == "array" => json!([one(&property["items"])]),
            _ => one(property),
        }
    };
    let pairs = required.map(|name| {
        let name = name.as_str().expect("a name");
        (name.to_owned(), value(name))
    });
    let mut all = Value::Object(pairs.collect());
    // What the parser cannot say of one parameter alone.
    match operation {
        "session/tell" => all["prompt"] = json!("Hello"),
        "plan/use" => all["projects"] = json!(["acme/thing"]),
        "registry/invariant/add" => all["project"] = json!(["acme/thing"]),
        _ => {}
    }
    all
}

#[test]
fn defect_4849_3117_9090_every_operation_that_is_advertised_can_be_dispatched() {
    let served = served();
    assert_eq!(
        served.commands.operations().len(),
        ROWS.len(),
        "each row names a command"
    );
    let person = Caller::local("ada");
    let mut names = BTreeSet::new();
    for entry in cleveragents_application::operations() {
        assert!(names.insert(entry.name.to_owned()), "{} twice", entry.name);
        assert!(!entry.summary.is_empty(), "{}", entry.name);
        let parameters = least(entry.name, &(entry.request)().to_value());
        if let Err(error) = served.run(&person, entry.name, &parameters) {
            let refused = [Code::Internal, Code::MalformedRequest];
            assert!(!refused.contains(&error.code()), "{}: {error}", entry.name);
        }
    }
    for operation in served.commands.operations() {
        assert!(
            names.insert(operation.name.clone()),
            "{} twice",
            operation.name
        );
        assert!(!operation.summary.is_empty(), "{}", operation.name);
        let parameters = least(&operation.name, &operation.parameters);
        let outcome = served.run(&person, &operation.name, &parameters);
        if let Err(error) = outcome {
            let refused = [
                Code::UnknownOperation,
                Code::Internal,
                Code::Usage,
                Code::MalformedRequest,
            ];
            assert!(
                !refused.contains(&error.code()),
                "{}: {error}",
                operation.name
            );
        }
        if let Err(error) = served.commands.touches(operation, &parameters) {
            let kind = error.code().kind();
            assert_eq!(kind, Kind::NotFound, "{}: {error}", operation.name);
        }
    }
}

/// Each part of the table names a parameter that the operation has.
#[test]
fn what_the_table_names_is_there() {
    for offered in operations::all() {
        let properties = offered.operation.parameters["properties"]
            .as_object()
            .expect("an object");
        for part in offered.row.parts {
            let is_text = part.is_file() && properties.contains_key("text");
            assert!(
                is_text || properties.contains_key(part.parameter()),
                "{}: {part:?}",
                offered.row.name
            );
        }
        for hidden in [
            "format",
            "database_url",
            "config",
            "output",
            "force",
            "record",
            "safety",
            "stream",
            "help",
        ] {
            assert!(
                !properties.contains_key(hidden),
                "{}: {hidden}",
                offered.row.name
            );
        }
    }
}

/// Sessions of others that are called the same are no reason not to know which one is meant, and are not told of.
#[test]
fn a_name_means_a_session_that_the_caller_sees() {
    let served = served();
    let person = Caller::local("ada");
    let ids = ["acme", "other"].map(|namespace| {
        let parameters = json!({"namespace": namespace, "name": "one"});
        let made = served.run(&person, "session/create", &parameters);
        made.expect("made").data["session"]["id"].clone()
    });
    let show = |grants: &[&str], name: &str| {
        served.run(&caller(grants), "session/show", &json!({"reference": name}))
    };
    for (grant, id) in [("acme=viewer", &ids[0]), ("other=viewer", &ids[1])] {
        let shown = show(&[grant], "one").expect("it is known which");
        assert_eq!(&shown.data["session_summary"]["id"], id, "{grant}");
    }
    let nobody = show(&["elsewhere=owner"], "one").expect_err("not theirs");
    assert_eq!(nobody.code(), Code::SessionNotFound);
    // Who sees both is told that there are two.
    let both = show(&["acme=viewer", "other=viewer"], "one").expect_err("two");
    assert_eq!(both.code(), Code::AmbiguousSession);
}

/// A session goes on with its actor: whoever imports one needs what naming the actor would need.
#[test]
fn an_imported_session_brings_no_actor_of_others() {
    let served = served();
    let owner = caller(&["acme=owner"]);
    let import = |actor: &str| {
        let text = json!({"actor_name": actor}).to_string();
        let failed = served.run(&owner, "session/import", &json!({"text": text}));
        failed.expect_err("it is no whole export").code()
    };
    assert_eq!(import("other/secret"), Code::Forbidden);
    assert_eq!(import("local/mine"), Code::Forbidden);
    assert_eq!(import("scripted/answers.yaml"), Code::LocalOnly);
    assert_eq!(import("acme/helper"), Code::ImportMalformed);
    assert_eq!(import("openai/gpt-5"), Code::ImportMalformed);
}

/// A run keeps the rights that it was given when it began; nobody takes them over from elsewhere.
#[test]
fn a_run_with_rights_of_the_machine_is_not_gone_on_with_from_elsewhere() {
    let served = served();
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
    let served = served();
    let (person, editor) = (Caller::local("ada"), caller(&["acme=admin"]));
    let other = caller(&["other=owner"]);
    let made = served
        .run(&editor, "session/create", &json!({"name": "mine"}))
        .expect("made");
    assert_eq!(made.data["session"]["namespace"], "acme");
    let secret = served
        .run(&person, "session/create", &json!({"name": "secret"}))
        .expect("made");
    assert_eq!(secret.data["session"]["namespace"], "local");

    let listed = |caller: &Caller| {
        let listed = served
            .run(caller, "session/list", &json!({}))
            .expect("listed");
        listed.data["sessions"].as_array().expect("a list").len()
    };
    assert_eq!(
        [listed(&editor), listed(&other), listed(&person)],
        [1, 0, 2]
    );

    // What cannot be seen does not exist, by its id or by its name.
    let id = secret.data["session"]["id"].as_str().expect("an id");
    for reference in [id, "secret", "mine"] {
        let error = served
            .run(&other, "session/show", &json!({"reference": reference}))
            .expect_err("not theirs");
        assert_eq!(error.code(), Code::SessionNotFound, "{reference}");
        assert!(!format!("{error} {}", error.details()).contains("acme"));
    }
    let shown = served.run(&editor, "session/show", &json!({"reference": "mine"}));
    assert_eq!(shown.expect("theirs").exit_code, 0);

    // What can be seen and not done is refused, and written down.
    let viewer = caller(&["acme=viewer"]);
    let error = served
        .run(
            &viewer,
            "session/delete",
            &json!({"reference": "mine", "yes": true}),
        )
        .expect_err("only looks");
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
fn names_without_a_namespace_are_the_callers_own_and_never_local() {
    let served = served();
    let (admin, many) = (
        caller(&["acme=admin"]),
        caller(&["acme=admin", "other=admin"]),
    );
    let made = served
        .run(&admin, "registry/project/create", &json!({"name": "shop"}))
        .expect("made");
    assert_eq!(made.data["project"]["name"], "acme/shop");
    for name in ["local/shop", "LOCAL/shop", "other/shop"] {
        let error = served
            .run(&admin, "registry/project/create", &json!({"name": name}))
            .expect_err(name);
        assert_eq!(error.code(), Code::Forbidden, "{name}");
    }
    let error = served.run(&many, "registry/project/create", &json!({"name": "shop"}));
    assert_eq!(error.expect_err("which one?").code(), Code::Usage);
    let everything = served.run(&Caller::local("ada"), "registry/project/list", &json!({}));
    assert_eq!(
        everything.expect("listed").data["projects"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );
}

#[test]
fn definitions_from_elsewhere_stay_in_their_namespace_and_name_nothing_of_the_server() {
    let served = served();
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
fn parameters_are_read_strictly_and_never_as_options() {
    let served = served();
    let person = Caller::local("ada");
    let refused = |parameters: Value| {
        let error = served.run(&person, "session/create", &parameters);
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
        .run(&person, "session/create", &json!({"name": "--help"}))
        .expect("only a name");
    let text = json!({"reference": "--help", "text": "--role=system"});
    served
        .run(&person, "session/append", &text)
        .expect("only a text");
}

#[test]
fn what_a_call_touches_is_known_before_it_runs() {
    let served = served();
    let touches = |name: &str, parameters: Value| {
        served.commands.touches(served.operation(name), &parameters)
    };
    let of = |name: &str| Touches::Namespaces(vec![name.to_owned()]);
    let projects = touches("registry/project/show", json!({"reference": "acme/shop"}));
    assert_eq!(projects.expect("known"), of("acme"));
    assert_eq!(
        touches("registry/action/list", json!({})).expect("known"),
        Touches::Visible
    );
    assert_eq!(
        touches("db/status", json!({})).expect("known"),
        Touches::Everywhere
    );
    let absent = touches(
        "plan/apply",
        json!({"reference": "01J00000000000000000000000"}),
    );
    assert_eq!(absent.expect_err("no such plan").code(), Code::PlanNotFound);
    assert_eq!(
        Namespaces::All,
        Caller::local("x").reach(Scope::Plans, cleveragents_domain::identity::Permission::Own)
    );
}

#[test]
fn callers_from_elsewhere_choose_no_actor_of_this_machine_or_of_others() {
    struct Silent;
    impl cleveragents_server::Listener for Silent {}
    let served = served();
    let admin = caller(&["acme=admin"]);
    let other = caller(&["other=admin"]);
    let text = "name: other/x\ntype: llm\nprovider: openai\nmodel: gpt-5\ndescription: d\n";
    served
        .run(&other, "registry/actor/add", &json!({"text": text}))
        .expect("added");
    let tell = |caller: &Caller, actor: &str, is_actor_given: bool| {
        let made = served
            .run(&admin, "session/create", &json!({}))
            .expect("a session");
        let session = made.data["session"]["id"].as_str().expect("an id");
        let told = served.commands.tell(&cleveragents_server::Tell {
            caller,
            session: session.parse().expect("an id"),
            prompt: Some("hello".to_owned()),
            actor: Some(actor.to_owned()),
            is_actor_given,
            listener: &Silent,
            cancel: &Cancel::new(),
        });
        told.expect_err("no model is there").code()
    };
    for actor in [
        "scripted/s.yaml",
        "Scripted/s.yaml",
        "replay/r",
        "local/x",
        "x",
    ] {
        assert_eq!(tell(&admin, actor, false), Code::LocalOnly, "{actor}");
    }
    assert_eq!(tell(&admin, "other/x", false), Code::ActorNotFound);
    assert_ne!(
        tell(&Caller::local("ada"), "scripted/s.yaml", false),
        Code::LocalOnly
    );
    // Who runs the server may choose it for them.
    assert_ne!(tell(&admin, "scripted/s.yaml", true), Code::LocalOnly);
}

/// Hears nothing but how often a tool was called.
#[derive(Default)]
struct Heard(std::sync::Mutex<Vec<String>>);

impl Listener for Heard {
    fn text(&self, piece: &str) {
        self.0.lock().expect("no panic").push(piece.to_owned());
    }

    fn tool(&self, name: &str) {
        self.0.lock().expect("no panic").push(format!("[{name}]"));
    }
}

impl Served {
    fn tell(&self, caller: &Caller, session: SessionId, prompt: Option<&str>) -> (Told, String) {
        let heard = Heard::default();
        let told = self.commands.tell(&Tell {
            caller,
            session,
            prompt: prompt.map(str::to_owned),
            actor: Some("scripted/script.yaml".to_owned()),
            is_actor_given: true,
            listener: &heard,
            cancel: &Cancel::new(),
        });
        let heard = heard.0.into_inner().expect("no panic").concat();
        (told.expect("told"), heard)
    }

    fn session(&self, caller: &Caller) -> SessionId {
        let made = self
            .run(caller, "session/create", &json!({}))
            .expect("made");
        let id = made.data["session"]["id"].as_str().expect("an id");
        id.parse().expect("an id")
    }
}

#[test]
fn a_turn_that_asks_waits_for_the_next_message() {
    let served = served();
    let script = "answers:\n\
        - when: '^Paint the house$'\n  calls:\n  \
        - {name: builtin/ask-user, arguments: {question: 'Which colour?', options: [red, blue]}}\n\
        - when: 'green'\n  text: It is green now.\n\
        - when: '^Thanks$'\n  text: You are welcome.\n";
    std::fs::write(served.folder.path().join("script.yaml"), script).expect("written");
    let editor = caller(&["acme=editor"]);
    let session = served.session(&editor);

    let (told, heard) = served.tell(&editor, session, Some("Paint the house"));
    let Told::Waiting { question } = told else {
        panic!("{told:?}");
    };
    assert!(
        question.contains("Which colour?") && question.contains("- blue"),
        "{question}"
    );
    assert_eq!(heard, "[builtin/ask-user]");
    // Asked again without an answer it still waits.
    assert!(matches!(
        served.tell(&editor, session, None).0,
        Told::Waiting { .. }
    ));
    // The next message is the answer, and not a question of its own.
    let (told, _) = served.tell(&editor, session, Some("green"));
    assert_eq!(
        told,
        Told::Answered {
            text: "It is green now.".to_owned()
        }
    );
    let (told, heard) = served.tell(&editor, session, Some("Thanks"));
    assert_eq!(
        told,
        Told::Answered {
            text: "You are welcome.".to_owned()
        }
    );
    assert_eq!(heard, "You are welcome.");

    let listed = served.run(
        &editor,
        "session/messages",
        &json!({"reference": session.to_string()}),
    );
    let listed = listed.expect("listed").data;
    let said: Vec<&str> = listed["messages"]
        .as_array()
        .expect("a list")
        .iter()
        .filter(|message| message["role"] == "user")
        .filter_map(|message| message["content"].as_str())
        .collect();
    assert_eq!(said, ["Paint the house", "Thanks"]);
}

/// A document that the command line prints comes as data.
#[test]
fn issue_16_12_documents_are_answered_with_their_content() {
    let served = served();
    let person = Caller::local("ada");
    let made = served.run(&person, "session/create", &json!({"name": "weekly"}));
    made.expect("made");
    let text = json!({"reference": "weekly", "text": "hello from the test"});
    served.run(&person, "session/append", &text).expect("added");
    for document in ["json", "markdown"] {
        let given = json!({"reference": "weekly", "document": document});
        let done = served
            .run(&person, "session/export", &given)
            .expect("exported");
        let text = done.data["document"].as_str().expect("a text");
        assert!(text.contains("hello from the test"), "{document}: {text}");
    }
    let plan = plans::store(&served.engine, &plans::new_plan("p"));
    plans::strategized(&served.engine, plan);
    let given = json!({"reference": plan.to_string(), "document": "markdown"});
    let done = served.run(&person, "plan/show", &given).expect("shown");
    let text = done.data["document"].as_str().expect("a text");
    assert!(text.contains('#'), "{text}");
}

/// Longer patterns are refused by SQLite with an error of its own, which is no fault of the server.
#[test]
fn issue_16_12_a_filter_that_is_too_long_is_the_callers_mistake() {
    let served = served();
    let person = Caller::local("ada");
    let long = "x".repeat(50_000);
    for (name, parameters) in [
        ("session/list", json!({"name": long})),
        ("session/search", json!({"query": [long]})),
        ("tool/calls", json!({"tool": long})),
        ("plan/list", json!({"pattern": long})),
        ("run/list", json!({"actor": long})),
    ] {
        match served.run(&person, name, &parameters) {
            Err(error) => assert_eq!(error.code().kind(), Kind::Usage, "{name}: {error}"),
            // An exact name that nothing has.
            Ok(done) => assert_eq!(done.exit_code, 0, "{name}"),
        }
    }
    let error = served.run(&person, "tool/calls", &json!({"tool": long}));
    assert_eq!(error.expect_err("too long").code(), Code::FilterTooLong);
}
