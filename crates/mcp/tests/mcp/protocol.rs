//! Tools of a well-behaved server.

use crate::support::{GateFixture, ServerFixture, TestFolder};
use crate::tests;
use cleveragents_tools::{Access, CallOutcome, PlanMode, Source};
use serde_json::{Value, json};

tests![
    a_tool_is_called_through_the_gate,
    both_versions_of_the_protocol_are_supported,
    overrides_take_precedence_over_declarations,
    only_selected_tools_are_offered,
    answers_of_all_kinds_are_converted,
    structured_answers_are_checked,
    arguments_are_checked_before_the_server_sees_them,
    writing_needs_approval,
    paths_stay_in_the_sandbox,
    roots_are_the_sandbox,
    a_form_is_asked_field_by_field,
    without_a_user_questions_are_declined,
    a_url_is_shown_and_never_opened,
    log_messages_reach_the_log,
    variables_are_replaced_when_connecting,
    resources_and_prompts_are_read,
    many_tools_are_found_by_search,
];

fn a_tool_is_called_through_the_gate() {
    let fixture = ServerFixture::with("normal");
    let gate = fixture.gate();
    assert_eq!(gate.ok("normal/echo", &json!({"text": "hallo"})), "hallo");
    assert_eq!(gate.fails("normal/fail", &json!({})), "no such luck");
    assert_eq!(fixture.pids().len(), 1);
}

fn both_versions_of_the_protocol_are_supported() {
    for (scenario, version) in [("normal", "2025-11-25"), ("modern", "2026-07-28")] {
        let fixture = ServerFixture::with(scenario);
        let listing = fixture.servers.connect(scenario).expect("connected");
        assert_eq!(listing.protocol, version);
        let output = fixture
            .gate()
            .ok(&format!("{scenario}/echo"), &json!({"text": "x"}));
        assert_eq!(output, "x");
    }
}

fn overrides_take_precedence_over_declarations() {
    let fixture = ServerFixture::new();
    let mut definition = fixture.definition("normal");
    let overrides = json!({
        "echo": {"writes": true, "timeout_seconds": 7.0},
        "write": {"checkpointable": true},
        "er*": {"needs_approval": false},
    });
    definition.overrides = serde_json::from_value(overrides).expect("overrides");
    fixture.servers.add(definition, None).expect("added");
    let offer = fixture.servers.offer();
    let spec = |name: &str| {
        let tool = offer
            .tools
            .iter()
            .find(|tool| tool.spec().name.short() == name);
        tool.expect(name).spec()
    };
    let fail = spec("fail");
    assert_eq!(fail.source, Source::Mcp);
    assert!(
        fail.description.contains("MCP server `normal`"),
        "{}",
        fail.description
    );
    assert_eq!(fail.capability.access, Access::Reads);
    assert!(!fail.capability.needs_approval && fail.capability.idempotent);
    let echo = spec("echo");
    assert_eq!(echo.capability.access, Access::Writes);
    assert!(echo.capability.needs_approval);
    assert_eq!(echo.timeout.as_secs(), 7);
    let write = spec("write");
    assert!(write.capability.checkpointable && !write.capability.needs_approval);
    let erase = spec("erase");
    assert_eq!(erase.capability.access, Access::Writes);
    assert!(erase.capability.idempotent && !erase.capability.needs_approval);
}

fn only_selected_tools_are_offered() {
    let fixture = ServerFixture::new();
    let mut definition = fixture.definition("normal");
    definition.tool_filter.include = vec!["e*".to_owned(), "add".to_owned()];
    definition.tool_filter.exclude = vec!["erase".to_owned()];
    fixture.servers.add(definition, None).expect("added");
    let offer = fixture.servers.offer();
    let names: Vec<String> = offer
        .tools
        .iter()
        .filter(|tool| tool.spec().source == Source::Mcp && tool.spec().name.namespace() != "mcp")
        .map(|tool| tool.spec().name.to_string())
        .collect();
    assert_eq!(names, ["normal/add", "normal/echo", "normal/env"]);
}

fn answers_of_all_kinds_are_converted() {
    let fixture = ServerFixture::with("normal");
    let gate = fixture.gate();
    let CallOutcome::Succeeded(success) = gate.call("normal/picture", &json!({})) else {
        panic!("a picture was expected");
    };
    let picture = success.picture.expect("a picture");
    assert_eq!(picture.media_type, "image/png");
    assert!(picture.data.starts_with(b"\x89PNG"));
    let mixed = gate.ok("normal/mixed", &json!({}));
    for part in [
        "first",
        "[image, image/png",
        "[audio, audio/wav",
        "demo://one",
        "inside",
    ] {
        assert!(mixed.contains(part), "{mixed}");
    }
}

fn structured_answers_are_checked() {
    let fixture = ServerFixture::with("normal");
    let gate = fixture.gate();
    assert_eq!(gate.ok("normal/add", &json!({"a": 3})), r#"{"sum":4}"#);
    let failure = gate.fails("normal/lie", &json!({}));
    assert!(
        failure.contains("does not match its output schema"),
        "{failure}"
    );
}

fn arguments_are_checked_before_the_server_sees_them() {
    let fixture = ServerFixture::with("normal");
    let gate = fixture.gate();
    let (_, why) = gate.refused("normal/echo", &json!({"text": 7}));
    assert!(why.contains("`text` must be a string"), "{why}");
}

fn writing_needs_approval() {
    let fixture = ServerFixture::with("normal");
    let gate = fixture.gate();
    let file = fixture.path("written");
    let arguments = json!({"path": file, "text": "x"});
    gate.refused("normal/write", &arguments);
    assert!(!file.exists());
    let mut gate = fixture.gate().answering(&[]);
    gate.ok("normal/write", &arguments);
    assert!(file.exists());
    gate.mode = PlanMode::ReadOnly;
    let (_, why) = gate.refused("normal/write", &arguments);
    assert!(why.contains("read-only"), "{why}");
}

fn paths_stay_in_the_sandbox() {
    let fixture = ServerFixture::with("normal");
    let sandbox = fixture.path("inside");
    std::fs::create_dir(&sandbox).expect("made");
    std::fs::create_dir(fixture.path("inside-2")).expect("made");
    std::os::unix::fs::symlink("/etc", sandbox.join("link")).expect("linked");
    let folder = TestFolder::new(&sandbox);
    let gate = GateFixture::new(&fixture.servers.offer(), Some(folder)).answering(&[]);
    // The server receives the real path; the model receives the sandbox path.
    assert_eq!(
        gate.ok("normal/show", &json!({"path": "a/b.txt"})),
        "got a/b.txt"
    );
    gate.ok("normal/write", &json!({"path": "new.txt", "text": "x"}));
    assert!(sandbox.join("new.txt").exists());
    let captures = gate.folder.as_ref().expect("a sandbox").captures.lock();
    assert_eq!(*captures.expect("not poisoned"), 1);
    let address = format!("file://{}/new.txt", sandbox.display());
    let output = gate.ok("normal/deep", &json!({"uri": address}));
    assert_eq!(output, r#"{"uri": "new.txt"}"#);
    let neighbour = fixture.path("inside-2").display().to_string();
    for outside in [
        "../x",
        "/etc/passwd",
        "link/passwd",
        "~/x",
        neighbour.as_str(),
    ] {
        let (kind, _) = gate.refused("normal/show", &json!({"path": outside}));
        assert_eq!(kind, "outside_sandbox", "{outside}");
    }
    // Paths are found at any position in the arguments.
    for arguments in [
        json!({"items": [{"filePath": "/etc/passwd"}]}),
        json!({"uri": "file:///etc/passwd"}),
        json!({"query": "/etc/passwd"}),
        json!({"source": "../../etc/passwd"}),
        json!({"target_file": "../x"}),
        json!({"configPath": "/no/such/file"}),
    ] {
        let (kind, _) = gate.refused("normal/deep", &arguments);
        assert_eq!(kind, "outside_sandbox", "{arguments}");
    }
    // Text that is not a path stays unchanged.
    let harmless = json!({"query": "/no such thing/", "source": "en"});
    let output: Value = serde_json::from_str(&gate.ok("normal/deep", &harmless)).expect("JSON");
    assert_eq!(output, harmless);
}

fn roots_are_the_sandbox() {
    let fixture = ServerFixture::with("normal");
    let folder = fixture.folder.path().canonicalize().expect("a folder");
    let gate = GateFixture::new(&fixture.servers.offer(), Some(TestFolder::new(&folder)));
    let output = gate.ok("normal/roots", &json!({}));
    assert!(
        output.contains(r#""uri": "."#) || output.contains("file://"),
        "{output}"
    );
    let none = fixture.gate().ok("normal/roots", &json!({}));
    assert_eq!(none, r#"{"roots": []}"#);
}

fn a_form_is_asked_field_by_field() {
    let fixture = ServerFixture::with("normal");
    // After an invalid answer, the question is repeated. An empty answer skips an optional field.
    let gate = fixture.gate().answering(&["Ada", "-1", "36", "high", ""]);
    let output = gate.ok("normal/form", &json!({}));
    let output: Value = serde_json::from_str(&output).expect("JSON");
    let content = json!({"name": "Ada", "age": 36, "level": "high"});
    assert_eq!(output, json!({"action": "accept", "content": content}));
    let asked = gate.person.asked.lock().expect("not poisoned").clone();
    assert_eq!(asked.len(), 5, "{asked:?}");
    assert!(
        asked[0].contains("`normal`") && asked[0].contains("Who are you?"),
        "{asked:?}"
    );
    let declining = fixture.gate().answering(&[]);
    assert_eq!(
        declining.ok("normal/form", &json!({})),
        r#"{"action": "decline"}"#
    );
}

fn without_a_user_questions_are_declined() {
    let fixture = ServerFixture::with("normal");
    assert_eq!(
        fixture.gate().ok("normal/form", &json!({})),
        r#"{"action": "decline"}"#
    );
}

fn a_url_is_shown_and_never_opened() {
    let fixture = ServerFixture::with("normal");
    let gate = fixture.gate().answering(&["yes"]);
    assert_eq!(
        gate.ok("normal/visit", &json!({})),
        r#"{"action": "accept"}"#
    );
    let asked = gate.person.asked.lock().expect("not poisoned").clone();
    assert!(asked[0].contains("https://pay.example/1"), "{asked:?}");
}

fn log_messages_reach_the_log() {
    let fixture = ServerFixture::with("normal");
    let gate = fixture.gate();
    gate.ok("normal/note", &json!({}));
    let logs = gate.ledger.logs.lock().expect("not poisoned").concat();
    assert!(logs.contains("remember this"), "{logs}");
    assert!(logs.contains("progress 1 of 2: half way"), "{logs}");
}

fn variables_are_replaced_when_connecting() {
    let fixture = ServerFixture::new();
    let folder = fixture.folder.path();
    let mut options = cleveragents_mcp::Options::new(folder);
    options.variables = std::sync::Arc::new(|name| (name == "KEY").then(|| "sk-123456".to_owned()));
    let servers = cleveragents_mcp::Servers::new(options).expect("a runtime");
    let mut definition = fixture.definition("normal");
    let env = &mut definition.env;
    env.insert(
        "TOKEN".to_owned(),
        cleveragents_mcp::HiddenText::new("${KEY}"),
    );
    env.insert(
        "SHORT".to_owned(),
        cleveragents_mcp::HiddenText::new("sk-1"),
    );
    let printed = format!("{definition:?}");
    assert!(!printed.contains("KEY"), "{printed}");
    servers.add(definition.clone(), None).expect("added");
    let gate = GateFixture::new(&servers.offer(), None);
    assert_eq!(gate.ok("normal/env", &json!({"name": "TOKEN"})), "[HIDDEN]");
    assert_eq!(gate.ok("normal/env", &json!({"name": "SHORT"})), "sk-1");
    // The program inherits only a few variables of this process.
    assert_eq!(
        gate.ok("normal/env", &json!({"name": "CARGO_MANIFEST_DIR"})),
        "(none)"
    );
    fixture.servers.add(definition, None).expect("added");
    let error = fixture
        .servers
        .connect("normal")
        .expect_err("a variable is missing");
    assert!(error.to_string().contains("`KEY` is not set"), "{error}");
}

fn resources_and_prompts_are_read() {
    for scenario in ["normal", "modern"] {
        let fixture = ServerFixture::with(scenario);
        let gate = fixture.gate();
        let server = json!({"server": scenario});
        let listed = gate.ok("mcp/list-resources", &server);
        assert!(
            listed.contains("demo://one") && listed.contains("demo://{name}"),
            "{listed}"
        );
        let existing = json!({"server": scenario, "uri": "demo://one"});
        assert!(
            gate.ok("mcp/read-resource", &existing)
                .contains("content of one")
        );
        let missing = json!({"server": scenario, "uri": "demo://none"});
        assert!(
            gate.fails("mcp/read-resource", &missing)
                .contains("no such resource")
        );
        assert!(
            gate.ok("mcp/list-prompts", &server)
                .contains("`greet` (who)")
        );
        let greet = json!({"server": scenario, "name": "greet", "arguments": {"who": "Ada"}});
        assert!(gate.ok("mcp/get-prompt", &greet).contains("Greet Ada."));
        gate.refused("mcp/list-prompts", &json!({"server": "elsewhere"}));
    }
}

fn many_tools_are_found_by_search() {
    let fixture = ServerFixture::new();
    let mut options = cleveragents_mcp::Options::new(fixture.folder.path());
    options.max_offered_tools = 5;
    let servers = cleveragents_mcp::Servers::new(options).expect("a runtime");
    servers
        .add(fixture.definition("normal"), None)
        .expect("added");
    let offer = servers.offer();
    let echo = "normal/echo".parse().expect("a name");
    assert!(offer.is_deferred(&echo));
    assert!(!offer.is_deferred(&"mcp/search-tools".parse().expect("a name")));
    let gate = GateFixture::new(&offer, None);
    let found = gate.ok("mcp/search-tools", &json!({"query": "writes a file"}));
    let found: Vec<Value> = serde_json::from_str(&found).expect("JSON");
    assert_eq!(found[0]["name"], "normal_S_write");
    assert!(found[0]["input_schema"]["properties"]["path"].is_object());
    // A tool can be called by the name that the search returned.
    assert_eq!(gate.ok("normal_S_echo", &json!({"text": "x"})), "x");
    assert_eq!(gate.ok("mcp/search-tools", &json!({"query": "zzzz"})), "[]");
}
