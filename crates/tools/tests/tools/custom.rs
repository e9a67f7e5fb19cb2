//! Tests of custom tools: invalid definition files, and runs.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cleveragents_domain::{Code, DefinitionFileError, Diagnose as _};
use cleveragents_tools::custom::{self, CustomTool};
use cleveragents_tools::{
    Access, CallOutcome, Environment, FailureKind, Registry, Safety, Tool as _,
};
use serde_json::{Value, json};

use crate::support::{Folder, GateFixture, SECRET};

fn variables(name: &str) -> Option<String> {
    match name {
        "LIMIT" => Some("7".to_owned()),
        "YES" => Some("true".to_owned()),
        "WORD" => Some("hello".to_owned()),
        _ => None,
    }
}

fn read(text: &str) -> Result<CustomTool, DefinitionFileError> {
    custom::read(text, Path::new("tools/x.yaml"), &variables)
}

fn tool(text: &str) -> CustomTool {
    read(text).unwrap_or_else(|error| panic!("{error}"))
}

fn fixture(text: &str) -> GateFixture {
    let mut registry = Registry::with_builtins();
    registry.add(Arc::new(tool(text))).expect("registered");
    GateFixture::new(registry, Some(Folder::new(&["app"])))
}

fn broken_files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/broken");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    files
}

/// The first line of each file contains the expected error: the position, the message, the fix.
#[test]
fn every_broken_file_has_one_error_with_position_and_fix() {
    let files = broken_files();
    assert!(files.len() >= 30, "{}", files.len());
    let mut mismatches = Vec::new();
    for path in files {
        let text = std::fs::read_to_string(&path).expect("read");
        let name = Path::new(path.file_name().expect("a name"));
        let message = match custom::read(&text, name, &variables) {
            Ok(_) => "no error".to_owned(),
            Err(error) => {
                assert!(matches!(
                    error.code(),
                    Code::MalformedTool | Code::InvalidTool
                ));
                let hint = error.hint().expect("a fix").neutral();
                assert!(
                    !hint.is_empty() && error.line > 0 && error.column > 0,
                    "{error}"
                );
                format!("{error} | {hint}")
            }
        };
        let expected = text.lines().next().unwrap_or_default();
        let expected = expected
            .strip_prefix("# expects: ")
            .expect("an expected error");
        let message = message
            .strip_prefix(&format!("{}:", name.display()))
            .unwrap_or(&message)
            .to_owned();
        if message != expected {
            mismatches.push(format!(
                "{}\n  expected {expected}\n  message     {message}",
                name.display()
            ));
        }
    }
    assert!(mismatches.is_empty(), "{}", mismatches.join("\n"));
}

#[test]
fn both_forms_of_a_file_define_the_same_tool() {
    let nested = tool(
        "cleveragents: {version: \"3.0\"}
tool:
  name: local/vacuum
  description: compacts the ${WORD} database
  source: custom
  tool_type: tool
  command: [vacuum, --full, \"${WORD}\", \"${MISSING:none}\"]
  input_schema: {type: object, properties: {count: {type: integer, maximum: \"${LIMIT}\"}}}
  resources:
    db: {type: \"local/${NO:database}\", access: read_write, required: true, description: the database}
  capability: {writes: true, checkpointable: true, checkpoint_scope: '${NO:transaction}', write_scope: 'database:x',
    side_effects: ['${NO:schema}'], idempotent: \"${YES}\", unsafe: true, human_approval_required: true,
    environment: {specific: \"${NO:box}\"}}
  timeout: \"${LIMIT}\"
",
    );
    let flat = tool(
        "name: local/vacuum
description: compacts the hello database
command: [vacuum, --full, hello, none]
input_schema: {type: object, properties: {count: {type: integer, maximum: 7}}}
resource_slots:
  - {name: db, type: local/database, access: read_write, description: the database}
writes: true
checkpointable: true
checkpoint_scope: transaction
write_scope: ['database:x']
side_effects: schema
idempotent: true
unsafe: true
human_approval_required: true
execution_environment: {specific: box}
timeout: 7
",
    );
    assert_eq!(nested.spec(), flat.spec());
    assert_eq!(nested.program(), flat.program());
    let spec = flat.spec();
    assert_eq!(
        spec.capability.environment,
        Environment::Specific("box".to_owned())
    );
    assert!(
        spec.capability.is_unsafe && spec.capability.needs_approval && spec.capability.idempotent
    );
    assert_eq!(spec.timeout.as_secs(), 7);
    assert_eq!(spec.resources[0].access, Access::Writes);
}

#[test]
fn by_default_a_tool_writes_and_times_out_after_five_minutes() {
    let spec = tool("name: x\ndescription: d\ncommand: [x]").spec().clone();
    assert_eq!(spec.name.to_string(), "local/x");
    assert_eq!(spec.capability.access, Access::Writes);
    assert!(!spec.capability.idempotent && !spec.capability.is_unsafe);
    assert_eq!(spec.timeout.as_secs(), 300);
    let spec = tool("name: x\ndescription: d\ncommand: [x]\nread_only: true")
        .spec()
        .clone();
    assert_eq!(spec.capability.access, Access::Reads);
    assert!(spec.capability.idempotent);
}

#[test]
fn the_schema_for_editors_agrees_with_the_reader() {
    let schema = custom::schema();
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let valid = json!({"name": "local/x", "description": "d", "command": ["x"], "write_scope": ["a"],
        "capability": {"read_only": true}, "resources": {"a": {"type": "t"}}, "execution_environment": "none"});
    assert!(
        validator.is_valid(&valid),
        "{:?}",
        validator.iter_errors(&valid).next()
    );
    assert!(validator.is_valid(&json!({"cleveragents": {"version": "3.0"}, "tool": valid})));
    for invalid in [
        json!({"nmae": "local/x", "description": "d"}),
        json!({"name": "local/x", "description": "d", "command": "x"}),
        json!({"name": "local/x", "description": "d", "capability": {"reads": true}}),
    ] {
        assert!(!validator.is_valid(&invalid), "{invalid}");
    }
    // Aliases of fields are allowed; a required field may be given by its alias.
    let slots =
        |slot: Value| json!({"name": "local/x", "description": "d", "resource_slots": [slot]});
    let slot_with_aliases =
        json!({"name": "db", "resource_type": "t", "binding_mode": "static", "resource": "r"});
    assert!(validator.is_valid(&slots(slot_with_aliases)));
    assert!(!validator.is_valid(&slots(json!({"name": "db"}))));
    // The schema detects most errors; the other files break rules that no schema can express.
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/broken");
    let (mut total, mut detected) = (0, 0);
    for file in std::fs::read_dir(corpus).expect("a folder") {
        let text = std::fs::read_to_string(file.expect("a file").path()).expect("text");
        let value = serde_saphyr::from_str::<Value>(&text);
        total += 1;
        detected += usize::from(!value.is_ok_and(|value| validator.is_valid(&value)));
    }
    assert!(detected * 2 > total, "{detected} of {total}");
}

#[test]
fn python_code_may_be_a_body_a_function_or_a_script() {
    for code in [
        "return {'sum': input['a'] + input['b']}",
        "import json\ndef run(input):\n  print('working')\n  return {'sum': input['a'] + input['b']}",
        "import json, sys\ninput = json.load(sys.stdin)\nprint(json.dumps({'sum': input['a'] + input['b']}))",
        "text = '''\n  two lines\n'''\nif text == '\\n  two lines\\n':\n  return {'sum': input['a'] + input['b']}",
    ] {
        let file = json!({
            "name": "local/sum", "description": "adds", "code": code, "read_only": true,
            "input_schema": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}},
            "output_schema": {"type": "object", "required": ["sum"]},
        });
        let fixture = fixture(&file.to_string());
        let output = fixture.ok("local/sum", json!({"a": 2, "b": 40}));
        let output: Value = serde_json::from_str(&output).expect("JSON");
        assert_eq!(output, json!({"sum": 42}), "{code}");
        let expected_log = if code.contains("working") {
            "working\n"
        } else {
            ""
        };
        assert_eq!(fixture.ledger.last().log, expected_log);
    }
}

#[test]
fn a_command_in_any_language_reads_and_writes_json() {
    let folder = tempfile::tempdir().expect("a folder");
    let script =
        "#!/bin/sh\nread -r line\necho \"log of $1\" >&2\nprintf '{\"got\": %s}' \"$line\"\n";
    std::fs::write(folder.path().join("tool.sh"), script).expect("written");
    let text = "name: local/echo\ndescription: returns its input\ncommand: [./tool.sh, \"${WORD}\"]\nread_only: true\n";
    let place = folder.path().join("tool.sh");
    std::fs::set_permissions(place, std::fs::Permissions::from_mode(0o755)).expect("set");
    let tool = custom::read(text, &folder.path().join("x.yaml"), &variables).expect("a tool");
    let mut registry = Registry::empty();
    registry.add(Arc::new(tool)).expect("registered");
    let fixture = GateFixture::new(registry, Some(Folder::new(&["app"])));
    assert_eq!(
        fixture.ok("local/echo", json!({"a": [1, "é"]})),
        r#"{"got": {"a":[1,"é"]}}"#
    );
    assert_eq!(fixture.ledger.last().log, "log of hello\n");
}

#[test]
fn failures_of_a_tool_include_its_log() {
    let run_failing = |code: &str| {
        let file = json!({"name": "local/x", "description": "d", "code": code, "language": "sh", "timeout": 1});
        let fixture = fixture(&file.to_string());
        match fixture.call("local/x", json!({})) {
            CallOutcome::Failed(failure) => failure,
            other => panic!("{}", other.for_model()),
        }
    };
    let failure = run_failing("echo half; echo why >&2; exit 3");
    assert_eq!(failure.message, "exit code 3");
    assert_eq!(failure.shown.head, "half\n");
    assert_eq!(failure.log, "why\n");
    let failure = run_failing("echo no json");
    assert_eq!(failure.kind, FailureKind::BadOutput);
    assert!(
        failure.message.contains("not valid JSON"),
        "{}",
        failure.message
    );
    let failure = run_failing("true");
    assert_eq!(failure.kind, FailureKind::BadOutput);
    let failure = run_failing("sleep 1000 & sleep 1000");
    assert_eq!(failure.kind, FailureKind::Timeout);
    assert_eq!(run_failing("kill -9 $$").message, "terminated by signal 9");
}

#[test]
fn a_tool_receives_no_keys_and_its_output_is_redacted() {
    let code = format!(
        "import os, sys\nprint('{SECRET}', file=sys.stderr)\nreturn {{'env': dict(os.environ), 'k': '{SECRET}'}}"
    );
    let file = json!({"name": "local/x", "description": "d", "code": code});
    let fixture = fixture(&file.to_string());
    let output = fixture.ok("local/x", json!({}));
    assert!(
        output.contains("PATH") && output.contains("[REDACTED]") && !output.contains(SECRET),
        "{output}"
    );
    assert!(
        !output.contains("CARGO_MANIFEST_DIR"),
        "the environment of the test is not inherited"
    );
    assert_eq!(fixture.ledger.last().log, "[REDACTED]\n");
}

#[test]
fn changes_are_captured_and_large_arguments_are_passed_unchanged() {
    let code = "open('made', 'w').write(input['text'])\nreturn len(input['text'])";
    let file = json!({"name": "local/x", "description": "d", "code": code});
    let fixture = fixture(&file.to_string());
    let long = "x".repeat(3_000_000);
    assert_eq!(
        fixture.ok("local/x", json!({"text": long})).trim(),
        "3000000"
    );
    assert_eq!(fixture.folder().read("made").len(), 3_000_000);
    assert_eq!(
        fixture
            .folder()
            .captures
            .lock()
            .expect("not poisoned")
            .as_slice(),
        [None]
    );
    assert!(
        fixture.ledger.last().arguments.to_string().len() < 10_000,
        "long arguments are truncated in the row"
    );
}

#[test]
fn resources_are_bound_to_parts_of_the_sandbox() {
    let file = |slot: Value| {
        json!({"name": "local/x", "description": "d", "resources": {"db": slot},
            "code": "import os\nreturn os.environ.get('CLEVERAGENTS_RESOURCE_DB', 'none')"})
        .to_string()
    };
    let fixture = fixture(&file(json!({"type": "app"})));
    let output = fixture.ok("local/x", json!({}));
    assert_eq!(
        output.trim().trim_matches('"'),
        fixture.folder().top().to_str().expect("utf-8")
    );
    let fixture = self::fixture(&file(json!({"type": "other"})));
    let (kind, message) = fixture.refused("local/x", json!({}));
    assert_eq!(kind, "bad_arguments");
    assert!(
        message.contains("`other`") && message.contains("`db`"),
        "{message}"
    );
    let fixture = self::fixture(&file(json!({"type": "other", "required": false})));
    assert_eq!(fixture.ok("local/x", json!({})).trim(), "\"none\"");
    let fixture = self::fixture(&file(
        json!({"type": "x", "binding": "static", "resource": "app"}),
    ));
    assert!(fixture.ok("local/x", json!({})).contains("app"));
    let fixture = self::fixture(&file(json!({"type": "x", "binding": "parameter"})));
    assert!(fixture.ok("local/x", json!({"db": "app"})).contains("app"));
    assert_eq!(
        fixture.refused("local/x", json!({"db": "none"})).0,
        "bad_arguments"
    );
    let mut registry = Registry::empty();
    registry
        .add(Arc::new(tool(&file(
            json!({"type": "app", "access": "read_write"}),
        ))))
        .expect("registered");
    let fixture = GateFixture::new(registry, Some(Folder::new(&["app"]).read_only()));
    assert_eq!(fixture.refused("local/x", json!({})).0, "read_only_part");
}

#[test]
fn names_are_unique_and_builtins_cannot_be_replaced() {
    let mut registry = Registry::with_builtins();
    let new_tool = || Arc::new(tool("name: local/x\ndescription: d\ncommand: [x]"));
    registry.add(new_tool()).expect("registered");
    assert_eq!(
        registry.add(new_tool()).expect_err("twice").code(),
        Code::ToolExists
    );
    assert_eq!(
        registry
            .remove("builtin/shell")
            .expect_err("built in")
            .code(),
        Code::BuiltInTool
    );
    assert_eq!(
        registry.remove("local/y").expect_err("none").code(),
        Code::ToolNotFound
    );
    assert_eq!(
        registry
            .remove("local/x")
            .expect("removed")
            .name
            .to_string(),
        "local/x"
    );
    assert!(registry.get("local/x").is_err());
}

#[test]
fn examples_in_the_documentation_work() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let pages = ["reference/tools.md", "tutorials/first-tool.md"]
        .map(|page| std::fs::read_to_string(docs.join(page)).expect("the page"))
        .concat();
    let examples: Vec<&str> = pages
        .split("```yaml\n")
        .skip(1)
        .filter_map(|block| block.split("```").next())
        .collect();
    let [safety, long, tool, _script] = examples.as_slice() else {
        panic!("four examples: {examples:#?}");
    };
    for (example, schema) in [
        (safety, Safety::schema()),
        (tool, custom::schema()),
        (long, custom::schema()),
    ] {
        let value: Value = serde_saphyr::from_str(example).expect("YAML");
        let validator = jsonschema::validator_for(&schema).expect("a schema");
        assert!(validator.is_valid(&value), "{example}");
    }
    let profile = Safety::read(safety, Path::new("team.yaml")).expect("it reads");
    assert!(profile.guards.require_approval_for_writes);
    assert!(read(long).is_ok());
    let fixture = fixture(tool);
    fixture.folder().write("a.txt", "1\n2\n3\n");
    assert_eq!(
        fixture.ok("local/count-lines", json!({"path": "a.txt"})),
        "{\"lines\": 3}\n"
    );
}
